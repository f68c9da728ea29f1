// SPDX-License-Identifier: MIT
// Calls with more values than a tree takes, or with a number of values known at run time, under the same two names.
#ifndef CHUNK_CALLS_CUH
#define CHUNK_CALLS_CUH

#include "warp_calls.cuh"
#include <distwar/reduce.cuh>

enum { KEYS = 32 };

template <distwar::strategy S>
struct by_strategy {
    template <int K, typename T, typename Sink>
    static __device__ void add(const warp_call &call, bool active, int key, const T (&val)[K],
                               const Sink &sink) {
        distwar::reduce<S>(call.lanes, active, key, val, sink, call.threshold);
    }
    template <int Chunk, typename Values, typename Sink>
    static __device__ void add_n(const warp_call &call, bool active, int key, int count, const Values &values,
                                 const Sink &sink) {
        distwar::reduce_n<S, Chunk>(call.lanes, active, (long long)(key), count, values, sink,
                                    call.threshold);
    }
};
struct by_group {
    template <int K, typename T, typename Sink>
    static __device__ void add(const warp_call &call, bool active, int key, const T (&val)[K],
                               const Sink &sink) {
        distwar::group_lanes(call.lanes, active, key).add(val, sink, call.threshold);
    }
    template <int Chunk, typename Values, typename Sink>
    static __device__ void add_n(const warp_call &call, bool active, int key, int count, const Values &values,
                                 const Sink &sink) {
        distwar::group_lanes(call.lanes, active, key)
            .template add_n<Chunk>(count, values, sink, call.threshold);
    }
};

#endif
