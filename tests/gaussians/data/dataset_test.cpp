// SPDX-License-Identifier: MIT
#include "dataset_folder.h"
#include <cmath>

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

TEST_F(Dataset, AllNearPlanesFollowFromTheCameras) {
    write_all();
    ASSERT_TRUE(load(1)) << why.text;
    for (size_t i = 0; i < 2; i++) EXPECT_FLOAT_EQ(got.views[i].camera.near_plane, 0.05f); // at z = -1, 2
}

TEST_F(Dataset, CamerasAreTheSameWithoutPictures) {
    write_all();
    for (int downscale : {1, 2, 6}) {
        ASSERT_TRUE(load(downscale)) << why.text;
        dataset cameras_only;
        dataset_options options = options_of(downscale);
        options.wanted = dataset_no_picture;
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
    EXPECT_FALSE(dataset_may_write(&got, (folder / "points3D.txt").c_str(), &ignored));
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
    dataset_options options = options_of(1);
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
    dataset_options options = options_of(1);
    options.wanted = only, options.context = "a.png";
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

TEST_F(Dataset, KnowsItsFiles) {
    write_all();
    write_bytes(folder / "images/other.png", "no picture of the model");
    std::filesystem::create_symlink("images/a.png", folder / "link");
    dataset_options options = options_of(1);
    for (const auto wanted : {decltype(options.wanted)(nullptr), dataset_no_picture}) {
        options.wanted = wanted;
        dataset_close(&got);
        ASSERT_TRUE(dataset_load(folder.path.c_str(), &options, &got, &why)) << why.text;
        for (const char *name : {"sparse/0/cameras.bin", "sparse/0/images.bin", "sparse/0/points3D.bin",
                                 "images/a.png", "images/b.png", "images/../images//b.png", "link"}) {
            const std::string path = folder / name;
            EXPECT_FALSE(dataset_may_write(&got, path.c_str(), &why)) << name;
            EXPECT_TRUE(contains(why, path + ": cannot write: is one of the files of the data")) << why.text;
        }
        for (const char *name : {"images/other.png", "images/c.png", "images", "a.png", "none/a.png"})
            EXPECT_TRUE(dataset_may_write(&got, (folder / name).c_str(), &why)) << name;
        EXPECT_TRUE(dataset_may_write(&got, nullptr, &why));
    }
}

// ---- the rules that are the same for all readers

TEST_F(Dataset, SkipsViewsWithoutAPicture) {
    points[0].track = 2, points[0].images = {101, 100};
    write_all();
    std::filesystem::remove(folder / "images/a.png");
    std::filesystem::create_directories(folder / "images/a.png"); // is no picture
    ASSERT_TRUE(load(1)) << why.text;
    ASSERT_EQ(got.view_count, 1u);
    EXPECT_STREQ(got.views[0].name, "b.png");
    EXPECT_EQ(warning, says("1 of 2 views have no picture and are skipped (the first: 'a.png')"));
    // Also of cameras without pictures, so that views have one number; but with none at all they are the model's. Tracks
    // keep the views that stay.
    dataset_options options = options_of(1);
    options.wanted = dataset_no_picture, options.with_tracks = true;
    for (const size_t left : {1u, 2u}) {
        dataset_close(&got);
        ASSERT_TRUE(dataset_load(folder.path.c_str(), &options, &got, &why)) << why.text;
        EXPECT_EQ(got.view_count, left);
        ASSERT_EQ(got.track_count, left);
        EXPECT_STREQ(got.views[got.tracks[left - 1].view].name, "b.png");
        std::filesystem::remove_all(folder / "images");
    }
}

TEST_F(Dataset, FindsPicturesByOtherNamesAndInOtherFolders) {
    const auto found = [&](const std::string &in, const std::string &first, const std::string &second) {
        ASSERT_TRUE(load(1)) << why.text;
        EXPECT_STREQ(got.picture_folder, in.c_str());
        EXPECT_STREQ(got.views[0].name, first.c_str());
        EXPECT_STREQ(got.views[1].name, second.c_str());
        const std::string path = folder.path + (in.empty() ? "" : "/" + in);
        EXPECT_EQ(warning, in == "images" ? ""
                                          : says("the pictures are read from " + path +
                                                 ", as images has fewer of them"));
    };
    write_all();
    std::filesystem::rename(folder / "images/a.png", folder / "images/a.PNG");
    found("images", "a.PNG", "b.png");
    std::filesystem::rename(folder / "images", folder / "images_4");
    found("images_4", "a.PNG", "b.png");
    std::filesystem::rename(folder / "images_4", folder / "input");
    write_bytes(folder / "images/b.png", "fewer"); // images has one of them
    found("input", "a.PNG", "b.png");
    images[0].name = "b", images[1].name = "a.HEIC";
    write_model();
    std::filesystem::rename(folder / "input/a.PNG", folder / "a.jpg");
    std::filesystem::rename(folder / "input/b.png", folder / "b.png");
    found("", "a.jpg", "b.png");
}

TEST_F(Dataset, FitsCamerasToPicturesOfAnotherSize) {
    write_all();
    ASSERT_TRUE(load(1)) << why.text;
    const gs_camera whole = got.views[1].camera;
    write_picture("b.png", 4, 3, 20);
    ASSERT_TRUE(load(1)) << why.text;
    const gs_camera &half = got.views[1].camera;
    EXPECT_EQ(half.width, 4);
    EXPECT_EQ(half.height, 3);
    EXPECT_EQ(half.fx, whole.fx / 2);
    EXPECT_EQ(half.cy, whole.cy / 2);
    EXPECT_EQ(warning,
              says("1 of 2 pictures have another size than their camera, which is fitted to them (the first: "
                   "'b.png')"));
}

// Map coordinates: seven digits before the point. What is far moves to the origin, by a round offset.
TEST_F(Dataset, MovesTheOriginToCamerasThatAreFarFromIt) {
    const std::array<double, 3> far = {500000, 4500000, 300};
    for (const bool is_far : {false, true}) {
        for (size_t k = 0; k < 3; k++) {
            images[0].translation[k] = -0.1 * double(k) - is_far * far[k]; // of the unit quaternion
            points[0].position[k] = 0.3 + is_far * far[k];
        }
        images[1].quaternion = {1, 0, 0, 0};
        images[1].translation = {1 - is_far * far[0], -is_far * far[1], -is_far * far[2]};
        write_all();
        ASSERT_TRUE(load(1)) << why.text;
        for (size_t k = 0; k < 3; k++) {
            EXPECT_NEAR(got.views[1].camera.translation[k] - got.offset[k], images[0].translation[k], 1e-6)
                << k;
            EXPECT_NEAR(got.points[0][k] + got.offset[k], points[0].position[k], 1e-6) << k;
            EXPECT_LT(std::abs(got.points[0][k]), 2) << k;
            EXPECT_NEAR(got.offset[k], is_far * far[k], 1) << k;
            EXPECT_EQ(got.offset[k], std::round(4 * got.offset[k]) / 4) << k; // all its digits are said
        }
        EXPECT_EQ(warning,
                  is_far
                      ? says("far from the origin: coordinates are taken from 499999.5, 4500000, 300, which "
                             "a .ply of the scene says")
                      : "");
    }
}
