// SPDX-License-Identifier: MIT
#include "transforms_folder.h"
#include "dataset.h"

TEST_F(Transforms, RefusesFisheyesWithoutARay) {
    touch("a.png");
    const auto refused = [&](const std::string &lens, const char *part) {
        EXPECT_FALSE(load("{\"is_fisheye\":true,\"w\":80,\"h\":60,\"cx\":40,\"cy\":30," + lens +
                          "\"frames\":[" + frame("a") + "]}"))
            << lens;
        EXPECT_TRUE(contains(why, part)) << why.text;
    };
    refused("\"camera_angle_x\":1,", "frames[0]: the camera has a fisheye without a focal length");
    refused("\"fl_x\":30,\"k1\":-0.5,", "frames[0]: the camera has the distortion k1, k2, k3, k4 = -0.5, ");
}

TEST_F(Transforms, RefusesEveryBeginning) {
    touch("a.png");
    const std::string json = ngp + frame("a") + "]}";
    ASSERT_TRUE(load(json)) << why.text;
    refuses_every_beginning(path, [&](fault *reason) { return load(reason); });
}

TEST_F(Transforms, SurvivesEveryFlip) {
    touch("a.png");
    write_bytes(path, ngp + frame("a") + "]}");
    survives_every_flip(
        path, [&](fault *reason) { return load(reason); }, [] {});
}

TEST_F(Transforms, RefusesBadSyntax) {
    touch("a.png");
    const std::string good = ngp + frame("a") + "]}";
    expect_refusal("", "at line 1, column 0 (byte 0): ");
    expect_refusal("[]", "at byte 0: not an object");
    expect_refusal(good + "x", "at line 1, column " + std::to_string(good.size() + 1));
    expect_refusal(replaced(good, "100.5", "NaN"),
                   "at line 1, column 11 (byte 11): invalid token near 'NaN'");
    expect_refusal(replaced(good, "100.5", "Infinity"), "at line 1, column 16 (byte 16): invalid token");
    expect_refusal(replaced(good, "100.5", "1e999"), "at line 1, column 13 (byte 13): real number overflow");
    expect_refusal(replaced(good, "100.5", "1" + std::string(400, '0')), "at line 1, column ");
    expect_refusal(replaced(good, "\"fl_y\"", "\n\"fl_x\""),
                   "at line 2, column 6 (byte 21): duplicate object key");
    expect_refusal(replaced(good, "\"a\"", "\"\\u0000\""), "at line 1, column ");
    expect_refusal(replaced(good, "\"a\"", "\"\xff\""), "at line 1, column ");
    expect_refusal(std::string(100000, '['),
                   "at line 1, column 2049 (byte 2049): maximum parsing depth reached");
    std::string bomb = "{\"a\":";
    for (int i = 0; i < 50000; i++) bomb += "{\"a\":";
    expect_refusal(bomb, "at line 1, column ");
}

