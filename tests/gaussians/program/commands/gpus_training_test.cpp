// SPDX-License-Identifier: MIT
// Training on ranks from the start to the files: the same bits on any number of ranks, checkpoints, signals, kills,
// what is said of held-out views.
#include "gpus_run.h"
#include "density.h"
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using GpuTraining = OnGpus;

#ifdef DISTWAR_SIMT
TEST_F(GpuTraining, GiveTheSameSceneWhateverTheirNumber) {
    write_colmap(at("data"), 30);
    for (const auto &way : {growing, splitting})
        for (const char *batch : {"1", "3"}) {
            const std::vector<std::string> options = with(way, {"--batch", batch});
            const std::string first = scene_of(1, options);
            ASSERT_GT(first.size(), 150 * 248u) << "it has not grown";
            for (const int gpus : {2, 3, 4})
                EXPECT_TRUE(scene_of(gpus, options) == first) << gpus << ", batch " << batch;
            EXPECT_TRUE(scene_of(2, with(options, {"--nccl", FAKE_NCCL})) == first)
                << "2 processes, batch " << batch;
        }
}

// Every option that adds to the loss or to what is trained, with checkpoints that another number of ranks goes on from.
TEST_F(GpuTraining, EveryTermIsTheSameWhateverTheirNumber) {
    write_colmap(at("data"), 30);
    const std::vector<std::vector<std::string>> ways = {
        {"--random-background", "--batch", "3"},
        {"--density", "mcmc", "--retire", "0.5", "--schedule",
         "from=1,until=9,every=4,average=1,retire=4,dropout=0.3", "--batch", "1"}};
    for (const auto &more : ways) {
        const std::vector<std::string> options = with(splitting, more);
        const std::string first = scene_of(1, options);
        ASSERT_GT(first.size(), 150 * 248u) << "it has not grown";
        EXPECT_TRUE(scene_of(2, options) == first) << more[0];
        const std::vector<std::string> saving = with(options, {"--checkpoint-every", "5"});
        EXPECT_TRUE(scene_of(3, saving) == first) << more[0];
        EXPECT_TRUE(scene_of(4, with(saving, {"--resume", checkpoint()})) == first) << more[0];
    }
}

// Backgrounds are drawn, and what contributes least makes room for others.
TEST_F(GpuTraining, DrawBackgroundsAndRetireAlike) {
    write_colmap(at("data"), 30);
    for (const auto &way : {growing, splitting}) {
        const std::vector<std::string> options =
            with(with(way, retiring), {"--batch", "2", "--random-background"});
        const std::string first = scene_of(1, options);
        EXPECT_FALSE(first == scene_of(1, with(way, {"--batch", "2", "--random-background"})));
        for (const int gpus : {2, 3}) EXPECT_TRUE(scene_of(gpus, options) == first) << gpus;
    }
}

// Rank 0's clock counts for all.
TEST_F(GpuTraining, KeepToABudget) {
    write_colmap(at("data"), 30);
    const outcome got = run(DSPLAT_PROGRAM, {"train", at("data").string(), "-o", at("scene.ply").string(),
                                             "--gpus", "2", "--budget", "2s", "--sh-degree", "0"});
    ASSERT_EQ(got.code, 0) << got.err;
    double seconds = 0;
    const size_t line = got.out.find("training ");
    ASSERT_NE(line, std::string::npos) << got.out;
    ASSERT_EQ(sscanf(got.out.c_str() + line, "training %*d iterations in %lf s", &seconds), 1) << got.out;
#ifdef DISTWAR_SANITIZE // a step takes long
    EXPECT_NEAR(seconds, 2, 1);
#else
    EXPECT_NEAR(seconds, 2, 0.5);
#endif
}

