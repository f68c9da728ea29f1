// SPDX-License-Identifier: MIT
// Masks and depth maps.
#include "dataset_folder.h"
#include <cmath>

namespace dataset_maps_test {

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
        dataset_may_write(&got, (folder / "masks/b.png").c_str(), &ignored)); // it is one of the data's files
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
    dataset_options options = options_of(1, {1, 1, 1});
    options.keep_alpha = options.mask_from_alpha = true;
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
    EXPECT_FALSE(got.transparent);
    dataset_close(&got);
    // Both masks apply.
    write_mask("b.png", 8, 6, [](int x, int) { return x == 7 ? 0 : 255; });
    write_mask("a.png", 7, 5, white);
    ASSERT_TRUE(dataset_load(folder.path.c_str(), &options, &got, &why)) << why.text;
    EXPECT_EQ(text_of(got.views[1]).substr(0, 16), "0111111011111110");
}

TEST_F(Dataset, MasksMayBeOfSomePicturesAndOfAnotherSize) {
    write_all();
    std::filesystem::create_directories(folder / "masks");
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_EQ(warning, says("2 of 2 pictures have no mask, so all their pixels count (the first: 'a.png')"));
    write_mask("b.png", 4, 3, [](int x, int y) { return x == 1 && y == 2 ? 0 : 255; });
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_EQ(got.views[0].mask, nullptr);
    EXPECT_EQ(text_of(got.views[1]), std::string(32, '1') + "1100111111001111");
    EXPECT_EQ(
        warning,
        says("1 of 2 pictures have no mask, so all their pixels count (the first: 'a.png')") +
            says("1 of 2 masks have another size than their picture, and are stretched to it (the first: "
                 "'b.png')"));
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
    EXPECT_FALSE(dataset_may_write(&got, (folder / "depth/a.pfm").c_str(), &ignored));
    EXPECT_FALSE(dataset_may_write(&got, (folder / "depth/left/b.jpg.png").c_str(), &ignored));
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

// Pictures, masks, alpha and depth that memory does not hold lie in a file, with the same values.
TEST_F(Dataset, MorePicturesThanMemoryHolds) {
    write_model();
    write_picture("b.png", 8, 6, 20, 4);
    write_picture("a.png", 7, 5, 40, 4);
    for (const auto &[name, width, height] : {std::tuple{"a.png", 7, 5}, std::tuple{"b.png", 8, 6}})
        write_mask(name, width, height, [](int x, int) { return x < 3 ? 0 : 255; });
    write_depth("a.pfm", 7, 5, ramp);
    write_depth("b.pfm", 8, 6, ramp);
    dataset_options options = options_of(1);
    options.keep_alpha = true;
    const auto all = [&](size_t memory) {
        dataset_close(&got);
        options.memory = memory;
        EXPECT_TRUE(dataset_load(folder.path.c_str(), &options, &got, &why) && load_depth(1) && load_depth(1))
            << why.text; // depth a second time takes the place of the first
        std::string bytes;
        for (size_t i = 0; i < got.view_count; i++) {
            const dataset_view &view = got.views[i];
            const size_t pixels = size_t(view.camera.width) * size_t(view.camera.height);
            for (const auto &[array, size] : {std::pair<const void *, size_t>{view.picture.pixels, 3},
                                              {view.alpha, 1},
                                              {view.mask, 1},
                                              {view.depth, 4}})
                bytes.append(static_cast<const char *>(array), size * pixels);
        }
        return bytes;
    };
    const std::string expected = all(0);
    EXPECT_EQ(expected.size(), (35u + 48) * 9);
    EXPECT_EQ(got.store.mapped, nullptr);
    EXPECT_EQ(all(35 * 3 + 35), expected); // those of one view, or nearly
    EXPECT_NE(got.store.mapped, nullptr);
    EXPECT_EQ(all(1), expected);
    setenv("TMPDIR", (folder / "none").c_str(), 1);
    dataset_close(&got);
    EXPECT_FALSE(dataset_load(folder.path.c_str(), &options, &got, &why));
    unsetenv("TMPDIR");
    EXPECT_TRUE(contains(why, "/images/") && contains(why, ".png: cannot keep") &&
                contains(why, "/none: No such file or directory; set TMPDIR"))
        << why.text;
    EXPECT_EQ(got.views, nullptr);
}

} // namespace dataset_maps_test
