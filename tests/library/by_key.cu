// SPDX-License-Identifier: MIT
// reduce, the one call; lists of values, sums at another key, sinks of other shapes: every value of every active
// lane is added once, at the cost that the headers promise.

#include "warp_calls.cuh"
#include <distwar/block.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

using namespace distwar;

namespace {

enum { KEYS = 32, CALLS = 60, SCHEDULES = 8 };

enum layout { RECORD, PLANES, POINTERS, FIELDS, ALIGNED, BLOCKS, SHARED, SAID, LAYOUTS };

// The place of value k of a key, in the memory of one warp.
template <int K>
__host__ __device__ int place(layout shape, int key, int k) {
    if (shape == PLANES) return k * KEYS + key;
    if (shape == BLOCKS) return (key / 8 * K + k) * 8 + key % 8; // blocks of 8 keys
    return key * (K + K % 2) + k;
}
template <int K>
constexpr int places = KEYS *(K + K % 2);

template <layout Shape, int K, typename T, typename Key>
__device__ void one_call(const warp_call &call, bool active, Key key, const T (&val)[K], T *to) {
    constexpr int stride = K + K % 2;
    if constexpr (Shape == RECORD) {
        reduce(call.lanes, active, key, val, record<T>{to, stride});
    } else if constexpr (Shape == PLANES) {
        reduce(call.lanes, active, key, val, planes<T>{to, KEYS});
    } else if constexpr (Shape == BLOCKS) {
        reduce(call.lanes, active, key / 8 * (K * 8) + key % 8, val, planes<T>{to, 8});
    } else if constexpr (Shape == POINTERS) {
        pointers<K, T> sink;
        for (int k = 0; k < K; ++k) sink.address[k] = active ? to + size_t(key) * stride + k : nullptr;
        reduce(call.lanes, active, key, val, sink);
    } else if constexpr (Shape == FIELDS) {
        if constexpr (K > 1) {
            const fields<T, K - 1, may_be_null(1)> sink = {{to, stride}, {to + K - 1, stride}};
            reduce(call.lanes, active, key, val, sink);
        } else {
            reduce(call.lanes, active, key, val[0], fields<T, 1>{{to, stride}});
        }
    } else if constexpr (Shape == ALIGNED) {
        if constexpr (K == 2 && detail::is_same<T, float>)
            reduce(call.lanes, active, key, val, aligned_record{to, 2});
        else
            reduce(call.lanes, active, key, val, record<T>{to, stride});
    } else {
        static_assert(Shape == SHARED || Shape == SAID);
        __shared__ T sums[places<K>];
        for (int i = int(threadIdx.x); i < places<K>; i += 32) sums[i] = T(0);
        __syncwarp();
        if (call.lanes >> threadIdx.x & 1) {
            if constexpr (Shape == SAID)
                reduce(call.lanes, active, key, val, in_shared(record<T>{sums, stride}));
            else
                reduce(call.lanes, active, key, val, record<T>{sums, stride});
        }
        __syncwarp();
        for (int i = int(threadIdx.x); i < places<K>; i += 32) atomicAdd(to + i, sums[i]);
    }
}

template <layout Shape, int K, typename T, typename Key>
__global__ void one_call_a_warp(const warp_call *calls, const T *values, T *targets) {
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x;
    constexpr bool whole = Shape == SHARED || Shape == SAID;
    if (!whole && !(call.lanes >> lane & 1)) return;
    T val[K];
    for (int k = 0; k < K; ++k) val[k] = values[(blockIdx.x * 32 + lane) * K + k];
    one_call<Shape>(call, call.active >> lane & 1, Key(call.key[lane]), val,
                    targets + blockIdx.x * places<K>);
}

template <layout Shape, int K, typename T, typename Key = int>
void check_calls(draw &random) {
    std::vector<warp_call> calls;
    for (int i = 0; i < CALLS; ++i) calls.push_back(draw_warp_call(random));
    std::vector<T> values, expected(CALLS * places<K>, T(0));
    for (int i = 0; i < CALLS * 32 * K; ++i) values.push_back(T(1 + random.below(1 << 12)));
    for (int i = 0; i < CALLS; ++i)
        for (int lane = 0; lane < 32; ++lane)
            for (int k = 0; k < K && calls[i].active >> lane & 1; ++k)
                expected[i * places<K> + place<K>(Shape, calls[i].key[lane], k)] +=
                    values[(i * 32 + lane) * K + k];
    const device_array<warp_call> device_calls(calls);
    const device_array<T> device_values(values), targets(std::vector<T>(expected.size(), T(0)));
    run(CALLS, 32, one_call_a_warp<Shape, K, T, Key>, device_calls.get(), device_values.get(), targets.get());
    ASSERT_EQ(targets.download(), expected) << "layout " << Shape << ", K " << K;
}

template <layout Shape>
void check_layout() {
    draw random(1 + Shape);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        check_calls<Shape, 1, float>(random);
        check_calls<Shape, 2, float, long long>(random);
        check_calls<Shape, 3, int>(random);
        check_calls<Shape, 4, unsigned long long, unsigned>(random);
        check_calls<Shape, 9, float>(random);
        if (testing::Test::HasFailure()) return;
    }
}
TEST(OneCall, IntoRecords) {
    check_layout<RECORD>();
}
TEST(OneCall, IntoPlanes) {
    check_layout<PLANES>();
}
TEST(OneCall, IntoPointers) {
    check_layout<POINTERS>();
}
TEST(OneCall, IntoFields) {
    check_layout<FIELDS>();
}
TEST(OneCall, IntoAlignedRecordsOfTwo) {
    check_layout<ALIGNED>();
}
TEST(OneCall, IntoBlocksOfPlanes) {
    check_layout<BLOCKS>();
}
TEST(OneCall, IntoSharedMemory) {
    check_layout<SHARED>();
    check_layout<SAID>();
}

