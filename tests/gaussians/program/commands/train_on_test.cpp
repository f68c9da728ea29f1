// SPDX-License-Identifier: MIT
// Runs that go on from others, what a scene's file says of its run, and what decides nothing.
#include "program_run.h"

namespace train_on_test {

TEST_F(Program, AFinishedRunGoesOn) {
    write_colmap(at("data"), 20);
    const std::string train = "train @data -o @scene.ply --checkpoint-every 4 --iterations ",
                      resumed = " --resume @scene.ply.checkpoint";
    done(train + "4");
    EXPECT_CONTAINS(done(train + "9" + resumed).out, "training   5 iterations (9 in all)");
    const outcome shorter = dsplat(train + "4" + resumed);
    EXPECT_EQ(shorter.code, 1);
    EXPECT_CONTAINS(shorter.err, "no run with these options has its counts");
}

TEST_F(Program, ASceneIsAStart) {
    write_colmap(at("data"), 20);
    done("train @data -o @a.ply --iterations 3 --sh-degree 1");
    const std::string train = "train @data -o @b.ply --from @a.ply ";
    EXPECT_CONTAINS(done(train + "--iterations 1 --sh-degree 1").out, "scene      20 Gaussians");
    EXPECT_FALSE(contents(at("a.ply")) == contents(at("b.ply")));
    const outcome degree = dsplat(train);
    EXPECT_EQ(degree.code, 1);
    EXPECT_CONTAINS(degree.err, "has SH degree 1: add --sh-degree 1");
    EXPECT_EQ(dsplat(train + "--random 9").code, 2);
}

TEST_F(Program, EvalKnowsWhatASceneWasTrainedOn) {
    write_colmap(at("data"), 20);
    const auto figures = [&](const std::string &more) {
        return done("eval @scene.ply --cameras @data" + more);
    };
    const std::string train = "train @data -o @scene.ply --iterations 2 --background 1,1,1 --holdout ";
    done(train + "2");
    const outcome held_out = figures("");
    EXPECT_EQ(held_out.err, "");
    EXPECT_EQ(held_out.out, figures(" --holdout 2 --background 1,1,1").out);
    EXPECT_NE(held_out.out, figures(" --background 0,0,0").out);
    EXPECT_NE(held_out.out, figures(" --holdout 3").out);
    done(train + "0");
    const outcome all = figures("");
    EXPECT_CONTAINS(all.err, "was trained on all views: these figures are of training views");
    EXPECT_EQ(all.out, figures(" --all").out);
}

// COLMAP scales scenes to about ten units, phones have metres.
TEST_F(Program, TheUnitOfLengthDecidesNothing) {
    const auto psnr = [&](double unit, const std::string &way) {
        write_colmap(at("data"), 60, unit);
        const std::string out =
            done("train @data -o @scene.ply --iterations 40 --holdout 5 --max-gaussians 100"
                 " --schedule from=1,every=4 --reproducible --density " +
                 way)
                .out;
        const size_t found = out.find("held out   PSNR ");
        return found == std::string::npos ? NAN : std::stod(out.substr(found + 16));
    };
    for (const char *way : {"split", "mcmc"}) {
        const double metres = psnr(1, way);
        for (double unit : {1.0 / 1024, 1024.0})
            EXPECT_NEAR(psnr(unit, way), metres, 0.5) << way << " " << unit;
    }
}

} // namespace train_on_test
