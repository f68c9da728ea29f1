// SPDX-License-Identifier: MIT
// Runs the built program `dsplat` as a user runs it, on data made for it. DSPLAT_PROGRAM is its path.
#ifndef PROGRAM_RUN_H
#define PROGRAM_RUN_H

#include "run_program.h"
#include "images/image.h"
#include "scene.h"
#include <gtest/gtest.h>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>

using namespace std::string_literals;

class Program : public ProgramTest {
  protected:
    outcome splat(const std::vector<std::string> &arguments) const { return run(DSPLAT_PROGRAM, arguments); }
    // The words of a command line; @NAME is a path in the test's folder.
    std::vector<std::string> words(const std::string &line) const {
        std::istringstream text(line);
        std::vector<std::string> all;
        for (std::string word; text >> word;)
            all.push_back(word[0] == '@' ? at(word.c_str() + 1).string() : word);
        return all;
    }
    outcome dsplat(const std::string &line) const { return splat(words(line)); }
    struct refusal {
        std::string line;
        int code;
        std::string says; // on stderr
    };
    // Each is refused with its words, and leaves no file.
    void refuses(const std::vector<refusal> &table) const {
        const size_t files = files_in_folder();
        for (const refusal &row : table) {
            const outcome run = dsplat(row.line);
            EXPECT_EQ(run.code, row.code) << row.line;
            EXPECT_EQ(run.out, "") << row.line;
            EXPECT_CONTAINS(run.err, row.says);
            EXPECT_EQ(files_in_folder(), files) << row.line << ": something was left behind";
        }
    }
};

class bytes {
    std::ofstream file;

  public:
    explicit bytes(const fs::path &path) : file(path, std::ios::binary) {}
    template <typename T>
    bytes &operator<<(T value) {
        file.write(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }
    void text(const std::string &name) { file.write(name.c_str(), std::streamsize(name.size() + 1)); }
};

// A COLMAP folder: coloured points in a slab in front of five cameras in a row, photographed as discs. All lengths are
// times `unit_of_length`.
constexpr int photo_width = 40, photo_height = 28, photos = 5;

inline void write_colmap(const fs::path &folder, int points, double unit_of_length = 1) {
    const double focal = 36;
    struct disc {
        double position[3];
        uint8_t color[3];
    };
    std::vector<disc> discs(static_cast<size_t>(points));
    std::mt19937 random(3);
    auto unit = [&] { return double(random()) / 4294967296.0; };
    for (disc &d : discs) {
        d = {{2.4 * unit() - 1.2, 1.6 * unit() - 0.8, 3 + 0.6 * unit()}, {}};
        for (uint8_t &channel : d.color) channel = uint8_t(60 + 190 * unit());
    }
    fs::create_directories(folder / "images");
    fs::create_directories(folder / "sparse/0");
    bytes(folder / "sparse/0/cameras.bin")
        << uint64_t(1) << uint32_t(1) << int32_t(1) << uint64_t(photo_width) << uint64_t(photo_height)
        << focal << focal << photo_width / 2.0 << photo_height / 2.0;
    bytes views(folder / "sparse/0/images.bin");
    views << uint64_t(photos);
    for (int v = 0; v < photos; v++) {
        double shift = 0.15 * (v - 2); // of the world in the camera
        std::string name = "photo" + std::to_string(v) + ".png";
        views << uint32_t(v + 1) << 1.0 << 0.0 << 0.0 << 0.0 << shift * unit_of_length << 0.0 << 0.0
              << uint32_t(1);
        views.text(name);
        views << uint64_t(0);
        image picture;
        fault why;
        ASSERT_TRUE(image_open(&picture, photo_width, photo_height, 3, &why)) << why.text;
        for (const disc &d : discs) {
            double x = focal * (d.position[0] + shift) / d.position[2] + photo_width / 2.0;
            double y = focal * d.position[1] / d.position[2] + photo_height / 2.0;
            for (int j = 0; j < photo_height; j++)
                for (int i = 0; i < photo_width; i++)
                    if (std::hypot(i + 0.5 - x, j + 0.5 - y) < 2.5)
                        memcpy(picture.pixels + 3 * (j * photo_width + i), d.color, 3);
        }
        ASSERT_TRUE(image_write_png((folder / "images" / name).c_str(), &picture, &why)) << why.text;
        image_close(&picture);
    }
    bytes model(folder / "sparse/0/points3D.bin");
    model << uint64_t(points);
    for (size_t i = 0; i < discs.size(); i++) {
        model << uint64_t(i + 1);
        for (double x : discs[i].position) model << x * unit_of_length;
        model << discs[i].color[0] << discs[i].color[1] << discs[i].color[2] << 0.5 << uint64_t(0);
    }
}

// A scene of `count` Gaussians at one place.
inline void write_scene(const fs::path &path, int count, float x, float y, float z) {
    gs_gaussians scene;
    fault why;
    ASSERT_TRUE(scene_open(&scene, count, 0, &why)) << why.text;
    for (int i = 0; i < count; i++) {
        const float position[3] = {x, y, z};
        for (int axis = 0; axis < 3; axis++) {
            scene.mean[3 * i + axis] = position[axis];
            scene.log_scale[3 * i + axis] = -2;
            scene.sh[3 * i + axis] = axis == 0 ? 1.7f : -1.7f; // red
        }
        scene.quaternion[4 * i] = 1;
        scene.opacity_logit[i] = 3;
    }
    ASSERT_TRUE(scene_write(path.c_str(), &scene, &why)) << why.text;
    scene_close(&scene);
}

struct picture : image {
    explicit picture(const fs::path &path) : image{} {
        fault why;
        EXPECT_TRUE(image_read(path.c_str(), this, &why)) << why.text;
    }
    ~picture() { image_close(this); }
    picture(const picture &) = delete;
    // Pixels that are not of this colour.
    int others(std::array<int, 3> color) const {
        int count = 0;
        for (int p = 0; p < width * height; p++)
            count += !(pixels[channels * p] == color[0] && pixels[channels * p + 1] == color[1] &&
                       pixels[channels * p + 2] == color[2]);
        return count;
    }
};

#endif
