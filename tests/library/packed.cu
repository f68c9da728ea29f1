// SPDX-License-Identifier: MIT
// Pairs of half and bfloat16 as values: every call, sink and operator, what a pair costs, and how accurate
// sums are.

#include "every_call.cuh"
#include <algorithm>
#include <cmath>
#include <distwar/half.cuh>
#include <limits>
#include <type_traits>

using distwar::all_lanes;
using distwar::scope;

template <typename Pair>
struct other_sink {
    static __device__ distwar::aligned_record<Pair> of(Pair *base, size_t stride) { return {base, stride}; }
};

// GoogleTest prints pairs by these: it finds them by their argument.
static void PrintTo(__half2 pair, std::ostream *out) {
    *out << __half2float(pair.x) << ' ' << __half2float(pair.y);
}
static void PrintTo(__nv_bfloat162 pair, std::ostream *out) {
    *out << __bfloat162float(pair.x) << ' ' << __bfloat162float(pair.y);
}

namespace {

template <typename Pair>
inline constexpr bool is_half = std::is_same_v<Pair, __half2>;
float first_of(__half2 pair) {
    return __half2float(pair.x);
}
float second_of(__half2 pair) {
    return __half2float(pair.y);
}
float first_of(__nv_bfloat162 pair) {
    return __bfloat162float(pair.x);
}
float second_of(__nv_bfloat162 pair) {
    return __bfloat162float(pair.y);
}
template <typename Pair>
Pair pair_of(float first, float second) {
    if constexpr (is_half<Pair>)
        return Pair{__float2half_rn(first), __float2half_rn(second)};
    else
        return Pair{__float2bfloat16_rn(first), __float2bfloat16_rn(second)};
}
template <typename Pair>
bool same(Pair a, Pair b) { // NaN equals NaN
    const auto equal = [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); };
    return equal(first_of(a), first_of(b)) && equal(second_of(a), second_of(b));
}

template <typename Pair>
class Packed : public testing::Test {};
using types = testing::Types<__half2, __nv_bfloat162>;
TYPED_TEST_SUITE(Packed, types);

enum { CALLS = 40, SCHEDULES = 3 };

// Sums and products are exact in any order; minima and maxima meet NaN and infinity.
template <typename Op>
float draw_value(draw &random) {
    if (std::is_same_v<Op, distwar::add>) return float(random.below(7)) - 3;
    if (std::is_same_v<Op, distwar::multiply>) return random.below(8) ? 1 : random.below(2) ? -2.0f : 0.5f;
    switch (random.below(16)) {
    case 0:
        return INFINITY;
    case 1:
        return -INFINITY;
    case 2:
        return NAN;
    default:
        return (float(random.below(2000)) - 1000) / 8;
    }
}
template <typename Op>
float combined(float old, float value) {
    return std::is_same_v<Op, distwar::add>        ? old + value
           : std::is_same_v<Op, distwar::multiply> ? old * value
           : std::is_same_v<Op, distwar::minimum>  ? std::fmin(old, value)
                                                   : std::fmax(old, value);
}

template <typename Op, typename Pair>
struct rules {
    using type = Pair;
    static Pair value(draw &random) {
        const float first = draw_value<Op>(random);
        return pair_of<Pair>(first, draw_value<Op>(random));
    }
    static Pair idle(draw &) { return pair_of<Pair>(NAN, NAN); }
    static Pair start(draw &random) {
        const float first = float(random.below(8)) - 3;
        return pair_of<Pair>(first, float(random.below(8)) - 4);
    }
    static Pair combined(Pair old, Pair given) {
        return pair_of<Pair>(::combined<Op>(first_of(old), first_of(given)),
                             ::combined<Op>(second_of(old), second_of(given)));
    }
    static bool same(Pair a, Pair b) { return ::same(a, b); }
};
template <call_kind Call, sink_kind Kind, typename Op, int K, typename Pair>
void check(draw &random) {
    check_case<rules<Op, Pair>, Call, Kind, Op, K>(random, CALLS);
}

