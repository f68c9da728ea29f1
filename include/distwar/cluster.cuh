// SPDX-License-Identifier: MIT
// cluster_accumulator: sums of the blocks of a cluster in their shared memory (compute capability 9.0).
//
// The blocks of a cluster add to the same slots, and one flush adds the sums to memory: with 8 blocks to a
// cluster an eighth of the atomics of 8 accumulators. Slot i is in the shared memory of block i % Blocks, so
// each block holds N / Blocks slots. Remote shared memory adds integers only: the sums are integers, and
// floats are summed in fixed point (fixed.cuh).
//
//     __shared__ distwar::cluster_accumulator<9, 1024, 4> sums; // clusters of 4 blocks
//     const distwar::fixed_format<9> format = ...;
//     sums.clear();
//     ... distwar::reduce_fixed(lanes, active, slot, val, sums.sink(), format);
//     const distwar::record<float> gradients = {gradient, 12};
//     sums.flush(primitive_of_slot, used_slots, distwar::from_fixed(format, gradients));
//
// Launch: with the attribute cudaLaunchAttributeClusterDimension, Blocks blocks to a cluster in all.
// Fallback: before compute capability 9.0 and under simt the kernel is launched without clusters, and each
// block keeps and flushes all N slots itself. The results are the same. Shared memory holds N slots, not
// N / Blocks.
//
// When: for slots that do not fit into the shared memory of one block. Measured on an H200
// (benchmarks/library/flush.cu; docs/benchmarks/library.md has all figures), four adds to a slot and a flush:
// - 4,096 slots of 9 sums, 288 KB in fixed point: a cluster of 2 takes 0.91 to 1.01 of the time of the
//   fastest accumulator of floats with atomic flushes, which still fits into a block; clusters of 4 and 8
//   take longer.
// - Slots that fit into one block: 1.4, 2.2 and 2.8 times the time of fixed-point sums in each block (medians
//   for 2, 4 and 8 blocks), because most adds go to another SM. A cluster of 2 wins in 2 of 54 cells: 64
//   slots, 8,192 blocks, all with the same keys, K = 4 and 9 (0.73 and 0.96).
#ifndef DISTWAR_CLUSTER_CUH
#define DISTWAR_CLUSTER_CUH

#include "push_macros.h"

#include "block.cuh"
#include "fixed.cuh"

namespace distwar {

// Whether this code runs in clusters. The host's pass counts as without: its sizes are the larger ones.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr bool has_clusters = true;
#else
inline constexpr bool has_clusters = false;
#endif

// The rank of the block in its cluster, the number of its blocks, and a barrier of all their threads.
// Without clusters: 0, 1, and a barrier of the block. The barrier orders memory accesses among the threads of
// the cluster as __syncthreads does in a block.
__device__ __forceinline__ int cluster_rank() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return int(rank);
#else
    return 0;
#endif
}
__device__ __forceinline__ int cluster_size() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return int(size);
#else
    return 1;
#endif
}
__device__ __forceinline__ void cluster_sync() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
#else
    __syncthreads();
#endif
}

namespace detail {

// Adds to an integer at the same shared address in block `rank` of the cluster.
template <typename T>
__device__ __forceinline__ void add_in_cluster(T *address, int rank, T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(remote)
        : "r"(unsigned(__cvta_generic_to_shared(address))), "r"(rank));
    if constexpr (sizeof(T) == 8)
        asm volatile("red.relaxed.cluster.shared::cluster.add.u64 [%0], %1;"
                     :
                     : "r"(remote), "l"(value)
                     : "memory");
    else
        asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;"
                     :
                     : "r"(remote), "r"(value)
                     : "memory");
#else
    (void)rank;
    distwar::atomic_add<scope::block>(address, value);
#endif
}

} // namespace detail

// The sink of a cluster_accumulator. Its keys are the slots.
template <typename Accumulator, typename T>
struct cluster_sink {
    Accumulator *sums;

