// SPDX-License-Identifier: MIT
// The sink `fields`: every value of every active lane goes to its own array, once, and costs what is
// promised.

#include "warp_calls.cuh"
#include <distwar/sink.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <utility>

using distwar::strategy;

namespace {

// Four arrays of 32 keys with gaps between the records; the sums of the counts are 9 and 40.
enum { KEYS = 32, ARRAYS = 4, CALLS = 24, SCHEDULES = 12 };
template <int... Counts>
struct layout {
    static constexpr int count[] = {Counts...};
    static constexpr int values = (0 + ... + Counts);
    template <typename T>
    using sink = distwar::fields<T, Counts...>;
    static int stride(int array) { return count[array] + array; } // array 0 has no gap
};
using of_nine = layout<3, 1, 2, 3>;
using of_forty = layout<1, 33, 2, 4>;
using of_one = layout<1>;

template <typename Layout, strategy S, typename Key, typename T, typename Sink>
__global__ void add_to_fields(const warp_call *calls, const T *values, Sink sink) {
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x;
    if (!(call.lanes >> lane & 1)) return;
    T val[Layout::values];
    for (int k = 0; k < Layout::values; ++k) val[k] = values[(blockIdx.x * 32 + lane) * Layout::values + k];
    distwar::reduce<S>(call.lanes, call.active >> lane & 1, Key(call.key[lane]), val, sink, call.threshold);
}

template <typename T, int... Counts, size_t... Array>
distwar::fields<T, Counts...> sink_of(const std::vector<T *> &base, layout<Counts...>,
                                      std::index_sequence<Array...>) {
    return {distwar::detail::field<T, Counts>{base[Array], size_t(layout<Counts...>::stride(Array))}...};
}

template <typename Layout, strategy S, typename T, typename Key>
void check_fields(draw &random) {
    constexpr int K = Layout::values, arrays = int(std::size(Layout::count));
    std::vector<warp_call> calls;
    for (int i = 0; i < CALLS; ++i) calls.push_back(draw_warp_call(random));
    std::vector<T> values(CALLS * 32 * K);
    std::vector<std::vector<T>> expected;
    for (int a = 0; a < arrays; ++a) expected.emplace_back(KEYS * Layout::stride(a), T(a));
    for (int i = 0; i < CALLS; ++i)
        for (int lane = 0; lane < 32; ++lane)
            for (int a = 0, k = 0; a < arrays; ++a)
                for (int within = 0; within < Layout::count[a]; ++within, ++k) {
                    T &value = values[(i * 32 + lane) * K + k];
                    value = T(1 + random.below(1 << 13)); // CALLS * 32 of them stay below 2^24
                    if (calls[i].active >> lane & 1)
                        expected[a][calls[i].key[lane] * Layout::stride(a) + within] += value;
                }
    const device_array<warp_call> device_calls(calls);
    const device_array<T> device_values(values);
    std::vector<std::unique_ptr<device_array<T>>> array;
    std::vector<T *> base;
    for (int a = 0; a < arrays; ++a) {
        array.emplace_back(new device_array<T>(std::vector<T>(KEYS * Layout::stride(a), T(a))));
        base.push_back(array.back()->get());
    }
    const auto sink = sink_of(base, Layout(), std::make_index_sequence<arrays>());
    run(CALLS, 32, add_to_fields<Layout, S, Key, T, typename Layout::template sink<T>>, device_calls.get(),
        device_values.get(), sink);
    for (int a = 0; a < arrays; ++a)
        ASSERT_EQ(array[a]->download(), expected[a])
            << "strategy " << int(S) << ", K " << K << ", array " << a;
}

template <strategy S>
void check_strategy() {
    draw random(1 + unsigned(S));
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        check_fields<of_nine, S, float, int>(random);
        check_fields<of_one, S, float, unsigned long long>(random);
        check_fields<of_nine, S, double, long long>(random);
        check_fields<of_forty, S, float, unsigned>(random);
        if (testing::Test::HasFailure()) return;
    }
}

