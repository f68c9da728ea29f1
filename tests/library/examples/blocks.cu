// SPDX-License-Identifier: MIT
// The examples of calls for blocks and for the host in the comments of the headers, as calls.cu.
#include "examples.cuh"
#include <distwar/block.cuh>
#include <distwar/device/histogram.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/reduce.cuh>
#include <distwar/device/sums_by_key.cuh>

namespace {

__global__ void example_block_sum(float *sums) {
    const int lane = int(threadIdx.x);
    // [block_sum]
    __shared__ distwar::block_sum_memory<1, 32> memory;
    const float value[1] = {float(lane)};
    float sum[1];
    distwar::block_sum(value, memory, sum);
    if (lane == 0) sums[0] = sum[0];
    // sums: 496
    // [end]
}
TEST(Examples, BlockSum) {
    const zeros<float> sums(1);
    run(1, 32, example_block_sum, sums.get());
    EXPECT_EQ(sums.found(), (expected{496}));
}
__global__ void example_accumulator(float *sums) {
    const int lane = int(threadIdx.x);
    // [accumulator]
    __shared__ distwar::accumulator<1, 4> bins;
    bins.clear();
    distwar::reduce(distwar::all_lanes, true, lane % 4, 1.0f, distwar::in_shared(bins.sink()));
    bins.flush_consecutive(2, 4, distwar::record<float>{sums, 1});
    // sums: 0, 0, 8, 8, 8, 8
    // [end]
}
TEST(Examples, Accumulator) {
    const zeros<float> sums(6);
    run(1, 32, example_accumulator, sums.get());
    EXPECT_EQ(sums.found(), (expected{0, 0, 8, 8, 8, 8}));
}
__global__ void example_hot_slots(float *sums) {
    const int lane = int(threadIdx.x);
    // [hot_slots]
    __shared__ distwar::hot_slots<64, 1> hot;
    hot.clear();
    const distwar::record<float> table = {sums, 1};
    for (int i = 0; i < 10; ++i)
        distwar::reduce(distwar::all_lanes, lane % 2 || lane < 4, lane % 2 ? 1 : lane, 1.0f, hot.sink(table));
    hot.flush(table);
    // sums: 10, 160, 10
    // [end]
}
TEST(Examples, HotSlots) {
    const zeros<float> sums(3);
    run(1, 32, example_hot_slots, sums.get());
    EXPECT_EQ(sums.found(), (expected{10, 160, 10}));
}
__global__ void example_bitonic_sort(int *keys, int *values) {
    const int lane = int(threadIdx.x);
    // [bitonic_sort]
    __shared__ distwar::sort_memory<int, int, 4> memory;
    if (lane < 4) memory.key[lane] = lane ^ 2, memory.value[lane] = 10 * lane;
    distwar::bitonic_sort(memory, 4);
    if (lane < 4) keys[lane] = memory.key[lane], values[lane] = memory.value[lane];
    // keys: 0, 1, 2, 3; values: 20, 30, 0, 10
    // [end]
}
TEST(Examples, BitonicSort) {
    const zeros<int> keys(4);
    const zeros<int> values(4);
    run(1, 32, example_bitonic_sort, keys.get(), values.get());
    EXPECT_EQ(keys.found(), (expected{0, 1, 2, 3}));
    EXPECT_EQ(values.found(), (expected{20, 30, 0, 10}));
}
TEST(Examples, WithStrategy) {
    // [with_strategy]
    const auto number = [](auto known) { return int(distwar::strategy(known)); };
    const int found = distwar::with_strategy(distwar::strategy::serial, number);
    // found: 1, DISTWAR_SERIAL
    // [end]
    EXPECT_EQ(found, DISTWAR_SERIAL);
}

TEST(Examples, SumsByKey) {
    const device_array<int> indices({2, 0, 2});
    const device_array<float> rows({1, 10, 2, 20, 3, 30});
    const zeros<float> to(6);
    const int *const index = indices.get();
    const float *const source = rows.get();
    float *const out = to.get();
    cudaStream_t stream = nullptr;
    // [sums_by_key]
    distwar::key_sums<float> sums;
    sums.count = 3, sums.width = 2, sums.keys = 3;
    sums.index = index, sums.source = source, sums.out = out;
    cudaError_t error = distwar::sums_by_key_bytes(sums, &sums.workspace_bytes);
    if (error == cudaSuccess) error = cudaMalloc(&sums.workspace, sums.workspace_bytes);
    if (error == cudaSuccess) error = distwar::sums_by_key(sums, stream);
    // out: 2, 20, 0, 0, 4, 40
    // [end]
    CHECK(error);
    EXPECT_EQ(to.found(), (expected{2, 20, 0, 0, 4, 40}));
    CHECK(cudaFree(sums.workspace));
}
TEST(Examples, Histogram) {
    const device_array<int> keys({3, 1, 3, 3});
    const zeros<unsigned> bins(4);
    const int *const key = keys.get();
    unsigned *const counts = bins.get();
    cudaStream_t stream = nullptr;
    // [histogram]
    const distwar::key_counts<int> given = {4, 4, key, counts, nullptr}; // 4 keys, 4 bins, no report
    const cudaError_t error = distwar::histogram(given, stream);
    // counts: 0, 1, 0, 3
    // [end]
    CHECK(error);
    EXPECT_EQ(bins.found(), (expected{0, 1, 0, 3}));
}

} // namespace