template <call_kind Call, typename Pair>
void check_call() {
    using namespace distwar;
    draw random(1 + Call);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        check<Call, sink_in_turn<Call, 0>, add, 1, Pair>(random);
        check<Call, sink_in_turn<Call, 1>, add, 4, Pair>(random);
        check<Call, sink_in_turn<Call, 2>, add, 7, Pair>(random);
        check<Call, sink_in_turn<Call, 3>, minimum, 2, Pair>(random);
        check<Call, sink_in_turn<Call, 0>, maximum, 5, Pair>(random);
        check<Call, sink_in_turn<Call, 1>, multiply, 3, Pair>(random);
        check<Call, OTHER, add, 1, Pair>(random);
        check<Call, OTHER, add, 4, Pair>(random);
        check<Call, OTHER, add, 7, Pair>(random);
        if (testing::Test::HasFailure()) return;
    }
}
TYPED_TEST(Packed, ByAtomics) {
    check_call<ATOMIC, TypeParam>();
}
TYPED_TEST(Packed, BySerial) {
    check_call<SERIAL, TypeParam>();
}
TYPED_TEST(Packed, ByBfly) {
    check_call<BFLY, TypeParam>();
}
TYPED_TEST(Packed, ByTrees) {
    check_call<TREE, TypeParam>();
}
TYPED_TEST(Packed, OfRuns) {}
TYPED_TEST(Packed, OfGroups) {
    check_call<GROUP, TypeParam>();
}

// By one lane: two vectors of four pairs, and one of two.
TYPED_TEST(Packed, TenPairsInVectors) {
    draw random(10);
    check<ATOMIC, OTHER, distwar::add, 10, TypeParam>(random);
}

// atomic_add and atomic_update of one pair, at every scope.
template <scope S, typename Pair>
__global__ void update_at(Pair *sum, Pair *product, Pair value) {
    distwar::atomic_add<S>(sum, value);
    if (threadIdx.x % 8 == 0) distwar::atomic_update<S>(product, value, distwar::multiply{});
}
template <scope S, typename Pair>
void check_updates() {
    const unsigned blocks = S == scope::block ? 1 : 2;
    const device_array<Pair> sum(std::vector<Pair>(2, pair_of<Pair>(1, 2)));
    const device_array<Pair> product(std::vector<Pair>(1, pair_of<Pair>(1, 3)));
    set_schedule(3);
    run(blocks, 32, update_at<S, Pair>, sum.get() + 1, product.get(), pair_of<Pair>(0.5f, -2));
    EXPECT_TRUE(same(sum.download()[0], pair_of<Pair>(1, 2)));
    EXPECT_TRUE(same(sum.download()[1], pair_of<Pair>(1 + 16.0f * blocks, 2 - 64.0f * blocks)));
    const float factor = float(1 << 4 * blocks);
    EXPECT_TRUE(same(product.download()[0], pair_of<Pair>(1 / factor, 3 * factor)));
}
TYPED_TEST(Packed, IsUpdatedAtEveryScope) {
    check_updates<scope::block, TypeParam>();
    check_updates<scope::device, TypeParam>();
    check_updates<scope::system, TypeParam>();
}

