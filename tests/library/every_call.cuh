// SPDX-License-Identifier: MIT
// The calls that take any key and any sink, by number.
#ifndef EVERY_CALL_CUH
#define EVERY_CALL_CUH

#include "warp_calls.cuh"
#include <distwar/group.cuh>
#include <distwar/reduce.cuh>
#include <distwar/runs.cuh>

enum call_kind {
    ATOMIC = DISTWAR_ATOMIC,
    SERIAL = DISTWAR_SERIAL,
    BFLY = DISTWAR_BFLY,
    TREE = DISTWAR_TREE,
    RUNS = DISTWAR_STRATEGY_COUNT,
    GROUP
};

template <call_kind Call, int K, typename T, typename Sink>
__device__ void call_with(const warp_call &call, bool active, int key, const T (&val)[K], const Sink &sink) {
    if constexpr (Call == RUNS)
        distwar::reduce_runs(call.lanes, active, key, val, sink, call.threshold);
    else if constexpr (Call == GROUP)
        distwar::group_lanes(call.lanes, active, key).add(val, sink, call.threshold);
    else
        distwar::reduce<distwar::strategy(Call)>(call.lanes, active, key, val, sink, call.threshold);
}

#endif
