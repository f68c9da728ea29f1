// SPDX-License-Identifier: MIT
// Refusals: provokes each, checks its message, and that later launches work.
#include "device_array.h"

#include <atomic>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstring>
#include <functional>

namespace cg = cooperative_groups;

// The lines of the wrong calls, set by the kernels.
static std::atomic<int> line[4];
#define AT(n, call) (line[n] = __LINE__, call)

// Outside the anonymous namespace, so that the kernels' names are short.
namespace wrong {

__global__ void empty_mask() {
    AT(0, __any_sync(0, 1));
}
__device__ auto warp() {
    return cg::tiled_partition<32>(cg::this_thread_block());
}
template <typename T>
__global__ void outside_own_mask(T *) {
    if (blockIdx.x == 2 && blockIdx.y == 1 && threadIdx.x == 40 && threadIdx.y == 0)
        AT(0, __syncwarp(0x00000001));
}
__global__ void different_masks() {
    if (threadIdx.x < 4)
        AT(0, __any_sync(0x000000ff, 1));
    else
        AT(1, __any_sync(0xffffffff, 1));
}
__global__ void different_collectives() {
    if (threadIdx.x % 2)
        AT(0, __shfl_xor_sync(0xffffffff, 1.0f, 1));
    else
        AT(1, __shfl_down_sync(0xffffffff, 1.0f, 1));
}
__global__ void different_types() {
    if (threadIdx.x % 2)
        AT(0, __shfl_sync(0xffffffff, 1.0f, 1));
    else
        AT(1, __shfl_sync(0xffffffff, 1, 1));
}
__global__ void odd_width(int width) {
    AT(0, __shfl_sync(0xffffffff, 1, 0, width));
}
__global__ void barrier_in_a_branch() {
    if (threadIdx.x < 32)
        AT(0, __syncthreads());
    else
        AT(1, __syncthreads_or(1));
}
__global__ void barrier_and_elsewhere() {
    if (threadIdx.x < 20)
        AT(0, __syncthreads());
    else
        AT(1, __syncwarp());
}
__global__ void spin(int *cell) {
    if (threadIdx.x == 7)
        while (AT(0, atomicAdd(cell, 0)) == 0) {
        }
    AT(1, __syncwarp());
}
__global__ void misaligned(char *bytes) {
    if (threadIdx.x == 2) AT(0, atomicAdd(reinterpret_cast<float *>(bytes + 2), 1.0f));
}
__global__ void in_some_blocks() {
    if (blockIdx.x == 11 || blockIdx.x >= 20)
        if (threadIdx.x == 3) __syncwarp(1);
    __syncthreads();
}
// Block 1 waits for block 0, which is refused while it does.
__global__ void waits_for_block_0(int *begun, int *never) {
    if (blockIdx.x == 0) {
        while (atomicAdd(begun, 0) == 0) {
        }
        __syncwarp(2);
    }
    atomicExch(begun, 1);
    while (atomicAdd(never, 0) == 0) {
    }
}
static __global__ void unexported(int *) {
    __syncwarp(0);
}

// ---- cooperative groups

__global__ void any_group_sync_after_exit() {
    const cg::thread_group group = cg::tiled_partition(cg::this_thread_block(), 16);
    if (threadIdx.x == 17) return;
    AT(0, group.sync());
}
__global__ void tile_sync_in_a_branch() {
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    if (tile.thread_rank() == 5 && tile.meta_group_rank() == 1) return;
    AT(0, tile.sync());
}
__global__ void rank_beyond_the_group() {
    const auto group = cg::binary_partition(warp(), threadIdx.x < 4);
    if (threadIdx.x < 4) AT(0, group.shfl(1, 4));
}

} // namespace wrong

