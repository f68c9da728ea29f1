// SPDX-License-Identifier: MIT
#include "transforms_folder.h"
#include "dataset_folder.h"
#include "formats/scene_bytes.h"
#include <cmath>

TEST_F(Transforms, ReadsInstantNgp) {
    touch("images/b.jpg");
    touch("images/a.jpg");
    ASSERT_TRUE(
        load(ngp + frame("./images/b.jpg", straight, ",\"sharpness\":31.7") + "," +
             frame("images/a.jpg", straight, ",\"fl_x\":50,\"w\":70,\"k1\":0,\"k3\":0.3,\"k4\":-0.4") + "]}"))
        << why.text;
    EXPECT_EQ(warning, "");
    ASSERT_EQ(got.view_count, 2u);
    EXPECT_EQ(got.point_count, 0u);
    EXPECT_STREQ(got.views[0].name, "images/a.jpg"); // by name
    EXPECT_STREQ(got.views[1].name, "images/b.jpg");
    EXPECT_TRUE(got.views[0].optics.width == 70 && got.views[0].optics.height == 60); // its own, and of all
    EXPECT_TRUE(got.views[1].optics.width == 80 && got.views[1].optics.height == 60);
    // fl_x wins over the angle; the first has its own fl_x, k1, k3, k4.
    const double expected[2][LENS_PARAMETERS] = {{50, 101, 40, 30.5, 0, -0.2, 0.01, 0.02, 0.3, -0.4},
                                                 {100.5, 101, 40, 30.5, 0.1, -0.2, 0.01, 0.02, 0, 0}};
    for (size_t i = 0; i < 2; i++)
        for (int k = 0; k < LENS_PARAMETERS; k++)
            EXPECT_EQ(*lens_value(&got.views[i].optics, &lens_parameters[k]), expected[i][k])
                << i << " " << k;
    EXPECT_FALSE(got.views[0].held_out || got.views[1].held_out);
}

// The first as nerfstudio writes it, the second as Open3D does.
TEST_F(Transforms, ReadsThePointsThatItNames) {
    touch("a.png");
    const std::string json =
        "{\"fl_x\":50,\"ply_file_path\":\"./sparse_pc.ply\",\"applied_transform\":[[0,1,0,0],"
        "[1,0,0,0],[0,0,-1,0]],\"frames\":[" +
        frame("a.png") + "]}";
    write_bytes(folder / "sparse_pc.ply", ply_of_points("ascii", "1.5 -2 3e0 9 8 7\n4 5 6 0 255 1\n"));
    const auto check = [&](uint8_t red) {
        ASSERT_TRUE(load(json)) << why.text;
        ASSERT_EQ(got.point_count, 2u);
        const reconstruction_point &first = got.points[0];
        EXPECT_TRUE(first.place[0] == 1.5 && first.place[1] == -2 && first.place[2] == 3);
        EXPECT_EQ(got.points[1].place[2], 6);
        EXPECT_EQ(first.color[0], red);
        EXPECT_EQ(got.points[1].color[1], red == 9 ? 255 : 128);
        EXPECT_EQ(got.points_file, folder / "sparse_pc.ply");
    };
    check(9);
    Bytes binary;
    binary.put(std::string(
        "ply\nformat binary_little_endian 1.0\nelement vertex 2\nproperty double x\nproperty short "
        "nx\nproperty double y\nproperty double z\nproperty char q\nend_header\n"));
    binary.put(1.5).put(int16_t(7)).put(-2.0).put(3.0).put(int8_t(-1));
    binary.put(4.0).put(int16_t(7)).put(5.0).put(6.0).put(int8_t(-1));
    write_bytes(folder / "sparse_pc.ply", binary.text);
    check(128); // no colours: gray
}

