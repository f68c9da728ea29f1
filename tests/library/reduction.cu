// SPDX-License-Identifier: MIT
// Every reduction adds the values of every active lane exactly once, and touches nothing else.
//
// Values are random integers stored as floats, small enough for every sum to be exact. A lane that is lost,
// counted twice or added to the wrong place changes a sum by its value.

#include "device_test.cuh"
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <limits>
#include <utility>

using distwar::strategy;

namespace {

enum sink_kind { POINTERS, RECORD, PLANES, SINKS };
enum { MAX_VALUES = 16, THRESHOLDS = 34 };
#ifdef DISTWAR_SANITIZE
enum { SCHEDULES = 4 }; // of 2 s each; too few for every pair of levels
#else
enum { SCHEDULES = 20 };
#endif
// The targets of a warp: more records than its 32 lanes can use, with a gap between neighbours.
enum { SLOTS = 40, PADDING = 2 };
const char *const sink_name[SINKS] = {"pointers", "record", "planes"};

enum mask_class { MASK_FULL, MASK_RANDOM, MASK_HALF, MASK_SINGLE, MASKS };
enum active_class { ACTIVE_ALL, ACTIVE_RANDOM, ACTIVE_ONE, ACTIVE_NONE, ACTIVES };

// One call of one warp.
struct warp_case {
    mask_class mask;
    active_class activity;
    unsigned lanes, active; // active is a subset of lanes
    int distinct;           // keys among the active lanes
    int threshold;
    unsigned slot[32]; // key; garbage in inactive lanes
};

__host__ __device__ constexpr int record_stride(int values) {
    return values + PADDING;
}
__host__ __device__ constexpr int targets_a_warp(int values) {
    return SLOTS * record_stride(values);
}
int target_of(sink_kind sink, int values, int slot, int k) {
    return sink == PLANES ? k * SLOTS + slot : slot * record_stride(values) + k;
}

// Warp w makes the call cases[w]: it adds values[w][lane][K] to its own targets. Inactive lanes hold garbage
// addresses.
template <strategy S, sink_kind Kind, int K, typename T, typename Key>
__global__ void reduce_cases(const warp_case *cases, const T *values, T *targets, unsigned *changed) {
    const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const warp_case &mine = cases[warp];
    if (!(mine.lanes >> lane & 1)) return;
    const bool active = mine.active >> lane & 1;
    const Key key = Key(mine.slot[lane]);
    const T *const source = values + (warp * 32 + lane) * K;
    T *const base = targets + warp * targets_a_warp(K);
    T val[K];
    for (int k = 0; k < K; ++k) val[k] = source[k];

    if constexpr (Kind == POINTERS) {
        distwar::pointers<K, T> sink;
        for (int k = 0; k < K; ++k) sink.address[k] = active ? base + key * record_stride(K) + k : nullptr;
        distwar::reduce<S>(mine.lanes, active, key, val, sink, mine.threshold);
    } else if constexpr (Kind == RECORD) {
        distwar::reduce<S>(mine.lanes, active, key, val, distwar::record<T>{base, record_stride(K)},
                           mine.threshold);
    } else {
        distwar::reduce<S>(mine.lanes, active, key, val, distwar::planes<T>{base, SLOTS}, mine.threshold);
    }

    for (int k = 0; k < K; ++k)
        if (val[k] != source[k] && (val[k] == val[k] || source[k] == source[k])) changed[warp] = 1;
}

unsigned one_lane_of(draw &random, unsigned set) { // set must not be empty
    for (;;) {
        const unsigned lane = 1u << random.below(32);
        if (set & lane) return lane;
    }
}

warp_case draw_case(draw &random, int threshold) {
    warp_case result = {};
    // Full masks are drawn more often: only they can have many distinct keys or take the butterfly.
    result.mask = mask_class(random.below(2) ? unsigned(MASK_FULL) : random.below(MASKS));
    const unsigned start = random.below(32), half = 0x0000ffff;
    switch (result.mask) {
    case MASK_RANDOM:
        result.lanes = random.bits_or_one();
        break;
    case MASK_HALF:
        result.lanes = start ? half << start | half >> (32 - start) : half;
        break;
    case MASK_SINGLE:
        result.lanes = 1u << start;
        break;
    default:
        result.lanes = distwar::all_lanes;
    }
    result.activity = active_class(random.below(2) ? unsigned(ACTIVE_ALL) : random.below(ACTIVES));
    switch (result.activity) {
    case ACTIVE_ALL:
        result.active = result.lanes;
        break;
    case ACTIVE_RANDOM:
        result.active = result.lanes & random.bits();
        break;
    case ACTIVE_ONE:
        result.active = one_lane_of(random, result.lanes);
        break;
    default:
        result.active = 0;
    }
    result.threshold = threshold;

    int lane_order[32], slot_order[SLOTS];
    for (int i = 0; i < 32; ++i) lane_order[i] = i;
    for (int i = 0; i < SLOTS; ++i) slot_order[i] = i;
    for (int i = 31; i > 0; --i) std::swap(lane_order[i], lane_order[random.below(i + 1)]);
    for (int i = SLOTS - 1; i > 0; --i) std::swap(slot_order[i], slot_order[random.below(i + 1)]);
    // The first lanes take a key each. The others take one of these keys, or most of them the first key,
    // which makes few big groups.
    const int wanted = random.below(3) ? 1 + random.below(32) : 1;
    const bool uneven = random.below(2);
    for (int i = 0, placed = 0; i < 32; ++i) {
        const int lane = lane_order[i];
        if (!(result.active >> lane & 1)) {
            result.slot[lane] = random.below(2) ? random.bits() : random.below(SLOTS);
            continue;
        }
        int which = placed++;
        if (which >= wanted) which = uneven && random.below(8) ? 0 : random.below(wanted);
        result.slot[lane] = slot_order[which];
        result.distinct = placed < wanted ? placed : wanted;
    }
    return result;
}

// The pairs of levels of any two factors that have occurred in one case.
class pair_cover {
  public:
    enum { MASK, ACTIVITY, DISTINCT, THRESHOLD, VALUES, SINK, SCHEDULE, FACTORS };

