// SPDX-License-Identifier: MIT
#include "colmap_folder.h"

namespace {

TEST_F(Colmap, ReadsAModel) {
    write();
    ASSERT_TRUE(load(&why)) << why.text;
    ASSERT_EQ(got.view_count, 2u);
    EXPECT_STREQ(got.views[0].name, "a/c.png"); // by name
    EXPECT_STREQ(got.views[1].name, "b.png");
    EXPECT_EQ(lens_tuple(got.views[0].optics),
              lens_tuple({8, 6, 10, 11, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, false}));
    EXPECT_EQ(lens_tuple(got.views[1].optics),
              lens_tuple({640, 480, 500, 510, 0, 0, 320.5, 240.25, 0, 0, 0, 0, 0, 0, false}));
    ASSERT_EQ(got.point_count, 2u);
    for (size_t k = 0; k < 3; k++) {
        EXPECT_EQ(got.views[0].translation[k], images[1].translation[k]);
        EXPECT_EQ(got.views[1].translation[k], images[0].translation[k]);
        for (size_t i = 0; i < 2; i++) {
            EXPECT_EQ(got.points[i].place[k], points[i].position[k]);
            EXPECT_EQ(got.points[i].color[k], points[i].color[k]);
        }
    }
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
    write_bytes(points_txt, "7 0.5 -1 2 1 2 3 -1 101 2 100\n"); // half an entry: messages_test.cpp
    tracks = false;
    EXPECT_TRUE(load(&why)) << why.text;
}

TEST_F(Colmap, RefusesEveryBeginning) {
    write();
    for (const std::string &path : {cameras_bin, images_bin, points_bin})
        refuses_every_beginning(path, [&](fault *reason) { return load(reason); });
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

// ---- text

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
        const dataset_view &a = got.views[i], &b = binary.views[i];
        EXPECT_STREQ(a.name, b.name);
        EXPECT_EQ(lens_tuple(a.optics), lens_tuple(b.optics));
        EXPECT_EQ(memcmp(a.rotation, b.rotation, sizeof a.rotation), 0);
        EXPECT_EQ(memcmp(a.translation, b.translation, sizeof a.translation), 0);
        EXPECT_FALSE(a.held_out);
    }
    ASSERT_EQ(got.point_count, binary.point_count);
    for (size_t i = 0; i < got.point_count; i++) {
        EXPECT_EQ(memcmp(got.points[i].place, binary.points[i].place, sizeof got.points[i].place), 0);
        EXPECT_EQ(memcmp(got.points[i].color, binary.points[i].color, sizeof got.points[i].color), 0);
    }
    reconstruction_close(&binary);
}

TEST_F(Colmap, ReadsTextByHand) {
    write_bytes(cameras_txt, "\xef\xbb\xbf\n  # mine\n1\tSIMPLE_PINHOLE 8  6 10 4 3  \r\n");
    write_bytes(images_txt, "1 1 0 0 0 0 0 1 1 a.png \r\n\r\n\n# more\n2 1 0 0 0 0 0 2 1 b.png\n1 2 -1\n");
    write_bytes(points_txt, "18446744073709551615 1 2 3 4 5 6 -1");
    ASSERT_TRUE(load(&why)) << why.text;
    ASSERT_EQ(got.view_count, 2u);
    EXPECT_STREQ(got.views[0].name, "a.png");
    EXPECT_EQ(got.views[1].translation[2], 2.0);
    EXPECT_EQ(got.point_count, 1u);
}

// What is left of a file that was cut or edited decides, whatever its comments say: whole records are read.
TEST_F(Colmap, TakesWhatIsLeftOfText) {
    write_text();
    for (const std::string &path : {cameras_txt, images_txt, points_txt}) {
        const std::string whole = read_bytes(path);
        for (size_t size = 0; size < whole.size(); size++) {
            write_bytes(path, whole.substr(0, size));
            why = {};
            if (load(&why)) continue;
            ASSERT_TRUE(contains(why, folder.path)) << why.text;
        }
        write_bytes(path, whole);
        for (const size_t end : {whole.size() - 1, whole.rfind('\n', whole.size() - 2)}) {
            write_bytes(path, whole.substr(0, end)); // the last line without its end, then without itself
            EXPECT_EQ(load(&why), path != cameras_txt || end == whole.size() - 1) << path << why.text;
        }
        write_bytes(path, whole);
    }
}

} // namespace
