// SPDX-License-Identifier: MIT
// splat train --gpus: the same scene file on any number of ranks, as threads and as processes; failures.
#include "depth_data.h"
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <thread>
#include <netinet/in.h>
#include <sys/socket.h>

namespace {

class Gpus : public Program {
  protected:
    std::vector<std::string> train(const char *output, int gpus,
                                   const std::vector<std::string> &more = {}) const {
        std::vector<std::string> arguments = {"train",        at("data").string(),
                                              "-o",           at(output).string(),
                                              "--gpus",       std::to_string(gpus),
                                              "--iterations", "12",
                                              "--holdout",    "5",
                                              "--seed",       "7"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    std::string scene_of(int gpus, const std::vector<std::string> &more) const {
        const outcome got = run(SPLAT_PROGRAM, train("scene.ply", gpus, more));
        EXPECT_EQ(got.code, 0) << got.err;
        EXPECT_NE(got.out.find("scene "), std::string::npos) << got.out;
        return contents(at("scene.ply"));
    }
};

// Growth from 40 to 60, relocation, noise, penalties; with a view a step, an average from step 10.
const std::vector<std::string> growing = {
    "--density",       "mcmc", "--max-gaussians", "60",  "--density-from", "1",
    "--density-every", "4",    "--growth",        "0.2", "--random",       "40",
    "--average",       "1",    "--density-until", "9",   "--reproducible"};

#ifdef DISTWAR_SIMT
TEST_F(Gpus, GiveTheSameSceneWhateverTheirNumber) {
    write_colmap(at("data"), 30);
    for (const char *batch : {"1", "3"}) {
        std::vector<std::string> options = growing;
        options.insert(options.end(), {"--batch", batch});
        const std::string first = scene_of(1, options);
        std::vector<std::string> without = options;
        without.insert(without.end(), {"--average", "0"});
        EXPECT_EQ(scene_of(1, without) == first, std::string(batch) == "3")
            << "the average is that of step 10";
        ASSERT_GT(first.size(), 50 * 200u) << "it has not grown";
        for (const int gpus : {2, 3, 4})
            EXPECT_TRUE(scene_of(gpus, options) == first) << gpus << ", batch " << batch;
        options.insert(options.end(), {"--nccl", FAKE_NCCL});
        EXPECT_TRUE(scene_of(2, options) == first) << "2 processes, batch " << batch;
    }
}

// Both trainers: learning rates, penalties, noise and steps of Adam with several views. Without relocation, which draws
// other Gaussians after other rounding. 12 views are whole steps; one GPU without ranks may end with a smaller one.
TEST_F(Gpus, RanksAndOneGpuWithoutAgreeOnSteps) {
    write_colmap(at("data"), 30);
    for (const char *batch : {"1", "3"}) {
        const std::vector<std::string> options = {"--density",       "mcmc", "--density-from", "100",
                                                  "--density-until", "7",    "--random",       "40",
                                                  "--batch",         batch};
        gs_gaussians scenes[2];
        for (const int gpus : {0, 1}) {
            scene_of(gpus, options);
            fault why;
            ASSERT_TRUE(scene_read(at("scene.ply").c_str(), SCENE_FINITE, &scenes[gpus], &why)) << why.text;
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

TEST_F(Gpus, ARankThatDiesEndsTheRun) {
    write_colmap(at("data"), 30);
    setenv("FAKE_NCCL_DIES", "1", 1);
    const outcome got = run(SPLAT_PROGRAM, train("scene.ply", 3, {"--nccl", FAKE_NCCL}));
    unsetenv("FAKE_NCCL_DIES");
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "splat: rank 1: was ended by signal 9 (Killed)\n");
    EXPECT_FALSE(fs::exists(at("scene.ply")));
}

// Ranks that a launcher has started, each as if alone on its host.
class Hosts : public Gpus {
  protected:
    std::map<int, pid_t> started;

    // Numbers are ranks.
    void start(int rank, int count, int port, const std::vector<std::string> &arguments) {
        const pid_t pid = fork();
        started[rank] = pid;
        if (pid > 0) return;
        setenv("RANK", std::to_string(rank).c_str(), 1);
        setenv("WORLD_SIZE", std::to_string(count).c_str(), 1);
        setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
        dup2(creat((folder / ("out" + std::to_string(rank))).c_str(), 0600), STDOUT_FILENO);
        dup2(creat((folder / ("err" + std::to_string(rank))).c_str(), 0600), STDERR_FILENO);
        std::vector<std::string> words = arguments;
        words.insert(words.begin(), "splat");
        std::vector<char *> argv;
        for (std::string &word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        alarm(100); // what hangs shall fail
        execv(SPLAT_PROGRAM, argv.data());
        _exit(127);
    }
    outcome end_of(int rank) const {
        int status = 0;
        EXPECT_EQ(waitpid(started.at(rank), &status, 0), started.at(rank));
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
                contents(folder / ("out" + std::to_string(rank))),
                contents(folder / ("err" + std::to_string(rank)))};
    }
    static int free_port() {
        const int s = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at = {};
        at.sin_family = AF_INET, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        EXPECT_EQ(bind(s, reinterpret_cast<sockaddr *>(&at), size), 0);
        getsockname(s, reinterpret_cast<sockaddr *>(&at), &size);
        close(s);
        return ntohs(at.sin_port);
    }
    std::vector<std::string> launched(const char *output, const std::vector<std::string> &more) const {
        std::vector<std::string> arguments = train(output, 0, more);
        arguments.insert(arguments.end(), {"--nccl", FAKE_NCCL});
        return arguments;
    }
};

TEST_F(Hosts, GiveTheSceneOfTheGpusOfOne) {
    write_colmap(at("data"), 30);
    std::vector<std::string> options = growing;
    options.insert(options.end(), {"--batch", "2"});
    const std::string expected = scene_of(2, options);
    for (const int count : {2, 3}) {
        const int port = free_port();
        for (int r = 0; r < count; r++) start(r, count, port, launched("hosts.ply", options));
        for (int r = 0; r < count; r++) {
            const outcome got = end_of(r);
            EXPECT_EQ(got.code, 0) << got.err;
            EXPECT_EQ(got.out.empty(), r > 0) << got.out; // rank 0 alone tells
            EXPECT_EQ(got.err, "");
        }
        EXPECT_TRUE(contents(at("hosts.ply")) == expected) << count;
        fs::remove(at("hosts.ply"));
    }
}

TEST_F(Hosts, OneThatIsKilledAtAnyMomentEndsTheRunAndLeavesTheFiles) {
    write_colmap(at("data"), 30);
    std::mt19937 random(3);
    for (int run = 0; run < 5; run++) {
        std::ofstream(at("scene.ply")) << "of an earlier run";
        const int killed = int(random() % 3), port = free_port();
        for (int r = 0; r < 3; r++) start(r, 3, port, launched("scene.ply", {"--iterations", "1000000"}));
        std::this_thread::sleep_for(std::chrono::milliseconds(600 + random() % 300)); // all have come
        const auto begin = std::chrono::steady_clock::now();
        kill(started[killed], SIGKILL);
        std::string told;
        for (int r = 0; r < 3; r++) {
            const outcome got = end_of(r);
            EXPECT_EQ(got.code, r == killed ? -SIGKILL : 1);
            EXPECT_EQ(got.out, "");
            told += got.err;
        }
        EXPECT_EQ(told, "splat: rank " + std::to_string(killed) +
                            ": its connection has closed: it or its host has ended\n");
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
        EXPECT_EQ(contents(at("scene.ply")), "of an earlier run");
    }
}

TEST_F(Hosts, OtherOptionsAreRefused) {
    write_colmap(at("data"), 30);
    const int port = free_port();
    start(0, 2, port, launched("scene.ply", {"--sh-degree", "1"}));
    start(1, 2, port, launched("scene.ply", {"--sh-degree", "2"}));
    std::string told;
    for (int r = 0; r < 2; r++) {
        const outcome got = end_of(r);
        EXPECT_EQ(got.code, 1);
        told += got.err;
    }
    EXPECT_EQ(told, "splat: rank 1: was started with other arguments than rank 0, or is another version\n");
}

TEST_F(Hosts, AnEnvironmentThatCannotBeIsRefused) {
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "2", 1);
    const outcome wrong = run(SPLAT_PROGRAM, train("scene.ply", 0));
    setenv("RANK", "1", 1);
    setenv("MASTER_ADDR", "localhost", 1);
    const outcome both = run(SPLAT_PROGRAM, train("scene.ply", 2));
    for (const char *name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) unsetenv(name);
    EXPECT_EQ(wrong.code, 2);
    EXPECT_CONTAINS(wrong.err, "RANK=2 in the environment: must be a number from 0 to 1");
    EXPECT_EQ(both.code, 2);
    EXPECT_CONTAINS(both.err, "--gpus starts processes, and this is one of 2 that a launcher has started");
}

// The second photograph has another size, and a camera of its own.
void write_two_sizes(const fs::path &folder) {
    const int taller = photo_height + 4;
    write_colmap(folder, 30);
    bytes(folder / "sparse/0/cameras.bin")
        << uint64_t(2) << uint32_t(1) << int32_t(1) << uint64_t(photo_width) << uint64_t(photo_height) << 36.0
        << 36.0 << photo_width / 2.0 << photo_height / 2.0 << uint32_t(2) << int32_t(1)
        << uint64_t(photo_width) << uint64_t(taller) << 36.0 << 36.0 << photo_width / 2.0 << taller / 2.0;
    std::fstream images(folder / "sparse/0/images.bin", std::ios::in | std::ios::out | std::ios::binary);
    constexpr int before_camera = 4 + 7 * 8, record = before_camera + 4 + sizeof "photo0.png" + 8;
    const uint32_t camera = 2;
    images.seekp(8 + record + before_camera);
    images.write(reinterpret_cast<const char *>(&camera), sizeof camera);
    image picture;
    fault why;
    ASSERT_TRUE(image_open(&picture, photo_width, taller, 3, &why)) << why.text;
    ASSERT_TRUE(image_write_png((folder / "images/photo1.png").c_str(), &picture, &why)) << why.text;
    image_close(&picture);
}

TEST_F(Gpus, BadDataIsSaidOnce) {
    outcome got = run(SPLAT_PROGRAM, train("scene.ply", 1));
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err,
              "splat: rank 0: " + at("data").string() + ": cannot open: No such file or directory\n");
    write_two_sizes(at("data"));
    got = run(SPLAT_PROGRAM, train("scene.ply", 1, {"--batch", "2"}));
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "splat: rank 0: --batch with --gpus needs pictures of one size\n");
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
        {{"--exposure"}, "--exposure"},
        {{"--random-background"}, "--random-background"},
        {{"--refine-poses"}, "--refine-poses"},
        {{"--checkpoint-every", "3"}, "--checkpoint-every"},
        {{"--log", "x.jsonl"}, "--log"},
        {{"--seconds", "3"}, "--seconds"},
        {{"--resolutions", "2:50"}, "--resolutions"},
        {{"--finish", "lm"}, "--finish"},
        {{"--density", "adaptive"}, "--density adaptive"},
        {{"--density", "split"}, "--density split"}};
    for (const auto &[options, name] : cases) {
        const outcome got = run(SPLAT_PROGRAM, train("scene.ply", 2, options));
        EXPECT_EQ(got.code, 2);
        EXPECT_NE(got.err.find("--gpus excludes " + name + ";"), std::string::npos) << got.err;
    }
    const outcome got = run(SPLAT_PROGRAM, train("scene.ply", 0, {"--nccl", "2"}));
    EXPECT_EQ(got.code, 2);
    EXPECT_NE(got.err.find("--nccl needs --gpus"), std::string::npos) << got.err;
}

} // namespace
