// SPDX-License-Identifier: MIT
// dsplat train --reproducible: the same bytes again under other schedules, after a signal and a resumption,
// and after being killed twenty times.
#include "depth_data.h"
#include "training_state.h"
#include "distwar_gs.h"
#include "camera.h"
#include <chrono>
#include <csignal>
#include <thread>
#include <zlib.h>
#ifdef DISTWAR_SIMT
#include <simt.h>
#endif

extern "C" int train_command(int argc, char **argv);

namespace {

class Reproducible : public Program {
  protected:
    static std::string run_of(const std::string &output, int iterations, const std::string &more = "") {
        return "train --reproducible --holdout 5 --seed 7 @data -o @" + output + " --iterations " +
               std::to_string(iterations) + " " + more;
    }

    // In this process, so that the schedule can be chosen.
    int train_here(const std::string &line, int schedule) const {
        std::vector<std::string> copy = words(line);
        std::vector<char *> argv;
        for (std::string &argument : copy) argv.push_back(argument.data());
        testing::internal::CaptureStdout();
#ifdef DISTWAR_SIMT
        simt_set_seed(uint64_t(schedule));
#else
        (void)schedule;
#endif
        const int code = train_command(int(argv.size()), argv.data());
#ifdef DISTWAR_SIMT
        simt_set_seed(0);
#endif
        testing::internal::GetCapturedStdout();
        return code;
    }

    double seconds_of(const std::string &line) const {
        const auto began = std::chrono::steady_clock::now();
        done(line);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    }

