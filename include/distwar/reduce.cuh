// SPDX-License-Identifier: MIT
//
// distwar: sums for kernels in which many threads add to few addresses. The lanes of a warp that add to the
// same address sum their values in registers first. One atomic then adds the sum to memory, in place of one
// atomic for each lane.
//
//     __global__ void backward(const int *primitive_of, int pixels, float *gradient) {
//         const int pixel = blockIdx.x * blockDim.x + threadIdx.x;
//         const bool active = pixel < pixels; // no early return: all 32 lanes make the call
//         const int primitive = active ? primitive_of[pixel] : 0;
//         float value[9];
//         if (active) gradient_of(pixel, value);
//         // for k < 9: gradient[12 * primitive + k] += value[k]
//         distwar::reduce(distwar::all_lanes, active, primitive, value, distwar::record<float>{gradient, 12});
//     }
//
// Begin with reduce: it decides by what is known when the kernel is compiled, by_key.cuh says how. The calls
// with names do one thing each; docs/kernel.md says when one is faster, and when no call is. All have the same
// form and the same contract:
//
//     reduce(lanes, active, key, val, sink)
//     reduce_NAME(lanes, active, key, val, sink, balance_threshold = 0)
//
// Arguments
//   lanes   Mask of the lanes that make this call together, usually all_lanes.
//           - Each lane in the mask makes this call, with the same mask and the same threshold.
//           - No other lane makes it. Different branches may make calls with disjoint masks.
//           - The lanes need not be converged.
//   active  Whether this lane has values to add. An inactive lane makes the call but adds nothing; its key,
//           values and addresses are ignored and may be uninitialized.
//   key     What this lane adds to: an integer of 4 or 8 bytes. Active lanes with equal keys form a group.
//           uniform_key{key}: the caller guarantees that all of `lanes`, inactive ones included, have this
//           key. The call then skips the search for groups.
//   val     K values, or for reduce also a single value or a list, values(color, opacity): float, double or
//           integers of 4 or 8 bytes, with packed.cuh also __half2 and __nv_bfloat162. K is a compile-time constant
//           >= 1. The array is not changed. More than 64 values are summed in chunks. A number of values known at
//           run time: reduce_NAME_n (chunks.cuh).
//   sink    Where the values are added, in global or shared memory (sink.cuh):
//           - record          base[key * stride + k]. The same in all lanes, inactive ones included.
//           - aligned_record  the same layout for floats, with vector atomics. Same rule.
//           - planes          base[k * stride + key]. Same rule.
//           - pointers        K addresses of the lane, equal within a group. Ignored in inactive lanes.
//           - in_shared(sink)  for reduce: the promise that a sink lies in shared memory. No other lanes needed.
//           - your own type   with add(key, values), and add_one(key, k, value) if it is addressed by key.
//   balance_threshold (calls with names)
//           A group of at least this many active lanes is summed in the warp and committed once. In a
//           smaller group each lane sends its own K atomics. This divides the work between the SM and the
//           atomic units of the L2 cache. <= 0 sums every group, >= 33 none. Start with 0.
//
// Result
//   - The values of every active lane have been added exactly once, by relaxed atomics of the sink's scope:
//     the device, or that of record_at<scope::system, T> and the like (sink.cuh).
//   - Other threads see the sums as they see any atomicAdd.
//   - The order of the floating-point additions is undefined, unless a call defines it.
//
// Undefined
//   - a lane of `lanes` that does not make the call, or passes another mask or threshold
//   - lanes of one group with different addresses in `pointers`
//   - a `record`, `aligned_record`, `planes` or uniform_key that differs between lanes of the call
//
// Errors: none at run time. Wrong types are static assertions that begin with "distwar:".
//
// Cost of a call (n: active lanes of the largest group). If no lane is active: at most one vote.
//
//     call            sums in the warp            shuffles             atomics
//     --------------  --------------------------  -------------------  ----------------------------
//     reduce          one of the ways below       by_key.cuh
//     reduce_atomic   nothing (the baseline)      0                    K by each active lane
//     reduce_serial   any keys, any lanes         K (n - 1)            K by one lane of each group
//     reduce_bfly     one key and all 32 lanes,   5K + 1               K by one lane
//                     else as reduce_atomic
//     reduce_tree     any keys, any lanes;        one key: about       one instruction for all K
//                     best for one key and all    K + 5                values of a group
//                     32 lanes                    (K = 9: 12 + 1)
//
// With several keys in a warp, reduce_tree builds one tree for each group, or sums all groups side by side
// with about K log2(n) shuffles. The header of each call states its full cost.
//
// Related
//   reduce_each                   a loop of pairs of key and values in the code of one call (by_key.cuh)
//   values                        one list of several variables (values.cuh)
//   in_global                     a pointer that was loaded from memory (atomic.cuh)
//   reduce<strategy::tree>(...)   chooses the call at compile time
//   with_strategy                 chooses it at run time (policy.cuh)
//   tune.h                        chooses strategy and threshold from the measured times of your launches
//   tree_total                    the tree without the commit, also for minima and maxima (tree.cuh)
//   tree_of_lanes                 sums within groups of lanes (lane_groups.cuh)
//   reduce_fixed                  sums that are bitwise reproducible (fixed.cuh)
//   reduce_tree_n, ...            a number of values known at run time, from an array or a callable (chunks.cuh)
//   reduce_runs                   for keys that are sorted or come in runs (runs.cuh)
//   group_lanes                   finds the groups once, for many sums (group.cuh)
//   packed.cuh                    pairs of half and bfloat16 as values
//   fields                        a sink for values in several arrays (fields.cuh)
//   fetch_add, append             counters that return; slots of queues (fetch.cuh)
//   hot_slots                     for skewed keys: sums of a block in shared memory (hot_slots.cuh)
#ifndef DISTWAR_REDUCE_CUH
#define DISTWAR_REDUCE_CUH

