// SPDX-License-Identifier: MIT
// The atomics of aligned records and of atomic_update, by simt's counts. Built for simt only.

#include "device_test.cuh"
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

using distwar::all_lanes;
using distwar::strategy;

namespace {

template <typename... Parameters>
simt_counters count(void (*kernel)(Parameters...), Parameters... arguments) {
    simt_counters_reset();
    run(1, 32, kernel, arguments...);
    return simt_counters_read();
}

template <strategy S>
__global__ void reduce_to_aligned(float *records) {
    const float val[11] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    distwar::reduce<S>(all_lanes, true, 0, val, distwar::aligned_record{records, 12});
}

TEST(ReductionCost, OfAlignedRecordsIsAnAtomicForFourValues) {
    const device_array<float> records(std::vector<float>(12, 0.0f));
    const simt_counters bfly = count(reduce_to_aligned<strategy::bfly>, records.get());
    EXPECT_EQ(bfly.atomic_instructions, 3u); // 4 + 4 + 3 values, and a zero
    EXPECT_EQ(bfly.atomic_requests, 3u);
    EXPECT_EQ(bfly.atomic_bytes, 48u);
    EXPECT_EQ(count(reduce_to_aligned<strategy::tree>, records.get()).atomic_instructions, 1u);
}

// The number of values has each remainder by 4; the places behind them are not touched.
template <strategy S, int K>
__global__ void reduce_two_keys_to_aligned(float *records) {
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = float(1 << k);
    distwar::reduce<S>(all_lanes, true, int(threadIdx.x % 2), val, distwar::aligned_record{records, 12});
}
template <strategy S, int K>
uint64_t requests_of_aligned() {
    const device_array<float> records(std::vector<float>(24, 0.5f));
    const uint64_t requests = count(reduce_two_keys_to_aligned<S, K>, records.get()).atomic_requests;
    std::vector<float> expected(24, 0.5f);
    for (int i = 0; i < 24; ++i)
        if (i % 12 < K) expected[i] += float(16 << i % 12);
    EXPECT_EQ(records.download(), expected) << "K " << K;
    return requests;
}
__global__ void add_chunks_to_aligned(float *record) {
    distwar::reduce_n<distwar::strategy::atomic, 4>(
        all_lanes, true, 0, 8, [](int k) { return float(1 << k); }, distwar::aligned_record{record, 12});
}
TEST(ReductionCost, OfAlignedRecordsIsThatOfTheirVectors) {
    EXPECT_EQ((requests_of_aligned<strategy::serial, 1>()), 2u * 1);
    EXPECT_EQ((requests_of_aligned<strategy::serial, 2>()), 2u * 1);
    EXPECT_EQ((requests_of_aligned<strategy::serial, 5>()), 2u * 2);
    EXPECT_EQ((requests_of_aligned<strategy::serial, 6>()), 2u * 2);
    EXPECT_EQ((requests_of_aligned<strategy::serial, 7>()), 2u * 2);
    EXPECT_EQ((requests_of_aligned<strategy::serial, 9>()), 2u * 3);
    EXPECT_EQ((requests_of_aligned<strategy::tree, 9>()), 2u * 9);
    const device_array<float> record(std::vector<float>(8, 0.0f));
    EXPECT_EQ(count(add_chunks_to_aligned, record.get()).atomic_requests, 32u * 2);
    EXPECT_EQ(record.download(), (std::vector<float>{32, 64, 128, 256, 512, 1024, 2048, 4096}));
}

// The atomics that atomic_update sends.
template <typename T, typename Op>
__global__ void update_once(T *target, T value) {
    distwar::atomic_update(target, value, Op{});
}
template <typename T, typename Op>
uint64_t requests_of(T memory, T value) {
    const device_array<T> target(std::vector<T>(1, memory));
    simt_counters_reset();
    run(1, 1, update_once<T, Op>, target.get(), value);
    return simt_counters_read().atomic_requests;
}

TEST(AtomicUpdateCost, IsNoRequestWhereNothingChanges) {
    EXPECT_EQ((requests_of<float, distwar::add>(5, 1)), 1u);
    EXPECT_EQ((requests_of<float, distwar::add>(5, 0.0f)), 0u);
    EXPECT_EQ((requests_of<float, distwar::add>(5, -0.0f)), 0u);
    EXPECT_EQ((requests_of<float, distwar::add>(-0.0f, 0.0f)), 0u);
    EXPECT_EQ((requests_of<double, distwar::add>(5, 0)), 0u);
    EXPECT_EQ((requests_of<int, distwar::add>(5, 0)), 0u);
    EXPECT_EQ((requests_of<float, distwar::add>(1e20f, 1)), 0u); // rounds to the old value
    EXPECT_EQ((requests_of<float, distwar::minimum>(5, 4)), 1u);
    EXPECT_EQ((requests_of<float, distwar::minimum>(5, 5)), 0u);
    EXPECT_EQ((requests_of<double, distwar::maximum>(5, 6)), 1u);
    EXPECT_EQ((requests_of<double, distwar::maximum>(5, 4)), 0u);
}

} // namespace
