// SPDX-License-Identifier: MIT
// The full product of masks, numbers of active lanes, numbers of keys and thresholds, for every strategy, for reduce and
// many K: every sum is exact, so a lane that is lost or counted twice is found. A GPU runs
// all cases, simt one of every 1009.

#include "device_test.cuh"
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

namespace {

using distwar::strategy;
constexpr strategy ONE_CALL =
    strategy::cub; // stands for reduce without a strategy, which has none of this name

enum { MASKS = 12, ACTIVE_COUNTS = 33, KEY_COUNTS = 32, THRESHOLDS = 34 };
constexpr unsigned CASES = MASKS * ACTIVE_COUNTS * KEY_COUNTS * THRESHOLDS;
constexpr int BLOCK = 128;

__device__ unsigned scramble(unsigned x) { // a bijection of 32 bits
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

__device__ unsigned mask_of(unsigned kind) {
    const unsigned fixed[] = {0xffffffff, 0x0000ffff, 0xffff0000, 0x55555555,
                              0x00000001, 0x80000000, 0x7fffffff};
    return kind < 7 ? fixed[kind] : scramble(kind) | 1u << kind;
}

__device__ float value_of(unsigned number, unsigned lane, int k) {
    return float(1 + (lane * 37 + unsigned(k) * 11 + number) % 251); // sums of 32 are exact
}

// The active lanes: min(count, lanes in the mask) of them, at places that depend on the number of the case.
__device__ unsigned active_of(unsigned mask, unsigned count, unsigned number) {
    unsigned active = 0;
    for (unsigned i = 0; i < 32 && unsigned(__popc(active)) < count; i++)
        active |= mask & 1u << (i * 13 + scramble(number)) % 32;
    return active;
}

// The warps of the grid take the cases 0, stride, 2 * stride, ... in turn. scratch: 32 records of K + 1
// floats for each warp, zeros before and after.
template <strategy S, int K>
__global__ void __launch_bounds__(BLOCK) try_cases(unsigned stride, float *scratch, unsigned *wrong) {
    const unsigned warp = (blockIdx.x * BLOCK + threadIdx.x) / 32, warps = gridDim.x * BLOCK / 32;
    const unsigned lane = threadIdx.x % 32;
    float *const records = scratch + size_t(warp) * 32 * (K + 1);
    for (unsigned number = warp * stride; number < CASES; number += warps * stride) {
        unsigned rest = number;
        const int threshold = int(rest % THRESHOLDS);
        const unsigned keys = 1 + (rest /= THRESHOLDS) % KEY_COUNTS;
        const unsigned count = (rest /= KEY_COUNTS) % ACTIVE_COUNTS;
        const unsigned lanes = mask_of(rest / ACTIVE_COUNTS), active = active_of(lanes, count, number);
        const auto key_of = [=](unsigned of_lane) { // at random, or they rise from lane to lane
            return int((number % 3 == 0 ? of_lane : scramble(number ^ of_lane << 20)) % keys);
        };
        if (lanes >> lane & 1) {
            float val[K];
            for (int k = 0; k < K; k++) val[k] = value_of(number, lane, k);
            const distwar::record<float> sink = {records, K + 1};
            if constexpr (S == ONE_CALL)
                distwar::reduce(lanes, active >> lane & 1, key_of(lane), val, sink);
            else
                distwar::reduce<S>(lanes, active >> lane & 1, key_of(lane), val, sink, threshold);
        }
        __syncwarp();
        bool right = true;
        for (int k = 0; k <= K; k++) {
            float expected = 0;
            for (unsigned other = 0; other < 32 && k < K; other++)
                if (active >> other & 1 && key_of(other) == int(lane)) expected += value_of(number, other, k);
            const unsigned found = atomicExch(reinterpret_cast<unsigned *>(records + lane * (K + 1) + k), 0u);
            right = right && __uint_as_float(found) == expected;
        }
        if (!right) atomicAdd(wrong, 1u);
        __syncwarp();
    }
}

template <strategy S, int... Ks>
void try_all() {
#ifdef __CUDACC__
    const unsigned stride = 1, blocks = 1056;
#else
    const unsigned stride = 1009, blocks = 4; // 1009 is prime: every level of every factor occurs
#endif
    const auto try_k = [=](auto kernel, int k) {
        const device_array<float> scratch(size_t(blocks) * BLOCK * (k + 1), {});
        const device_array<unsigned> wrong(1, {});
        run(blocks, BLOCK, kernel, stride, scratch.get(), wrong.get());
        EXPECT_EQ(wrong.download()[0], 0u) << "lanes with wrong sums, K = " << k;
    };
    (try_k(try_cases<S, Ks>, Ks), ...);
}

TEST(Product, Atomic) {
    try_all<strategy::atomic, 1, 9>();
}
TEST(Product, Serial) {
    try_all<strategy::serial, 1, 2, 3, 4, 5, 8, 9, 16>();
}
TEST(Product, Bfly) {
    try_all<strategy::bfly, 1, 2, 3, 4, 5, 8, 9, 16>();
}
TEST(Product, Tree) {
    try_all<strategy::tree, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 32, 33, 48, 64>();
}
TEST(Product, OneCall) {
    try_all<ONE_CALL, 1, 4, 9>();
}

} // namespace
