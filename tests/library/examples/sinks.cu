// SPDX-License-Identifier: MIT
// The examples of sinks in the comments of the headers, as calls.cu.
#include "examples.cuh"
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>

namespace {

__global__ void example_record(float *highest) {
    const int lane = int(threadIdx.x);
    // [record]
    const distwar::record<float, distwar::maximum> sink = {highest, 1};
    distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane), sink);
    // highest: 15, 31
    // [end]
}
TEST(Examples, Record) {
    const zeros<float> highest(2);
    run(1, 32, example_record, highest.get());
    EXPECT_EQ(highest.found(), (expected{15, 31}));
}
__global__ void example_planes(float *sums) {
    const int lane = int(threadIdx.x);
    // [planes]
    const distwar::planes<float> sink = {sums, 3};
    distwar::reduce(distwar::all_lanes, lane < 2, lane, distwar::values(1.0f, 2.0f), sink);
    // sums: 1, 1, 0, 2, 2, 0
    // [end]
}
TEST(Examples, Planes) {
    const zeros<float> sums(6);
    run(1, 32, example_planes, sums.get());
    EXPECT_EQ(sums.found(), (expected{1, 1, 0, 2, 2, 0}));
}
__global__ void example_pointers(int *counts, int *sums) {
    const int lane = int(threadIdx.x);
    // [pointers]
    const distwar::pointers sink{&counts[lane / 16], &sums[lane / 16]};
    distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(1, lane), sink);
    // counts: 16, 16; sums: 120, 376
    // [end]
}
TEST(Examples, Pointers) {
    const zeros<int> counts(2);
    const zeros<int> sums(2);
    run(1, 32, example_pointers, counts.get(), sums.get());
    EXPECT_EQ(counts.found(), (expected{16, 16}));
    EXPECT_EQ(sums.found(), (expected{120, 376}));
}
__global__ void example_aligned_record(float *sums) {
    const int lane = int(threadIdx.x);
    // [aligned_record]
    const distwar::aligned_record sink = {sums, 2};
    distwar::reduce(distwar::all_lanes, lane < 4, lane % 2, distwar::values(1.0f, float(lane)), sink);
    // sums: 2, 2, 2, 4
    // [end]
}
TEST(Examples, AlignedRecord) {
    const zeros<float> sums(4);
    run(1, 32, example_aligned_record, sums.get());
    EXPECT_EQ(sums.found(), (expected{2, 2, 2, 4}));
}
__global__ void example_fields(float *color, float *opacity) {
    const int lane = int(threadIdx.x);
    // [fields]
    const distwar::fields<float, 3, 1> sink = {{color, 3}, {opacity, 1}};
    distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(float3{1, 2, 3}, 0.5f), sink);
    // color: 16, 32, 48, 16, 32, 48; opacity: 8, 8
    // [end]
}
TEST(Examples, Fields) {
    const zeros<float> color(6);
    const zeros<float> opacity(2);
    run(1, 32, example_fields, color.get(), opacity.get());
    EXPECT_EQ(color.found(), (expected{16, 32, 48, 16, 32, 48}));
    EXPECT_EQ(opacity.found(), (expected{8, 8}));
}
__global__ void example_record_of_pairs(__half2 *sums) {
    const int lane = int(threadIdx.x);
    // [record_of_pairs]
    const distwar::record_of_pairs<__half2> sink = {sums, 1};
    distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(1.0f, 2.0f), sink);
    // sums: 16, 32, 16, 32
    // [end]
}
TEST(Examples, RecordOfPairs) {
    const zeros<__half2> sums(2);
    run(1, 32, example_record_of_pairs, sums.get());
    EXPECT_EQ(sums.found(), (expected{16, 32, 16, 32}));
}
__global__ void example_record_of_halves(__half *sums) {
    const int lane = int(threadIdx.x);
    // [record_of_halves]
    const distwar::record_of_halves<__half> sink = {sums, 1, 4};
    distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane / 16 + 1), sink);
    // sums: 16, 32
    // [end]
}
TEST(Examples, RecordOfHalves) {
    const zeros<__half2> sums(2);
    run(1, 32, example_record_of_halves, reinterpret_cast<__half *>(sums.get()));
    EXPECT_EQ(sums.found(), (expected{16, 32, 0, 0}));
}

} // namespace
