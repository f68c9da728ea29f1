// SPDX-License-Identifier: MIT
// dsplat convert, and scenes in other formats than PLY in the other commands.
#include "program_run.h"

namespace convert_test {

class Convert : public Program {
  protected:
    // Six Gaussians in a slab of +-1, of degree 3, each of its own size, opacity and colours.
    void write_six(const fs::path &path, bool antialias = false) const {
        gs_gaussians g;
        fault why;
        ASSERT_TRUE(scene_open(&g, 6, 3, &why)) << why.text;
        std::mt19937 random(4);
        std::normal_distribution<float> normal;
        for (int i = 0; i < 18; i++) g.mean[i] = std::tanh(normal(random));
        for (int i = 0; i < 18; i++) g.log_scale[i] = -1.5f - 0.2f * float(i / 3) + 0.3f * normal(random);
        for (int i = 0; i < 24; i++) g.quaternion[i] = normal(random);
        for (int i = 0; i < 6; i++) g.opacity_logit[i] = 4 - float(i);
        for (int i = 0; i < 6 * 48; i++) g.sh[i] = std::tanh(normal(random)) * (i % 48 < 3 ? 1.5f : 0.4f);
        g.antialias = antialias;
        ASSERT_TRUE(scene_write(path.c_str(), &g, &why)) << why.text;
        scene_close(&g);
    }
    gs_gaussians read(const char *name) const {
        gs_gaussians g;
        fault why;
        EXPECT_TRUE(scene_read(at(name).c_str(), SCENE_FINITE, &g, &why)) << why.text;
        return g;
    }
    outcome convert(std::vector<std::string> arguments) const {
        arguments.insert(arguments.begin(), "convert");
        const outcome result = splat(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return result;
    }
    static double checked(const outcome &result) { // the PSNR that --check prints
        const size_t at = result.out.find("PSNR ");
        return at == std::string::npos ? NAN : strtod(result.out.c_str() + at + 5, nullptr);
    }
};

TEST_F(Convert, ChecksThePicturesOfEachFormat) {
    write_six(at("a.ply"), true);
    EXPECT_CONTAINS(convert({at("a.ply"), at("b.ply"), "--check"}).out,
                    "the pictures of 8 views are equal\n");
    for (const char *name : {"b.spz", "b.sog"}) {
        fault why;
        if (!scene_is_possible(at(name).c_str(), &why)) continue; // built without libwebp
        const outcome result = convert({at("a.ply"), at(name), "--check"});
        EXPECT_CONTAINS(result.out, "6 Gaussians, SH degree 3");
        EXPECT_GT(checked(result), 35) << result.out;
        gs_gaussians g = read(name);
        EXPECT_TRUE(g.antialias);
        scene_close(&g);
        EXPECT_CONTAINS(splat({"info", at(name)}).out, "6, SH degree 3, antialiased");
        EXPECT_EQ(splat({"render", at(name), "-o", at("b.png"), "--width", "64", "--height", "48"}).code, 0);
    }
    const outcome less = convert({at("a.ply"), at("b.ply"), "--check", "--sh-degree", "1", "--prune", "0.5"});
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
    convert({at("a.ply"), at("b.ply"), "--transform", rows.str()});
    // Before: the camera at (0, 0, -4) that looks along z. After: x_camera = R^T (x_world - shift) / 2 + (0, 0, 4),
    // which is the same picture as with all lengths doubled.
    double translation[3] = {0, 0, 4 * scale};
    for (int r = 0; r < 3; r++)
        for (int k = 0; k < 3; k++) translation[r] -= turn[3 * k + r] * shift[k];
    for (const bool moved : {false, true}) {
        const fs::path folder = at(moved ? "after" : "before");
        fs::create_directories(folder / "images");
        fs::create_directories(folder / "sparse/0");
        image blank;
        fault why;
        ASSERT_TRUE(image_open(&blank, 64, 48, 3, &why)) << why.text;
        ASSERT_TRUE(image_write_png((folder / "images/v.png").c_str(), &blank, &why)) << why.text;
        image_close(&blank);
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
        const outcome result = splat({"render", at(moved ? "b.ply" : "a.ply"), "--cameras", folder, "-o",
                                      at(moved ? "b.png" : "a.png")});
        ASSERT_EQ(result.code, 0) << result.err;
    }
    const picture before(at("a.png")), after(at("b.png"));
    EXPECT_GT(image_psnr(&before, &after, NULL), 55); // a value here and there is rounded to its neighbour
    EXPECT_GT(before.others({0, 0, 0}), 500);   // there is something to see
    // Without the rotation of the harmonics it would not hold.
    convert({at("a.ply"), at("c.ply"), "--sh-degree", "0"});
    ASSERT_EQ(dsplat("render @c.ply --cameras @before -o @c.png").code, 0);
    const picture flat(at("c.png"));
    EXPECT_LT(image_psnr(&before, &flat, NULL), 35);
}

TEST_F(Convert, MergesCropsAndPrunes) {
    write_six(at("a.ply"));
    write_scene(at("b.ply"), 4, 5, 0, 0); // of degree 0
    convert({at("a.ply"), at("b.ply"), at("both.spz")});
    gs_gaussians g = read("both.spz");
    EXPECT_EQ(g.count, 10);
    EXPECT_EQ(g.sh_degree, 3);
    EXPECT_EQ(g.sh[9 * 48 + 10], 0);
    scene_close(&g);
    convert({at("both.spz"), at("c.ply"), "--crop", "4,-1,-1,6,1,1"});
    g = read("c.ply");
    EXPECT_EQ(g.count, 4);
    EXPECT_EQ(g.mean[0], 5);
    scene_close(&g);
    convert({at("b.ply"), at("c.ply"), "--transform", "0.5", "--crop", "2,-1,-1,3,1,1"});
    g = read("c.ply");
    EXPECT_EQ(g.count, 4);
    EXPECT_FLOAT_EQ(g.log_scale[0], -2 + std::log(0.5f));
    scene_close(&g);
    // Those of least opacity and size go: the last, as both fall.
    convert({at("a.ply"), at("c.ply"), "--prune", "0.34"});
    gs_gaussians six = read("a.ply");
    g = read("c.ply");
    EXPECT_EQ(g.count, 4);
    EXPECT_EQ(memcmp(g.mean, six.mean, 4 * 3 * sizeof(float)), 0);
    scene_close(&g);
    scene_close(&six);
    write_six(at("aa.ply"), true);
    expect_refused(DSPLAT_PROGRAM,
                   {{{"convert", at("a.ply"), at("aa.ply"), at("c.ply")}, "aa.ply is antialiased and "}}, 1);
}

TEST_F(Convert, RefusesLines) {
    write_six(at("a.ply"));
    const std::string a = at("a.ply"), b = at("b.ply");
    expect_refused(DSPLAT_PROGRAM,
                   {{{"convert", a}, "SCENE"},
                    {{"convert", a, b, "--crop", "1,2,3"}, "--crop '1,2,3'"},
                    {{"convert", a, b, "--crop", "1,0,0,0,1,1"}, "the least corner first"},
                    {{"convert", a, b, "--transform", "0"}, "--transform '0'"},
                    {{"convert", a, b, "--transform", "1,2"}, "--transform '1,2'"},
                    {{"convert", a, b, "--transform", "1,0,0,0,0,2,0,0,0,0,1,0"}, "--transform"},
                    {{"convert", a, b, "--transform", "nan"}, "--transform 'nan'"},
                    {{"convert", a, b, "--prune", "1"}, "--prune"},
                    {{"convert", a, b, "--spz-version", "1"}, "--spz-version"},
                    {{"convert", a, b, "--cameras", "x"}, "--cameras is for --check"}},
                   2);
    expect_refused(DSPLAT_PROGRAM,
                   {{{"convert", a, at("b.splat")}, ".splat files are only read"},
                    {{"convert", a, at("b.obj")}, "not a known format of scenes"},
                    {{"convert", at("no.spz"), b}, "no.spz: cannot open"},
                    {{"convert", a, at("none/b.spz")}, "none/b.spz: cannot write"}},
                   1);
    EXPECT_FALSE(fs::exists(b));
}

// Training writes any format, in pieces.
TEST_F(Convert, TrainingWritesSpz) {
    write_colmap(at("data"), 30);
    const outcome result = dsplat("train @data -o @t.spz --iterations 4");
    ASSERT_EQ(result.code, 0) << result.err;
    gs_gaussians g = read("t.spz");
    EXPECT_GT(g.count, 0);
    scene_close(&g);
    EXPECT_EQ(dsplat("eval @t.spz --cameras @data").code, 0);
}

} // namespace convert_test
