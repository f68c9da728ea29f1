// SPDX-License-Identifier: MIT
// The program on ranks that a launcher has started. They use fake_nccl.c, so only simt has these tests.
#ifdef DISTWAR_SIMT
#include "gpus_run.h"
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <thread>
#include <netinet/in.h>
#include <sys/socket.h>

namespace {

// Ranks that a launcher has started, each as if alone on its host.
class Hosts : public OnGpus {
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
        words.insert(words.begin(), "dsplat");
        std::vector<char *> argv;
        for (std::string &word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        alarm(100); // what hangs shall fail
        execv(DSPLAT_PROGRAM, argv.data());
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
    const std::vector<std::string> options = {"--iterations", "1000000", "--checkpoint-every", "3"};
    std::mt19937 random(3);
    for (int run_number = 0; run_number < 5; run_number++) {
        fs::remove(at("scene.ply.checkpoint"));
        std::ofstream(at("scene.ply")) << "of an earlier run";
        const int killed = int(random() % 3), port = free_port();
        for (int r = 0; r < 3; r++) start(r, 3, port, launched("scene.ply", options));
        for (int k = 0; k < 3000 && !fs::exists(at("scene.ply.checkpoint")); k++)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300)); // it may be writing the next
        const auto begin = std::chrono::steady_clock::now();
        kill(started[killed], SIGKILL);
        EXPECT_EQ(end_of(killed).code, -SIGKILL);
        for (int r = 0; r < 3; r++) {
            if (r == killed) continue;
            const outcome got = end_of(r);
            EXPECT_EQ(got.code, 1);
            EXPECT_EQ(got.out.find("scene "), std::string::npos) << "only what is known at the start";
            EXPECT_EQ(got.err.find("dsplat: rank " + std::to_string(r) + ": "), 0u) << got.err;
            EXPECT_CONTAINS(got.err, ": remote process exited or there was a network error\n");
        }
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
        EXPECT_EQ(contents(at("scene.ply")), "of an earlier run");
        // On another number of ranks, for a moment.
        int64_t views;
        memcpy(&views, contents(checkpoint()).data() + 56, sizeof views); // of its place
        const outcome resumed =
            run(DSPLAT_PROGRAM,
                train("scene.ply", 2,
                      with(options, {"--resume", checkpoint(), "--iterations", std::to_string(views + 2)})));
        EXPECT_EQ(resumed.code, 0) << resumed.err;
    }
}

TEST_F(Hosts, OtherOptionsAreRefused) {
    write_colmap(at("data"), 30);
    const int port = free_port();
    start(0, 2, port, launched("scene.ply", {"--sh-degree", "1"}));
    start(1, 2, port, launched("scene.ply", {"--sh-degree", "2"}));
    for (int r = 0; r < 2; r++) {
        const outcome got = end_of(r);
        EXPECT_EQ(got.code, 1);
        EXPECT_EQ(got.err,
                  "dsplat: rank 1: was started with other arguments than rank 0, or is another version\n");
    }
}

TEST_F(Hosts, OtherDataAreRefused) {
    const fs::path home = fs::current_path();
    for (const int points : {30, 31}) write_colmap(at(std::to_string(points).c_str()) / "data", points);
    const int port = free_port();
    std::vector<std::string> arguments = launched("scene.ply", {});
    arguments[1] = "data"; // of each host's own
    for (const int r : {0, 1}) {
        fs::current_path(at(r == 0 ? "30" : "31"));
        start(r, 2, port, arguments);
    }
    fs::current_path(home);
    const outcome other = end_of(1), first = end_of(0);
    EXPECT_EQ(other.code, 1);
    EXPECT_EQ(
        other.err,
        "dsplat: rank 1: has other data than rank 0: the number, names or sizes of views, or the number "
        "of points or Gaussians\n");
    EXPECT_EQ(first.code, 1);
    EXPECT_EQ(first.err.find("dsplat: rank 0: "), 0u) << first.err;
}

TEST_F(Hosts, AnEnvironmentThatCannotBeIsRefused) {
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "2", 1);
    const outcome wrong = run(DSPLAT_PROGRAM, train("scene.ply", 0));
    setenv("RANK", "1", 1);
    setenv("MASTER_ADDR", "localhost", 1);
    const outcome both = run(DSPLAT_PROGRAM, train("scene.ply", 2));
    for (const char *name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) unsetenv(name);
    EXPECT_EQ(wrong.code, 2);
    EXPECT_CONTAINS(wrong.err, "RANK=2 in the environment: must be a number from 0 to 1");
    EXPECT_EQ(both.code, 2);
    EXPECT_CONTAINS(both.err,
                    "--gpus starts ranks of its own, and this is one of 2 that a launcher has started");
}

} // namespace
#endif
