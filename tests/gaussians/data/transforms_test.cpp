// SPDX-License-Identifier: MIT
// transforms.json. What is refused: messages_test.cpp.
#include "data_folder.h"

namespace transforms_test {

class Transforms : public Data {
  protected:
    // Lists one camera with this pose.
    void list_pose(const std::string &pose) {
        touch({"a.png"});
        list(document("'camera_angle_x':1", {frame("a", pose)}));
    }
    // Where the only camera sees a world point.
    void expect_seen(const Vector &world, const numbers &expected) {
        Vector seen;
        const dataset_view &view = listed.views[0];
        for (size_t row = 0; row < 3; row++) {
            seen[row] = view.translation[row];
            for (size_t i = 0; i < 3; i++) seen[row] += view.rotation[3 * row + i] * world[i];
        }
        expect_values(seen.data(), expected, 1e-12);
    }
};

// One as Windows has it: a mark of UTF-8, and backslashes.
TEST_F(Transforms, ReadsInstantNgp) {
    touch({"images/b.jpg", "images/a.jpg", "images/a_mask.png"});
    list("\xef\xbb\xbf" +
         document(ngp,
                  {frame("./images/b.jpg", straight, ",'sharpness':31.7"),
                   frame(".\\\\images\\\\a.jpg", straight,
                         ",'mask_path':'images\\\\a_mask.png','fl_x':50,'w':70,'k1':0,'k3':0.3,'k4':-0.4")}));
    EXPECT_EQ(said,
              says("1 of 2 pictures have no mask, so all their pixels count (the first: 'images/b.jpg')"));
    EXPECT_EQ(listed.point_count, 0u);
    EXPECT_EQ(names(), (texts{"images/a.jpg", "images/b.jpg"}));
    // fl_x wins over the angle; the first has its own w, fl_x, k1, k3, k4.
    EXPECT_EQ(lens_of(0), (numbers{70, 60, 0, 50, 101, 40, 30.5, 0, -0.2, 0.01, 0.02, 0.3, -0.4}));
    EXPECT_EQ(lens_of(1), (numbers{80, 60, 0, 100.5, 101, 40, 30.5, 0.1, -0.2, 0.01, 0.02, 0, 0}));
    EXPECT_FALSE(listed.views[0].held_out || listed.views[1].held_out);
    EXPECT_STREQ(listed.views[0].mask_path, "images/a_mask.png");
    for (const std::string name : {"points3D.txt", "points3D.bin"}) { // which takes precedence
        points.resize(name == "points3D.txt" ? 1 : 2, points[0]);
        write_bytes(folder / name, model_file(points, points.size() == 1));
        ASSERT_TRUE(list()) << why.text;
        EXPECT_EQ(listed.point_count, points.size());
    }
}

// As text, without colours, as bytes; then colours by other names: floats are parts of 1 unless
// one is more.
TEST_F(Transforms, ReadsThePointsThatItNames) {
    const std::string json = document("'fl_x':50,'ply_file_path':'./p.ply','applied_transform':[[0,1,0,0],"
                                      "[1,0,0,0],[0,0,-1,0]]",
                                      {frame("a.png")});
    Bytes binary;
    binary.put(1.5f).put(-2.0f).put(3.0f).put(std::string("rgb"));
    binary.put(4.0f).put(5.0f).put(6.0f).put(std::string("\7\0\1", 3));
    const std::string first = "1.5 -2 3 0 0 0\n4 5 6 ";
    const texts rgb = {"r", "g", "b"}, diffuse = {"diffuse_red", "diffuse_green", "diffuse_blue"};
    const struct {
        std::string ply;
        numbers color; // of the second
    } rows[] = {{ply_of_points("ascii", "1.5 -2 3e0 9 8 7\n4 5 6 0 255 1\n"), {0, 255, 1}},
                {ply_of_points("ascii", first + "0 0 1", "float", {"nx", "ny", "nz"}), {128, 128, 128}},
                {ply_of_points("binary_little_endian", binary.text), {7, 0, 1}},
                {ply_of_points("ascii", first + "9 8 7", "uchar", diffuse), {9, 8, 7}},
                {ply_of_points("ascii", first + "1 0 1", "uchar", rgb), {1, 0, 1}},
                {ply_of_points("ascii", first + "0.5 0 1", "float", diffuse), {128, 0, 255}},
                {ply_of_points("ascii", first + "0.5 200 1.5", "double", rgb), {0, 200, 1}}};
    touch({"a.png"});
    for (const auto &row : rows) {
        write_bytes(folder / "p.ply", row.ply);
        list(json);
        ASSERT_EQ(listed.point_count, 2u);
        expect_values(listed.points[0].place, {1.5, -2, 3});
        expect_values(listed.points[1].place, {4, 5, 6});
        expect_values(listed.points[1].color, row.color);
        EXPECT_EQ(listed.points_file, folder / "p.ply");
    }
}

TEST_F(Transforms, ReadsFisheyes) {
    touch({"a.png", "b.png"});
    const std::string lens = "'fl_x':50,'w':80,'h':60,'k1':0.1,'k2':0.01,'k3':0.02,'k4':0.03,";
    for (const char *name : {"'camera_model':'OPENCV_FISHEYE'", "'is_fisheye':true"}) {
        list(document(lens + name, {frame("a")}));
        const numbers got_lens = lens_of(0);
        expect_values(got_lens.data(), {80, 60, 1, 50});
        expect_values(&got_lens[7], {0.1, 0.01, 0, 0, 0.02, 0.03});
    }
    // One frame's own model, beside that of all.
    list(document("'fl_x':50",
                  {frame("a"), frame("b", straight, ",'camera_model':'RADIAL_FISHEYE','k1':0.2")}));
    EXPECT_TRUE(!listed.views[0].optics.fisheye && listed.views[1].optics.fisheye);
    EXPECT_EQ(listed.views[1].optics.k1, 0.2);
}

// (right, up, back) of the camera become (x, -y, -z). A file of nerfstudio has rotations of 0.21 times their length.
TEST_F(Transforms, TurnsTheAxes) {
    list_pose(straight);
    expect_seen({1 + 0.5, 2 + 0.25, 3 - 2}, {0.5, -0.25, 2}); // 0.5 to the right, 0.25 up, 2 in front
    const double c = std::cos(0.8), s = std::sin(0.8);
    const Vector axes[3] = {{c, s, 0}, {-s * 0.6, c * 0.6, 0.8}, {s * 0.8, -c * 0.8, 0.6}},
                 place = {-4, 5, 6};
    Vector world;
    for (size_t i = 0; i < 3; i++) world[i] = place[i] + 0.3 * axes[0][i] + 0.7 * axes[1][i] - 5 * axes[2][i];
    for (const double scale : {1.0, 0.21}) {
        Vector scaled[3];
        for (size_t i = 0; i < 9; i++) scaled[i / 3][i % 3] = scale * axes[i / 3][i % 3];
        list_pose(matrix(scaled[0], scaled[1], scaled[2], place));
        expect_seen(world, {0.3, -0.7, 5});
        EXPECT_EQ(said, scale == 1
                            ? ""
                            : says("1 of 1 rotations have a scale, which is divided out (the first: 'a')"));
    }
    // Rounding is forgiven: the rotation nearest to a shear by s turns by atan(s / 2).
    const double turn = std::atan(5e-4);
    list_pose(matrix({1, 1e-3, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 0}));
    expect_seen({1, 0, 0}, {std::cos(turn), std::sin(turn), 0});
    EXPECT_EQ(said, "");
}

TEST_F(Transforms, ReadsBlender) {
    const auto uniform = [&](const std::string &name, int width, int height, std::array<int, 4> color) {
        write_picture(name, width, height, 4, [&](int, int, int k) { return color[size_t(k)]; });
    };
    uniform("train/r_0.png", 8, 6, {200, 100, 50, 255});
    uniform("train/r_1.png", 8, 6, {200, 100, 50, 51});
    uniform("test/r_0.png", 4, 2, {0, 0, 0, 0});
    write_bytes(folder / "transforms_train.json",
                document("'camera_angle_x':" + std::to_string(2 * std::atan(0.5)),
                         {frame("./train/r_0", straight, ",'rotation':0.01"), frame("./train/r_1")}));
    write_bytes(folder / "transforms_test.json", document("'camera_angle_x':0.5", {frame("./test/r_0")}));
    write_bytes(folder / "transforms.json", "this is not read");
    ASSERT_TRUE(load(options_of(1, {1, 1, 0}))) << why.text;
    EXPECT_EQ(names(), (texts{"test/r_0.png", "train/r_0.png", "train/r_1.png"}));
    EXPECT_TRUE(got.views[0].held_out && got.is_object);
    EXPECT_FALSE(got.views[1].held_out || got.views[2].held_out);
    EXPECT_EQ(got.views[0].camera.width, 4);  // sizes differ
    expect_view(1, {8, 6, 8, 8, 4, 3}, 1e-4); // fx: 4 / tan(angle / 2)
    EXPECT_EQ(got.views[1].camera.fy, got.views[1].camera.fx);
    // Over (255, 255, 0): nothing, all, a fifth.
    expect_values(got.views[0].picture.pixels, {255, 255, 0});
    expect_values(got.views[1].picture.pixels, {200, 100, 50});
    expect_values(got.views[2].picture.pixels, {244, 224, 10});
    dataset_hold_out(&got, 1); // the data's own choice stands
    EXPECT_FALSE(got.views[1].held_out || got.views[2].held_out);

    gone("transforms_test.json");
    ASSERT_TRUE(load(1)) << why.text;
    EXPECT_TRUE(got.view_count == 2 && !got.views[1].alpha);
    dataset_hold_out(&got, 0);
    EXPECT_FALSE(got.views[0].held_out ||
                 got.views[1].held_out); // with 2: Dataset.ReadsDepthMapsOfTheViews...
}

// Photographs with a lens, as transforms_load reads them.
TEST_F(Transforms, ReadsBackWhatItWrites) {
    touch({"images/a.jpg", "images/b\"c.jpg", "images/m.png"});
    const double c = std::cos(0.3), n = std::sin(0.3);
    list(document(ngp, {frame("images/a.jpg", matrix({c, n, 0}, {-n, c, 0}, {0, 0, 1}, {1, -2, 3e-5})),
                        frame("images/b\\\"c.jpg", straight, ",'k1':0,'k2':0,'p1':0,'p2':0")}));
    reconstruction first = listed;
    const std::vector<numbers> lenses = {lens_of(0), lens_of(1)};
    listed = {};
    char file_names[2][8] = {"a.jpg", "b\"c.jpg"}, mask[] = "images/m.png";
    std::vector<dataset_view> views(first.views, first.views + 2);
    for (size_t i = 0; i < 2; i++) views[i].name = file_names[i];
    views[1].mask_path = mask;
    ASSERT_TRUE(transforms_save((folder / "transforms.json").c_str(), "images", views.data(), 2, &why))
        << why.text;
    ASSERT_TRUE(list()) << why.text;
    ASSERT_EQ(listed.view_count, 2u);
    for (size_t i = 0; i < 2; i++) {
        const dataset_view &view = listed.views[i], &before = first.views[i];
        EXPECT_STREQ(view.name, before.name);
        EXPECT_STREQ(view.mask_path, views[i].mask_path);
        EXPECT_EQ(lens_of(i), lenses[i]);
        expect_values(view.rotation, {before.rotation, before.rotation + 9}, 2e-7);
        expect_values(view.translation, {before.translation, before.translation + 3}, 1e-6);
    }
    reconstruction_close(&first);
    EXPECT_FALSE(transforms_save((folder / "no/such.json").c_str(), "", views.data(), 2, &why));
    EXPECT_TRUE(contains(why, "no/such.json: cannot write")) << why.text;
}

// What is in both is held out, unless nothing else would be trained on.
TEST_F(Transforms, HoldsOutWhatIsInBothSplits) {
    touch({"a.png", "b.png"});
    write_bytes(folder / "transforms_train.json", document(ngp, {frame("a"), frame("b")}));
    const std::string both = " of 2 pictures are both to train on and held out";
    for (const std::string &test :
         {document(ngp, {frame("b.png")}), document(ngp, {frame("a"), frame("b")})}) {
        write_bytes(folder / "transforms_test.json", test);
        ASSERT_TRUE(list()) << why.text;
        ASSERT_EQ(listed.view_count, 2u);
        const bool one = test.find("a\"") == std::string::npos;
        EXPECT_EQ(listed.views[1].held_out, one);
        EXPECT_FALSE(listed.views[0].held_out);
        EXPECT_EQ(said, one ? says("1" + both + ", and are held out (the first: 'b.png')")
                            : says("2" + both + ": this split is ignored (the first: 'a.png')"));
    }
}

TEST_F(Transforms, TakesTheSplitOfNerfstudio) {
    touch({"a.png", "b.png", "c.png"});
    list(document("'fl_x':9,'train_filenames':['a.png'],'val_filenames':['./b.png'],"
                  "'test_filenames':['c.png']",
                  {frame("a.png"), frame("./b.png"), frame("c.png")}));
    EXPECT_TRUE(!listed.views[0].held_out && listed.views[1].held_out && listed.views[2].held_out);
}

} // namespace transforms_test