TEST_F(Transforms, ReadsFisheyes) {
    touch("a.png");
    touch("b.png");
    const std::string lens = "\"fl_x\":50,\"w\":80,\"h\":60,\"k1\":0.1,\"k2\":0.01,\"k3\":0.02,\"k4\":0.03,";
    for (const char *name : {"\"camera_model\":\"OPENCV_FISHEYE\",", "\"is_fisheye\":true,"}) {
        ASSERT_TRUE(load("{" + lens + name + "\"frames\":[" + frame("a") + "]}")) << why.text;
        const struct lens &a = got.views[0].optics;
        EXPECT_TRUE(a.fisheye && a.fx == 50 && a.k1 == 0.1 && a.k2 == 0.01 && a.k3 == 0.02 && a.k4 == 0.03)
            << name;
    }
    // One frame's own model, beside that of all.
    ASSERT_TRUE(load("{\"fl_x\":50,\"frames\":[" + frame("a") + "," +
                     frame("b", straight, ",\"camera_model\":\"RADIAL_FISHEYE\",\"k1\":0.2") + "]}"))
        << why.text;
    EXPECT_FALSE(got.views[0].optics.fisheye);
    EXPECT_TRUE(got.views[1].optics.fisheye);
    EXPECT_EQ(got.views[1].optics.k1, 0.2);
}

// (right, up, back) of the camera become (x, -y, -z).
TEST_F(Transforms, TurnsTheAxes) {
    touch("a.png");
    ASSERT_TRUE(load("{\"camera_angle_x\":1,\"frames\":[" + frame("a") + "]}")) << why.text;
    const Vector p = seen({1 + 0.5, 2 + 0.25, 3 - 2}); // 0.5 to the right, 0.25 up, 2 in front
    EXPECT_NEAR(p[0], 0.5, 1e-6);
    EXPECT_NEAR(p[1], -0.25, 1e-6);
    EXPECT_NEAR(p[2], 2, 1e-6);
    const double c = std::cos(0.8), s = std::sin(0.8);
    const Vector right = {c, s, 0}, up = {-s * 0.6, c * 0.6, 0.8}, back = {s * 0.8, -c * 0.8, 0.6},
                 place = {-4, 5, 6};
    ASSERT_TRUE(
        load("{\"camera_angle_x\":1,\"frames\":[" + frame("a", matrix(right, up, back, place)) + "]}"))
        << why.text;
    Vector world;
    for (size_t i = 0; i < 3; i++) world[i] = place[i] + 0.3 * right[i] + 0.7 * up[i] - 5 * back[i];
    const Vector q = seen(world);
    EXPECT_NEAR(q[0], 0.3, 1e-5);
    EXPECT_NEAR(q[1], -0.7, 1e-5);
    EXPECT_NEAR(q[2], 5, 1e-5);
}

TEST_F(Transforms, ReadsBlender) {
    write_picture("train/r_0.png", 8, 6, 4, {200, 100, 50, 255});
    write_picture("train/r_1.png", 8, 6, 4, {200, 100, 50, 51});
    write_picture("test/r_0.png", 4, 2, 4, {0, 0, 0, 0});
    write_bytes(folder / "transforms_train.json",
                "{\"camera_angle_x\":" + std::to_string(2 * std::atan(0.5)) + ",\"frames\":[" +
                    frame("./train/r_0", straight, ",\"rotation\":0.01") + "," + frame("./train/r_1") + "]}");
    write_bytes(folder / "transforms_test.json",
                "{\"camera_angle_x\":0.5,\"frames\":[" + frame("./test/r_0") + "]}");
    write_bytes(path, "this is not read");
    const dataset_options options = options_of(1, {1, 1, 0});
    ASSERT_TRUE(load_data(options)) << why.text;
    ASSERT_EQ(data.view_count, 3u);
    EXPECT_STREQ(data.views[0].name, "test/r_0.png");
    EXPECT_STREQ(data.views[1].name, "train/r_0.png");
    EXPECT_TRUE(data.views[0].held_out);
    EXPECT_FALSE(data.views[1].held_out || data.views[2].held_out);
    EXPECT_TRUE(data.is_object);
    EXPECT_EQ(data.views[0].camera.width, 4); // sizes differ
    const gs_camera &camera = data.views[1].camera;
    const float got_camera[] = {float(camera.width), float(camera.height),
                                camera.fx,           camera.fy,
                                camera.cx,           camera.cy},
                expected[] = {8, 6, 8, 8, 4, 3}; // fx: 4 / tan(angle / 2)
    for (int k = 0; k < 6; k++) EXPECT_NEAR(got_camera[k], expected[k], 1e-4) << k;
    EXPECT_EQ(camera.fy, camera.fx);
    // Over (255, 255, 0): nothing, all, a fifth.
    const uint8_t colors[3][3] = {{255, 255, 0}, {200, 100, 50}, {244, 224, 10}};
    for (size_t i = 0; i < 3; i++)
        for (size_t c = 0; c < 3; c++) EXPECT_EQ(data.views[i].picture.pixels[c], colors[i][c]) << i;
    dataset_hold_out(&data, 1); // the data's own choice stands
    EXPECT_FALSE(data.views[1].held_out);

    std::filesystem::remove(folder / "transforms_test.json");
    ASSERT_TRUE(load_data(options)) << why.text;
    EXPECT_EQ(data.view_count, 2u);
    EXPECT_EQ(data.views[1].alpha, nullptr);
    dataset_hold_out(&data, 2);
    EXPECT_TRUE(data.views[0].held_out);
}

