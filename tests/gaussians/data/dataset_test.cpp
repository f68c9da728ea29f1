// SPDX-License-Identifier: MIT
// Photographs with their cameras, masks and depth maps. What is refused: messages_test.cpp.
#include "data_folder.h"

namespace dataset_test {

class Dataset : public Data {
  protected:
    // One digit for each pixel of a view: 1 if it counts.
    std::string mask_of(size_t i) {
        std::string text;
        const dataset_view &view = got.views[i];
        for (int k = 0; view.mask && k < view.picture.width * view.picture.height; k++)
            text += view.mask[k] == 255 ? '1' : view.mask[k] == 0 ? '0' : '?';
        return text;
    }
    // Loads, and finds the same cameras without pictures.
    void load_both(int downscale) {
        options.downscale = downscale, options.wanted = dataset_no_picture;
        ASSERT_TRUE(load(options)) << why.text;
        ASSERT_TRUE(got.view_count == 2 && !got.views[0].picture.pixels && !got.views[1].picture.pixels);
        const gs_camera alone[] = {got.views[0].camera, got.views[1].camera};
        ASSERT_TRUE(load(downscale)) << why.text;
        for (size_t i = 0; i < 2; i++) EXPECT_EQ(memcmp(&alone[i], &got.views[i].camera, sizeof alone[i]), 0);
    }
    bool may_write(const std::string &name) { return dataset_may_write(&got, (folder / name).c_str(), &why); }
};

int white(int, int) {
    return 255;
}
float ramp(int x, int y) {
    return 0.25f * float(x) + 2 * float(y);
}

TEST_F(Dataset, LoadsPicturesByName) {
    write_all();
    load_both(1);
    EXPECT_EQ(names(), (texts{"a.png", "b.png"}));
    expect_view(0, {7, 5, 9, 8, 3, 2});
    EXPECT_EQ(got.views[0].picture.pixels[0], 40);
    expect_values(got.views[1].picture.pixels + 3 * (8 * 5 + 7), {27, 50});
    EXPECT_EQ(got.views[0].camera.translation[2], 2.0f);
    EXPECT_EQ(got.point_count, 1u);
    EXPECT_EQ(got.colors[0][0], 9);
    for (size_t i = 0; i < 2; i++) EXPECT_FLOAT_EQ(got.views[i].camera.near_plane, 0.05f); // at z = -1, 2
}

TEST_F(Dataset, ScalesCamerasWithPictures) {
    write_all();
    load_both(2);
    expect_view(0, {3, 2, 4.5, 4, 1.5, 1}); // 7 x 5: the last column and row are cut off
    expect_view(1, {4, 3, 5, 5.5, 2.25, 1.625});
    expect_values(got.views[0].picture.pixels, {41, 5}); // of 40 and 41, halves upward; of 0 and 10
    EXPECT_EQ(got.views[0].picture.pixels[3 * (3 * 1 + 2) + 1], 25);
    load_both(6);
    expect_view(0, {1, 1, 9.0 / 6, 8.0 / 5, 3.0 / 6, 2.0 / 5}); // of 5 rows
    EXPECT_EQ(got.views[0].picture.pixels[1], 20);              // of 0, 10, ... 40
    EXPECT_FALSE(load(0) || load(-2));
}

TEST_F(Dataset, AFisheyeStaysOneUnlessUndistorted) {
    cameras[0].model = 5;
    cameras[0].parameters = {4, 5, 4.5, 3.25, 0.1, 0.02, 0.003, 0.0004};
    write_all();
    ASSERT_TRUE(load(2)) << why.text;
    EXPECT_EQ(got.views[0].camera.model, GS_PINHOLE);
    EXPECT_EQ(got.views[1].camera.model, GS_FISHEYE);
    EXPECT_EQ(got.views[1].camera.fx, 2);
    expect_values(got.views[1].camera.distortion, {0.1, 0.02, 0.003, 0.0004}, 1e-8);
    ASSERT_TRUE(load(1)) << why.text;
    const image &picture = got.views[1].picture;
    const std::string bent(reinterpret_cast<char *>(picture.pixels), 3 * 8 * 6);
    options.undistort = true;
    ASSERT_TRUE(load(options)) << why.text;
    EXPECT_EQ(got.views[1].camera.model, GS_PINHOLE);
    expect_view(1, {8, 6, 4, 5, 4.5, 3.25}, 0);
    EXPECT_EQ(got.views[1].camera.distortion[0], 0);
    EXPECT_NE(memcmp(got.views[1].picture.pixels, bent.data(), bent.size()), 0);
}

TEST_F(Dataset, ReadsThePicturesThatAreWanted) {
    write_all();
    write_bytes(folder / "images/b.png", "no picture");
    options.wanted = [](size_t index, const char *name, const void *wanted) {
        return index == (name[0] == 'a' ? 0u : 1u) && strcmp(name, static_cast<const char *>(wanted)) == 0;
    };
    options.context = "a.png";
    ASSERT_TRUE(load(options)) << why.text;
    expect_view(0, {7, 5, 9, 8, 3, 2});
    EXPECT_EQ(got.views[1].picture.pixels, nullptr);
    EXPECT_EQ(got.views[1].camera.width, 8);
    options.context = "b.png";
    EXPECT_FALSE(load(options));
    EXPECT_TRUE(contains(why, "b.png")) << why.text;
}

TEST_F(Dataset, KnowsItsFiles) {
    write_all();
    write_bytes(folder / "images/other.png", "no picture of the model");
    std::filesystem::create_symlink("images/a.png", folder / "link");
    for (const auto wanted : {decltype(options.wanted)(nullptr), dataset_no_picture}) {
        options.wanted = wanted;
        ASSERT_TRUE(load(options)) << why.text;
        for (const char *name : {"sparse/0/cameras.bin", "sparse/0/images.bin", "sparse/0/points3D.bin",
                                 "images/a.png", "images/b.png", "images/../images//b.png", "link"}) {
            EXPECT_FALSE(may_write(name)) << name;
            EXPECT_EQ(why.text, folder / name + ": cannot write: is one of the files of the data");
        }
        for (const char *name : {"images/other.png", "images/c.png", "images", "a.png", "none/a.png"})
            EXPECT_TRUE(may_write(name)) << name;
        EXPECT_TRUE(dataset_may_write(&got, nullptr, &why));
    }
}

// ---- the rules that are the same for all readers

TEST_F(Dataset, SkipsViewsWithoutAPicture) {
    points[0].track = {101, 100};
    write_all();
    gone("images/a.png");
    std::filesystem::create_directories(folder / "images/a.png"); // is no picture
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_EQ(names(), texts{"b.png"});
    EXPECT_EQ(said, says("1 of 2 views have no picture and are skipped (the first: 'a.png')"));
    // Also of cameras without pictures, so that views have one number; but with none at all they are the model's. Tracks
    // keep the views that stay.
    options.wanted = dataset_no_picture, options.with_tracks = true;
    for (const size_t left : {1u, 2u}) {
        ASSERT_TRUE(load(options)) << why.text;
        EXPECT_EQ(got.view_count, left);
        ASSERT_EQ(got.track_count, left);
        EXPECT_STREQ(got.views[got.tracks[left - 1].view].name, "b.png");
        gone("images");
    }
}

TEST_F(Dataset, FindsPicturesByOtherNamesAndInOtherFolders) {
    const auto move = [&](const std::string &from, const std::string &to) {
        std::filesystem::rename(folder / from, folder / to);
    };
    const auto found = [&](const std::string &in, const texts &expected) {
        ASSERT_TRUE(load(1)) << why.text;
        EXPECT_EQ(got.picture_folder, in);
        EXPECT_EQ(names(), expected);
        const std::string path = folder.path + (in.empty() ? "" : "/" + in);
        EXPECT_EQ(said, in == "images"
                            ? ""
                            : says("the pictures are read from " + path + ", as images has fewer of them"));
    };
    write_all();
    move("images/a.png", "images/a.PNG");
    found("images", {"a.PNG", "b.png"});
    move("images", "images_4");
    found("images_4", {"a.PNG", "b.png"});
    move("images_4", "input");
    write_bytes(folder / "images/b.png", "fewer"); // images has one of them
    found("input", {"a.PNG", "b.png"});
    images[0].name = "b", images[1].name = "a.HEIC";
    write_model();
    move("input/a.PNG", "a.jpg");
    move("input/b.png", "b.png");
    found("", {"a.jpg", "b.png"});
}

// Map coordinates: seven digits before the point. What is far moves to the origin, by a round offset; by whole numbers if
// all cameras are in one place.
TEST_F(Dataset, MovesTheOriginToCamerasThatAreFarFromIt) {
    const std::array<double, 3> map = {500000, 4500000, 300};
    images[1].quaternion = {0.5, 0.5, 0.5, 0.5}; // each axis to the next
    const struct {
        double is_far, apart;
        std::string origin;
    } rows[] = {{0, 1, ""}, {1, 1, "499999.5, 4500000, 300"}, {1, 1e-5, "500000, 4500000, 300"}};
    for (const auto &row : rows) {
        for (size_t k = 0; k < 3; k++) {
            const double far = row.is_far * (map[k] + (row.apart < 1 ? 0.3 : 0));
            images[0].translation[k] = -0.1 * double(k) * row.apart - far; // of the unit quaternion
            images[1].translation[(k + 1) % 3] = (k == 0) * row.apart - far;
            points[0].position[k] = 0.3 + far;
        }
        write_all();
        ASSERT_TRUE(load(1)) << why.text;
        for (size_t k = 0; k < 3; k++) {
            EXPECT_NEAR(got.views[1].camera.translation[k] - got.offset[k], images[0].translation[k], 1e-6);
            EXPECT_NEAR(got.views[0].camera.translation[(k + 1) % 3] - got.offset[k],
                        images[1].translation[(k + 1) % 3], 1e-6);
            EXPECT_NEAR(got.points[0][k] + got.offset[k], points[0].position[k], 1e-6) << k;
            EXPECT_LT(std::abs(got.points[0][k]), 2) << k;
            EXPECT_NEAR(got.offset[k], row.is_far * map[k], 1) << k;
            EXPECT_EQ(got.offset[k], std::round(4 * got.offset[k]) / 4) << k; // all its digits are said
        }
        EXPECT_EQ(said, row.is_far == 0 ? ""
                                        : says("far from the origin: coordinates are taken from " +
                                               row.origin + ", which a .ply of the scene says"));
    }
}

// ---- masks

TEST_F(Dataset, ReadsMasksByBothNames) {
    write_all();
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_TRUE(!got.views[0].mask && !got.views[0].mask_path);
    write_mask("a.png.png", 7, 5, [](int x, int y) { return x == 3 || y == 0 ? 0 : 1 + x; });
    write_mask("b.png", 8, 6, [](int x, int) { return x < 4 ? 255 : 0; });
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_EQ(mask_of(0), "00000001110111111011111101111110111");
    EXPECT_EQ(mask_of(1), "111100001111000011110000111100001111000011110000");
    EXPECT_STREQ(got.views[0].mask_path, "masks/a.png.png");
    EXPECT_STREQ(got.views[1].mask_path, "masks/b.png");
    EXPECT_FALSE(may_write("masks/b.png")); // it is one of the data's files
    ASSERT_TRUE(load(2)) << why.text;       // a smaller pixel counts if its whole block does
    EXPECT_EQ(mask_of(0), "000101");
    EXPECT_EQ(mask_of(1), "110011001100");
    EXPECT_FALSE(load(3)); // no block of a.png is whole
    EXPECT_EQ(why.text, folder / "images/a.png: its mask leaves no pixel that counts");
}

TEST_F(Dataset, MakesMasksOfAlpha) {
    write_all(4); // alpha 16 (x + y): 0 in one corner
    options = options_of(1, {1, 1, 1});
    options.keep_alpha = options.mask_from_alpha = true;
    ASSERT_TRUE(load(options)) << why.text;
    for (size_t i = 0; i < 2; i++) {
        EXPECT_EQ(mask_of(i), "0" + std::string(i == 0 ? 34 : 47, '1'));
        EXPECT_EQ(got.views[i].alpha, nullptr);
        EXPECT_EQ(got.views[i].picture.channels, 3);
        expect_values(got.views[i].picture.pixels, {i == 0 ? 40.0 : 20.0}); // as the file has it
        expect_values(got.views[i].picture.pixels + 3, {i == 0 ? 41.0 : 21.0});
    }
    EXPECT_FALSE(got.is_object);
    // Both masks apply.
    write_mask("b.png", 8, 6, [](int x, int) { return x == 7 ? 0 : 255; });
    write_mask("a.png", 7, 5, white);
    ASSERT_TRUE(load(options)) << why.text;
    EXPECT_EQ(mask_of(1).substr(0, 16), "0111111011111110");
}

TEST_F(Dataset, MasksMayBeOfSomePicturesAndOfAnotherSize) {
    write_all();
    write_mask("b.png", 4, 3, [](int x, int y) { return x == 1 && y == 2 ? 0 : 255; });
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_EQ(got.views[0].mask, nullptr);
    EXPECT_EQ(mask_of(1), std::string(32, '1') + "1100111111001111");
    EXPECT_EQ(
        said,
        says("1 of 2 pictures have no mask, so all their pixels count (the first: 'a.png')") +
            says("1 of 2 masks have another size than their picture, and are stretched to it (the first: "
                 "'b.png')"));
}

// ---- depth maps

TEST_F(Dataset, ReadsDepthMapsByEveryName) {
    images[0].name = "left/b.jpg.png"; // a picture in a folder, whose stem has a suffix
    write_model();
    write_ramp("left/b.jpg.png", 8, 6, 20);
    write_ramp("a.png", 7, 5, 40);
    ASSERT_TRUE(load(1)) << why.text;
    write_depth("a.pfm", 7, 5, ramp);
    write_depth("left/b.jpg.png", 8, 6, [](int x, int y) { return float(x + 8 * y) / 65535; });
    ASSERT_TRUE(load_depth(1)) << why.text;
    for (int i = 0; i < 35; i++) EXPECT_EQ(got.views[0].depth[i], ramp(i % 7, i / 7));
    for (int i = 0; i < 48; i++) EXPECT_EQ(got.views[1].depth[i], float(i) / 65535);
    EXPECT_FALSE(may_write("depth/a.pfm") || may_write("depth/left/b.jpg.png"));
    // PNG comes before PFM, the whole name before its stem.
    for (const std::string name : {"a.png", "a.png.png"}) {
        write_depth(name, 7, 5, [&](int, int) { return name.size() > 5 ? 0.0f : 1.0f; });
        ASSERT_TRUE(load_depth(1)) << why.text;
        EXPECT_EQ(got.views[0].depth[3], name.size() > 5 ? 0 : 1);
    }
}

TEST_F(Dataset, ReadsDepthMapsOfTheViewsThatAreAskedFor) {
    write_all();
    write_depth("b.pfm", 8, 6, ramp);
    ASSERT_TRUE(load(1)) << why.text;
    dataset_hold_out(&got, 2); // a.png
    ASSERT_TRUE(load_depth(1)) << why.text;
    EXPECT_TRUE(!got.views[0].depth && got.views[1].depth);
    EXPECT_FALSE(load_depth(1, DEPTH_MAPS_HELD_OUT) || load_depth(1, DEPTH_MAPS_ALL));
    EXPECT_TRUE(contains(why, "a.png")) << why.text;
}

// All that belongs to a picture is undistorted at full size, then made smaller by means of blocks.
TEST_F(Dataset, ResamplesMapsWithTheirPicture) {
    cameras[0] = {1, 4, 80, 60, {100.5, 101, 41, 30.5, 0.1, -0.2, 0.01, 0.02}};
    write_model();
    write_ramp("a.png", 7, 5, 40);
    const auto rgba = [](int x, int y, int c) { return c == 0 ? 3 * x : c < 3 || x < 40 ? 85 * c : 4 * y; };
    const auto unknown = [](int x, int y) { return x == 70 && y == 10; };
    const auto depth_of = [&](int x, int y) { return unknown(x, y) ? INFINITY : float(3 * x); };
    write_picture("images/b.png", 80, 60, 4, rgba);
    write_mask("a.png", 7, 5, white);
    write_mask("b.png", 80, 60, [&](int x, int y) { return unknown(x, y) ? 0 : 255; });
    write_depth("a.pfm", 7, 5, ramp);
    write_depth("b.pfm", 80, 60, depth_of);
    ASSERT_TRUE(list()) << why.text;
    image over, picture, small; // on red
    plane maps[3], map, mean;   // alpha, mask, depth
    ASSERT_TRUE(image_open(&over, 80, 60, 3, &why));
    for (plane &one : maps) ASSERT_TRUE(plane_open(&one, 80, 60, &why));
    for (int i = 0; i < 80 * 60; i++) {
        const int x = i % 80, y = i / 80;
        const float alpha = float(rgba(x, y, 3)) / 255;
        for (int c = 0; c < 3; c++)
            over.pixels[3 * i + c] =
                uint8_t(float(rgba(x, y, c)) * alpha + (c == 0 ? 255 : 0) * (1 - alpha) + 0.5f);
        maps[0].values[i] = float(rgba(x, y, 3));
        maps[1].values[i] = unknown(x, y) ? NAN : 0;
        maps[2].values[i] = unknown(x, y) ? NAN : depth_of(x, y);
    }
    const lens *const optics = &listed.views[1].optics;
    ASSERT_TRUE(lens_undistort(optics, &over, &picture, &why)) << why.text;
    for (const int factor : {1, 4}) {
        options = options_of(factor, {1, 0, 0});
        options.keep_alpha = true;
        ASSERT_TRUE(load(options) && load_depth(factor)) << why.text;
        const dataset_view &view = got.views[1];
        const int pixels = 80 * 60 / factor / factor;
        expect_view(
            1, {80.0 / factor, 60.0 / factor, 100.5 / factor, 101.0 / factor, 41.0 / factor, 30.5 / factor});
        ASSERT_TRUE(image_downscale(&picture, factor, &small, &why));
        EXPECT_EQ(memcmp(view.picture.pixels, small.pixels, size_t(3 * pixels)), 0);
        image_close(&small);
        for (int m = 0; m < 3; m++) {
            ASSERT_TRUE(lens_undistort_plane(optics, &maps[m], &map, &why) &&
                        plane_downscale(&map, factor, &mean, &why));
            for (int i = 0; i < pixels; i++) {
                const float value = mean.values[i], depth = view.depth[i];
                const bool same = m == 0   ? view.alpha[i] == uint8_t(value + 0.5f)
                                  : m == 1 ? view.mask[i] == (std::isnan(value) ? 0 : 255)
                                           : depth == value || (std::isnan(depth) && std::isnan(value));
                ASSERT_TRUE(same) << m << " " << i;
            }
            plane_close(&map), plane_close(&mean);
        }
        EXPECT_EQ(view.mask[10 / factor * (80 / factor) + 70 / factor], 0);
        EXPECT_TRUE(!got.views[0].alpha && mask_of(0) == std::string(factor == 1 ? 35 : 1, '1'));
        EXPECT_EQ(got.views[0].depth[0], factor == 1 ? ramp(0, 0) : ramp(0, 0) + 3.375f);
    }
    EXPECT_NE(memcmp(over.pixels, picture.pixels, 3 * 80 * 60), 0);
    EXPECT_FALSE(got.is_object);
    image_close(&over), image_close(&picture);
    for (plane &one : maps) plane_close(&one);
}

// Pictures, masks, alpha and depth that memory does not hold lie in a file, with the same values.
TEST_F(Dataset, MorePicturesThanMemoryHolds) {
    write_all(4);
    for (const std::string name : {"a", "b"}) {
        const int width = name == "a" ? 7 : 8, height = width - 2;
        write_mask(name + ".png", width, height, [](int x, int) { return x < 3 ? 0 : 255; });
        write_depth(name + ".pfm", width, height, ramp);
    }
    options.keep_alpha = true;
    const auto all = [&](size_t memory) {
        options.memory = memory;
        // Depth a second time takes the place of the first.
        EXPECT_TRUE(load(options) && load_depth(1) && load_depth(1)) << why.text;
        Bytes bytes;
        for (size_t i = 0; i < got.view_count; i++) {
            const dataset_view &v = got.views[i];
            for (int k = 0; k < v.camera.width * v.camera.height; k++) {
                bytes.put(v.alpha[k]).put(v.mask[k]).put(v.depth[k]);
                for (int c = 0; c < 3; c++) bytes.put(v.picture.pixels[3 * k + c]);
            }
        }
        return bytes.text;
    };
    const std::string expected = all(0);
    EXPECT_EQ(expected.size(), (35u + 48) * 9);
    EXPECT_EQ(got.store.mapped, nullptr);
    EXPECT_EQ(all(35 * 3 + 35), expected); // those of one view, or nearly
    EXPECT_NE(got.store.mapped, nullptr);
    EXPECT_EQ(all(1), expected);
    setenv("TMPDIR", (folder / "none").c_str(), 1);
    EXPECT_FALSE(load(options));
    unsetenv("TMPDIR");
    EXPECT_TRUE(contains(why, "/images/") && contains(why, ".png: cannot keep") &&
                contains(why, "/none: No such file or directory; set TMPDIR"))
        << why.text;
    EXPECT_EQ(got.views, nullptr);
}

// ---- near planes

// Of cameras along the x axis, which are turned.
float near_plane_of(const numbers &places) {
    std::vector<dataset_view> views(places.size());
    for (size_t i = 0; i < places.size(); i++) {
        views[i].camera.rotation[2] = views[i].camera.rotation[4] = 1, views[i].camera.rotation[6] = -1;
        views[i].camera.translation[2] = float(places[i]); // -R c
    }
    dataset_set_near_planes(&views[0].camera, sizeof views[0], views.size());
    for (const auto &view : views) EXPECT_EQ(view.camera.near_plane, views[0].camera.near_plane);
    return views[0].camera.near_plane;
}
numbers row(size_t count, double distance) {
    numbers out(count);
    for (size_t i = 0; i < count; i++) out[i] = distance * double(i);
    return out;
}

TEST(NearPlane, IsHalfTheDistanceToTheNextCamera) {
    for (double unit : {1e-12, 1.0, 1e6}) {
        EXPECT_NEAR(near_plane_of(row(101, unit)) / unit, 0.5, 1e-5);
        numbers few = row(101, unit);
        for (size_t i = 0; i < 50; i++) few[2 * i] = few[2 * i + 1]; // most have another beside them
        few.push_back(500 * unit);
        EXPECT_NEAR(near_plane_of(few) / unit, 445.098 / 100000, 1e-6);
    }
    EXPECT_NEAR(near_plane_of(row(20001, 0.25)), 0.125, 1e-5);
    EXPECT_FLOAT_EQ(near_plane_of(row(11, 3)), 15.0f / 30); // at most a 30th of the spread
    EXPECT_FLOAT_EQ(near_plane_of(row(2, 3)), 1.5f / 30);
    EXPECT_EQ(near_plane_of({0}), 0.01f); // all are in one place
    EXPECT_EQ(near_plane_of({7, 7, 7, 7, 7}), 0.01f);
}

} // namespace dataset_test
