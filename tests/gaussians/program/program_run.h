// SPDX-License-Identifier: MIT
// Runs the built program `dsplat` as a user runs it, on data made for it. DSPLAT_PROGRAM is its path.
#ifndef PROGRAM_RUN_H
#define PROGRAM_RUN_H

#include "run_program.h"
#include "images/image.h"
#include "scene.h"
#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>

using namespace std::string_literals;

class Program : public ProgramTest {
  protected:
    outcome splat(const std::vector<std::string> &arguments) const { return run(DSPLAT_PROGRAM, arguments); }
    outcome dsplat(const std::string &line) const { return splat(words(line)); }
    // The same, which must end well.
    outcome done(const std::string &line) const {
        const outcome got = dsplat(line);
        EXPECT_EQ(got.code, 0) << line << "\n" << got.err;
        return got;
    }
    // Starts it; `ended` waits for it.
    pid_t background(const std::string &line) const {
        std::vector<std::string> all = words(line);
        all.insert(all.begin(), DSPLAT_PROGRAM);
        return started(all, at("out"), at("err"));
    }
    void refuses(const std::vector<refusal> &table) const { ProgramTest::refuses(DSPLAT_PROGRAM, table); }
    void says(const std::vector<saying> &table) const { ProgramTest::says(DSPLAT_PROGRAM, table); }
};

inline size_t occurrences(const std::string &text, const std::string &part) {
    size_t found = 0;
    for (size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) found++;
    return found;
}

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

struct picture : image {
    explicit picture(const fs::path &path) : image{} {
        fault why;
        EXPECT_TRUE(image_read(path.c_str(), this, &why)) << why.text;
    }
    // Of three channels, all of one value.
    picture(int its_width, int its_height, int value) : image{} {
        fault why;
        EXPECT_TRUE(image_open(this, its_width, its_height, 3, &why)) << why.text;
        std::fill_n(pixels, 3 * size_t(width) * size_t(height), uint8_t(value));
    }
    ~picture() { image_close(this); }
    picture(const picture &) = delete;
    void write(const fs::path &path) const {
        fault why;
        EXPECT_TRUE(image_write_png(path.c_str(), this, &why)) << why.text;
    }
    // Pixels that are not of this colour.
    int others(std::array<int, 3> color) const {
        int count = 0;
        for (int p = 0; p < width * height; p++)
            count += !(pixels[channels * p] == color[0] && pixels[channels * p + 1] == color[1] &&
                       pixels[channels * p + 2] == color[2]);
        return count;
    }
};

// A scene of the host, until the end.
struct host_scene : gs_gaussians {
    explicit host_scene(const fs::path &path) : gs_gaussians{} {
        fault why;
        EXPECT_TRUE(scene_read(path.c_str(), SCENE_FINITE, this, &why)) << why.text;
    }
    host_scene(int64_t gaussians, int degree) : gs_gaussians{} {
        fault why;
        EXPECT_TRUE(scene_open(this, gaussians, degree, &why)) << why.text;
    }
    ~host_scene() { scene_close(this); }
    host_scene(host_scene &&other) : gs_gaussians(std::exchange(static_cast<gs_gaussians &>(other), {})) {}
    void write(const fs::path &path) const {
        fault why;
        EXPECT_TRUE(scene_write(path.c_str(), this, &why)) << why.text;
    }
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
        const picture photo(photo_width, photo_height, 0);
        for (const disc &d : discs) {
            double x = focal * (d.position[0] + shift) / d.position[2] + photo_width / 2.0;
            double y = focal * d.position[1] / d.position[2] + photo_height / 2.0;
            for (int j = 0; j < photo_height; j++)
                for (int i = 0; i < photo_width; i++)
                    if (std::hypot(i + 0.5 - x, j + 0.5 - y) < 2.5)
                        memcpy(photo.pixels + 3 * (j * photo_width + i), d.color, 3);
        }
        photo.write(folder / "images" / name);
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
    const host_scene scene(count, 0);
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
    scene.write(path);
}

#endif
