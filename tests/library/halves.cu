// SPDX-License-Identifier: MIT
// Half and bfloat16: as destinations of floats, where every sum and every sink adds each value once and rounds it once, and
// pairs of them as values.

#include "calls.cuh"

using distwar::add;
using distwar::all_lanes;
using distwar::maximum;
using distwar::minimum;
using distwar::multiply;
using distwar::scope;

namespace {

enum { SCHEDULES = 3 };

template <typename T>
T from_bits(unsigned bits) {
    const unsigned short word = static_cast<unsigned short>(bits);
    T result;
    memcpy(static_cast<void *>(&result), &word, sizeof word);
    return result;
}
template <typename T>
unsigned bits_of_stored(float value) {
    const T rounded = stored<T>(value);
    unsigned short word;
    memcpy(&word, &rounded, sizeof word);
    return word;
}

template <typename T>
class Half : public testing::Test {
  protected:
    using pair = typename pair_with<T>::type;
    static constexpr bool is_half = std::is_same_v<T, __half>;
    static constexpr unsigned infinity = is_half ? 0x7c00 : 0x7f80; // its bits
};
using types = testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(Half, types);

// The middle between two neighbours is rounded to the even one, a value beside the middle to the nearer one.
// The middle between the largest value and 2^16 (bfloat16: 2^128) is rounded to infinity.
TYPED_TEST(Half, RoundsToNearestEven) {
    using T = TypeParam;
    for (unsigned bits = 0; bits < this->infinity; ++bits) {
        const float low = float(number(from_bits<T>(bits)));
        const double high = bits + 1 == this->infinity ? 2.0 * low - number(from_bits<T>(bits - 1))
                                                       : number(from_bits<T>(bits + 1));
        const float middle = float((low + high) / 2);
        ASSERT_EQ(bits_of_stored<T>(low), bits);
        ASSERT_EQ(bits_of_stored<T>(-low), bits | 0x8000);
        ASSERT_EQ(bits_of_stored<T>(middle), bits + bits % 2) << bits;
        ASSERT_EQ(bits_of_stored<T>(nextafterf(middle, 0)), bits) << bits;
        ASSERT_EQ(bits_of_stored<T>(nextafterf(middle, INFINITY)), bits + 1) << bits;
        ASSERT_EQ(bits_of_stored<T>(-middle), (bits + bits % 2) | 0x8000) << bits;
    }
    EXPECT_EQ(bits_of_stored<T>(INFINITY), this->infinity);
    EXPECT_TRUE(std::isinf(number(from_bits<T>(this->infinity))));
    EXPECT_TRUE(std::isnan(number(stored<T>(NAN))));
}

// ---- calls

template <typename T, call_kind... Call>
void check_halves(draw &random) {
    (check<Call, POINTERS, add, 5, T, float>(random), ...);
    (check<Call, RECORD, add, 5, T, float>(random), ...);
    (check<Call, PLANES, add, 5, T, float>(random), ...);
    (check<Call, PAIRS, add, 5, T, float>(random), ...);
    for (int repetition = 0; repetition < 3; ++repetition) { // any half may be the last of its array
        (check<Call, HALVES, add, 3, T, float>(random), ...);
        (check<Call, HALVES, add, 4, T, float>(random), ...);
    }
    (check<Call, HALVES, add, 1, T, float, unsigned long long>(random), ...);
}
TYPED_TEST(Half, TakesEverySumThroughEverySink) {
    draw random(1);
    under_schedules(SCHEDULES, [&] {
        check_halves<TypeParam, ATOMIC, SERIAL, BFLY, TREE, ONE_CALL>(random);
        // Other operators: in float in the warp, rounded once, then by compare-and-swap.
        check<TREE, RECORD, minimum, 2, TypeParam, float>(random);
        check<SERIAL, RECORD, maximum, 2, TypeParam, float>(random);
        check<TREE, RECORD, multiply, 2, TypeParam, float>(random);
        check<ATOMIC, RECORD, maximum, 2, TypeParam, float>(random);
        check<ATOMIC, RECORD, minimum, 2, TypeParam, float>(random);
        check<ATOMIC, RECORD, multiply, 2, TypeParam, float>(random);
        check<TREE, PAIRS, add, 6, TypeParam, float, int, false, scope::system>(random);
    });
}
template <typename Pair, call_kind... Call>
void check_pairs(draw &random) {
    (check<Call, sink_in_turn<Call, 0>, add, 1, Pair>(random), ...);
    (check<Call, sink_in_turn<Call, 1>, add, 4, Pair>(random), ...);
    (check<Call, sink_in_turn<Call, 2>, add, 7, Pair>(random), ...);
    (check<Call, sink_in_turn<Call, 3>, minimum, 2, Pair>(random), ...);
    (check<Call, sink_in_turn<Call, 0>, maximum, 5, Pair>(random), ...);
    (check<Call, sink_in_turn<Call, 1>, multiply, 3, Pair>(random), ...);
    (check<Call, ALIGNED, add, 1, Pair>(random), ...);
    (check<Call, ALIGNED, add, 4, Pair>(random), ...);
    (check<Call, ALIGNED, add, 7, Pair>(random), ...);
}
TYPED_TEST(Half, PairsAreTakenByEveryCall) {
    using Pair = typename TestFixture::pair;
    draw random(2);
    under_schedules(SCHEDULES, [&] {
        check_pairs<Pair, ATOMIC, SERIAL, BFLY, TREE, GROUP>(random);
        check<ONE_CALL, ALIGNED, add, 2, Pair>(random);
        check<ONE_CALL, ALIGNED, add, 4, Pair>(random);
        check<ONE_CALL, RECORD, add, 1, Pair>(random);
        check<ONE_CALL, RECORD, add, 9, Pair>(random);
        check<ATOMIC, ALIGNED, add, 10, Pair>(
            random); // by one lane: two vectors of four pairs, and one of two
    });
}

// ---- atomics

template <scope S, typename T, typename Pair>
__global__ void add_at(T *target, Pair *pairs, float value) {
    distwar::atomic_add<S>(target, value);
    distwar::atomic_add<S>(pairs, float2{value, -value});
}
template <scope S, typename Pair>
__global__ void update_at(Pair *sum, Pair *product, Pair value) {
    distwar::atomic_add<S>(sum, value);
    if (threadIdx.x % 8 == 0) distwar::atomic_update<S>(product, value, multiply{});
}
template <scope S, typename T>
void check_adds() {
    using Pair = typename pair_with<T>::type;
    const unsigned blocks = S == scope::block ? 1 : 2;
    const float sum = 16.0f * float(blocks), factor = float(1 << 4 * blocks);
    const device_array<T> target(2, stored<T>(1));
    const device_array<Pair> pairs(4, pair_of<Pair>(1, 2));
    set_schedule(2);
    run(blocks, 32, add_at<S, T, Pair>, target.get(), pairs.get() + 1, 0.5f);
    run(blocks, 32, update_at<S, Pair>, pairs.get() + 2, pairs.get() + 3, pair_of<Pair>(0.5f, -2));
    EXPECT_EQ(number(target.download()[0]), 1 + sum);
    EXPECT_EQ(number(target.download()[1]), 1);
    const std::vector<Pair> found = pairs.download(),
                            wanted = {pair_of<Pair>(1, 2), pair_of<Pair>(1 + sum, 2 - sum),
                                      pair_of<Pair>(1 + sum, 2 - 4 * sum),
                                      pair_of<Pair>(1 / factor, 2 * factor)};
    for (size_t i = 0; i < wanted.size(); ++i)
        EXPECT_TRUE(same_number(found[i], wanted[i])) << i << ": " << testing::PrintToString(found[i]);
}
TYPED_TEST(Half, AddsAtEveryScope) {
    check_adds<scope::block, TypeParam>();
    check_adds<scope::device, TypeParam>();
    check_adds<scope::system, TypeParam>();
}

// The sum of a half, and the first of that of a pair, after one thread adds `value` to `before`.
template <typename T>
std::vector<double> after_adding(T before, float value) {
    using Pair = typename pair_with<T>::type;
    const device_array<T> targets(4, before);
    run(1, 1, add_at<scope::device, T, Pair>, targets.get(), reinterpret_cast<Pair *>(targets.get() + 2),
        value);
    return {number(targets.download()[0]), number(targets.download()[2])};
}
// The value is rounded, then the sum is rounded; one rounding of the exact sum would give another result.
TYPED_TEST(Half, RoundsTheValueThenTheSum) {
    using T = TypeParam;
    draw random(5);
    for (int i = 0; i < 100; ++i) {
        const T before = stored<T>(float(random.below(2000)) / 7);
        const float value = (float(random.below(2000)) - 1000) / 9;
        const double after = number(stored<T>(number(before) + number(stored<T>(value))));
        EXPECT_EQ(after_adding(before, value), std::vector<double>(2, after));
    }
    for (const float value : {3e38f, float(INFINITY), float(NAN)}) // added to the largest
        for (const double found : after_adding(from_bits<T>(this->infinity - 1), value))
            EXPECT_TRUE(std::isnan(value) ? std::isnan(found) : found == INFINITY)
                << value << " gave " << found;
}

// Threads add 0.5 to value `at` of an array of `count` halves, each one as a pair with the value beside it.
template <typename T>
__global__ void add_half(unsigned short *first, int count, int at) {
    const distwar::record_of_halves<T> sink = {reinterpret_cast<T *>(first), 1, count};
    sink.add_one(at, 0, 0.5f);
}
// Whatever the array begins and ends with, what lies beside it keeps its bits; in it -0.0, the smallest subnormal and infinity
// keep theirs, and a NaN stays one.
TYPED_TEST(Half, RecordsOfHalvesChangeNothingBeside) {
    using T = TypeParam;
    enum { SIZE = 10, THREADS = 8 };
    const unsigned short infinity = static_cast<unsigned short>(this->infinity), other = infinity + 0x21;
    const unsigned short kinds[] = {0x8000, 1, infinity, static_cast<unsigned short>(infinity | 0x8003)};
    for (int kind = 0; kind < 4; ++kind)
        for (int first = 2; first < 4; ++first)
            for (int count = 1; count <= 5; ++count)
                for (int at = 0; at < count; ++at) {
                    std::vector<unsigned short> memory(SIZE, other); // of another type: a NaN that signals
                    for (int i = 0; i < count; ++i) memory[first + i] = kinds[kind];
                    const device_array<unsigned short> device(memory);
                    set_schedule(1);
                    run(1, THREADS, add_half<T>, device.get() + first, count, at);
                    const std::vector<unsigned short> found = device.download();
                    for (int i = 0; i < SIZE; ++i) {
                        const double is = number(from_bits<T>(found[i]));
                        SCOPED_TRACE(testing::Message()
                                     << kind << ", " << first << ", " << count << ", " << at);
                        if (kind == 3 && i >= first && i < first + count)
                            EXPECT_TRUE(std::isnan(is));
                        else if (i == first + at)
                            EXPECT_EQ(is, kind == 2 ? INFINITY : THREADS / 2);
                        else
                            EXPECT_EQ(found[i], memory[i]);
                    }
                }
}

// A NaN that is given to a pair changes nothing, one in memory stays.
TYPED_TEST(Half, MinimaAndMaximaOfPairsOfSpecialValues) {
    using Pair = typename TestFixture::pair;
    const float largest = this->is_half ? 65504.0f : 3.3895314e38f;
    const float subnormal = this->is_half ? 5.9604645e-8f : 9.1835496e-41f;
    const std::vector<float> special = {0,         1,  -1,       2,         -2,  largest,   -largest,
                                        subnormal, -1, INFINITY, -INFINITY, NAN, -subnormal};
    std::vector<Pair> values;
    for (size_t i = 0; i < special.size(); ++i)
        values.push_back(pair_of<Pair>(special[i], special[(i + 5) % special.size()]));
    const auto kept = [](double old, double other) { return std::isnan(old) ? float(old) : float(other); };
    check_every_two(values, values, [&](Pair old, Pair value, Pair least, Pair most) {
        const double x = number(old.x), y = number(old.y), other_x = number(value.x),
                     other_y = number(value.y);
        EXPECT_TRUE(
            same_number(least, pair_of<Pair>(kept(x, std::fmin(x, other_x)), kept(y, std::fmin(y, other_y)))))
            << testing::PrintToString(old) << "; " << testing::PrintToString(value);
        EXPECT_TRUE(
            same_number(most, pair_of<Pair>(kept(x, std::fmax(x, other_x)), kept(y, std::fmax(y, other_y)))))
            << testing::PrintToString(old) << "; " << testing::PrintToString(value);
    });
}

// ---- accuracy: the error of a sum of 32 numbers of [0, 1), over the sum, in units of u: 2^-11, for bfloat16 2^-8

enum { WARPS = 200 };
enum way { PACKED_ATOMICS, PACKED_SERIAL, PACKED_BFLY, PACKED_TREE, FLOATS, WAYS };
template <typename Pair>
__global__ void sum_randomly(const Pair *values, Pair *sums) {
    const int warp = int(blockIdx.x);
    const Pair val[1] = {values[32 * warp + int(threadIdx.x)]};
    const auto to = [&](way which) { return distwar::record<Pair>{sums + which * WARPS, 1}; };
    distwar::reduce_atomic(all_lanes, true, warp, val, to(PACKED_ATOMICS));
    distwar::reduce_serial(all_lanes, true, warp, val, to(PACKED_SERIAL));
    distwar::reduce_bfly(all_lanes, true, warp, val, to(PACKED_BFLY));
    distwar::reduce_tree(all_lanes, true, warp, val, to(PACKED_TREE));
    const float wide[2] = {float(val[0].x), float(val[0].y)};
    distwar::reduce_tree(all_lanes, true, warp, wide,
                         distwar::record_of_pairs<Pair>{sums + FLOATS * WARPS, 1});
}
TYPED_TEST(Half, ErrorsOfSumsOfPairsAreWithinTheirBounds) {
    using Pair = typename TestFixture::pair;
    const double u = this->is_half ? 1.0 / 2048 : 1.0 / 256;
    draw random(11);
    std::vector<Pair> values;
    const auto unit = [&] { return float(random.below(1 << 20)) / (1 << 20); };
    for (int i = 0; i < WARPS * 32; ++i) {
        const float first = unit();
        values.push_back(pair_of<Pair>(first, unit()));
    }
    const device_array<Pair> device_values(values), sums(WAYS * WARPS, {});
    run(WARPS, 32, sum_randomly<Pair>, device_values.get(), sums.get());
    const std::vector<Pair> found = sums.download();
    double most[WAYS] = {}, squares[WAYS] = {};
    for (int warp = 0; warp < WARPS; ++warp) {
        double exact[2] = {};
        for (int lane = 0; lane < 32; ++lane)
            exact[0] += number(values[32 * warp + lane].x), exact[1] += number(values[32 * warp + lane].y);
        for (int way = 0; way < WAYS; ++way) {
            const Pair sum = found[way * WARPS + warp];
            for (const double error :
                 {(number(sum.x) / exact[0] - 1) / u, (number(sum.y) / exact[1] - 1) / u}) {
                most[way] = std::max(most[way], std::fabs(error));
                squares[way] += error * error / (2 * WARPS);
            }
        }
    }
    const double second_order = 1 + 32 * u;
    EXPECT_LE(most[FLOATS], 1);
    EXPECT_LE(most[PACKED_TREE], 5 * second_order);
    EXPECT_LE(most[PACKED_BFLY], 5 * second_order);
    EXPECT_LE(most[PACKED_SERIAL], 31 * second_order);
    EXPECT_LE(most[PACKED_ATOMICS], 32 * second_order);
    EXPECT_GT(most[PACKED_TREE], most[FLOATS]); // the sums in the warp do round
    EXPECT_LT(std::sqrt(squares[PACKED_TREE]), 0.8 * std::sqrt(squares[PACKED_ATOMICS]));
    EXPECT_LT(std::sqrt(squares[PACKED_TREE]), 1);
}

} // namespace
