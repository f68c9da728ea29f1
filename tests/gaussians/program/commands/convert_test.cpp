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
    static double checked(const outcome &result) { // the PSNR that --check prints
        const size_t at = result.out.find("PSNR ");
        return at == std::string::npos ? NAN : strtod(result.out.c_str() + at + 5, nullptr);
    }
};

TEST_F(Convert, ChecksThePicturesOfEachFormat) {
    write_six(at("a.ply"), true);
    EXPECT_CONTAINS(convert("@a.ply @b.ply --check").out, "the pictures of 8 views are equal\n");
    for (const char *name : {"b.spz", "b.sog"}) {
        const outcome result = convert("@a.ply @"s + name + " --check");
        EXPECT_CONTAINS(result.out, "6 Gaussians, SH degree 3");
        EXPECT_GT(checked(result), 35) << result.out;
        EXPECT_TRUE(host_scene(at(name)).antialias);
        EXPECT_CONTAINS(done("info @"s + name).out, "6, SH degree 3, antialiased");
        done("render @"s + name + " -o @b.png --width 64 --height 48");
    }
    const outcome less = convert("@a.ply @b.ply --check --sh-degree 1 --prune 0.5");
    EXPECT_CONTAINS(less.out, "3 Gaussians, SH degree 1");
    EXPECT_LT(checked(less), 35);
}

// A scene and a camera that are moved alike give the same picture: means, scales, rotations and harmonics.
TEST_F(Convert, AMovedSceneLooksTheSameToAMovedCamera) {
    write_six(at("a.ply"));
    // COLMAP's rotations are quaternions: one of 1 radian about (1, 2, 2) / 3, and its matrix for --transform.
    const double half = 0.5, n[3] = {1 / 3.0, 2 / 3.0, 2 / 3.0}, scale = 2, shift[3] = {3, -1, 2};
    const double q[4] = {std::cos(half), n[0] * std::sin(half), n[1] * std::sin(half), n[2] * std::sin(half)};
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    const double turn[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                            2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                            2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    std::ostringstream rows;
    rows.precision(12);
    for (int k = 0; k < 12; k++)
        rows << (k ? "," : "") << (k % 4 == 3 ? shift[k / 4] : scale * turn[k / 4 * 3 + k % 4]);
    convert("@a.ply @b.ply --transform " + rows.str());
    // Before: the camera at (0, 0, -4) that looks along z. After: x_camera = R^T (x_world - shift) / 2 + (0, 0, 4),
    // which is the same picture as with all lengths doubled.
    double translation[3] = {0, 0, 4 * scale};
    for (int r = 0; r < 3; r++)
        for (int k = 0; k < 3; k++) translation[r] -= turn[3 * k + r] * shift[k];
    for (const bool moved : {false, true}) {
        const fs::path folder = at(moved ? "after" : "before");
        fs::create_directories(folder / "images");
        fs::create_directories(folder / "sparse/0");
        picture(64, 48, 0).write(folder / "images/v.png");
        std::ofstream(folder / "sparse/0/cameras.txt") << "1 PINHOLE 64 48 60 60 32 24\n";
        std::ofstream(folder / "sparse/0/points3D.txt") << "";
        std::ofstream views(folder / "sparse/0/images.txt");
        views.precision(12);
        if (moved)
            views << "1 " << q[0] << " " << -q[1] << " " << -q[2] << " " << -q[3] << " " << translation[0]
                  << " " << translation[1] << " " << translation[2] << " 1 v.png\n\n";
        else
            views << "1 1 0 0 0 0 0 4 1 v.png\n\n";
        views.close();
        done(moved ? "render @b.ply --cameras @after -o @b.png"
                   : "render @a.ply --cameras @before -o @a.png");
    }
    const picture before(at("a.png")), after(at("b.png"));
    EXPECT_GT(image_psnr(&before, &after, NULL), 55); // a value here and there is rounded to its neighbour
    EXPECT_GT(before.others({0, 0, 0}), 500);         // there is something to see
    // Without the rotation of the harmonics it would not hold.
    convert("@a.ply @c.ply --sh-degree 0");
    done("render @c.ply --cameras @before -o @c.png");
    const picture flat(at("c.png"));
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
    write_six(at("aa.ply"), true);
    refuses({{"convert @a.ply @aa.ply @c.ply", 1, "aa.ply is antialiased and "}});
}

TEST_F(Convert, RefusesLines) {
    write_six(at("a.ply"));
    const std::string convert = "convert @a.ply @b.ply --";
    refuses({{"convert @a.ply", 2, "SCENE"},
             {convert + "crop 1,2,3", 2, "--crop '1,2,3'"},
             {convert + "crop 1,0,0,0,1,1", 2, "the least corner first"},
             {convert + "transform 0", 2, "--transform '0'"},
             {convert + "transform 1,2", 2, "--transform '1,2'"},
             {convert + "transform 1,0,0,0,0,2,0,0,0,0,1,0", 2, "--transform"},
             {convert + "transform nan", 2, "--transform 'nan'"},
             {convert + "prune 1", 2, "--prune"},
             {convert + "spz-version 1", 2, "--spz-version"},
             {convert + "cameras x", 2, "--cameras is for --check"},
             {"convert @a.ply @b.splat", 1, ".splat files are only read"},
             {"convert @a.ply @b.obj", 1, "not a known format of scenes"},
             {"convert @no.spz @b.ply", 1, "no.spz: cannot open"},
             {"convert @a.ply @none/b.spz", 1, "none/b.spz: cannot write"}});
}

// Training writes any format, in pieces.
TEST_F(Convert, TrainingWritesSpz) {
    write_colmap(at("data"), 30);
    done("train @data -o @t.spz --iterations 4");
    EXPECT_GT(host_scene(at("t.spz")).count, 0);
    done("eval @t.spz --cameras @data");
}

} // namespace convert_test
