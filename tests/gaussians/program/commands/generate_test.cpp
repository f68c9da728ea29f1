// SPDX-License-Identifier: MIT
// dsplat generate: the data is what our loader reads, and shows the scene that is written beside it.
#include "program_run.h"
#include "dataset.h"
#include <algorithm>

namespace {

class Generate : public Program {
  protected:
    void make(const char *name, std::vector<std::string> more = {}) const {
        more.insert(more.begin(), {"generate", at(name), "--views", "6", "--test-views", "2", "--size", "48",
                                   "--gaussians", "2000"});
        outcome run = splat(more);
        ASSERT_EQ(run.code, 0) << run.err;
        EXPECT_EQ(run.err, "");
        EXPECT_CONTAINS(run.out, "6 views to train on, 2 held out, 48 x 48");
    }
};

TEST_F(Generate, IsDataOfAnObject) {
    make("data");
    dataset data;
    fault why;
    const dataset_options loading = {1, {1, 1, 1}, nullptr, nullptr, false, false, false, 0, false};
    ASSERT_TRUE(dataset_load(at("data").c_str(), &loading, &data, &why)) << why.text;
    ASSERT_EQ(data.view_count, 8u);
    EXPECT_TRUE(data.cut_out);
    EXPECT_EQ(data.point_count, 0u);
    size_t held_out = 0;
    for (size_t i = 0; i < data.view_count; i++) {
        const image &shown = data.views[i].picture;
        held_out += data.views[i].held_out;
        EXPECT_EQ(shown.width, 48);
        EXPECT_EQ(shown.height, 48);
        int covered = 0;
        for (int p = 0; p < 48 * 48; p++) {
            const uint8_t *pixel = shown.pixels + 3 * p;
            const bool background = std::min({pixel[0], pixel[1], pixel[2]}) > 230;
            const int x = p % 48, y = p / 48;
            covered += !background;
            if (x == 0 || x == 47 || y == 0 || y == 47) {
                EXPECT_TRUE(background) << "cut off at " << x << ", " << y << " of view " << i;
            }
        }
        EXPECT_GT(covered, 48 * 48 / 4);
    }
    EXPECT_EQ(held_out, 2u);
    dataset_close(&data);
}

TEST_F(Generate, IsTrainedOnBeforeAnyBackground) {
    make("data");
    const auto train = [&](const char *to, std::vector<std::string> more) {
        more.insert(more.begin(), {"train", at("data"), "-o", at(to), "--random", "200", "--iterations", "20",
                                   "--reproducible"});
        const outcome run = splat(more);
        EXPECT_EQ(run.code, 0) << run.err;
        return contents(at(to));
    };
    const std::string fixed = train("fixed.ply", {}), random = train("random.ply", {"--random-background"});
    EXPECT_NE(fixed, random);
    EXPECT_EQ(random, train("again.ply", {"--random-background"}));
}

TEST_F(Generate, RetirementIsAPartOfTraining) {
    const outcome data = splat(
        {"generate", at("data"), "--views", "3", "--test-views", "1", "--size", "16", "--gaussians", "1000"});
    ASSERT_EQ(data.code, 0) << data.err;
    const auto train = [&](const char *to, const char *retired) {
        const outcome run = splat({"train", at("data"), "-o", at(to), "--random", "60", "--max-gaussians",
                                   "90", "--iterations", "24", "--schedule", "from=2,every=4,retire=8",
                                   "--retire", retired, "--reproducible"});
        EXPECT_EQ(run.code, 0) << run.err;
        return contents(at(to));
    };
    const std::string with = train("with.ply", "1"); // at most three quarters
    EXPECT_FALSE(with == train("without.ply", "0"));
    EXPECT_TRUE(with == train("again.ply", "1"));
}

TEST_F(Generate, ShowsItsScene) {
    make("data");
    outcome run = dsplat("eval @data/scene.ply --cameras @data --background 1,1,1");
    ASSERT_EQ(run.code, 0) << run.err;
    const size_t mean = run.out.find("mean");
    ASSERT_NE(mean, std::string::npos) << run.out;
    EXPECT_GT(std::strtod(run.out.c_str() + mean + strlen("mean"), nullptr), 45) << run.out;
}

// The mean PSNR that `dsplat eval` prints.
double psnr_of(const outcome &run) {
    EXPECT_EQ(run.code, 0) << run.err;
    const size_t mean = run.out.find("mean");
    return mean == std::string::npos ? NAN : std::strtod(run.out.c_str() + mean + strlen("mean"), nullptr);
}

TEST_F(Generate, AFisheyeIsTrainedAsItIsAndUndistorted) {
    make("data", {"--fisheye", "170"});
    const auto eval = [&](const fs::path &scene, std::vector<std::string> more) {
        more.insert(more.begin(), {"eval", scene, "--cameras", at("data"), "--background", "1,1,1"});
        return psnr_of(splat(more));
    };
    EXPECT_GT(eval(at("data") / "scene.ply", {}), 45);
    EXPECT_GT(eval(at("data") / "scene.ply", {"--undistort"}), 15); // resampled between few pixels
    for (const bool undistort : {false, true}) {
        const std::vector<std::string> option(undistort ? 1 : 0, "--undistort");
        double psnr[2];
        for (const int longer : {0, 1}) {
            std::vector<std::string> train = {
                "train", at("data"),     "-o",    at("scene.ply"), "--random",
                "300",   "--background", "1,1,1", "--iterations",  longer ? "60" : "1"};
            train.insert(train.end(), option.begin(), option.end());
            const outcome run = splat(train);
            ASSERT_EQ(run.code, 0) << run.err;
            psnr[longer] = eval(at("scene.ply"), option);
        }
        EXPECT_GT(psnr[1], psnr[0] + 0.5) << undistort;
    }
}

// Training, its last steps by Levenberg-Marquardt, and measuring, with another picture where alpha is 0.
TEST_F(Generate, WhatIsMaskedDoesNotMatter) {
    make("data");
    fs::copy(at("data"), at("other"), fs::copy_options::recursive);
    fault why;
    int changed = 0;
    for (const auto &entry : fs::recursive_directory_iterator(at("other"))) {
        if (entry.path().extension() != ".png") continue;
        image picture;
        ASSERT_TRUE(image_read(entry.path().c_str(), &picture, &why)) << why.text;
        for (int i = 0; i < 48 * 48; i++)
            for (int c = 0; c < 3 && picture.pixels[4 * i + 3] == 0; c++, changed++)
                picture.pixels[4 * i + c] = uint8_t(37 * i + 11 * c);
        ASSERT_TRUE(image_write_png(entry.path().c_str(), &picture, &why)) << why.text;
        image_close(&picture);
    }
    EXPECT_GT(changed, 1000);
    std::vector<std::string> scenes, tables;
    double finished_psnr[2];
    for (const char *name : {"data", "other"}) {
        const fs::path scene = at(name).string() + ".ply", finished = at("finished.ply");
        outcome run = splat({"train", at(name), "-o", scene, "--random", "200", "--iterations", "20",
                             "--reproducible", "--mask-from-alpha"});
        ASSERT_EQ(run.code, 0) << run.err;
        scenes.push_back(contents(scene));
        run = splat({"eval", scene, "--cameras", at(name), "--mask-from-alpha"});
        ASSERT_EQ(run.code, 0) << run.err;
        tables.push_back(run.out);
        EXPECT_NE(splat({"eval", scene, "--cameras", at(name)}).out, run.out);
        run = splat(
            {"finish", scene, "--cameras", at(name), "-o", finished, "--lm-steps", "1", "--mask-from-alpha"});
        ASSERT_EQ(run.code, 0) << run.err;
        finished_psnr[scenes.size() - 1] =
            psnr_of(splat({"eval", finished, "--cameras", at(name), "--mask-from-alpha"}));
    }
    EXPECT_EQ(scenes[0], scenes[1]);
    EXPECT_EQ(tables[0], tables[1]);
    EXPECT_NEAR(finished_psnr[0], finished_psnr[1], 0.05); // its sums have no order
}

TEST_F(Generate, TheSeedDecides) {
    make("one");
    make("again");
    make("other", {"--seed", "2"});
    for (const char *file :
         {"transforms_train.json", "transforms_test.json", "train/r_0005.png", "scene.ply"}) {
        EXPECT_EQ(contents(at("one") / file), contents(at("again") / file)) << file;
        EXPECT_NE(contents(at("one") / file), contents(at("other") / file)) << file;
        EXPECT_NE(contents(at("one") / file), "") << file;
    }
}

// Files of an earlier run go, other files stay.
TEST_F(Generate, TakesThePlaceOfAnEarlierRun) {
    make("fresh");
    ASSERT_EQ(dsplat("generate @data --views 9 --test-views 4 --size 16 --gaussians 2000 --seed 5").code, 0);
    std::ofstream(at("data") / "train/mine.png") << "mine";
    make("data");
    size_t files = 0;
    for (const auto &entry : fs::recursive_directory_iterator(at("data"))) {
        const fs::path name = fs::relative(entry.path(), at("data"));
        if (entry.is_directory() || name == "train/mine.png") continue;
        EXPECT_EQ(contents(entry.path()), contents(at("fresh") / name)) << name;
        files++;
    }
    EXPECT_EQ(files, 6u + 2u + 2u + 1u);
    EXPECT_EQ(contents(at("data") / "train/mine.png"), "mine");
}

// No list stays of pictures that are no longer those.
TEST_F(Generate, OneThatFailsLeavesNoList) {
    make("data");
    fs::remove_all(at("data") / "test");
    std::ofstream(at("data") / "test") << "not a folder";
    const outcome run = dsplat("generate @data --views 2 --size 16 --gaussians 2000");
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "cannot make the folder");
    EXPECT_FALSE(fs::exists(at("data") / "transforms_test.json"));
}

TEST_F(Generate, APlaceThatCannotBeWrittenIsRefused) {
    std::ofstream(at("file")) << "not a folder";
    for (const fs::path &place : {at("file"), at("no") / "such" / "folder"}) {
        outcome run = splat({"generate", place});
        EXPECT_EQ(run.code, 1);
        EXPECT_CONTAINS(run.err, place.string());
    }
    EXPECT_EQ(contents(at("file")), "not a folder");
    EXPECT_EQ(splat({"generate"}).code, 2);
    EXPECT_EQ(dsplat("generate @data --views 0").code, 2);
    EXPECT_EQ(files_in_folder(), 1u);
}

} // namespace
