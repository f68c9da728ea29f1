// SPDX-License-Identifier: MIT
// dsplat train --depth, on data of dsplat generate --depth and on a COLMAP model.
#include "depth_data.h"
#include "json_value.h"
#include <algorithm>
#include <functional>

namespace {

class DepthTraining : public Program {
  protected:
    void generate(const std::string &more = "") const {
        done("generate @data --views 4 --test-views 2 --size 40 --gaussians 1500 --depth " + more);
    }
    static std::string train(const std::string &to, int iterations, const std::string &more = "") {
        return "train @data --reproducible -o @" + to + " --iterations " + std::to_string(iterations) + " " +
               more;
    }
    double depth_error(const std::string &scene) const {
        EXPECT_CONTAINS(done("eval @" + scene + " --cameras @data --depth @data/depth --json @eval.json").out,
                        "depth error, %");
        return json(contents(at("eval.json")))["mean"]["depth_error"].number();
    }
    void change_map(const std::string &name, const std::function<float(float)> &value_of) const {
        fault why;
        plane map;
        ASSERT_TRUE(plane_read((at("depth") / name).c_str(), &map, &why)) << why.text;
        for (size_t i = 0; i < plane_size(&map); i++) map.values[i] = value_of(map.values[i]);
        ASSERT_TRUE(plane_write_png((at("depth") / name).c_str(), &map, &why)) << why.text;
        plane_close(&map);
    }
    void write_data(int points) const {
        write_colmap(at("data"), points);
        write_depth_maps(at("data"), at("depth"));
    }
};

TEST_F(DepthTraining, GeneratedMapsAreThoseOfTheScene) {
    generate();
    EXPECT_LT(depth_error("data/scene.ply"), 1e-5);
    // Those of the training views are scaled and shifted, and fit to the points.
    const outcome run = done(train("scene.ply", 1, "--depth @data/depth"));
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
    generate("--views 2 --size 48 --gaussians 3000");
    const std::string few = "--random 400 --background 1,1,1 ";
    done(train("plain.ply", 120, few));
    done(train("depth.ply", 120, few + "--depth @data/depth --depth-weight 3 --schedule weights=1"));
    const double supervised = depth_error("depth.ply");
    EXPECT_LT(supervised, 0.9 * depth_error("plain.ply"));
    EXPECT_GT(supervised, 0);
}

// The loss that is reported includes the depth.
TEST_F(DepthTraining, AddsToTheLoss) {
    generate();
    const auto loss = [&](const std::string &more) {
        return change(done(train("scene.ply", 1, "--seed 3 " + more)).out, "loss")[0];
    };
    const double none = loss(""), one = loss("--depth @data/depth"),
                 three = loss("--depth @data/depth --depth-weight 3");
    EXPECT_GT(one, none + 1e-3);
    EXPECT_NEAR(three - none, 3 * (one - none), 1e-4);
}

TEST_F(DepthTraining, GoesWithMasksFisheyesPosesAndExposures) {
    generate("--fisheye 120");
    for (const char *way :
         {"--mask-from-alpha", "--undistort --downscale 2", "--refine-poses --perturb-poses 0.5,0.01",
          "--random-background --antialias --density mcmc --max-gaussians 6000"})
        EXPECT_CONTAINS(done(train("scene.ply", 8, way + " --depth @data/depth"s)).out, " of 4 maps fitted");
}

TEST_F(DepthTraining, MapsThatCannotBeFittedAreLeftOut) {
    write_data(40);
    const auto turned = [](float v) { return 1 - v; };
    change_map("photo2.png", [](float) { return 0.5f; });
    change_map("photo4.png", turned);
    outcome run = done(train("scene.ply", 9, "--depth @depth"));
    EXPECT_EQ(run.err.rfind("dsplat: " + at("depth").string() +
                                ": 2 of 4 depth maps are left out (the first: photo2.png: its values at the ",
                            0),
              0u)
        << run.err;
    EXPECT_CONTAINS(run.out, "depth      2 of 4 maps fitted, to ");
    for (const char *name : {"photo1.png", "photo2.png", "photo3.png"}) change_map(name, turned);
    refuses(
        {{train("new.ply", 9, "--depth @depth"), 1,
          "depth: no depth map can be fitted; photo1.png: its values fall where the points are nearer: it must "
          "hold inverse depth, not depth"}});
}

TEST_F(DepthTraining, BadMapsAreRefusedByName) {
    write_data(40);
    const std::string with = train("scene.ply", 1, "--depth @depth");
    const auto refused = [&](const std::string &part) { refuses({{with, 1, part}}); };
    fs::remove(at("depth") / "photo0.png"); // held out
    done(with);
    fs::remove(at("scene.ply"));
    fs::copy(at("data") / "images/photo3.png", at("depth") / "photo3.png",
             fs::copy_options::overwrite_existing);
    refused("photo3.png: a PNG of 3 channels of 8 bits; it must be gray with 16 bits\n");
    fs::remove(at("depth") / "photo3.png");
    refused("depth: has no depth map of the picture photo3.png, a PNG or PFM named after it or its stem");
    fs::remove_all(at("depth"));
    refused("depth: has no depth map of the picture photo1.png");
    fs::remove(at("data") / "sparse/0/points3D.bin");
    refused("data: --depth needs points to fit the depth maps to");
    refuses({{with + " --depth-weight 0", 2, "--depth-weight"},
             {train("scene.ply", 1, "--depth-weight nan"), 2, "--depth-weight"}});
}

} // namespace