    void add(const warp_case &drawn, int values, int sink, int schedule) {
        const int level[FACTORS] = {
            drawn.mask, drawn.activity, drawn.distinct - 1, drawn.threshold, values - 1, sink, schedule};
        for (int f = 0; f < FACTORS; ++f)
            for (int g = 0; g < f; ++g)
                if (level[f] >= 0 && level[g] >= 0) seen[f][g][level[f]][level[g]] = true;
    }
    int missing(bool every_sink) const {
        static const int levels[FACTORS] = {MASKS, ACTIVES, 32, THRESHOLDS, MAX_VALUES, SINKS, SCHEDULES};
        int result = 0;
        for (int f = 0; f < FACTORS; ++f)
            for (int g = 0; g < f; ++g) {
                if (f == DISTINCT) continue; // mask and activity bound the number of keys
                if (f == SINK && g == VALUES && !every_sink) continue;
                for (int a = 0; a < levels[f]; ++a)
                    for (int b = 0; b < levels[g]; ++b) result += !seen[f][g][a][b];
            }
        return result;
    }

  private:
    bool seen[FACTORS][FACTORS][THRESHOLDS][THRESHOLDS] = {};
};

// A kernel reduce_cases and its template arguments. They are run-time values here, so that the host code
// below is compiled once for each T and not once for each kernel.
template <typename T>
struct instance {
    strategy reduction;
    sink_kind sink;
    int count; // K
    void (*kernel)(const warp_case *cases, const T *values, T *targets, unsigned *changed);
};

// Makes two calls at every threshold, one warp a call, and checks every target.
template <typename T>
void check_thresholds(const instance<T> &tested, draw &random, int schedule, pair_cover *cover) {
    const int K = tested.count;
    std::vector<warp_case> cases;
    for (int i = 0; i < 2 * THRESHOLDS; ++i) cases.push_back(draw_case(random, i % THRESHOLDS));
    const size_t targets_each = targets_a_warp(K);
    std::vector<T> values(cases.size() * 32 * K), initial(cases.size() * targets_each);
    for (T &start : initial) start = T(random.below(1 << 10));
    std::vector<T> expected = initial;
    for (size_t warp = 0; warp < cases.size(); ++warp)
        for (int lane = 0; lane < 32; ++lane)
            for (int k = 0; k < K; ++k) {
                T &value = values[(warp * 32 + lane) * K + k];
                if (cases[warp].active >> lane & 1) {
                    value = T(1 + random.below((1 << 19) - 64)); // 32 of them stay below 2^24
                    expected[warp * targets_each + target_of(tested.sink, K, cases[warp].slot[lane], k)] +=
                        value;
                } else {
                    value = std::numeric_limits<T>::quiet_NaN();
                }
            }

    const device_array<warp_case> device_cases(cases);
    const device_array<T> device_values(values), targets(initial);
    const device_array<unsigned> changed(std::vector<unsigned>(cases.size(), 0));
    set_schedule(schedule);
    const unsigned block = 64; // two cases
    run(blocks_for(32 * int64_t(cases.size()), block), block, tested.kernel, device_cases.get(),
        device_values.get(), targets.get(), changed.get());

    const std::vector<T> found = targets.download();
    const std::vector<unsigned> found_changed = changed.download();
    for (size_t warp = 0; warp < cases.size(); ++warp) {
        const warp_case &drawn = cases[warp];
        if (cover) cover->add(drawn, K, tested.sink, schedule);
        SCOPED_TRACE(testing::Message()
                     << distwar_strategy_name(distwar_strategy(tested.reduction)) << ", K " << K << ", "
                     << sink_name[tested.sink] << ", schedule " << schedule << ", lanes " << std::hex
                     << drawn.lanes << ", active " << drawn.active << std::dec << ", " << drawn.distinct
                     << " keys, threshold " << drawn.threshold);
        EXPECT_EQ(found_changed[warp], 0u) << "the call changed val";
        for (size_t i = warp * targets_each; i < (warp + 1) * targets_each; ++i)
            ASSERT_EQ(found[i], expected[i]) << "target " << i - warp * targets_each;
    }
}

template <strategy S, int K, typename T, typename Key>
void check_sinks(draw &random, int schedule, pair_cover *cover = nullptr) {
    const instance<T> instances[SINKS] = {{S, POINTERS, K, reduce_cases<S, POINTERS, K, T, Key>},
                                          {S, RECORD, K, reduce_cases<S, RECORD, K, T, Key>},
                                          {S, PLANES, K, reduce_cases<S, PLANES, K, T, Key>}};
    for (const instance<T> &tested : instances) check_thresholds(tested, random, schedule, cover);
}

// A tree's sum depends on K, so each K meets each sink. The other strategies treat values one by one: there each
// K meets one sink.
template <strategy S, int K>
void check_floats_of(draw &random, int schedule, pair_cover *cover) {
    using Key = std::conditional_t<K % 2, int, unsigned long long>;
    constexpr sink_kind sink = sink_kind(K % SINKS);
    if constexpr (S == strategy::tree) {
        check_sinks<S, K, float, Key>(random, schedule, cover);
        return;
    }
    const instance<float> tested = {S, sink, K, reduce_cases<S, sink, K, float, Key>};
    for (int i = 0; i < SINKS; ++i) check_thresholds(tested, random, schedule, cover);
}
template <strategy S, int... Index>
void check_floats(draw &random, int schedule, pair_cover *cover, std::integer_sequence<int, Index...>) {
    (check_floats_of<S, Index + 1>(random, schedule, cover), ...);
}

template <strategy S>
void check_all_floats() {
    draw random(1 + unsigned(S));
    pair_cover cover;
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        check_floats<S>(random, schedule, &cover, std::make_integer_sequence<int, MAX_VALUES>());
        if (testing::Test::HasFailure()) return;
    }
#ifndef DISTWAR_SANITIZE
    EXPECT_EQ(cover.missing(S == strategy::tree), 0) << "pairs of levels that no case had";
#endif
}

