// SPDX-License-Identifier: MIT
#include "colmap_model.h"
#include "depth_maps.h"
#include "images/plane.h"
#include <cmath>

namespace {

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
        const dataset_options options = {
            downscale, {background[0], background[1], background[2]}, nullptr, nullptr, false, false, false};
        return dataset_load(folder.path.c_str(), &options, &got, &why);
    }
    void expect_refusal(const std::string &path, const std::string &part) {
        EXPECT_FALSE(load(1)) << part;
        EXPECT_TRUE(contains(why, path + ": ") && contains(why, part)) << why.text;
        EXPECT_EQ(got.views, nullptr);
        EXPECT_EQ(got.points, nullptr);
    }

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
        const dataset_options options = {downscale, {0, 0, 0}, nullptr, nullptr, false, false, false};
        return depth_maps_load(&got, (folder / "depth").c_str(), &options, of, &why);
    }

    TemporaryFolder folder;
    std::vector<ColmapCamera> cameras = {{1, 1, 8, 6, {10, 11, 4.5, 3.25}}, {2, 1, 7, 5, {9, 8, 3, 2}}};
    std::vector<ColmapImage> images = {{"b.png", 1, {1, 0, 0, 0}, {0, 0, 1}, 1},
                                       {"a.png", 2, {0, 1, 0, 0}, {0, 0, 2}, 0}};
    std::vector<ColmapPoint> points = {{{1, 2, 3}, {9, 8, 7}, 1}};
    dataset got = {};
    fault why = {};
};

TEST_F(Dataset, LoadsPicturesByName) {
    write_all();
    ASSERT_TRUE(load(1)) << why.text;
    ASSERT_EQ(got.view_count, 2u);
    const dataset_view &a = got.views[0], &b = got.views[1];
    EXPECT_STREQ(a.name, "a.png");
    EXPECT_STREQ(b.name, "b.png");
    EXPECT_EQ(a.picture.width, 7);
    EXPECT_EQ(a.picture.height, 5);
    EXPECT_EQ(a.picture.channels, 3);
    EXPECT_EQ(a.picture.pixels[0], 40);
    EXPECT_EQ(b.picture.pixels[3 * (8 * 5 + 7) + 0], 27);
    EXPECT_EQ(b.picture.pixels[3 * (8 * 5 + 7) + 1], 50);
    EXPECT_EQ(a.camera.translation[2], 2.0f);
    EXPECT_EQ(a.camera.width, 7);
    EXPECT_EQ(a.camera.fx, 9.0f);
    EXPECT_EQ(got.point_count, 1u);
    EXPECT_EQ(got.colors[0][0], 9);
}

TEST_F(Dataset, ScalesCamerasWithPictures) {
    write_all();
    ASSERT_TRUE(load(2)) << why.text;
    const dataset_view &a = got.views[0], &b = got.views[1];
    EXPECT_EQ(a.picture.width, 3); // 7 x 5: the last column and row are cut off
    EXPECT_EQ(a.picture.height, 2);
    EXPECT_EQ(a.camera.width, 3);
    EXPECT_EQ(a.camera.height, 2);
    EXPECT_EQ(a.camera.fx, 4.5f);
    EXPECT_EQ(a.camera.fy, 4.0f);
    EXPECT_EQ(a.camera.cx, 1.5f);
    EXPECT_EQ(a.camera.cy, 1.0f);
    EXPECT_EQ(b.camera.cx, 2.25f);
    EXPECT_EQ(b.camera.cy, 1.625f);
    EXPECT_EQ(a.picture.pixels[0], 41); // of 40 and 41, halves upward
    EXPECT_EQ(a.picture.pixels[1], 5);  // of 0 and 10
    EXPECT_EQ(a.picture.pixels[3 * (3 * 1 + 2) + 1], 25);
}

TEST_F(Dataset, CamerasAreTheSameWithoutPictures) {
    write_all();
    for (int downscale : {1, 2, 6}) {
        ASSERT_TRUE(load(downscale)) << why.text;
        dataset cameras_only;
        dataset_options options = {downscale, {0, 0, 0}, dataset_no_picture, nullptr, false, false, false};
        ASSERT_TRUE(dataset_load(folder.path.c_str(), &options, &cameras_only, &why)) << why.text;
        ASSERT_EQ(cameras_only.view_count, got.view_count);
        for (size_t i = 0; i < got.view_count; i++) {
            EXPECT_EQ(memcmp(&cameras_only.views[i].camera, &got.views[i].camera, sizeof(gs_camera)), 0);
            EXPECT_EQ(cameras_only.views[i].picture.pixels, nullptr);
            EXPECT_STREQ(cameras_only.views[i].name, got.views[i].name);
        }
        dataset_close(&cameras_only);
    }
}