// Straightened and downscaled with its picture.
TEST_F(Transforms, KeepsAlphaIfAsked) {
    write_picture("a.png", 80, 60, 4, {10, 20, 30, 0});
    write_picture("b.png", 80, 60, 3, {10, 20, 30, 0});
    image picture;
    ASSERT_TRUE(image_read((folder / "a.png").c_str(), &picture, &why)) << why.text;
    for (int i = 0; i < 80 * 60; i++) picture.pixels[4 * i + 3] = uint8_t(3 * (i % 80));
    ASSERT_TRUE(image_write_png((folder / "a.png").c_str(), &picture, &why)) << why.text;
    image_close(&picture);
    write_bytes(path, ngp + frame("a.png", straight) + "," + frame("b.png", straight) + "]}");
    dataset_options options = options_of(2, {1, 0, 0});
    options.keep_alpha = true;
    ASSERT_TRUE(load_data(options)) << why.text;
    ASSERT_EQ(data.view_count, 2u);
    EXPECT_FALSE(data.is_object);
    EXPECT_EQ(data.views[1].alpha, nullptr);
    const dataset_view &view = data.views[0];
    ASSERT_NE(view.alpha, nullptr);
    bool varies = false;
    for (int i = 0; i < view.picture.width * view.picture.height; i++) {
        const double open = 1 - view.alpha[i] / 255.0; // the picture says the same: it was put on red
        EXPECT_NEAR(view.picture.pixels[3 * i], 10 * (1 - open) + 255 * open, 2.5) << i;
        EXPECT_NEAR(view.picture.pixels[3 * i + 1], 20 * (1 - open), 1.5) << i;
        varies |= view.alpha[i] != view.alpha[0];
    }
    EXPECT_TRUE(varies);
}

// Undistorted at full size, then averaged; the intrinsics divided.
TEST_F(Transforms, UndistortsBeforeItDownscales) {
    write_picture("a.png", 80, 60, 3, {10, 20, 30, 0});
    image picture;
    ASSERT_TRUE(image_read((folder / "a.png").c_str(), &picture, &why)) << why.text;
    for (int j = 0; j < 60; j++)
        for (int i = 0; i < 80; i++) picture.pixels[3 * (80 * j + i)] = uint8_t(3 * i);
    ASSERT_TRUE(image_write_png((folder / "a.png").c_str(), &picture, &why)) << why.text;
    write_bytes(path, ngp + frame("a.png", straight, ",\"cx\":41,\"p1\":0,\"p2\":0") + "]}");
    ASSERT_TRUE(load(&why)) << why.text;
    image undistorted, expected;
    ASSERT_TRUE(lens_undistort(&got.views[0].optics, &picture, &undistorted, &why)) << why.text;
    EXPECT_NE(memcmp(undistorted.pixels, picture.pixels, 80 * 60 * 3), 0);
    ASSERT_TRUE(image_downscale(&undistorted, 4, &expected, &why)) << why.text;
    const dataset_options options = options_of(4);
    ASSERT_TRUE(load_data(options)) << why.text;
    const dataset_view &view = data.views[0];
    EXPECT_EQ(view.camera.width, 20);
    EXPECT_EQ(view.camera.height, 15);
    EXPECT_EQ(view.camera.fx, 100.5f / 4);
    EXPECT_EQ(view.camera.fy, 101.0f / 4);
    EXPECT_EQ(view.camera.cx, 41.0f / 4);
    EXPECT_EQ(view.camera.cy, 30.5f / 4);
    EXPECT_FALSE(data.is_object);
    EXPECT_EQ(memcmp(view.picture.pixels, expected.pixels, 20 * 15 * 3), 0);
    image_close(&picture);
    image_close(&undistorted);
    image_close(&expected);
}

