// SPDX-License-Identifier: MIT
#include "colmap.h"
#include "colmap_model.h"
#include <cmath>
#include <limits>

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

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
    static std::array<double, 15> lens_tuple(const lens &l) {
        return {double(l.width),
                double(l.height),
                l.fx,
                l.fy,
                l.angle_x,
                l.angle_y,
                l.cx,
                l.cy,
                l.k1,
                l.k2,
                l.p1,
                l.p2,
                l.k3,
                l.k4,
                double(l.fisheye)};
    }
    bool load(fault *reason) {
        reconstruction_close(&got);
        return colmap_load(folder.path.c_str(), &got, reason);
    }
    // What is in the folder is refused, with a text that names `path` and has `part`.
    void expect_refusal(const std::string &path, const std::string &part) {
        EXPECT_FALSE(load(&why)) << part;
        EXPECT_TRUE(contains(why, path + ": ") && contains(why, part)) << part << " | " << why.text;
        EXPECT_EQ(got.view_count, 0u);
        EXPECT_EQ(got.views, nullptr);
        EXPECT_EQ(got.points, nullptr);
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
};

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
    EXPECT_EQ(got.views[1].translation[0], 1.0f);
    EXPECT_EQ(got.views[1].translation[1], 2.0f);
    EXPECT_EQ(got.views[1].translation[2], 3.0f);
    EXPECT_EQ(got.views[0].translation[0], -1.0f);
    ASSERT_EQ(got.point_count, 2u);
    EXPECT_EQ(got.points[0][0], 0.5f);
    EXPECT_EQ(got.points[0][1], -1.0f);
    EXPECT_EQ(got.points[1][2], 6.0f);
    EXPECT_EQ(got.colors[0][1], 2);
    EXPECT_EQ(got.colors[1][0], 255);
    EXPECT_EQ(got.colors[1][2], 128);
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
    EXPECT_EQ(got.views[0].translation[0], -1.0f);
    EXPECT_EQ(got.points[1][0], 4.0f);
}

// Images have the ids 100 (b.png) and 101 (a/c.png), and are sorted by name.
TEST_F(Colmap, ReadsTracksWhereTheyAreWanted) {
    points[0].track = 3, points[0].images = {101, 7, 100}; // there is no image 7
    points[1].track = 1, points[1].images = {100};
    const std::vector<std::array<uint32_t, 2>> expected = {{0, 0}, {1, 0}, {1, 1}};
    for (const bool text : {false, true}) {
        if (text)
            write_text();
        else
            write();
        ASSERT_TRUE(load(&why)) << why.text;
        EXPECT_EQ(got.sighting_count, 0u);
        reconstruction_close(&got);
        ASSERT_TRUE(colmap_load_tracks(folder.path.c_str(), &got, &why)) << why.text;
        EXPECT_EQ(got.view_count, 2u);
        ASSERT_EQ(got.sighting_count, 3u);
        for (size_t i = 0; i < 3; i++) {
            EXPECT_EQ(got.sightings[i].view, expected[i][0]) << i;
            EXPECT_EQ(got.sightings[i].point, expected[i][1]) << i;
        }
    }
    write_bytes(points_txt, "7 0.5 -1 2 1 2 3 -1 101 2 100\n"); // half an entry
    EXPECT_TRUE(load(&why)) << why.text;
    reconstruction_close(&got);
    EXPECT_FALSE(colmap_load_tracks(folder.path.c_str(), &got, &why));
    EXPECT_TRUE(contains(why, points_txt + ": at line 1: expected a track's 2D point, not ''")) << why.text;
    EXPECT_EQ(got.views, nullptr);
    std::filesystem::remove(cameras_txt);
    EXPECT_TRUE(colmap_load_tracks(folder.path.c_str(), &got, &why)) << why.text; // no model
    EXPECT_EQ(got.view_count, 0u);
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
        "PINHOLE, SIMPLE_RADIAL, RADIAL, OPENCV, OPENCV_FISHEYE, SIMPLE_RADIAL_FISHEYE, RADIAL_FISHEYE can");
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

