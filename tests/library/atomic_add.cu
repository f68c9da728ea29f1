// SPDX-License-Identifier: MIT
// Atomic adds lose no value: every type, every scope, global and shared memory.

#include "device_test.cuh"
#include <distwar/atomic.cuh>
#include <gtest/gtest.h>
#include <type_traits>

using distwar::scope;

namespace {

// The types of values that a type in memory takes.
using distwar::detail::takes_values;
static_assert(takes_values<int, int> && takes_values<double, double> && takes_values<double, float>);
static_assert(!takes_values<float, double> && !takes_values<int, float> && !takes_values<double, int>);

enum { BLOCKS = 30, BLOCK = 96, TARGETS = 3 };

// Thread t adds a value that depends on t to targets[t % TARGETS], directly or first in shared memory.
template <typename T>
__device__ T value_of_thread(unsigned thread) {
    return T(thread + 1);
}
constexpr long long wide = -(1ll << 33); // an integer that needs its sign and both its words
template <>
__device__ long long value_of_thread(unsigned thread) {
    return wide * (thread + 1);
}
template <>
__device__ float2 value_of_thread(unsigned thread) {
    return {float(thread + 1), -float(thread + 1)};
}
template <>
__device__ float4 value_of_thread(unsigned thread) {
    return {float(thread + 1), -float(thread + 1), 2, 1};
}
template <typename T>
__device__ T nothing() {
    return T{};
}

template <scope S, bool Shared, typename T>
__global__ void add(T *targets) {
    __shared__ T gathered[TARGETS];
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (Shared && threadIdx.x < TARGETS) gathered[threadIdx.x] = nothing<T>();
    __syncthreads();
    distwar::atomic_add<S>((Shared ? gathered : targets) + thread % TARGETS, value_of_thread<T>(thread));
    __syncthreads();
    if (Shared && threadIdx.x < TARGETS) distwar::atomic_add(targets + threadIdx.x, gathered[threadIdx.x]);
}

// The same sums on the host. All are small integers, so they are exact in any order.
template <typename T>
struct component {
    using type = T;
};
template <>
struct component<float2> {
    using type = float;
};
template <>
struct component<float4> {
    using type = float;
};
template <typename T>
std::vector<double> components(const std::vector<T> &values) {
    using C = typename component<T>::type;
    std::vector<C> parts(values.size() * sizeof(T) / sizeof(C));
    memcpy(parts.data(), values.data(), values.size() * sizeof(T));
    return {parts.begin(), parts.end()};
}
template <typename T>
std::vector<double> expected(int blocks) {
    constexpr int width = sizeof(T) / sizeof(typename component<T>::type);
    std::vector<double> sums(TARGETS * width);
    for (int thread = 0; thread < blocks * BLOCK; ++thread) {
        const double parts[4] = {(std::is_same_v<T, long long> ? wide : 1) * (thread + 1.0), -(thread + 1.0),
                                 2, 1};
        for (int i = 0; i < width; ++i) sums[thread % TARGETS * width + i] += parts[i];
    }
    return sums;
}

template <scope S, bool Shared, typename T>
void check_adds() {
    // At block scope, different blocks must not add to the same target; shared memory is their own.
    const int blocks = S == scope::block && !Shared ? 1 : BLOCKS;
    for (int schedule = 0; schedule < 5; ++schedule) {
        const device_array<T> targets(std::vector<T>(TARGETS, T{}));
        set_schedule(schedule);
        run(blocks, BLOCK, add<S, Shared, T>, targets.get());
        EXPECT_EQ(components(targets.download()), expected<T>(blocks)) << "schedule " << schedule;
    }
}

template <typename T>
class AtomicAdd : public testing::Test {};
using types = testing::Types<float, double, long long, unsigned long long, float2, float4>;
TYPED_TEST_SUITE(AtomicAdd, types);

TYPED_TEST(AtomicAdd, AtTheScopeOfABlock) {
    check_adds<scope::block, false, TypeParam>();
    check_adds<scope::block, true, TypeParam>();
}
TYPED_TEST(AtomicAdd, AtTheScopeOfADevice) {
    check_adds<scope::device, false, TypeParam>();
    check_adds<scope::device, true, TypeParam>();
}
TYPED_TEST(AtomicAdd, AtTheScopeOfTheSystem) {
    check_adds<scope::system, false, TypeParam>();
    check_adds<scope::system, true, TypeParam>();
}

// Compare-and-swap of 2, 4 and 8 bytes at every scope.
template <scope S, typename T>
__global__ void count(T *target) {
    distwar::atomic_update<S>(target, T(1), distwar::add{});
}
template <scope S, typename T>
void check_updates() {
    const device_array<T> target(std::vector<T>(1, T(5)));
    const int blocks = S == scope::block ? 1 : BLOCKS;
    set_schedule(1);
    run(blocks, BLOCK, count<S, T>, target.get());
    EXPECT_EQ(target.download()[0], T(5 + blocks * BLOCK));
}
template <scope S>
void check_updates_of_every_size() {
    check_updates<S, unsigned short>();
    check_updates<S, short>();
    check_updates<S, float>();
    check_updates<S, int>();
    check_updates<S, double>();
    check_updates<S, long long>();
}
TEST(AtomicUpdateScope, Block) {
    check_updates_of_every_size<scope::block>();
}
TEST(AtomicUpdateScope, Device) {
    check_updates_of_every_size<scope::device>();
}
TEST(AtomicUpdateScope, System) {
    check_updates_of_every_size<scope::system>();
}

// A 2-byte update does not change the other half of its word, which other threads update meanwhile.
__global__ void count_neighbours(unsigned short *targets) {
    distwar::atomic_update(targets + threadIdx.x % 4, static_cast<unsigned short>(threadIdx.x % 4 + 1),
                           distwar::add{});
}
TEST(AtomicUpdateOfTwoBytes, NeighboursInOneWordDoNotDisturbEachOther) {
    for (int schedule = 0; schedule < 20; ++schedule) {
        const device_array<unsigned short> targets(std::vector<unsigned short>(4, 0));
        set_schedule(schedule);
        run(BLOCKS, BLOCK, count_neighbours, targets.get());
        const unsigned short each = BLOCKS * BLOCK / 4;
        EXPECT_EQ(targets.download(),
                  (std::vector<unsigned short>{each, static_cast<unsigned short>(2 * each),
                                               static_cast<unsigned short>(3 * each),
                                               static_cast<unsigned short>(4 * each)}));
    }
}

} // namespace