TEST_F(Transforms, ForgivesRounding) {
    touch("a.png");
    const double c = std::cos(0.5), s = std::sin(0.5);
    const double turn[9] = {c, -s, 0, s, c, 0, 0, 0, 1};
    double m[9];
    for (int i = 0; i < 9; i++) m[i] = turn[i] + 1e-3 * std::sin(5.0 * i);
    ASSERT_TRUE(load(
        "{\"camera_angle_x\":1,\"frames\":[" +
        frame("a", matrix({m[0], m[3], m[6]}, {m[1], m[4], m[7]}, {m[2], m[5], m[8]}, {0, 0, 0})) + "]}"))
        << why.text;
    const double *r = got.views[0].rotation;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            EXPECT_NEAR(r[3 * i] * r[3 * j] + r[3 * i + 1] * r[3 * j + 1] + r[3 * i + 2] * r[3 * j + 2],
                        i == j, 1e-6);
            const double flip = i == 0 ? 1 : -1;
            EXPECT_NEAR(r[3 * i + j], flip * turn[3 * j + i], 2e-3);
        }
}

// Photographs with a lens, as transforms_load reads them.
TEST_F(Transforms, ReadsBackWhatItWrites) {
    touch("images/a.jpg");
    touch("images/b\"c.jpg");
    const double c = std::cos(0.3), n = std::sin(0.3);
    ASSERT_TRUE(load(ngp + frame("images/a.jpg", matrix({c, n, 0}, {-n, c, 0}, {0, 0, 1}, {1, -2, 3e-5})) +
                     "," + frame("images/b\\\"c.jpg", straight, ",\"k1\":0,\"k2\":0,\"p1\":0,\"p2\":0") +
                     "]}"))
        << why.text;
    const reconstruction first = got;
    got = {};
    touch("images/m.png");
    char names[2][8] = {"a.jpg", "b\"c.jpg"}, mask[] = "images/m.png";
    std::vector<dataset_view> frames(first.views, first.views + 2);
    for (size_t i = 0; i < 2; i++) frames[i].name = names[i];
    frames[1].mask_path = mask;
    ASSERT_TRUE(transforms_save(path.c_str(), "images", frames.data(), 2, &why)) << why.text;
    ASSERT_TRUE(load(&why)) << why.text;
    ASSERT_EQ(got.view_count, 2u);
    for (size_t i = 0; i < 2; i++) {
        const dataset_view &view = got.views[i], &before = first.views[i];
        EXPECT_STREQ(view.name, before.name);
        EXPECT_STREQ(view.mask_path, frames[i].mask_path);
        lens a = view.optics, b = before.optics;
        EXPECT_EQ(a.width, b.width);
        EXPECT_EQ(a.height, b.height);
        EXPECT_EQ(a.fisheye, b.fisheye);
        for (const lens_parameter &parameter : lens_parameters)
            EXPECT_EQ(*lens_value(&a, &parameter), *lens_value(&b, &parameter)) << parameter.name;
        for (int k = 0; k < 9; k++) EXPECT_NEAR(view.rotation[k], before.rotation[k], 2e-7);
        for (int k = 0; k < 3; k++) EXPECT_NEAR(view.translation[k], before.translation[k], 1e-6);
    }
    reconstruction scene = first;
    reconstruction_close(&scene);

    EXPECT_FALSE(transforms_save((folder / "no/such.json").c_str(), "", frames.data(), 2, &why));
    EXPECT_TRUE(contains(why, "no/such.json: cannot write")) << why.text;
}

// A file of nerfstudio has rotations of 0.21 times their length.
TEST_F(Transforms, DividesAScaleOut) {
    touch("a.png");
    touch("b.png");
    const double c = 0.21 * std::cos(0.8), s = 0.21 * std::sin(0.8);
    ASSERT_TRUE(load("{\"camera_angle_x\":1,\"frames\":[" +
                     frame("b", matrix({c, s, 0}, {-s, c, 0}, {0, 0, 0.21}, {1, 2, 3})) + "," + frame("a") +
                     "]}"))
        << why.text;
    EXPECT_EQ(warning, "dsplat: " + folder.path +
                           ": 1 of 2 rotations have a scale, which is divided out (the first: 'b')\n");
    const double *const r = got.views[1].rotation, *const t = got.views[1].translation;
    EXPECT_NEAR(r[0], c / 0.21, 1e-12);
    EXPECT_NEAR(r[3] * r[3] + r[4] * r[4] + r[5] * r[5], 1, 1e-12);
    for (size_t k = 0; k < 3; k++)
        EXPECT_NEAR(r[k] * t[0] + r[3 + k] * t[1] + r[6 + k] * t[2], -double(k + 1), 1e-12);
}

