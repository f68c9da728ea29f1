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
    const std::string options = "--max-gaussians 80 --schedule from=1,every=4 --reproducible";
};

TEST_F(StereoStart, SaysWhatItHasFound) {
    const std::string found = done(train(1, options)).out;
    EXPECT_CONTAINS(found, " points by stereo; stereo found ");
    EXPECT_CONTAINS(found, " in 4 views, "); // one of five is held out
    EXPECT_CONTAINS(found, "density control split");
}

TEST_F(StereoStart, AskedForRandomPointsStayRandom) {
    for (const char *more : {" --random 50", " --refine-poses"}) {
        const std::string random = done(train(1, options + more)).out;
        EXPECT_EQ(random.find("stereo"), std::string::npos) << random;
        EXPECT_CONTAINS(random, " random points");
        EXPECT_CONTAINS(random, "density control mcmc");
    }
}

TEST_F(StereoStart, IsTheSameOnAnyNumberOfRanksAndAfterAResumption) {
    const std::string whole = scene_of(1, options), saving = options + " --checkpoint-every 7";
    EXPECT_TRUE(scene_of(2, options) == whole) << "threads";
    EXPECT_TRUE(scene_of(1, saving) == whole);
    EXPECT_TRUE(scene_of(1, saving + " --resume @scene.ply.checkpoint") == whole);
#ifdef FAKE_NCCL
    EXPECT_TRUE(scene_of(2, options + " --nccl " FAKE_NCCL) == whole) << "processes";
#endif
}

} // namespace
