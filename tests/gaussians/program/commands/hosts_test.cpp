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
    std::map<int, pid_t> pids;
    int port = 0;

    fs::path file(const char *name, int rank) const { return folder / (name + std::to_string(rank)); }
    void start(int rank, int count, const std::string &line) {
        if (rank == 0) port = free_port();
        std::vector<std::string> arguments = words(line + " --nccl " FAKE_NCCL);
        arguments.insert(arguments.begin(), DSPLAT_PROGRAM);
        const std::string own = std::to_string(rank);
        pids[rank] = started(arguments, file("out", rank), file("err", rank),
                             {{"RANK", own},
                              {"WORLD_SIZE", std::to_string(count)},
                              {"LOCAL_RANK", own},
                              {"MASTER_ADDR", "127.0.0.1"},
                              {"MASTER_PORT", std::to_string(port)}});
    }
    outcome end_of(int rank) const { return ended(pids.at(rank), file("out", rank), file("err", rank)); }
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
};

TEST_F(Hosts, GiveTheSceneOfTheGpusOfOne) {
    write_colmap(at("data"), 30);
    const std::string options = growing + " --batch 2", expected = scene_of(2, options);
    for (const int count : {2, 3}) {
        fs::remove(at("scene.ply"));
        for (int r = 0; r < count; r++) start(r, count, train(0, options));
        for (int r = 0; r < count; r++) {
            const outcome got = end_of(r);
            EXPECT_EQ(got.code, 0) << got.err;
            EXPECT_EQ(got.out.empty(), r > 0) << got.out; // rank 0 alone tells
            EXPECT_EQ(got.err, "");
        }
        EXPECT_TRUE(contents(at("scene.ply")) == expected) << count;
    }
}

TEST_F(Hosts, OneThatIsKilledAtAnyMomentEndsTheRunAndLeavesTheFiles) {
    write_colmap(at("data"), 30);
    const std::string options = "--iterations 1000000 --checkpoint-every 3";
    std::mt19937 random(3);
    for (int run_number = 0; run_number < 5; run_number++) {
        fs::remove(checkpoint());
        std::ofstream(at("scene.ply")) << "of an earlier run";
        const int killed = int(random() % 3);
        for (int r = 0; r < 3; r++) start(r, 3, train(0, options));
        for (int k = 0; k < 3000 && !fs::exists(checkpoint()); k++)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300)); // it may be writing the next
        const auto begin = std::chrono::steady_clock::now();
        kill(pids[killed], SIGKILL);
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
        done(train(2, options + " --resume @scene.ply.checkpoint --iterations " + std::to_string(views + 2)));
    }
}

TEST_F(Hosts, OtherOptionsAreRefused) {
    write_colmap(at("data"), 30);
    for (const int r : {0, 1}) start(r, 2, train(0, "--sh-degree " + std::to_string(1 + r)));
    for (const int r : {0, 1}) {
        const outcome got = end_of(r);
        EXPECT_EQ(got.code, 1);
        EXPECT_EQ(got.err,
                  "dsplat: rank 1: was started with other arguments than rank 0, or is another version\n");
    }
}

TEST_F(Hosts, OtherDataAreRefused) {
    const fs::path home = fs::current_path();
    for (const int r : {0, 1}) {
        write_colmap(file("host", r) / "data", 30 + r);
        fs::current_path(file("host", r));
        start(r, 2, "train data -o @scene.ply --iterations 12"); // data: of each host's own
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
    refuses({{train(0), 2, "RANK=2 in the environment: must be a number from 0 to 1"}});
    setenv("RANK", "1", 1);
    setenv("MASTER_ADDR", "localhost", 1);
    refuses(
        {{train(2), 2, "--gpus starts ranks of its own, and this is one of 2 that a launcher has started"}});
    for (const char *name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) unsetenv(name);
}

} // namespace
#endif
