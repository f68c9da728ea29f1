// SPDX-License-Identifier: MIT
// The examples in the comments of the headers, run by one warp; tests/docs compares their text with the headers.
// What an example's last line says is what it gives.
#include "examples.cuh"
#include <distwar/block.cuh>
#include <distwar/queue.cuh>
#include <distwar/fixed.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>

namespace {

__global__ void example_reduce(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce]
    distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane), distwar::record<float>{sums, 1});
    // sums: 120, 376
    // [end]
}
TEST(Examples, Reduce) {
    const zeros<float> sums(2);
    run(1, 32, example_reduce, sums.get());
    EXPECT_EQ(sums.found(), (expected{120, 376}));
}
__global__ void example_in_shared(int *counts) {
    const int lane = int(threadIdx.x);
    // [in_shared]
    __shared__ int bins[4];
    if (lane < 4) bins[lane] = 0;
    __syncthreads();
    distwar::reduce(distwar::all_lanes, true, lane % 4, 1, distwar::in_shared(distwar::record<int>{bins, 1}));
    __syncthreads();
    if (lane < 4) counts[lane] = bins[lane];
    // counts: 8, 8, 8, 8
    // [end]
}
TEST(Examples, InShared) {
    const zeros<int> counts(4);
    run(1, 32, example_in_shared, counts.get());
    EXPECT_EQ(counts.found(), (expected{8, 8, 8, 8}));
}
__global__ void example_values(float *sums) {
    const int lane = int(threadIdx.x);
    // [values]
    const auto list = distwar::values(float3{1, 2, 3}, 4.0f);
    distwar::reduce(distwar::all_lanes, lane < 2, 0, list, distwar::record<float>{sums, 4});
    // sums: 2, 4, 6, 8
    // [end]
}
TEST(Examples, Values) {
    const zeros<float> sums(4);
    run(1, 32, example_values, sums.get());
    EXPECT_EQ(sums.found(), (expected{2, 4, 6, 8}));
}
__global__ void example_in_global(float *sums) {
    const int lane = int(threadIdx.x);
    // [in_global]
    __shared__ float *from_memory;
    if (lane == 0) from_memory = sums;
    __syncthreads();
    float *const known = distwar::in_global(from_memory);
    distwar::reduce(distwar::all_lanes, true, 0, float(lane), distwar::record<float>{known, 1});
    // sums: 496
    // [end]
}
TEST(Examples, InGlobal) {
    const zeros<float> sums(1);
    run(1, 32, example_in_global, sums.get());
    EXPECT_EQ(sums.found(), (expected{496}));
}
__global__ void example_atomic_add(float *sums) {
    const int lane = int(threadIdx.x);
    // [atomic_add]
    distwar::atomic_add(sums, float(lane));
    // sums: 496
    // [end]
}
TEST(Examples, AtomicAdd) {
    const zeros<float> sums(1);
    run(1, 32, example_atomic_add, sums.get());
    EXPECT_EQ(sums.found(), (expected{496}));
}
__global__ void example_atomic_add_vector(float *sums) {
    const int lane = int(threadIdx.x);
    // [atomic_add of a vector]
    distwar::atomic_add(reinterpret_cast<float4 *>(sums), float4{1, 2, 3, float(lane)});
    // sums: 32, 64, 96, 496
    // [end]
}
TEST(Examples, AtomicAddOfAVector) {
    const zeros<float> sums(4);
    run(1, 32, example_atomic_add_vector, sums.get());
    EXPECT_EQ(sums.found(), (expected{32, 64, 96, 496}));
}
__global__ void example_atomic_update(int *highest) {
    const int lane = int(threadIdx.x);
    // [atomic_update]
    distwar::atomic_update(highest, lane, distwar::maximum{});
    // highest: 31
    // [end]
}
TEST(Examples, AtomicUpdate) {
    const zeros<int> highest(1);
    run(1, 32, example_atomic_update, highest.get());
    EXPECT_EQ(highest.found(), (expected{31}));
}
__global__ void example_reduce_atomic(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_atomic]
    const float val[2] = {1, float(lane)};
    distwar::reduce_atomic(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
    // sums: 16, 120, 8, 156
    // [end]
}
TEST(Examples, ReduceAtomic) {
    const zeros<float> sums(4);
    run(1, 32, example_reduce_atomic, sums.get());
    EXPECT_EQ(sums.found(), (expected{16, 120, 8, 156}));
}
__global__ void example_reduce_serial(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_serial]
    const float val[2] = {1, float(lane)};
    distwar::reduce_serial(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
    // sums: 16, 120, 8, 156
    // [end]
}
TEST(Examples, ReduceSerial) {
    const zeros<float> sums(4);
    run(1, 32, example_reduce_serial, sums.get());
    EXPECT_EQ(sums.found(), (expected{16, 120, 8, 156}));
}
__global__ void example_reduce_tree(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_tree]
    const float val[2] = {1, float(lane)};
    distwar::reduce_tree(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
    // sums: 16, 120, 8, 156
    // [end]
}
TEST(Examples, ReduceTree) {
    const zeros<float> sums(4);
    run(1, 32, example_reduce_tree, sums.get());
    EXPECT_EQ(sums.found(), (expected{16, 120, 8, 156}));
}
__global__ void example_reduce_strategy(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_strategy]
    const float val[2] = {1, float(lane)};
    distwar::reduce<distwar::strategy::tree>(distwar::all_lanes, lane < 24, lane / 16, val,
                                             distwar::record<float>{sums, 2});
    // sums: 16, 120, 8, 156
    // [end]
}
TEST(Examples, ReduceStrategy) {
    const zeros<float> sums(4);
    run(1, 32, example_reduce_strategy, sums.get());
    EXPECT_EQ(sums.found(), (expected{16, 120, 8, 156}));
}
__global__ void example_reduce_bfly(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_bfly]
    const float val[2] = {1, float(lane)};
    distwar::reduce_bfly(distwar::all_lanes, lane < 24, 1, val, distwar::record<float>{sums, 2});
    // sums: 0, 0, 24, 276
    // [end]
}
TEST(Examples, ReduceBfly) {
    const zeros<float> sums(4);
    run(1, 32, example_reduce_bfly, sums.get());
    EXPECT_EQ(sums.found(), (expected{0, 0, 24, 276}));
}
__global__ void example_reduce_n(int *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_n]
    const auto value_of = [&](int k) { return k * lane; };
    distwar::reduce_n(distwar::all_lanes, true, lane / 16, 3, value_of, distwar::record<int>{sums, 3});
    // sums: 0, 120, 240, 0, 376, 752
    // [end]
}
TEST(Examples, ReduceN) {
    const zeros<int> sums(6);
    run(1, 32, example_reduce_n, sums.get());
    EXPECT_EQ(sums.found(), (expected{0, 120, 240, 0, 376, 752}));
}
__global__ void example_tree_total(int *totals) {
    const int lane = int(threadIdx.x);
    // [tree_total]
    const int val[2] = {lane, -lane};
    int total[distwar::tree_places(2)];
    distwar::tree_total(lane < 24, val, total, distwar::maximum{});
    if (lane < 2) totals[lane] = total[0];
    // totals: 23, 0
    // [end]
}
TEST(Examples, TreeTotal) {
    const zeros<int> totals(2);
    run(1, 32, example_tree_total, totals.get());
    EXPECT_EQ(totals.found(), (expected{23, 0}));
}
__global__ void example_tree_of_lanes(float *sums) {
    const int lane = int(threadIdx.x);
    // [tree_of_lanes]
    float val[2] = {1, float(lane)};
    distwar::tree_of_lanes<3, 5>(val); // over lanes l, l + 8, l + 16 and l + 24
    if (lane < 16) sums[lane] = val[0];
    // sums: 4, 4, 4, 4, 4, 4, 4, 4, 48, 52, 56, 60, 64, 68, 72, 76
    // [end]
}
TEST(Examples, TreeOfLanes) {
    const zeros<float> sums(16);
    run(1, 32, example_tree_of_lanes, sums.get());
    EXPECT_EQ(sums.found(), (expected{4, 4, 4, 4, 4, 4, 4, 4, 48, 52, 56, 60, 64, 68, 72, 76}));
}
__global__ void example_reduce_fixed(long long *sums, float *result) {
    const int lane = int(threadIdx.x);
    __shared__ unsigned flag[1];
    flag[0] = 0;
    // [reduce_fixed]
    const distwar::fixed_format<1> format = {{0x1p20f}, flag};
    const float val[1] = {0.5f * float(lane)};
    distwar::reduce_fixed(distwar::all_lanes, true, lane / 16, val, distwar::record<long long>{sums, 1},
                          format);
    __syncthreads();
    if (lane < 2) result[lane] = distwar::fixed_to_float(sums[lane], format.scale[0]);
    // sums: 62914560, 197132288; result: 60, 188
    // [end]
}
TEST(Examples, ReduceFixed) {
    const zeros<long long> sums(2);
    const zeros<float> result(2);
    run(1, 32, example_reduce_fixed, sums.get(), result.get());
    EXPECT_EQ(sums.found(), (expected{62914560, 197132288}));
    EXPECT_EQ(result.found(), (expected{60, 188}));
}
__global__ void example_group_lanes(int *counts, int *sums) {
    const int lane = int(threadIdx.x);
    // [group_lanes]
    const auto groups = distwar::group_lanes(distwar::all_lanes, true, lane / 16);
    groups.add(distwar::values(1), distwar::record<int>{counts, 1});
    groups.add(distwar::values(lane), distwar::record<int>{sums, 1}, distwar::at_key{lane / 16 + 1});
    // counts: 16, 16; sums: 0, 120, 376
    // [end]
}
TEST(Examples, GroupLanes) {
    const zeros<int> counts(2);
    const zeros<int> sums(3);
    run(1, 32, example_group_lanes, counts.get(), sums.get());
    EXPECT_EQ(counts.found(), (expected{16, 16}));
    EXPECT_EQ(sums.found(), (expected{0, 120, 376}));
}
__global__ void example_fetch_add(int *counters, int *found) {
    const int lane = int(threadIdx.x);
    // [fetch_add]
    const int before = distwar::fetch_add(distwar::all_lanes, true, lane / 16, counters);
    if (lane % 16 % 15 == 0) found[lane / 16 * 2 + lane % 16 / 15] = before; // lanes 0, 15, 16, 31
    // counters: 16, 16; found: 0, 15, 0, 15
    // [end]
}
TEST(Examples, FetchAdd) {
    const zeros<int> counters(2);
    const zeros<int> found(4);
    run(1, 32, example_fetch_add, counters.get(), found.get());
    EXPECT_EQ(counters.found(), (expected{16, 16}));
    EXPECT_EQ(found.found(), (expected{0, 15, 0, 15}));
}
__global__ void example_fetch_add_values(int *counters, int *found) {
    const int lane = int(threadIdx.x);
    // [fetch_add of values]
    const int before = distwar::fetch_add(distwar::all_lanes, lane < 3, 1, 10 * (lane + 1), counters);
    if (lane < 3) found[lane] = before;
    // counters: 0, 60; found: 0, 10, 30
    // [end]
}
TEST(Examples, FetchAddOfValues) {
    const zeros<int> counters(2), found(3);
    run(1, 32, example_fetch_add_values, counters.get(), found.get());
    EXPECT_EQ(counters.found(), (expected{0, 60}));
    EXPECT_EQ(found.found(), (expected{0, 10, 30}));
}
__global__ void example_append(unsigned *count, int *kept) {
    const int lane = int(threadIdx.x);
    // [append]
    const unsigned slot = distwar::append(distwar::all_lanes, lane % 2 == 1, count);
    if (lane % 2 == 1 && slot < 4) kept[slot] = lane;
    // count: 16; kept: 1, 3, 5, 7
    // [end]
}
TEST(Examples, Append) {
    const zeros<unsigned> count(1);
    const zeros<int> kept(4);
    run(1, 32, example_append, count.get(), kept.get());
    EXPECT_EQ(count.found(), (expected{16}));
    EXPECT_EQ(kept.found(), (expected{1, 3, 5, 7}));
}
__global__ void example_lanes_with_key(unsigned *found) {
    const int lane = int(threadIdx.x);
    // [lanes_with_key]
    const unsigned group = distwar::lanes_with_key(distwar::all_lanes, lane % 16);
    if (lane < 2) found[lane] = group; // 0x10001, 0x20002
    // found: 65537, 131074
    // [end]
}
TEST(Examples, LanesWithKey) {
    const zeros<unsigned> found(2);
    run(1, 32, example_lanes_with_key, found.get());
    EXPECT_EQ(found.found(), (expected{65537, 131074}));
}
__global__ void example_existing_lanes(int *sums) {
    const int lane = int(threadIdx.x);
    // [existing_lanes]
    const unsigned lanes = distwar::existing_lanes(); // all 32, as the block is one warp
    distwar::reduce(lanes, lane < 20, 0, 1, distwar::record<int>{sums, 1});
    // sums: 20
    // [end]
}
TEST(Examples, ExistingLanes) {
    const zeros<int> sums(1);
    run(1, 32, example_existing_lanes, sums.get());
    EXPECT_EQ(sums.found(), (expected{20}));
}

} // namespace