TEST_F(Transforms, RefusesBadFields) {
    touch("a.png");
    touch("b.png");
    const std::string good = ngp + frame("a") + "," + frame("b") + "]}", field = "frames[1].";
    ASSERT_TRUE(load(good)) << why.text;
    const std::string second = frame("b");
    const auto with = [&](const std::string &frame_json) { return replaced(good, second, frame_json); };
    const struct {
        std::string json, part;
    } rows[] = {
        {"{}", "frames: must be an array"},
        {ngp + "]}", "holds no images"},
        {"{\"frames\":[" + second + "]}", "frames[0].fl_x: is missing, and so is camera_angle_x"},
        {"{\"fl_y\":100,\"frames\":[" + second + "]}", "frames[0].fl_x: is missing"},
        {replaced(good, "100.5", "\"100\""), "fl_x: must be a number"},
        {replaced(good, "100.5", "0"), "fl_x: 0; must be above 0"},
        {replaced(good, "100.5", "-3"), "fl_x: -3; must be above 0"},
        {replaced(good, "100.5", "1e39"), "frames[0]: the camera has focal lengths 1e+39"},
        {replaced(good, "\"cy\":30.5", "\"cy\":1e300"), "frames[0]: the camera has the principal point"},
        {replaced(good, "\"k1\":0.1", "\"k1\":1e300"), "frames[0]: the camera has the distortion"},
        {replaced(good, "\"k1\":0.1", "\"k1\":[]"), "k1: must be a number"},
        {replaced(good, "\"w\":80", "\"w\":0"), "w: 0; must be a whole number, 1..16384"},
        {replaced(good, "\"w\":80", "\"w\":80.5"), "w: 80.5; must be a whole number"},
        {replaced(good, "\"k1\"", "\"k3\":0.1,\"k1\""), "k3: 0.1; this distortion cannot be read"},
        {replaced(good, "\"k1\"", "\"k6\":0.1,\"k1\""), "k6: 0.1; this distortion cannot be read"},
        {replaced(good, "\"k1\"", "\"is_fisheye\":true,\"k1\""), "p1: 0.01; this distortion cannot be read"},
        {replaced(good, "\"k1\"", "\"camera_model\":\"OPENCV_FISHEYE\",\"k1\""),
         "p1: 0.01; this distortion cannot be read"},
        {replaced(good, "\"k1\"", "\"camera_model\":\"FULL_OPENCV\",\"k1\""),
         "camera_model: the lens 'FULL_OPENCV' cannot"},
        {replaced(good, "\"k1\"", "\"camera_model\":7,\"k1\""), "camera_model: must be a string"},
        {"{\"camera_angle_x\":0,\"frames\":[" + second + "]}", "camera_angle_x: 0; must be above 0"},
        {"{\"camera_angle_x\":3.2,\"frames\":[" + second + "]}", "frames[0]: the camera has focal lengths"},
        {with("7"), "frames[1]: must be an object"},
        {with("{}"), field + "file_path: is missing"},
        {with("{\"file_path\":7}"), field + "file_path: must be a string"},
        {with(frame("a")), "two images are named 'a.png'"},
        {with(frame("./a.png")), "two images are named 'a.png'"},
        {with(frame("")), field + "file_path: '' is empty or leaves the folder"},
        {with(frame("../a")), field + "file_path: '../a' is empty or leaves"},
        {with("{\"file_path\":\"b\"}"), field + "transform_matrix: must be an array of 4 rows"},
        {with(frame("b", "[[1,0,0,0],[0,1,0,0],[0,0,1,0]]")),
         field + "transform_matrix: must be an array of 4 rows"},
        {with(frame("b", "[[1,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]")),
         field + "transform_matrix[0]: must be an array of 4"},
        {with(frame("b", "[[1,0,0,0],[0,1,0,0],[0,0,1,\"0\"],[0,0,0,1]]")),
         field + "transform_matrix[2][3]: must be a number"},
        {with(frame("b", "[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,2]]")),
         field + "transform_matrix: the last row is 0 0 0 2"},
        {with(frame("b", "[[0,0,0,0],[0,0,0,0],[0,0,0,0],[0,0,0,1]]")),
         field + "transform_matrix: not a rotation"},
        {with(frame("b", "[[1,0,0,0],[0,1,0,0],[0,1,0,0],[0,0,0,1]]")),
         field + "transform_matrix: not a rotation"},
        {with(frame("b", "[[1,0,0,0],[0,1,0,0],[0,0,-1,0],[0,0,0,1]]")),
         field + "transform_matrix: not a rotation"},
        {with(frame("b", "[[2,0,0,0],[0,2,0,0],[0,0,1,0],[0,0,0,1]]")),
         field + "transform_matrix: not a rotation"},
        {with(frame("b", "[[1,0.01,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]")),
         field + "transform_matrix: not a rotation"},
        {with(frame("b", "[[1e300,0,0,0],[0,1e300,0,0],[0,0,1e300,0],[0,0,0,1]]")),
         field + "transform_matrix: not a rotation"},
        {with(frame("b", "[[1,0,0,1e39],[0,1,0,0],[0,0,1,0],[0,0,0,1]]")),
         "frames[1]: image 'b' has the translation -1e+39, "},
        {with(frame("b", "[[1,0,0,0],[0,1,0,-1.1e18],[0,0,1,0],[0,0,0,1]]")),
         "frames[1]: image 'b' has the translation 0, -1.1e+18, 0"},
    };
    for (const auto &row : rows) expect_refusal(row.json, row.part);
}

TEST_F(Transforms, NamesTheFileOfASplit) {
    touch("a.png");
    touch("b.png");
    const std::string train = folder / "transforms_train.json", test = folder / "transforms_test.json";
    write_bytes(train, ngp + frame("a") + "]}");
    write_bytes(test, ngp + frame("b"));
    EXPECT_FALSE(load(&why));
    EXPECT_TRUE(contains(why, test + ": at line 1")) << why.text;
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
    EXPECT_TRUE(warning.find("both to train on and held out: this split is ignored") != std::string::npos)
        << warning;
    write_bytes(train, "");
    EXPECT_FALSE(load(&why));
    EXPECT_TRUE(contains(why, train + ": at line 1")) << why.text;
}

TEST_F(Transforms, RefusesPicturesOfAnotherSize) {
    write_picture("a.png", 80, 61, 3, {1, 2, 3, 0});
    write_bytes(path, ngp + frame("a") + "]}");
    const dataset_options options = {1, {0, 0, 0}, nullptr, nullptr, false, false, false, 0, false};
    dataset data;
    EXPECT_FALSE(dataset_load(folder.path.c_str(), &options, &data, &why));
    EXPECT_TRUE(contains(why, folder / "a.png: the picture has 80 x 61 pixels, its camera 80 x 60"))
        << why.text;
    // An angle so small that the focal length, known only now, is infinite.
    write_bytes(path, "{\"camera_angle_x\":1e-300,\"frames\":[" + frame("a") + "]}");
    EXPECT_FALSE(dataset_load(folder.path.c_str(), &options, &data, &why));
    EXPECT_TRUE(contains(why, folder / "a.png: the camera has focal lengths")) << why.text;
    EXPECT_EQ(data.views, nullptr);
}
