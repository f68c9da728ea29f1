// SPDX-License-Identifier: MIT
// dsplat train --depth, on data of dsplat generate --depth and on a COLMAP model.
#include "depth_data.h"
#include "json_value.h"
#include <algorithm>

namespace {

class DepthTraining : public Program {
  protected:
    void generate(const char *name, std::vector<std::string> more = {}) const {
        more.insert(more.begin(), {"generate", at(name), "--views", "4", "--test-views", "2", "--size", "40",
                                   "--gaussians", "1500", "--depth"});
        const outcome run = splat(more);
        ASSERT_EQ(run.code, 0) << run.err;
    }
    outcome train(const char *to, int iterations, std::vector<std::string> more = {}) const {
        more.insert(more.begin(), {"train", at("data"), "-o", at(to), "--iterations",
                                   std::to_string(iterations), "--reproducible"});
        return splat(more);
    }
    double depth_error(const char *scene, std::vector<std::string> more = {}) const {
        more.insert(more.begin(), {"eval", at(scene), "--cameras", at("data"), "--depth",
                                   at("data") / "depth", "--json", at("eval.json")});
        const outcome run = splat(more);
        EXPECT_EQ(run.code, 0) << run.err;
        EXPECT_CONTAINS(run.out, "depth error, %");
        const std::string json = contents(at("eval.json"));
        const size_t mean = json.find("\"mean\""), value = json.find("\"depth_error\":", mean);
        EXPECT_NE(value, std::string::npos) << json;
        if (value == std::string::npos) return NAN;
        const char *const text = json.c_str() + value + strlen("\"depth_error\":");
        char *end = nullptr;
        const double error = std::strtod(text, &end);
        EXPECT_NE(end, text) << "not a number: " << json;
        return error;
    }
};

TEST_F(DepthTraining, GeneratedMapsAreThoseOfTheScene) {
    generate("data");
    EXPECT_LT(depth_error("data/scene.ply"), 1e-5);
    // Those of the training views are scaled and shifted, and fit to the points.
    const outcome run = train("scene.ply", 1, {"--depth", at("data") / "depth"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.err, "");
    EXPECT_CONTAINS(run.out, "depth      4 of 4 maps fitted, to ");
    plane map;
    fault why;
    std::vector<float> lowest;
    for (const char *name : {"train/r_0000.png", "train/r_0001.png"}) {
        ASSERT_TRUE(plane_read((at("data") / "depth" / name).c_str(), &map, &why)) << why.text;
        lowest.push_back(*std::min_element(map.values, map.values + plane_size(&map)));
        plane_close(&map);
    }
    EXPECT_NE(lowest[0], lowest[1]); // of the background, which is infinitely far
}

// The error on views that were not trained on; two views do not determine the scene.
TEST_F(DepthTraining, LowersTheErrorOfDepth) {
    generate("data", {"--views", "2", "--size", "48", "--gaussians", "3000"});
    std::vector<std::string> few = {"--random", "400", "--background", "1,1,1"};
    ASSERT_EQ(train("plain.ply", 120, few).code, 0);
    few.insert(few.end(),
               {"--depth", at("data") / "depth", "--depth-weight", "3", "--schedule", "weights=1"});
    const outcome run = train("depth.ply", 120, few);
    ASSERT_EQ(run.code, 0) << run.err;
    const double plain = depth_error("plain.ply"), supervised = depth_error("depth.ply");
    EXPECT_LT(supervised, 0.9 * plain);
    EXPECT_GT(supervised, 0);
}

// The loss that is reported includes the depth.
TEST_F(DepthTraining, AddsToTheLoss) {
    generate("data");
    const auto loss = [&](std::vector<std::string> more) {
        more.insert(more.end(), {"--seed", "3"});
        const outcome run = train("scene.ply", 1, more);
        EXPECT_EQ(run.code, 0) << run.err;
        return change(run.out, "loss")[0];
    };
    const std::string maps = at("data") / "depth";
    const double none = loss({}), one = loss({"--depth", maps}),
                 three = loss({"--depth", maps, "--depth-weight", "3"});
    EXPECT_GT(one, none + 1e-3);
    EXPECT_NEAR(three - none, 3 * (one - none), 1e-4);
}

TEST_F(DepthTraining, GoesWithMasksFisheyesPosesAndExposures) {
    generate("data", {"--fisheye", "120"});
    for (const std::vector<std::string> &way : std::vector<std::vector<std::string>>{
             {"--mask-from-alpha"},
             {"--undistort", "--downscale", "2"},
             {"--refine-poses", "--perturb-poses", "0.5,0.01"},
             {"--random-background", "--antialias", "--density", "mcmc", "--max-gaussians", "6000"}}) {
        std::vector<std::string> more = way;
        more.insert(more.end(), {"--depth", at("data") / "depth"});
        const outcome run = train("scene.ply", 8, more);
        EXPECT_EQ(run.code, 0) << run.err;
        EXPECT_CONTAINS(run.out, " of 4 maps fitted");
    }
}

TEST_F(DepthTraining, MapsThatCannotBeFittedAreLeftOut) {
    write_colmap(at("data"), 40);
    write_depth_maps(at("data"), at("depth"));
    fault why;
    plane map;
    const auto change_map = [&](const char *name, auto value_of) {
        ASSERT_TRUE(plane_read((at("depth") / name).c_str(), &map, &why)) << why.text;
        for (size_t i = 0; i < plane_size(&map); i++) map.values[i] = value_of(map.values[i]);
        ASSERT_TRUE(plane_write_png((at("depth") / name).c_str(), &map, &why)) << why.text;
        plane_close(&map);
    };
    change_map("photo2.png", [](float) { return 0.5f; });
    change_map("photo4.png", [](float v) { return 1 - v; });
    outcome run = train("scene.ply", 9, {"--depth", at("depth")});
    EXPECT_EQ(run.code, 0);
    EXPECT_EQ(run.err.rfind("dsplat: " + at("depth").string() +
                                ": 2 of 4 depth maps are left out (the first: photo2.png: its values at the ",
                            0),
              0u)
        << run.err;
    EXPECT_CONTAINS(run.out, "depth      2 of 4 maps fitted, to ");
    for (const char *name : {"photo1.png", "photo2.png", "photo3.png"})
        change_map(name, [](float v) { return 1 - v; });
    run = train("new.ply", 9, {"--depth", at("depth")});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err,
                    "depth: no depth map can be fitted; photo1.png: its values fall where the points are "
                    "nearer: it must hold inverse depth, not depth");
    EXPECT_FALSE(fs::exists(at("new.ply")));
}

TEST_F(DepthTraining, BadMapsAreRefusedByName) {
    write_colmap(at("data"), 40);
    write_depth_maps(at("data"), at("depth"));
    const auto refused = [&](const std::string &part) {
        const outcome run = train("scene.ply", 1, {"--depth", at("depth")});
        EXPECT_EQ(run.code, 1) << part;
        EXPECT_EQ(run.err.rfind("dsplat: ", 0), 0u) << run.err;
        EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
        EXPECT_CONTAINS(run.err, part);
        EXPECT_FALSE(fs::exists(at("scene.ply")));
    };
    fs::remove(at("depth") / "photo0.png"); // held out
    EXPECT_EQ(train("scene.ply", 1, {"--depth", at("depth")}).code, 0);
    fs::remove(at("scene.ply"));
    fs::copy(at("data") / "images/photo3.png", at("depth") / "photo3.png",
             fs::copy_options::overwrite_existing);
    refused("photo3.png: a PNG of 3 channels of 8 bits; it must be gray with 16 bits");
    fs::remove(at("depth") / "photo3.png");
    refused("depth: has no depth map of the picture photo3.png, neither photo3.png.png nor photo3.png nor ");
    fs::remove_all(at("depth"));
    refused("depth: has no depth map of the picture photo1.png");
    fs::remove(at("data") / "sparse/0/points3D.bin");
    refused("data: --depth needs points to fit the depth maps to");
    EXPECT_EQ(train("scene.ply", 1, {"--depth", at("depth"), "--depth-weight", "0"}).code, 2);
    EXPECT_EQ(train("scene.ply", 1, {"--depth-weight", "nan"}).code, 2);
}

TEST_F(DepthTraining, AnotherMapIsAnotherRun) {
    write_colmap(at("data"), 30);
    write_depth_maps(at("data"), at("depth"));
    const std::vector<std::string> way = {"--depth", at("depth"), "--checkpoint-every", "2"};
    ASSERT_EQ(train("scene.ply", 2, way).code, 0);
    std::vector<std::string> again = way;
    again.insert(again.end(), {"--resume", at("scene.ply.checkpoint")});
    EXPECT_EQ(train("scene.ply", 2, again).code, 0);
    fs::copy(at("depth") / "photo1.png", at("depth") / "photo2.png", fs::copy_options::overwrite_existing);
    const outcome run = train("scene.ply", 2, again);
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "other photographs or cameras");
    EXPECT_CONTAINS(train("scene.ply", 2, {"--resume", at("scene.ply.checkpoint")}).err,
                    "written by a run with --depth " + at("depth").string());
}

} // namespace