int white(int, int) {
    return 255;
}

std::string text_of(const dataset_view &view) {
    std::string text;
    const int pixels = view.picture.width * view.picture.height;
    for (int i = 0; view.mask && i < pixels; i++)
        text += view.mask[i] == 255 ? '1' : view.mask[i] == 0 ? '0' : '?';
    return text;
}

TEST_F(Dataset, ReadsMasksByBothNames) {
    write_all();
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_EQ(got.views[0].mask, nullptr);
    EXPECT_EQ(got.views[0].mask_path, nullptr);
    write_mask("a.png.png", 7, 5, [](int x, int y) { return x == 3 || y == 0 ? 0 : 1 + x; });
    write_mask("b.png", 8, 6, [](int x, int) { return x < 4 ? 255 : 0; });
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_EQ(text_of(got.views[0]), "0000000"
                                     "1110111"
                                     "1110111"
                                     "1110111"
                                     "1110111");
    EXPECT_EQ(text_of(got.views[1]), "111100001111000011110000111100001111000011110000");
    EXPECT_STREQ(got.views[0].mask_path, "masks/a.png.png");
    EXPECT_STREQ(got.views[1].mask_path, "masks/b.png");
    fault ignored;
    EXPECT_FALSE(
        dataset_spared(&got, (folder / "masks/b.png").c_str(), &ignored)); // it is one of the data's files
    // A smaller pixel counts if its whole block does.
    ASSERT_TRUE(load(2)) << why.text;
    EXPECT_EQ(text_of(got.views[0]), "000"
                                     "101");
    EXPECT_EQ(text_of(got.views[1]), "110011001100");
    EXPECT_FALSE(load(3)); // no block of a.png is whole
    EXPECT_TRUE(contains(why, folder / "images/a.png: its mask leaves no pixel that counts")) << why.text;
}

TEST_F(Dataset, UndistortsMasks) {
    cameras[0].model = 4;
    cameras[0].parameters = {10, 11, 4.5, 3.25, 0.4, 0, 0, 0};
    write_all();
    write_mask("a.png", 7, 5, white);
    write_mask("b.png", 8, 6, [](int x, int y) { return x == 6 && y == 3 ? 0 : 255; });
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_EQ(text_of(got.views[0]), std::string(35, '1'));
    const std::string text = text_of(got.views[1]);
    const auto masked = std::count(text.begin(), text.end(), '0');
    EXPECT_GE(masked, 2); // every pixel that the masked one is mixed into
    EXPECT_LE(masked, 6);
    EXPECT_EQ(std::count(text.begin(), text.end(), '1') + masked, 48);
    EXPECT_EQ(text[3 * 8 + 6], '0');
}

TEST_F(Dataset, MakesMasksOfAlpha) {
    write_model();
    write_picture("b.png", 8, 6, 20, 4); // alpha 16 (x + y): 0 in one corner
    write_picture("a.png", 7, 5, 40, 4);
    dataset_options options = {1, {1, 1, 1}, nullptr, nullptr, true, false, false};
    options.mask_from_alpha = true;
    ASSERT_TRUE(dataset_load(folder.path.c_str(), &options, &got, &why)) << why.text;
    for (size_t i = 0; i < 2; i++) {
        const dataset_view &view = got.views[i];
        std::string expected = text_of(view);
        expected.assign(expected.size(), '1')[0] = '0';
        EXPECT_EQ(text_of(view), expected);
        EXPECT_EQ(view.alpha, nullptr);
        EXPECT_EQ(view.picture.channels, 3);
        EXPECT_EQ(view.picture.pixels[0], i == 0 ? 40 : 20); // as the file has it
        EXPECT_EQ(view.picture.pixels[3], i == 0 ? 41 : 21);
    }
    EXPECT_FALSE(got.cut_out);
    dataset_close(&got);
    // Both masks apply.
    write_mask("b.png", 8, 6, [](int x, int) { return x == 7 ? 0 : 255; });
    write_mask("a.png", 7, 5, white);
    ASSERT_TRUE(dataset_load(folder.path.c_str(), &options, &got, &why)) << why.text;
    EXPECT_EQ(text_of(got.views[1]).substr(0, 16), "0111111011111110");
    dataset_close(&got);
    write_picture("a.png", 7, 5, 40, 3);
    EXPECT_FALSE(dataset_load(folder.path.c_str(), &options, &got, &why));
    EXPECT_TRUE(contains(why, folder / "images/a.png: has no alpha channel to make a mask of")) << why.text;
}

