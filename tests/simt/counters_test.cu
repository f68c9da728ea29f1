// SPDX-License-Identifier: MIT
// Counters, on kernels small enough to count by hand; the same for all seeds and numbers of threads.
#include "device_array.h"

namespace {

class Counters : public Simt {};

// expected: shuffles, votes, matches, reductions; syncs of warps, barriers; requests, instructions and bytes of atomics.
template <typename Run>
void check(Run launch, const simt_counters &expected) {
    for (std::uint64_t seed : {0, 1, 2, 3, 4, 5})
        for (int threads : {1, 3}) {
            simt_set_seed(seed);
            simt_set_threads(threads);
            simt_counters_reset();
            ASSERT_EQ(launch(), cudaSuccess);
            const simt_counters c = simt_counters_read();
            SCOPED_TRACE(seed);
            using count = decltype(simt_counters::shuffles) simt_counters::*;
            for (const count each : {&simt_counters::shuffles, &simt_counters::votes, &simt_counters::matches,
                                     &simt_counters::reductions, &simt_counters::warp_syncs,
                                     &simt_counters::barriers, &simt_counters::atomic_requests,
                                     &simt_counters::atomic_instructions, &simt_counters::atomic_bytes})
                ASSERT_EQ(c.*each, expected.*each);
        }
}

__global__ void one_of_each(int *out) {
    const unsigned mask = threadIdx.x < 64 ? 0xffffffff : 0xff; // 72 threads: three warps
    const int v = int(threadIdx.x);
    int sum = __shfl_sync(mask, v, 0) + __shfl_xor_sync(mask, v, 1);
    sum += __all_sync(mask, v) + __any_sync(mask, v) + int(__ballot_sync(mask, v));
    int same;
    sum += int(__match_any_sync(mask, v) + __match_all_sync(mask, v, &same));
    sum += __reduce_add_sync(mask, v);
    __syncwarp(mask);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum + __syncthreads_count(v);
}

TEST_F(Counters, CollectivesCountOnceAWarp) {
    Device_array<int> out(5 * 72);
    const std::uint64_t warps = 5 * 3;
    check([&] { return run(5, 72, one_of_each, out); },
          {warps * 2, warps * 6, warps * 2, warps, warps, 5 * 2, 0, 0, 0});
}

__global__ void two_masks(int *out) {
    const int lane = int(threadIdx.x);
    if (lane < 8)
        out[lane] = __shfl_xor_sync(0xff, lane, 1);
    else
        for (int i = 0; i < 3; i++) out[lane] = __shfl_xor_sync(0xffffff00, lane, 2);
}

TEST_F(Counters, MasksCountApart) {
    Device_array<int> out(32);
    check([&] { return run(1, 32, two_masks, out); }, {1 + 3, 0, 0, 0, 0, 0, 0, 0, 0});
}

__global__ void adds(float *f, double *d) {
    const unsigned lane = threadIdx.x % 32;
    atomicAdd(&f[lane], 1.0f);                                 // one instruction a warp
    if (lane < 5) atomicAdd(&f[0], 1.0f);                      // one, for five lanes
    for (unsigned i = 0; i < lane % 4; i++) atomicAdd(d, 1.0); // three: the longest loop
}

TEST_F(Counters, AtomicsOfAWarpAreOneInstruction) {
    Device_array<float> f(32, 0.0f);
    Device_array<double> d(1, 0.0);
    const std::uint64_t warps = 2 * 2;
    check([&] { return run(2, 64, adds, f, d); },
          {0, 0, 0, 0, 0, 0, warps * (32 + 5 + 48), warps * (1 + 1 + 3), warps * (4 * 37 + 8 * 48)});
}

// A meeting resets the number of executions of a line.
__global__ void between_meetings(float *f) {
    const int lane = int(threadIdx.x);
    for (int i = 0; i < 4; i++) {
        if (lane % 4 == i) atomicAdd(f, 1.0f);
        __syncwarp();
    }
    for (int i = 0; i < 4; i++) {
        if (lane % 4 == i) atomicAdd(f, 1.0f);
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        if (lane % 4 == i) atomicAdd(f, 1.0f); // one: without a meeting it is the first of each lane
}

TEST_F(Counters, MeetingsSeparateInstructions) {
    Device_array<float> f(1, 0.0f);
    check([&] { return run(1, 32, between_meetings, f); }, {0, 0, 0, 0, 4, 4, 3 * 32, 4 + 4 + 1, 4 * 3 * 32});
}

// Lanes with different last meetings issue separate instructions until they meet again. Some lanes exit.
__global__ void apart(float *f) {
    const int lane = int(threadIdx.x);
    if (lane < 16) __syncwarp(0x0000ffff);
    if (lane >= 16) {
        __syncwarp(0xffff0000);
        __syncwarp(0xffff0000);
    }
    atomicAdd(f, 1.0f); // two
    __syncwarp();
    atomicAdd(f, 1.0f); // one
    if (lane >= 16) return;
    __syncwarp(0x0000ffff);
    atomicAdd(f, 1.0f); // one
}

TEST_F(Counters, LanesThatMetApart) {
    Device_array<float> f(1, 0.0f);
    check([&] { return run(1, 32, apart, f); }, {0, 0, 0, 0, 5, 0, 32 + 32 + 16, 2 + 1 + 1, 4 * 80});
}

TEST_F(Counters, AddUpUntilReset) {
    Device_array<int> out(32);
    for (std::uint64_t n = 1; n <= 3; n++) {
        ASSERT_EQ(run(1, 32, two_masks, out), cudaSuccess);
        EXPECT_EQ(simt_counters_read().shuffles, 4 * n);
    }
    simt_set_counting(false);
    ASSERT_EQ(run(1, 32, two_masks, out), cudaSuccess);
    EXPECT_EQ(simt_counters_read().shuffles, 12u);
    simt_counters_reset();
    EXPECT_EQ(simt_counters_read().shuffles, 0u);
}

} // namespace
