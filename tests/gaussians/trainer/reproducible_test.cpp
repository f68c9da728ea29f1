// SPDX-License-Identifier: MIT
// dsplat train --reproducible: the same bytes after a resumption, after a signal, and after being killed twenty times; under
// other schedules: tests/faults/runs_test.py.
#include "program_run.h"
#include "training_state.h"
#include "distwar_gs.h"
#include "camera.h"
#include <chrono>
#include <csignal>
#include <set>
#include <tuple>
#include <zlib.h>

namespace {

class Reproducible : public Program {
  protected:
    static std::string run_of(const std::string &output, int iterations, const std::string &more = "") {
        return "train --reproducible --holdout 5 --seed 7 @data -o @" + output + " --iterations " +
               std::to_string(iterations) + " " + more;
    }

    double seconds_of(const std::string &line) const {
        const auto began = std::chrono::steady_clock::now();
        done(line);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    }
};

// Everything that draws, sums or moves: all ways of density control, antialiasing, corrected colours, poses, depth.
const char *const ways[] = {
    "",
    "--density adaptive --schedule from=1,every=4,until=11 --antialias",
    "--density mcmc --max-gaussians 60 --schedule from=1,every=4 --random 40",
    "--density split --max-gaussians 60 --schedule from=1,every=4 --random 40",
    "--refine-poses --perturb-poses 1,0.01 --depth @data/depth",
    "--schedule average=1,until=2,dropout=0", // iterations 5 and 10
    "--depth @data/depth --depth-weight 0.5 --mask-from-alpha --undistort",
};

#ifdef DISTWAR_SIMT
TEST_F(Reproducible, IsNotSoByItself) {
    write_colmap(at("data"), 30);
    std::set<std::string> scenes;
    for (int schedule = 0; schedule < 4 && scenes.size() < 2; schedule++) {
        setenv("SIMT_SEED", std::to_string(schedule).c_str(), 1);
        done("train @data -o @scene.ply --iterations 6 --reduce atomic");
        scenes.insert(contents(at("scene.ply")));
    }
    unsetenv("SIMT_SEED");
    EXPECT_GT(scenes.size(), 1u) << "schedules make no difference: that bytes are the same shows nothing";
}
#endif

TEST_F(Reproducible, AResumedRunEndsAsIfItHadNotBeenInterrupted) {
    done("generate @data --views 4 --test-views 1 --size 32 --gaussians 1000 --depth --fisheye 120");
    for (const std::string way : ways) {
        const std::string saving = way + " --checkpoint-every 7";
        done(run_of("whole.ply", 12, saving));
        fs::rename(at("whole.ply.checkpoint"),
                   at("saved")); // of iteration 7, before density control acts again
        done(run_of("resumed.ply", 12, saving + " --resume @saved"));
        EXPECT_TRUE(contents(at("whole.ply")) == contents(at("resumed.ply")));
        EXPECT_GT(fs::file_size(at("whole.ply")), 20 * 200u) << "too few Gaussians to show anything";
        fs::remove(at("saved"));
    }
    // At its end.
    done(run_of("whole.ply", 6, "--checkpoint-every 6"));
    done(run_of("resumed.ply", 6, "--resume @whole.ply.checkpoint"));
    EXPECT_TRUE(contents(at("whole.ply")) == contents(at("resumed.ply")));
}

TEST_F(Reproducible, SignalsSaveAndEndIt) {
    write_colmap(at("data"), 30);
    const fs::path saved = at("scene.ply.checkpoint");
    for (const int signal : {SIGINT, SIGTERM}) {
        // So long that it must be the signal that ends it; the first checkpoint says that training is on.
        fs::remove(saved);
        const pid_t child = background(run_of("scene.ply", 1000000, "--checkpoint-every 1"));
        for (int n = 0; n < 3000 && !fs::exists(saved); n++) usleep(10000);
        kill(child, signal);
        const outcome got = ended(child, at("out"), at("err"));
        EXPECT_EQ(got.code, 128 + signal) << got.err;
        EXPECT_CONTAINS(got.err, "--resume " + saved.string());
        EXPECT_TRUE(fs::exists(saved));
        EXPECT_TRUE(fs::exists(at("scene.ply"))) << "what there is";
        fs::remove(at("scene.ply"));
    }
}

// Killed wherever it may be: loading, training, writing a checkpoint or the scene.
TEST_F(Reproducible, SurvivesTwentyKills) {
    write_colmap(at("data"), 12);
    const fs::path saved = at("killed.ply.checkpoint");
    const std::string way = " --density adaptive --schedule from=10,every=20 --sh-degree 0";
    const double whole = seconds_of(run_of("whole.ply", 90, way));
    std::ofstream(at("killed.ply.checkpoint.part-1-0")) << "as if killed while it wrote the checkpoint";
    // What a run takes before its first step: as long as one that has nothing to do.
    const double begin = seconds_of(run_of("short.ply", 1));
    std::mt19937 random(11);
    int killed = 0, resumed = 0;
    for (int attempt = 0; attempt < 1000; attempt++) {
        const bool resumes = fs::exists(saved);
        resumed += resumes;
        const pid_t child = background(run_of("killed.ply", 90, way) + " --checkpoint-every 3" +
                                       (resumes ? " --resume @killed.ply.checkpoint" : ""));
        if (killed < 20) {
            usleep(useconds_t(1000 * (begin + (whole - begin) / 10) * double(random() % 1000)));
            kill(child, SIGKILL);
        }
        const outcome got = ended(child, at("out"), at("err"));
        ASSERT_TRUE(got.code == 0 || got.code == -SIGKILL) << got.err;
        if (got.code == 0 && killed == 20) break;
        killed += got.code != 0;
        if (got.code == 0) fs::remove(saved); // it was quicker than its killer: once more from the start
    }
    EXPECT_EQ(killed, 20);
    EXPECT_GT(resumed, 0);
    EXPECT_TRUE(contents(at("whole.ply")) == contents(at("killed.ply")));
    EXPECT_GT(fs::file_size(at("whole.ply")), 12 * 60u) << "too few Gaussians to show anything";
    // The last run has removed what those before it had half written.
    for (const auto &file : fs::directory_iterator(folder))
        EXPECT_EQ(file.path().filename().string().find(".part-"), std::string::npos) << file.path();
}

// With a sum that is right: only then are its numbers looked at.
TEST_F(Reproducible, AForgedCheckpointIsRefused) {
    write_colmap(at("data"), 12);
    done(run_of("scene.ply", 2, "--checkpoint-every 2"));
    struct {
        char before[24]; // magic, version, bytes of settings, bytes of the file
        int64_t count, exposures, poses, averaged;
        run_place place;
    } header;
    const std::string saved = contents(at("scene.ply.checkpoint"));
    memcpy(&header, saved.data(), sizeof header);
    ASSERT_EQ(header.place.views, 2);
    ASSERT_EQ(header.exposures, photos - 1);
    // Resumes from this header and what follows it, some bytes longer, with the right size and checksum.
    const auto resumed_from = [&](auto changed, int64_t longer) {
        std::string bytes = saved.substr(0, saved.size() - 4);
        bytes.resize(size_t(int64_t(bytes.size()) + longer));
        const uint64_t size = bytes.size() + 4;
        memcpy(changed.before + 16, &size, sizeof size);
        memcpy(bytes.data(), &changed, sizeof changed);
        const uint32_t sum =
            uint32_t(crc32(0, reinterpret_cast<const Bytef *>(bytes.data()), uInt(bytes.size())));
        bytes.append(reinterpret_cast<const char *>(&sum), sizeof sum);
        std::ofstream(at("forged"), std::ios::binary) << bytes;
        return dsplat(run_of("scene.ply", 2, "--resume @forged"));
    };
    const std::string counts = "no run with these options has its counts",
                      inconsistent = "its header is inconsistent";
    const int64_t gains = GS_EXPOSURE_VALUES * int64_t(sizeof(float)), views = photos - 1,
                  average = header.count * 59 * int64_t(sizeof(float));
    const std::tuple<int64_t, int64_t, int64_t, int64_t, std::string> cases[] = {
        {2, views, 1, 0, counts},       // poses of which the options know nothing
        {2, views, 0, 3, inconsistent}, // parameters in an average as no run has after two iterations
        {0, 1, 0, 0, ""},
        {0, 0, 0, 0, ""},
        {0, photos, 0, 0, ""},
        {3, views, 0, 0, ""},
        {INT64_MAX, views, 0, 0, ""}};
    EXPECT_EQ(resumed_from(header, 0).code, 0);
    for (const auto &[iteration, exposures, poses, averaged, text] : cases) {
        auto changed = header;
        changed.place.views = iteration, changed.exposures = exposures;
        changed.poses = poses, changed.averaged = averaged;
        const outcome run =
            resumed_from(changed, (exposures - views) * gains + poses * int64_t(sizeof(refined_pose)) +
                                      (averaged > 0 ? average : 0));
        EXPECT_EQ(run.code, 1) << iteration << " " << exposures;
        EXPECT_CONTAINS(run.err, "forged: damaged: " + text);
    }
}

// The scene's file says that it is antialiased, and its readers follow.
TEST_F(Program, AnAntialiasedSceneIsRenderedAsOne) {
    write_colmap(at("data"), 20);
    done("train @data -o @scene.ply --iterations 5 --antialias");
    std::string scene = contents(at("scene.ply"));
    EXPECT_CONTAINS(scene, "comment SplatRenderMode: mip\n");
    done("render @scene.ply -o @a.png --cameras @data");
    scene.replace(scene.find("SplatRenderMode"), 11, "something x");
    std::ofstream(at("plain.ply"), std::ios::binary) << scene;
    done("render @plain.ply -o @b.png --cameras @data");
    EXPECT_TRUE(contents(at("a.png")) != contents(at("b.png")));
}

TEST_F(Program, TheSummarySaysWhatGainsThePhotographsHave) {
    write_colmap(at("data"), 20);
    // One photograph is darker than the scene that the others show.
    const fs::path name = at("data") / "images/photo1.png";
    const picture dark(name);
    for (int i = 0; i < 3 * dark.width * dark.height; i++) dark.pixels[i] = uint8_t(dark.pixels[i] / 2);
    dark.write(name);
    const std::string out =
        done("train @data -o @scene.ply --iterations 150 --holdout 0 --sh-degree 0 --density none").out;
    EXPECT_GT(std::stod(out.substr(out.find("photographs differ by ") + 22)), 5) << out;
}

} // namespace
