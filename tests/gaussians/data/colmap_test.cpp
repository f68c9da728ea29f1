// SPDX-License-Identifier: MIT
#include "colmap_folder.h"
#include <limits>

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

TEST_F(Colmap, ReadsAModel) {
    write();
    ASSERT_TRUE(load(&why)) << why.text;
    ASSERT_EQ(got.view_count, 2u);
    EXPECT_STREQ(got.views[0].name, "a/c.png"); // by name
    EXPECT_STREQ(got.views[1].name, "b.png");
    const lens &first = got.views[0].optics, &second = got.views[1].optics;
    EXPECT_EQ(first.width, 8);
    EXPECT_EQ(first.height, 6);
    EXPECT_EQ(second.width, 640);
    EXPECT_EQ(second.height, 480);
    EXPECT_EQ(second.fx, 500.0);
    EXPECT_EQ(second.fy, 510.0);
    EXPECT_EQ(second.cx, 320.5);
    EXPECT_EQ(second.cy, 240.25);
    EXPECT_EQ(got.views[1].translation[0], 1.0);
    EXPECT_EQ(got.views[1].translation[1], 2.0);
    EXPECT_EQ(got.views[1].translation[2], 3.0);
    EXPECT_EQ(got.views[0].translation[0], -1.0);
    ASSERT_EQ(got.point_count, 2u);
    EXPECT_EQ(got.points[0].place[0], 0.5);
    EXPECT_EQ(got.points[0].place[1], -1.0);
    EXPECT_EQ(got.points[1].place[2], 6.0);
    EXPECT_EQ(got.points[0].color[1], 2);
    EXPECT_EQ(got.points[1].color[0], 255);
    EXPECT_EQ(got.points[1].color[2], 128);
}

// Rodrigues' formula, which shares nothing with the quaternion's matrix: x cos + (n x x) sin + n (n.x) (1 -
// cos).
TEST_F(Colmap, TurnsQuaternionsIntoRotations) {
    const double length = std::sqrt(14.0), axis[3] = {1 / length, -2 / length, 3 / length}, angle = 0.7;
    for (const double scale : {1.0, -2.5, 1e-200, 1e200}) {
        images[0].quaternion = {scale * std::cos(angle / 2), scale * std::sin(angle / 2) * axis[0],
                                scale * std::sin(angle / 2) * axis[1], scale * std::sin(angle / 2) * axis[2]};
        write();
        ASSERT_TRUE(load(&why)) << why.text;
        for (int column = 0; column < 3; column++) {
            double x[3] = {}, cross[3];
            x[column] = 1;
            for (int i = 0; i < 3; i++)
                cross[i] = axis[(i + 1) % 3] * x[(i + 2) % 3] - axis[(i + 2) % 3] * x[(i + 1) % 3];
            for (int i = 0; i < 3; i++) {
                const double expected = x[i] * std::cos(angle) + cross[i] * std::sin(angle) +
                                        axis[i] * axis[column] * (1 - std::cos(angle));
                EXPECT_NEAR(got.views[1].rotation[3 * i + column], expected, 1e-7) << scale;
            }
        }
    }
}

TEST_F(Colmap, SkipsLongTracks) {
    images[0].observations = 3000;
    points[0].track = 5000;
    write();
    ASSERT_TRUE(load(&why)) << why.text;
    EXPECT_EQ(got.views[0].translation[0], -1.0);
    EXPECT_EQ(got.points[1].place[0], 4.0);
}

// Images have the ids 100 (b.png) and 101 (a/c.png), and are sorted by name.
TEST_F(Colmap, ReadsTracksWhereTheyAreWanted) {
    points[0].track = 3, points[0].images = {101, 7, 100}; // there is no image 7
    points[1].track = 1, points[1].images = {100};
    const std::vector<std::array<int64_t, 2>> expected = {{0, 0}, {1, 0}, {1, 1}};
    for (const bool text : {false, true}) {
        if (text)
            write_text();
        else
            write();
        tracks = false;
        ASSERT_TRUE(load(&why)) << why.text;
        EXPECT_EQ(got.track_count, 0u);
        tracks = true;
        ASSERT_TRUE(load(&why)) << why.text;
        EXPECT_EQ(got.view_count, 2u);
        ASSERT_EQ(got.track_count, 3u);
        for (size_t i = 0; i < 3; i++) {
            EXPECT_EQ(got.tracks[i].view, expected[i][0]) << i;
            EXPECT_EQ(got.tracks[i].point, expected[i][1]) << i;
        }
    }
    write_bytes(points_txt, "7 0.5 -1 2 1 2 3 -1 101 2 100\n"); // half an entry
    expect_refusal(points_txt, "at line 1: expected a track's 2D point, not ''");
    tracks = false;
    EXPECT_TRUE(load(&why)) << why.text;
}

