// SPDX-License-Identifier: MIT
// The examples in the comments of the headers, run by one warp; tests/docs compares their text with the headers.
// What an example's last line says is what it gives.
#include "device_test.cuh"
#include "numbers.cuh"
#include <distwar/block.cuh>
#include <distwar/fixed.cuh>
#include <distwar/half.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/queue.cuh>
#include <distwar/reduce.cuh>
#include <distwar/device/histogram.cuh>
#include <distwar/device/sums_by_key.cuh>
#include <gtest/gtest.h>
#include <tuple>
#include <utility>

namespace {

__global__ void example_reduce(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce]
    distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane), distwar::record<float>{sums, 1});
    // sums: 120, 376
    // [end]
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
__global__ void example_values(float *sums) {
    const int lane = int(threadIdx.x);
    // [values]
    const auto list = distwar::values(float3{1, 2, 3}, 4.0f);
    distwar::reduce(distwar::all_lanes, lane < 2, 0, list, distwar::record<float>{sums, 4});
    // sums: 2, 4, 6, 8
    // [end]
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
__global__ void example_atomic_add(float *sums) {
    const int lane = int(threadIdx.x);
    // [atomic_add]
    distwar::atomic_add(sums, float(lane));
    // sums: 496
    // [end]
}
__global__ void example_atomic_add_vector(float *sums) {
    const int lane = int(threadIdx.x);
    // [atomic_add of a vector]
    distwar::atomic_add(reinterpret_cast<float4 *>(sums), float4{1, 2, 3, float(lane)});
    // sums: 32, 64, 96, 496
    // [end]
}
__global__ void example_atomic_update(int *highest) {
    const int lane = int(threadIdx.x);
    // [atomic_update]
    distwar::atomic_update(highest, lane, distwar::maximum{});
    // highest: 31
    // [end]
}
__global__ void example_reduce_atomic(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_atomic]
    const float val[2] = {1, float(lane)};
    distwar::reduce_atomic(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
    // sums: 16, 120, 8, 156
    // [end]
}
__global__ void example_reduce_serial(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_serial]
    const float val[2] = {1, float(lane)};
    distwar::reduce_serial(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
    // sums: 16, 120, 8, 156
    // [end]
}
__global__ void example_reduce_tree(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_tree]
    const float val[2] = {1, float(lane)};
    distwar::reduce_tree(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
    // sums: 16, 120, 8, 156
    // [end]
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
__global__ void example_reduce_bfly(float *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_bfly]
    const float val[2] = {1, float(lane)};
    distwar::reduce_bfly(distwar::all_lanes, lane < 24, 1, val, distwar::record<float>{sums, 2});
    // sums: 0, 0, 24, 276
    // [end]
}
__global__ void example_reduce_n(int *sums) {
    const int lane = int(threadIdx.x);
    // [reduce_n]
    const auto value_of = [&](int k) { return k * lane; };
    distwar::reduce_n(distwar::all_lanes, true, lane / 16, 3, value_of, distwar::record<int>{sums, 3});
    // sums: 0, 120, 240, 0, 376, 752
    // [end]
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
__global__ void example_tree_of_lanes(float *sums) {
    const int lane = int(threadIdx.x);
    // [tree_of_lanes]
    float val[2] = {1, float(lane)};
    distwar::tree_of_lanes<3, 5>(val); // over lanes l, l + 8, l + 16 and l + 24
    if (lane < 16) sums[lane] = val[0];
    // sums: 4, 4, 4, 4, 4, 4, 4, 4, 48, 52, 56, 60, 64, 68, 72, 76
    // [end]
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
__global__ void example_group_lanes(int *counts, int *sums) {
    const int lane = int(threadIdx.x);
    // [group_lanes]
    const auto groups = distwar::group_lanes(distwar::all_lanes, true, lane / 16);
    groups.add(distwar::values(1), distwar::record<int>{counts, 1});
    groups.add(distwar::values(lane), distwar::record<int>{sums, 1}, distwar::at_key{lane / 16 + 1});
    // counts: 16, 16; sums: 0, 120, 376
    // [end]
}
__global__ void example_fetch_add(int *counters, int *found) {
    const int lane = int(threadIdx.x);
    // [fetch_add]
    const int before = distwar::fetch_add(distwar::all_lanes, true, lane / 16, counters);
    if (lane % 16 % 15 == 0) found[lane / 16 * 2 + lane % 16 / 15] = before; // lanes 0, 15, 16, 31
    // counters: 16, 16; found: 0, 15, 0, 15
    // [end]
}
__global__ void example_fetch_add_values(int *counters, int *found) {
    const int lane = int(threadIdx.x);
    // [fetch_add of values]
    const int before = distwar::fetch_add(distwar::all_lanes, lane < 3, 1, 10 * (lane + 1), counters);
    if (lane < 3) found[lane] = before;
    // counters: 0, 60; found: 0, 10, 30
    // [end]
}
__global__ void example_append(unsigned *count, int *kept) {
    const int lane = int(threadIdx.x);
    // [append]
    const unsigned slot = distwar::append(distwar::all_lanes, lane % 2 == 1, count);
    if (lane % 2 == 1 && slot < 4) kept[slot] = lane;
    // count: 16; kept: 1, 3, 5, 7
    // [end]
}
__global__ void example_lanes_with_key(unsigned *found) {
    const int lane = int(threadIdx.x);
    // [lanes_with_key]
    const unsigned group = distwar::lanes_with_key(distwar::all_lanes, lane % 16);
    if (lane < 2) found[lane] = group; // 0x10001, 0x20002
    // found: 65537, 131074
    // [end]
}
__global__ void example_existing_lanes(int *sums) {
    const int lane = int(threadIdx.x);
    // [existing_lanes]
    const unsigned lanes = distwar::existing_lanes(); // all 32, as the block is one warp
    distwar::reduce(lanes, lane < 20, 0, 1, distwar::record<int>{sums, 1});
    // sums: 20
    // [end]
}
__global__ void example_record(float *highest) {
    const int lane = int(threadIdx.x);
    // [record]
    const distwar::record<float, distwar::maximum> sink = {highest, 1};
    distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane), sink);
    // highest: 15, 31
    // [end]
}
__global__ void example_planes(float *sums) {
    const int lane = int(threadIdx.x);
    // [planes]
    const distwar::planes<float> sink = {sums, 3};
    distwar::reduce(distwar::all_lanes, lane < 2, lane, distwar::values(1.0f, 2.0f), sink);
    // sums: 1, 1, 0, 2, 2, 0
    // [end]
}
__global__ void example_pointers(int *counts, int *sums) {
    const int lane = int(threadIdx.x);
    // [pointers]
    const distwar::pointers sink{&counts[lane / 16], &sums[lane / 16]};
    distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(1, lane), sink);
    // counts: 16, 16; sums: 120, 376
    // [end]
}
__global__ void example_aligned_record(float *sums) {
    const int lane = int(threadIdx.x);
    // [aligned_record]
    const distwar::aligned_record sink = {sums, 2};
    distwar::reduce(distwar::all_lanes, lane < 4, lane % 2, distwar::values(1.0f, float(lane)), sink);
    // sums: 2, 2, 2, 4
    // [end]
}
__global__ void example_fields(float *color, float *opacity) {
    const int lane = int(threadIdx.x);
    // [fields]
    const distwar::fields<float, 3, 1> sink = {{color, 3}, {opacity, 1}};
    distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(float3{1, 2, 3}, 0.5f), sink);
    // color: 16, 32, 48, 16, 32, 48; opacity: 8, 8
    // [end]
}
__global__ void example_record_of_pairs(__half2 *sums) {
    const int lane = int(threadIdx.x);
    // [record_of_pairs]
    const distwar::record_of_pairs<__half2> sink = {sums, 1};
    distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(1.0f, 2.0f), sink);
    // sums: 16, 32, 16, 32
    // [end]
}
__global__ void example_record_of_halves(__half *sums) {
    const int lane = int(threadIdx.x);
    // [record_of_halves]
    const distwar::record_of_halves<__half> sink = {sums, 1, 4};
    distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane / 16 + 1), sink);
    // sums: 16, 32
    // [end]
}
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

