// SPDX-License-Identifier: MIT
// Operations of a whole block in shared memory: sum, accumulator, sort. And the mask of a short warp.
//
// Who calls: all threads of the block, outside divergent branches and before any thread returns, because the
// calls contain barriers. All threads pass the same arguments, except their own values.
// Block: any shape, 1 to 1024 threads. A thread's rank is x + y * blockDim.x + z * blockDim.x * blockDim.y.
// Shared memory: allocated by the caller, who may reuse it when the call has returned.
#ifndef DISTWAR_BLOCK_CUH
#define DISTWAR_BLOCK_CUH

#include "sink.cuh"

namespace distwar {

DISTWAR_DEVICE int block_rank() {
    return int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
DISTWAR_DEVICE int block_size() {
    return int(blockDim.x * blockDim.y * blockDim.z);
}

// The mask of the lanes of the caller's warp that exist, to be passed as `lanes`. Only the last warp of a block can
// have fewer than 32. Any thread calls. Undefined: a block of another size than Threads.
//   Threads  the size of the block, for which the mask is a constant if it is a multiple of 32 or less than 32. Of other
//            sizes, and for 0, which reads blockDim, all paths of a call stay in the code
// Example (one warp, `lane` its lane, arrays of zeros):
//     const unsigned lanes = distwar::existing_lanes(); // all 32, as the block is one warp
//     distwar::reduce(lanes, lane < 20, 0, 1, distwar::record<int>{sums, 1});
//     // sums: 20
template <int Threads = 0>
DISTWAR_DEVICE unsigned existing_lanes() {
    static_assert(Threads >= 0 && Threads <= 1024, "distwar: a block has 1 to 1024 threads");
    if constexpr (Threads != 0 && Threads % 32 == 0) {
        return all_lanes;
    } else if constexpr (Threads != 0 && Threads < 32) {
        return (1u << Threads) - 1;
    } else {
        const int size = Threads != 0 ? Threads : block_size();
        const int first = block_rank() / 32 * 32; // rank of lane 0
        return size - first >= 32 ? all_lanes : (1u << (size - first)) - 1;
    }
}

// ---- sum

// Shared memory of block_sum for blocks of at most Threads threads: K Threads values, at most the 48 KB of a __shared__
// variable, which 12 floats and 1,024 threads fill. Where K is large, `reduce` with a uniform_key into an accumulator of
// one slot takes K values, and was as fast or up to 5 times as fast where a thread has several values (docs/kernel.md).
template <int K, int Threads, typename T = float>
struct block_sum_memory {
    static_assert(K * Threads * sizeof(T) <= 48 * 1024,
                  "distwar: block_sum takes K x Threads values in 48 KB; reduce into an accumulator takes K");
    T value[K][Threads];
};

// Sums value[k] over the threads of the block, by a binary tree.
//   sum  out: the sum in the thread of rank 0; partial sums in the others
// The order of additions depends on the size of the block alone. Undefined: a block of more than Threads
// threads. Cost: 1 + ceil(log2(size)) barriers for all K values together; K Threads values of shared memory.
// Example (one warp, `lane` its lane, arrays of zeros):
//     __shared__ distwar::block_sum_memory<1, 32> memory;
//     const float value[1] = {float(lane)};
//     float sum[1];
//     distwar::block_sum(value, memory, sum);
//     if (lane == 0) sums[0] = sum[0];
//     // sums: 496
template <int K, int Threads, typename T>
DISTWAR_DEVICE void block_sum(const T (&value)[K], block_sum_memory<K, Threads, T> &memory, T (&sum)[K]) {
    const int rank = block_rank();
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) memory.value[k][rank] = sum[k] = value[k];
    detail::sync_block();
    for (int size = block_size(); size > 1; size = (size + 1) / 2) {
        const int half = (size + 1) / 2;
        if (rank < size - half) {
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k)
                memory.value[k][rank] = sum[k] = sum[k] + memory.value[k][rank + half];
        }
        detail::sync_block();
    }
}

// Clamps each value to [-limit, limit], then sums as above. limit >= 0. NaN stays NaN.
template <int K, int Threads, typename T>
DISTWAR_DEVICE void block_sum(const T (&value)[K], block_sum_memory<K, Threads, T> &memory, T (&sum)[K],
                              T limit) {
    T clamped[K];
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) clamped[k] = value[k] < -limit ? -limit : limit < value[k] ? limit : value[k];
    distwar::block_sum(clamped, memory, sum);
}

// ---- accumulator

