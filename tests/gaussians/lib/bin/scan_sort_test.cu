// SPDX-License-Identifier: MIT
// Scan and sort against plain loops and std::stable_sort; on a GPU also with more than 2^31 items.
#include "device_vector.h"
#include "expect_status.h"

#include <algorithm>
#include <launch.cuh>
#include <numeric>
#include <random>
#include <gpu/scan_sort.h>

namespace {

cudaError_t scan(const int64_t *in, int64_t *out, int64_t n) {
    size_t bytes = 0;
    const cudaError_t status = scan_exclusive_bytes(n, &bytes);
    if (status != cudaSuccess) return status;
    const device_vector<char> workspace(bytes);
    return scan_exclusive(in, out, n, workspace.data(), bytes, nullptr);
}

TEST(Launch, CountsTheBlocksOfMoreThan32BitsOfItems) {
    const int64_t items = int64_t(48) * (INT32_MAX - 1);
    EXPECT_EQ(blocks_for(items, 256), unsigned(items / 256 + 1));
}

TEST(Scan, SumsWhatStandsBefore) {
    std::mt19937_64 random(1);
    for (const int64_t n : {0, 1, 2, 31, 32, 257, 1000, 4096, 100003}) {
        std::vector<int64_t> in(n), expected(n);
        int64_t sum = 0;
        for (int64_t i = 0; i < n; i++) {
            in[i] = int64_t(random() >> 20); // the sums pass 2^53: no floating point in between
            expected[i] = sum;
            sum += in[i];
        }
        const device_vector<int64_t> from(in), to(n);
        ASSERT_EQ(scan(from.data(), to.data(), n), cudaSuccess);
        EXPECT_EQ(to.read(), expected) << n;
        EXPECT_EQ(from.read(), in) << n;
        ASSERT_EQ(scan(from.data(), from.data(), n), cudaSuccess);
        EXPECT_EQ(from.read(), expected) << n << ", in place";
    }
}

// Sorted pairs of a key and its place.
std::vector<std::vector<uint32_t>> sort(const std::vector<uint32_t> &keys, int bits) {
    const int64_t n = int64_t(keys.size());
    std::vector<uint32_t> places(keys.size());
    std::iota(places.begin(), places.end(), 0u);
    size_t bytes = 0;
    EXPECT_EQ(sort_pairs_bytes(n, &bytes), cudaSuccess);
    const device_vector<char> workspace(bytes);
    const device_vector<uint32_t> k[2] = {device_vector<uint32_t>(keys),
                                          device_vector<uint32_t>(keys.size())},
                                  v[2] = {device_vector<uint32_t>(places),
                                          device_vector<uint32_t>(keys.size())};
    const sort_arrays arrays = {{k[0].data(), k[1].data()}, {v[0].data(), v[1].data()}};
    int selected = -1;
    EXPECT_EQ(sort_pairs(&arrays, n, bits, &selected, workspace.data(), bytes, nullptr), cudaSuccess);
    EXPECT_TRUE(selected == 0 || selected == 1);
    return {k[selected == 1].read(), v[selected == 1].read()};
}

TEST(Sort, OrdersByTheKeysAndIsStable) {
    std::mt19937_64 random(2);
    for (const int64_t n : {0, 1, 2, 33, 1000, 100003}) {
        struct {
            uint32_t key_mask; // the second: many equal keys
            int bits;
        } const cases[] = {{~0u, 32}, {0x80700021, 32}, {~0u, 11}};
        for (const auto &[key_mask, bits] : cases) {
            std::vector<uint32_t> keys(n), sorted, places(n);
            for (uint32_t &key : keys) key = uint32_t(random() >> 32) & key_mask;
            std::iota(places.begin(), places.end(), 0u);
            const uint32_t used = uint32_t((uint64_t{1} << bits) - 1);
            std::stable_sort(places.begin(), places.end(),
                             [&](uint32_t a, uint32_t b) { return (keys[a] & used) < (keys[b] & used); });
            for (const uint32_t place : places) sorted.push_back(keys[place]);
            EXPECT_TRUE(sort(keys, bits) == (std::vector<std::vector<uint32_t>>{sorted, places}))
                << n << " items, keys & " << key_mask << ", " << bits << " bits";
        }
    }
}

TEST(Sort, WorkspaceForMoreIsEnoughForLess) {
    size_t most = 0;
    ASSERT_EQ(sort_pairs_bytes(1000000, &most), cudaSuccess);
    for (const int64_t n : {0, 1, 1000, 5000, 100000, 999999}) {
        size_t bytes = 0;
        ASSERT_EQ(sort_pairs_bytes(n, &bytes), cudaSuccess);
        EXPECT_LE(bytes, most) << n;
    }
}

TEST(ScanAndSort, NoItemsNeedNoMemoryAndBadCountsAreRefused) {
    const sort_arrays arrays = {};
    int selected = -1;
    size_t bytes = 0;
    for (const int n : {0, -1}) {
        const cudaError_t expected = n == 0 ? cudaSuccess : cudaErrorInvalidValue;
        EXPECT_EQ(scan_exclusive_bytes(n, &bytes), expected);
        EXPECT_EQ(scan_exclusive(nullptr, nullptr, n, nullptr, 0, nullptr), expected);
        EXPECT_EQ(sort_pairs_bytes(n, &bytes), expected);
        EXPECT_EQ(sort_pairs(&arrays, n, 32, &selected, nullptr, 0, nullptr), expected);
    }
    EXPECT_EQ(selected, 0);
    for (const int bits : {0, 33})
        EXPECT_EQ(sort_pairs(&arrays, 0, bits, &selected, nullptr, 0, nullptr), cudaErrorInvalidValue);
}

// More than 2^31 items, made and checked on the device.

constexpr int64_t MANY = (int64_t{1} << 31) + 12345;

__global__ void fill(uint32_t *keys, uint32_t *values, int64_t *counts) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= MANY) return;
    if (keys) keys[i] = uint32_t(MANY - 1 - i);
    if (values) values[i] = uint32_t(i);
    if (counts) counts[i] = i % 4;
}