// An array of zeros that an example adds to, and the numbers that it must hold then.
template <typename T>
struct array_of {
    const std::vector<double> &expected;
    device_array<T> memory;
    explicit array_of(const std::vector<double> &expected)
        : expected(expected), memory(std::vector<T>(expected.size() / (is_pair<T> ? 2 : 1), stored<T>(0))) {}
    ~array_of() {
        std::vector<double> found;
        for (const T &value : memory.download()) {
            if constexpr (is_pair<T>)
                found.insert(found.end(), {number(value.x), number(value.y)});
            else
                found.push_back(number(value));
        }
        EXPECT_EQ(found, expected);
    }
};
template <typename... T, size_t... I>
void check_example(void (*kernel)(T *...), const std::vector<double> (&expected)[sizeof...(T)],
                   std::index_sequence<I...>) {
    const std::tuple<array_of<T>...> arrays(expected[I]...);
    run(1, 32, kernel, std::get<I>(arrays).memory.get()...);
}
template <typename... T>
void check_example(void (*kernel)(T *...), const std::vector<double> (&expected)[sizeof...(T)]) {
    check_example(kernel, expected, std::index_sequence_for<T...>());
}
#define GIVES(example, ...)                                                                                  \
    {                                                                                                        \
        SCOPED_TRACE(#example);                                                                              \
        check_example(example, __VA_ARGS__);                                                                 \
    }
TEST(Examples, GiveWhatTheirLastLinesSay) {
    GIVES(example_reduce, {{120, 376}});
    GIVES(example_in_shared, {{8, 8, 8, 8}});
    GIVES(example_values, {{2, 4, 6, 8}});
    GIVES(example_in_global, {{496}});
    GIVES(example_atomic_add, {{496}});
    GIVES(example_atomic_add_vector, {{32, 64, 96, 496}});
    GIVES(example_atomic_update, {{31}});
    GIVES(example_reduce_atomic, {{16, 120, 8, 156}});
    GIVES(example_reduce_serial, {{16, 120, 8, 156}});
    GIVES(example_reduce_tree, {{16, 120, 8, 156}});
    GIVES(example_reduce_strategy, {{16, 120, 8, 156}});
    GIVES(example_reduce_bfly, {{0, 0, 24, 276}});
    GIVES(example_reduce_n, {{0, 120, 240, 0, 376, 752}});
    GIVES(example_tree_total, {{23, 0}});
    GIVES(example_tree_of_lanes, {{4, 4, 4, 4, 4, 4, 4, 4, 48, 52, 56, 60, 64, 68, 72, 76}});
    GIVES(example_reduce_fixed, {{62914560, 197132288}, {60, 188}});
    GIVES(example_group_lanes, {{16, 16}, {0, 120, 376}});
    GIVES(example_fetch_add, {{16, 16}, {0, 15, 0, 15}});
    GIVES(example_fetch_add_values, {{0, 60}, {0, 10, 30}});
    GIVES(example_append, {{16}, {1, 3, 5, 7}});
    GIVES(example_lanes_with_key, {{65537, 131074}});
    GIVES(example_existing_lanes, {{20}});
    GIVES(example_record, {{15, 31}});
    GIVES(example_planes, {{1, 1, 0, 2, 2, 0}});
    GIVES(example_pointers, {{16, 16}, {120, 376}});
    GIVES(example_aligned_record, {{2, 2, 2, 4}});
    GIVES(example_fields, {{16, 32, 48, 16, 32, 48}, {8, 8}});
    GIVES(example_record_of_pairs, {{16, 32, 16, 32}});
    GIVES(example_record_of_halves, {{16, 32, 0, 0}});
    GIVES(example_block_sum, {{496}});
    GIVES(example_accumulator, {{0, 0, 8, 8, 8, 8}});
    GIVES(example_hot_slots, {{10, 160, 10}});
    GIVES(example_bitonic_sort, {{0, 1, 2, 3}, {20, 30, 0, 10}});
}

TEST(ExamplesOfTheHost, WithStrategy) {
    // [with_strategy]
    const auto number = [](auto known) { return int(distwar::strategy(known)); };
    const int found = distwar::with_strategy(distwar::strategy::serial, number);
    // found: 1, DISTWAR_SERIAL
    // [end]
    EXPECT_EQ(found, DISTWAR_SERIAL);
}

TEST(ExamplesOfTheHost, SumsByKey) {
    const device_array<int> indices({2, 0, 2});
    const device_array<float> rows({1, 10, 2, 20, 3, 30});
    const device_array<float> to(std::vector<float>(6));
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
    EXPECT_EQ(to.download(), (std::vector<float>{2, 20, 0, 0, 4, 40}));
    CHECK(cudaFree(sums.workspace));
}
TEST(ExamplesOfTheHost, Histogram) {
    const device_array<int> keys({3, 1, 3, 3});
    const device_array<unsigned> bins(std::vector<unsigned>(4));
    const int *const key = keys.get();
    unsigned *const counts = bins.get();
    cudaStream_t stream = nullptr;
    // [histogram]
    const distwar::key_counts<int> given = {4, 4, key, counts, nullptr}; // 4 keys, 4 bins, no report
    const cudaError_t error = distwar::histogram(given, stream);
    // counts: 0, 1, 0, 3
    // [end]
    CHECK(error);
    EXPECT_EQ(bins.download(), (std::vector<unsigned>{0, 1, 0, 3}));
}

} // namespace
