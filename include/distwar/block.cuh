// SPDX-License-Identifier: MIT
// What the threads of a block do together in shared memory: sum, gather before a flush, sort.
//
// Every call is made by all threads of the block, each with the same arguments but its own values, and has
// barriers inside: no thread may be in a branch that others are not in, or have returned. Blocks have any
// shape, 1 to 1024 threads; a thread's rank is x + y * blockDim.x + z * blockDim.x * blockDim.y. The caller
// gives the shared memory, and may use it for something else once a call has returned:
//
//     __shared__ distwar::block_sum_memory<1, 256> memory;
#ifndef DISTWAR_BLOCK_CUH
#define DISTWAR_BLOCK_CUH

#include "lanes.cuh"
#include "sink.cuh"

namespace distwar {

__device__ __forceinline__ int block_rank() {
    return int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
__device__ __forceinline__ int block_size() {
    return int(blockDim.x * blockDim.y * blockDim.z);
}

// ---- sum

// K T for each of at most Threads threads.
template <int K, int Threads, typename T = float>
struct block_sum_memory {
    T value[K][Threads];
};

// sum[k] = the sum of value[k] over the threads of the block, in the thread of rank 0; the others are left
// with parts of it. The block has at most Threads threads. A binary tree, so the order of additions depends
// on nothing but the size of the block. Cost: 1 + ceil(log2(size)) barriers, for all K values together.
template <int K, int Threads, typename T>
__device__ __forceinline__ void block_sum(const T (&value)[K], block_sum_memory<K, Threads, T> &memory,
                                          T (&sum)[K]) {
    const int rank = block_rank();
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) memory.value[k][rank] = sum[k] = value[k];
    __syncthreads();
    for (int size = block_size(); size > 1; size = (size + 1) / 2) {
        const int half = (size + 1) / 2;
        if (rank < size - half) {
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k)
                memory.value[k][rank] = sum[k] = sum[k] + memory.value[k][rank + half];
        }
        __syncthreads();
    }
}

// The same of values clamped to [-limit, limit] one by one, limit >= 0; NaN stays NaN.
template <int K, int Threads, typename T>
__device__ __forceinline__ void block_sum(const T (&value)[K], block_sum_memory<K, Threads, T> &memory,
                                          T (&sum)[K], T limit) {
    T clamped[K];
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) clamped[k] = value[k] < -limit ? -limit : limit < value[k] ? limit : value[k];
    block_sum(clamped, memory, sum);
}

// ---- gather

// N slots of K sums, for blocks whose threads add to few addresses again and again. All N are in use from
// clear() on; flush() commits and clears them. In between, threads add in any way that suits: through sink(),
// with the slot as the key of any reduce_* or of add(), by which a single thread adds.
//
//     __shared__ distwar::accumulator<9, 64> sums;
//     sums.clear();
//     ... distwar::reduce_tree(lanes, active, slot, val, sums.sink());
//     sums.flush(primitive_of_slot, used_slots, distwar::record<float>{gradient, 12});
template <int K, int N, typename T = float>
struct accumulator {
    T sum[N][K];

    // All sums 0. By all threads of the block. Cost: 1 barrier.
    __device__ __forceinline__ void clear() {
        for (int i = block_rank(); i < N * K; i += block_size()) sum[i / K][i % K] = T(0);
        __syncthreads();
    }

    // Its keys are slots, 0..N - 1.
    __device__ __forceinline__ record<T> sink() { return {&sum[0][0], K}; }

    // Adds slot i, for i < slots <= N, to the key key_of_slot[i] (in shared or global memory) of the sink,
    // and leaves all of these 0. A slot whose sums are all 0 costs nothing. By all threads of the block, with
    // the same arguments. Cost: 2 barriers; one call of `add` for each slot, spread over the threads.
    template <typename Key, typename Sink>
    __device__ __forceinline__ void flush(const Key *key_of_slot, int slots, const Sink &to) {
        __syncthreads();
        for (int i = block_rank(); i < slots; i += block_size()) {
            T total[K];
            bool any = false;
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k) {
                total[k] = sum[i][k];
                any = any || total[k] != T(0);
                sum[i][k] = T(0);
            }
            if (any) to.add(key_of_slot[i], total);
        }
        __syncthreads();
    }
};

// ---- sort

// The pairs to sort, and nothing else.
template <typename Key, typename Value, int Capacity>
struct sort_memory {
    Key key[Capacity];
    Value value[Capacity];
};

enum class sort_order { ascending, descending };

namespace detail {

template <typename Key>
__device__ __forceinline__ bool is_nan(Key) {
    return false;
}
__device__ __forceinline__ bool is_nan(float key) {
    return key != key;
}
__device__ __forceinline__ bool is_nan(double key) {
    return key != key;
}

template <sort_order Order, typename Key>
__device__ __forceinline__ bool comes_before(Key a, Key b) {
    const bool before = Order == sort_order::ascending ? a < b : b < a;
    return before || (is_nan(b) && !is_nan(a));
}

} // namespace detail

// Sorts the first n pairs of `memory` by key, in place; 0 <= n <= Capacity, the same in all threads, and any
// block can sort any n. Key needs <; NaN keys come last in either order, and -0.0 equals 0.0. Not stable: of
// equal keys, which value comes first is not defined, but the same in every run. Fill `memory` before the
// call; the call waits for that, and returns when all is sorted. A bitonic network of comparators that all
// point one way, so that places from n on would hold what comes last, need no comparator and are not there.
// Cost, with p the power of two >= n: 1 + log2(p) (log2(p) + 1) / 2 barriers, and between two of them p / 2
// comparisons spread over the threads.
template <sort_order Order = sort_order::ascending, typename Key, typename Value, int Capacity>
__device__ __forceinline__ void bitonic_sort(sort_memory<Key, Value, Capacity> &memory, int n) {
    int pairs = 1; // p / 2
    while (2 * pairs < n) pairs *= 2;
    __syncthreads();
    if (n < 2) return;
    for (int run = 1; run <= pairs; run *= 2) { // sorted runs of this length become sorted runs of twice it
        for (int distance = run; distance > 0; distance /= 2) {
            for (int i = block_rank(); i < pairs; i += block_size()) {
                const int within = i & (distance - 1), low = 2 * i - within; // distance is a power of two
                // The first comparators of a run mirror its second half: rising, then falling, is bitonic.
                const int high = low + (distance == run ? 2 * (distance - within) - 1 : distance);
                if (high >= n) continue;
                const Key a = memory.key[low], b = memory.key[high];
                if (!detail::comes_before<Order>(b, a)) continue;
                memory.key[low] = b, memory.key[high] = a;
                const Value moved = memory.value[low];
                memory.value[low] = memory.value[high], memory.value[high] = moved;
            }
            __syncthreads();
        }
    }
}

} // namespace distwar

#endif
