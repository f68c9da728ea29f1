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