// Colours by other names; floats are parts of 1 unless one is more.
TEST_F(Transforms, ReadsColoursOfPointsByOtherNamesAndRanges) {
    touch("a.png");
    const std::string json = "{\"fl_x\":50,\"ply_file_path\":\"p.ply\",\"frames\":[" + frame("a.png") + "]}";
    const auto read = [&](const std::string &type, const std::string &before, const std::string &row) {
        std::string header =
            "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty "
            "float z\n";
        for (const char *color : {"red", "green", "blue"})
            header += "property " + type + " " + before +
                      (before.empty() ? std::string(1, color[0]) : color) + "\n";
        write_bytes(folder / "p.ply", header + "end_header\n1 2 3 0 0 0\n4 5 6 " + row);
        EXPECT_TRUE(load(json)) << why.text;
        return got.point_count == 2 ? std::vector<int>(got.points[1].color, got.points[1].color + 3)
                                    : std::vector<int>();
    };
    EXPECT_EQ(read("uchar", "diffuse_", "9 8 7"), (std::vector<int>{9, 8, 7}));
    EXPECT_EQ(read("uchar", "", "1 0 1"), (std::vector<int>{1, 0, 1}));
    EXPECT_EQ(read("float", "diffuse_", "0.5 0 1"), (std::vector<int>{128, 0, 255}));
    EXPECT_EQ(read("double", "", "0.5 200 1.5"), (std::vector<int>{0, 200, 1}));
}

TEST_F(Transforms, RefusesEveryBeginning) {
    touch("a.png");
    const std::string json = ngp + frame("a") + "]}";
    ASSERT_TRUE(load(json)) << why.text;
    refuses_every_beginning(path, [&](fault *reason) { return load(reason); });
}

TEST_F(Transforms, HoldsOutWhatIsInBothSplits) {
    touch("a.png");
    touch("b.png");
    const std::string train = folder / "transforms_train.json", test = folder / "transforms_test.json";
    // What is in both is held out, unless nothing else would be trained on.
    write_bytes(train, ngp + frame("a") + "," + frame("b") + "]}");
    write_bytes(test, ngp + frame("b.png") + "]}");
    const std::string both = "dsplat: " + folder.path + ": 1 of 2 pictures are both to train on and held out";
    ASSERT_TRUE(load(&why)) << why.text;
    EXPECT_TRUE(got.view_count == 2 && !got.views[0].held_out && got.views[1].held_out);
    EXPECT_EQ(warning, both + ", and are held out (the first: 'b.png')\n");
    write_bytes(test, read_bytes(train));
    ASSERT_TRUE(load(&why)) << why.text;
    EXPECT_TRUE(got.view_count == 2 && !got.views[0].held_out && !got.views[1].held_out);
    EXPECT_NE(warning.find("both to train on and held out: this split is ignored"), std::string::npos);
}

// ---- as public reports have them

// A mark of UTF-8 and paths of Windows.
TEST_F(Transforms, ReadsFilesOfWindows) {
    touch("images/a.png");
    touch("images/a_mask.png");
    ASSERT_TRUE(load("\xef\xbb\xbf" + ngp +
                     frame(".\\\\images\\\\a.png", straight, ",\"mask_path\":\"images\\\\a_mask.png\"") +
                     "]}"))
        << why.text;
    EXPECT_STREQ(got.views[0].name, "images/a.png");
    EXPECT_STREQ(got.views[0].mask_path, "images/a_mask.png");
}

TEST_F(Transforms, TakesTheSplitOfNerfstudio) {
    for (const char *name : {"a.png", "b.png", "c.png"}) touch(name);
    ASSERT_TRUE(load(
        "{\"fl_x\":9,\"train_filenames\":[\"a.png\"],\"val_filenames\":[\"./b.png\"],\"test_filenames\":[\"c.png\"],"
        "\"frames\":[" +
        frame("a.png") + "," + frame("./b.png") + "," + frame("c.png") + "]}"))
        << why.text;
    EXPECT_TRUE(!got.views[0].held_out && got.views[1].held_out && got.views[2].held_out);
}