// Pictures of two sizes, the smaller made as large as the larger, and at first a quarter or half as large.
TEST_F(GpuTraining, TakePicturesOfSeveralSizesSmallOnesFirst) {
    write_two_sizes(at("data"));
    for (const char *batch : {"1", "3"}) {
        const std::vector<std::string> options = with(splitting, {"--batch", batch});
        const std::string first = scene_of(1, options);
        for (const int gpus : {2, 3})
            EXPECT_TRUE(scene_of(gpus, options) == first) << gpus << ", batch " << batch;
    }
    const outcome made = run(DSPLAT_PROGRAM, {"generate", at("large").string(), "--views", "4",
                                              "--test-views", "1", "--size", "128", "--gaussians", "1000"});
    ASSERT_EQ(made.code, 0) << made.err;
    const auto small = [&](int gpus, const char *sizes) {
        const outcome got =
            run(DSPLAT_PROGRAM, {"train", at("large").string(), "-o", at("scene.ply").string(), "--gpus",
                                 std::to_string(gpus), "--iterations", "8", "--sh-degree", "0", "--random",
                                 "200", "--reproducible", "--resolutions", sizes});
        EXPECT_EQ(got.code, 0) << got.err;
        return contents(at("scene.ply"));
    };
    const std::string first = small(1, "2:50:2");
    EXPECT_FALSE(first == small(1, "none"));
    for (const int gpus : {2, 3}) EXPECT_TRUE(small(gpus, "2:50:2") == first) << gpus;
}

// None must be one that does nothing on ranks.
TEST_F(GpuTraining, EveryDensityControlIsTheSame) {
    write_colmap(at("data"), 30);
    const size_t least = scene_of(1, with(growth, {"--density", "none"})).size();
    for (int kind = 0; kind < DENSITY_KINDS; kind++) {
        if (kind == DENSITY_ADAPTIVE) continue; // refused
        const char *const name = density_method_of(kind)->name;
        const std::vector<std::string> options = with(growth, {"--density", name, "--batch", "3"});
        const std::string scene = scene_of(2, options);
        EXPECT_TRUE(scene_of(1, options) == scene) << name;
        EXPECT_EQ(scene.size() != least, kind != DENSITY_NONE) << name << " adds or removes some";
    }
}

// The options with memory for one photograph: too little is refused with a number of MB.
static std::vector<std::string>
with_little_memory(const std::function<outcome(std::vector<std::string>)> &train,
                   std::vector<std::string> options) {
    const outcome refused = train(with(options, {"--memory", "0.001"}));
    double least = NAN;
    const size_t text = refused.err.find(" take ");
    EXPECT_EQ(refused.code, 1) << refused.err;
    if (text != std::string::npos) sscanf(refused.err.c_str() + text, " take %lf MB", &least);
    EXPECT_GT(least, 0) << refused.err;
    return with(options, {"--memory", std::to_string(least + 0.004)});
}

// Photographs that come and go, also where a GPU has no more memory than training may take.
TEST_F(GpuTraining, KeepsToTheMemoryThatItMayTake) {
    write_colmap(at("data"), 30);
    for (const int gpus : {1, 2})
        for (const char *batch : {"1", "3"}) {
            const std::vector<std::string> options = with(splitting, {"--batch", batch});
            const auto train_so = [&](const std::vector<std::string> &with_options) {
                return run(DSPLAT_PROGRAM, train("scene.ply", gpus, with_options));
            };
            const std::vector<std::string> little = with_little_memory(train_so, options);
            if (gpus == 1) setenv("SIMT_MEMORY", little.back().c_str(), 1); // ranks share this GPU
            const std::string scene = scene_of(gpus, little);
            unsetenv("SIMT_MEMORY");
            EXPECT_TRUE(scene == scene_of(gpus, options));
        }
    // The number is what training takes: seven tenths of it do not suffice.
    for (const char *batch : {"1", "3"}) {
        const auto train_so = [&](const std::vector<std::string> &with_options) {
            return run(DSPLAT_PROGRAM, train("scene.ply", 1, with_options));
        };
        const std::vector<std::string> little = with_little_memory(
            train_so, with(splitting, {"--batch", batch, "--random", "3000", "--max-gaussians", "4000"}));
        setenv("SIMT_MEMORY", little.back().c_str(), 1);
        EXPECT_EQ(train_so(little).code, 0) << little.back();
        setenv("SIMT_MEMORY", std::to_string(0.7 * std::stod(little.back())).c_str(), 1);
        EXPECT_EQ(train_so(little).code, 1) << little.back();
        unsetenv("SIMT_MEMORY");
    }
    setenv("SIMT_MEMORY", "0.15", 1);
    const outcome full = run(DSPLAT_PROGRAM, train("scene.ply", 1, splitting));
    unsetenv("SIMT_MEMORY");
    EXPECT_EQ(full.code, 1);
    EXPECT_NE(full.err.find("no memory for"), std::string::npos) << full.err;
    EXPECT_NE(full.out.find("MB that are free: --max-gaussians "), std::string::npos) << full.out;
}