TEST_F(Colmap, NeedsNoPoints) {
    points = {};
    write();
    ASSERT_TRUE(load(&why)) << why.text;
    EXPECT_EQ(got.view_count, 2u);
    EXPECT_EQ(got.point_count, 0u);
    std::filesystem::remove(points_bin);
    ASSERT_TRUE(load(&why)) << why.text;
    EXPECT_EQ(got.point_count, 0u);
}

TEST_F(Colmap, RefusesAModelOfNothing) {
    const std::vector<ColmapImage> some = images;
    images = {};
    write();
    expect_refusal(images_bin, "holds no images");
    cameras = {};
    images = some;
    write();
    expect_refusal(cameras_bin, "holds no cameras");
}

TEST_F(Colmap, RefusesEveryBeginning) {
    write();
    for (const std::string &path : {cameras_bin, images_bin, points_bin})
        refuses_every_beginning(path, [&](fault *reason) { return load(reason); });
}

TEST_F(Colmap, RefusesWhatFollows) {
    for (const std::string &path : {cameras_bin, images_bin, points_bin}) {
        write();
        const std::string bytes = read_bytes(path);
        write_bytes(path, bytes + "xyz");
        expect_refusal(path, "3 bytes follow the last record, at byte " + std::to_string(bytes.size()));
    }
}

TEST_F(Colmap, SurvivesEveryFlip) {
    write();
    for (const std::string &path : {cameras_bin, images_bin, points_bin}) {
        // A damaged camera id shows in images.bin, so only the folder is sure to be named.
        const std::string whole = read_bytes(path);
        for (size_t at = 0; at < whole.size(); at++) {
            for (const int bits : {0xff, 0x01, 0x80}) {
                std::string damaged = whole;
                damaged[at] = char(damaged[at] ^ bits);
                write_bytes(path, damaged);
                fault reason = {};
                if (!load(&reason)) {
                    ASSERT_TRUE(contains(reason, folder.path)) << at << ": " << reason.text;
                }
            }
        }
        write_bytes(path, whole);
    }
}

TEST_F(Colmap, RefusesAMissingFile) {
    for (const std::string &path : {cameras_bin, images_bin}) {
        write();
        std::filesystem::remove(path);
        expect_refusal(path, "cannot open");
    }
}

TEST_F(Colmap, RefusesAbsurdCounts) {
    const struct {
        std::string path;
        size_t at; // of the count in the file
        std::string what;
    } counts[] = {{cameras_bin, 0, "cameras"},
                  {images_bin, 0, "images"},
                  {images_bin, 8 + 4 + 56 + 4 + strlen("b.png") + 1, "2D points"},
                  {points_bin, 0, "points"},
                  {points_bin, 8 + 8 + 24 + 3 + 8, "track entries"}};
    for (const auto &each : counts) {
        for (const uint64_t count : {uint64_t(1) << 16, uint64_t(1) << 32, (uint64_t(1) << 32) + 1,
                                     uint64_t(1) << 61, uint64_t(1) << 63, UINT64_MAX}) {
            write();
            std::string bytes = read_bytes(each.path);
            memcpy(&bytes[each.at], &count, sizeof count);
            write_bytes(each.path, bytes);
            expect_refusal(each.path, std::to_string(count) + " " + each.what + " announced");
            EXPECT_TRUE(contains(why, "follow byte " + std::to_string(each.at + 8))) << why.text;
        }
    }
}

