// SPDX-License-Identifier: MIT
//
// distwar: many threads add to few addresses. Instead of one atomic for each thread and value, the lanes of a
// warp that add to the same place sum their values in registers and one of them commits the sum.
//
//     __global__ void backward(const int *primitive_of, int pixels, float *gradient) {
//         const int pixel = blockIdx.x * blockDim.x + threadIdx.x;
//         const bool active = pixel < pixels; // no early return: all 32 lanes make the call
//         const int primitive = active ? primitive_of[pixel] : 0;
//         float value[9];
//         if (active) gradient_of(pixel, value);
//         // for k < 9: gradient[12 * primitive + k] += value[k]
//         distwar::reduce_tree(distwar::all_lanes, active, primitive, value,
//                              distwar::record<float>{gradient, 12});
//     }
//
// Every call has this form, and this contract:
//
//     reduce_NAME(lanes, active, key, val, sink, balance_threshold = 0)
//
// lanes:  mask of the lanes that make this call together. Each of them must be in it, pass the same mask and
//         the same threshold, and come to this same call; lanes outside it must not. Different branches may
//         make calls with disjoint masks. Who happens to be converged does not matter.
// active: whether this lane has something to add. Inactive lanes take part and add nothing: their key, values
//         and addresses are never used and may hold anything. If no lane is active, the call returns after at
//         most one vote.
// key:    what this lane adds to, any integer of 4 or 8 bytes. Active lanes with equal keys form a group. If
//         all lanes, inactive ones too, are known to hold one key, uniform_key{key} saves looking.
// val:    K values, float or double, K a compile-time constant >= 1 (reduce_tree: at most 64). Not changed.
// sink:   where the values go: `record` (base[key * stride + k]) or `planes` (base[k * stride + key]), the
//         same in all lanes, inactive ones too; `pointers` (each lane's own K addresses, equal within a group
//         and used by active lanes alone); or any type with add(key, values). In global or shared memory.
//         `aligned_record` is a record that is added to by vector atomics. See sink.cuh.
// balance_threshold:
//         a group of at least this many active lanes is summed in the warp and committed once, by K atomics;
//         the lanes of a smaller one send K atomics each. This shares the work between the SM and the L2's
//         atomic units. 0 = sum every group, 33 = none; beyond them likewise.
//
// Afterwards the values of every active lane have been added exactly once, by relaxed atomics of device
// scope: other threads see them as they would see any atomicAdd. The order of the floating-point additions is
// not defined, except where a call says so.
//
//     call            sums in the warp            cost, the largest group having n lanes
//     --------------  --------------------------  ---------------------------------------------
//     reduce_atomic   nothing; the baseline       K atomics for each active lane
//     reduce_serial   any keys, any lanes         K (n - 1) shuffles; K atomics for each group
//     reduce_bfly     one key and all 32 lanes;   5K + 1 shuffles; K atomics
//                     else as reduce_atomic
//     reduce_tree     any keys, any lanes;        about K + 5 shuffles (12 + 1 for K = 9), and one atomic
//                     best for one key and all    instruction for all K values; else a tree for each group,
//                     32 lanes                    or about K log2(n) shuffles
//
// Each call's own header states the full cost. reduce<strategy::NAME>(...) chooses at compile time,
// with_strategy at run time (policy.cuh). tree_total (tree.cuh) is the tree without the commit, also for
// minima and maxima.
#ifndef DISTWAR_REDUCE_CUH
#define DISTWAR_REDUCE_CUH

#include "atomic.cuh"
#include "butterfly.cuh"
#include "lanes.cuh"
#include "policy.cuh"
#include "serial.cuh"
#include "sink.cuh"
#include "tree.cuh"
#include "version.h"

namespace distwar {

// Every active lane sends its own K atomics. `lanes` and the threshold are not used. Cost: K atomic
// instructions.
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce_atomic(unsigned /*lanes*/, bool active, Key key, const T (&val)[K],
                                              const Sink &sink, int /*balance_threshold*/ = 0) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    if (active) sink.add(plain_key(key), val);
}

// The call named S: atomic, serial, bfly or tree.
template <strategy S, int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce(unsigned lanes, bool active, Key key, const T (&val)[K],
                                       const Sink &sink, int balance_threshold = 0) {
    static_assert(S == strategy::atomic || S == strategy::serial || S == strategy::bfly || S == strategy::tree,
                  "distwar: reduce<> takes the strategies atomic, serial, bfly and tree");
    if constexpr (S == strategy::atomic)
        reduce_atomic(lanes, active, key, val, sink, balance_threshold);
    else if constexpr (S == strategy::serial)
        reduce_serial(lanes, active, key, val, sink, balance_threshold);
    else if constexpr (S == strategy::bfly)
        reduce_bfly(lanes, active, key, val, sink, balance_threshold);
    else
        reduce_tree(lanes, active, key, val, sink, balance_threshold);
}

} // namespace distwar

#endif