__global__ void count_wrong(const uint32_t *keys, const uint32_t *values, const int64_t *counts,
                            unsigned long long *wrong) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= MANY) return;
    const int rest = int(i % 4);
    if ((keys && keys[i] != uint32_t(i)) || (values && values[i] != uint32_t(MANY - 1 - i)) ||
        (counts && counts[i] != i / 4 * 6 + rest * (rest - 1) / 2))
        atomicAdd(wrong, 1ull);
}

bool has_memory(size_t bytes) {
    if (std::string(gs_backend()) != "cuda") return false;
    size_t available = 0, total = 0;
    DEVICE_CHECK(cudaMemGetInfo(&available, &total));
    return available > bytes;
}

unsigned long long wrong_items(const uint32_t *keys, const uint32_t *values, const int64_t *counts) {
    const device_vector<unsigned long long> wrong(std::vector<unsigned long long>(1));
    DEVICE_CHECK(
        launch(nullptr, blocks_for(MANY, 256), 256, count_wrong, keys, values, counts, wrong.data()));
    return wrong.read()[0];
}

TEST(Scan, TakesMoreThan31Bits) {
    if (!has_memory(size_t{20} << 30)) GTEST_SKIP() << "needs a GPU with 20 GiB free";
    const device_vector<int64_t> counts(MANY);
    DEVICE_CHECK(launch(nullptr, blocks_for(MANY, 256), 256, fill, nullptr, nullptr, counts.data()));
    ASSERT_EQ(scan(counts.data(), counts.data(), MANY), cudaSuccess);
    EXPECT_EQ(wrong_items(nullptr, nullptr, counts.data()), 0u);
}

TEST(Sort, TakesMoreThan31Bits) {
    if (!has_memory(size_t{60} << 30)) GTEST_SKIP() << "needs a GPU with 60 GiB free";
    size_t bytes = 0;
    ASSERT_EQ(sort_pairs_bytes(MANY, &bytes), cudaSuccess);
    const device_vector<char> workspace(bytes);
    const device_vector<uint32_t> keys0(MANY), keys1(MANY);
    const device_vector<uint32_t> values0(MANY), values1(MANY);
    const sort_arrays arrays = {{keys0.data(), keys1.data()}, {values0.data(), values1.data()}};
    DEVICE_CHECK(launch(nullptr, blocks_for(MANY, 256), 256, fill, keys0.data(), values0.data(), nullptr));
    int selected = -1;
    ASSERT_EQ(sort_pairs(&arrays, MANY, 32, &selected, workspace.data(), bytes, nullptr), cudaSuccess);
    EXPECT_EQ(wrong_items(arrays.keys[selected], arrays.values[selected], nullptr), 0u);
}

} // namespace
