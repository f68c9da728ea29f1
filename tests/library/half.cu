// SPDX-License-Identifier: MIT
// Half and bfloat16 destinations: every sum and every sink adds each value once and rounds it once.

#include "device_test.cuh"
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <limits>
#include <math.h>

using distwar::scope;
using distwar::strategy;

namespace {

float to_float(__half x) {
    return __half2float(x);
}
float to_float(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
template <typename T>
T rounded(float x);
template <>
__half rounded(float x) {
    return __float2half_rn(x);
}
template <>
__nv_bfloat16 rounded(float x) {
    return __float2bfloat16_rn(x);
}
template <typename T>
struct pair_with;
template <>
struct pair_with<__half> {
    using type = __half2;
};
template <>
struct pair_with<__nv_bfloat16> {
    using type = __nv_bfloat162;
};
template <typename T>
T from_bits(unsigned bits) {
    const unsigned short word = static_cast<unsigned short>(bits);
    T result;
    memcpy(static_cast<void *>(&result), &word, sizeof word);
    return result;
}
template <typename T>
unsigned bits_of(T value) {
    unsigned short word;
    memcpy(&word, &value, sizeof word);
    return word;
}

template <typename T>
class Half : public testing::Test {
  protected:
    static constexpr unsigned infinity = sizeof(T) == 2 && std::is_same_v<T, __half> ? 0x7c00 : 0x7f80;
};
using types = testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(Half, types);

// The middle between two neighbours is rounded to the even one, a value beside the middle to the nearer one.
// The middle between the largest value and 2^16 (bfloat16: 2^128) is rounded to infinity.
TYPED_TEST(Half, RoundsToNearestEven) {
    using T = TypeParam;
    for (unsigned bits = 0; bits < this->infinity; ++bits) {
        const float low = to_float(from_bits<T>(bits));
        const bool last = bits + 1 == this->infinity;
        const double high =
            last ? 2.0 * low - to_float(from_bits<T>(bits - 1)) : to_float(from_bits<T>(bits + 1));
        const float middle = float((low + high) / 2);
        ASSERT_EQ(bits_of(rounded<T>(low)), bits);
        ASSERT_EQ(bits_of(rounded<T>(-low)), bits | 0x8000);
        ASSERT_EQ(bits_of(rounded<T>(middle)), bits + bits % 2) << bits;
        ASSERT_EQ(bits_of(rounded<T>(nextafterf(middle, 0))), bits) << bits;
        ASSERT_EQ(bits_of(rounded<T>(nextafterf(middle, INFINITY))), bits + 1) << bits;
        ASSERT_EQ(bits_of(rounded<T>(-middle)), (bits + bits % 2) | 0x8000) << bits;
    }
    EXPECT_EQ(bits_of(rounded<T>(INFINITY)), this->infinity);
    EXPECT_TRUE(isinf(to_float(from_bits<T>(this->infinity))));
    EXPECT_TRUE(isnan(to_float(rounded<T>(NAN))));
}

enum { BLOCKS = 3, BLOCK = 64, KEYS = 3, K = 5, STRIDE = 8 };
enum sink_kind { POINTERS, RECORD, PLANES, PAIRS };

// Every third thread is inactive; thread t adds (t + k) % 2 to value k of key t % 4 / 2 or 2: sums are
// integers below 256, exact in both types, in any order. One key per warp, if `one_key`.
__host__ __device__ bool takes_part(unsigned thread) {
    return thread % 3 != 1;
}
__host__ __device__ int key_of(unsigned thread, bool one_key) {
    return one_key ? int(thread / 32 % KEYS) : int(thread * 7 % KEYS);
}
__host__ __device__ float value_of(unsigned thread, int k) {
    return float((thread + k) % 2);
}

template <strategy S, sink_kind Kind, typename T>
__global__ void reduce_threads(T *targets, bool one_key, int threshold) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    const bool active = takes_part(thread);
    const int key = key_of(thread, one_key);
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = active ? value_of(thread, k) : 77;
    const unsigned lanes = distwar::all_lanes;
    if constexpr (Kind == POINTERS) {
        distwar::pointers<K, T> sink;
        for (int k = 0; k < K; ++k) sink.address[k] = targets + key * STRIDE + k;
        distwar::reduce<S>(lanes, active, key, val, sink, threshold);
    } else if constexpr (Kind == RECORD) {
        distwar::reduce<S>(lanes, active, key, val, distwar::record<T>{targets, STRIDE}, threshold);
    } else if constexpr (Kind == PLANES) {
        distwar::reduce<S>(lanes, active, key, val, distwar::planes<T>{targets, STRIDE}, threshold);
    } else {
        using pair = typename pair_with<T>::type;
        distwar::reduce<S>(lanes, active, key, val,
                           distwar::record_of_pairs<pair>{reinterpret_cast<pair *>(targets), STRIDE / 2},
                           threshold);
    }
}

template <strategy S, sink_kind Kind, typename T>
void check_sums() {
    for (const bool one_key : {false, true})
        for (const int threshold : {0, 8, 33}) {
            std::vector<float> expected(STRIDE * STRIDE, 1.0f);
            for (unsigned thread = 0; thread < BLOCKS * BLOCK; ++thread)
                for (int k = 0; k < K; ++k) {
                    const int key = key_of(thread, one_key);
                    if (takes_part(thread))
                        expected[Kind == PLANES ? k * STRIDE + key : key * STRIDE + k] += value_of(thread, k);
                }
            const device_array<T> targets(std::vector<T>(STRIDE * STRIDE, rounded<T>(1)));
            set_schedule(threshold + one_key);
            run(BLOCKS, BLOCK, reduce_threads<S, Kind, T>, targets.get(), one_key, threshold);
            const std::vector<T> found = targets.download();
            for (int i = 0; i < STRIDE * STRIDE; ++i)
                EXPECT_EQ(to_float(found[i]), expected[i])
                    << "place " << i << ", sink " << Kind << ", threshold " << threshold;
        }
}
template <strategy S, typename T>
void check_every_sink() {
    check_sums<S, POINTERS, T>();
    check_sums<S, RECORD, T>();
    check_sums<S, PLANES, T>();
    check_sums<S, PAIRS, T>();
}

TYPED_TEST(Half, TakesEverySumThroughEverySink) {
    check_every_sink<strategy::atomic, TypeParam>();
    check_every_sink<strategy::serial, TypeParam>();
    check_every_sink<strategy::bfly, TypeParam>();
    check_every_sink<strategy::tree, TypeParam>();
}

template <scope S, typename T>
__global__ void add_at(T *targets, typename pair_with<T>::type *pairs, float value) {
    distwar::atomic_add<S>(targets, value);
    distwar::atomic_add<S>(pairs, float2{value, -value});
}
template <scope S, typename T>
void check_adds() {
    using pair = typename pair_with<T>::type;
    const device_array<T> targets(std::vector<T>(4, rounded<T>(1)));
    set_schedule(2);
    run(S == scope::block ? 1 : 3, 32, add_at<S, T>, targets.get(),
        reinterpret_cast<pair *>(targets.get() + 2), 0.5f);
    const std::vector<T> found = targets.download();
    const float sum = S == scope::block ? 16 : 48;
    EXPECT_EQ(to_float(found[0]), 1 + sum);
    EXPECT_EQ(to_float(found[1]), 1);
    EXPECT_EQ(to_float(found[2]), 1 + sum);
    EXPECT_EQ(to_float(found[3]), 1 - sum);
}
TYPED_TEST(Half, AddsAtEveryScope) {
    check_adds<scope::block, TypeParam>();
    check_adds<scope::device, TypeParam>();
    check_adds<scope::system, TypeParam>();
}

// The value is rounded, then the sum is rounded; one rounding of the exact sum would give another result.
TYPED_TEST(Half, RoundsTheValueThenTheSum) {
    using T = TypeParam;
    using pair = typename pair_with<T>::type;
    draw random(5);
    for (int i = 0; i < 100; ++i) {
        const T before = rounded<T>(float(random.below(2000)) / 7);
        const float value = (float(random.below(2000)) - 1000) / 9;
        const float after = to_float(rounded<T>(to_float(before) + to_float(rounded<T>(value))));
        const device_array<T> targets(std::vector<T>(4, before));
        run(1, 1, add_at<scope::device, T>, targets.get(), reinterpret_cast<pair *>(targets.get() + 2),
            value);
        EXPECT_EQ(to_float(targets.download()[0]), after);
        EXPECT_EQ(to_float(targets.download()[2]), after);
    }
}
TYPED_TEST(Half, OverflowIsInfiniteAndNanStays) {
    using T = TypeParam;
    using pair = typename pair_with<T>::type;
    for (const float value : {3e38f, float(INFINITY), float(NAN)}) {
        const device_array<T> targets(std::vector<T>(4, from_bits<T>(this->infinity - 1)));
        run(1, 1, add_at<scope::device, T>, targets.get(), reinterpret_cast<pair *>(targets.get() + 2),
            value);
        const float found = to_float(targets.download()[0]);
        EXPECT_TRUE(isnan(value) ? isnan(found) : isinf(found) && found > 0) << value << " gave " << found;
    }
}

// Operators other than the sum: in float in the warp, rounded once, then by compare-and-swap.
template <strategy S, typename Op, typename T>
__global__ void operate(T *targets, int threshold) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    const float odd =
        std::is_same_v<Op, distwar::multiply> ? 2.0f : 1000.5f - float(thread * 37 % 500) * 4.001f;
    const float val[2] = {thread % 64 == 7 ? odd : 1.0f, thread % 64 == 9 ? float(NAN) : 1.0f};
    distwar::reduce<S>(distwar::all_lanes, takes_part(thread), int(thread % KEYS), val,
                       distwar::record<T, Op>{targets, 2}, threshold);
}
template <strategy S, typename Op, typename T>
void check_operator() {
    for (const int threshold : {0, 33}) {
        std::vector<float> expected(KEYS * 2, 8.0f);
        for (unsigned thread = 0; thread < BLOCKS * BLOCK; ++thread) {
            if (!takes_part(thread)) continue;
            float &target = expected[thread % KEYS * 2];
            const bool product = std::is_same_v<Op, distwar::multiply>;
            const float value = thread % 64 != 7 ? 1.0f
                                : product        ? 2.0f
                                          : to_float(rounded<T>(1000.5f - float(thread * 37 % 500) * 4.001f));
            target = product                                ? target * value
                     : std::is_same_v<Op, distwar::minimum> ? std::fmin(target, value)
                                                            : std::fmax(target, value);
            float &other = expected[thread % KEYS * 2 + 1];
            if (!product && thread % 64 != 9)
                other =
                    std::is_same_v<Op, distwar::minimum> ? std::fmin(other, 1.0f) : std::fmax(other, 1.0f);
            if (product && thread % 64 == 9) other = NAN;
        }
        const device_array<T> targets(std::vector<T>(KEYS * 2, rounded<T>(8)));
        set_schedule(threshold);
        run(BLOCKS, BLOCK, operate<S, Op, T>, targets.get(), threshold);
        const std::vector<T> found = targets.download();
        for (int i = 0; i < KEYS * 2; ++i)
            EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(to_float(found[i]))
                                                : to_float(found[i]) == expected[i])
                << i << ": " << to_float(found[i]) << ", not " << expected[i];
    }
}
TYPED_TEST(Half, TakesOperatorsOtherThanTheSum) {
    using T = TypeParam;
    check_operator<strategy::tree, distwar::minimum, T>();
    check_operator<strategy::serial, distwar::maximum, T>();
    check_operator<strategy::tree, distwar::multiply, T>();
    check_operator<strategy::atomic, distwar::maximum, T>();
}