TEST_F(Dataset, RefusesBadMasks) {
    write_all();
    write_mask("a.png", 7, 5, white);
    expect_refusal(folder / "masks", "has no mask of the picture b.png, neither b.png.png nor b.png");
    write_mask("b.png", 8, 5, white);
    expect_refusal(folder / "masks/b.png", "the mask has 8 x 5 pixels, its picture 8 x 6");
    write_mask("b.png", 8, 6, white, 4);
    expect_refusal(folder / "masks/b.png", "a mask must not have an alpha channel");
    write_mask("b.png", 8, 6, [](int, int) { return 0; });
    expect_refusal(folder / "images/b.png", "its mask leaves no pixel that counts");
    write_bytes(folder / "masks/b.png", "no picture");
    expect_refusal(folder / "masks/b.png", "");
    write_mask("b.png", 8, 6, white);
    EXPECT_TRUE(load(1)) << why.text;
}

float ramp(int x, int y) {
    return 0.25f * float(x) + 2 * float(y);
}

TEST_F(Dataset, ReadsDepthMapsByEveryName) {
    images[0].name = "left/b.jpg.png"; // a picture in a folder, whose stem has a suffix
    write_model();
    std::filesystem::create_directories(folder / "images/left");
    write_picture("left/b.jpg.png", 8, 6, 20);
    write_picture("a.png", 7, 5, 40);
    ASSERT_TRUE(load(1)) << why.text;
    write_depth("a.pfm", 7, 5, ramp);
    write_depth("left/b.jpg.png", 8, 6, [](int x, int y) { return float(x + 8 * y) / 65535; });
    ASSERT_TRUE(load_depth(1)) << why.text;
    for (int i = 0; i < 35; i++) EXPECT_EQ(got.views[0].depth[i], ramp(i % 7, i / 7));
    for (int i = 0; i < 48; i++) EXPECT_EQ(got.views[1].depth[i], float(i) / 65535);
    fault ignored;
    EXPECT_FALSE(dataset_spared(&got, (folder / "depth/a.pfm").c_str(), &ignored));
    EXPECT_FALSE(dataset_spared(&got, (folder / "depth/left/b.jpg.png").c_str(), &ignored));
    // PNG comes before PFM, the whole name before its stem.
    write_depth("a.png", 7, 5, [](int, int) { return 1.0f; });
    write_depth("a.png.png", 7, 5, [](int, int) { return 0.0f; });
    ASSERT_TRUE(load_depth(1)) << why.text;
    EXPECT_EQ(got.views[0].depth[3], 0);
    std::filesystem::remove(folder / "depth/a.png.png");
    ASSERT_TRUE(load_depth(1)) << why.text;
    EXPECT_EQ(got.views[0].depth[3], 1);
}

TEST_F(Dataset, ReadsDepthMapsOfTheViewsThatAreAskedFor) {
    write_all();
    write_depth("b.pfm", 8, 6, ramp);
    ASSERT_TRUE(load(1)) << why.text;
    dataset_hold_out(&got, 2); // a.png
    ASSERT_TRUE(load_depth(1)) << why.text;
    EXPECT_EQ(got.views[0].depth, nullptr);
    EXPECT_NE(got.views[1].depth, nullptr);
    EXPECT_FALSE(load_depth(1, DEPTH_MAPS_HELD_OUT));
    EXPECT_FALSE(load_depth(1, DEPTH_MAPS_ALL));
    EXPECT_TRUE(contains(why, "a.png")) << why.text;
}

