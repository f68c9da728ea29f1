// SPDX-License-Identifier: MIT
// Keys of 64 bits keep all their bits, single halves may have any place and alignment, and a sink of the caller's may have
// a base.

#include "device_test.cuh"
#include <distwar/half.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <stdint.h>

namespace {

using namespace distwar;

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
