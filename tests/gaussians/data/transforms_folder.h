// SPDX-License-Identifier: MIT
// A folder with a transforms.json, and the texts that it is made of.
#ifndef TESTS_GAUSSIANS_TRANSFORMS_FOLDER_H
#define TESTS_GAUSSIANS_TRANSFORMS_FOLDER_H

#include "dataset.h"
#include "files.h"
#include "transforms.h"
#include <array>
#include <sstream>

// Column-major thinking, row-major text: the camera's right, up and back, and where it stands.
using Vector = std::array<double, 3>;
inline std::string matrix(Vector right, Vector up, Vector back, Vector place) {
    std::ostringstream text;
    text.precision(17);
    text << "[";
    for (size_t row = 0; row < 3; row++)
        text << "[" << right[row] << "," << up[row] << "," << back[row] << "," << place[row] << "],";
    text << "[0,0,0,1]]";
    return text.str();
}
inline const std::string straight = matrix({1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 2, 3});

inline std::string frame(const std::string &name, const std::string &pose = straight,
                         const std::string &more = "") {
    return "{\"file_path\":\"" + name + "\",\"transform_matrix\":" + pose + more + "}";
}
inline std::string replaced(std::string text, const std::string &from, const std::string &to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

class Transforms : public testing::Test {
  protected:
    void TearDown() override { reconstruction_close(&got), dataset_close(&data); }
    bool load_data(const dataset_options &options) {
        dataset_close(&data);
        return dataset_load(folder.path.c_str(), &options, &data, &why);
    }
    // Loads; warnings go to `warning`.
    bool load(fault *reason) {
        reconstruction_close(&got);
        testing::internal::CaptureStderr();
        const bool loaded = transforms_load(folder.path.c_str(), &got, reason) &&
                            reconstruction_settle(&got, folder.path.c_str(), false, reason);
        if (!loaded) reconstruction_close(&got);
        warning = testing::internal::GetCapturedStderr();
        return loaded;
    }
    bool load(const std::string &json) {
        write_bytes(path, json);
        return load(&why);
    }
    // Where the only camera sees a world point.
    Vector seen(const Vector &world) {
        Vector out;
        const reconstruction_view &view = got.views[0];
        for (size_t row = 0; row < 3; row++) {
            out[row] = view.translation[row];
            for (size_t i = 0; i < 3; i++) out[row] += view.rotation[3 * row + i] * world[i];
        }
        return out;
    }
    void touch(const std::string &name) { write_bytes(folder / name, ""); }
    void write_picture(const std::string &name, int width, int height, int channels,
                       std::array<int, 4> color) {
        image picture;
        ASSERT_TRUE(image_open(&picture, width, height, channels, &why)) << why.text;
        for (int i = 0; i < width * height * channels; i++)
            picture.pixels[i] = uint8_t(color[size_t(i % channels)]);
        std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
        ASSERT_TRUE(image_write_png((folder / name).c_str(), &picture, &why)) << why.text;
        image_close(&picture);
    }

    TemporaryFolder folder;
    const std::string path = folder / "transforms.json";
    reconstruction got = {};
    dataset data = {};
    fault why = {};
    std::string warning;
};

inline const std::string ngp =
    "{\"fl_x\":100.5,\"fl_y\":101,\"cx\":40,\"cy\":30.5,\"w\":80,\"h\":60.0,"
    "\"k1\":0.1,\"k2\":-0.2,\"p1\":0.01,\"p2\":0.02,\"camera_angle_x\":0.7,\"aabb_scale\":4,"
    "\"scale\":0.33,\"offset\":[0.5,0.5,0.5],\"frames\":[";

#endif