// 60 photographs of 30 kB, on a GPU that has 1 MB for them.
TEST_F(GpuTraining, UploadsPhotographsByStepsWhereItDoesNotHoldAll) {
    ASSERT_EQ(run(DSPLAT_PROGRAM, {"generate", at("data").string(), "--views", "60", "--test-views", "1",
                                   "--size", "100", "--gaussians", "1000"})
                  .code,
              0);
    const auto train_so = [&](const std::vector<std::string> &options) {
        return run(DSPLAT_PROGRAM, train("scene.ply", 1, options));
    };
    const std::vector<std::string> options =
        words("--random 100 --max-gaussians 100 --density none --batch 1 --reproducible");
    const std::string scene = scene_of(1, options);
    setenv("SIMT_MEMORY", std::to_string(std::stod(with_little_memory(train_so, options).back()) + 1).c_str(),
           1);
    const outcome by_steps = train_so(options);
    unsetenv("SIMT_MEMORY");
    ASSERT_EQ(by_steps.code, 0) << by_steps.err;
    EXPECT_CONTAINS(by_steps.out, "photographs are uploaded when a step needs them");
    EXPECT_TRUE(contents(at("scene.ply")) == scene);
}

// As without --gpus, but for the order of sums.
TEST_F(GpuTraining, ChooseTheSameDensityControl) {
    write_colmap(at("data"), 30);
    const std::vector<std::string> early = {"--schedule", "from=1,every=4"};
    ASSERT_EQ(run(DSPLAT_PROGRAM, train("alone.ply", 1, early)).code, 0);
    EXPECT_EQ(fs::file_size(at("alone.ply")), scene_of(2, early).size());
}

TEST_F(GpuTraining, AResumedRunEndsAsIfItHadNotBeenInterrupted) {
    write_colmap(at("data"), 30);
    const struct {
        std::vector<std::string> way;
        const char *batch, *every;
        int gpus, then;
    } cases[] = {{growing, "1", "7", 2, 3},
                 {splitting, "1", "7", 2, 3},
                 {splitting, "1", "7", 3, 1},
                 {splitting, "3", "5", 4, 2},
                 {growing, "3", "5", 1, 4}};
    for (const auto &c : cases) {
        const std::vector<std::string> options = with(c.way, {"--batch", c.batch});
        const std::string whole = scene_of(1, options);
        EXPECT_GT(whole.size(), 34000u) << "it has not grown from 130 rows of 248 bytes";
        const std::vector<std::string> saving = with(options, {"--checkpoint-every", c.every});
        EXPECT_TRUE(scene_of(c.gpus, saving) == whole) << "it saves";
        ASSERT_TRUE(fs::exists(checkpoint()));
        for (const auto &file : fs::directory_iterator(folder))
            EXPECT_NE(file.path().filename().string().find("scene.ply.checkpoint."), 0u)
                << "one file: " << file.path();
        EXPECT_TRUE(scene_of(c.then, with(saving, {"--resume", checkpoint()})) == whole)
            << c.gpus << " then " << c.then << ", batch " << c.batch;
        fs::remove(checkpoint());
    }
}