template <strategy S>
void check_doubles() {
    draw random(4 + unsigned(S));
    for (int schedule = 0; schedule < 3; ++schedule) {
        check_sinks<S, 1, double, unsigned>(random, schedule);
        check_sinks<S, 4, double, long long>(random, schedule);
        check_sinks<S, 9, double, unsigned long>(random, schedule);
    }
}

TEST(Reduction, AtomicAddsEachLaneOnce) {
    check_all_floats<strategy::atomic>();
}
TEST(Reduction, SerialAddsEachLaneOnce) {
    check_all_floats<strategy::serial>();
}
TEST(Reduction, BflyAddsEachLaneOnce) {
    check_all_floats<strategy::bfly>();
}
TEST(Reduction, TreeAddsEachLaneOnce) {
    check_all_floats<strategy::tree>();
}
// Trees of 17 values and more: with K below 32 some lanes own no value, with K above 32 some own two.
TEST(Reduction, TreeOfManyValuesAddsEachLaneOnce) {
    draw random(9);
    for (int schedule = 0; schedule < 2; ++schedule) {
        check_sinks<strategy::tree, 17, float, unsigned>(random, schedule);
        check_sinks<strategy::tree, 31, float, long long>(random, schedule);
        check_sinks<strategy::tree, 32, float, int>(random, schedule);
        check_sinks<strategy::tree, 33, float, unsigned long long>(random, schedule);
        check_sinks<strategy::tree, 64, double, int>(random, schedule);
    }
}
TEST(Reduction, AtomicAddsEachLaneOnceInDouble) {
    check_doubles<strategy::atomic>();
}
TEST(Reduction, SerialAddsEachLaneOnceInDouble) {
    check_doubles<strategy::serial>();
}
TEST(Reduction, BflyAddsEachLaneOnceInDouble) {
    check_doubles<strategy::bfly>();
}
TEST(Reduction, TreeAddsEachLaneOnceInDouble) {
    check_doubles<strategy::tree>();
}