TEST_F(Dataset, DownscalesDepthMapsWithTheirPictures) {
    write_all();
    write_depth("a.pfm", 7, 5, [](int x, int y) {
        return x == 6 && y == 0 ? NAN : x == 3 && y == 1 ? INFINITY : ramp(x, y);
    });
    write_depth("b.pfm", 8, 6, ramp);
    ASSERT_TRUE(load(2)) << why.text;
    ASSERT_TRUE(load_depth(2)) << why.text;
    const float *a = got.views[0].depth; // 3 x 2; the last column and row are cut off
    EXPECT_FLOAT_EQ(a[0], ramp(0, 0) + 0.125f + 1);
    EXPECT_TRUE(std::isnan(a[1])); // made of an infinity
    EXPECT_FLOAT_EQ(a[3 + 2], ramp(4, 2) + 0.125f + 1);
    EXPECT_FLOAT_EQ(got.views[1].depth[4 * 2 + 3], ramp(6, 4) + 0.125f + 1);
}

// As the picture: the red channel of the pictures is a ramp too.
TEST_F(Dataset, UndistortsDepthMapsWithTheirPictures) {
    cameras[0].model = 4;
    cameras[0].parameters = {10, 11, 4.5, 3.25, 0.4, 0, 0.02, 0};
    write_all();
    write_depth("a.pfm", 7, 5, ramp);
    write_depth("b.pfm", 8, 6, [](int x, int) { return float(20 + x); });
    ASSERT_TRUE(load(1)) << why.text;
    ASSERT_TRUE(load_depth(1)) << why.text;
    int moved = 0;
    for (int i = 0; i < 48; i++) {
        EXPECT_NEAR(got.views[1].depth[i], got.views[1].picture.pixels[3 * i], 0.501) << i;
        moved += std::abs(got.views[1].depth[i] - float(20 + i % 8)) > 0.1f;
    }
    EXPECT_GT(moved, 4);
    EXPECT_EQ(got.views[0].depth[8], ramp(1, 1));
}

TEST_F(Dataset, RefusesBadDepthMaps) {
    write_all();
    ASSERT_TRUE(load(1)) << why.text;
    const auto refused = [&](const std::string &path, const std::string &part) {
        EXPECT_FALSE(load_depth(1)) << part;
        EXPECT_TRUE(contains(why, path + ": ") && contains(why, part)) << why.text;
    };
    write_depth("b.pfm", 8, 6, ramp);
    refused(folder / "depth",
            "has no depth map of the picture a.png, neither a.png.png nor a.png nor a.png.pfm nor a.pfm");
    write_depth("a.pfm", 7, 6, ramp);
    refused(folder / "depth/a.pfm", "the depth map has 7 x 6 values, its picture 7 x 5");
    write_depth("a.pfm", 7, 5, [](int x, int) { return x % 2 ? NAN : INFINITY; });
    refused(folder / "depth/a.pfm", "none of its values is finite");
    write_bytes(folder / "depth/a.pfm", "");
    refused(folder / "depth/a.pfm", "truncated at byte 0");
    write_depth("a.pfm", 7, 5, ramp);
    EXPECT_TRUE(load_depth(1)) << why.text;
    std::filesystem::copy(folder / "images/a.png", folder / "depth/a.png"); // a photograph
    refused(folder / "depth/a.png", "a PNG of 3 channels of 8 bits; it must be gray with 16 bits");
}

TEST_F(Dataset, ReadsPointsBesideTransforms) {
    write_all();
    std::filesystem::remove_all(folder / "sparse");
    write_bytes(folder / "transforms.json",
                "{\"fl_x\":10,\"frames\":[{\"file_path\":\"images/a.png\",\"transform_matrix\":"
                "[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]}");
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_EQ(got.point_count, 0u);
    write_bytes(folder / "points3D.txt", text_of(points));
    ASSERT_TRUE(load(1)) << why.text;
    ASSERT_EQ(got.point_count, 1u);
    EXPECT_EQ(got.points[0][2], 3);
    points.push_back({{4, 5, 6}, {1, 2, 3}, 0});
    write_bytes(folder / "points3D.bin", bytes_of(points));
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_EQ(got.point_count, 2u);
    fault ignored;
    EXPECT_FALSE(dataset_spared(&got, (folder / "points3D.txt").c_str(), &ignored));
    write_bytes(folder / "points3D.bin", "short");
    expect_refusal(folder / "points3D.bin", "truncated at byte 5");
}

