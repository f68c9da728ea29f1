// SPDX-License-Identifier: MIT
// dsplat convert, and scenes in other formats than PLY in the other commands.
#include "program_run.h"

namespace convert_test {

class Convert : public Program {
  protected:
    // Six Gaussians in a slab of +-1, of degree 3, each of its own size, opacity and colours.
    void write_six(const fs::path &path, bool antialias = false) const {
        host_scene g(6, 3);
        std::mt19937 random(4);
        std::normal_distribution<float> normal;
        for (int i = 0; i < 18; i++) g.mean[i] = std::tanh(normal(random));
        for (int i = 0; i < 18; i++) g.log_scale[i] = -1.5f - 0.2f * float(i / 3) + 0.3f * normal(random);
        for (int i = 0; i < 24; i++) g.quaternion[i] = normal(random);
        for (int i = 0; i < 6; i++) g.opacity_logit[i] = 4 - float(i);
        for (int i = 0; i < 6 * 48; i++) g.sh[i] = std::tanh(normal(random)) * (i % 48 < 3 ? 1.5f : 0.4f);
        g.antialias = antialias;
        g.write(path);
    }
    outcome convert(const std::string &line) const { return done("convert " + line); }
};

TEST_F(Convert, ChecksThePicturesOfEachFormat) {
    write_six(at("a.ply"), true);
    EXPECT_CONTAINS(convert("@a.ply @b.ply --check").out, "the pictures of 8 views are equal\n");
    for (const std::string name : {"b.spz", "b.sog"}) {
        const std::string out = convert("@a.ply @" + name + " --check").out;
        EXPECT_CONTAINS(out, "6 Gaussians, SH degree 3");
        EXPECT_GT(number_after(out, "PSNR "), 35) << out;
        EXPECT_TRUE(host_scene(folder / name).antialias);
        says({{"info @" + name, 0, {"6, SH degree 3, antialiased"}},
              {"render @" + name + " -o @b.png --width 64 --height 48", 0, {}}});
    }
    const std::string less = convert("@a.ply @b.ply --check --sh-degree 1 --prune 0.5").out;
    EXPECT_CONTAINS(less, "3 Gaussians, SH degree 1");
    EXPECT_LT(number_after(less, "PSNR "), 35);
}

// A scene and a camera that are moved alike give the same picture: means, scales, rotations and harmonics.
TEST_F(Convert, AMovedSceneLooksTheSameToAMovedCamera) {
    write_six(at("a.ply"));
    convert(
        "@a.ply @b.ply --transform 0.72,0.96,-1.6,3,-1.6,1.2,0,-1,0.96,1.28,1.2,2"); // a turn, twice as large
    convert("@a.ply @c.ply --sh-degree 0");
    // The camera at (0, 0, -4) that looks along z; OpenGL's y and z axes point the other way.
    const std::string straight = "[1,0,0,0],[0,-1,0,0],[0,0,-1,-4],",
                      moved = "[0.36,-0.48,0.8,9.4],[-0.8,-0.6,0,-1],[0.48,-0.64,-0.6,-2.8],";
    fs::create_directories(at("data"));
    for (const char *name : {"data/a.png", "data/b.png"}) picture(64, 48, 0).write(at(name));
    std::ofstream(at("data/transforms.json"))
        << R"({"fl_x":60,"w":64,"h":48,"frames":[{"file_path":"a.png","transform_matrix":[)" << straight
        << R"([0,0,0,1]]},{"file_path":"b.png","transform_matrix":[)" << moved << "[0,0,0,1]]}]}";
    for (const std::string line :
         {"@a.ply -o @a.png --view 0", "@b.ply -o @b.png --view 1", "@c.ply -o @c.png --view 0"})
        done("render --cameras @data " + line);
    const picture before(at("a.png")), after(at("b.png")), flat(at("c.png"));
    EXPECT_GT(image_psnr(&before, &after, NULL), 55); // a value here and there is rounded to its neighbour
    EXPECT_GT(before.others({0, 0, 0}), 500);         // there is something to see
    // Without the rotation of the harmonics it would not hold.
    EXPECT_LT(image_psnr(&before, &flat, NULL), 35);
}

TEST_F(Convert, MergesCropsAndPrunes) {
    write_six(at("a.ply"));
    write_scene(at("b.ply"), 4, 5, 0, 0); // of degree 0
    convert("@a.ply @b.ply @both.spz");
    const host_scene both(at("both.spz"));
    EXPECT_EQ(both.count, 10);
    EXPECT_EQ(both.sh_degree, 3);
    EXPECT_EQ(both.sh[9 * 48 + 10], 0);
    convert("@both.spz @c.ply --crop 4,-1,-1,6,1,1");
    const host_scene cropped(at("c.ply"));
    EXPECT_EQ(cropped.count, 4);
    EXPECT_EQ(cropped.mean[0], 5);
    convert("@b.ply @c.ply --transform 0.5 --crop 2,-1,-1,3,1,1");
    const host_scene halved(at("c.ply"));
    EXPECT_EQ(halved.count, 4);
    EXPECT_FLOAT_EQ(halved.log_scale[0], -2 + std::log(0.5f));
    // Those of least opacity and size go: the last, as both fall.
    convert("@a.ply @c.ply --prune 0.34");
    const host_scene six(at("a.ply")), pruned(at("c.ply"));
    EXPECT_EQ(pruned.count, 4);
    EXPECT_EQ(memcmp(pruned.mean, six.mean, 4 * 3 * sizeof(float)), 0);
    // A row that is not finite is dropped.
    std::string bytes = contents(at("a.ply"));
    const float x = NAN;
    memcpy(&bytes[bytes.find("end_header\n") + 11], &x, sizeof x);
    std::ofstream(at("holed.ply"), std::ios::binary) << bytes;
    convert("@holed.ply @c.ply");
    EXPECT_EQ(host_scene(at("c.ply")).count, 5);
    write_six(at("aa.ply"), true);
    refuses({{"convert @a.ply @aa.ply @c.ply", 1, "aa.ply is antialiased and "}});
}

// Boxes and moves are of the data's coordinates, in doubles; the scene keeps what floats can hold.
TEST_F(Convert, KeepsTheOffsetOfTheData) {
    const auto offset_to = [&](const char *name, const std::string &offset) {
        write_scene(at("near.ply"), 4, 5, 0, 0);
        std::string bytes = contents(at("near.ply"));
        bytes.insert(bytes.find("element"), "comment dsplat_offset " + offset + "\n");
        std::ofstream(at(name), std::ios::binary) << bytes;
    };
    offset_to("far.ply", "500000,4000000.25,-100");
    convert("@far.ply @cropped.ply --crop 500004,3999999,-101,500006,4000001,-99");
    EXPECT_EQ(host_scene(at("cropped.ply")).count, 4);
    EXPECT_CONTAINS(contents(at("cropped.ply")), "comment dsplat_offset 500000,4000000.25,-100\n");
    convert("@far.ply @moved.ply --transform 0,-2,0,7,2,0,0,0.5,0,0,2,3"); // a quarter turn, twice as large
    EXPECT_CONTAINS(contents(at("moved.ply")), "comment dsplat_offset -7999993.5,1000000.5,-197\n");
    const host_scene moved(at("moved.ply"));
    EXPECT_NEAR(moved.mean[1], 10, 1e-5);
    offset_to("elsewhere.ply", "500000,4000000,-100");
    refuses({{"convert @far.ply @elsewhere.ply @c.ply", 1, "coordinates of another offset than "}});
}

} // namespace convert_test
