// SPDX-License-Identifier: MIT
// reduce_runs: every value of every active lane is added once, whatever the keys, and at the cost that its
// header promises.

#include "warp_calls.cuh"
#include <distwar/runs.cuh>
#include <gtest/gtest.h>
#include <limits>
#include <type_traits>

using distwar::all_lanes;

namespace {

enum { KEYS = 32, CALLS = 60, SCHEDULES = 10 };
enum sink_kind { POINTERS, RECORD, PLANES };

// Warp w makes the call calls[w] on its own targets; inactive lanes hold garbage addresses.
template <sink_kind Kind, int K, typename T, typename Key>
__global__ void reduce_cases(const warp_call *calls, const T *values, T *targets) {
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x;
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    const Key key = Key(call.key[lane]);
    T *const base = targets + blockIdx.x * KEYS * K;
    T val[K];
    for (int k = 0; k < K; ++k) val[k] = values[(blockIdx.x * 32 + lane) * K + k];
    if constexpr (Kind == POINTERS) {
        distwar::pointers<K, T> sink;
        for (int k = 0; k < K; ++k) sink.address[k] = active ? base + key * K + k : nullptr;
        distwar::reduce_runs(call.lanes, active, key, val, sink, call.threshold);
    } else if constexpr (Kind == RECORD) {
        distwar::reduce_runs(call.lanes, active, key, val, distwar::record<T>{base, K}, call.threshold);
    } else {
        distwar::reduce_runs(call.lanes, active, key, val, distwar::planes<T>{base, KEYS}, call.threshold);
    }
}

template <sink_kind Kind, int K, typename T, typename Key>
void check_runs(draw &random) {
    std::vector<warp_call> calls;
    for (int i = 0; i < CALLS; ++i) calls.push_back(draw_warp_call(random));
    std::vector<T> values(CALLS * 32 * K, std::numeric_limits<T>::quiet_NaN()), initial(CALLS * KEYS * K);
    for (T &start : initial) start = T(random.below(1 << 10));
    std::vector<T> expected = initial;
    for (int i = 0; i < CALLS; ++i)
        for (int lane = 0; lane < 32; ++lane)
            for (int k = 0; k < K && (calls[i].active >> lane & 1); ++k) {
                const int key = calls[i].key[lane];
                const T value = values[(i * 32 + lane) * K + k] = T(1 + random.below((1 << 19) - 64));
                expected[i * KEYS * K + (Kind == PLANES ? k * KEYS + key : key * K + k)] += value;
            }
    const device_array<warp_call> device_calls(calls);
    const device_array<T> device_values(values), targets(initial);
    run(CALLS, 32, reduce_cases<Kind, K, T, Key>, device_calls.get(), device_values.get(), targets.get());
    const std::vector<T> found = targets.download();
    for (int i = 0; i < CALLS * KEYS * K; ++i)
        ASSERT_EQ(found[i], expected[i]) << "sink " << Kind << ", K " << K << ", target " << i % (KEYS * K)
                                         << ": " << calls[i / (KEYS * K)];
}

template <sink_kind Kind>
void check_sink() {
    draw random(1 + Kind);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        check_runs<Kind, 1, float, int>(random);
        check_runs<Kind, 2, float, unsigned long long>(random);
        check_runs<Kind, 4, double, unsigned>(random);
        check_runs<Kind, 5, float, long long>(random);
        check_runs<Kind, 9, float, int>(random);
        check_runs<Kind, 33, float, int>(random);
        check_runs<Kind, 3, long long, int>(random);
        if (testing::Test::HasFailure()) return;
    }
}

TEST(Runs, AddEachLaneOnceToPointers) {
    check_sink<POINTERS>();
}
TEST(Runs, AddEachLaneOnceToRecords) {
    check_sink<RECORD>();
}
TEST(Runs, AddEachLaneOnceToPlanes) {
    check_sink<PLANES>();
}

