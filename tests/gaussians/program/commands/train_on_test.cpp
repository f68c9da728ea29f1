// SPDX-License-Identifier: MIT
// Runs that go on from others, and what a scene's file says of its run.
#include "program_run.h"

namespace train_on_test {

TEST_F(Program, AFinishedRunGoesOn) {
    write_colmap(at("data"), 20);
    const auto train = [&](const char *iterations, std::vector<std::string> more) {
        std::vector<std::string> all = {
            "train", at("data"),     "-o",      at("scene.ply"), "--checkpoint-every",
            "4",     "--iterations", iterations};
        all.insert(all.end(), more.begin(), more.end());
        return splat(all);
    };
    ASSERT_EQ(train("4", {}).code, 0);
    const outcome longer = train("9", {"--resume", at("scene.ply.checkpoint")});
    ASSERT_EQ(longer.code, 0) << longer.err;
    EXPECT_CONTAINS(longer.out, "training   5 iterations (9 in all)");
    const outcome shorter = train("4", {"--resume", at("scene.ply.checkpoint")});
    EXPECT_EQ(shorter.code, 1);
    EXPECT_CONTAINS(shorter.err, "no run with these options has its counts");
}

TEST_F(Program, ASceneIsAStart) {
    write_colmap(at("data"), 20);
    ASSERT_EQ(dsplat("train @data -o @a.ply --iterations 3 --sh-degree 1").code, 0);
    const outcome run = dsplat("train @data -o @b.ply --iterations 1 --sh-degree 1 --from @a.ply");
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "scene      20 Gaussians");
    EXPECT_FALSE(contents(at("a.ply")) == contents(at("b.ply")));
    const outcome degree = dsplat("train @data -o @b.ply --from @a.ply");
    EXPECT_EQ(degree.code, 1);
    EXPECT_CONTAINS(degree.err, "has SH degree 1: add --sh-degree 1");
    EXPECT_EQ(dsplat("train @data -o @b.ply --from @a.ply --random 9").code, 2);
}

TEST_F(Program, EvalKnowsWhatASceneWasTrainedOn) {
    write_colmap(at("data"), 20);
    const auto figures = [&](std::vector<std::string> more) {
        std::vector<std::string> all = {"eval", at("scene.ply"), "--cameras", at("data")};
        all.insert(all.end(), more.begin(), more.end());
        return splat(all);
    };
    const std::vector<std::string> train =
        words("train @data -o @scene.ply --iterations 2 --background 1,1,1 --holdout");
    const auto trained = [&](const char *holdout) {
        std::vector<std::string> all = train;
        all.push_back(holdout);
        ASSERT_EQ(splat(all).code, 0);
    };
    trained("2");
    const outcome held_out = figures({});
    EXPECT_EQ(held_out.err, "");
    EXPECT_EQ(held_out.out, figures({"--holdout", "2", "--background", "1,1,1"}).out);
    EXPECT_NE(held_out.out, figures({"--background", "0,0,0"}).out);
    EXPECT_NE(held_out.out, figures({"--holdout", "3"}).out);
    trained("0");
    const outcome all = figures({});
    EXPECT_CONTAINS(all.err, "was trained on all views: these figures are of training views");
    EXPECT_EQ(all.out, figures({"--all"}).out);
}

} // namespace train_on_test
