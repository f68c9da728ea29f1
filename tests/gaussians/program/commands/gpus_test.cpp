// SPDX-License-Identifier: MIT
// dsplat train --gpus: steps, failures.
#include "gpus_run.h"

namespace {

using Gpus = OnGpus;

#ifdef DISTWAR_SIMT
// Both trainers: learning rates, penalties, noise and steps of Adam with several views. Without relocation, which draws
// other Gaussians after other rounding. 12 views are whole steps; one GPU without ranks may end with a smaller one.
TEST_F(Gpus, TwoRanksAndOneAgreeOnSteps) {
    write_colmap(at("data"), 30);
    for (const char *batch : {"1", "3"}) {
        gs_gaussians scenes[2];
        for (const int k : {0, 1}) {
            scene_of(1 + k, "--density mcmc --schedule from=100,until=7 --random 40 --batch "s + batch);
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
    const outcome got = dsplat(train(3, "--random 130 --nccl " FAKE_NCCL));
    unsetenv("FAKE_NCCL_BREAKS");
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err.find("dsplat: rank 1: "), 0u) << got.err;
    EXPECT_CONTAINS(got.err, ": unhandled cuda error");
    EXPECT_FALSE(fs::exists(at("scene.ply")));
}

TEST_F(Gpus, BadDataIsSaidOnce) {
    const outcome got = dsplat(train(2));
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "dsplat: " + at("data").string() + ": cannot open: No such file or directory\n");
}

#endif

TEST_F(Gpus, WhatTheyDoNotTrainIsRefused) {
    write_colmap(at("data"), 30);
    const std::string excludes = "--gpus excludes --";
    refuses({{train(0, "--nccl 2"), 2, "--nccl needs --gpus"},
             {train(2, "--view"), 2, excludes + "view: the page shows the Gaussians of one GPU"},
             {train(2, "--depth maps"), 2, excludes + "depth: "},
             {train(2, "--refine-poses"), 2, excludes + "refine-poses: "},
             {train(2, "--density adaptive"), 2, excludes + "density adaptive: "},
             {"render scene.ply -o scene.png --gpus 2", 2, "--gpus"}});
    const outcome without = dsplat(train(1, "--nccl /nowhere/libnccl.so.2"));
    EXPECT_EQ(without.code, 1);
    EXPECT_CONTAINS(without.err,
                    "dsplat: rank 0: several GPUs need NCCL 2.18 or later: /nowhere/libnccl.so.2");
}

} // namespace