// N slots of K sums in shared memory, for blocks whose threads add to few addresses many times. clear() sets
// all sums to zero, flush() adds them to memory and clears them. In between, threads add through sink(), with
// the slot as key: by any reduce_*, or by sink().add(slot, val) from a single thread.
// Example (one warp, `lane` its lane, arrays of zeros):
//     __shared__ distwar::accumulator<1, 4> bins;
//     bins.clear();
//     distwar::reduce(distwar::all_lanes, true, lane % 4, 1.0f, distwar::in_shared(bins.sink()));
//     bins.flush([](int slot) { return 2 + slot; }, 4, distwar::record<float>{sums, 1});
//     // sums: 0, 0, 8, 8, 8, 8
template <int K, int N, typename T = float>
struct accumulator {
    static_assert(detail::is_value<T> && !detail::is_packed<T>,
                  "distwar: an accumulator sums float, double or integers of 4 or 8 bytes");
    T sum[N][K];

    // Sets all sums to 0. All threads of the block call. Cost: 1 barrier.
    DISTWAR_DEVICE void clear() {
        for (int i = block_rank(); i < N * K; i += block_size()) sum[i / K][i % K] = T(0);
        detail::sync_block();
    }

    // A sink whose keys are the slots 0..N - 1.
    DISTWAR_DEVICE record<T> sink() { return {&sum[0][0], K}; }

    // Adds the sums of slot i to its key in the sink `to`, for i < slots, and sets them to 0. All threads of the block
    // call, with the same arguments. The sink may be of doubles where the slots are of floats.
    //   key_of_slot  slots keys, in shared or global memory, or a callable of the slot
    //   slots        0..N
    // Cost: 2 barriers, and one to.add() for each slot with a sum other than 0, spread over the threads.
    template <typename KeyOf, typename Sink>
    DISTWAR_DEVICE void flush(const KeyOf &key_of_slot, int slots, const Sink &to) {
        detail::sync_block();
        for (int i = block_rank(); i < slots; i += block_size()) {
            T total[K];
            bool any = false;
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k) {
                total[k] = sum[i][k];
                any = any || total[k] != T(0);
                sum[i][k] = T(0);
            }
            if (!any) continue;
            if constexpr (detail::is_pointer<KeyOf>)
                to.add(key_of_slot[i], total);
            else
                to.add(key_of_slot(i), total);
        }
        detail::sync_block();
    }
};

// ---- sort

// The pairs to sort. bitonic_sort needs no other shared memory.
template <typename Key, typename Value, int Capacity>
struct sort_memory {
    Key key[Capacity];
    Value value[Capacity];
};

// Sorts the first n pairs of `memory` by key, ascending, in place.
//   n    0..Capacity, the same in all threads; independent of the block size
//   Key  needs operator<. NaN keys come last; -0.0 equals 0.0
// Not stable: the order of values with equal keys is unspecified, but the same in every run. The call begins and ends
// with a barrier: threads may write `memory` directly before and read it directly after.
// Cost, p the power of two >= n: 1 + log2(p) (log2(p) + 1) / 2 barriers, p / 2 comparisons between two of them.
//
// A bitonic network in which every comparator puts the earlier pair at the lower index. Pairs behind the n-th that sort
// last would never move, so comparators with an index >= n are left out.
// Example (one warp, `lane` its lane, arrays of zeros):
//     __shared__ distwar::sort_memory<int, int, 4> memory;
//     if (lane < 4) memory.key[lane] = lane ^ 2, memory.value[lane] = 10 * lane;
//     distwar::bitonic_sort(memory, 4);
//     if (lane < 4) keys[lane] = memory.key[lane], values[lane] = memory.value[lane];
//     // keys: 0, 1, 2, 3; values: 20, 30, 0, 10
template <typename Key, typename Value, int Capacity>
DISTWAR_DEVICE void bitonic_sort(sort_memory<Key, Value, Capacity> &memory, int n) {
    int pairs = 1; // p / 2
    while (2 * pairs < n) pairs *= 2;
    detail::sync_block();
    if (n < 2) return;
    for (int run = 1; run <= pairs; run *= 2) { // sorted runs of this length become sorted runs of twice it
        for (int distance = run; distance > 0; distance /= 2) {
            for (int i = block_rank(); i < pairs; i += block_size()) {
                const int within = i & (distance - 1), low = 2 * i - within; // distance is a power of two
                // The first step of a run compares i with its mirror image: a sorted half followed by a
                // reversed sorted half is bitonic.
                const int high = low + (distance == run ? 2 * (distance - within) - 1 : distance);
                if (high >= n) continue;
                const Key a = memory.key[low], b = memory.key[high];
                bool swaps = b < a;
                if constexpr (detail::is_same<Key, float> || detail::is_same<Key, double>)
                    swaps = swaps || (a != a && b == b); // a is NaN
                if (!swaps) continue;
                memory.key[low] = b, memory.key[high] = a;
                const Value moved = memory.value[low];
                memory.value[low] = memory.value[high], memory.value[high] = moved;
            }
            detail::sync_block();
        }
    }
}

} // namespace distwar

#endif
