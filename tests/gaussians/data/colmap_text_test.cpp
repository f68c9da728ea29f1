// SPDX-License-Identifier: MIT
#include "colmap_folder.h"

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

// What binary models have too is refused by the same lines of code: colmap_test.cpp.
TEST_F(Colmap, RefusesBadText) {
    const std::string image = "1 1 0 0 0 0 0 0 2 a.png\n\n", camera = "2 PINHOLE 8 6 10 11 4 3\n";
    const struct {
        std::string path, text, part;
    } rows[] = {
        {cameras_txt, "", "holds no cameras"},
        {cameras_txt, "x PINHOLE 8 6 10 11 4 3\n", "at line 1: expected a camera's id, not 'x PINHOLE"},
        {cameras_txt, "99999999999 PINHOLE 8 6 10 11 4 3\n", "at line 1: expected a camera's id"},
        {cameras_txt, "# 1\n\n2 PINBALL 8 6 10 11 4 3\n",
         "at line 3: camera 2 has model PINBALL, which cannot be read; only SIMPLE_PINHOLE, "},
        {cameras_txt, "2 EUCM 8 6 10 11 4 3 0.5 1\n",
         "at line 1: camera 2 has model 16 (EUCM), which cannot be read"},
        {points_txt, "x 0 0 0 255 255 0 0\n", "at line 1: expected a point's id"},
        {cameras_txt, "2\n", "at line 1: expected the name of a camera model"},
        {cameras_txt, "2 PINHOLE -8 6 10 11 4 3\n", "at line 1: expected a camera's image width"},
        {cameras_txt, "2 PINHOLE 8.5 6 10 11 4 3\n", "at line 1: expected a camera's image width"},
        {cameras_txt, "2 PINHOLE 8 99999999999999999999 10 11 4 3\n",
         "at line 1: expected a camera's image height"},
        {cameras_txt, "2 PINHOLE 8 6 10 11 4\n", "at line 1: expected a camera's parameter, not ''"},
        {cameras_txt, "2 PINHOLE 8 6 10 11 4 3 1\n", "at line 1: expected the end of the line, not '1'"},
        {cameras_txt, "2 PINHOLE 8 6 1e999 11 4 3\n", "at line 1: camera 2 has focal lengths inf"},
        {cameras_txt, camera + std::string("3 PIN\0HOLE 8 6 10 11 4 3\n", 25),
         "at line 2: holds a zero byte"},
        {images_txt, "", "holds no images"},
        {images_txt, "1 0 0 0 0 0 0 0 2 a.png\n\n", "at line 1: image 'a.png' has the quaternion 0, 0, 0, 0"},
        {images_txt, image + "1 1 0 0 0 0 0 0 3 b.png\n\n", "at line 3: image 'b.png' is of camera 3"},
        {images_txt, "1 1 0 0 0 0 0 0 2 \n\n", "at line 1: image name '' is empty or leaves"},
        {images_txt, "1 1 0 0 0 0 0 0 2 a.png\n2 1 0 0 0 0 0 0 2 b.png\n\n", "at line 2: 10 words for"},
        {points_txt, "1 0 0 0 255 256 0 0\n", "at line 1: expected a point's colour (0..255), not '256"},
        {points_txt, "1 0 0 nan 255 255 0 0\n", "at line 1: point number 0 is at 0, 0, nan"},
        {points_txt, "1 0 0 0 255 255 0\n", "at line 1: expected a point's error"},
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
