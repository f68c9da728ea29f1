// SPDX-License-Identifier: MIT
// Every call with other types and into every sink. Integers are exact and wrap.

#include "calls.cuh"
#include <distwar/hot_slots.cuh>

using distwar::add;
using distwar::scope;
using distwar::uniform_key;

// Keys that differ only in their upper half are different keys.
struct upper_half;
template <>
struct key_as<upper_half> {
    static constexpr bool one = false;
    static __device__ unsigned long long of(int key) { return (unsigned long long)unsigned(key) << 32 | 5; }
};

namespace {

enum { SCHEDULES = 6 };

template <typename Call>
class Sinks : public testing::Test {};
using calls = tests_of<ATOMIC, SERIAL, BFLY, TREE, GROUP, ONE_CALL>;
TYPED_TEST_SUITE(Sinks, calls);

TYPED_TEST(Sinks, TakeEveryType) {
    constexpr call_kind Call = TypeParam::value;
    draw random(1 + Call);
    under_schedules(SCHEDULES, [&] {
        check<Call, sink_in_turn<Call, 0>, add, 1, double, double, unsigned>(random);
        check<Call, sink_in_turn<Call, 1>, add, 4, double, double, long long>(random);
        check<Call, sink_in_turn<Call, 2>, add, 9, double, double, unsigned long>(random);
        check<Call, sink_in_turn<Call, 0>, add, 1, int>(random);
        check<Call, sink_in_turn<Call, 1>, add, 2, unsigned>(random);
        check<Call, sink_in_turn<Call, 2>, add, 3, int>(random);
        check<Call, sink_in_turn<Call, 3>, add, 4, unsigned>(random); // the first by a tree
        check<Call, sink_in_turn<Call, 0>, add, 9, int>(random);
        check<Call, sink_in_turn<Call, 1>, add, 2, unsigned long long>(random);
        check<Call, sink_in_turn<Call, 2>, add, 5, long long>(random);
        check<Call, sink_in_turn<Call, 3>, add, 1, unsigned>(random);
        // integers count by their size, not by their name
        check<Call, sink_in_turn<Call, 0>, add, 2, long, long, long>(random);
        check<Call, sink_in_turn<Call, 1>, add, 1, unsigned long, unsigned long, unsigned long>(random);
        check<Call, RECORD, add, 4, unsigned long long, unsigned long long, unsigned>(random);
    });
}
TYPED_TEST(Sinks, MayBeOfEveryKind) {
    constexpr call_kind Call = TypeParam::value;
    draw random(11 + Call);
    under_schedules(SCHEDULES, [&] {
        check<Call, FIELDS, add, 1, float, float, unsigned long long>(random);
        check<Call, FIELDS, add, 9, double, double, long long>(random);
        check<Call, FIELDS, add, 40, float, float, unsigned>(random);
        check<Call, PLANES, add, 9, float>(random);
        check<Call, POINTERS, add, 3, float, float, upper_half>(random);
        check<Call, OWN, add, 3, float>(random);
        check<Call, OWN_BY_KEY, add, 3, float>(random);
        check<Call, BLOCKS, add, 3, float>(random);
        // every remainder of the number of values by 4
        check<Call, ALIGNED, add, 1, float>(random);
        check<Call, ALIGNED, add, 2, float, float, long long>(random);
        check<Call, ALIGNED, add, 3, float>(random);
        check<Call, ALIGNED, add, 4, float>(random);
        check<Call, ALIGNED, add, 7, float>(random);
        check<Call, ALIGNED, add, 9, float>(random);
        check<Call, ALIGNED, add, 14, float>(random);
        check<Call, sink_in_turn<Call, 0>, add, 6, double, double, int, false, scope::block>(random);
        check<Call, sink_in_turn<Call, 1>, add, 6, float, float, int, false, scope::system>(random);
    });
}
TYPED_TEST(Sinks, MayBeInSharedMemory) {
    constexpr call_kind Call = TypeParam::value;
    draw random(21 + Call);
    under_schedules(SCHEDULES, [&] {
        check<Call, RECORD, add, 1, float, float, int, true>(random);
        check<Call, RECORD, add, 3, int, int, int, true>(random);
        check<Call, PLANES, add, 9, float, float, int, true>(random);
        check<Call, POINTERS, add, 3, float, float, int, true>(random);
        check<Call, SAID, add, 2, float, float, long long, true>(random);
        check<Call, SAID, add, 4, unsigned long long, unsigned long long, unsigned, true>(random);
        check<Call, RECORD, add, 2, long, long, int, true>(random); // the lower halves carry
    });
}
TYPED_TEST(Sinks, TakeAUniformKey) {
    constexpr call_kind Call = TypeParam::value;
    draw random(31 + Call);
    under_schedules(SCHEDULES, [&] {
        check<Call, PLANES, add, 2, float, float, uniform_key<unsigned long long>>(random);
        check<Call, RECORD, add, 9, float, float, uniform_key<int>>(random);
        check<Call, RECORD, add, 2, unsigned long, unsigned long, uniform_key<long>>(random);
    });
}
TEST(SinksOfTheTree, TakeWideIntegersInFields) {
    draw random(9);
    check<TREE, FIELDS, add, 9, long long>(random);
    check<TREE, FIELDS, add, 40, unsigned long long>(random);
}

static_assert(!distwar::detail::is_addressed_by_key<own_sink<float>, int, float>);
static_assert(distwar::detail::is_addressed_by_key<own_sink_by_key<float>, int, float>);
static_assert(distwar::detail::is_addressed_by_key<distwar::record<float>, int, float>);
static_assert(distwar::detail::is_addressed_by_key<distwar::planes<double>, unsigned long long, double>);
static_assert(distwar::detail::is_addressed_by_key<distwar::fields<float, 3, 1>, int, float>);
static_assert(!distwar::detail::is_addressed_by_key<distwar::pointers<3, float>, int, float>);
static_assert(distwar::fields<float, 3, 1, 2, 3>::values_of_key == 9);

// At every scope, in shared memory, with keys whose offset needs more than 32 bits.
template <scope S>
__global__ void add_at_scope(float *a, long long key) {
    __shared__ float shared[4];
    if (threadIdx.x < 4) shared[threadIdx.x] = 0;
    __syncthreads();
    const float val[3] = {1, 2, 3};
    const distwar::fields_with<add, S, float, 2, 1> sink = {
        {reinterpret_cast<float *>(reinterpret_cast<size_t>(a) - (size_t(key) * 2) * sizeof(float)), 2},
        {reinterpret_cast<float *>(reinterpret_cast<size_t>(shared) - size_t(key) * sizeof(float)), 1}};
    distwar::reduce_tree(distwar::all_lanes, true, key, val, sink);
    distwar::reduce_atomic(distwar::all_lanes, true, key, val, sink);
    __syncthreads();
    if (threadIdx.x == 0) a[2] = shared[0];
}
TEST(Fields, OfEveryScopeInSharedMemoryWithLargeKeys) {
    for (const auto kernel :
         {add_at_scope<scope::block>, add_at_scope<scope::device>, add_at_scope<scope::system>}) {
        const device_array<float> a(3, {});
        run(1, 32, kernel, a.get(), 3ll << 40); // from bases as far below
        EXPECT_EQ(a.download(), (std::vector<float>{64, 128, 192}));
    }
}

// The one call, where groups are found by pairs and fours of neighbouring lanes with neighbouring keys.
TEST(OneCall, OfNeighbouringKeys) {
    draw random(11);
    std::vector<warp_call> calls = draw_calls(random, 4 * CALLS);
    for (warp_call &call : calls) {
        call.lanes = distwar::all_lanes;
        call.active = random.below(2) ? distwar::all_lanes : random.bits();
        const int width = 1 << random.below(4);
        const unsigned keys = 1 + random.below(24), step = random.below(2) ? unsigned(width) : 1;
        int first = 0;
        for (int lane = 0; lane < 32; ++lane) {
            if (lane % width == 0) first = int(random.below(keys) / step * step);
            const bool drawn = call.active >> lane & 1 || random.below(2);
            call.key[lane] = drawn ? first + lane % width : int(random.bits());
        }
    }
    const device_array<unsigned> changed({0u});
    check_calls<add, int, int>(
        random, calls, ONE_CALL, RECORD, 1, [&](const warp_call *made, const int *values, int *to) {
            run(4 * CALLS, 32, make_calls<ONE_CALL, RECORD, add, 1, int, int, int, false, scope::device>,
                made, values, to, changed.get());
        });
}

// In shared memory each lane may make the call alone, as in a branch. And a list of several kinds of values.
__global__ void add_in_a_branch(float *each, float *list) {
    using namespace distwar;
    const int lane = int(threadIdx.x);
    const float val[2] = {1, float(lane)};
    __shared__ float bins[4];
    if (lane < 4) bins[lane] = 0;
    __syncwarp();
    if (lane < 24)
        for (int i = 0; i < 3; ++i)
            reduce(all_lanes, true, lane / 16 + i, float(1 << i), in_shared(record<float>{bins, 1}));
    __syncwarp();
    if (lane < 4) each[lane] = bins[lane];
    const float2 pairs[2] = {{5, 6}, {7, 8}};
    reduce(all_lanes, true, uniform_key{0}, values(float3{1, 2, 3}, 4.0f, val, pairs),
           record<float>{list, 10});
}
TEST(OneCall, IntoSharedMemoryInABranchAndOfAList) {
    const device_array<float> each(4, {}), list(10, {});
    run(1, 32, add_in_a_branch, each.get(), list.get());
    // 16 lanes at keys 0, 1, 2 and 8 lanes at keys 1, 2, 3, with the values 1, 2, 4
    EXPECT_EQ(each.download(), (std::vector<float>{16, 40, 80, 32}));
    EXPECT_EQ(list.download(), (std::vector<float>{32, 64, 96, 128, 32, 496, 160, 192, 224, 256}));
}

// A pointer that lies in global memory in one block and in shared memory in the other: the call tests it.
__global__ void add_somewhere(float *to, int shared_block) {
    using namespace distwar;
    __shared__ float sums[8];
    if (threadIdx.x < 8) sums[threadIdx.x] = 0;
    __syncthreads();
    float *const base = int(blockIdx.x) == shared_block ? sums : to + 8;
    const float val[2] = {1, 2};
    reduce(all_lanes, true, int(threadIdx.x) / 16, val, record<float>{base, 2});
    reduce(all_lanes, true, int(threadIdx.x) / 16, val, planes<float>{base + 4, 2});
    reduce(all_lanes, true, uniform_key{1}, val, record<float>{base, 2});
    __syncthreads();
    if (int(blockIdx.x) == shared_block && threadIdx.x < 8) to[threadIdx.x] = sums[threadIdx.x];
}
TEST(OneCall, IntoMemoryOfEitherKind) {
    const device_array<float> sums(16, {});
    run(2, 32, add_somewhere, sums.get(), 1);
    EXPECT_EQ(sums.download(),
              (std::vector<float>{16, 32, 48, 96, 16, 16, 32, 32, 16, 32, 48, 96, 16, 16, 32, 32}));
}

// Keys that do not fit into the type of the groups or of the slots.
template <typename Other>
__global__ void corners(Other far, float *sums) {
    using namespace distwar;
    const auto cells = group_lanes(all_lanes, true, int(threadIdx.x / 8));
    const float val[2] = {1, float(threadIdx.x)};
    const record<float> sink = {sums - size_t(far) * 2, 2};
    cells.add(val, sink, at_key{Other(far + Other(threadIdx.x / 8))});
    cells.add_n(
        2, [&](int k) { return val[k]; }, sink, at_key{Other(far + Other(threadIdx.x / 8))});
    group_lanes(all_lanes, true, 7).add(val, sink, at_key{far}); // one key
}
template <typename Key, typename Slot>
__global__ void hot(Key far, float *sums) {
    using namespace distwar;
    __shared__ hot_slots<64, 2, float, Slot> slots;
    const record<float> table = {sums - size_t(far) * 2, 2};
    slots.clear();
    const float val[2] = {1, float(threadIdx.x)};
    for (int i = 0; i < 10; ++i)
        reduce(all_lanes, true, Key(far + Key(threadIdx.x / 8)), val, slots.sink(table));
    slots.flush(table);
}
template <typename... Parameters, typename Far>
void check_far(void (*kernel)(Parameters...), Far far, float times, float more) {
    const device_array<float> sums(8, {});
    run(1, 32, kernel, far, sums.get());
    std::vector<float> wanted;
    for (int key = 0; key < 4; ++key) wanted.insert(wanted.end(), {8 * times, float(28 + 64 * key) * times});
    wanted[0] += 32 * more, wanted[1] += 496 * more;
    EXPECT_EQ(sums.download(), wanted);
}
TEST(WideKeys, KeepTheirBits) {
    check_far(corners<long long>, 1ll << 32, 2, 1);
    check_far(corners<unsigned>, 3000000000u, 2, 1);
    check_far(corners<size_t>, size_t(1) << 40, 2, 1);
    check_far(hot<long long, int>, 1ll << 32, 10, 0);
    check_far(hot<unsigned, int>, 3000000000u, 10, 0);
    check_far(hot<size_t, int64_t>, size_t(1) << 40, 10, 0);
    check_far(hot<int, int64_t>, 3, 10, 0);
    check_far(hot<int, size_t>, 3, 10, 0);
}

// A sink of the caller's with a member `base` is summed in the warp, wherever the base lies.
struct with_base {
    const int *base; // a table in shared memory
    float *sums;
    template <typename Key, int K>
    __device__ void add(Key key, const float (&val)[K]) const {
        for (int k = 0; k < K; ++k) distwar::atomic_add(&sums[base[key] + k], val[k]);
    }
};
__global__ void add_to_table(float *sums) {
    __shared__ int table[4];
    if (threadIdx.x < 4) table[threadIdx.x] = int(3 - threadIdx.x);
    __syncthreads();
    distwar::reduce(distwar::all_lanes, true, int(threadIdx.x / 8), 1.0f, with_base{table, sums});
}
TEST(SinksOfTheCaller, MayHaveABase) {
    const device_array<float> sums(4, {});
    run(1, 32, add_to_table, sums.get());
    EXPECT_EQ(sums.download(), std::vector<float>(4, 8.0f));
}

} // namespace