// Neighbouring lanes with neighbouring keys, whose groups are found by pairs and fours: any activity, any keys in
// inactive lanes.
__global__ void add_one_each(const warp_call *calls, const int *values, int *targets) {
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x;
    reduce(call.lanes, call.active >> lane & 1, call.key[lane], values[blockIdx.x * 32 + lane],
           record<int>{targets + blockIdx.x * 64, 1});
}
TEST(OneCall, OfNeighbouringKeys) {
    draw random(11);
    std::vector<warp_call> calls(4 * CALLS);
    std::vector<int> values, expected(calls.size() * 64, 0);
    for (size_t i = 0; i < calls.size(); ++i) {
        warp_call &call = calls[i];
        call.lanes = all_lanes;
        call.active = random.below(2) ? all_lanes : random.bits();
        const int width = 1 << random.below(4);
        const unsigned keys = 1 + random.below(56), step = random.below(2) ? unsigned(width) : 1;
        int first = 0;
        for (int lane = 0; lane < 32; ++lane) {
            if (lane % width == 0) first = int(random.below(keys) / step * step);
            const bool active = call.active >> lane & 1;
            call.key[lane] = active || random.below(2) ? first + lane % width : int(random.bits());
            values.push_back(int(random.below(1 << 12)));
            if (active) expected[i * 64 + size_t(call.key[lane])] += values.back();
        }
    }
    const device_array<warp_call> device_calls(calls);
    const device_array<int> device_values(values), targets(std::vector<int>(expected.size(), 0));
    run(int(calls.size()), 32, add_one_each, device_calls.get(), device_values.get(), targets.get());
    EXPECT_EQ(targets.download(), expected);
}

// The example of the headers: lane l adds {1, l} to record l / 16.
__global__ void add_pairs_of(float *sums, double *of_doubles, float *list, float *each) {
    const int lane = int(threadIdx.x), key = lane / 16;
    const float val[2] = {1, float(lane)};
    reduce(all_lanes, true, key, val, record<float>{sums, 2});
    reduce(all_lanes, true, key, val, record<double>{of_doubles, 2});
    reduce(all_lanes, true, uniform_key{0}, values(float3{1, 2, 3}, 4.0f, val), record<float>{list, 6});
    for (int i = 0; i < 3; ++i) reduce(all_lanes, lane < 24, key + i, float(1 << i), record<float>{each, 1});
    __shared__ float bins[4];
    if (lane < 4) bins[lane] = 0;
    __syncwarp();
    if (lane < 24) // a branch, as each lane may make the call alone
        for (int i = 0; i < 3; ++i)
            reduce(all_lanes, true, key + i, float(1 << i), in_shared(record<float>{bins, 1}));
    __syncwarp();
    if (lane < 4) each[4 + lane] = bins[lane];
}
TEST(OneCall, Examples) {
    const device_array<float> sums(std::vector<float>(4, 0.0f)), list(std::vector<float>(6, 0.0f)),
        each(std::vector<float>(8, 0.0f));
    const device_array<double> of_doubles(std::vector<double>(4, 0.0));
    run(1, 32, add_pairs_of, sums.get(), of_doubles.get(), list.get(), each.get());
    EXPECT_EQ(sums.download(), (std::vector<float>{16, 120, 16, 376}));
    EXPECT_EQ(of_doubles.download(), (std::vector<double>{16, 120, 16, 376}));
    EXPECT_EQ(list.download(), (std::vector<float>{32, 64, 96, 128, 32, 496}));
    // 16 lanes at keys 0, 1, 2 and 8 lanes at keys 1, 2, 3, with the values 1, 2, 4
    EXPECT_EQ(each.download(), (std::vector<float>{16, 40, 80, 32, 16, 40, 80, 32}));
}

