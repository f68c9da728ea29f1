// SPDX-License-Identifier: MIT
// Sums of integers do not depend on the order: sums_by_key (deterministic, exact) and reduce_fixed have the same bits on every
// GPU, as PTX of every architecture and under simt. Prints a hash of each, which must be the one that is written here.

#include "device_test.cuh"
#include "numbers.cuh"
#include <distwar/device/sorted_sums_by_key.cuh>
#include <distwar/fixed.cuh>
#include <gtest/gtest.h>
#include <math.h>
#include <stdio.h>

namespace {

enum { ROWS = 6000, WIDTH = 3, KEYS = 70, BLOCK = 96 };

// FNV-1a of 64 bits.
template <typename T>
uint64_t hash_of(const std::vector<T> &values) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const T &value : values) {
        unsigned char bytes[sizeof value];
        memcpy(bytes, &value, sizeof value);
        for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
    }
    return hash;
}
void expect_hash(const char *what, uint64_t found, uint64_t wanted) {
    printf("bits of %s: %016llx\n", what, (unsigned long long)(found));
    EXPECT_EQ(found, wanted) << what;
}

// Numbers of both signs over 2^24 and more orders, made by integers and exact products. Half of the rows are at few keys.
float drawn(draw &random) {
    return ldexpf(float(int(random.below(1 << 24)) - (1 << 23)), -int(random.below(30)) - 20);
}
std::vector<int> drawn_keys() {
    draw random(31);
    std::vector<int> keys;
    for (int i = 0; i < ROWS; ++i) keys.push_back(int(random.below(i % 2 ? KEYS : 3)));
    return keys;
}

// The rows in an order of their own, which is not that of the rows when `step` is not 1.
template <typename T>
uint64_t hash_of_sums(distwar::sums_way way, size_t step) {
    draw random(32);
    const std::vector<int> keys = drawn_keys();
    std::vector<T> rows;
    for (int i = 0; i < ROWS * WIDTH; ++i) rows.push_back(stored<T>(drawn(random)));
    std::vector<int> keys_in_order;
    std::vector<T> rows_in_order;
    for (size_t i = 0; i < ROWS; ++i) {
        const size_t row = i * step % ROWS;
        keys_in_order.push_back(keys[row]);
        for (size_t k = 0; k < WIDTH; ++k) rows_in_order.push_back(rows[row * WIDTH + k]);
    }
    const device_array<int> index(keys_in_order);
    const device_array<T> source(rows_in_order), out(std::vector<T>(KEYS * WIDTH, stored<T>(0)));
    distwar::key_sums<T> sums;
    sums.count = ROWS, sums.width = WIDTH, sums.keys = KEYS, sums.way = way;
    sums.index = index.get(), sums.source = source.get(), sums.out = out.get();
    CHECK(distwar::sums_by_key_bytes<distwar::key_sort>(sums, &sums.workspace_bytes));
    const device_array<char> workspace(std::vector<char>(sums.workspace_bytes + 1));
    sums.workspace = workspace.get();
    CHECK(distwar::sums_by_key<distwar::key_sort>(sums, nullptr));
    CHECK(cudaDeviceSynchronize());
    return hash_of(out.download());
}
template <typename T>
void expect_sums(const char *what, distwar::sums_way way, uint64_t wanted) {
    expect_hash(what, hash_of_sums<T>(way, 1), wanted);
    EXPECT_EQ(hash_of_sums<T>(way, 1009), wanted) << what << ", rows in another order";
}
TEST(Bits, OfSumsByKeyAreTheSameEverywhere) {
    using distwar::sums_way;
    expect_sums<float>("sums_by_key, deterministic, float", sums_way::deterministic, 0xf1b699150d8ad5c1);
    expect_sums<double>("sums_by_key, deterministic, double", sums_way::deterministic, 0x9ffa7798f5951af0);
    expect_sums<__half>("sums_by_key, deterministic, half", sums_way::deterministic, 0x944b019967b1dc63);
    expect_sums<__nv_bfloat16>("sums_by_key, deterministic, bfloat16", sums_way::deterministic,
                               0x6d2063131229d84d);
    expect_sums<float>("sums_by_key, sorted_fixed, float", sums_way::sorted_fixed, 0xf1b699150d8ad5c1);
    expect_sums<float>("sums_by_key, exact, float", sums_way::exact, 0xf1b699150d8ad5c1);
}

template <typename T>
__global__ void add_fixed(const int *keys, const T *rows, long long *sums,
                          distwar::fixed_format<WIDTH, T> format, T *result) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < ROWS;
    T value[WIDTH] = {};
    if (active)
        for (int k = 0; k < WIDTH; ++k) value[k] = rows[i * WIDTH + k];
    if (result == nullptr)
        distwar::reduce_fixed(distwar::all_lanes, active, active ? keys[i] : 0, value,
                              distwar::record<long long>{sums, WIDTH}, format);
    else if (i < KEYS * WIDTH)
        result[i] = distwar::fixed_to_float(sums[i], format.scale[i % WIDTH]);
}
template <typename T>
uint64_t hash_of_fixed(int schedule) {
    draw random(33);
    std::vector<T> rows;
    for (int i = 0; i < ROWS * WIDTH; ++i) rows.push_back(T(drawn(random)));
    const device_array<int> keys(drawn_keys());
    const device_array<T> values(rows), result(std::vector<T>(KEYS * WIDTH));
    const device_array<long long> sums(std::vector<long long>(KEYS * WIDTH));
    const device_array<unsigned> flag(std::vector<unsigned>(1));
    const distwar::fixed_format<WIDTH, T> format = {{T(0x1p30), T(0x1p20), T(1e6)}, flag.get()};
    const unsigned blocks = (ROWS + BLOCK - 1) / BLOCK;
    set_schedule(schedule);
    run(blocks, BLOCK, add_fixed<T>, keys.get(), values.get(), sums.get(), format, nullptr);
    run(blocks, BLOCK, add_fixed<T>, keys.get(), values.get(), sums.get(), format, result.get());
    EXPECT_EQ(flag.download()[0], 0u);
    return hash_of(sums.download()) ^ 3 * hash_of(result.download());
}
TEST(Bits, OfReduceFixedAreTheSameEverywhere) {
    expect_hash("reduce_fixed, float", hash_of_fixed<float>(0), 0x13ca2effd1c847b7);
    expect_hash("reduce_fixed, double", hash_of_fixed<double>(0), 0x49fc22dbccba9e79);
    EXPECT_EQ(hash_of_fixed<float>(3), hash_of_fixed<float>(1));
}

} // namespace
