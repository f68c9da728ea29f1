// SPDX-License-Identifier: MIT
// Ranks as threads, by both transports: every collective, for 1 to 4 ranks, and groups that fail. Under simt
// fake_nccl.c stands in for NCCL. Where NCCL's header is installed, nccl_library.h has its declarations.
#include "nccl_library.h"
#include "ranks.h"
#include "device.h"
#include "device_vector.h"
#include "run_program.h"
#include <gtest/gtest.h>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <tuple>
#include <unistd.h>
#if __has_include(<nccl.h>)
#include <nccl.h>
#include <cstddef>
#endif

namespace {

#if __has_include(<nccl.h>)
static_assert(int(NCCL_SUCCESS) == int(ncclSuccess) && int(NCCL_IN_PROGRESS) == int(ncclInProgress) &&
              int(NCCL_CUDA_ERROR) == int(ncclUnhandledCudaError) &&
              int(NCCL_SYSTEM_ERROR) == int(ncclSystemError) &&
              int(NCCL_REMOTE_ERROR) == int(ncclRemoteError));
static_assert(int(NCCL_INT8) == int(ncclInt8) && int(NCCL_INT64) == int(ncclInt64) &&
              int(NCCL_FLOAT) == int(ncclFloat32) && int(NCCL_DOUBLE) == int(ncclFloat64));
static_assert(int(NCCL_SUM) == int(ncclSum) && int(NCCL_MAX) == int(ncclMax));
static_assert(sizeof(nccl_result) == sizeof(ncclResult_t) && sizeof(nccl_type) == sizeof(ncclDataType_t) &&
              sizeof(nccl_operation) == sizeof(ncclRedOp_t) && sizeof(nccl_id) == sizeof(ncclUniqueId));

#define SAME_MEMBER(ours, theirs)                                                                            \
    static_assert(offsetof(nccl_config, ours) == offsetof(ncclConfig_t, theirs) &&                           \
                  sizeof(nccl_config::ours) == sizeof(ncclConfig_t::theirs))
SAME_MEMBER(size, size);
SAME_MEMBER(magic, magic);
SAME_MEMBER(version, version);
SAME_MEMBER(blocking, blocking);
SAME_MEMBER(cga_cluster_size, cgaClusterSize);
SAME_MEMBER(min_ctas, minCTAs);
SAME_MEMBER(max_ctas, maxCTAs);
SAME_MEMBER(net_name, netName);
SAME_MEMBER(split_share, splitShare);
#endif

using group_choice = std::tuple<ranks_kind, int>; // and the number of ranks

ranks_plan plan_of(const group_choice &choice) {
    ranks_plan plan = {};
    std::tie(plan.kind, plan.count) = choice;
    plan.timeout_s = 20;
#ifdef DISTWAR_SIMT
    plan.nccl = FAKE_NCCL, plan.devices = 1;
#endif
    return plan;
}

// Short, but longer than NCCL takes to start.
#ifdef DISTWAR_SIMT
constexpr double short_s = 0.3;
const std::string has_waited = "has waited 0.3 s for the others in ";
#else
constexpr double short_s = 5;
const std::string has_waited = "has waited 5 s for the others in ";
#endif

class Ranks : public testing::TestWithParam<group_choice> {
  protected:
    ranks_plan plan = plan_of(GetParam());
#ifndef DISTWAR_SIMT
    void SetUp() override {
        int devices = 1;
        cudaGetDeviceCount(&devices);
        if (plan.kind == RANKS_GPUS && plan.count > devices)
            GTEST_SKIP() << "each rank needs a GPU of its own";
    }
#endif
};

void expect_success(const ranks_plan &plan, ranks_body body, void *context = nullptr) {
    fault why = {};
    EXPECT_TRUE(ranks_run(&plan, body, context, &why)) << why.text;
}

// Why the group failed.
std::string failure_of(const ranks_plan &plan, ranks_body body, void *context = nullptr) {
    fault why = {};
    EXPECT_FALSE(ranks_run(&plan, body, context, &why));
    return why.text;
}

// What every rank checks.
#define RANK_EXPECT(condition)                                                                               \
    if (!(condition)) return ranks_fail(group, "line %d: %s", __LINE__, #condition)

// The value that rank `from` sends to rank `to` as number k.
int64_t value_of(int from, int to, int64_t k) {
    return 1000003 * (from + 1) + 1009 * (to + 1) + k;
}

bool exchange_everything(ranks *group, void *) {
    const int count = ranks_count(group), own = ranks_own(group);
    for (const int64_t most : {0, 1, 7, 5000}) { // 5000: more than a part of fake_nccl's
        const auto length = [&](int from, int to) {
            return from == 1 && to == 0 ? 0 : most * (1 + (3 * from + to) % 4);
        };
        std::vector<int64_t> own_sizes{own}, sizes(size_t(count * (1 + count))),
            data; // own, then to each rank
        ranks_exchange exchange = {};
        for (int r = 0; r < count; r++) own_sizes.push_back(length(own, r));
        if (!ranks_tell_numbers(group, 1 + count, own_sizes.data(), sizes.data(), nullptr)) return false;
        int64_t at = 3 * 8; // a gap before the first part
        for (int r = 0; r < count; r++) {
            const int64_t *const of_rank = &sizes[size_t(r * (1 + count))];
            for (int to = 0; to < count; to++) RANK_EXPECT(of_rank[1 + to] == length(r, to));
            RANK_EXPECT(of_rank[0] == r);
            exchange.to[r] = {int64_t(data.size()) * 8, length(own, r) * 8};
            for (int64_t k = 0; k < length(own, r); k++) data.push_back(value_of(own, r, k));
            exchange.from[r] = {at, length(r, own) * 8};
            at += length(r, own) * 8;
        }
        const device_vector<int64_t> sent(data), received(size_t(at / 8));
        exchange.send = sent.data(), exchange.receive = received.data();
        if (!ranks_all_to_all(group, &exchange, nullptr) || !ranks_wait(group, nullptr)) return false;
        const std::vector<int64_t> got = received.read();
        for (int r = 0; r < count; r++)
            for (int64_t k = 0; k < length(r, own); k++)
                RANK_EXPECT(got[size_t(exchange.from[r].begin / 8 + k)] == value_of(r, own, k));
    }
    return true;
}

TEST_P(Ranks, ExchangePartsOfAnySize) {
    expect_success(plan, exchange_everything);
}

template <typename T>
bool reduce_values(ranks *group, ranks_type type, T step) {
    const int count = ranks_count(group), own = ranks_own(group);
    for (const int64_t length : {0, 1, 4000}) {
        std::vector<T> values{};
        for (int64_t k = 0; k < length; k++) values.push_back(step * T((own + k) % 5 - own * k % 7));
        const device_vector<T> sum(values), largest(values);
        const ranks_reduction adds = {sum.data(), length, type, RANKS_SUM},
                              takes_largest = {largest.data(), length, type, RANKS_MAX_OF};
        if (!ranks_all_reduce(group, &adds, nullptr) || !ranks_all_reduce(group, &takes_largest, nullptr) ||
            !ranks_wait(group, nullptr))
            return false;
        const std::vector<T> got = sum.read(), got_largest = largest.read();
        for (int64_t k = 0; k < length; k++) {
            T total = 0, most = 0;
            for (int r = 0; r < count; r++) {
                const T value = step * T((r + k) % 5 - r * k % 7);
                total += value;
                most = r == 0 || value > most ? value : most;
            }
            RANK_EXPECT(got[size_t(k)] == total && got_largest[size_t(k)] == most);
        }
    }
    return true;
}

bool reduce_everything(ranks *group, void *context) {
    RANK_EXPECT(strcmp(static_cast<const char *>(context), "given") == 0);
    return reduce_values<int64_t>(group, RANKS_INT64, (int64_t(1) << 53) + 1) && // no double holds it
           reduce_values<float>(group, RANKS_FLOAT, 0.25f) &&
           reduce_values<double>(group, RANKS_DOUBLE, 0.125);
}

TEST_P(Ranks, ReduceToTheSameEverywhere) {
    char context[] = "given";
    expect_success(plan, reduce_everything, context);
}

// What the caller does in the meantime: no body begins before that has ended well.
struct preparation {
    bool succeeds;
    std::atomic<bool> ended{false};
    std::atomic<int> begun{0};
};

TEST_P(Ranks, BeginWhenTheCallerHasPrepared) {
    plan.prepare = [](void *context, fault *why) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        static_cast<preparation *>(context)->ended = true;
        return static_cast<preparation *>(context)->succeeds || fail(why, "no such file");
    };
    const auto begin = [](ranks *group, void *context) {
        static_cast<preparation *>(context)->begun++;
        RANK_EXPECT(static_cast<preparation *>(context)->ended);
        return ranks_barrier(group, nullptr);
    };
    preparation good{true}, bad{false};
    expect_success(plan, begin, &good);
    EXPECT_EQ(good.begun, plan.count);
    EXPECT_EQ(failure_of(plan, begin, &bad), "no such file");
    EXPECT_EQ(bad.begun, 0);
}

// ---- failures ----

struct failing {
    int rank, after_us; // from the start
    ranks_body how;
};

// Works until the time comes. Others work until they are stopped: a group that does not fail never ends.
bool work_until_failure(ranks *group, void *context) {
    const failing *const f = static_cast<failing *>(context);
    const auto begin = std::chrono::steady_clock::now();
    const device_vector<int64_t> values(std::vector<int64_t>(100, 1));
    const ranks_reduction largest = {values.data(), 100, RANKS_INT64, RANKS_MAX_OF};
    while (ranks_all_reduce(group, &largest, nullptr) && ranks_wait(group, nullptr) &&
           ranks_barrier(group, nullptr))
        if (ranks_own(group) == f->rank &&
            std::chrono::steady_clock::now() - begin >= std::chrono::microseconds(f->after_us))
            return f->how(group, nullptr);
    return false;
}

TEST_P(Ranks, EndWhenOneFailsAtAnyMoment) {
    const std::pair<ranks_body, std::string> ways[] = {
        {[](ranks *group, void *) { return ranks_fail(group, "no memory for %d things", 17); },
         "no memory for 17 things"},
        {[](ranks *, void *) { return false; }, "its work has failed"},
        // As a program does that finds no memory on its device.
        {[](ranks *, void *) -> bool { device_give_up("no memory for %d bytes", 17); },
         "no memory for 17 bytes"}};
    std::mt19937 random(unsigned(plan.count));
    for (int run = 0; run < 13; run++) {
        const auto &[how, text] = ways[run == 12 ? 2 : run % 2];
        failing f = {int(random() % unsigned(plan.count)), int(random() % 20000), how};
        const auto begin = std::chrono::steady_clock::now();
        EXPECT_EQ(failure_of(plan, work_until_failure, &f), "rank " + std::to_string(f.rank) + ": " + text);
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    }
}

// A thread that hangs cannot be ended alone.
TEST_P(Ranks, EndTheProcessWhenOneHangs) {
    if (plan.count != 2) return; // each takes a second
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    plan.timeout_s = short_s, plan.program = "name";
    fault why = {};
    const auto hang = [](ranks *group, void *) {
        while (ranks_own(group) == 1) pause();
        return ranks_barrier(group, nullptr);
    };
    EXPECT_EXIT(ranks_run(&plan, hang, nullptr, &why), testing::ExitedWithCode(EXIT_FAILURE),
                "name: rank 0: " + has_waited);
}

// Rank 1 does not come until the others have given up.
TEST_P(Ranks, DoNotWaitForEver) {
    if (plan.count < 2) return;
    plan.timeout_s = short_s;
    const auto stall = [](ranks *group, void *) {
        if (ranks_own(group) != 1) return ranks_barrier(group, nullptr);
        while (ranks_wait(group, nullptr)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return false;
    };
    EXPECT_CONTAINS(failure_of(plan, stall), has_waited);
}

INSTANTIATE_TEST_SUITE_P(Groups, Ranks,
                         testing::Combine(testing::Values(RANKS_THREADS, RANKS_GPUS), testing::Range(1, 5)));

// ---- what is particular to one kind ----

TEST(RanksThreads, OneThatHasEndedIsNotWaitedFor) {
    failing f = {1, 100, [](ranks *, void *) { return true; }};
    EXPECT_CONTAINS(failure_of(plan_of({RANKS_THREADS, 3}), work_until_failure, &f),
                    "for rank 1, which has ended");
}

TEST(RanksPlan, ThatCannotBeIsRefused) {
    for (const int count : {-1, 0, RANKS_MAX + 1})
        EXPECT_EQ(failure_of(plan_of({RANKS_THREADS, count}), exchange_everything), "ranks must be in 1..64");
#ifdef DISTWAR_SIMT
    ranks_plan plan = plan_of({RANKS_GPUS, 3});
    plan.devices = 0;
    EXPECT_CONTAINS(failure_of(plan, exchange_everything), "3 ranks need 3 GPUs, this host has 1");
#endif
}

#ifdef DISTWAR_SIMT
TEST(RanksNccl, SaysWhatIsMissing) {
    // A library, a variable of fake_nccl with its value, and what is said, as a regular expression.
    const std::tuple<const char *, const char *, const char *, const char *> cases[] = {
        {"/nowhere/libnccl.so.2", "", "",
         "several GPUs need NCCL 2.18 or later: /nowhere/libnccl.so.2: .*name its libnccl.so.2 by --nccl"},
        {"libm.so.6", "", "", "libm.so.6 has no ncclGetVersion"},
        {FAKE_NCCL, "FAKE_NCCL_VERSION", "21403", " is NCCL 2.14.3: several GPUs need NCCL 2.18 or later"},
        {FAKE_NCCL, "FAKE_NCCL_FAILS", "1",
         "^rank 1: ncclCommInitRankConfig: unhandled cuda error; .+ MB of the GPU's memory are free$"}};
    for (const auto &[nccl, variable, value, says] : cases) {
        ranks_plan plan = plan_of({RANKS_GPUS, 2});
        plan.nccl = nccl;
        if (*variable) setenv(variable, value, 1);
        const std::string text = failure_of(plan, exchange_everything);
        if (*variable) unsetenv(variable);
        EXPECT_TRUE(std::regex_search(text, std::regex(says))) << text;
    }
}
#endif

} // namespace