// Pairs of half, two of them a record, by vector atomics.
__global__ void add_pairs_of_half(__half2 *sums) {
    const __half2 one = __floats2half2_rn(1, 2), val[2] = {one, one};
    reduce(all_lanes, true, int(threadIdx.x) / 8, val, aligned_record<__half2>{sums, 2});
}
TEST(OneCall, IntoPairsOfTwo) {
    const device_array<__half2> sums(std::vector<__half2>(8, __floats2half2_rn(0, 0)));
    run(1, 32, add_pairs_of_half, sums.get());
    for (const __half2 &sum : sums.download()) {
        EXPECT_EQ(__low2float(sum), 8);
        EXPECT_EQ(__high2float(sum), 16);
    }
}

// A part that is null takes nothing; the other parts take their values.
template <bool OneKey>
__global__ void add_without_a_part(float *a, float *b) {
    const float val[3] = {1, 2, 3};
    const fields<float, may_be_null(2), 1> sink = {{nullptr, 2}, {a, 1}};
    const fields<float, 2, may_be_null(1)> other = {{b, 2}, {nullptr, 1}};
    if constexpr (OneKey) {
        reduce(all_lanes, true, uniform_key{1}, val, sink);
        reduce(all_lanes, true, uniform_key{1}, val, other);
    } else {
        reduce(all_lanes, true, int(threadIdx.x) % 2, val, sink);
        reduce_atomic(all_lanes, true, int(threadIdx.x) % 2, val, other);
    }
}
TEST(OneCall, LeavesOutAPartThatIsNull) {
    static_assert(fields<float, may_be_null(2), 1>::values == 3);
    const device_array<float> a(std::vector<float>(2, 0.0f)), b(std::vector<float>(4, 0.0f));
    run(1, 32, add_without_a_part<true>, a.get(), b.get());
    EXPECT_EQ(a.download(), (std::vector<float>{0, 96}));
    EXPECT_EQ(b.download(), (std::vector<float>{0, 0, 32, 64}));
    run(1, 32, add_without_a_part<false>, a.get(), b.get());
    EXPECT_EQ(a.download(), (std::vector<float>{48, 144}));
    EXPECT_EQ(b.download(), (std::vector<float>{16, 32, 48, 96}));
}

// groups.add at another key. The keys of two groups may meet there.
template <int K>
__global__ void add_at_other_keys(const warp_call *calls, float *targets) {
    const warp_call &call = calls[blockIdx.x];
    if (!(call.lanes >> threadIdx.x & 1)) return;
    const bool active = call.active >> threadIdx.x & 1;
    const int key = call.key[threadIdx.x];
    const auto groups = group_lanes(call.lanes, active, key);
    for (int step = 0; step < 3; ++step) {
        float val[K];
        for (int k = 0; k < K; ++k) val[k] = float(threadIdx.x * 8 + k);
        groups.add(val, record<float>{targets + blockIdx.x * KEYS * K, K}, at_key{key / (step + 1)});
    }
}
template <int K>
void check_other_keys(draw &random) {
    std::vector<warp_call> calls;
    for (int i = 0; i < CALLS; ++i) calls.push_back(draw_warp_call(random));
    std::vector<float> expected(CALLS * KEYS * K, 0.0f);
    for (int i = 0; i < CALLS; ++i)
        for (int lane = 0; lane < 32; ++lane)
            for (int step = 0; step < 3 && calls[i].active >> lane & 1; ++step)
                for (int k = 0; k < K; ++k)
                    expected[(i * KEYS + calls[i].key[lane] / (step + 1)) * K + k] += float(lane * 8 + k);
    const device_array<warp_call> device_calls(calls);
    const device_array<float> targets(std::vector<float>(expected.size(), 0.0f));
    run(CALLS, 32, add_at_other_keys<K>, device_calls.get(), targets.get());
    ASSERT_EQ(targets.download(), expected) << "K " << K;
}
TEST(OtherKeys, AreAddedTo) {
    draw random(7);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        check_other_keys<2>(random);
        check_other_keys<9>(random);
        if (HasFailure()) return;
    }
}

// An accumulator of floats, flushed to records of doubles of 16 bytes: of consecutive keys, of any.
__global__ void flush_histogram(double *histogram) {
    __shared__ accumulator<2, 5> bins;
    bins.clear();
    const float val[2] = {1, 0.5f};
    reduce(all_lanes, true, int(threadIdx.x) % 4, val, in_shared(bins.sink()));
    bins.flush_consecutive(1, 5, record<double>{histogram, 2});
    bins.flush_consecutive(1, 5, record<double>{histogram, 2}); // nothing is left
    const int key_of_slot[] = {5, 0};
    reduce(all_lanes, true, 1, val, in_shared(bins.sink()));
    bins.flush(key_of_slot, 2, record<double>{histogram, 2});
}
TEST(OneCall, FlushesAnAccumulatorIntoDoubles) {
    const device_array<double> histogram(std::vector<double>(12, 0.0));
    run(1, 32, flush_histogram, histogram.get());
    EXPECT_EQ(histogram.download(), (std::vector<double>{32, 16, 8, 4, 8, 4, 8, 4, 8, 4, 0, 0}));
}