// Minima and maxima of every two special values: a NaN that is given changes nothing, one in memory stays.
template <typename Pair>
__global__ void update_each(const Pair *values, int count, Pair *minima, Pair *maxima) {
    const int i = int(threadIdx.x) / count, j = int(threadIdx.x) % count;
    distwar::atomic_update(minima + i * count + j, values[j], distwar::minimum{});
    distwar::atomic_update(maxima + i * count + j, values[j], distwar::maximum{});
}
TYPED_TEST(Packed, MinimaAndMaximaOfSpecialValues) {
    using Pair = TypeParam;
    const float largest = is_half<Pair> ? 65504.0f : 3.3895314e38f;
    const float subnormal = is_half<Pair> ? 5.9604645e-8f : 9.1835496e-41f;
    const std::vector<float> special = {0,         1,  -1,       2,         -2,  largest,   -largest,
                                        subnormal, -1, INFINITY, -INFINITY, NAN, -subnormal};
    const int count = int(special.size());
    std::vector<Pair> values, initial;
    for (int i = 0; i < count; ++i) values.push_back(pair_of<Pair>(special[i], special[(i + 5) % count]));
    for (int i = 0; i < count * count; ++i) initial.push_back(values[i / count]);
    const device_array<Pair> device_values(values), minima(initial), maxima(initial);
    run(1, unsigned(count * count), update_each<Pair>, device_values.get(), count, minima.get(),
        maxima.get());
    const std::vector<Pair> least = minima.download(), most = maxima.download();
    const auto kept = [](float old, float other) { return std::isnan(old) ? old : other; };
    for (int i = 0; i < count * count; ++i) {
        const float old[2] = {first_of(initial[i]), second_of(initial[i])};
        const float value[2] = {first_of(values[i % count]), second_of(values[i % count])};
        EXPECT_TRUE(same(least[i], pair_of<Pair>(kept(old[0], std::fmin(old[0], value[0])),
                                                 kept(old[1], std::fmin(old[1], value[1])))))
            << old[0] << ", " << value[0] << "; " << old[1] << ", " << value[1];
        EXPECT_TRUE(same(most[i], pair_of<Pair>(kept(old[0], std::fmax(old[0], value[0])),
                                                kept(old[1], std::fmax(old[1], value[1])))))
            << old[0] << ", " << value[0] << "; " << old[1] << ", " << value[1];
    }
}

// The totals without a commit: a NaN or an overflow of one value of the pair leaves the other alone.
template <typename Pair, typename Op>
__global__ void total_of(unsigned active, const Pair *values, Pair *total, Op op) {
    const Pair val[1] = {values[threadIdx.x]};
    Pair totals[1];
    distwar::tree_total(active >> threadIdx.x & 1, val, totals, op);
    if (threadIdx.x == 0) *total = totals[0];
}
template <typename Op, typename Pair>
Pair total(unsigned active, const std::vector<Pair> &values) {
    const device_array<Pair> device_values(values), result(std::vector<Pair>(1, pair_of<Pair>(7, 7)));
    run(1, 32, total_of<Pair, Op>, active, device_values.get(), result.get(), Op{});
    return result.download()[0];
}
TYPED_TEST(Packed, TotalsOfATree) {
    using Pair = TypeParam;
    using namespace distwar;
    std::vector<Pair> values;
    for (int lane = 0; lane < 32; ++lane)
        values.push_back(pair_of<Pair>(float(lane), lane == 9 ? NAN : float(lane % 5) - 2));
    EXPECT_TRUE(same(total<add>(0xff, values), pair_of<Pair>(28, -3)));
    EXPECT_TRUE(same(total<add>(0x3ff, values), pair_of<Pair>(45, NAN)));
    EXPECT_TRUE(same(total<minimum>(all_lanes, values), pair_of<Pair>(0, -2)));
    EXPECT_TRUE(same(total<maximum>(all_lanes, values), pair_of<Pair>(31, 2)));
    EXPECT_TRUE(same(total<add>(0, values), pair_of<Pair>(0, 0)));
    EXPECT_TRUE(same(total<multiply>(0, values), pair_of<Pair>(1, 1)));
    EXPECT_TRUE(same(total<minimum>(0, values), pair_of<Pair>(INFINITY, INFINITY)));
    EXPECT_TRUE(same(total<maximum>(0, values), pair_of<Pair>(-INFINITY, -INFINITY)));
    values[3] = values[4] = pair_of<Pair>(3.3e38f, -1);
    const Pair too_much = total<add>(all_lanes & ~(1u << 9), values);
    EXPECT_EQ(first_of(too_much), INFINITY);
    EXPECT_TRUE(std::isfinite(second_of(too_much)));
}

