// SPDX-License-Identifier: MIT
// A folder with photographs, a COLMAP model, masks and depth maps.
#ifndef TESTS_GAUSSIANS_DATASET_FOLDER_H
#define TESTS_GAUSSIANS_DATASET_FOLDER_H

#include "colmap_model.h"
#include "dataset.h"
#include "images/image.h"

inline dataset_options options_of(int downscale, std::array<float, 3> background = {0, 0, 0}) {
    dataset_options options = {};
    options.downscale = downscale;
    std::copy(background.begin(), background.end(), options.background);
    return options;
}

class Dataset : public testing::Test {
  protected:
    void TearDown() override { dataset_close(&got); }
    void write_model() {
        write_bytes(folder / "sparse/0/cameras.bin", bytes_of(cameras));
        write_bytes(folder / "sparse/0/images.bin", bytes_of(images));
        write_bytes(folder / "sparse/0/points3D.bin", bytes_of(points));
        std::filesystem::create_directories(folder / "images");
    }
    // Its pixel (x, y) is (seed + x, 10 y, seed) and, if there are four channels, has alpha 16 (x + y).
    void write_picture(const std::string &name, int width, int height, int seed, int channels = 3) {
        image picture;
        ASSERT_TRUE(image_open(&picture, width, height, channels, &why)) << why.text;
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                uint8_t *pixel = picture.pixels + (y * width + x) * channels;
                pixel[0] = uint8_t(seed + x);
                pixel[1] = uint8_t(10 * y);
                pixel[2] = uint8_t(seed);
                if (channels == 4) pixel[3] = uint8_t(16 * (x + y));
            }
        EXPECT_TRUE(image_write_png((folder / ("images/" + name)).c_str(), &picture, &why)) << why.text;
        image_close(&picture);
    }
    // gray(x, y): of the mask; channels 4: opaque.
    template <typename Gray>
    void write_mask(const std::string &name, int width, int height, const Gray &gray, int channels = 3) {
        image mask;
        ASSERT_TRUE(image_open(&mask, width, height, channels, &why));
        for (int i = 0; i < width * height; i++)
            memset(mask.pixels + i * channels, gray(i % width, i / width), size_t(channels));
        std::filesystem::create_directories(folder / "masks");
        EXPECT_TRUE(image_write_png((folder / ("masks/" + name)).c_str(), &mask, &why)) << why.text;
        image_close(&mask);
    }
    void write_all() {
        write_model();
        write_picture("b.png", 8, 6, 20);
        write_picture("a.png", 7, 5, 40);
    }
    bool load(int downscale, std::array<float, 3> background = {0, 0, 0}) {
        dataset_close(&got);
        const dataset_options options = options_of(downscale, background);
        testing::internal::CaptureStderr();
        const bool loaded = dataset_load(folder.path.c_str(), &options, &got, &why);
        warning = testing::internal::GetCapturedStderr();
        return loaded;
    }
    // The one line that is said of what is in the folder.
    std::string says(const std::string &text) const { return "dsplat: " + folder.path + ": " + text + "\n"; }

    // value(x, y), as PFM or PNG by the name.
    template <typename Value>
    void write_depth(const std::string &name, int width, int height, const Value &value) {
        plane map;
        ASSERT_TRUE(plane_open(&map, width, height, &why));
        for (int i = 0; i < width * height; i++) map.values[i] = value(i % width, i / width);
        std::filesystem::create_directories(std::filesystem::path(folder / ("depth/" + name)).parent_path());
        const auto write = name.find(".pfm") == std::string::npos ? plane_write_png : plane_write_pfm;
        EXPECT_TRUE(write((folder / ("depth/" + name)).c_str(), &map, &why)) << why.text;
        plane_close(&map);
    }
    bool load_depth(int downscale, depth_maps_of of = DEPTH_MAPS_TRAINING) {
        const dataset_options options = options_of(downscale);
        return depth_maps_load(&got, (folder / "depth").c_str(), &options, of, &why);
    }

    TemporaryFolder folder;
    std::vector<ColmapCamera> cameras = {{1, 1, 8, 6, {10, 11, 4.5, 3.25}}, {2, 1, 7, 5, {9, 8, 3, 2}}};
    std::vector<ColmapImage> images = {{"b.png", 1, {1, 0, 0, 0}, {0, 0, 1}, 1},
                                       {"a.png", 2, {0, 1, 0, 0}, {0, 0, 2}, 0}};
    std::vector<ColmapPoint> points = {{{1, 2, 3}, {9, 8, 7}, 1}};
    dataset got = {};
    fault why = {};
    std::string warning;
};

#endif