// Each model's parameters, in COLMAP's order.
TEST_F(Colmap, ReadsTheCameraModels) {
    const struct {
        int32_t model;
        std::vector<double> parameters;
        lens expected;
    } models[] = {
        {0, {10, 4, 3}, {8, 6, 10, 10, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, false}},
        {1, {10, 11, 4, 3}, {8, 6, 10, 11, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, false}},
        {2, {10, 4, 3, .1}, {8, 6, 10, 10, 0, 0, 4, 3, .1, 0, 0, 0, 0, 0, false}},
        {3, {10, 4, 3, .1, .2}, {8, 6, 10, 10, 0, 0, 4, 3, .1, .2, 0, 0, 0, 0, false}},
        {4, {10, 11, 4, 3, .1, .2, .3, .4}, {8, 6, 10, 11, 0, 0, 4, 3, .1, .2, .3, .4, 0, 0, false}},
        {5, {10, 11, 4, 3, .1, .2, .3, .4}, {8, 6, 10, 11, 0, 0, 4, 3, .1, .2, 0, 0, .3, .4, true}},
        {8, {10, 4, 3, .1}, {8, 6, 10, 10, 0, 0, 4, 3, .1, 0, 0, 0, 0, 0, true}},
        {9, {10, 4, 3, .1, .2}, {8, 6, 10, 10, 0, 0, 4, 3, .1, .2, 0, 0, 0, 0, true}}};
    for (const auto &each : models) {
        cameras[1].model = each.model;
        cameras[1].parameters = each.parameters;
        for (const bool text : {false, true}) {
            write();
            if (text) write_text();
            ASSERT_TRUE(load(&why)) << why.text;
            EXPECT_EQ(lens_tuple(got.views[0].optics), lens_tuple(each.expected)) << each.model << text;
        }
        write();
        refuses_every_beginning(cameras_bin, [&](fault *reason) { return load(reason); });
        for (size_t i = 0; i < each.parameters.size(); i++)
            for (const double value : {nan, infinity, -infinity, 1e39}) {
                cameras[1].parameters[i] = value;
                for (const bool text : {false, true}) {
                    write();
                    if (text) write_text();
                    expect_refusal(text ? cameras_txt : cameras_bin, "camera 2 has ");
                }
                cameras[1].parameters = each.parameters;
            }
    }
}

TEST_F(Colmap, RefusesOtherCameraModels) {
    cameras[1].model = 6;
    write();
    expect_refusal(
        cameras_bin,
        "at byte 64: camera 2 has model 6 (FULL_OPENCV), which cannot be read; only SIMPLE_PINHOLE, "
        "PINHOLE, SIMPLE_RADIAL, RADIAL, OPENCV, OPENCV_FISHEYE, SIMPLE_RADIAL_FISHEYE, RADIAL_FISHEYE, "
        "SIMPLE_FISHEYE, FISHEYE can");
    for (const int32_t model : {7, 10, 11, -1, INT32_MAX, INT32_MIN}) {
        cameras[1].model = model;
        write();
        expect_refusal(cameras_bin, "has model " + std::to_string(model));
    }
}

TEST_F(Colmap, RefusesAFisheyeThatFolds) {
    cameras[1].model = 5; // 8 x 6 pixels: the farthest corner is at a radius of 5
    cameras[1].parameters = {1, 1, 4, 3, -0.3, 0, 0, 0};
    write();
    expect_refusal(cameras_bin,
                   "camera 2 has the distortion k1, k2, k3, k4 = -0.3, 0, 0, 0, by which a fisheye's "
                   "picture folds over 60.4 degrees off the axis");
    cameras[1].parameters = {1, 1, 4, 3, -0.1, 0, 0, 0}; // at 104.6 degrees
    write();
    EXPECT_TRUE(load(&why)) << why.text;
    cameras[1].parameters = {20, 20, 4, 3, -0.3, 0, 0, 0}; // outside the picture
    write();
    EXPECT_TRUE(load(&why)) << why.text;
}

TEST_F(Colmap, RefusesBadCameras) {
    for (const uint64_t size : {uint64_t(0), uint64_t(16385), uint64_t(1) << 32, UINT64_MAX}) {
        const ColmapCamera good = cameras[0];
        cameras[0].width = size;
        write();
        expect_refusal(cameras_bin,
                       "at byte 8: camera 5 has images of " + std::to_string(size) + " x 480 pixels");
        cameras[0] = good;
        cameras[0].height = size;
        write();
        expect_refusal(cameras_bin, "640 x " + std::to_string(size) + " pixels");
        cameras[0] = good;
    }
    for (size_t i = 0; i < 4; i++) {
        for (const double value : {nan, infinity, -infinity, 1e39, 0.0, -5.0, 1e-60, 1e-39}) {
            if (i >= 2 && std::abs(value) < 10) continue; // a principal point may be anywhere
            const ColmapCamera good = cameras[0];
            cameras[0].parameters[i] = value;
            write();
            expect_refusal(cameras_bin, "at byte 8: camera 5 has ");
            cameras[0] = good;
        }
    }
    cameras[1].id = 5;
    write();
    expect_refusal(cameras_bin, "two cameras have the id 5");
}