#include "push_macros.h"

#include "atomic.cuh"
#include "butterfly.cuh"
#include "by_key.cuh"
#include "chunks.cuh"
#include "fetch.cuh"
#include "fields.cuh"
#include "group.cuh"
#include "lane_groups.cuh"
#include "lanes.cuh"
#include "policy.cuh"
#include "runs.cuh"
#include "serial.cuh"
#include "sink.cuh"
#include "tree.cuh"
#include "values.cuh"
#include "version.h"

namespace distwar {

// Each active lane sends its own K atomics: the machine code of the kernel is that with your own atomics in its
// place (tests/codegen). `lanes` and the threshold are ignored, so the loop may stay as it was. Cost: K atomic
// instructions.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const float val[2] = {1, float(lane)};
//     distwar::reduce_atomic(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
//     // sums: 16, 120, 8, 156
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce_atomic(lane_mask /*lanes*/, bool active, Key key, const T (&val)[K],
                                              const Sink &sink, int /*balance_threshold*/ = 0) {
    detail::check_call(active, key, sink, K);
    if (active) sink.add(detail::plain_key(key), val);
}

// Calls reduce_S: reduce<strategy::tree>(...) is reduce_tree(...). S: atomic, serial, bfly or tree.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const float val[2] = {1, float(lane)};
//     distwar::reduce<distwar::strategy::tree>(distwar::all_lanes, lane < 24, lane / 16, val,
//                                              distwar::record<float>{sums, 2});
//     // sums: 16, 120, 8, 156
template <strategy S, int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce(lane_mask lanes, bool active, Key key, const T (&val)[K],
                                       const Sink &sink, int balance_threshold = 0) {
    static_assert((detail::reduce_strategies >> int(S) & 1) != 0,
                  "distwar: reduce<> takes the strategies atomic, serial, bfly and tree");
    if constexpr (S == strategy::atomic)
        distwar::reduce_atomic(lanes, active, key, val, sink, balance_threshold);
    else if constexpr (S == strategy::serial)
        distwar::reduce_serial(lanes, active, key, val, sink, balance_threshold);
    else if constexpr (S == strategy::bfly)
        distwar::reduce_bfly(lanes, active, key, val, sink, balance_threshold);
    else
        distwar::reduce_tree(lanes, active, key, val, sink, balance_threshold);
}

// Both for a number of values known at run time (chunks.cuh).
template <int Chunk = 16, typename Values, typename Key, typename Sink>
__device__ __forceinline__ void reduce_atomic_n(lane_mask /*lanes*/, bool active, Key key, int count,
                                                const Values &values, const Sink &sink,
                                                int /*balance_threshold*/ = 0) {
    detail::check_call(active, key, sink, count);
    const auto counted = detail::counted<Chunk>(count, values);
    detail::check_counted<Chunk, decltype(counted), Key, Sink>();
    using plain = decltype(detail::plain_key(key));
    if (active) counted.each(true, sink, detail::plain_commit<plain>{detail::plain_key(key)});
}

template <strategy S, int Chunk = 16, typename Values, typename Key, typename Sink>
__device__ __forceinline__ void reduce_n(lane_mask lanes, bool active, Key key, int count,
                                         const Values &values, const Sink &sink, int balance_threshold = 0) {
    static_assert((detail::reduce_strategies >> int(S) & 1) != 0,
                  "distwar: reduce<> takes the strategies atomic, serial, bfly and tree");
    if constexpr (S == strategy::atomic)
        distwar::reduce_atomic_n<Chunk>(lanes, active, key, count, values, sink, balance_threshold);
    else if constexpr (S == strategy::serial)
        distwar::reduce_serial_n<Chunk>(lanes, active, key, count, values, sink, balance_threshold);
    else if constexpr (S == strategy::bfly)
        distwar::reduce_bfly_n<Chunk>(lanes, active, key, count, values, sink, balance_threshold);
    else
        distwar::reduce_tree_n<Chunk>(lanes, active, key, count, values, sink, balance_threshold);
}

} // namespace distwar

#include "pop_macros.h"

#endif
