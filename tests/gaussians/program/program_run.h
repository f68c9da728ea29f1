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

// The number that a program prints after a text.
inline double number_after(const std::string &text, const std::string &mark) {
    const size_t found = text.find(mark);
    return found == std::string::npos ? NAN : std::strtod(text.c_str() + found + mark.size(), nullptr);
}

inline size_t occurrences(const std::string &text, const std::string &part) {
    size_t found = 0;
    for (size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) found++;
    return found;
}

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
    picture(picture &&other) : image(std::exchange(static_cast<image &>(other), {})) {}
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

inline std::string photo_name(int view) {
    return "photo" + std::to_string(view) + ".png";
}

inline void write_colmap(const fs::path &folder, int points, double unit_of_length = 1) {
    fs::create_directories(folder / "images");
    fs::create_directories(folder / "sparse/0");
    std::ofstream(folder / "sparse/0/cameras.txt") << "1 PINHOLE 40 28 36 36 20 14\n";
    std::ofstream views(folder / "sparse/0/images.txt"), model(folder / "sparse/0/points3D.txt");
    views.precision(17), model.precision(17);
    const auto shift = [](int view) { return 0.15 * (view - 2); }; // of the world in the camera
    std::vector<picture> shown;
    for (int v = 0; v < photos; v++) {
        views << v + 1 << " 1 0 0 0 " << shift(v) * unit_of_length << " 0 0 1 " << photo_name(v) << "\n\n";
        shown.emplace_back(photo_width, photo_height, 0);
    }
    std::mt19937 random(3);
    auto unit = [&] { return double(random()) / 4294967296.0; };
    for (int n = 0; n < points; n++) {
        const double at[3] = {2.4 * unit() - 1.2, 1.6 * unit() - 0.8, 3 + 0.6 * unit()};
        uint8_t color[3];
        for (uint8_t &channel : color) channel = uint8_t(60 + 190 * unit());
        model << n + 1;
        for (double x : at) model << ' ' << x * unit_of_length;
        for (int channel : color) model << ' ' << channel;
        model << " 0.5\n";
        for (int v = 0; v < photos; v++) { // later points in front
            const double x = 36 * (at[0] + shift(v)) / at[2] + 20, y = 36 * at[1] / at[2] + 14;
            for (int j = 0; j < photo_height; j++)
                for (int i = 0; i < photo_width; i++)
                    if (std::hypot(i + 0.5 - x, j + 0.5 - y) < 2.5)
                        memcpy(shown[size_t(v)].pixels + 3 * (j * photo_width + i), color, 3);
        }
    }
    for (int v = 0; v < photos; v++) shown[size_t(v)].write(folder / "images" / photo_name(v));
}

// In place of the COLMAP model: a transforms.json of one photograph, images/NAME.
inline void as_transforms(const fs::path &folder, const std::string &name) {
    fs::remove_all(folder / "sparse");
    std::ofstream(folder / "transforms.json")
        << R"({"fl_x":36,"w":40,"h":28,"frames":[{"file_path":"images/)" << name
        << R"(","transform_matrix":[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]})";
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
