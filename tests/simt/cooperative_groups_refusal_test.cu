// SPDX-License-Identifier: MIT
// Wrong uses of cooperative groups, which simt refuses.
#include "device_array.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <atomic>
#include <cstdint>

namespace cg = cooperative_groups;

// The line of the wrong call, set by the kernel.
static std::atomic<int> line;
#define AT(call) (line = __LINE__, call)

namespace wrong {

__global__ void block_sync_in_a_branch() {
    const cg::thread_block block = cg::this_thread_block();
    if (threadIdx.x != 7) AT(block.sync());
}
__global__ void any_group_sync_after_exit() {
    const cg::thread_group group = cg::tiled_partition(cg::this_thread_block(), 16);
    if (threadIdx.x == 17) return;
    AT(group.sync());
}
__global__ void tile_sync_in_a_branch() {
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    if (tile.thread_rank() == 5 && tile.meta_group_rank() == 1) return;
    AT(tile.sync());
}
__global__ void reduce_after_exit(int n) {
    if (int(threadIdx.x) >= n) return;
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    AT(cg::reduce(warp, 1.0f, cg::plus<float>()));
}
__global__ void redux_after_exit(int n) {
    if (int(threadIdx.x) >= n) return;
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    AT(cg::reduce(warp, 1, cg::plus<int>()));
}
__global__ void tile_beyond_the_block() {
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    AT(tile.shfl(1, 0));
}
__global__ void labels_in_a_branch() {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    if (threadIdx.x < 12) AT(cg::labeled_partition(warp, 3));
}
__global__ void rank_beyond_the_group() {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const auto group = cg::binary_partition(warp, threadIdx.x < 4);
    if (threadIdx.x < 4) AT(group.shfl(1, 4));
}
__global__ void grid_sync() {
    AT(cg::this_grid().sync());
}

} // namespace wrong

namespace {

class WrongGroups : public Simt {
  protected:
    template <typename... Parameters, typename... Arguments>
    std::string refused(dim3 block, void (*kernel)(Parameters...), Arguments &&...arguments) {
        std::string message;
        for (std::uint64_t seed : {3, 2, 1, 0}) {
            simt_set_seed(seed);
            testing::internal::CaptureStderr();
            EXPECT_EQ(run(1, block, kernel, arguments...), cudaErrorLaunchFailure);
            message = simt_refusal();
            EXPECT_EQ(testing::internal::GetCapturedStderr(), message);
            EXPECT_NE(message.find("cooperative_groups_refusal_test.cu:" + std::to_string(line)),
                      std::string::npos)
                << message;
            cudaGetLastError();
        }
        return message;
    }
};

#define EXPECT_SAYS(message, text) EXPECT_NE((message).find(text), std::string::npos) << message

TEST_F(WrongGroups, BarrierOfTheBlockInABranch) {
    EXPECT_SAYS(refused(32, wrong::block_sync_in_a_branch),
                "a divergent barrier: some lanes of the block wait at it, others have exited");
}
TEST_F(WrongGroups, BarrierOfADynamicTileAfterExit) {
    EXPECT_SAYS(
        refused(32, wrong::any_group_sync_after_exit),
        "a mask contains exited lanes: warp 0, lanes 16, 18-31 at __syncwarp cannot wait for lane 17");
}
TEST_F(WrongGroups, BarrierOfATileAfterExit) {
    EXPECT_SAYS(
        refused(32, wrong::tile_sync_in_a_branch),
        "a mask contains exited lanes: warp 0, lanes 8-12, 14-15 at __syncwarp cannot wait for lane 13");
}
TEST_F(WrongGroups, ReduceAfterExit) {
    EXPECT_SAYS(refused(64, wrong::reduce_after_exit, 50),
                "a mask contains exited lanes: warp 1, lanes 0-17 at __shfl_xor_sync(float) cannot wait for "
                "lanes 18-31");
    EXPECT_SAYS(refused(64, wrong::redux_after_exit, 50),
                "a mask contains exited lanes: warp 1, lanes 0-17 at __reduce_add_sync(int) cannot wait for "
                "lanes 18-31");
}
TEST_F(WrongGroups, TileBeyondTheBlock) {
    EXPECT_SAYS(refused(40, wrong::tile_beyond_the_block),
                "a mask contains lanes beyond the block's last thread: lane");
}
TEST_F(WrongGroups, LabeledPartitionInABranch) {
    EXPECT_SAYS(refused(32, wrong::labels_in_a_branch),
                "lanes 0-11 at __match_any_sync(int) cannot wait for lanes 12-31");
}
TEST_F(WrongGroups, RankBeyondTheGroup) {
    EXPECT_SAYS(refused(32, wrong::rank_beyond_the_group),
                "coalesced_group::shfl from a rank beyond the group");
}
TEST_F(WrongGroups, BarrierOfTheGrid) {
    EXPECT_SAYS(refused(32, wrong::grid_sync), "a barrier of the grid: the launch is not cooperative");
}

} // namespace
