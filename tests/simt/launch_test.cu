// SPDX-License-Identifier: MIT
// Launches: every thread runs once with its own indices; shared memory; invalid launches.
#include "device_array.h"

#include <cstring>

unsigned cudacc_before();
unsigned cudacc_after();

namespace {

class Launch : public Simt {};

__global__ void mark(int *count, uint3 *where) {
    const dim3 b = blockDim, g = gridDim;
    const unsigned block = (blockIdx.z * g.y + blockIdx.y) * g.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * b.y + threadIdx.y) * b.x + threadIdx.x;
    const unsigned i = block * b.x * b.y * b.z + thread;
    count[i]++;
    where[i] = threadIdx;
    // the lane of a thread is its index in the block modulo 32
    const unsigned lanes =
        __ballot_sync(~0u >> (thread / 32 == b.x * b.y * b.z / 32 ? 32 - b.x * b.y * b.z % 32 : 0), 1);
    if (!(lanes >> thread % 32 & 1)) count[i] = -1;
}

void check_shape(dim3 grid, dim3 block) {
    const unsigned per_block = block.x * block.y * block.z, total = grid.x * grid.y * grid.z * per_block;
    Device_array<int> count(total);
    Device_array<uint3> where(total);
    ASSERT_EQ(run(grid, block, mark, count, where), cudaSuccess);
    for (unsigned i = 0; i < total; i++) {
        const unsigned t = i % per_block;
        ASSERT_EQ(count[i], 1);
        ASSERT_EQ(where[i].x, t % block.x);
        ASSERT_EQ(where[i].y, t / block.x % block.y);
        ASSERT_EQ(where[i].z, t / block.x / block.y);
    }
}

TEST_F(Launch, EveryBlockSize) {
    for (unsigned threads = 1; threads <= 1024; threads++) check_shape(2, threads);
}
TEST_F(Launch, Shapes) {
    check_shape(1, {7, 5, 3});
    check_shape({3, 2, 4}, {16, 16, 1});
    check_shape({5, 1, 1}, {1, 1024, 1});
    check_shape({1, 7, 1}, {4, 4, 64});
    check_shape({1, 1, 9}, {33, 1, 2});
}
TEST_F(Launch, AnyNumberOfThreads) {
    for (int threads : {1, 2, 3, 16}) {
        simt_set_threads(threads);
        EXPECT_EQ(simt_threads(), threads);
        check_shape(100, 64);
        check_shape(2, 64);
    }
}

__global__ void empty() {}