TEST_F(Colmap, ReadsTextLikeBinary) {
    cameras[0] = {5, 4, 640, 480, {500, 510, 320.5, 240.25, 0.1, -0.02, 1e-3, 1.0 / 3}};
    images.push_back({"a name with spaces.png", 5, {.1, .2, .3, -.4}, {1e-3, 1.0 / 3, -7e5}, 0});
    write();
    ASSERT_TRUE(load(&why)) << why.text;
    reconstruction binary = got;
    got = {};
    write_text();
    ASSERT_TRUE(load(&why)) << why.text;
    ASSERT_EQ(got.view_count, 3u);
    for (size_t i = 0; i < 3; i++) {
        const reconstruction_view &a = got.views[i], &b = binary.views[i];
        EXPECT_STREQ(a.name, b.name);
        EXPECT_EQ(lens_tuple(a.optics), lens_tuple(b.optics));
        EXPECT_EQ(memcmp(a.rotation, b.rotation, sizeof a.rotation), 0);
        EXPECT_EQ(memcmp(a.translation, b.translation, sizeof a.translation), 0);
        EXPECT_FALSE(a.held_out);
    }
    ASSERT_EQ(got.point_count, binary.point_count);
    EXPECT_EQ(memcmp(got.points, binary.points, sizeof *got.points * got.point_count), 0);
    EXPECT_EQ(memcmp(got.colors, binary.colors, sizeof *got.colors * got.point_count), 0);
    reconstruction_close(&binary);
}

TEST_F(Colmap, PrefersBinary) {
    write_text();
    cameras[1].width = 99;
    write();
    ASSERT_TRUE(load(&why)) << why.text;
    EXPECT_EQ(got.views[0].optics.width, 99);
}

TEST_F(Colmap, ReadsTextByHand) {
    write_bytes(cameras_txt, "\n  # mine\n1\tSIMPLE_PINHOLE 8  6 10 4 3  \r\n");
    write_bytes(images_txt, "1 1 0 0 0 0 0 1 1 a.png \r\n\r\n\n# more\n2 1 0 0 0 0 0 2 1 b.png\n1 2 -1\n");
    write_bytes(points_txt, "");
    ASSERT_TRUE(load(&why)) << why.text;
    ASSERT_EQ(got.view_count, 2u);
    EXPECT_STREQ(got.views[0].name, "a.png");
    EXPECT_EQ(got.views[1].translation[2], 2.0f);
    EXPECT_EQ(got.point_count, 0u);
}

// A beginning of the comments alone holds nothing that could be missed: no points.
TEST_F(Colmap, RefusesEveryBeginningOfText) {
    write_text();
    for (const std::string &path : {cameras_txt, images_txt, points_txt}) {
        const std::string whole = read_bytes(path);
        for (size_t size = 0; size < whole.size(); size++) {
            write_bytes(path, whole.substr(0, size));
            const bool only_comments = path == points_txt && size <= whole.find("# Number") &&
                                       (size == 0 || whole[size - 1] == '\n');
            why = {};
            ASSERT_EQ(load(&why), only_comments) << path << " " << size << why.text;
            ASSERT_TRUE(only_comments || contains(why, path)) << why.text;
        }
        write_bytes(path, whole);
    }
}

TEST_F(Colmap, SurvivesEveryFlipOfText) {
    write_text();
    for (const std::string &path : {cameras_txt, images_txt, points_txt}) {
        const std::string whole = read_bytes(path);
        size_t refused = 0;
        for (size_t at = whole.find("# Number"); at < whole.size(); at++)
            for (const int bits : {0xff, 0x01, 0x20}) {
                std::string damaged = whole;
                damaged[at] = char(damaged[at] ^ bits);
                write_bytes(path, damaged);
                fault reason = {};
                if (load(&reason)) continue;
                refused++;
                ASSERT_TRUE(contains(reason, folder.path)) << at << ": " << reason.text;
            }
        EXPECT_GT(refused, whole.size() / 4);
        write_bytes(path, whole);
    }
}

