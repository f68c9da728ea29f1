// SPDX-License-Identifier: MIT
// group_lanes: one handle, many sums, also at another key; each is that of reduce_tree.

#include "calls.cuh"

using distwar::add;
using distwar::all_lanes;

namespace {

// Three sums by one handle and copies of it, of which number `turn` goes to the targets; with OtherKey at a key that two
// groups may have. Others with more values lie between them.
template <sink_kind Kind, bool OtherKey, typename Key, int K, typename T>
__global__ void add_often(const warp_call *calls, const T *values, int turn, float *forties, T *scratch,
                          T *targets) {
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x;
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    const int key = call.key[lane], threshold = call.threshold;
    T val[K];
    float forty[40];
    for (int k = 0; k < K; ++k) val[k] = values[(blockIdx.x * 32 + lane) * K + k];
    for (int k = 0; k < 40; ++k) forty[k] = 1;
    const auto groups =
        distwar::group_lanes(call.lanes, active, Key(OtherKey ? key * 2 + int(lane % 2) : key));
    for (int i = 0; i < 3; ++i) {
        const auto copy = groups;
        T *const to = (i == turn ? targets : scratch) + blockIdx.x * places_of(K);
        const auto sink = sink_of<Kind, K, add, distwar::scope::device>(to, K, key, active);
        if constexpr (OtherKey)
            copy.add(val, sink, distwar::at_key{key});
        else
            copy.add(val, sink, i % 2 ? 34 - threshold : threshold);
        groups.add(forty, distwar::record<float>{forties, 40}, 2);
    }
}
template <sink_kind Kind, bool OtherKey, typename Key, int K, typename T>
void check_often(draw &random) {
    const device_array<T> scratch(CALLS * places_of(K), {});
    const device_array<float> forties(2 * KEYS * 40, {});
    for (int turn = 0; turn < 3; ++turn)
        check_calls<add, T, T>(random, draw_calls(random), GROUP, Kind, K,
                               [&](const warp_call *calls, const T *values, T *targets) {
                                   run(CALLS, 32, add_often<Kind, OtherKey, Key, K, T>, calls, values, turn,
                                       forties.get(), scratch.get(), targets);
                               });
}
TEST(GroupLanes, EverySumAddsEachLaneOnce) {
    draw random(1);
    under_schedules(5, [&] {
        check_often<RECORD, false, int, 9, float>(random);
        check_often<PLANES, false, unsigned long long, 1, double>(random);
        check_often<POINTERS, false, int, 3, float>(random);
        check_often<RECORD, false, unsigned long long, 2, long long>(random);
        check_often<RECORD, false, int, 40, float>(random);
        check_often<RECORD, true, int, 2, float>(random);
        check_often<RECORD, true, int, 9, float>(random);
    });
}

// Values that round: the same bits as reduce_tree.
template <call_kind Call, int K>
std::vector<float> sums_that_round(const std::vector<warp_call> &calls) {
    draw random(2);
    std::vector<float> values;
    for (int i = 0; i < CALLS * 32 * K; ++i)
        values.push_back(float(random.bits()) / float(1 + random.below(1000)));
    const device_array<warp_call> device_calls(calls);
    const device_array<float> device_values(values), to(CALLS * places_of(K), {});
    const device_array<unsigned> changed({0u});
    run(CALLS, 32, make_calls<Call, RECORD, add, K, float, float, int, false, distwar::scope::device>,
        device_calls.get(), device_values.get(), to.get(), changed.get());
    return to.download();
}
TEST(GroupLanes, AddsInTheOrderOfReduceTree) {
    draw random(2);
    std::vector<warp_call> calls = draw_calls(random);
    for (warp_call &call : calls) call.threshold = std::min(call.threshold, 1); // no two commits to one place
    EXPECT_EQ((sums_that_round<GROUP, 1>(calls)), (sums_that_round<TREE, 1>(calls)));
    EXPECT_EQ((sums_that_round<GROUP, 4>(calls)), (sums_that_round<TREE, 4>(calls)));
    EXPECT_EQ((sums_that_round<GROUP, 9>(calls)), (sums_that_round<TREE, 9>(calls)));
}

} // namespace
