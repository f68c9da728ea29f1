// SPDX-License-Identifier: MIT
// Atomics: effect and return value of each; none is lost, within a block and between blocks.
#include "device_array.h"

#include <algorithm>
#include <limits>

namespace {

class Atomics : public Simt {};

template <typename T>
__global__ void apply(T *cells, T *old, T value) {
    int i = 0;
    old[i] = atomicAdd(&cells[i], value), i++;
    old[i] = atomicExch(&cells[i], value), i++;
    old[i] = atomicCAS(&cells[i], cells[i], value), i++;
    old[i] = atomicCAS(&cells[i], T(~cells[i]), value), i++;
    old[i] = atomicMin(&cells[i], value), i++;
    old[i] = atomicMax(&cells[i], value), i++;
    old[i] = atomicAnd(&cells[i], value), i++;
    old[i] = atomicOr(&cells[i], value), i++;
    old[i] = atomicXor(&cells[i], value), i++;
    old[i] = atomicAdd_block(&cells[i], value), i++;
    old[i] = atomicAdd_system(&cells[i], value), i++;
    old[i] = atomicCAS_block(&cells[i], cells[i], value), i++;
    old[i] = atomicCAS_system(&cells[i], cells[i], value), i++;
}

template <typename T>
void check_integer() {
    const T big = std::numeric_limits<T>::max(), small = std::numeric_limits<T>::min();
    for (T a : {T(0), T(6), big, small})
        for (T b : {T(1), T(12), big, small}) {
            Device_array<T> cells(13, a), old(13);
            ASSERT_EQ(run(1, 1, apply<T>, cells, old, b), cudaSuccess);
            const T sum = T((unsigned long long)a + (unsigned long long)b);
            const T expected[] = {
                sum, b, b, a, std::min(a, b), std::max(a, b), T(a & b), T(a | b), T(a ^ b), sum, sum, b, b};
            for (int i = 0; i < 13; i++) {
                ASSERT_EQ(cells[i], expected[i]) << i;
                ASSERT_EQ(old[i], a) << i;
            }
        }
}

TEST_F(Atomics, IntegersOfEachType) {
    check_integer<int>();
    check_integer<unsigned>();
    check_integer<unsigned long long>();
}

__global__ void wrap(unsigned *cells, unsigned limit, float *exchanged) {
    if (threadIdx.x == 0) exchanged[1] = atomicExch(exchanged, 2.5f);
    atomicInc(&cells[0], limit);
    atomicDec(&cells[1], limit);
    atomicSub(reinterpret_cast<int *>(&cells[2]), 5);
}

TEST_F(Atomics, IncAndDecWrapAtTheLimitAndSubDoesNot) {
    Device_array<unsigned> cells(3, 0u);
    Device_array<float> exchanged(2, 1.5f);
    ASSERT_EQ(run(1, 10, wrap, cells, 3, exchanged), cudaSuccess);
    EXPECT_EQ(exchanged[0], 2.5f);
    EXPECT_EQ(exchanged[1], 1.5f);
    EXPECT_EQ(cells[0], 10u % 4);
    EXPECT_EQ(cells[1], (40u - 10) % 4);
    EXPECT_EQ(int(cells[2]), -50);
}

template <typename T>
__global__ void sum(T *cells, int n) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 20; i++) atomicAdd(&cells[(t + unsigned(i)) % unsigned(n)], T(1));
}

template <typename T>
void check_sum() {
    for (std::uint64_t seed : {0, 1, 2})
        for (int threads : {1, 4}) {
            simt_set_seed(seed);
            simt_set_threads(threads);
            Device_array<T> cells(7, T(0));
            ASSERT_EQ(run(50, 96, sum<T>, cells, 7), cudaSuccess);
            T total = 0;
            for (int i = 0; i < 7; i++) total += cells[i];
            ASSERT_EQ(total, T(50 * 96 * 20));
        }
}

TEST_F(Atomics, NoneIsLost) {
    check_sum<int>();
    check_sum<unsigned>();
    check_sum<unsigned long long>();
    check_sum<float>();
    check_sum<double>();
}

// A sum through compare-and-swap, on 2-byte cells side by side in one word.
__global__ void cas_sum(unsigned short *cells) {
    unsigned short *cell = &cells[threadIdx.x % 2];
    unsigned short seen = *static_cast<volatile unsigned short *>(cell), before;
    do {
        before = seen;
        seen = atomicCAS(cell, before, static_cast<unsigned short>(before + 1));
    } while (seen != before);
}

TEST_F(Atomics, TwoByteCompareAndSwap) {
    under_seeds(10, [] {
        Device_array<unsigned short> cells(std::vector<unsigned short>{0, 0, 9});
        ASSERT_EQ(run(40, 64, cas_sum, cells), cudaSuccess);
        EXPECT_EQ(cells[0], 40 * 32);
        EXPECT_EQ(cells[1], 40 * 32);
        EXPECT_EQ(cells[2], 9);
    });
}

// Blocks that wait for earlier blocks through atomics. Earlier blocks have started, so the kernel ends.
__global__ void chain(int *turn, int *order) {
    while (atomicAdd(turn, 0) != int(blockIdx.x)) {
    }
    order[blockIdx.x] = int(blockIdx.x);
    __threadfence();
    atomicAdd(turn, 1);
}

TEST_F(Atomics, BlocksMayWaitForEarlierOnes) {
    for (int threads : {1, 4}) {
        simt_set_threads(threads);
        Device_array<int> turn(1), order(64, -1);
        ASSERT_EQ(run(64, 1, chain, turn, order), cudaSuccess);
        for (int b = 0; b < 64; b++) EXPECT_EQ(order[b], b);
    }
}

} // namespace
