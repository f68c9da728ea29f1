// SPDX-License-Identifier: MIT
// dsplat generate: the data is what our loader reads, and shows the scene that is written beside it.
#include "program_run.h"
#include "dataset.h"

namespace {

class Generate : public Program {
  protected:
    void make(const std::string &name, const std::string &more = "") const {
        const outcome run =
            done("generate @" + name + " --views 6 --test-views 2 --size 48 --gaussians 2000 " + more);
        EXPECT_EQ(run.err, "");
        EXPECT_CONTAINS(run.out, "6 views to train on, 2 held out, 48 x 48");
    }
    // The mean PSNR of `dsplat eval`.
    double psnr(const std::string &line) const { return number_after(done("eval " + line).out, "mean"); }
};

TEST_F(Generate, IsDataOfAnObjectThatShowsItsScene) {
    make("data");
    dataset data;
    fault why;
    const dataset_options loading = {1, {1, 1, 1}, nullptr, nullptr, false, false, false, 0, false};
    ASSERT_TRUE(dataset_load(at("data").c_str(), &loading, &data, &why)) << why.text;
    ASSERT_EQ(data.view_count, 8u);
    EXPECT_TRUE(data.is_object);
    EXPECT_EQ(data.point_count, 0u);
    size_t held_out = 0;
    for (size_t i = 0; i < data.view_count; i++) {
        const image &shown = data.views[i].picture;
        held_out += data.views[i].held_out;
        ASSERT_TRUE(shown.width == 48 && shown.height == 48);
        int covered = 0;
        for (int p = 0; p < 48 * 48; p++) {
            const uint8_t *pixel = shown.pixels + 3 * p;
            const bool background = std::min({pixel[0], pixel[1], pixel[2]}) > 230;
            const int x = p % 48, y = p / 48;
            covered += !background;
            EXPECT_TRUE(background || (x > 0 && x < 47 && y > 0 && y < 47))
                << "cut off at " << x << ", " << y << " of " << i;
        }
        EXPECT_GT(covered, 48 * 48 / 4);
    }
    EXPECT_EQ(held_out, 2u);
    dataset_close(&data);
    EXPECT_GT(psnr("@data/scene.ply --cameras @data --background 1,1,1"), 45);
}

// What captures that are compared from version to version show: means over all Gaussians.
TEST_F(Generate, IsTheSceneOfEarlierVersions) {
    make("data");
    const host_scene scene(at("data/scene.ply"));
    ASSERT_EQ(scene.count, 2587);
    const struct {
        const float *values;
        int width, first;
        double mean;
    } rows[] = {{scene.mean, 3, 0, 0.00575259},       {scene.mean, 3, 1, 0.00525749},
                {scene.mean, 3, 2, -0.26704586},      {scene.sh, 48, 0, -0.46272573},
                {scene.sh, 48, 1, -0.51400427},       {scene.sh, 48, 2, -0.75245322},
                {scene.log_scale, 3, 0, -2.82847206}, {scene.quaternion, 4, 1, 0.17411089}};
    for (const auto &row : rows) {
        double sum = 0;
        for (int64_t i = 0; i < scene.count; i++) sum += double(row.values[row.width * i + row.first]);
        EXPECT_NEAR(sum / double(scene.count), row.mean, 1e-4);
    }
}

TEST_F(Generate, AFisheyeShowsItsSceneAlsoUndistorted) {
    make("data", "--fisheye 170");
    const std::string eval = "@data/scene.ply --cameras @data --background 1,1,1";
    EXPECT_GT(psnr(eval), 45);
    EXPECT_GT(psnr(eval + " --undistort"), 15); // resampled between few pixels
}

// Training, its last steps by Levenberg-Marquardt, and measuring, with another picture where alpha is 0.
TEST_F(Generate, WhatIsMaskedDoesNotMatter) {
    make("data");
    fs::copy(at("data"), at("other"), fs::copy_options::recursive);
    int changed = 0;
    for (const auto &entry : fs::recursive_directory_iterator(at("other"))) {
        if (entry.path().extension() != ".png") continue;
        const picture masked(entry.path());
        for (int i = 0; i < 48 * 48; i++)
            for (int c = 0; c < 3 && masked.pixels[4 * i + 3] == 0; c++, changed++)
                masked.pixels[4 * i + c] = uint8_t(37 * i + 11 * c);
        masked.write(entry.path());
    }
    EXPECT_GT(changed, 1000);
    std::vector<std::string> scenes, tables;
    std::vector<double> finished;
    for (const std::string name : {"data", "other"}) {
        const std::string masked = " --mask-from-alpha", eval = "eval @scene.ply --cameras @" + name;
        done("train @" + name + " -o @scene.ply --random 200 --iterations 20 --reproducible" + masked);
        scenes.push_back(contents(at("scene.ply")));
        tables.push_back(done(eval + masked).out);
        EXPECT_NE(done(eval).out, tables.back());
        done("finish @scene.ply --cameras @" + name + " -o @finished.ply --lm-steps 1" + masked);
        finished.push_back(psnr("@finished.ply --cameras @" + name + masked));
    }
    EXPECT_EQ(scenes[0], scenes[1]);
    EXPECT_EQ(tables[0], tables[1]);
    EXPECT_NEAR(finished[0], finished[1], 0.05); // its sums have no order
}

// Files of an earlier run go, other files stay, and the seed decides; no list stays of pictures that are no longer those.
TEST_F(Generate, TakesThePlaceOfAnEarlierRun) {
    make("fresh");
    make("other", "--seed 2");
    done("generate @data --views 9 --test-views 4 --size 16 --gaussians 2000 --seed 5");
    std::ofstream(at("data") / "train/mine.png") << "mine";
    make("data");
    size_t files = 0;
    for (const auto &entry : fs::recursive_directory_iterator(at("data"))) {
        const fs::path name = fs::relative(entry.path(), at("data"));
        if (entry.is_directory() || name == "train/mine.png") continue;
        const std::string bytes = contents(entry.path());
        EXPECT_TRUE(bytes == contents(at("fresh") / name)) << name;
        EXPECT_FALSE(bytes == contents(at("other") / name)) << name;
        files++;
    }
    EXPECT_EQ(files, 6u + 2u + 2u + 1u);
    EXPECT_EQ(contents(at("data") / "train/mine.png"), "mine");
    fs::remove_all(at("data") / "test");
    std::ofstream(at("data") / "test") << "not a folder";
    says({{"generate @data --views 2 --size 16 --gaussians 2000", 1, {"cannot make the folder"}}});
    EXPECT_FALSE(fs::exists(at("data") / "transforms_test.json"));
}

} // namespace
