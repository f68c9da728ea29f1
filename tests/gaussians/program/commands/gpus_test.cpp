// SPDX-License-Identifier: MIT
// dsplat train --gpus: failures.
#include "gpus_run.h"

namespace {

using Gpus = OnGpus;

#ifdef DISTWAR_SIMT
// Both trainers: learning rates, penalties, noise and steps of Adam with several views. Without relocation, which draws
// other Gaussians after other rounding. 12 views are whole steps; one GPU without ranks may end with a smaller one.
TEST_F(Gpus, TwoRanksAndOneAgreeOnSteps) {
    write_colmap(at("data"), 30);
    for (const char *batch : {"1", "3"}) {
        const std::vector<std::string> options =
            words("--density mcmc --schedule from=100,until=7 --random 40 --batch "s + batch);
        gs_gaussians scenes[2];
        for (const int k : {0, 1}) {
            scene_of(1 + k, options);
            fault why;
            ASSERT_TRUE(scene_read(at("scene.ply").c_str(), SCENE_FINITE, &scenes[k], &why)) << why.text;
        }
        ASSERT_EQ(scenes[0].count, scenes[1].count);
        const size_t count = size_t(scenes[0].count);
        const auto difference = [count](const float *a, const float *b, size_t width) {
            double error = 0, norm = 0;
            for (size_t i = 0; i < count * width; i++) {
                error += std::pow(double(a[i]) - double(b[i]), 2);
                norm += std::pow(double(b[i]), 2);
            }
            return std::sqrt(error / norm);
        };
        EXPECT_LT(difference(scenes[0].mean, scenes[1].mean, 3), 1e-3) << batch;
        EXPECT_LT(difference(scenes[0].log_scale, scenes[1].log_scale, 3), 1e-3) << batch;
        EXPECT_LT(difference(scenes[0].opacity_logit, scenes[1].opacity_logit, 1), 1e-3) << batch;
        EXPECT_LT(difference(scenes[0].sh, scenes[1].sh, 48), 1e-3) << batch;
        for (gs_gaussians &scene : scenes) scene_close(&scene);
    }
}

TEST_F(Gpus, ARankThatFailsEndsTheRun) {
    write_colmap(at("data"), 30);
    setenv("FAKE_NCCL_BREAKS", "1,40", 1);
    const outcome got = run(DSPLAT_PROGRAM, train("scene.ply", 3, {"--nccl", FAKE_NCCL, "--random", "130"}));
    unsetenv("FAKE_NCCL_BREAKS");
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err.find("dsplat: rank 1: "), 0u) << got.err;
    EXPECT_CONTAINS(got.err, ": unhandled cuda error");
    EXPECT_FALSE(fs::exists(at("scene.ply")));
}

TEST_F(Gpus, BadDataIsSaidOnce) {
    outcome got = run(DSPLAT_PROGRAM, train("scene.ply", 2));
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "dsplat: " + at("data").string() + ": cannot open: No such file or directory\n");
    write_two_sizes(at("data"));
    got = run(DSPLAT_PROGRAM, train("scene.ply", 2, {"--batch", "2"}));
    EXPECT_EQ(got.code, 0) << got.err;
}

#endif

TEST_F(Gpus, WithoutNcclItIsSaid) {
    write_colmap(at("data"), 30);
    const outcome got = run(DSPLAT_PROGRAM, train("scene.ply", 1, {"--nccl", "/nowhere/libnccl.so.2"}));
    EXPECT_EQ(got.code, 1);
    EXPECT_NE(got.err.find("dsplat: rank 0: several GPUs need NCCL 2.18 or later: /nowhere/libnccl.so.2"),
              std::string::npos)
        << got.err;
}

TEST_F(Gpus, WhatTheyDoNotTrainIsRefused) {
    outcome got = run(DSPLAT_PROGRAM, train("scene.ply", 0, {"--nccl", "2"}));
    EXPECT_EQ(got.code, 2);
    EXPECT_NE(got.err.find("--nccl needs --gpus"), std::string::npos) << got.err;
    const struct {
        std::vector<std::string> options;
        const char *says;
    } refused[] = {{{"--view"}, "--gpus excludes --view: the page shows the Gaussians of one GPU"},
                   {{"--depth", "maps"}, "--gpus excludes --depth: "},
                   {{"--refine-poses"}, "--gpus excludes --refine-poses: "},
                   {{"--density", "adaptive"}, "--gpus excludes --density adaptive: "}};
    for (const auto &row : refused) {
        got = run(DSPLAT_PROGRAM, train("scene.ply", 2, row.options));
        EXPECT_EQ(got.code, 2) << row.says;
        EXPECT_NE(got.err.find(row.says), std::string::npos) << got.err;
    }
    got = run(DSPLAT_PROGRAM, {"render", "scene.ply", "-o", "scene.png", "--gpus", "2"});
    EXPECT_EQ(got.code, 2);
    EXPECT_NE(got.err.find("--gpus"), std::string::npos) << got.err;
}

} // namespace
