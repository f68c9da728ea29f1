// SPDX-License-Identifier: MIT
// An allocation of simt's own that fails is an error of the launch with a message. A program of its own, because it
// replaces operator new.
#include "device_array.h"

#include <atomic>
#include <cstdlib>

static std::atomic<int> allocations_left{-1}; // -1: all succeed
static std::atomic<bool> failed{false};

static bool fails() {
    if (allocations_left < 0 || allocations_left-- > 0) return false;
    allocations_left = -1;
    failed = true;
    return true;
}
void *operator new(std::size_t bytes) {
    void *memory = fails() ? nullptr : std::malloc(bytes);
    if (!memory) throw std::bad_alloc();
    return memory;
}
void operator delete(void *memory) noexcept {
    std::free(memory);
}
void operator delete(void *memory, std::size_t) noexcept {
    std::free(memory);
}

namespace {

__global__ void sum_of_lanes(float *sum) {
    atomicAdd(sum, __shfl_xor_sync(~0u, 1.0f, 1));
    __syncthreads();
    atomicAdd(sum, 1.0f);
}
// Counts three lines at once.
__global__ void sum_by_three_lines(float *sum) {
    atomicAdd(sum, 1.0f);
    atomicAdd(sum, 1.0f);
    atomicAdd(sum, 1.0f);
}
__global__ void some_return_early(float *) {
    if (threadIdx.x >= 40) return;
    __shfl_xor_sync(~0u, 1.0f, 1);
}

class Memory : public Simt {};

// Fails the first allocation of a launch, then the second of another, until a launch makes no further one.
int failed_launches(void (*kernel)(float *), cudaError_t otherwise) {
    Device_array<float> sum(1, 0.0f);
    int launches = 0;
    for (int n = 0; n < 1000; n++) {
        simt_set_stack_size((n % 2 + 1) * 65536); // other stacks than those of the launch before
        failed = false;
        testing::internal::CaptureStderr();
        allocations_left = n;
        const cudaError_t status = run(dim3(3), dim3(64), kernel, static_cast<float *>(sum));
        allocations_left = -1;
        const std::string message = testing::internal::GetCapturedStderr();
        cudaGetLastError();
        if (!failed) {
            EXPECT_EQ(status, otherwise);
            return launches;
        }
        // A launch may do with fewer OS threads, or print no name of the kernel.
        if (status == otherwise) continue;
        launches++;
        EXPECT_EQ(status, cudaErrorMemoryAllocation) << n;
        EXPECT_NE(message.find("simt: out of memory: kernel "), std::string::npos) << n << message;
        EXPECT_NE(message.find(std::to_string(64 * 65536 * (n % 2 + 1)) + " bytes of stack for 64 threads"),
                  std::string::npos)
            << n << message;
    }
    ADD_FAILURE() << "a launch makes a thousand allocations";
    return launches;
}

TEST_F(Memory, ThatALaunchDoesNotGetIsAMessageAndAnError) {
    simt_set_threads(1);
    EXPECT_GE(failed_launches(sum_of_lanes, cudaSuccess), 3); // the block, its stacks, its counts
    // and the next launch works
    Device_array<float> sum(1, 0.0f);
    EXPECT_EQ(run(dim3(3), dim3(64), sum_of_lanes, static_cast<float *>(sum)), cudaSuccess);
    EXPECT_EQ(sum[0], 3 * 64 * 2.0f);
}

TEST_F(Memory, ThatALaneDoesNotGetIsAMessageAndAnError) {
    simt_set_threads(1);
    Device_array<float> sum(1, 0.0f);
    ASSERT_EQ(run(dim3(3), dim3(64), sum_of_lanes, static_cast<float *>(sum)),
              cudaSuccess); // has made the stacks
    testing::internal::CaptureStderr();
    allocations_left = 0; // the count of a second line
    EXPECT_EQ(run(dim3(3), dim3(64), sum_by_three_lines, static_cast<float *>(sum)),
              cudaErrorMemoryAllocation);
    EXPECT_TRUE(failed);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("simt: out of memory: kernel "), std::string::npos);
}

TEST_F(Memory, ThatARefusalDoesNotGetIsAMessageAndAnError) {
    simt_set_threads(2);
    EXPECT_GE(failed_launches(some_return_early, cudaErrorLaunchFailure), 5);
}

TEST_F(Memory, ForStacksIsNamedWithItsKernelAndSize) {
    simt_set_stack_size(std::size_t(1) << 45);
    Device_array<float> sum(1, 0.0f);
    testing::internal::CaptureStderr();
    EXPECT_EQ(run(dim3(1), dim3(32), sum_of_lanes, static_cast<float *>(sum)), cudaErrorMemoryAllocation);
    const std::string message = testing::internal::GetCapturedStderr();
    EXPECT_NE(message.find("sum_of_lanes(float*) needs"), std::string::npos) << message;
}

} // namespace