TEST(Fields, AtomicAddsEachLaneOnce) {
    check_strategy<strategy::atomic>();
}
TEST(Fields, SerialAddsEachLaneOnce) {
    check_strategy<strategy::serial>();
}
TEST(Fields, BflyAddsEachLaneOnce) {
    check_strategy<strategy::bfly>();
}
TEST(Fields, TreeAddsEachLaneOnce) {
    check_strategy<strategy::tree>();
}
TEST(Fields, TreeAddsIntegers) {
    draw random(9);
    check_fields<of_nine, strategy::tree, long long, int>(random);
    check_fields<of_forty, strategy::tree, unsigned long long, int>(random);
}

// At every scope, in shared memory, with keys whose offset needs more than 32 bits.
template <distwar::scope S>
__global__ void add_at_scope(float *a, long long key) {
    __shared__ float shared[4];
    if (threadIdx.x < 4) shared[threadIdx.x] = 0;
    __syncthreads();
    const float val[3] = {1, 2, 3};
    const distwar::fields_with<distwar::add, S, float, 2, 1> sink = {
        {reinterpret_cast<float *>(reinterpret_cast<size_t>(a) - (size_t(key) * 2) * sizeof(float)), 2},
        {reinterpret_cast<float *>(reinterpret_cast<size_t>(shared) - size_t(key) * sizeof(float)), 1}};
    distwar::reduce_tree(distwar::all_lanes, true, key, val, sink);
    distwar::reduce_atomic(distwar::all_lanes, true, key, val, sink);
    __syncthreads();
    if (threadIdx.x == 0) a[2] = shared[0];
}
TEST(Fields, OfEveryScopeInSharedMemoryWithLargeKeys) {
    for (const auto kernel : {add_at_scope<distwar::scope::block>, add_at_scope<distwar::scope::device>,
                              add_at_scope<distwar::scope::system>}) {
        const device_array<float> a(std::vector<float>(3, 0.0f));
        run(1, 32, kernel, a.get(), 3ll << 40); // from bases as far below
        EXPECT_EQ(a.download(), (std::vector<float>{64, 128, 192}));
    }
}

static_assert(distwar::detail::is_addressed_by_key<distwar::fields<float, 3, 1>, int, float>);
static_assert(distwar::fields<float, 3, 1, 2, 3>::values == 9);

#ifdef __SIMT__
template <typename Layout, strategy S, typename Sink>
__global__ void add_once(Sink sink) {
    float val[Layout::values];
    for (int k = 0; k < Layout::values; ++k) val[k] = 1;
    distwar::reduce<S>(distwar::all_lanes, true, distwar::uniform_key{1}, val, sink);
}
template <typename Layout, strategy S>
simt_counters cost_of() {
    constexpr int arrays = int(std::size(Layout::count));
    const device_array<float> all(std::vector<float>(2 * 50, 0.0f));
    const auto sink =
        sink_of(std::vector<float *>(arrays, all.get()), Layout(), std::make_index_sequence<arrays>());
    simt_counters_reset();
    run(1, 32, add_once<Layout, S, typename Layout::template sink<float>>, sink);
    return simt_counters_read();
}

TEST(FieldsCost, OfTheTreeOf9ValuesIs12ShufflesAnd1AtomicInstruction) {
    const simt_counters tree = cost_of<of_nine, strategy::tree>();
    EXPECT_EQ(tree.shuffles, 12u);
    EXPECT_EQ(tree.votes, 1u);
    EXPECT_EQ(tree.atomic_instructions, 1u);
    EXPECT_EQ(tree.atomic_requests, 9u);
    const simt_counters large = cost_of<of_forty, strategy::tree>();
    EXPECT_EQ(large.shuffles, uint64_t(distwar::detail::tree_shuffles(40)));
    EXPECT_EQ(large.atomic_instructions, 2u);
    EXPECT_EQ(large.atomic_requests, 40u);
}
TEST(FieldsCost, OfOneLaneIsKAtomics) {
    EXPECT_EQ((cost_of<of_nine, strategy::bfly>().atomic_requests), 9u);
    EXPECT_EQ((cost_of<of_nine, strategy::atomic>().atomic_requests), 9u * 32);
}
#endif

} // namespace