// Keys that differ in their upper half only begin another run; a uniform_key is taken too.
template <int K>
__global__ void reduce_by_upper_half(float *targets) {
    const unsigned lane = threadIdx.x;
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = float(1 + lane + k);
    distwar::pointers<K, float> sink;
    for (int k = 0; k < K; ++k) sink.address[k] = targets + lane / 8 * K + k;
    distwar::reduce_runs(all_lanes, true, (unsigned long long)(lane / 8) << 32 | 5, val, sink);
    distwar::reduce_runs(all_lanes, lane < 7, distwar::uniform_key{1}, val,
                         distwar::record<float>{targets, K});
}
TEST(Runs, OfKeysOf8BytesAreComparedWhole) {
    enum { K = 2 };
    std::vector<float> expected(4 * K, 0.0f);
    for (int lane = 0; lane < 32; ++lane)
        for (int k = 0; k < K; ++k) {
            expected[lane / 8 * K + k] += float(1 + lane + k);
            if (lane < 7) expected[K + k] += float(1 + lane + k);
        }
    const device_array<float> targets(std::vector<float>(4 * K, 0.0f));
    run(1, 32, reduce_by_upper_half<K>, targets.get());
    EXPECT_EQ(targets.download(), expected);
}

// A sparse matrix by rows, times a vector: many warps, rows that end anywhere, some empty.
enum { ROWS = 200 };
__global__ void multiply(const int *row, const int *column, const float *entry, int entries, const float *x,
                         float *y, int threshold) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < entries;
    const float val[1] = {active ? entry[i] * x[column[i]] : 0};
    distwar::reduce_runs(all_lanes, active, active ? row[i] : -1, val, distwar::record<float>{y, 1},
                         threshold);
}
TEST(Runs, SumTheRowsOfASparseMatrix) {
    draw random(5);
    std::vector<int> row, column;
    std::vector<float> entry, x(50), expected(ROWS, 0.0f);
    for (float &each : x) each = float(random.below(100));
    for (int r = 0; r < ROWS; ++r)
        for (unsigned n = random.below(3) ? random.below(9) : random.below(90); n > 0; --n) {
            row.push_back(r);
            column.push_back(int(random.below(50)));
            entry.push_back(float(random.below(100)));
            expected[r] += entry.back() * x[column.back()];
        }
    const int entries = int(row.size());
    const device_array<int> rows(row), columns(column);
    const device_array<float> device_entries(entry), device_x(x);
    for (const int threshold : {0, 3, 33}) {
        const device_array<float> y(std::vector<float>(ROWS, 0.0f));
        set_schedule(unsigned(threshold));
        run(blocks_for(entries, 128), 128, multiply, rows.get(), columns.get(), device_entries.get(), entries,
            device_x.get(), y.get(), threshold);
        EXPECT_EQ(y.download(), expected);
    }
}

#ifdef __SIMT__
template <int K>
__global__ void reduce_once(unsigned lanes, unsigned active, const int *keys, int threshold, float *targets) {
    const unsigned lane = threadIdx.x;
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    if (lanes >> lane & 1)
        distwar::reduce_runs(lanes, active >> lane & 1, keys[lane], val, distwar::record<float>{targets, K},
                             threshold);
}

// Keys of 32 lanes: the first sizes[0] lanes hold 0, and so on; the rest holds a key for each lane.
std::vector<int> runs_of(const std::vector<int> &sizes) {
    std::vector<int> keys;
    for (const int size : sizes) keys.insert(keys.end(), size_t(size), int(keys.size()));
    while (keys.size() < 32) keys.push_back(int(keys.size()));
    return keys;
}