// Each rank checks the file that it reads, and one message tells.
TEST_F(GpuTraining, WhatIsNoCheckpointOfTheRunIsRefused) {
    write_colmap(at("data"), 30);
    const auto resumed = [&](const char *file, int gpus) {
        return run(DSPLAT_PROGRAM,
                   train("scene.ply", gpus, with(splitting, {"--resume", at(file).string()})));
    };
    const auto put = [&](const char *file, const std::string &bytes) {
        std::ofstream(at(file), std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
    };
    scene_of(2, with(splitting, {"--seed", "5", "--checkpoint-every", "7"}));
    fs::rename(checkpoint(), at("other"));
    scene_of(2, with(splitting, {"--checkpoint-every", "7"}));
    fs::rename(checkpoint(), at("saved"));
    const std::string file = contents(at("saved"));
    ASSERT_EQ(resumed("saved", 3).code, 0);
    put("short", file.substr(0, file.size() / 2));
    std::string changed = file;
    changed[file.size() - 1000] ^= 4;
    put("changed", changed);
    put("saved.a0", "SPLATROW" + std::string(1000, '\0')); // what earlier versions wrote on several GPUs
    put("text", std::string(1000, 'x'));
    const struct {
        const char *name, *says;
    } rows[] = {{"short", "short: truncated or damaged"},
                {"changed", "changed: damaged: its checksum is "},
                {"saved.a0", "saved.a0: a part of a checkpoint that an earlier dsplat wrote on several GPUs"},
                {"text", "text: not a checkpoint of dsplat train"},
                {"nothing", "nothing: cannot open"},
                {"other", "written by a run with --seed 5; this run has --seed 7"}};
    for (const auto &row : rows) {
        const outcome got = resumed(row.name, 2);
        EXPECT_EQ(got.code, 1) << row.name;
        EXPECT_NE(got.err.find(row.says), std::string::npos) << "no '" << row.says << "' in: " << got.err;
    }
}

class Killed : public OnGpus {
  protected:
    // In a group of its own, so that all of its processes can be killed.
    pid_t start(std::vector<std::string> arguments) const {
        arguments.insert(arguments.begin(), DSPLAT_PROGRAM);
        std::vector<char *> argv;
        for (std::string &argument : arguments) argv.push_back(argument.data());
        argv.push_back(nullptr);
        const pid_t child = fork();
        if (child == 0) {
            setpgid(0, 0);
            dup2(creat(at("stdout").c_str(), 0600), STDOUT_FILENO);
            dup2(creat(at("stderr").c_str(), 0600), STDERR_FILENO);
            alarm(300);
            execv(DSPLAT_PROGRAM, argv.data());
            _exit(127);
        }
        return child;
    }
    static int wait_for(pid_t child) {
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        return status;
    }
    static bool has_ended(pid_t child) { // wait_for still returns its status
        siginfo_t info = {};
        EXPECT_EQ(waitid(P_PID, id_t(child), &info, WEXITED | WNOHANG | WNOWAIT), 0);
        return info.si_pid == child;
    }
    static void pause_for(double seconds) {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
};

TEST_F(Killed, SignalsSaveAndEndIt) {
    write_colmap(at("data"), 30);
    for (const bool processes : {false, true})
        for (const int signal : {SIGINT, SIGTERM}) {
            const std::vector<std::string> kind =
                processes ? std::vector<std::string>{"--nccl", FAKE_NCCL} : std::vector<std::string>{};
            const pid_t child = start(
                train("scene.ply", 2, with(kind, {"--iterations", "1000000", "--checkpoint-every", "1"})));
            for (int n = 0; n < 3000 && !fs::exists(checkpoint()); n++) pause_for(0.01);
            kill(child, signal);
            const int status = wait_for(child);
            ASSERT_TRUE(WIFEXITED(status)) << status;
            EXPECT_EQ(WEXITSTATUS(status), 128 + signal) << contents(at("stderr"));
            EXPECT_NE(contents(at("stderr")).find("--resume " + checkpoint()), std::string::npos);
            EXPECT_TRUE(fs::exists(at("scene.ply"))) << "what there is";
            fs::remove(at("scene.ply"));
            fs::remove(checkpoint());
        }
}

// Killed wherever it may be, also between the files of a checkpoint.
TEST_F(Killed, TheLastCheckpointIsIntact) {
    write_colmap(at("data"), 20);
    const std::vector<std::string> options =
        with(splitting,
             {"--iterations", "36", "--sh-degree", "0", "--schedule", "from=1,until=30,every=4,average=1"});
    const std::string whole = scene_of(1, options);
    const std::vector<std::string> saving = with(options, {"--checkpoint-every", "1", "--nccl", FAKE_NCCL});
    const auto saved = [&] { // iterations
        const std::string file = fs::exists(checkpoint()) ? contents(checkpoint()) : "";
        int64_t iterations = 0;
        if (file.size() > 64) memcpy(&iterations, file.data() + 56, sizeof iterations); // of its place
        return iterations;
    };
    int kills = 0;
    for (int tries = 0; kills < 6 && tries < 18; tries++) {
        const int64_t before = saved();
        const pid_t child = start(train("scene.ply", 2 + kills % 2,
                                        before > 0 ? with(saving, {"--resume", checkpoint()}) : saving));
        for (int k = 0; k < 6000 && saved() < before + 1 + kills % 4 && !has_ended(child); k++)
            pause_for(0.005);
        pause_for(0.003 * kills);
        kill(-child, SIGKILL);
        const int status = wait_for(child);
        if (status == 0) { // on a busy machine it may end before this process runs again: from the start
            fs::remove(checkpoint());
            continue;
        }
        ASSERT_GT(saved(), before) << contents(at("stderr"));
        ASSERT_TRUE(WIFSIGNALED(status)) << contents(at("stderr"));
        kills++;
    }
    ASSERT_EQ(kills, 6);
    EXPECT_TRUE(scene_of(3, with(saving, {"--resume", checkpoint()})) == whole);
}

// The line of the held-out views, and that of `dsplat eval`.
TEST_F(GpuTraining, SayWhatTheHeldOutViewsAreLike) {
    write_colmap(at("data"), 30);
    std::string first;
    for (const int gpus : {1, 3}) {
        const outcome got =
            run(DSPLAT_PROGRAM,
                train("scene.ply", gpus,
                      with(growing, {"--holdout", "2", "--batch", "3", "--log", at("log").string(),
                                     "--report", at("report").string(), "--eval-every", "5",
                                     "--checkpoint-every", "6", "--write-cameras", at("cameras").string()})));
        ASSERT_EQ(got.code, 0) << got.err;
        const size_t place = got.out.find("held out   PSNR ");
        ASSERT_NE(place, std::string::npos) << got.out;
        const std::string line = got.out.substr(place, got.out.find('\n', place) - place);
        if (first.empty()) first = line;
        EXPECT_EQ(line, first);
        const outcome eval = run(DSPLAT_PROGRAM, {"eval", at("scene.ply").string(), "--cameras",
                                                  at("data").string(), "--holdout", "2"});
        ASSERT_EQ(eval.code, 0) << eval.err;
        std::istringstream mean(eval.out.substr(eval.out.find("mean")));
        std::string word, psnr, ssim;
        mean >> word >> psnr >> ssim;
        EXPECT_EQ(line, "held out   PSNR " + psnr + " dB, SSIM " + ssim);
        const std::string log = contents(at("log"));
        const auto lines = [&](const std::string &event) {
            size_t n = 0;
            for (size_t i = log.find("\"event\": \"" + event); i != std::string::npos;
                 i = log.find("\"event\": \"" + event, i + 1))
                n++;
            return n;
        };
        EXPECT_EQ(lines("start"), 1u) << log;
        EXPECT_EQ(lines("step"), 4u) << log;       // after each step of 3 views
        EXPECT_EQ(lines("evaluation"), 2u) << log; // after 6 and 12
        EXPECT_EQ(lines("checkpoint"), 2u) << log;
        EXPECT_EQ(lines("end"), 1u) << log;
        EXPECT_NE(contents(at("report") / "index.html").find("worst: "), std::string::npos);
        EXPECT_TRUE(fs::exists(at("cameras")));
    }
}
#endif

} // namespace
