// SPDX-License-Identifier: MIT
// The tree: the lane that holds each total, minima and maxima, sinks of the caller, uniform keys, and the
// choice of a strategy at run time. reduction.cu tests that reduce_tree adds each lane once.

#include "device_test.cuh"
#include <cmath>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <limits>
#include <utility>

using distwar::all_lanes;
using distwar::strategy;

namespace {

const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");

// totals[lane][place] of one warp.
template <int K, typename T, typename Op>
__global__ void total_of(unsigned active, const T *values, T *totals) {
    const unsigned lane = threadIdx.x;
    enum { PLACES = distwar::tree_places(K) };
    T val[K], total[PLACES];
    for (int k = 0; k < K; ++k) val[k] = values[lane * K + k];
    distwar::tree_total(active >> lane & 1, val, total, Op{});
    for (int place = 0; place < PLACES; ++place) totals[lane * PLACES + place] = total[place];
}

// Launches total_of<K, T, Op> and gathers the K totals from the lanes that own them.
template <typename T>
std::vector<T> totals_of(int K, void (*kernel)(unsigned, const T *, T *), unsigned active,
                         const std::vector<T> &values) {
    const int places = distwar::tree_places(K);
    const device_array<T> device_values(values), totals(std::vector<T>(32 * places, T(77)));
    run(1, 32, kernel, active, device_values.get(), totals.get());
    std::vector<T> found, all = totals.download();
    for (int k = 0; k < K; ++k)
        found.push_back(all[distwar::tree_owner(k) * places + distwar::tree_place(k)]);
    return found;
}

template <typename T>
struct total_kernels {
    void (*sum)(unsigned, const T *, T *), (*least)(unsigned, const T *, T *),
        (*most)(unsigned, const T *, T *);
};

template <typename T>
void check_totals(draw &random, int K, total_kernels<T> kernels) {
    SCOPED_TRACE(K);
    for (unsigned round = 0; round < 6; ++round) {
        const unsigned active = round == 0 ? all_lanes : round == 1 ? 0 : random.bits();
        std::vector<T> values(32 * K), sum(K, T(0)), least(K, T(infinity)), most(K, T(-infinity));
        for (int lane = 0; lane < 32; ++lane)
            for (int k = 0; k < K; ++k) {
                T &value = values[lane * K + k];
                value = T(random.below(1 << 16)) - 30000;
                if (active >> lane & 1) {
                    sum[k] += value;
                    least[k] = std::min(least[k], value);
                    most[k] = std::max(most[k], value);
                } else if (round % 2) {
                    value = T(nan);
                }
            }
        set_schedule(round);
        EXPECT_EQ(totals_of(K, kernels.sum, active, values), sum);
        if (!kernels.least) continue;
        EXPECT_EQ(totals_of(K, kernels.least, active, values), least);
        EXPECT_EQ(totals_of(K, kernels.most, active, values), most);
    }
}

// val[lane][k] after tree_of_lanes.
template <int First, int End, int K, typename T>
__global__ void sums_of_lanes(const T *values, T *sums) {
    T val[K];
    for (int k = 0; k < K; ++k) val[k] = values[threadIdx.x * K + k];
    distwar::tree_of_lanes<First, End>(val);
    for (int k = 0; k < K; ++k) sums[threadIdx.x * K + k] = val[k];
}

template <int First, int End, int K, typename T>
void check_lanes(draw &random) {
    SCOPED_TRACE(testing::Message() << First << " to " << End << ", " << K << " values");
    std::vector<T> values(32 * K);
    for (T &value : values) value = T(random.below(1 << 16)) - 30000;
    const device_array<T> device_values(values), device_sums(std::vector<T>(32 * K, T(77)));
    run(1, 32, sums_of_lanes<First, End, K, T>, device_values.get(), device_sums.get());
    const std::vector<T> found = device_sums.download();
    const int n = 1 << (End - First);
    for (int lane = 0; lane < 32; ++lane) {
        const int number = lane >> First & (n - 1);
        for (int i = 0; n * i + number < K; ++i) {
            T sum = 0;
            for (int other = 0; other < n; ++other)
                sum += values[(lane + ((other - number) << First)) * K + n * i + number];
            EXPECT_EQ(found[lane * K + i], sum) << "lane " << lane << ", place " << i;
        }
    }
}

// Minima and maxima for every third K: the shuffles are those of sums.
template <int K, typename T>
void check_totals(draw &random) {
    total_kernels<T> kernels = {total_of<K, T, distwar::add>, nullptr, nullptr};
    if constexpr (K % 3 == 1)
        kernels.least = total_of<K, T, distwar::minimum>, kernels.most = total_of<K, T, distwar::maximum>;
    check_totals<T>(random, K, kernels);
}

template <int... K>
void check_all_totals(std::integer_sequence<int, K...>) {
    draw random(3);
    (check_totals<K + 1, float>(random), ...);
    check_totals<9, double>(random);
    check_totals<64, double>(random);
}

template <int... K>
void check_all_lanes(std::integer_sequence<int, K...>) {
    draw random(4);
    (check_lanes<0, 5, K + 1, float>(random), ...);
    (check_lanes<3, 5, K + 1, float>(random), ...);
    (check_lanes<0, 3, K + 1, double>(random), ...);
    (check_lanes<2, 3, K + 1, unsigned>(random), ...);
    (check_lanes<1, 4, K + 1, long long>(random), ...);
    check_lanes<1, 5, 64, float>(random);
}

TEST(Tree, TotalsAreInTheLanesThatOwnThem) {
    check_all_totals(std::make_integer_sequence<int, 64>());
    check_all_lanes(std::make_integer_sequence<int, 9>());
}

TEST(Tree, TotalsOfIntegersAreExact) {
    draw random(4);
    std::vector<long long> values(32), sum(1, 0);
    for (long long &value : values) sum[0] += value = (long long)(random.bits()) << 25;
    EXPECT_EQ((totals_of(1, total_of<1, long long, distwar::add>, all_lanes, values)), sum);
}

TEST(Tree, MinimaAndMaximaIgnoreNaNAndSumsKeepIt) {
    std::vector<float> values(32, nan);
    values[5] = 3;
    values[20] = -infinity;
    EXPECT_EQ((totals_of(1, total_of<1, float, distwar::minimum>, all_lanes, values)[0]), -infinity);
    EXPECT_EQ((totals_of(1, total_of<1, float, distwar::maximum>, all_lanes, values)[0]), 3);
    EXPECT_EQ((totals_of(1, total_of<1, float, distwar::maximum>, 1u << 4, values)[0]), -infinity);
    EXPECT_TRUE(std::isnan(totals_of(1, total_of<1, float, distwar::add>, all_lanes, values)[0]));
    EXPECT_EQ((totals_of(1, total_of<1, float, distwar::add>, 1u << 5, values)[0]), 3);
}

// The library knows only add of this sink.
struct doubled {
    float *base;
    template <int K>
    __device__ void add(int key, const float (&values)[K]) const {
        for (int k = 0; k < K; ++k) distwar::atomic_add(base + key * K + k, 2 * values[k]);
    }
};
// The library knows that this one is addressed by key.
struct doubled_by_key : doubled {
    int count;
    __device__ void add_one(int key, int k, float value) const {
        distwar::atomic_add(base + key * count + k, 2 * value);
    }
};
static_assert(!distwar::detail::is_addressed_by_key<doubled, int, float>);
static_assert(distwar::detail::is_addressed_by_key<doubled_by_key, int, float>);
static_assert(distwar::detail::is_addressed_by_key<distwar::record<float>, int, float>);
static_assert(distwar::detail::is_addressed_by_key<distwar::planes<double>, unsigned long long, double>);
static_assert(!distwar::detail::is_addressed_by_key<distwar::pointers<3, float>, int, float>);

enum { KEYS = 5, VALUES = 3 };

template <typename Sink>
__global__ void reduce_to(Sink sink, int keys, unsigned active) {
    const int lane = int(threadIdx.x);
    const float val[VALUES] = {float(1 + lane), float(100 + lane), float(1000 * lane)};
    distwar::reduce_tree(all_lanes, active >> lane & 1, lane % keys, val, sink);
}

std::vector<float> sums_of(int keys, unsigned active) {
    std::vector<float> sums(KEYS * VALUES, 0.0f);
    for (int lane = 0; lane < 32; ++lane) {
        if (!(active >> lane & 1)) continue;
        const float val[VALUES] = {float(1 + lane), float(100 + lane), float(1000 * lane)};
        for (int k = 0; k < VALUES; ++k) sums[lane % keys * VALUES + k] += val[k];
    }
    return sums;
}

TEST(Tree, TakesSinksOfTheCaller) {
    for (int keys = 1; keys <= KEYS; ++keys)
        for (const unsigned active : {all_lanes, 0xfffffff0u, 0x00008000u, 0x13579bdfu}) {
            std::vector<float> expected = sums_of(keys, active);
            for (float &sum : expected) sum *= 2;
            const device_array<float> one(std::vector<float>(KEYS * VALUES, 0.0f)),
                other(std::vector<float>(KEYS * VALUES, 0.0f));
            run(1, 32, reduce_to<doubled>, doubled{one.get()}, keys, active);
            run(1, 32, reduce_to<doubled_by_key>, doubled_by_key{{other.get()}, VALUES}, keys, active);
            EXPECT_EQ(one.download(), expected) << keys << " keys";
            EXPECT_EQ(other.download(), expected) << keys << " keys";
        }
}

// Records aligned for vector atomics, with every remainder of K by 4.
template <strategy S, int K>
__global__ void reduce_to_aligned(int keys, int threshold, float *records) {
    const int lane = int(threadIdx.x);
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = float(1 + lane * K + k);
    distwar::reduce<S>(all_lanes, lane != 3, lane % keys, val,
                       distwar::aligned_record{records, (K + 7) / 4 * 4}, threshold);
}

template <strategy S, int K>
void check_aligned() {
    enum { STRIDE = (K + 7) / 4 * 4 };
    for (const int keys : {1, 2, 8, 16})
        for (const int threshold : {0, 3, 33}) {
            std::vector<float> expected(keys * STRIDE, 5.0f);
            const device_array<float> records(expected);
            for (int lane = 0; lane < 32; ++lane)
                for (int k = 0; k < K && lane != 3; ++k)
                    expected[lane % keys * STRIDE + k] += float(1 + lane * K + k);
            run(1, 32, reduce_to_aligned<S, K>, keys, threshold, records.get());
            EXPECT_EQ(records.download(), expected) << "strategy " << int(S) << ", K " << K;
        }
}
template <strategy S>
void check_aligned_values() {
    check_aligned<S, 1>();
    check_aligned<S, 2>();
    check_aligned<S, 3>();
    check_aligned<S, 4>();
    check_aligned<S, 7>();
    check_aligned<S, 9>();
    check_aligned<S, 14>();
}

TEST(Sinks, AddToAlignedRecordsByVectors) {
    check_aligned_values<strategy::atomic>();
    check_aligned_values<strategy::serial>();
    check_aligned_values<strategy::bfly>();
    check_aligned_values<strategy::tree>();
}

// Several warps add to shared memory through each kind of sink.
template <strategy S>
__global__ void reduce_to_shared(int keys, unsigned active, float *result) {
    __shared__ float records[KEYS * VALUES], in_planes[KEYS * VALUES], pointed[KEYS * VALUES];
    if (threadIdx.x < KEYS * VALUES) records[threadIdx.x] = in_planes[threadIdx.x] = pointed[threadIdx.x] = 0;
    __syncthreads();
    const int lane = int(threadIdx.x % 32), key = lane % keys;
    const bool adds = active >> lane & 1;
    const float val[VALUES] = {float(1 + lane), float(100 + lane), float(1000 * lane)};
    float *const mine = pointed + key * VALUES;
    distwar::reduce<S>(all_lanes, adds, key, val, distwar::record<float>{records, VALUES}, 2);
    distwar::reduce<S>(all_lanes, adds, key, val, distwar::planes<float>{in_planes, KEYS}, 2);
    distwar::reduce<S>(all_lanes, adds, key, val, distwar::pointers{mine, mine + 1, mine + 2}, 2);
    __syncthreads();
    if (threadIdx.x < KEYS * VALUES) {
        const int k = int(threadIdx.x) / KEYS, of = int(threadIdx.x) % KEYS;
        result[threadIdx.x] = records[threadIdx.x];
        result[KEYS * VALUES + of * VALUES + k] = in_planes[threadIdx.x];
        result[2 * KEYS * VALUES + threadIdx.x] = pointed[threadIdx.x];
    }
}

template <strategy S>
void check_shared() {
    enum { WARPS = 4 };
    for (int keys = 1; keys <= KEYS; ++keys)
        for (const unsigned active : {all_lanes, 0x00ff00f0u, 0x80000000u}) {
            const device_array<float> result(std::vector<float>(3 * KEYS * VALUES, -1.0f));
            set_schedule(unsigned(keys));
            run(1, 32 * WARPS, reduce_to_shared<S>, keys, active, result.get());
            const std::vector<float> found = result.download(), sums = sums_of(keys, active);
            for (int i = 0; i < 3 * KEYS * VALUES; ++i)
                ASSERT_EQ(found[i], WARPS * sums[i % (KEYS * VALUES)])
                    << "strategy " << int(S) << ", " << keys << " keys, value " << i;
        }
}

TEST(Sinks, MayBeInSharedMemory) {
    check_shared<strategy::atomic>();
    check_shared<strategy::serial>();
    check_shared<strategy::bfly>();
    check_shared<strategy::tree>();
}

// A uniform key in whole warps and in parts of warps.
template <strategy S>
__global__ void reduce_uniform(unsigned lanes, unsigned active, int threshold, float *targets) {
    const unsigned lane = threadIdx.x;
    if (!(lanes >> lane & 1)) return;
    const float val[2] = {float(1 + lane), float(1000 * lane)};
    distwar::reduce<S>(lanes, active >> lane & 1, distwar::uniform_key{3ull}, val,
                       distwar::planes<float>{targets, 4}, threshold);
}

template <strategy S>
void check_uniform() {
    for (const unsigned lanes : {all_lanes, 0x0ff0000fu, 0x80000000u})
        for (const unsigned bits : {all_lanes, 0x88888888u, 0u})
            for (const int threshold : {0, 4, 33}) {
                const unsigned active = lanes & bits;
                std::vector<float> expected(8, 0.0f);
                for (int lane = 0; lane < 32; ++lane)
                    if (active >> lane & 1) {
                        expected[3] += float(1 + lane);
                        expected[7] += float(1000 * lane);
                    }
                const device_array<float> targets(std::vector<float>(8, 0.0f));
                run(1, 32, reduce_uniform<S>, lanes, active, threshold, targets.get());
                EXPECT_EQ(targets.download(), expected)
                    << "strategy " << int(S) << std::hex << ", lanes " << lanes << ", active " << active;
            }
}

TEST(UniformKey, IsTakenByEveryStrategy) {
    check_uniform<strategy::atomic>();
    check_uniform<strategy::serial>();
    check_uniform<strategy::bfly>();
    check_uniform<strategy::tree>();
}

template <strategy S>
__global__ void name_strategy(int *name) {
    if (threadIdx.x == 0) *name = int(S);
}

TEST(Policy, BecomesATemplateArgument) {
    for (const strategy chosen : {strategy::atomic, strategy::serial, strategy::bfly, strategy::tree}) {
        const device_array<int> name(std::vector<int>(1, -1));
        const int returned = distwar::with_strategy(chosen, [&](auto constant) {
            run(1, 32, name_strategy<constant>, name.get());
            return 10 + int(strategy(constant));
        });
        EXPECT_EQ(returned, 10 + int(chosen));
        EXPECT_EQ(name.download()[0], int(chosen));
    }
}

} // namespace