// Two branches of one warp make different numbers of calls.
enum { BRANCH_SLOTS = 5, BRANCH_VALUES = 3 };

template <strategy Then, strategy Else>
__global__ void reduce_in_branches(unsigned lanes, float *targets) {
    const unsigned lane = threadIdx.x % 32;
    const distwar::record<float> sink{targets, BRANCH_VALUES};
    const float val[BRANCH_VALUES] = {float(1 + lane), float(100 + lane), float(1000 * lane)};
    const unsigned key = lane % BRANCH_SLOTS;
    if (lanes >> lane & 1) {
        for (int turn = 0; turn < 3; ++turn) distwar::reduce<Then>(lanes, lane % 3 != 0, key, val, sink, 2);
    } else {
        for (int turn = 0; turn < 5; ++turn) distwar::reduce<Else>(~lanes, true, turn, val, sink);
    }
}

template <strategy Then, strategy Else>
void check_branches() {
    for (const unsigned lanes : {0x0000ffffu, 0x55555555u, 0x80000001u, 0x13579bdfu, 0x7fffffffu})
        for (int schedule = 0; schedule < 5; ++schedule) {
            std::vector<float> expected(BRANCH_SLOTS * BRANCH_VALUES, 7.0f);
            const device_array<float> targets(expected);
            for (unsigned lane = 0; lane < 32; ++lane) {
                const bool then = lanes >> lane & 1;
                if (then && lane % 3 == 0) continue;
                const float val[BRANCH_VALUES] = {float(1 + lane), float(100 + lane), float(1000 * lane)};
                for (int turn = 0; turn < (then ? 3 : 5); ++turn)
                    for (int k = 0; k < BRANCH_VALUES; ++k)
                        expected[(then ? lane % BRANCH_SLOTS : turn) * BRANCH_VALUES + k] += val[k];
            }
            set_schedule(schedule);
            run(1, 32, reduce_in_branches<Then, Else>, lanes, targets.get());
            EXPECT_EQ(targets.download(), expected) << std::hex << "lanes " << lanes;
        }
}

TEST(Reduction, BranchesOfAWarpCallSeparately) {
    check_branches<strategy::serial, strategy::serial>();
    check_branches<strategy::serial, strategy::bfly>();
    check_branches<strategy::bfly, strategy::serial>();
    check_branches<strategy::bfly, strategy::bfly>();
    check_branches<strategy::atomic, strategy::serial>();
    check_branches<strategy::tree, strategy::tree>();
    check_branches<strategy::tree, strategy::bfly>();
    check_branches<strategy::serial, strategy::tree>();
}

