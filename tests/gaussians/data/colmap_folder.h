// SPDX-License-Identifier: MIT
// A folder with a COLMAP model, binary or text.
#ifndef TESTS_GAUSSIANS_COLMAP_FOLDER_H
#define TESTS_GAUSSIANS_COLMAP_FOLDER_H

#include "colmap_model.h"
#include "reconstruction.h"
#include <cmath>

class Colmap : public testing::Test {
  protected:
    void TearDown() override { reconstruction_close(&got); }
    void write() {
        write_bytes(cameras_bin, bytes_of(cameras));
        write_bytes(images_bin, bytes_of(images));
        write_bytes(points_bin, bytes_of(points));
    }
    // As text instead.
    void write_text() {
        for (const std::string &path : {cameras_bin, images_bin, points_bin}) std::filesystem::remove(path);
        write_bytes(cameras_txt, text_of(cameras));
        write_bytes(images_txt, text_of(images));
        write_bytes(points_txt, text_of(points));
    }
    // All that files say.
    static std::vector<double> lens_tuple(lens l) {
        std::vector<double> out = {double(l.width), double(l.height), double(l.fisheye)};
        for (const lens_parameter &p : lens_parameters) out.push_back(*lens_value(&l, &p));
        return out;
    }
    bool load(fault *reason) {
        reconstruction_close(&got);
        testing::internal::CaptureStderr();
        const bool loaded = colmap_load(folder.path.c_str(), tracks, &got, reason) &&
                            reconstruction_settle(&got, folder.path.c_str(), true, reason);
        warning = testing::internal::GetCapturedStderr();
        if (!loaded) reconstruction_close(&got);
        return loaded;
    }

    TemporaryFolder folder;
    const std::string cameras_bin = folder / "cameras.bin", images_bin = folder / "images.bin",
                      points_bin = folder / "points3D.bin", cameras_txt = folder / "cameras.txt",
                      images_txt = folder / "images.txt", points_txt = folder / "points3D.txt";
    std::vector<ColmapCamera> cameras = {{5, 1, 640, 480, {500, 510, 320.5, 240.25}},
                                         {2, 1, 8, 6, {10, 11, 4, 3}}};
    std::vector<ColmapImage> images = {{"b.png", 5, {std::sqrt(0.5), 0, 0, std::sqrt(0.5)}, {1, 2, 3}, 2},
                                       {"a/c.png", 2, {3, 0, 0, 0}, {-1, 0, 0}, 0}};
    std::vector<ColmapPoint> points = {{{0.5, -1, 2}, {1, 2, 3}, 2}, {{4, 5, 6}, {255, 0, 128}, 0}};
    reconstruction got = {};
    fault why = {};
    bool tracks = false;
    std::string warning;
};

#endif
