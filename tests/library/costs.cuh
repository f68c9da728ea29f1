// SPDX-License-Identifier: MIT
// What simt counts in one call of one warp: shuffles, votes and atomics. Built for simt only.
#ifndef COSTS_CUH
#define COSTS_CUH

#include "calls.cuh"
#include <tuple>

struct cost {
    uint64_t shuffles, votes, matches, reductions, instructions, requests; // the last two of atomics
    cost(uint64_t shuffles, uint64_t votes, uint64_t matches, uint64_t reductions, uint64_t instructions,
         uint64_t requests)
        : shuffles(shuffles), votes(votes), matches(matches), reductions(reductions),
          instructions(instructions), requests(requests) {}
    explicit cost(const simt_counters &c) // which counts matches and reductions as votes too
        : cost(c.shuffles, c.votes - c.matches - c.reductions, c.matches, c.reductions, c.atomic_instructions,
               c.atomic_requests) {}
    auto all() const { return std::tie(shuffles, votes, matches, reductions, instructions, requests); }
    bool operator==(const cost &other) const { return all() == other.all(); }
};
inline std::ostream &operator<<(std::ostream &out, const cost &c) {
    return out << "shuffles, votes, matches, redux, atomics, requests: " << testing::PrintToString(c.all());
}

template <typename... Parameters, typename... Arguments>
cost count(void (*kernel)(Parameters...), Arguments... arguments) {
    simt_counters_reset();
    run(1, 32, kernel, static_cast<Parameters>(arguments)...);
    EXPECT_EQ(simt_counters_read().barriers, 0u);
    return cost(simt_counters_read());
}

inline unsigned lowest(int lanes) {
    return lanes == 32 ? distwar::all_lanes : (1u << lanes) - 1;
}
inline warp_call call_of(const std::vector<int> &keys, int threshold = 0,
                         unsigned active = distwar::all_lanes, unsigned lanes = distwar::all_lanes) {
    warp_call call = {lanes, active, threshold, {}};
    std::copy(keys.begin(), keys.end(), call.key);
    return call;
}
// Lane l holds the key l % count.
inline std::vector<int> keys_in_turn(int count) {
    std::vector<int> keys;
    for (int lane = 0; lane < 32; ++lane) keys.push_back(lane % count);
    return keys;
}
// The first sizes[0] lanes hold one key, the next sizes[1] lanes another, ...; each remaining lane holds a key of its own.
inline std::vector<int> groups_of(const std::vector<int> &sizes) {
    std::vector<int> keys;
    for (const int size : sizes) keys.insert(keys.end(), size_t(size), int(keys.size()));
    while (keys.size() < 32) keys.push_back(int(keys.size()));
    return keys;
}
const std::vector<int> one_key(32, 3);

// The cost of one call with K ones.
template <call_kind Call, int K, sink_kind Kind = RECORD, typename T = float, typename Key = int,
          typename Op = distwar::add, bool Shared = false, typename V = T>
cost cost_of(const warp_call &call) {
    const device_array<warp_call> calls({call});
    const device_array<V> values(32 * K, stored<V>(1));
    const device_array<T> targets(places_of(K), {});
    const device_array<unsigned> changed({0u});
    const cost found = count(make_calls<Call, Kind, Op, K, T, V, Key, Shared, distwar::scope::device>,
                             calls.get(), values.get(), targets.get(), changed.get());
    const simt_counters c = simt_counters_read();
    if (Kind != ALIGNED) {
        EXPECT_EQ(c.atomic_bytes, c.atomic_requests * sizeof(T));
    }
    EXPECT_EQ(c.warp_syncs, Shared ? 2u : 0u);
    return found;
}
template <call_kind Call, int K>
cost cost_of(const std::vector<int> &keys, int threshold = 0, unsigned active = distwar::all_lanes,
             unsigned lanes = distwar::all_lanes) {
    return cost_of<Call, K>(call_of(keys, threshold, active, lanes));
}
template <call_kind Call, int K, sink_kind Kind = RECORD, typename T = float>
cost cost_of_uniform_key(unsigned active = distwar::all_lanes, unsigned lanes = distwar::all_lanes) {
    return cost_of<Call, K, Kind, T, distwar::uniform_key<int>>(call_of(one_key, 0, active, lanes));
}

#endif
