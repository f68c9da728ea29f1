// SPDX-License-Identifier: MIT
// Atomic adds and updates lose no value: every type, every scope, global and shared memory. Updates treat zero, -0.0 and NaN
// as atomic.cuh says.

#include "device_test.cuh"
#include "numbers.cuh"
#ifdef __SIMT__
// simt runs all scopes alike, so the functions that the headers call are counted by name; tests/codegen looks for the scope
// of each sink in the instructions.
#include <atomic>
std::atomic<int> calls_at_scope[3]; // by distwar::scope
#define COUNTED(scope, function) ((void)++calls_at_scope[scope], function)
#define atomicAdd(...) COUNTED(1, atomicAdd(__VA_ARGS__))
#define atomicAdd_block(...) COUNTED(0, atomicAdd_block(__VA_ARGS__))
#define atomicAdd_system(...) COUNTED(2, atomicAdd_system(__VA_ARGS__))
#define atomicMin(...) COUNTED(1, atomicMin(__VA_ARGS__))
#define atomicMin_block(...) COUNTED(0, atomicMin_block(__VA_ARGS__))
#define atomicMin_system(...) COUNTED(2, atomicMin_system(__VA_ARGS__))
#define atomicCAS(...) COUNTED(1, atomicCAS(__VA_ARGS__))
#define atomicCAS_block(...) COUNTED(0, atomicCAS_block(__VA_ARGS__))
#define atomicCAS_system(...) COUNTED(2, atomicCAS_system(__VA_ARGS__))
#endif
#include "calls.cuh"

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

// Calls once(), whose atomics are all of this scope.
template <typename Launch>
void run_at([[maybe_unused]] scope of, const Launch &once) {
#ifdef __SIMT__
    for (std::atomic<int> &calls : calls_at_scope) calls = 0;
    once();
    for (int other = 0; other < 3; ++other) EXPECT_EQ(calls_at_scope[other] != 0, other == int(of)) << other;
#else
    once();
#endif
}

enum { BLOCKS = 40, BLOCK = 96, THREADS = BLOCKS * BLOCK, TARGETS = 3 };

// ---- atomic_add

// A thread's value: small integers, exact in any order, or of 8 bytes some whose sums carry from the lower word to the
// upper one, small negative ones among them.
template <typename T>
__host__ __device__ T value_of(unsigned thread) {
    const double n = double(thread + 1);
    if (std::is_integral_v<T>) return T((std::is_signed_v<T> && thread % 2 ? -1.0 : 4294967295.0) * n);
    return T(n);
}

// Thread t adds its value to targets[t % TARGETS], directly or through shared memory.
template <scope S, bool Shared, typename T>
__global__ void add_each(T *targets) {
    __shared__ T gathered[TARGETS];
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (Shared && threadIdx.x < TARGETS) gathered[threadIdx.x] = T{};
    __syncthreads();
    T *const to = (Shared ? gathered : targets) + thread % TARGETS;
    using word =
        unsigned long long; // of whose sums in shared memory a GPU adds two halves: here simt does, too
    if constexpr (Shared && S == scope::block && std::is_integral_v<T>)
        distwar::detail::add_halves(reinterpret_cast<word *>(to), word(value_of<T>(thread)));
    else
        distwar::atomic_add<S>(to, value_of<T>(thread));
    __syncthreads();
    if (Shared && threadIdx.x < TARGETS) distwar::atomic_add(targets + threadIdx.x, gathered[threadIdx.x]);
}
template <scope S, bool Shared, typename T>
void check_adds() {
    // At block scope, different blocks must not add to the same target; shared memory is their own.
    const int blocks = S == scope::block && !Shared ? 1 : BLOCKS;
    std::vector<T> expected(TARGETS);
    for (int thread = 0; thread < blocks * BLOCK; ++thread)
        expected[thread % TARGETS] += value_of<T>(unsigned(thread));
    for (int schedule = 0; schedule < 5; ++schedule) {
        const device_array<T> targets(TARGETS, {});
        set_schedule(schedule);
        const auto add = [&] { run(blocks, BLOCK, add_each<S, Shared, T>, targets.get()); };
        if (Shared && S != scope::device) // the sums of the blocks are added at the scope of the device
            add();
        else
            run_at(S, add);
        EXPECT_EQ(targets.download(), expected)
            << "scope " << int(S) << ", shared " << Shared << ", schedule " << schedule;
    }
}
template <typename T>
class AtomicAdd : public testing::Test {};
using types_to_add = testing::Types<float, double, long, unsigned long, long long, unsigned long long>;
TYPED_TEST_SUITE(AtomicAdd, types_to_add);
TYPED_TEST(AtomicAdd, LosesNothingAtAnyScope) {
    check_adds<scope::block, false, TypeParam>();
    check_adds<scope::block, true, TypeParam>();
    check_adds<scope::device, false, TypeParam>();
    check_adds<scope::device, true, TypeParam>();
    check_adds<scope::system, false, TypeParam>();
    check_adds<scope::system, true, TypeParam>();
}