// The error of a sum of 32 numbers of [0, 1), over the sum, in units of u: 2^-11, for bfloat16 2^-8.
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
    float wide[2];
    if constexpr (is_half<Pair>)
        wide[0] = __half2float(val[0].x), wide[1] = __half2float(val[0].y);
    else
        wide[0] = __bfloat162float(val[0].x), wide[1] = __bfloat162float(val[0].y);
    distwar::reduce_tree(all_lanes, true, warp, wide,
                         distwar::record_of_pairs<Pair>{sums + FLOATS * WARPS, 1});
}
TYPED_TEST(Packed, ErrorsOfSumsAreWithinTheirBounds) {
    using Pair = TypeParam;
    const double u = is_half<Pair> ? 1.0 / 2048 : 1.0 / 256;
    draw random(11);
    std::vector<Pair> values;
    for (int i = 0; i < WARPS * 32; ++i)
        values.push_back(pair_of<Pair>(float(random.below(1 << 20)) / (1 << 20),
                                       float(random.below(1 << 20)) / (1 << 20)));
    const device_array<Pair> device_values(values),
        sums(std::vector<Pair>(WAYS * WARPS, pair_of<Pair>(0, 0)));
    run(WARPS, 32, sum_randomly<Pair>, device_values.get(), sums.get());
    const std::vector<Pair> found = sums.download();
    double most[WAYS] = {}, squares[WAYS] = {};
    for (int warp = 0; warp < WARPS; ++warp) {
        double exact[2] = {};
        for (int lane = 0; lane < 32; ++lane)
            exact[0] += first_of(values[32 * warp + lane]), exact[1] += second_of(values[32 * warp + lane]);
        for (int way = 0; way < WAYS; ++way) {
            const Pair sum = found[way * WARPS + warp];
            const double error[2] = {(first_of(sum) / exact[0] - 1) / u, (second_of(sum) / exact[1] - 1) / u};
            for (const double each : error) {
                most[way] = std::max(most[way], std::fabs(each));
                squares[way] += each * each / (2 * WARPS);
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

// Many warps at few targets.
template <typename Pair>
__global__ void update_in_crowd(const Pair *values, Pair *sums, Pair *least) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    const Pair val[1] = {values[thread]};
    distwar::reduce_tree(all_lanes, thread % 12 == 0, thread % 3, val, distwar::record<Pair>{sums, 1});
    distwar::reduce_tree(all_lanes, true, thread % 3, val, distwar::record<Pair, distwar::minimum>{least, 1});
    distwar::reduce_atomic(all_lanes, thread % 12 == 3, thread % 2, val,
                           distwar::aligned_record<Pair>{sums + 4, 4});
}
TYPED_TEST(Packed, OfManyWarps) {
    using Pair = TypeParam;
    enum { THREADS = 96 * 9 };
    std::vector<Pair> values, expected(12, pair_of<Pair>(0, 0)), lowest(3, pair_of<Pair>(50, 50));
    for (unsigned thread = 0; thread < THREADS; ++thread) {
        const float first = float(thread / 12 % 3), second = -1 - float(thread * 7919 % 211);
        values.push_back(pair_of<Pair>(first, thread % 12 % 3 == 0 ? -1.0f : second));
        const auto add = [&](Pair &to) {
            to = pair_of<Pair>(first_of(to) + first_of(values[thread]),
                               second_of(to) + second_of(values[thread]));
        };
        if (thread % 12 == 0) add(expected[thread % 3]);
        if (thread % 12 == 3) add(expected[4 + thread % 2 * 4]);
        Pair &least = lowest[thread % 3];
        least = pair_of<Pair>(std::fmin(first_of(least), first_of(values[thread])),
                              std::fmin(second_of(least), second_of(values[thread])));
    }
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        const device_array<Pair> device_values(values), least(std::vector<Pair>(3, pair_of<Pair>(50, 50)));
        const device_array<Pair> sums(std::vector<Pair>(12, pair_of<Pair>(0, 0)));
        set_schedule(schedule);
        run(9, 96, update_in_crowd<Pair>, device_values.get(), sums.get(), least.get());
        for (int i = 0; i < 12; ++i) EXPECT_TRUE(same(sums.download()[i], expected[i])) << i;
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(least.download()[i], lowest[i])) << i;
    }
}

// A number of pairs known at run time, in chunks of 4.
template <typename Pair>
__global__ void sum_counted(int count, int threshold, const Pair *factors, Pair *sums) {
    const int lane = int(threadIdx.x);
    distwar::reduce_n<4>(
        all_lanes, lane % 5 != 0, lane % 3, count, [&](int k) { return factors[k]; },
        distwar::aligned_record<Pair>{sums, 16}, threshold);
}
TYPED_TEST(Packed, CountsKnownAtRunTime) {
    using Pair = TypeParam;
    std::vector<Pair> factors;
    for (int k = 0; k < 16; ++k) factors.push_back(pair_of<Pair>(float(k % 7), 1 - float(k % 4)));
    for (const int count : {0, 1, 4, 7, 13, 16})
        for (const int threshold : {0, 33}) {
            const device_array<Pair> device_factors(factors),
                sums(std::vector<Pair>(48, pair_of<Pair>(1, 2)));
            run(1, 32, sum_counted<Pair>, count, threshold, device_factors.get(), sums.get());
            const std::vector<Pair> found = sums.download();
            for (int i = 0; i < 48; ++i) {
                int lanes = 0; // active ones at the key
                for (int lane = i / 16; lane < 32; lane += 3) lanes += lane % 5 != 0;
                const float n = i % 16 < count ? float(lanes) : 0;
                EXPECT_TRUE(
                    same(found[i], pair_of<Pair>(1 + n * float(i % 16 % 7), 2 + n * (1 - float(i % 16 % 4)))))
                    << count << " values, threshold " << threshold << ", place " << i;
            }
        }
}

#ifdef __SIMT__
// A pair costs what a float costs: half the shuffles and atomics of its two values.
template <call_kind Call, int K, typename T>
__global__ void reduce_once(int keys, T *to, warp_call call) {
    T val[K] = {};
    call_with<Call>(call, true, int(threadIdx.x) * keys / 32, val, distwar::record<T>{to, K});
}
template <call_kind Call, int K, typename T>
simt_counters cost_of(int keys) {
    const device_array<T> to(std::vector<T>(32 * K));
    warp_call call = {};
    call.lanes = all_lanes;
    simt_counters_reset();
    run(1, 32, reduce_once<Call, K, T>, keys, to.get(), call);
    return simt_counters_read();
}
template <call_kind Call, int K, typename Pair>
void expect_cost(int keys, uint64_t shuffles, uint64_t requests) {
    SCOPED_TRACE(testing::Message() << "call " << Call << ", K " << K << ", " << keys << " keys");
    const simt_counters pairs = cost_of<Call, K, Pair>(keys), floats = cost_of<Call, K, float>(keys);
    EXPECT_EQ(pairs.shuffles, shuffles);
    EXPECT_EQ(pairs.atomic_requests, requests);
    EXPECT_EQ(pairs.shuffles, floats.shuffles);
    EXPECT_EQ(pairs.votes, floats.votes);
    EXPECT_EQ(pairs.atomic_requests, floats.atomic_requests);
    EXPECT_EQ(pairs.atomic_instructions, floats.atomic_instructions);
}
TYPED_TEST(Packed, APairCostsOneShuffle) {
    using Pair = TypeParam;
    expect_cost<TREE, 5, Pair>(1, 1 + 3 + 2 + 1 + 1 + 1, 5); // ten floats: 5 + 3 + 2 + 1 + 1
    expect_cost<TREE, 9, Pair>(1, 1 + 12, 9);
    expect_cost<TREE, 9, Pair>(2, 1 + 2 * (1 + 12), 18);
    expect_cost<TREE, 2, Pair>(16, 1 + 2, 32); // side by side
    expect_cost<SERIAL, 5, Pair>(1, 5 * 31, 5);
    expect_cost<BFLY, 5, Pair>(1, 1 + 5 * 5, 5);
    expect_cost<GROUP, 5, Pair>(1, 1 + 8, 5);
    expect_cost<ATOMIC, 5, Pair>(1, 0, 5 * 32);
}
#endif

} // namespace
