// SPDX-License-Identifier: MIT
// dsplat train on data without points whose pictures say where things are.
#include "gpus_run.h"

namespace {

class StereoStart : public OnGpus {
  protected:
    // 80 are wanted: so many that there may be no more Gaussians.
    void SetUp() override {
        OnGpus::SetUp();
        write_colmap(at("data"), 90);
        bytes(at("data") / "sparse/0/points3D.bin") << uint64_t(0);
    }
    const std::vector<std::string> options =
        words("--max-gaussians 80 --schedule from=1,every=4 --reproducible");
};

TEST_F(StereoStart, SaysWhatItHasFound) {
    const outcome got = run(DSPLAT_PROGRAM, train("scene.ply", 1, options));
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_NE(got.out.find(" points by stereo; stereo found "), std::string::npos) << got.out;
    EXPECT_NE(got.out.find(" in 4 views, "), std::string::npos) << got.out; // one of five is held out
    EXPECT_NE(got.out.find("density control split"), std::string::npos) << got.out;
}

TEST_F(StereoStart, AskedForRandomPointsStayRandom) {
    for (const std::vector<std::string> &more :
         {std::vector<std::string>{"--random", "50"}, std::vector<std::string>{"--refine-poses"}}) {
        const outcome got = run(DSPLAT_PROGRAM, train("scene.ply", 1, with(options, more)));
        ASSERT_EQ(got.code, 0) << got.err;
        EXPECT_EQ(got.out.find("stereo"), std::string::npos) << got.out;
        EXPECT_NE(got.out.find(" random points"), std::string::npos) << got.out;
        EXPECT_NE(got.out.find("density control mcmc"), std::string::npos) << got.out;
    }
}

TEST_F(StereoStart, IsTheSameOnAnyNumberOfRanksAndAfterAResumption) {
    const std::string whole = scene_of(1, options);
    EXPECT_TRUE(scene_of(1, options) == whole);
    EXPECT_TRUE(scene_of(2, options) == whole) << "threads";
    const std::vector<std::string> saving = with(options, {"--checkpoint-every", "7"});
    EXPECT_TRUE(scene_of(1, saving) == whole);
    EXPECT_TRUE(scene_of(1, with(saving, {"--resume", checkpoint()})) == whole);
#ifdef FAKE_NCCL
    EXPECT_TRUE(scene_of(2, with(options, {"--nccl", FAKE_NCCL})) == whole) << "processes";
#endif
}

} // namespace