TEST_F(Dataset, AFisheyeStaysOneUnlessUndistorted) {
    cameras[0].model = 5;
    cameras[0].parameters = {4, 5, 4.5, 3.25, 0.1, 0.02, 0.003, 0.0004};
    write_all();
    ASSERT_TRUE(load(2)) << why.text;
    const gs_camera &fisheye = got.views[1].camera;
    EXPECT_EQ(got.views[0].camera.model, GS_PINHOLE);
    EXPECT_EQ(fisheye.model, GS_FISHEYE);
    EXPECT_EQ(fisheye.fx, 2);
    EXPECT_EQ(fisheye.distortion[0], 0.1f);
    EXPECT_EQ(fisheye.distortion[1], 0.02f);
    EXPECT_EQ(fisheye.distortion[2], 0.003f);
    EXPECT_EQ(fisheye.distortion[3], 0.0004f);
    dataset_options options = {1, {0, 0, 0}, nullptr, nullptr, false, false, false};
    ASSERT_TRUE(load(1)) << why.text;
    dataset straight;
    options.undistort = true;
    ASSERT_TRUE(dataset_load(folder.path.c_str(), &options, &straight, &why)) << why.text;
    const dataset_view &view = straight.views[1];
    EXPECT_EQ(view.camera.model, GS_PINHOLE);
    EXPECT_EQ(view.camera.fx, 4);
    EXPECT_EQ(view.camera.distortion[0], 0);
    ASSERT_EQ(view.picture.width, 8);
    const size_t bytes = 3 * 8 * 6;
    EXPECT_NE(memcmp(view.picture.pixels, got.views[1].picture.pixels, bytes), 0);
    dataset_close(&straight);
}

TEST_F(Dataset, ReadsThePicturesThatAreWanted) {
    write_all();
    write_bytes(folder / "images/b.png", "no picture");
    auto only = [](size_t index, const char *name, const void *wanted) {
        return index == (name[0] == 'a' ? 0u : 1u) && strcmp(name, static_cast<const char *>(wanted)) == 0;
    };
    dataset_options options = {1, {0, 0, 0}, only, "a.png", false, false, false};
    ASSERT_TRUE(dataset_load(folder.path.c_str(), &options, &got, &why)) << why.text;
    EXPECT_EQ(got.views[0].picture.width, 7);
    EXPECT_EQ(got.views[1].picture.pixels, nullptr);
    EXPECT_EQ(got.views[1].camera.width, 8);
    dataset_close(&got);
    options.context = "b.png";
    EXPECT_FALSE(dataset_load(folder.path.c_str(), &options, &got, &why));
    EXPECT_TRUE(contains(why, "b.png")) << why.text;
}

TEST_F(Dataset, ScalesToOnePixelAtLeast) {
    write_all();
    ASSERT_TRUE(load(6)) << why.text;
    const dataset_view &a = got.views[0];
    EXPECT_EQ(a.picture.width, 1);
    EXPECT_EQ(a.picture.height, 1); // of 5 rows
    EXPECT_EQ(a.camera.fx, 9.0f / 6);
    EXPECT_EQ(a.camera.fy, 8.0f / 5);
    EXPECT_EQ(a.camera.cy, 2.0f / 5);
    EXPECT_EQ(a.picture.pixels[1], 20); // of 0, 10, ... 40
    EXPECT_FALSE(load(0));
    EXPECT_FALSE(load(-2));
}

TEST_F(Dataset, PutsTransparentPicturesOnABackground) {
    write_all();
    write_picture("a.png", 7, 5, 40, 4);
    ASSERT_TRUE(load(1)) << why.text;
    image a = got.views[0].picture;
    ASSERT_EQ(a.channels, 3);
    EXPECT_EQ(a.pixels[0], 0);
    EXPECT_EQ(a.pixels[3 * (7 * 4 + 6) + 0], 29); // 46 * 160 / 255 = 28.9
    EXPECT_EQ(a.pixels[3 * (7 * 4 + 6) + 1], 25); // 40 * 160 / 255 = 25.1
    ASSERT_TRUE(load(1, {1, 0.5f, 0})) << why.text;
    a = got.views[0].picture;
    EXPECT_EQ(a.pixels[0], 255);
    EXPECT_EQ(a.pixels[1], 128);
    EXPECT_EQ(a.pixels[2], 0);
    EXPECT_EQ(a.pixels[3 * (7 * 4 + 6) + 0], 124); // 28.9 + 255 * 95 / 255
    EXPECT_EQ(a.pixels[3 * (7 * 4 + 6) + 1], 73);  // 25.1 + 127.5 * 95 / 255 = 72.6
}