// An update of the type itself, by the 2-byte compare-and-swap.
template <typename T, typename Op>
__global__ void update(T *targets, Op op) {
    const int thread = int(blockIdx.x * blockDim.x + threadIdx.x);
    distwar::atomic_update(targets + thread % 3, T(float(thread % 5 / 2 - 1)), op);
}
template <typename T, typename Op>
std::vector<float> updated(float before, Op op) {
    const device_array<T> targets(std::vector<T>(4, rounded<T>(before)));
    set_schedule(3);
    run(5, 45, update<T, Op>, targets.get(), op);
    std::vector<float> result;
    for (const T value : targets.download()) result.push_back(to_float(value));
    return result;
}
TYPED_TEST(Half, IsUpdatedByAnyOperator) {
    using T = TypeParam;
    // each target meets -1 and 0 thirty times, 1 fifteen times
    EXPECT_EQ((updated<T>(3, distwar::add{})), (std::vector<float>{-12, -12, -12, 3}));
    EXPECT_EQ((updated<T>(5, distwar::minimum{})), (std::vector<float>{-1, -1, -1, 5}));
    EXPECT_EQ((updated<T>(-5, distwar::maximum{})), (std::vector<float>{1, 1, 1, -5}));
    EXPECT_EQ((updated<T>(7, distwar::multiply{})), (std::vector<float>{0, 0, 0, 7}));
}

} // namespace