// Many warps and blocks add to the same few targets; the last block and its last warp are partly inactive.
enum { CROWD_SLOTS = 7, CROWD_VALUES = 9 };

template <strategy S>
__global__ void reduce_in_crowd(int count, int keys_change_every, float *targets) {
    const int index = int(blockIdx.x * blockDim.x + threadIdx.x);
    float val[CROWD_VALUES];
    for (int k = 0; k < CROWD_VALUES; ++k) val[k] = float(1 + (index + k) % 5);
    distwar::reduce<S>(distwar::all_lanes, index < count, index / keys_change_every % CROWD_SLOTS, val,
                       distwar::planes{targets, size_t(CROWD_SLOTS)}, index / 256 % THRESHOLDS);
}

template <strategy S>
void check_crowd() {
    const int count = 40 * 256 - 45;
    for (const int keys_change_every : {1, 5, 32, 100000}) {
        std::vector<float> expected(CROWD_SLOTS * CROWD_VALUES, 0.0f);
        const device_array<float> targets(expected);
        for (int index = 0; index < count; ++index)
            for (int k = 0; k < CROWD_VALUES; ++k)
                expected[k * CROWD_SLOTS + index / keys_change_every % CROWD_SLOTS] +=
                    float(1 + (index + k) % 5);
        run(blocks_for(count, 256), 256, reduce_in_crowd<S>, count, keys_change_every, targets.get());
        EXPECT_EQ(targets.download(), expected) << "keys change every " << keys_change_every;
    }
}

TEST(Reduction, AtomicOfManyWarpsAndBlocks) {
    check_crowd<strategy::atomic>();
}
TEST(Reduction, SerialOfManyWarpsAndBlocks) {
    check_crowd<strategy::serial>();
}
TEST(Reduction, BflyOfManyWarpsAndBlocks) {
    check_crowd<strategy::bfly>();
}
TEST(Reduction, TreeOfManyWarpsAndBlocks) {
    check_crowd<strategy::tree>();
}

// Keys that differ only in their upper half are different keys.
template <strategy S>
__global__ void reduce_by_upper_half(float *targets) {
    const unsigned lane = threadIdx.x;
    const unsigned long long key = (unsigned long long)(lane % 4) << 32 | 5;
    const float val[1] = {float(1 + lane)};
    distwar::reduce<S>(distwar::all_lanes, true, key, val, distwar::pointers{targets + lane % 4});
}

TEST(Reduction, KeysOf8BytesAreComparedWhole) {
    std::vector<float> expected(4, 0.0f);
    for (int lane = 0; lane < 32; ++lane) expected[lane % 4] += float(1 + lane);
    for (const auto kernel : {reduce_by_upper_half<strategy::serial>, reduce_by_upper_half<strategy::bfly>,
                              reduce_by_upper_half<strategy::tree>}) {
        const device_array<float> targets(std::vector<float>(4, 0.0f));
        run(1, 32, kernel, targets.get());
        EXPECT_EQ(targets.download(), expected);
    }
}

// Within a group reduce_serial adds in the order of the lanes.
__global__ void reduce_in_order(const float *values, float *target) {
    const float val[1] = {values[threadIdx.x]};
    distwar::reduce_serial(distwar::all_lanes, threadIdx.x % 8 != 0, 0, val,
                           distwar::record<float>{target, 1});
}

TEST(Reduction, SerialAddsInTheOrderOfLanes) {
    draw random(7);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        std::vector<float> values;
        float expected = 0;
        for (int lane = 0; lane < 32; ++lane) {
            values.push_back(float(random.bits()) / float(1 + random.below(1000)));
            if (lane % 8 != 0) expected += values.back();
        }
        const device_array<float> device_values(values), target(std::vector<float>(1, 0.0f));
        set_schedule(schedule);
        run(1, 32, reduce_in_order, device_values.get(), target.get());
        EXPECT_EQ(target.download()[0], expected);
    }
}

} // namespace
