// SPDX-License-Identifier: MIT
// Right with every type: integers count by their size, not by their name, as keys, values, counters and strides; keys of
// 64 bits keep all their bits; 64-bit integers in shared memory carry; single halves of any place and alignment.

#include "device_test.cuh"
#include <distwar/half.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <stdint.h>

namespace {

using namespace distwar;
using uchar = unsigned char;

// Lane l adds l, and 1, to keys of 8 lanes each; records of two values, a stride of any type.
template <typename Key, typename T, typename Stride>
__global__ void sum_of_types(Key first, Stride stride, T *sums, T *least, T *counts, T *before) {
    const unsigned lane = lane_id();
    const Key key = Key(first + Key(lane / 8));
    const size_t back = size_t(first);
    const T val[2] = {T(lane), T(1)};
    reduce(all_lanes, true, key, val, record<T>{sums - back * 2, stride});
    reduce(all_lanes, true, key, T(lane + 1), record<T, minimum>{least - back, 1});
    reduce_tree(all_lanes, lane % 2 == 0, uniform_key{first}, val, record<T>{sums + 8 - back * 2, stride});
    reduce_serial(all_lanes, true, key, values(T(lane), T(1)).of, record<T>{sums + 10 - back * 2, stride});
    const T got = fetch_add(all_lanes, true, key, uchar(2), counts - back);
    if (lane % 8 == 7) before[lane / 8] = got;
    append(all_lanes, lane < 5, counts + 4);
}
template <typename Key, typename T, typename Stride>
void check_types() {
    const device_array<T> sums(std::vector<T>(18, T(0))), least(std::vector<T>(4, T(100))),
        counts(std::vector<T>(5, T(0))), before(std::vector<T>(4, T(0)));
    const Key first = sizeof(Key) == 8 ? Key(1ll << 33) : Key(5);
    run(1, 32, sum_of_types<Key, T, Stride>, first, Stride(2), sums.get(), least.get(), counts.get(),
        before.get());
    std::vector<T> wanted = {28, 8, 92, 8, 156, 8, 220, 8, 240, 16};
    for (int i = 0; i < 8; ++i) wanted.push_back(wanted[size_t(i)]);
    EXPECT_EQ(sums.download(), wanted);
    EXPECT_EQ(least.download(), (std::vector<T>{1, 9, 17, 25}));
    EXPECT_EQ(counts.download(), (std::vector<T>{16, 16, 16, 16, 5}));
    EXPECT_EQ(before.download(), std::vector<T>(4, T(14)));
}
TEST(Types, IntegersCountBySize) {
    check_types<int, long, int>();
    check_types<unsigned, unsigned long, size_t>();
    check_types<long, int64_t, short>();
    check_types<unsigned long, uint64_t, long long>();
    check_types<int64_t, int, unsigned>();
    check_types<size_t, unsigned, unsigned long>();
    check_types<long long, size_t, int64_t>();
}

// Keys that do not fit into the type of the groups or of the slots.
template <typename Other>
__global__ void corners(Other far, float *sums) {
    const auto cells = group_lanes(all_lanes, true, int(threadIdx.x / 8));
    const float val[2] = {1, float(threadIdx.x)};
    const record<float> sink = {sums - size_t(far) * 2, 2};
    cells.add(val, sink, at_key{Other(far + Other(threadIdx.x / 8))});
    cells.add_n(
        2, [&](int k) { return val[k]; }, sink, at_key{Other(far + Other(threadIdx.x / 8))});
    group_lanes(all_lanes, true, 7).add(val, sink, at_key{far}); // one key
}
template <typename Key, typename Slot>
__global__ void hot(Key far, float *sums) {
    __shared__ hot_slots<64, 2, float, Slot> slots;
    const record<float> table = {sums - size_t(far) * 2, 2};
    slots.clear();
    const float val[2] = {1, float(threadIdx.x)};
    for (int i = 0; i < 10; ++i)
        reduce(all_lanes, true, Key(far + Key(threadIdx.x / 8)), val, slots.sink(table));
    slots.flush(table);
}
template <typename... Parameters, typename Far>
void check_far(void (*kernel)(Parameters...), Far far, float times, float more) {
    const device_array<float> sums(std::vector<float>(8, 0.0f));
    run(1, 32, kernel, far, sums.get());
    std::vector<float> wanted;
    for (int key = 0; key < 4; ++key) wanted.insert(wanted.end(), {8 * times, float(28 + 64 * key) * times});
    wanted[0] += 32 * more, wanted[1] += 496 * more;
    EXPECT_EQ(sums.download(), wanted);
}
TEST(Types, WideKeysKeepTheirBits) {
    check_far(corners<long long>, 1ll << 32, 2, 1);
    check_far(corners<unsigned>, 3000000000u, 2, 1);
    check_far(corners<size_t>, size_t(1) << 40, 2, 1);
    check_far(hot<long long, int>, 1ll << 32, 10, 0);
    check_far(hot<unsigned, int>, 3000000000u, 10, 0);
    check_far(hot<size_t, int64_t>, size_t(1) << 40, 10, 0);
    check_far(hot<int, int64_t>, 3, 10, 0);
    check_far(hot<int, size_t>, 3, 10, 0);
}

// Sums whose lower halves overflow, go below zero, or leave the upper half alone.
template <typename T>
__global__ void carry(const T *given, T *sums) {
    __shared__ T shared[4];
    if (threadIdx.x < 4) shared[threadIdx.x] = 0;
    __syncthreads();
    atomic_add(&shared[threadIdx.x % 4], given[threadIdx.x]);
    reduce(all_lanes, true, threadIdx.x / 8, given[threadIdx.x], in_shared(record<T>{shared, 1}));
    __syncthreads();
    if (threadIdx.x < 4) sums[threadIdx.x] = shared[threadIdx.x];
}
template <typename T>
void check_carry() {
    std::vector<T> given, wanted(4, T(0));
    for (int i = 0; i < 32; ++i)
        given.push_back(T(i % 3 == 0   ? 0xffffffffull + uint64_t(i)
                          : i % 3 == 1 ? uint64_t(-5 * i)
                                       : uint64_t(i) << 31));
    for (size_t i = 0; i < 32; ++i)
        for (const size_t slot : {i % 4, i / 8})
            wanted[slot] = T(uint64_t(wanted[slot]) + uint64_t(given[i]));
    for (unsigned seed = 0; seed < 4; ++seed) {
        const device_array<T> values_of(given), sums(std::vector<T>(4, T(0)));
        set_schedule(seed);
        run(1, 32, carry<T>, values_of.get(), sums.get());
        EXPECT_EQ(sums.download(), wanted);
    }
}
TEST(Types, WideIntegersCarryInSharedMemory) {
    check_carry<long long>();
    check_carry<unsigned long long>();
    check_carry<int64_t>();
    check_carry<size_t>();
}

// Values of the halves base[first ..], in an array of `count`.
template <typename Half>
__global__ void add_halves(Half *base, int first, int count) {
    const float val[3] = {1, 2, float(threadIdx.x % 4)};
    reduce(all_lanes, threadIdx.x < 24, int(threadIdx.x / 8), val,
           record_of_halves<Half>{base + first, 3, count});
    reduce_serial(all_lanes, threadIdx.x < 24, int(threadIdx.x / 8), val,
                  record_of_halves<Half>{base + first, 3, count});
}
template <typename Half>
void check_halves() {
    for (const int first : {0, 1, 2, 3}) {
        std::vector<Half> start;
        for (int i = 0; i < 16; ++i) start.push_back(Half(float(i)));
        const device_array<Half> halves(start);
        run(1, 32, add_halves<Half>, halves.get(), first, 9);
        const std::vector<Half> found = halves.download();
        for (int i = 0; i < 16; ++i) {
            const int k = i - first;
            const float wanted = float(i) + (k < 0 || k >= 9 ? 0 : k % 3 == 0 ? 16 : k % 3 == 1 ? 32 : 24);
            EXPECT_EQ(float(found[size_t(i)]), wanted) << first << ' ' << i;
        }
    }
}
TEST(Types, SingleHalvesOfEachAlignment) {
    check_halves<__half>();
    check_halves<__nv_bfloat16>();
}

// A sink of the caller's with a member `base` is summed in the warp, wherever the base lies.
struct with_base {
    const int *base; // a table in shared memory
    float *sums;
    template <typename Key, int K>
    __device__ void add(Key key, const float (&val)[K]) const {
        for (int k = 0; k < K; ++k) atomic_add(&sums[base[key] + k], val[k]);
    }
};
__global__ void add_to_table(float *sums) {
    __shared__ int table[4];
    if (threadIdx.x < 4) table[threadIdx.x] = int(3 - threadIdx.x);
    __syncthreads();
    reduce(all_lanes, true, int(threadIdx.x / 8), 1.0f, with_base{table, sums});
}
TEST(Types, ASinkWithABaseOfItsOwn) {
    const device_array<float> sums(std::vector<float>(4, 0.0f));
    run(1, 32, add_to_table, sums.get());
    EXPECT_EQ(sums.download(), std::vector<float>(4, 8.0f));
}

} // namespace