namespace {

__global__ void right(int *out) {
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = __shfl_xor_sync(0xffffffff, int(threadIdx.x), 1);
}

class Refusal : public Simt {
  protected:
    // Makes a launch that must be refused, under several schedules; returns the message.
    static std::string refused(const std::function<cudaError_t()> &launch) {
        std::string message;
        for (std::uint64_t seed : {3, 2, 1, 0}) {
            simt_set_seed(seed);
            simt_refusal_clear();
            testing::internal::CaptureStderr();
            EXPECT_EQ(launch(), cudaErrorLaunchFailure);
            message = simt_refusal();
            EXPECT_EQ(testing::internal::GetCapturedStderr(), message);
            EXPECT_EQ(simt_refusals(), 1);
            // The error persists until it is read. Then launches work again.
            EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
            EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
            EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
            Device_array<int> out(4 * 96, -1);
            EXPECT_EQ(run(4, 96, right, out), cudaSuccess);
            for (int t = 0; t < 4 * 96; t++) EXPECT_EQ(out[t], t % 96 ^ 1);
            EXPECT_STREQ(simt_refusal(), message.c_str());
        }
        return message;
    }
};

// What is refused, and parts of the message: {n} stands for the file and line of call n.
struct wrong_launch {
    const char *name;
    std::function<cudaError_t()> launch;
    std::vector<std::string> says;
};
#define LAUNCH(...) [] { return run(__VA_ARGS__); }
// A block whose lanes of `condition` make a wrong call.
#define WHERE(threads, condition, call)                                                                      \
    [] {                                                                                                     \
        return run(                                                                                          \
            1, threads, +[] {                                                                                \
                if (condition) AT(0, call);                                                                  \
            });                                                                                              \
    }
const wrong_launch wrong_launches[] = {
    {"LaneOutsideItsOwnMask",
     LAUNCH({3, 2, 1}, {48, 2, 1}, wrong::outside_own_mask<float>, nullptr),
     {"simt: refused: a lane is not in its own mask: lane 8 calls __syncwarp with mask 0x00000001\n",
      "kernel void wrong::outside_own_mask<float>(float*)\n",
      "block (2, 1, 0) of grid (3, 2, 1), (48, 2, 1) threads\n", "warp 1, lane 8: running, {0}\n",
      "warp 1, lanes 9-31: not started\n"}},
    {"EmptyMask",
     LAUNCH(1, 32, wrong::empty_mask),
     {"a lane is not in its own mask: lane 0 calls __any_sync with mask 0x00000000\n",
      "kernel wrong::empty_mask()\n", "warp 0, lane 0: running, {0}\n"}},
    {"MaskBeyondTheBlock",
     WHERE(41, true, __ballot_sync(0xffffffff, 1)),
     {"a mask contains lanes beyond the block's last thread: lane 0 calls __ballot_sync with mask 0xffffffff, but the warp "
      "does not have lanes 9-31\n",
      "warp 1, lane 0: running, {0}\n"}},
    {"DifferentMasks",
     LAUNCH(1, 32, wrong::different_masks),
     {"lanes wait for each other with different masks: warp 0, lanes 0-3 and lanes 4-31\n",
      "warp 0, lanes 0-3: waits at __any_sync with mask 0x000000ff, {0}\n",
      "warp 0, lanes 4-31: waits at __any_sync with mask 0xffffffff, {1}\n"}},
    {"DifferentCollectives",
     LAUNCH(1, 4 * 32, wrong::different_collectives),
     {"lanes wait for each other at different collectives: warp 0, ",
      "warp 0, lanes 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31: waits at __shfl_xor_sync(float) with mask "
      "0xffffffff, {0}\n",
      "30: waits at __shfl_down_sync(float) with mask 0xffffffff, {1}\n"}},
    {"DifferentTypes",
     LAUNCH(1, 32, wrong::different_types),
     {"lanes wait for each other at different collectives: warp 0, ",
      "waits at __shfl_sync(float) with mask 0xffffffff, {0}\n",
      "waits at __shfl_sync(int) with mask 0xffffffff, {1}\n"}},
    {"ShuffleFromAnAbsentLane",
     WHERE(32, threadIdx.x < 16, __shfl_down_sync(0x0000ffff, 1, 4)),
     {"a shuffle reads absent lanes: lanes 12-15 from lanes 16-19, outside the mask\n",
      "warp 0, lanes 0-15: waits at __shfl_down_sync(int) with mask 0x0000ffff, {0}\n",
      "warp 0, lanes 16-31: not started\n"}},
    {"ShuffleFromBeyondTheBlock",
     WHERE(16, true, __shfl_xor_sync(0x0000ffff, 1, 16)),
     {"a shuffle reads absent lanes: lanes 0-15 from lanes 16-31, beyond the block's last thread\n",
      "{0}\n"}},
    {"ShuffleFromAnExitedLane",
     WHERE(32, threadIdx.x != 5, __shfl_sync(0xffffffdf, 1, 5)),
     {"a shuffle reads absent lanes: lanes 0-4, 6-31 from lane 5, outside the mask\n",
      "warp 0, lane 5: exited\n",
      "warp 0, lanes 0-4, 6-31: waits at __shfl_sync(int) with mask 0xffffffdf, {0}\n"}},
    {"MaskNamesExitedLanes",
     WHERE(64, threadIdx.x < 60, __reduce_add_sync(0xffffffff, 1)),
     {"a mask contains exited lanes: warp 1, lanes 0-27 at __reduce_add_sync(int) cannot wait for lanes 28-31\n",
      "warp 1, lanes 0-27: waits at __reduce_add_sync(int) with mask 0xffffffff, {0}\n",
      "warp 1, lanes 28-31: exited\n"}},
    {"DifferentWidths",
     WHERE(32, true, __shfl_sync(0xffffffff, 1, 0, threadIdx.x < 3 ? 8 : 16)),
     {"lanes of one shuffle pass different widths\n",
      "warp 0, lanes 0-31: waits at __shfl_sync(int) with mask 0xffffffff, {0}\n"}},
    {"BarrierAfterExit",
     WHERE(96, threadIdx.x >= 33, cg::this_thread_block().sync()),
     {"a divergent barrier: some lanes of the block wait at it, others have exited\n",
      "warp 0, lanes 0-31: exited\n", "warp 1, lane 0: exited\n",
      "warp 1, lanes 1-31: waits at __syncthreads, {0}\n",
      "warp 2, lanes 0-31: waits at __syncthreads, {0}\n"}},
    {"DifferentBarriers",
     LAUNCH(1, 160, wrong::barrier_in_a_branch),
     {"a divergent barrier: lanes of the block wait at different kinds of barrier\n",
      "warp 0, lanes 0-31: waits at __syncthreads, {0}\n",
      "warps 1-4, lanes 0-31: waits at __syncthreads_or, {1}\n"}},
    {"BarrierWhileOthersWaitElsewhere",
     LAUNCH(1, 32, wrong::barrier_and_elsewhere),
     {"a divergent barrier: some lanes of the block wait at it, others wait elsewhere\n",
      "warp 0, lanes 0-19: waits at __syncthreads, {0}\n",
      "warp 0, lanes 20-31: waits at __syncwarp with mask 0xffffffff, {1}\n"}},
    // Lane i waits for lane (i + 1) mod 3: a cycle in which no two lanes wait for each other.
    {"Deadlock",
     WHERE(32, threadIdx.x < 3, __syncwarp(1u << threadIdx.x | 1u << (threadIdx.x + 1) % 3)),
     {"a deadlock: every lane waits for another\n",
      "warp 0, lane 0: waits at __syncwarp with mask 0x00000003, {0}\n",
      "warp 0, lane 1: waits at __syncwarp with mask 0x00000006, {0}\n",
      "warp 0, lane 2: waits at __syncwarp with mask 0x00000005, {0}\n", "warp 0, lanes 3-31: exited\n"}},
    {"Livelock",
     [] {
         simt_set_step_limit(20000);
         Device_array<int> cell(1);
         const cudaError_t error = run(1, 32, wrong::spin, static_cast<int *>(cell));
         simt_set_step_limit(std::uint64_t(1) << 32);
         return error;
     },
     {"a livelock: the block exceeded its limit of 20000 steps\n", "warp 0, lane 7: running, {0}\n",
      "warp 0, lanes 0-6, 8-31: waits at __syncwarp with mask 0xffffffff, {1}\n"}},
    {"Trap",
     WHERE(32, threadIdx.x == 9, __trap()),
     {"__trap() was called\n", "warp 0, lane 9: running, {0}\n"}},
    {"MisalignedAtomic",
     [] {
         Device_array<char> bytes(8);
         return run(1, 32, wrong::misaligned, static_cast<char *>(bytes));
     },
     {"an atomic on a misaligned address\n", "warp 0, lane 2: running, {0}\n"}},
    {"StaticKernelsAreNamed", LAUNCH(1, 1, wrong::unexported, nullptr), {"kernel wrong::unexported(int*)\n"}},
    {"BarrierOfAGroupInABranch",
     WHERE(32, threadIdx.x != 7, cg::this_thread_block().sync()),
     {"a divergent barrier: some lanes of the block wait at it, others have exited", "{0}"}},
    {"BarrierOfADynamicTileAfterExit",
     LAUNCH(1, 32, wrong::any_group_sync_after_exit),
     {"a mask contains exited lanes: warp 0, lanes 16, 18-31 at __syncwarp cannot wait for lane 17", "{0}"}},
    {"BarrierOfATileAfterExit",
     LAUNCH(1, 32, wrong::tile_sync_in_a_branch),
     {"a mask contains exited lanes: warp 0, lanes 8-12, 14-15 at __syncwarp cannot wait for lane 13",
      "{0}"}},
    {"ReduceAfterExit",
     WHERE(64, threadIdx.x < 50, cg::reduce(wrong::warp(), 1.0f, cg::plus<float>())),
     {"a mask contains exited lanes: warp 1, lanes 0-17 at __shfl_xor_sync(float) cannot wait for lanes 18-31",
      "{0}"}},
    {"ReduxAfterExit",
     WHERE(64, threadIdx.x < 50, cg::reduce(wrong::warp(), 1, cg::plus<int>())),
     {"a mask contains exited lanes: warp 1, lanes 0-17 at __reduce_add_sync(int) cannot wait for lanes 18-31",
      "{0}"}},
    {"TileBeyondTheBlock",
     WHERE(40, true, wrong::warp().shfl(1, 0)),
     {"a mask contains lanes beyond the block's last thread: lane", "{0}"}},
    {"LabeledPartitionInABranch",
     WHERE(32, threadIdx.x < 12, cg::labeled_partition(wrong::warp(), 3)),
     {"lanes 0-11 at __match_any_sync(int) cannot wait for lanes 12-31", "{0}"}},
    {"RankBeyondTheGroup",
     LAUNCH(1, 32, wrong::rank_beyond_the_group),
     {"coalesced_group::shfl from a rank beyond the group", "{0}"}},
    {"BarrierOfTheGrid",
     WHERE(32, true, cg::this_grid().sync()),
     {"a barrier of the grid: the launch is not cooperative", "{0}"}},
};

#define EXPECT_SAYS(message, text)                                                                           \
    EXPECT_NE((message).find(text), std::string::npos) << "looked for: " << (text) << "\nin: " << (message)

class Refusals : public Refusal, public testing::WithParamInterface<wrong_launch> {};
INSTANTIATE_TEST_SUITE_P(Of, Refusals, testing::ValuesIn(wrong_launches),
                         [](const auto &info) { return std::string(info.param.name); });
TEST_P(Refusals, SaysWhatAndWhere) {
    const std::string message = refused(GetParam().launch);
    for (std::string text : GetParam().says) {
        const std::size_t at = text.find('{');
        if (at != std::string::npos)
            text.replace(at, 3, std::string(__FILE__) + ":" + std::to_string(line[text[at + 1] - '0']));
        EXPECT_SAYS(message, text);
    }
}

TEST_F(Refusal, WidthThatIsNoPowerOfTwo) {
    for (int width : {0, 3, 33, 64, -1}) {
        const std::string m = refused([=] { return run(1, 32, wrong::odd_width, width); });
        EXPECT_SAYS(m, "a shuffle of width " + std::to_string(width) +
                           ": the width must be a power of two from 1 to 32\n");
        EXPECT_SAYS(m, "warp 0, lanes 0-31: waits at __shfl_sync(int) with mask 0xffffffff, " __FILE__ ":" +
                           std::to_string(line[0]) + "\n");
    }
}
TEST_F(Refusal, OfTheFirstBlockWhateverTheThreads) {
    for (int threads : {1, 2, 7}) {
        simt_set_threads(threads);
        const std::string m = refused(LAUNCH(50, 64, wrong::in_some_blocks));
        EXPECT_SAYS(m, "block (11, 0, 0) of grid (50, 1, 1)");
    }
}
TEST_F(Refusal, EndsBlocksThatWaitForTheRefusedOne) {
    simt_set_threads(2);
    for (int i = 0; i < 3; i++) {
        Device_array<int> begun(1, 0), never(1, 0);
        testing::internal::CaptureStderr();
        EXPECT_EQ(run(2, 1, wrong::waits_for_block_0, begun, never), cudaErrorLaunchFailure);
        EXPECT_EQ(testing::internal::GetCapturedStderr(), simt_refusal());
    }
    const std::string m = simt_refusal();
    EXPECT_SAYS(m, "block (0, 0, 0) of grid (2, 1, 1)");
}
TEST_F(Refusal, CountsAndClears) {
    testing::internal::CaptureStderr();
    for (int i = 0; i < 3; i++) EXPECT_EQ(run(1, 1, wrong::empty_mask), cudaErrorLaunchFailure);
    EXPECT_EQ(simt_refusals(), 3);
    simt_refusal_clear();
    EXPECT_EQ(simt_refusals(), 0);
    EXPECT_STREQ(simt_refusal(), "");
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    testing::internal::GetCapturedStderr();
}

} // namespace