    template <typename Key, int K>
    __device__ __forceinline__ void add(Key slot, const T (&values)[K]) const {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) add_one(slot, k, values[k]);
    }
    template <typename Key>
    __device__ __forceinline__ void add_one(Key slot, int k, T value) const {
        detail::add_in_cluster(&sums->sum[Accumulator::row_of(int(slot))][k], Accumulator::rank_of(int(slot)),
                               value);
    }
};

// N slots of K sums in the shared memory of the Blocks blocks of a cluster. T: long long for reduce_fixed, or
// another integer that atomic_add takes. In all calls, `all threads` are those of the cluster, outside
// divergent branches and with the same arguments.
template <int K, int N, int Blocks, typename T = long long>
struct cluster_accumulator {
    static_assert(Blocks >= 1 && Blocks <= 16, "distwar: a cluster has 1 to 16 blocks");
    static_assert(detail::is_integer<T>, "distwar: a cluster accumulator sums integers of 4 or 8 bytes");
    static constexpr int owners = has_clusters ? Blocks : 1; // blocks that share the slots
    static constexpr int rows = (N + owners - 1) / owners;
    T sum[rows][K]; // row r of block b is slot r * owners + b

    static __device__ __forceinline__ int rank_of(int slot) { return int(unsigned(slot) % unsigned(owners)); }
    static __device__ __forceinline__ int row_of(int slot) { return int(unsigned(slot) / unsigned(owners)); }

    // Sets all sums to 0. All threads call.
    // Errors: stops the kernel (trap) if the cluster has not Blocks blocks.
    // Cost: 1 barrier of the cluster.
    __device__ __forceinline__ void clear() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        if (cluster_size() != Blocks) __trap();
#endif
        for (int i = block_rank(); i < rows * K; i += block_size()) sum[i / K][i % K] = T(0);
        cluster_sync();
    }

    // A sink whose keys are the slots 0..N - 1, for any thread of the cluster between clear() and flush().
    __device__ __forceinline__ cluster_sink<cluster_accumulator, T> sink() {
        return {this};
    }

    // Adds the sums of slot i to key key_of_slot[i] of the sink `to`, for i < slots, and sets them to 0. All
    // threads call.
    //   key_of_slot  slots keys, in global memory or, with the same content, in the shared memory of each
    //                block
    //   slots        0..N
    //   to           a sink of T, or from_fixed(format, sink of floats)
    // A block may exit after the call: no other block reads its shared memory any more.
    // Cost: 2 barriers of the cluster, and one to.add() for each slot with a sum other than 0, spread over
    // the threads of the cluster.
    template <typename Key, typename Sink>
    __device__ __forceinline__ void flush(const Key *key_of_slot, int slots, const Sink &to) {
        cluster_sync();
        const int rank = owners == 1 ? 0 : cluster_rank();
        for (int row = block_rank(); row * owners + rank < slots; row += block_size()) {
            T total[K];
            bool any = false;
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k) {
                total[k] = sum[row][k];
                any = any || total[k] != T(0);
                sum[row][k] = T(0);
            }
            if (any) to.add(key_of_slot[row * owners + rank], total);
        }
        cluster_sync();
    }
};

// A sink of fixed-point sums that adds them as floats to the sink `to`. See from_fixed.
template <int K, typename T, typename Sink>
struct fixed_sink {
    T scale[K];
    Sink to;

    template <typename Key>
    __device__ __forceinline__ void add(Key key, const long long (&sums)[K]) const {
        T values[K];
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) values[k] = fixed_to_float(sums[k], scale[k]);
        to.add(key, values);
    }
};

// A sink that takes sums in the units of `format` and adds them to `to` as T. For the flush of an accumulator
// of long long. The sum of one flush is reproducible; sums of several flushes depend on their order, because
// `to` adds T.
template <int K, typename T, int Log2Adds, typename Sink>
__device__ __forceinline__ fixed_sink<K, T, Sink> from_fixed(const fixed_format<K, T, Log2Adds> &format,
                                                             const Sink &to) {
    fixed_sink<K, T, Sink> sink = {{}, to};
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) sink.scale[k] = format.scale[k];
    return sink;
}

} // namespace distwar

#include "pop_macros.h"

#endif