// ---- atomic_update

// Thread t applies op with values[t] to target t % TARGETS and stores the value that it returned.
template <scope S, typename T, typename Op>
__global__ void update(const T *values, T *targets, T *before) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    before[thread] = distwar::atomic_update<S>(targets + thread % TARGETS, values[thread], Op{});
}

// One block at its scope, more at the others. Targets of 2 bytes share words. The values found must be those
// of some sequence of updates: the result of each update that changed the target is found by the next one.
template <typename T, typename Op>
void check_contention(const std::vector<T> &values, T initial, std::vector<T> expected) {
    for (int schedule = 0; schedule < 5; ++schedule) {
        const device_array<T> device_values(values), targets(TARGETS, initial);
        const int threads = int(values.size());
        const device_array<T> before(values.size(), {});
        void (*const kernels[])(const T *, T *, T *) = {
            update<scope::block, T, Op>, update<scope::device, T, Op>, update<scope::system, T, Op>};
        const int of = threads == BLOCK ? 0 : 1 + schedule % 2;
        set_schedule(schedule);
        run_at(scope(of), [&] {
            run(threads / BLOCK, BLOCK, kernels[of], device_values.get(), targets.get(), before.get());
        });
        EXPECT_EQ(targets.download(), expected);

        const std::vector<T> found = before.download();
        for (int target = 0; target < TARGETS; ++target) {
            std::vector<T> reached = {initial}, replaced = {expected[target]};
            for (int thread = target; thread < threads; thread += TARGETS) {
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

TYPED_TEST(AtomicUpdate, LosesNothingAtAnyScope) {
    using T = TypeParam;
    draw random(3);
    for (const int threads : {int(BLOCK), int(THREADS)}) {
        std::vector<T> values, sum(TARGETS, T(1)), least(TARGETS, T(5000)), most(TARGETS, T(0));
        for (int thread = 0; thread < threads; ++thread) {
            const T value = T(random.below(4000)); // sums stay below 2^24; some values are zero
            T &s = sum[thread % TARGETS], &l = least[thread % TARGETS], &m = most[thread % TARGETS];
            values.push_back(value);
            s = T(s + value), l = std::min(l, value), m = std::max(m, value);
        }
        check_contention<T, add>(values, T(1), sum);
        check_contention<T, minimum>(values, T(5000), least);
        check_contention<T, maximum>(values, T(0), most);
    }
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
    const device_array<range> target(1, range{0, 0});
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
    const device_array<T> target(1, memory);
    const device_array<outcome<T>> result(1, {});
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
    std::vector<T> initial;
    for (const T value : values) initial.push_back(isnan(value) ? T(3) : value);
    check_every_two<S>(initial, values, [](T old, T value, T least, T most) {
        const bool changes = !isnan(value);
        EXPECT_EQ(least, changes ? fmin(old, value) : old) << old << ", " << value;
        EXPECT_EQ(most, changes ? fmax(old, value) : old) << old << ", " << value;
        if (old == 0 && value == 0) { // -0.0 is below 0.0
            EXPECT_EQ(signbit(least), signbit(old) || signbit(value));
            EXPECT_EQ(signbit(most), signbit(old) && signbit(value));
        }
    });
}
TEST(AtomicUpdateOf, SpecialFloatsIsAMinimumOrAMaximum) {
    check_special<scope::block, float>();
    check_special<scope::device, float>();
    check_special<scope::system, double>();
    check_special<scope::device, double>();
}

} // namespace