TEST_F(Colmap, RefusesBadPoses) {
    for (const double value : {nan, infinity, -infinity}) {
        for (size_t i = 0; i < 4; i++) {
            const ColmapImage good = images[1];
            images[1].quaternion[i] = value;
            write();
            expect_refusal(images_bin, "image 'a/c.png' has the quaternion");
            images[1] = good;
        }
        images[0].translation[1] = value;
        write();
        expect_refusal(images_bin, "at byte 8: image 'b.png' has the translation");
        images[0].translation[1] = 0;
    }
    images[0].translation[2] = 1.1e18;
    write();
    expect_refusal(images_bin, "at byte 8: image 'b.png' has the translation");
    images[0].quaternion = {0, 0, 0, 0};
    write();
    expect_refusal(images_bin, "at byte 8: image 'b.png' has the quaternion 0, 0, 0, 0");
}

TEST_F(Colmap, RefusesBadNames) {
    for (const char *name : {"", "/etc/passwd", "..", "../a.png", "x/../../a.png"}) {
        images[0].name = name;
        write();
        expect_refusal(images_bin, std::string("at byte 8: image name '") + name + "' is empty or leaves");
    }
    images[0].name = std::string(2000, 'x');
    write();
    expect_refusal(images_bin, "at byte 72: an image name of more than 1023 bytes");
    images[0].name = images[1].name;
    write();
    expect_refusal(images_bin, "two images are named 'a/c.png'");
}

TEST_F(Colmap, RefusesAnUnknownCamera) {
    images[0].camera = 3;
    write();
    expect_refusal(images_bin, "at byte 8: image 'b.png' is of camera 3, which is not in the model");
}

TEST_F(Colmap, RefusesBadPoints) {
    for (const double value : {nan, infinity, -infinity, 1e39, -1.1e18}) {
        for (size_t i = 0; i < 3; i++) {
            const ColmapPoint good = points[0];
            points[0].position[i] = value;
            write();
            expect_refusal(points_bin, "at byte 8: point number 0 is at");
            points[0] = good;
        }
    }
}

TEST_F(Colmap, FindsTheLargestModel) {
    const std::string places[] = {folder / "sparse/1", folder / "sparse/2", folder / "sparse", folder.path};
    char found[PATH_ROOM];
    EXPECT_FALSE(colmap_find(folder.path.c_str(), false, found));
    for (const bool text : {false, true})
        for (size_t largest = 0; largest < 4; largest++) {
            for (const std::string &place : places) {
                images.resize(1, images[0]);
                if (place == places[largest]) images.push_back(images[0]);
                std::filesystem::remove(place + "/images.bin");
                write_bytes(place + "/cameras.bin", "");
                write_bytes(place + (text ? "/images.txt" : "/images.bin"),
                            text ? text_of(images) : bytes_of(images));
            }
            testing::internal::CaptureStderr();
            ASSERT_TRUE(colmap_find(folder.path.c_str(), false, found));
            EXPECT_EQ(found, places[largest]);
            EXPECT_EQ(testing::internal::GetCapturedStderr(),
                      "dsplat: " + places[largest] + ": the largest of 4 models, with 2 images, is read\n");
        }
    EXPECT_FALSE(colmap_find(folder.path.c_str(), true, found));
    for (const char *place : {"distorted/sparse/0", "colmap/sparse/0"}) { // the last wins
        write_bytes(folder / (place + std::string("/cameras.txt")), "");
        ASSERT_TRUE(colmap_find(folder.path.c_str(), true, found));
        EXPECT_EQ(found, folder / place);
    }
}

// Each part of a model may be binary or text, points also a PLY file.
TEST_F(Colmap, ReadsPartsOfSeveralKinds) {
    const std::string ply =
        "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty "
        "float z\nend_header\n1 2 3";
    write();
    const std::string binary = read_bytes(points_bin);
    write_text();
    const std::string text = read_bytes(points_txt);
    for (const char *name : {"points3D", "points3d"})
        for (const char *suffix : {".bin", ".txt", ".ply"}) {
            std::filesystem::remove(points_txt);
            const std::string path = folder / (name + std::string(suffix));
            write_bytes(path, suffix[1] == 'b' ? binary : suffix[1] == 't' ? text : ply);
            ASSERT_TRUE(load(&why)) << why.text;
            EXPECT_EQ(got.point_count, suffix[1] == 'p' ? 1u : 2u) << path;
            EXPECT_STREQ(got.points_file, path.c_str());
            std::filesystem::remove(path);
        }
    images.pop_back();
    write_bytes(images_bin, bytes_of(images)); // beside cameras.txt, and rather than images.txt
    ASSERT_TRUE(load(&why)) << why.text;
    EXPECT_EQ(got.view_count, 1u);
}

} // namespace
