// SPDX-License-Identifier: MIT
// splat train --gpus: failures.
#include "gpus_run.h"

namespace {

using Gpus = OnGpus;

#ifdef DISTWAR_SIMT
TEST_F(Gpus, ARankThatDiesEndsTheRun) {
    write_colmap(at("data"), 30);
    setenv("FAKE_NCCL_DIES", "1,40", 1);
    const outcome got = run(SPLAT_PROGRAM, train("scene.ply", 3, {"--nccl", FAKE_NCCL}));
    unsetenv("FAKE_NCCL_DIES");
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "splat: rank 1: was ended by signal 9 (Killed)\n");
    EXPECT_FALSE(fs::exists(at("scene.ply")));
}

TEST_F(Gpus, BadDataIsSaidOnce) {
    outcome got = run(SPLAT_PROGRAM, train("scene.ply", 1));
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "splat: " + at("data").string() + ": cannot open: No such file or directory\n");
    write_two_sizes(at("data"));
    got = run(SPLAT_PROGRAM, train("scene.ply", 1, {"--batch", "2"}));
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "splat: --batch needs pictures of one size and cameras of one model\n");
    EXPECT_EQ(run(SPLAT_PROGRAM, train("scene.ply", 1)).code, 0); // one view a step
}

#endif

TEST_F(Gpus, WithoutNcclItIsSaid) {
    write_colmap(at("data"), 30);
    const outcome got = run(SPLAT_PROGRAM, train("scene.ply", 1, {"--nccl", "/nowhere/libnccl.so.2"}));
    EXPECT_EQ(got.code, 1);
    EXPECT_NE(got.err.find("splat: rank 0: several GPUs need NCCL 2.18 or later: /nowhere/libnccl.so.2"),
              std::string::npos)
        << got.err;
}

TEST_F(Gpus, WhatTheyDoNotTrainIsRefused) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
        {{"--random-background"}, "--random-background"},
        {{"--refine-poses"}, "--refine-poses"},
        {{"--finish", "lm"}, "--finish"},
        {{"--density", "adaptive"}, "--density adaptive"}};
    for (const auto &[options, name] : cases) {
        const outcome got = run(SPLAT_PROGRAM, train("scene.ply", 2, options));
        EXPECT_EQ(got.code, 2);
        EXPECT_NE(got.err.find("--gpus excludes " + name + ";"), std::string::npos) << got.err;
    }
    for (const char *name : {"--batch", "--nccl"}) {
        const outcome got = run(SPLAT_PROGRAM, train("scene.ply", 0, {name, "2"}));
        EXPECT_EQ(got.code, 2);
        EXPECT_NE(got.err.find(std::string(name) + " needs --gpus"), std::string::npos) << got.err;
    }
}

} // namespace
