// SPDX-License-Identifier: MIT
// Atomic adds and updates lose no value: every type, every scope, global and shared memory. Updates treat zero, -0.0 and NaN
// as atomic.cuh says.

#include "device_test.cuh"
#include <algorithm>
#include <distwar/atomic.cuh>
#include <gtest/gtest.h>
#include <limits>
#include <math.h>
#include <type_traits>

using distwar::add;
using distwar::maximum;
using distwar::minimum;
using distwar::multiply;
using distwar::scope;

namespace {

// The types of values that a type in memory takes.
using distwar::detail::takes_values;
static_assert(takes_values<int, int> && takes_values<double, double> && takes_values<double, float>);
static_assert(!takes_values<float, double> && !takes_values<int, float> && !takes_values<double, int>);

enum { BLOCKS = 40, BLOCK = 96, THREADS = BLOCKS * BLOCK, TARGETS = 3 };

// ---- atomic_add

// Part `i` of the value of a thread: small integers, whose sums are exact in any order, or of 8 bytes some whose sums carry
// from the lower word to the upper one.
template <typename T>
__host__ __device__ double part_of(unsigned thread, int i) {
    const double n = double(thread + 1);
    if (std::is_integral_v<T>) return (std::is_signed_v<T> ? -4294967295.0 : 4294967295.0) * n;
    return i == 0 ? n : i == 1 ? -n : double(4 - i);
}
template <typename T>
struct vector_of { // how many parts of which type
    using type = T;
    static __device__ T value(unsigned thread) { return T(part_of<T>(thread, 0)); }
};
template <>
struct vector_of<float2> {
    using type = float;
    static __device__ float2 value(unsigned thread) {
        return {float(part_of<float>(thread, 0)), float(part_of<float>(thread, 1))};
    }
};
template <>
struct vector_of<float4> {
    using type = float;
    static __device__ float4 value(unsigned thread) {
        return {float(part_of<float>(thread, 0)), float(part_of<float>(thread, 1)),
                float(part_of<float>(thread, 2)), float(part_of<float>(thread, 3))};
    }
};

// Thread t adds its value to targets[t % TARGETS], directly or first in shared memory.
template <scope S, bool Shared, typename T>
__global__ void add_each(T *targets) {
    __shared__ T gathered[TARGETS];
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (Shared && threadIdx.x < TARGETS) gathered[threadIdx.x] = T{};
    __syncthreads();
    distwar::atomic_add<S>((Shared ? gathered : targets) + thread % TARGETS, vector_of<T>::value(thread));
    __syncthreads();
    if (Shared && threadIdx.x < TARGETS) distwar::atomic_add(targets + threadIdx.x, gathered[threadIdx.x]);
}
template <scope S, bool Shared, typename T>
void check_adds() {
    using part = typename vector_of<T>::type;
    constexpr int parts = sizeof(T) / sizeof(part);
    // At block scope, different blocks must not add to the same target; shared memory is their own.
    const int blocks = S == scope::block && !Shared ? 1 : BLOCKS;
    std::vector<part> expected(TARGETS * parts);
    for (int thread = 0; thread < blocks * BLOCK; ++thread)
        for (int i = 0; i < parts; ++i)
            expected[thread % TARGETS * parts + i] += part(part_of<part>(unsigned(thread), i));
    for (int schedule = 0; schedule < 5; ++schedule) {
        const device_array<T> targets(std::vector<T>(TARGETS, T{}));
        set_schedule(schedule);
        run(blocks, BLOCK, add_each<S, Shared, T>, targets.get());
        const std::vector<T> found = targets.download();
        EXPECT_EQ(memcmp(found.data(), expected.data(), sizeof(T) * TARGETS), 0)
            << "scope " << int(S) << ", shared " << Shared << ", schedule " << schedule;
    }
}
template <typename T>
class AtomicAdd : public testing::Test {};
using types_to_add =
    testing::Types<float, double, long, unsigned long, long long, unsigned long long, float2, float4>;
TYPED_TEST_SUITE(AtomicAdd, types_to_add);
TYPED_TEST(AtomicAdd, LosesNothingAtAnyScope) {
    check_adds<scope::block, false, TypeParam>();
    check_adds<scope::block, true, TypeParam>();
    check_adds<scope::device, false, TypeParam>();
    check_adds<scope::device, true, TypeParam>();
    check_adds<scope::system, false, TypeParam>();
    check_adds<scope::system, true, TypeParam>();
}

// What atomic_add of 8 bytes does in shared memory on a GPU. The carries of all threads and the upper halves meet in any order.
__global__ void add_two_halves(const unsigned long long *values, unsigned long long *sum) {
    __shared__ unsigned long long gathered;
    if (threadIdx.x == 0) gathered = 0;
    __syncthreads();
    distwar::detail::add_halves(&gathered, values[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) *sum = gathered;
}
TEST(AtomicAddOf, TwoHalvesIsThatOf8Bytes) {
    const unsigned long long first[] = {~0ull,      1,          0xffffffff, 1ull << 32,  1ull << 63, 0,
                                        ~0ull << 1, 0x80000000, 0x80000000, ~0ull << 32, ~0ull << 63};
    draw random(6);
    for (int repetition = 0; repetition < 60; ++repetition) {
        std::vector<unsigned long long> values(BLOCK);
        unsigned long long expected = 0;
        for (int i = 0; i < BLOCK;
             ++i) { // the cases above, numbers whose lower halves carry mostly, small negative ones
            const unsigned long long any = (unsigned long long)(random.bits()) << 32 | random.bits();
            values[i] = i < 11                ? first[(i + repetition) % 11]
                        : repetition % 3 == 0 ? any
                        : repetition % 3 == 1 ? any | 0xfffff000
                                              : ~(any & 15);
            expected += values[i];
        }
        const device_array<unsigned long long> given(values), sum(std::vector<unsigned long long>(1));
        set_schedule(repetition % 5);
        run(1, BLOCK, add_two_halves, given.get(), sum.get());
        EXPECT_EQ(sum.download()[0], expected) << repetition;
    }
}

// ---- atomic_update

// Thread t applies op with values[t] to target t % TARGETS and stores the value that it returned.
template <typename T, typename Op>
__global__ void update(const T *values, T *targets, T *before) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    before[thread] = distwar::atomic_update(targets + thread % TARGETS, values[thread], Op{});
}

// The values found before must be those of some sequence of updates: the result of each update that changed
// the target is found by the next one.
template <typename T, typename Op>
void check_contention(const std::vector<T> &values, T initial, std::vector<T> expected) {
    for (int schedule = 0; schedule < 5; ++schedule) {
        const device_array<T> device_values(values), targets(std::vector<T>(TARGETS, initial));
        const device_array<T> before(std::vector<T>(THREADS, T(0)));
        set_schedule(schedule);
        run(BLOCKS, BLOCK, update<T, Op>, device_values.get(), targets.get(), before.get());
        EXPECT_EQ(targets.download(), expected);

        const std::vector<T> found = before.download();
        for (int target = 0; target < TARGETS; ++target) {
            std::vector<T> reached = {initial}, replaced = {expected[target]};
            for (int thread = target; thread < THREADS; thread += TARGETS) {
                const T after = Op{}(found[thread], values[thread]);
                if (after == found[thread]) continue;
                replaced.push_back(found[thread]);
                reached.push_back(after);
            }
            std::sort(reached.begin(), reached.end());
            std::sort(replaced.begin(), replaced.end());
            EXPECT_EQ(reached, replaced);
        }
    }
}

template <typename T>
class AtomicUpdate : public testing::Test {};
using types =
    testing::Types<short, unsigned short, float, double, int, unsigned, long long, unsigned long long>;
TYPED_TEST_SUITE(AtomicUpdate, types);

TYPED_TEST(AtomicUpdate, LosesNothing) {
    using T = TypeParam;
    std::vector<T> values, sum(TARGETS, T(1)), least(TARGETS, T(5000)), most(TARGETS, T(0));
    draw random(3);
    for (int thread = 0; thread < THREADS; ++thread) {
        const T value = T(random.below(4000)); // sums stay below 2^24; some values are zero
        T &s = sum[thread % TARGETS], &l = least[thread % TARGETS], &m = most[thread % TARGETS];
        values.push_back(value);
        s = T(s + value), l = std::min(l, value), m = std::max(m, value);
    }
    check_contention<T, add>(values, T(1), sum);
    check_contention<T, minimum>(values, T(5000), least);
    check_contention<T, maximum>(values, T(0), most);
}

// Factors whose product is exact in any order. An unsigned product wraps, so any factors will do.
TYPED_TEST(AtomicUpdate, MultiplyLosesNothing) {
    using T = TypeParam;
    constexpr bool real = std::is_floating_point_v<T>, wraps = std::is_unsigned_v<T> && sizeof(T) >= 4;
    const T choice[] = {T(-1), T(1), T(real ? 2 : 1), T(real ? 0.5 : 1)};
    std::vector<T> factors, product(TARGETS, T(1));
    draw random(4);
    for (int thread = 0; thread < THREADS; ++thread) {
        factors.push_back(wraps ? T(random.bits() | 1) : choice[random.below(4)]);
        T &p = product[thread % TARGETS];
        p = T(p * factors.back());
    }
    check_contention<T, multiply>(factors, T(1), product);
}

// Compare-and-swap of 2, 4 and 8 bytes at every scope.
template <scope S, typename T>
__global__ void count(T *target) {
    distwar::atomic_update<S>(target, T(1), add{});
}
template <typename T>
void check_scopes() {
    void (*const kernels[])(T *) = {count<scope::block, T>, count<scope::device, T>, count<scope::system, T>};
    for (const auto kernel : kernels) {
        const device_array<T> target(std::vector<T>(1, T(5)));
        const int blocks = kernel == kernels[0] ? 1 : BLOCKS;
        set_schedule(1);
        run(blocks, BLOCK, kernel, target.get());
        EXPECT_EQ(target.download()[0], T(5 + blocks * BLOCK));
    }
}
TEST(AtomicUpdateOf, EverySizeAtEveryScope) {
    check_scopes<unsigned short>();
    check_scopes<short>();
    check_scopes<float>();
    check_scopes<int>();
    check_scopes<double>();
    check_scopes<long long>();
}

// A 2-byte update does not change the other half of its word, which other threads update meanwhile.
__global__ void count_neighbours(unsigned short *targets) {
    const unsigned place = threadIdx.x % 4;
    distwar::atomic_update(targets + place, static_cast<unsigned short>(place + 1), add{});
}
TEST(AtomicUpdateOf, NeighboursInOneWordDoNotDisturbEachOther) {
    std::vector<unsigned short> expected;
    for (int i = 1; i <= 4; ++i) expected.push_back(static_cast<unsigned short>(i * THREADS / 4));
    for (int schedule = 0; schedule < 20; ++schedule) {
        const device_array<unsigned short> targets(std::vector<unsigned short>(4, 0));
        set_schedule(schedule);
        run(BLOCKS, BLOCK, count_neighbours, targets.get());
        EXPECT_EQ(targets.download(), expected);
    }
}

// A structure of two halves with an operator for each.
struct alignas(8) range {
    float least, most;
};
struct widen {
    __device__ range operator()(range old, range value) const {
        return {value.least < old.least ? value.least : old.least,
                old.most < value.most ? value.most : old.most};
    }
};
__global__ void widen_by_thread(range *target) {
    const float thread = float(blockIdx.x * blockDim.x + threadIdx.x);
    distwar::atomic_update(target, range{-thread, thread}, widen{});
}

TEST(AtomicUpdateOf, AStructure) {
    const device_array<range> target(std::vector<range>(1, range{0, 0}));
    run(BLOCKS, BLOCK, widen_by_thread, target.get());
    EXPECT_EQ(target.download()[0].least, float(1 - THREADS));
    EXPECT_EQ(target.download()[0].most, float(THREADS - 1));
}

// One update by one thread: the bits that it returns and the bits that it leaves.
template <typename T>
struct outcome {
    T before, after;
};
template <typename T, typename Op>
__global__ void update_once(T *target, T value, outcome<T> *result) {
    result->before = distwar::atomic_update(target, value, Op{});
    result->after = *target;
}
template <typename T, typename Op>
void expect_outcome(T memory, T value, T after) {
    const device_array<T> target(std::vector<T>(1, memory));
    const device_array<outcome<T>> result(std::vector<outcome<T>>(1, outcome<T>{}));
    run(1, 1, update_once<T, Op>, target.get(), value, result.get());
    const outcome<T> found = result.download()[0];
    EXPECT_TRUE(same_bits(found.before, memory)) << found.before << " is not " << memory;
    constexpr bool computes = std::is_same_v<Op, add> || std::is_same_v<Op, multiply>;
    if (isnan(after) && computes) // the bits of a NaN that arithmetic returns depend on the machine
        EXPECT_TRUE(isnan(found.after)) << memory << " and " << value << " gave " << found.after;
    else
        EXPECT_TRUE(same_bits(found.after, after)) << memory << " and " << value << " gave " << found.after;
}

template <typename T>
void check_zero_and_nan() {
    const T nan = std::numeric_limits<T>::quiet_NaN(), zero = 0, minus_zero = -zero, one = 1;
    expect_outcome<T, add>(one, one, T(2));
    expect_outcome<T, add>(minus_zero, zero, minus_zero); // skipped; an addition would give +0.0
    expect_outcome<T, add>(minus_zero, minus_zero, minus_zero);
    expect_outcome<T, add>(nan, zero, nan);
    expect_outcome<T, add>(one, nan, nan);
    expect_outcome<T, add>(nan, one, nan);
    expect_outcome<T, add>(one, -one, zero);
    expect_outcome<T, multiply>(T(3), T(-2), T(-6));
    expect_outcome<T, multiply>(zero, -one, minus_zero);
    expect_outcome<T, multiply>(nan, zero, nan);
    expect_outcome<T, multiply>(one, nan, nan);
    expect_outcome<T, minimum>(one, nan, one);
    expect_outcome<T, minimum>(nan, one, nan);
    expect_outcome<T, minimum>(zero, minus_zero, zero);
    expect_outcome<T, minimum>(minus_zero, zero, minus_zero);
    expect_outcome<T, maximum>(one, nan, one);
    expect_outcome<T, maximum>(nan, one, nan);
    expect_outcome<T, maximum>(zero, minus_zero, zero);
    expect_outcome<T, maximum>(minus_zero, zero, minus_zero);
}

TEST(AtomicUpdateOf, ZeroAndNan) {
    check_zero_and_nan<float>();
    check_zero_and_nan<double>();
}

// Minima and maxima of every two floats that are special, at every scope.
template <scope S, typename T>
__global__ void update_each(const T *values, int count, T *minima, T *maxima) {
    const int i = int(threadIdx.x) / count, j = int(threadIdx.x) % count;
    distwar::detail::update_in_memory<S>(minima + i * count + j, values[j], minimum{});
    distwar::detail::update_in_memory<S>(maxima + i * count + j, values[j], maximum{});
}
template <scope S, typename T>
void check_special() {
    using limits = std::numeric_limits<T>;
    T barely_nan = limits::infinity(); // the NaN whose bits follow those of infinity
    unsigned long long bits = 0;
    memcpy(&bits, &barely_nan, sizeof(T));
    memcpy(&barely_nan, &++bits, sizeof(T));
    std::vector<T> values = {barely_nan};
    for (const T value : {T(0), T(1), T(2), limits::max(), limits::min(), limits::denorm_min(),
                          limits::infinity(), limits::quiet_NaN()})
        values.insert(values.end(), {value, -value});
    const int count = int(values.size());
    std::vector<T> initial;
    for (int i = 0; i < count * count; ++i)
        initial.push_back(isnan(values[i / count]) ? T(3) : values[i / count]);
    const device_array<T> device_values(values), minima(initial), maxima(initial);
    run(1, unsigned(count * count), update_each<S, T>, device_values.get(), count, minima.get(),
        maxima.get());
    const std::vector<T> least = minima.download(), most = maxima.download();
    for (int i = 0; i < count * count; ++i) {
        const T old = initial[i], value = values[i % count];
        const bool changes = !isnan(value);
        EXPECT_EQ(least[i], changes ? fmin(old, value) : old) << old << ", " << value;
        EXPECT_EQ(most[i], changes ? fmax(old, value) : old) << old << ", " << value;
        if (old == 0 && value == 0) { // -0.0 is below 0.0
            EXPECT_EQ(signbit(least[i]), signbit(old) || signbit(value));
            EXPECT_EQ(signbit(most[i]), signbit(old) && signbit(value));
        }
    }
}
TEST(AtomicUpdateOf, SpecialFloatsIsAMinimumOrAMaximum) {
    check_special<scope::block, float>();
    check_special<scope::device, float>();
    check_special<scope::system, double>();
    check_special<scope::device, double>();
}

} // namespace