TEST_F(Dataset, HoldsOutEveryNthView) {
    write_all();
    ASSERT_TRUE(load(1)) << why.text;
    dataset_hold_out(&got, 0);
    EXPECT_FALSE(got.views[0].held_out || got.views[1].held_out);
    dataset_hold_out(&got, 2);
    EXPECT_TRUE(got.views[0].held_out && !got.views[1].held_out);
    dataset_hold_out(&got, 1); // is the data's own choice by now
    EXPECT_FALSE(got.views[1].held_out);
}

TEST_F(Dataset, LoadsManyPictures) {
    images.clear();
    write_model();
    for (int i = 0; i < 50; i++) {
        const std::string name = "picture" + std::to_string(100 - i) + ".png";
        images.push_back({name, 1, {1, 0, 0, 0}, {0, 0, 0}, 0});
        write_picture(name, 8, 6, 100 - i);
    }
    write_model();
    ASSERT_TRUE(load(1)) << why.text;
    ASSERT_EQ(got.view_count, 50u);
    EXPECT_STREQ(got.views[0].name, "picture100.png");
    for (size_t i = 1; i < 50; i++) EXPECT_EQ(got.views[i].picture.pixels[2], 50 + i) << i;
}

TEST_F(Dataset, RefusesMissingAndDamagedPictures) {
    write_all();
    const std::string a = folder / "images/a.png", b = folder / "images/b.png";
    std::filesystem::remove(b);
    expect_refusal(b, "cannot open");
    write_bytes(a, "not a picture");
    expect_refusal(a, "neither PNG nor JPEG"); // the first by name, whoever reads first
    write_picture("a.png", 8, 5, 40);
    write_picture("b.png", 8, 6, 40);
    expect_refusal(a, "the picture has 8 x 5 pixels, its camera 7 x 5");
    write_picture("a.png", 7, 6, 40);
    expect_refusal(a, "the picture has 7 x 6 pixels, its camera 7 x 5");
}

// Both pictures have a wrong size; two threads read them, and the first by name fails first by time.
TEST_F(Dataset, NamesTheFirstOfTwoBadPictures) {
    write_all();
    write_picture("a.png", 700, 700, 40);
    write_picture("b.png", 2000, 2000, 40);
    expect_refusal(folder / "images/a.png", "the picture has 700 x 700 pixels");
}

TEST_F(Dataset, KnowsItsFiles) {
    write_all();
    write_bytes(folder / "images/other.png", "no picture of the model");
    std::filesystem::create_symlink("images/a.png", folder / "link");
    dataset_options options = {1, {0, 0, 0}, nullptr, nullptr, false, false, false};
    for (const auto wanted : {decltype(options.wanted)(nullptr), dataset_no_picture}) {
        options.wanted = wanted;
        dataset_close(&got);
        ASSERT_TRUE(dataset_load(folder.path.c_str(), &options, &got, &why)) << why.text;
        for (const char *name : {"sparse/0/cameras.bin", "sparse/0/images.bin", "sparse/0/points3D.bin",
                                 "images/a.png", "images/b.png", "images/../images//b.png", "link"}) {
            const std::string path = folder / name;
            EXPECT_FALSE(dataset_spared(&got, path.c_str(), &why)) << name;
            EXPECT_TRUE(contains(why, path + ": cannot write: is one of the files of the data")) << why.text;
        }
        for (const char *name : {"images/other.png", "images/c.png", "images", "a.png", "none/a.png"})
            EXPECT_TRUE(dataset_spared(&got, (folder / name).c_str(), &why)) << name;
        EXPECT_TRUE(dataset_spared(&got, nullptr, &why));
    }
}

TEST_F(Dataset, RefusesAModelWithoutImages) {
    images.clear();
    write_model();
    expect_refusal(folder / "sparse/0/images.bin", "holds no images");
    const dataset_options options = {1, {0, 0, 0}, nullptr, nullptr, false, false, false};
    EXPECT_FALSE(dataset_load((folder / "none").c_str(), &options, &got, &why));
    EXPECT_TRUE(contains(why, folder / "none: cannot open")) << why.text;
}

} // namespace