struct cost {
    uint64_t shuffles, votes, reductions, atomic_instructions, atomic_requests;
};
template <int K>
void expect_cost(const std::vector<int> &sizes, cost expected, unsigned lanes = all_lanes,
                 unsigned active = all_lanes, int threshold = 0) {
    SCOPED_TRACE(testing::Message() << "K " << K << ", sizes " << testing::PrintToString(sizes)
                                    << ", threshold " << threshold);
    const device_array<int> keys(runs_of(sizes));
    const device_array<float> targets(std::vector<float>(32 * K, 0.0f));
    simt_counters_reset();
    run(1, 32, reduce_once<K>, lanes, lanes & active, keys.get(), threshold, targets.get());
    const simt_counters counted = simt_counters_read();
    EXPECT_EQ(counted.matches, 0u);
    EXPECT_EQ(counted.shuffles, expected.shuffles);
    EXPECT_EQ(counted.votes - counted.reductions, expected.votes);
    EXPECT_EQ(counted.reductions, expected.reductions);
    EXPECT_EQ(counted.atomic_instructions, expected.atomic_instructions);
    EXPECT_EQ(counted.atomic_requests, expected.atomic_requests);
}

TEST(RunsCost, OfTooFewActiveLanesIsAVote) {
    expect_cost<9>({32}, {0, 1, 0, 0, 0}, all_lanes, 0);
    expect_cost<9>({32}, {0, 1, 0, 0, 0}, 0x0000ff01, 0);
    expect_cost<9>({32}, {0, 1, 0, 9, 9 * 3}, all_lanes, 7, 4);
}
TEST(RunsCost, OfOneRunIsThatOfATree) {
    expect_cost<9>({32}, {2 + 12, 2, 0, 1, 9});
    expect_cost<9>({32}, {2 + 12, 2, 0, 1, 9}, all_lanes, 0x00f0000f, 8);
    expect_cost<1>({32}, {2 + 5, 2, 0, 1, 1});
    expect_cost<33>({32}, {2 + 36, 2, 0, 2, 33});
}
TEST(RunsCost, OfSeveralRunsIsThatOfTheCheaperForm) {
    // a tree each
    expect_cost<9>({16, 16}, {1 + 2 * 13, 3, 0, 2, 18});
    expect_cost<9>({8, 8, 8, 8}, {1 + 4 * 13, 3, 0, 4, 36});
    expect_cost<9>({30, 2}, {1 + 2 * 13, 3, 0, 2, 18});
    expect_cost<9>({30, 2}, {1 + 13, 3, 0, 1 + 9, 9 + 18}, all_lanes, all_lanes, 3);
    expect_cost<9>({8, 8, 8, 8}, {1, 3, 0, 9, 9 * 32}, all_lanes, all_lanes, 9); // none is summed
    expect_cost<9>({}, {1, 3, 0, 9, 9 * 32});
    expect_cost<4>({16, 16}, {1 + 2 * 7, 3, 0, 2, 8}); // not 4 * 4 side by side
    // side by side
    expect_cost<4>({11, 11, 10}, {1 + 4 * 4, 3, 0, 4, 12}); // not 3 * 7
    expect_cost<1>({16, 16}, {1 + 4, 3, 0, 1, 2});
    expect_cost<1>({17, 15}, {1 + 5, 3, 0, 1, 2});
    expect_cost<1>({2, 2, 2}, {1 + 1, 3, 0, 1, 29});
    expect_cost<1>({17, 3}, {1 + 5, 3, 0, 1, 1 + 15}, all_lanes, all_lanes, 4);
    expect_cost<2>({3, 3, 3, 4}, {1 + 2 * 2, 3, 0, 2, 2 * (4 + 19)});
    // inactive lanes count for the length where they are in a run: 4 active lanes, 7 from first to last
    expect_cost<2>({8, 8, 8, 8}, {1 + 2 * 3, 3, 0, 2, 8}, all_lanes, 0x55555555);
}
TEST(RunsCost, OfPartOfTheWarpIsThatOfDoubling) {
    for (const int size : {1, 2, 3, 4, 5, 16}) {
        int turns = 0;
        while (1 << turns < size) ++turns;
        const std::vector<int> sizes = {size}; // of 24 lanes
        const uint64_t commits = 1 + 24 - size;
        expect_cost<3>(sizes, {1 + (turns ? turns * 4u - 1 : 0), 2, 1, 3, 3 * commits}, 0x00ffffff);
    }
}
#endif

} // namespace
