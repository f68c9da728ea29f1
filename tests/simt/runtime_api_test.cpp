// SPDX-License-Identifier: MIT
// The runtime API: memory, errors, streams and events, from C++ and from C.
#include "device_array.h"

#include <cstring>
#include <thread>

extern "C" const char *use_runtime_api_from_c(void);

namespace {

class RuntimeApi : public Simt {};

TEST_F(RuntimeApi, FromC) {
    EXPECT_STREQ(use_runtime_api_from_c(), nullptr);
}

TEST_F(RuntimeApi, FreshMemoryIsPoisoned) {
    float *memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 1000 * sizeof(float)), cudaSuccess);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
    for (int i = 0; i < 1000; i++) EXPECT_TRUE(std::isnan(memory[i]));
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(RuntimeApi, OutOfMemoryIsAnError) {
    int here;
    void *memory = &here;
    EXPECT_EQ(cudaMalloc(&memory, std::size_t(1) << 60), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaMallocManaged(&memory, std::size_t(1) << 60), cudaErrorMemoryAllocation);
    EXPECT_EQ(memory, nullptr);
    std::size_t free_bytes = 0, total_bytes = 0;
    ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    EXPECT_GT(free_bytes, 0u);
    EXPECT_LE(free_bytes, total_bytes);
    // Linux overcommits, so an allocation of this size would succeed.
    EXPECT_EQ(cudaMalloc(&memory, total_bytes + (std::size_t(1) << 30)), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaMalloc(&memory, 0), cudaSuccess);
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(cudaMalloc(static_cast<void **>(nullptr), 4), cudaErrorInvalidValue);
}

TEST_F(RuntimeApi, ManagedMemoryIsMemoryOfTheHost) {
    float *memory = nullptr;
    ASSERT_EQ(cudaMallocManaged(&memory, 4 * sizeof(float)), cudaSuccess);
    EXPECT_TRUE(std::isnan(memory[3]));
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    ASSERT_EQ(cudaMallocManaged(&memory, sizeof(float), cudaMemAttachHost), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    EXPECT_EQ(cudaMallocManaged(&memory, 0), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMallocManaged(&memory, 4, 4), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(RuntimeApi, Copies) {
    int a[3] = {1, 2, 3}, b[3] = {};
    EXPECT_EQ(cudaMemcpy(b, a, sizeof a, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(std::memcmp(a, b, sizeof a), 0);
    EXPECT_EQ(cudaMemcpy(b, a, sizeof a, static_cast<cudaMemcpyKind>(5)), cudaErrorInvalidMemcpyDirection);
    EXPECT_EQ(cudaMemcpy(nullptr, a, 1, cudaMemcpyDefault), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(cudaMemset(nullptr, 0, 1), cudaErrorInvalidValue);
}

TEST_F(RuntimeApi, ErrorsAreNamed) {
    EXPECT_STREQ(cudaGetErrorName(cudaErrorLaunchFailure), "cudaErrorLaunchFailure");
    EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
    EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST_F(RuntimeApi, LastErrorIsTheThreads) {
    EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
    cudaError_t elsewhere = cudaErrorUnknown;
    std::thread([&] { elsewhere = cudaGetLastError(); }).join();
    EXPECT_EQ(elsewhere, cudaSuccess);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(RuntimeApi, TheDevice) {
    int n = 0;
    EXPECT_EQ(cudaGetDeviceCount(&n), cudaSuccess);
    EXPECT_EQ(n, 1);
    EXPECT_EQ(cudaGetDevice(&n), cudaSuccess);
    EXPECT_EQ(n, 0);
    simt_set_threads(3);
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    EXPECT_STREQ(properties.name, "CPU (simt, 3 threads)");
    EXPECT_EQ(properties.multiProcessorCount, 3);
    EXPECT_EQ(properties.warpSize, 32);
    EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
}

TEST_F(RuntimeApi, EventsTakeTheTime) {
    cudaEvent_t start = nullptr, end = nullptr, untimed = nullptr;
    ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming), cudaSuccess);
    float ms = -1;
    EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
    EXPECT_EQ(cudaEventRecord(start), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(end), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(untimed), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(end), cudaSuccess);
    EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaSuccess);
    EXPECT_TRUE(ms >= 0 && ms < 1000);
    EXPECT_EQ(cudaEventElapsedTime(&ms, start, untimed), cudaErrorInvalidResourceHandle);
    for (cudaEvent_t e : {start, end, untimed}) EXPECT_EQ(cudaEventDestroy(e), cudaSuccess);
}

} // namespace
