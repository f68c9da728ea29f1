// SPDX-License-Identifier: MIT
// COLMAP's models. What is refused: messages_test.cpp.
#include "data_folder.h"

namespace colmap_test {

class Colmap : public Data {
  protected:
    const std::string cameras_txt = folder / "sparse/0/cameras.txt",
                      images_txt = folder / "sparse/0/images.txt",
                      points_txt = folder / "sparse/0/points3D.txt";
};

TEST_F(Colmap, ReadsBinaryAndTextAlike) {
    cameras[0] = {5, 4, 640, 480, {500, 510, 320.5, 240.25, 0.1, -0.02, 1e-3, 1.0 / 3}};
    images = {{"b.png", 5, {std::sqrt(0.5), 0, 0, std::sqrt(0.5)}, {1, 2, 3}, 2},
              {"a/c.png", 2, {-3e200, 0, 0, 0}, {-1, 0, 0}, 0},
              {"a name with spaces.png", 5, {1e-200, 2e-200, 3e-200, 4e-200}, {1e-3, 1.0 / 3, -7e5}, 0}};
    const numbers turned = {-10, 2, 11, 10, -5, 10, 5, 14, 2}; // of 1 + 2 i + 3 j + 4 k, times 15
    points = {{{0.5, -1, 1.0 / 3}, {1, 2, 3}, {1, 1}}, {{4, 5, 6}, {255, 0, 128}}};
    for (const bool text : {false, true}) {
        write_model(text);
        ASSERT_TRUE(list()) << why.text;
        EXPECT_EQ(names(), (texts{"a name with spaces.png", "a/c.png", "b.png"}));
        EXPECT_EQ(lens_of(1), (numbers{7, 5, 0, 9, 8, 3, 2, 0, 0, 0, 0, 0, 0}));
        EXPECT_EQ(lens_of(2),
                  (numbers{640, 480, 0, 500, 510, 320.5, 240.25, 0.1, -0.02, 1e-3, 1.0 / 3, 0, 0}));
        ASSERT_EQ(listed.point_count, 2u);
        for (size_t k = 0; k < 9; k++) EXPECT_NEAR(listed.views[0].rotation[k], turned[k] / 15, 1e-12);
        expect_values(listed.views[1].rotation, {1, 0, 0, 0, 1, 0, 0, 0, 1});
        expect_values(listed.views[2].rotation, {0, -1, 0, 1, 0, 0, 0, 0, 1}, 1e-12);
        expect_values(listed.views[0].translation, {1e-3, 1.0 / 3, -7e5});
        expect_values(listed.views[1].translation, {-1, 0, 0});
        expect_values(listed.views[2].translation, {1, 2, 3});
        for (size_t i = 0; i < 2; i++)
            for (size_t k = 0; k < 3; k++) {
                EXPECT_EQ(listed.points[i].place[k], points[i].position[k]);
                EXPECT_EQ(listed.points[i].color[k], points[i].color[k]);
            }
    }
}

// Images have the ids 100 (b.png) and 101 (a.png), and are sorted by name.
TEST_F(Colmap, ReadsTracksWhereTheyAreWanted) {
    points = {{{0.5, -1, 2}, {1, 2, 3}, {101, 7, 100}}, {{4, 5, 6}, {255, 0, 128}, {100}}}; // no image 7
    const std::vector<std::array<int64_t, 2>> expected = {{0, 0}, {1, 0}, {1, 1}};
    for (const bool text : {false, true}) {
        write_model(text);
        for (const bool wanted : {false, true}) {
            tracks = wanted;
            ASSERT_TRUE(list()) << why.text;
            EXPECT_EQ(listed.view_count, 2u);
            ASSERT_EQ(listed.track_count, wanted ? 3u : 0u);
            for (size_t i = 0; i < listed.track_count; i++) {
                EXPECT_EQ(listed.tracks[i].view, expected[i][0]) << i;
                EXPECT_EQ(listed.tracks[i].point, expected[i][1]) << i;
            }
        }
    }
    write_bytes(points_txt, "7 0.5 -1 2 1 2 3 -1 101 2 100\n"); // half an entry: messages_test.cpp
    tracks = false;
    EXPECT_TRUE(list()) << why.text;
}

// Each model's parameters, in COLMAP's order; then width, height, fisheye, fx, fy, cx, cy, k1, k2, p1, p2, k3, k4.
TEST_F(Colmap, ReadsTheCameraModels) {
    const struct {
        int32_t model;
        const char *name;
        numbers parameters, expected;
    } models[] = {
        {0, "SIMPLE_PINHOLE", {10, 4, 3}, {8, 6, 0, 10, 10, 4, 3, 0, 0, 0, 0, 0, 0}},
        {1, "PINHOLE", {10, 11, 4, 3}, {8, 6, 0, 10, 11, 4, 3, 0, 0, 0, 0, 0, 0}},
        {2, "SIMPLE_RADIAL", {10, 4, 3, .1}, {8, 6, 0, 10, 10, 4, 3, .1, 0, 0, 0, 0, 0}},
        {3, "RADIAL", {10, 4, 3, .1, .2}, {8, 6, 0, 10, 10, 4, 3, .1, .2, 0, 0, 0, 0}},
        {4, "OPENCV", {10, 11, 4, 3, .1, .2, .3, .4}, {8, 6, 0, 10, 11, 4, 3, .1, .2, .3, .4, 0, 0}},
        {5, "OPENCV_FISHEYE", {10, 11, 4, 3, .1, .2, .3, .4}, {8, 6, 1, 10, 11, 4, 3, .1, .2, 0, 0, .3, .4}},
        {8, "SIMPLE_RADIAL_FISHEYE", {10, 4, 3, .1}, {8, 6, 1, 10, 10, 4, 3, .1, 0, 0, 0, 0, 0}},
        {9, "RADIAL_FISHEYE", {10, 4, 3, .1, .2}, {8, 6, 1, 10, 10, 4, 3, .1, .2, 0, 0, 0, 0}},
        {14, "SIMPLE_FISHEYE", {10, 4, 3}, {8, 6, 1, 10, 10, 4, 3, 0, 0, 0, 0, 0, 0}},
        {15, "FISHEYE", {10, 11, 4, 3}, {8, 6, 1, 10, 11, 4, 3, 0, 0, 0, 0, 0, 0}}};
    for (const auto &each : models)
        for (const bool text : {false, true}) {
            EXPECT_EQ(lens_model_find(each.name), lens_models + each.model);
            cameras[0].model = each.model, cameras[0].parameters = each.parameters;
            write_model(text);
            ASSERT_TRUE(list()) << why.text;
            EXPECT_EQ(lens_of(1), each.expected) << each.model << text;
        }
}

TEST_F(Colmap, FindsTheLargestModel) {
    const std::string places[] = {folder / "sparse/1", folder / "sparse/2", folder / "sparse", folder.path};
    char found[PATH_ROOM];
    EXPECT_FALSE(colmap_find(folder.path.c_str(), false, found));
    for (const bool text : {false, true})
        for (const std::string &largest : places) {
            for (const std::string &place : places) {
                images.resize(place == largest ? 2 : 1, images[0]);
                std::filesystem::remove(place + "/images.bin");
                write_bytes(place + "/cameras.bin", "");
                write_bytes(place + (text ? "/images.txt" : "/images.bin"), model_file(images, text));
            }
            testing::internal::CaptureStderr();
            ASSERT_TRUE(colmap_find(folder.path.c_str(), false, found));
            EXPECT_EQ(found, largest);
            EXPECT_EQ(testing::internal::GetCapturedStderr(),
                      "dsplat: " + largest + ": the largest of 4 models, with 2 images, is read\n");
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
    points.push_back(points[0]);
    write_model(true);
    std::filesystem::remove(points_txt);
    const std::map<std::string, std::string> kinds = {
        {".bin", model_file(points)},
        {".txt", model_file(points, true)},
        {".ply", ply_header("1", {"x", "y", "z"}, "ascii") + "1 2 3"}};
    for (const char *name : {"sparse/0/points3D", "sparse/0/points3d"})
        for (const auto &[suffix, bytes] : kinds) {
            const std::string path = folder / (name + suffix);
            write_bytes(path, bytes);
            ASSERT_TRUE(list()) << why.text;
            EXPECT_EQ(listed.point_count, suffix == ".ply" ? 1u : 2u) << path;
            EXPECT_STREQ(listed.points_file, path.c_str());
            std::filesystem::remove(path);
        }
    images.pop_back();
    write_bytes(folder / "sparse/0/images.bin", model_file(images)); // rather than images.txt
    ASSERT_TRUE(list()) << why.text;
    EXPECT_EQ(listed.view_count, 1u);
}

TEST_F(Colmap, ReadsTextByHand) {
    write_bytes(cameras_txt, "\xef\xbb\xbf\n  # mine\n1\tSIMPLE_PINHOLE 8  6 10 4 3  \r\n");
    write_bytes(images_txt, "1 1 0 0 0 0 0 1 1 a.png \r\n\r\n\n# more\n2 1 0 0 0 0 0 2 1 b.png\n1 2 -1\n");
    write_bytes(points_txt, "18446744073709551615 1 2 3 4 5 6 -1");
    ASSERT_TRUE(list()) << why.text;
    EXPECT_EQ(names(), (texts{"a.png", "b.png"}));
    EXPECT_EQ(listed.views[1].translation[2], 2.0);
    EXPECT_EQ(listed.point_count, 1u);
}

// What is left of a file that was cut or edited decides, whatever its comments say: whole records are read.
TEST_F(Colmap, TakesWhatIsLeftOfText) {
    write_model(true);
    for (const std::string &path : {cameras_txt, images_txt, points_txt}) {
        const std::string whole = read_bytes(path);
        for (const size_t end : {whole.size() - 1, whole.rfind('\n', whole.size() - 2)}) {
            write_bytes(path, whole.substr(0, end)); // the last line without its end, then without itself
            EXPECT_EQ(list(), path != cameras_txt || end == whole.size() - 1) << path << why.text;
        }
        write_bytes(path, whole);
    }
}

TEST_F(Colmap, RefusesEveryBeginning) {
    write_model();
    for (const char *name : {"cameras.bin", "images.bin", "points3D.bin"})
        refuses_every_beginning(folder / (std::string("sparse/0/") + name),
                                [&](fault *reason) { return list() || (*reason = why, false); });
}

} // namespace colmap_test