    static int wait_for(pid_t child) {
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        return status;
    }
};

void pause_for(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Everything that draws, sums or moves: all ways of density control, antialiasing, corrected colours, poses, depth.
const char *const ways[] = {
    "",
    "--density adaptive --schedule from=1,every=4,until=11 --antialias",
    "--density mcmc --max-gaussians 60 --schedule from=1,every=4 --random 40",
    "--density split --max-gaussians 60 --schedule from=1,every=4 --random 40",
    "--refine-poses --perturb-poses 1,0.01",
    "--schedule average=1,until=2,dropout=0", // iterations 5 and 10
    "--depth @depth --depth-weight 0.5",
};

TEST_F(Reproducible, GivesTheSameBytesUnderEverySchedule) {
    write_colmap(at("data"), 30);
    write_depth_maps(at("data"), at("depth"));
    for (const char *way : ways) {
        std::string first;
        for (int schedule = 0; schedule < 2; schedule++) {
            ASSERT_EQ(train_here(run_of("scene.ply", 9, way), schedule), 0);
            const std::string scene = contents(at("scene.ply"));
            ASSERT_GT(scene.size(), 20 * 200u) << "too few Gaussians to show anything";
            if (schedule == 0) first = scene;
            EXPECT_TRUE(scene == first) << "schedule " << schedule;
        }
    }
}

#ifdef DISTWAR_SIMT
TEST_F(Reproducible, IsNotSoByItself) {
    write_colmap(at("data"), 30);
    std::string first;
    bool differs = false;
    for (int schedule = 0; schedule < 4 && !differs; schedule++) {
        ASSERT_EQ(train_here("train @data -o @scene.ply --iterations 6 --reduce atomic", schedule), 0);
        const std::string scene = contents(at("scene.ply"));
        if (schedule == 0) first = scene;
        differs = differs || scene != first;
    }
    EXPECT_TRUE(differs) << "the schedules make no difference, so the test above shows nothing";
}
#endif

TEST_F(Reproducible, AResumedRunEndsAsIfItHadNotBeenInterrupted) {
    write_colmap(at("data"), 30);
    write_depth_maps(at("data"), at("depth"));
    for (const std::string way : ways) {
        const std::string saving = way + " --checkpoint-every 7";
        ASSERT_EQ(train_here(run_of("whole.ply", 12, saving), 0), 0);
        fs::rename(at("whole.ply.checkpoint"),
                   at("saved")); // of iteration 7, before density control acts again
        ASSERT_EQ(train_here(run_of("resumed.ply", 12, saving + " --resume @saved"), 0), 0);
        EXPECT_TRUE(contents(at("whole.ply")) == contents(at("resumed.ply")));
        EXPECT_GT(fs::file_size(at("whole.ply")), 20 * 200u) << "too few Gaussians to show anything";
        fs::remove(at("saved"));
    }
    // At its end.
    ASSERT_EQ(train_here(run_of("whole.ply", 6, "--checkpoint-every 6"), 0), 0);
    ASSERT_EQ(train_here(run_of("resumed.ply", 6, "--resume @whole.ply.checkpoint"), 0), 0);
    EXPECT_TRUE(contents(at("whole.ply")) == contents(at("resumed.ply")));
}

TEST_F(Reproducible, SignalsSaveAndEndIt) {
    write_colmap(at("data"), 30);
    const fs::path saved = at("scene.ply.checkpoint");
    for (const int signal : {SIGINT, SIGTERM}) {
        // So long that it must be the signal that ends it; the first checkpoint says that training is on.
        fs::remove(saved);
        const pid_t child = background(run_of("scene.ply", 1000000, "--checkpoint-every 1"));
        for (int n = 0; n < 3000 && !fs::exists(saved); n++) pause_for(0.01);
        kill(child, signal);
        const int status = wait_for(child);
        ASSERT_TRUE(WIFEXITED(status)) << status;
        EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
        EXPECT_CONTAINS(contents(at("err")), "--resume " + saved.string());
        EXPECT_TRUE(fs::exists(saved));
        EXPECT_TRUE(fs::exists(at("scene.ply"))) << "what there is";
        fs::remove(at("scene.ply"));
    }
}

// Killed wherever it may be: loading, training, writing a checkpoint or the scene.
TEST_F(Reproducible, SurvivesTwentyKills) {
    write_colmap(at("data"), 12);
    const fs::path saved = at("killed.ply.checkpoint");
    const int iterations = 90;
    const std::string way = "--density adaptive --schedule from=10,every=20 --sh-degree 0";
    const double whole = seconds_of(run_of("whole.ply", iterations, way));
    std::ofstream(at("killed.ply.checkpoint.part-1-0")) << "as if killed while it wrote the checkpoint";
    // What a run takes before its first step: as long as one that has nothing to do.
    const double begin = seconds_of(run_of("short.ply", 1));
    std::mt19937 random(11);
    int killed = 0, resumed = 0;
    for (int attempt = 0; attempt < 1000; attempt++) {
        const bool resumes = fs::exists(saved);
        resumed += resumes;
        const pid_t child = background(
            run_of("killed.ply", iterations,
                   way + " --checkpoint-every 3" + (resumes ? " --resume @killed.ply.checkpoint" : "")));
        if (killed < 20) {
            pause_for((begin + (whole - begin) / 10) * (random() % 1000) / 1000);
            kill(child, SIGKILL);
        }
        const int status = wait_for(child);
        if (WIFSIGNALED(status)) {
            killed++;
            continue;
        }
        ASSERT_EQ(WEXITSTATUS(status), 0) << contents(at("err"));
        if (killed == 20) break;
        fs::remove(saved); // it was quicker than its killer: once more from the start
    }
    EXPECT_EQ(killed, 20);
    EXPECT_GT(resumed, 0);
    ASSERT_TRUE(fs::exists(at("killed.ply")));
    EXPECT_TRUE(contents(at("whole.ply")) == contents(at("killed.ply")));
    EXPECT_GT(fs::file_size(at("whole.ply")), 12 * 60u) << "too few Gaussians to show anything";
    // The last run has removed what those before it had half written.
    for (const auto &file : fs::directory_iterator(folder))
        EXPECT_EQ(file.path().filename().string().find(".part-"), std::string::npos) << file.path();
}

// With a sum that is right: only then are its numbers looked at.
TEST_F(Reproducible, AForgedCheckpointIsRefused) {
    write_colmap(at("data"), 12);
    ASSERT_EQ(train_here(run_of("scene.ply", 2, "--checkpoint-every 2"), 0), 0);
    struct {
        char before[24]; // magic, version, bytes of settings, bytes of the file
        int64_t count, exposures, poses, averaged;
        run_place place;
    } header;
    const std::string saved = contents(at("scene.ply.checkpoint"));
    memcpy(&header, saved.data(), sizeof header);
    ASSERT_EQ(header.place.views, 2);
    ASSERT_EQ(header.exposures, photos - 1);
    // Resumes from this header and what follows it, with the right size and checksum.
    const auto resumed_from = [&](auto changed, std::string bytes) {
        const uint64_t size = bytes.size() + 4;
        memcpy(changed.before + 16, &size, sizeof size);
        memcpy(bytes.data(), &changed, sizeof changed);
        const uint32_t sum =
            uint32_t(crc32(0, reinterpret_cast<const Bytef *>(bytes.data()), uInt(bytes.size())));
        bytes.append(reinterpret_cast<const char *>(&sum), sizeof sum);
        std::ofstream(at("forged"), std::ios::binary) << bytes;
        return dsplat(run_of("scene.ply", 2, "--resume @forged"));
    };
    const std::string unsummed = saved.substr(0, saved.size() - 4);
    const std::string counts = "no run with these options has its counts",
                      inconsistent = "its header is inconsistent",
                      average(size_t(header.count) * 59 * sizeof(float), '\0');
    const size_t end_of_sets = unsummed.size() - size_t(header.count) * 2 * sizeof(float);
    const int64_t gains = GS_EXPOSURE_VALUES * int64_t(sizeof(float)), views = photos - 1;
    const struct {
        int64_t iteration, exposures, poses, averaged;
        std::string text; // "": it is resumed
    } cases[] = {
        {2, views, 0, 0, ""},
        {2, views, 1, 0, counts},       // poses of which the options know nothing
        {2, views, 0, 3, inconsistent}, // parameters in an average as no run has after two iterations
        {0, 1, 0, 0, ""},
        {0, 0, 0, 0, ""},
        {0, photos, 0, 0, ""},
        {3, views, 0, 0, ""},
        {INT64_MAX, views, 0, 0, ""}};
    for (const auto &c : cases) {
        auto changed = header;
        changed.place.views = c.iteration, changed.exposures = c.exposures;
        changed.poses = c.poses, changed.averaged = c.averaged;
        std::string bytes = unsummed;
        if (c.averaged > 0) bytes.insert(end_of_sets, average);
        bytes.resize(size_t(int64_t(bytes.size()) + (c.exposures - views) * gains) +
                     size_t(c.poses) * sizeof(refined_pose));
        const outcome run = resumed_from(changed, bytes);
        const bool good = c.iteration == 2 && c.text.empty();
        EXPECT_EQ(run.code, good ? 0 : 1) << c.iteration << " " << c.exposures;
        if (!good) {
            EXPECT_CONTAINS(run.err, "forged: damaged: " + c.text);
        }
    }
}

TEST_F(Reproducible, WhatContradictsItIsAWrongCommandLine) {
    refuses({{run_of("scene.ply", 4, "--reduce atomic"), 2, "--reproducible"},
             {run_of("scene.ply", 4, "--budget 3"), 2, "--reproducible"}});
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
    image dark;
    fault why;
    const std::string name = (at("data") / "images/photo1.png").string();
    ASSERT_TRUE(image_read(name.c_str(), &dark, &why)) << why.text;
    for (int i = 0; i < 3 * dark.width * dark.height; i++) dark.pixels[i] = uint8_t(dark.pixels[i] / 2);
    ASSERT_TRUE(image_write_png(name.c_str(), &dark, &why)) << why.text;
    image_close(&dark);
    const std::string out =
        done("train @data -o @scene.ply --iterations 150 --holdout 0 --sh-degree 0 --density none").out;
    EXPECT_GT(std::stod(out.substr(out.find("photographs differ by ") + 22)), 5) << out;
}

} // namespace