TEST_F(Launch, WrongConfigurations) {
    EXPECT_EQ(run(1, 1024, empty), cudaSuccess);
    EXPECT_EQ(run({1, 65535, 1}, 1, empty), cudaSuccess);
    const dim3 blocks[] = {{1025, 1, 1}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {33, 32, 1}, {1, 1, 65}};
    for (dim3 block : blocks) EXPECT_EQ(run(1, block, empty), cudaErrorInvalidConfiguration);
    const dim3 grids[] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {0x80000000, 1, 1}, {1, 65536, 1}, {1, 1, 65536}};
    for (dim3 grid : grids) EXPECT_EQ(run(grid, 32, empty), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(run(1, 1, static_cast<void (*)()>(nullptr)), cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(simt_refusals(), 0);
}

__global__ void launches(int *error) {
    *error = run(1, 1, empty);
}

TEST_F(Launch, FromAKernelIsNotSupported) {
    Device_array<int> error(1);
    EXPECT_EQ(run(1, 1, launches, error), cudaSuccess);
    EXPECT_EQ(error[0], cudaErrorNotSupported);
}

// ---- shared memory

__global__ void block_sums(int *out, const int *in) {
    __shared__ int part[256];
    const unsigned t = threadIdx.x;
    part[t] = in[blockIdx.x * 256 + t];
    for (unsigned half = 128; half; half /= 2) {
        __syncthreads();
        if (t < half) part[t] += part[t + half];
    }
    if (t == 0) out[blockIdx.x] = part[0];
}

TEST_F(Launch, SharedMemoryIsTheBlocks) {
    const int blocks = 40;
    std::vector<int> in, sums(blocks);
    for (int i = 0; i < blocks * 256; i++) {
        in.push_back(i % 1009);
        sums[std::size_t(i / 256)] += i % 1009;
    }
    Device_array<int> device_in(in);
    under_seeds(3, [&] {
        expect_each(
            blocks, 256, blocks, [&](int b) { return sums[std::size_t(b)]; }, block_sums, device_in);
    });
}

__global__ void use_dynamic(unsigned *out, unsigned bytes) {
    unsigned char *memory = static_cast<unsigned char *>(simt_dynamic_shared());
    unsigned unset = 0;
    for (unsigned i = 0; i < bytes; i++) unset += memory[i] == 0xff;
    for (unsigned i = 0; i < bytes; i++) memory[i] = static_cast<unsigned char>(i);
    out[blockIdx.x] = unset + unsigned(reinterpret_cast<std::uintptr_t>(memory) % 256);
}

__global__ void no_dynamic(bool *null) {
    *null = simt_dynamic_shared() == nullptr;
}

cudaError_t run_dynamic(unsigned *out, std::size_t bytes) {
    cudaLaunchConfig_t config = {};
    config.gridDim = 3;
    config.dynamicSmemBytes = bytes;
    return cudaLaunchKernelEx(&config, use_dynamic, out, unsigned(bytes));
}

TEST_F(Launch, DynamicSharedMemory) {
    Device_array<unsigned> out(3);
    for (unsigned bytes : {1u, 1000u, 48u * 1024}) {
        ASSERT_EQ(run_dynamic(out, bytes), cudaSuccess);
        for (int b = 0; b < 3; b++) EXPECT_EQ(out[b], bytes);
    }
    EXPECT_EQ(run_dynamic(out, 48 * 1024 + 1), cudaErrorInvalidValue);
    EXPECT_EQ(cudaFuncSetAttribute(use_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024 + 1),
              cudaErrorInvalidValue);
    ASSERT_EQ(cudaFuncSetAttribute(use_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024),
              cudaSuccess);
    EXPECT_EQ(run_dynamic(out, 227 * 1024), cudaSuccess);
    EXPECT_EQ(out[2], 227u * 1024);
    EXPECT_EQ(run_dynamic(out, 227 * 1024 + 1), cudaErrorInvalidValue);
    Device_array<bool> null(1); // there is none unless it is asked for
    ASSERT_EQ(run(1, 1, no_dynamic, null), cudaSuccess);
    EXPECT_TRUE(null[0]);
}

// ---- arguments, constants, stacks

struct Wide {
    double a[20];
};
__constant__ float factor[2];

__global__ void arguments(double *out, Wide wide, float x, const int *n) {
    wide.a[0] += 1; // a copy for each thread
    out[threadIdx.x] = wide.a[0] + wide.a[19] * x + *n + factor[1];
}

TEST_F(Launch, ArgumentsAreCopiedForEachThread) {
    Wide wide = {};
    wide.a[0] = 5;
    wide.a[19] = 7;
    Device_array<int> n(1, 1000);
    const float factors[] = {0.25f, 0.5f};
    ASSERT_EQ(cudaMemcpyToSymbol(factor, factors, sizeof factors), cudaSuccess);
    expect_each(
        1, 64, 64, [](int) { return 1020.5; }, arguments, wide, 2, n);
}

__device__ __noinline__ int deep(int depth) {
    volatile char frame[1024];
    frame[depth % 1024] = 1;
    return depth == 0 ? 0 : deep(depth - 1) + frame[depth % 1024];
}
__global__ void use_stack(int *out, int depth) {
    __syncthreads();
    out[threadIdx.x] = deep(depth);
}

TEST_F(Launch, StacksCanBeLarge) {
    simt_set_stack_size(std::size_t(2) << 20);
    expect_each(
        1, 64, 64, [](int) { return 500; }, use_stack, 500);
}

TEST_F(Launch, FilesMayDefineCudacc) {
    EXPECT_EQ(cudacc_before(), 16 + 1000 * 64 * 5u);
    EXPECT_EQ(cudacc_after(), 16 + 1000 * 64 * 5u);
    const simt_counters c = simt_counters_read();
    EXPECT_GT(c.shuffles, 0u); // the path of simt, not a fallback
}

} // namespace