// A pointer that lies in global memory in one block and in shared memory in the other: the call tests it.
__global__ void add_somewhere(float *to, int shared_block) {
    __shared__ float sums[8];
    if (threadIdx.x < 8) sums[threadIdx.x] = 0;
    __syncthreads();
    float *const base = int(blockIdx.x) == shared_block ? sums : to + 8;
    const float val[2] = {1, 2};
    reduce(all_lanes, true, int(threadIdx.x) / 16, val, record<float>{base, 2});
    reduce(all_lanes, true, int(threadIdx.x) / 16, val, planes<float>{base + 4, 2});
    reduce(all_lanes, true, uniform_key{1}, val, record<float>{base, 2});
    __syncthreads();
    if (int(blockIdx.x) == shared_block && threadIdx.x < 8) to[threadIdx.x] = sums[threadIdx.x];
}
TEST(OneCall, IntoMemoryOfEitherKind) {
    const device_array<float> sums(std::vector<float>(16, 0.0f));
    run(2, 32, add_somewhere, sums.get(), 1);
    const std::vector<float> found = sums.download(), expected = {16, 32, 48, 96, 16, 16, 32, 32};
    EXPECT_EQ(std::vector<float>(found.begin(), found.begin() + 8), expected);
    EXPECT_EQ(std::vector<float>(found.begin() + 8, found.end()), expected);
}

#ifdef __SIMT__
template <int K, bool Said>
__global__ void add_with_keys(int keys, float *to) {
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    const int key = int(threadIdx.x) % keys;
    if constexpr (Said)
        reduce(all_lanes, true, key, val, in_shared(record<float>{to, K}));
    else
        reduce(all_lanes, true, key, val, record<float>{to, K});
}
template <int K, bool Said = false>
simt_counters cost_of(int keys) {
    const device_array<float> to(std::vector<float>(32 * K, 0.0f));
    simt_counters_reset();
    run(1, 32, add_with_keys<K, Said>, keys, to.get());
    return simt_counters_read();
}
void expect_cost(const simt_counters &found, unsigned shuffles, unsigned votes, unsigned matches,
                 unsigned instructions, unsigned requests) {
    EXPECT_EQ(found.shuffles, shuffles);
    EXPECT_EQ(found.votes, votes + matches); // simt counts a match as a vote, too
    EXPECT_EQ(found.matches, matches);
    EXPECT_EQ(found.atomic_instructions, instructions);
    EXPECT_EQ(found.atomic_requests, requests);
}
TEST(OneCallCost, OfFewValues) {
    expect_cost(cost_of<1>(32), 1, 4, 1, 1, 32);           // all keys differ, fours of neighbours
    expect_cost(cost_of<1>(6), 1 + 3 * 2, 4 + 3, 1, 1, 6); // 3 pairs, each 5 or 6 times
    expect_cost(cost_of<1>(1), 1 + 1 + 5, 3, 1, 1, 1);     // one key
    expect_cost(cost_of<1>(16), 1 + 2, 5, 1, 1, 16);       // groups of two: one iteration
    expect_cost(cost_of<4>(4), 3 * 5, 2 + 3, 1, 4, 4 * 4); // groups of 8: three iterations
    expect_cost(cost_of<9>(1), 1 + 12, 2, 0, 1, 9);        // reduce_tree
}
TEST(OneCallCost, InSharedMemoryIsThatOfThePlainAtomics) {
    expect_cost(cost_of<4, true>(4), 0, 0, 0, 4, 4 * 32);
}
// The groups are found once for all keys.
__global__ void add_nodes(float *to) {
    const int cell = int(threadIdx.x) / 8;
    const auto cells = group_lanes(all_lanes, true, cell);
    for (int node = 0; node < 27; ++node)
        cells.add(values(1.0f, 2.0f), record<float>{to, 2}, at_key{cell + node});
}
TEST(OneCallCost, OfOtherKeysIsOneMatch) {
    const device_array<float> to(std::vector<float>(64, 0.0f));
    simt_counters_reset();
    run(1, 32, add_nodes, to.get());
    const simt_counters found = simt_counters_read();
    EXPECT_EQ(found.matches, 1u);
    EXPECT_EQ(found.shuffles, 1u + 27 * (3 * 3 - 1));
    EXPECT_EQ(found.atomic_requests, 27u * 4 * 2);
}
#endif

} // namespace
