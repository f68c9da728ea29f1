// SPDX-License-Identifier: MIT
// dsplat train --depth, on data of dsplat generate --depth.
#include "images/image.h"
#include "json_value.h"
#include "program_run.h"
#include <algorithm>
#include <functional>
#include <set>

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
    // Of the view of this number that is trained on.
    fs::path map_of(int view) const {
        return at("data") / ("depth/train/r_000" + std::to_string(view) + ".png");
    }
    void change_map(int view, const std::function<float(float)> &value_of) const {
        fault why;
        plane map;
        ASSERT_TRUE(plane_read(map_of(view).c_str(), &map, &why)) << why.text;
        for (size_t i = 0; i < plane_size(&map); i++) map.values[i] = value_of(map.values[i]);
        ASSERT_TRUE(plane_write_png(map_of(view).c_str(), &map, &why)) << why.text;
        plane_close(&map);
    }
    const std::string with_maps = train("scene.ply", 9, "--depth @data/depth");
};

TEST_F(DepthTraining, GeneratedMapsAreThoseOfTheScene) {
    generate();
    EXPECT_LT(depth_error("data/scene.ply"), 1e-5);
    // Those of the training views are scaled and shifted, and fit to the points.
    const outcome run = done(train("scene.ply", 1, "--depth @data/depth"));
    EXPECT_EQ(run.err, "");
    EXPECT_CONTAINS(run.out, "depth      4 of 4 maps fitted, to ");
    std::set<float> lowest;
    for (const int view : {0, 1}) {
        float least = INFINITY;
        change_map(view, [&](float v) { return least = std::min(least, v), v; });
        lowest.insert(least);
    }
    EXPECT_EQ(lowest.size(), 2u); // of the background, which is infinitely far
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

TEST_F(DepthTraining, MapsThatCannotBeFittedAreLeftOut) {
    generate();
    const auto turned = [](float v) { return 1 - v; };
    change_map(1, [](float) { return 0.5f; });
    change_map(3, turned);
    const outcome run = done(with_maps);
    const std::string says =
        "dsplat: " + at("data").string() +
        "/depth: 2 of 4 depth maps are left out (the first: train/r_0001.png: its values at the ";
    EXPECT_EQ(run.err.rfind(says, 0), 0u) << run.err;
    EXPECT_CONTAINS(run.out, "depth      2 of 4 maps fitted, to ");
    for (const int view : {0, 1, 2}) change_map(view, turned);
    refuses(
        {{with_maps, 1,
          "depth: no depth map can be fitted; train/r_0000.png: its values fall where the points are nearer: it "
          "must hold inverse depth, not depth"}});
}

TEST_F(DepthTraining, BadMapsAreRefusedByName) {
    generate();
    const auto refused = [&](const std::string &part) { refuses({{with_maps, 1, part}}); };
    for (const char *weight : {"0", "nan"})
        refuses({{with_maps + " --depth-weight " + weight, 2, "--depth-weight"}});
    fs::remove_all(at("data") / "depth/test"); // held out
    done(with_maps);
    fs::remove(at("scene.ply"));
    // Two lines of comments, and nine points.
    const std::string points = contents(at("data") / "points3D.txt");
    size_t end = 0;
    for (int line = 0; line < 11; line++) end = points.find('\n', end) + 1;
    std::ofstream(at("data") / "points3D.txt") << points.substr(0, end);
    refused("r_0000.png: 9 points are seen where it has values; 10 are needed");
    fs::copy(at("data") / "train/r_0002.png", map_of(2), fs::copy_options::overwrite_existing);
    refused("r_0002.png: a PNG of 4 channels of 8 bits; it must be gray with 16 bits\n");
    fs::remove(map_of(2));
    refused("depth: has no depth map of the picture train/r_0002.png, a PNG or PFM named after it or its stem");
    fs::remove_all(at("data") / "depth");
    refused("depth: has no depth map of the picture train/r_0000.png");
    fs::remove(at("data") / "points3D.txt");
    refused("data: --depth needs points to fit the depth maps to");
}

} // namespace