TEST_F(Colmap, RefusesBadText) {
    const std::string image = "1 1 0 0 0 0 0 0 2 a.png\n\n", camera = "2 PINHOLE 8 6 10 11 4 3\n";
    const struct {
        std::string path, text, part;
    } rows[] = {
        {cameras_txt, "", "holds no cameras"},
        {cameras_txt, camera + camera, "two cameras have the id 2"},
        {cameras_txt, "x PINHOLE 8 6 10 11 4 3\n", "at line 1: expected a camera's id, not 'x PINHOLE"},
        {cameras_txt, "99999999999 PINHOLE 8 6 10 11 4 3\n", "at line 1: expected a camera's id"},
        {cameras_txt, "# 1\n\n2 PINBALL 8 6 10 11 4 3\n",
         "at line 3: expected the name of a camera model, not 'PINBALL"},
        {cameras_txt, "2\n", "at line 1: expected the name of a camera model"},
        {cameras_txt, "2 FULL_OPENCV 8 6 10 11 4 3 0 0 0 0\n",
         "at line 1: camera 2 has model 6 (FULL_OPENCV)"},
        {cameras_txt, "2 PINHOLE -8 6 10 11 4 3\n", "at line 1: expected a camera's image width"},
        {cameras_txt, "2 PINHOLE 8.5 6 10 11 4 3\n", "at line 1: expected a camera's image width"},
        {cameras_txt, "2 PINHOLE 8 0 10 11 4 3\n", "at line 1: camera 2 has images of 8 x 0 pixels"},
        {cameras_txt, "2 PINHOLE 8 20000 10 11 4 3\n", "at line 1: camera 2 has images of 8 x 20000 pixels"},
        {cameras_txt, "2 PINHOLE 8 99999999999999999999 10 11 4 3\n",
         "at line 1: expected a camera's image height"},
        {cameras_txt, "2 PINHOLE 8 6 10 11 4\n", "at line 1: expected a camera's parameter, not ''"},
        {cameras_txt, "2 PINHOLE 8 6 10 11 4 3 1\n", "at line 1: expected the end of the line, not '1'"},
        {cameras_txt, "2 PINHOLE 8 6 1e999 11 4 3\n", "at line 1: camera 2 has focal lengths inf"},
        {cameras_txt, "2 PINHOLE 8 6 0 11 4 3\n", "at line 1: camera 2 has fx, fy"},
        {cameras_txt, "2 PINHOLE 8 6 10 -11 4 3\n", "at line 1: camera 2 has focal lengths"},
        {cameras_txt, camera + std::string("3 PIN\0HOLE 8 6 10 11 4 3\n", 25),
         "at line 2: holds a zero byte"},
        {cameras_txt, "# Number of cameras: 2\n" + camera, "announces 2 cameras, but 1 stand"},
        {images_txt, "", "holds no images"},
        {images_txt, image + "2 1 0 0 0 0 0 0 2 a.png\n\n", "two images are named 'a.png'"},
        {images_txt, "1 0 0 0 0 0 0 0 2 a.png\n\n", "at line 1: image 'a.png' has the quaternion 0, 0, 0, 0"},
        {images_txt, "1 nan 0 0 0 0 0 0 2 a.png\n\n", "at line 1: image 'a.png' has the quaternion"},
        {images_txt, "1 1 0 0 0 0 inf 0 2 a.png\n\n", "at line 1: image 'a.png' has the translation"},
        {images_txt, image + "1 1 0 0 0 0 0 0 3 b.png\n\n", "at line 3: image 'b.png' is of camera 3"},
        {images_txt, "1 1 0 0 0 0 0 0 2 \n\n", "at line 1: image name '' is empty or leaves"},
        {images_txt, "1 1 0 0 0 0 0 0 2 ../a.png\n\n", "at line 1: image name '../a.png' is empty or leaves"},
        {images_txt, "1 1 0 0 0 0 0 0 2 /a.png\n\n", "at line 1: image name '/a.png' is empty or leaves"},
        {images_txt, "1 1 0 0 0 0 0 0 2 a.png\n",
         "truncated after line 1: the line of the image's 2D points"},
        {images_txt, "1 1 0 0 0 0 0 0 2 a.png\n2 1 0 0 0 0 0 0 2 b.png\n\n", "at line 2: 10 words for"},
        {images_txt, "# Number of images: 3, x\n" + image, "announces 3 images, but 1 stand"},
        {points_txt, "1 0 0 0 255 256 0 0\n", "at line 1: expected a point's colour (0..255), not '256"},
        {points_txt, "1 0 0 0 255 -1 0 0\n", "at line 1: expected a point's colour"},
        {points_txt, "1 0 0 nan 255 255 0 0\n", "at line 1: point number 0 is at 0, 0, nan"},
        {points_txt, "1 0 0 1e39 255 255 0 0\n", "at line 1: point number 0 is at"},
        {points_txt, "1 0 0 0 255 255 0\n", "at line 1: expected a point's error"},
        {points_txt, "1 0 0 0 255 255 0 0", "truncated at byte 19: line 1 has no end"},
    };
    for (const auto &row : rows) {
        write_bytes(cameras_txt, camera);
        write_bytes(images_txt, image);
        write_bytes(points_txt, "");
        ASSERT_TRUE(load(&why)) << why.text;
        write_bytes(row.path, row.text);
        expect_refusal(row.path, row.part);
    }
}

TEST_F(Colmap, FindsTheModel) {
    const std::string places[] = {folder.path, folder / "sparse", folder / "sparse/0"}; // the last wins
    char found[PATH_ROOM];
    EXPECT_FALSE(colmap_find(folder.path.c_str(), found));
    for (const std::string &place : places) {
        write_bytes(place + "/cameras.txt", "");
        ASSERT_TRUE(colmap_find(folder.path.c_str(), found));
        EXPECT_EQ(found, place);
        std::filesystem::rename(place + "/cameras.txt", place + "/cameras.bin");
        ASSERT_TRUE(colmap_find(folder.path.c_str(), found));
        EXPECT_EQ(found, place);
    }
}

} // namespace
