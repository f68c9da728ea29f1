// SPDX-License-Identifier: MIT
// Flushes of an accumulator by bulk reduction: cp.reduce.async.bulk adds a slot, or many slots with
// consecutive keys, by one instruction. From compute capability 9.0 and CUDA 12.0 on; elsewhere the same
// calls do the plain flush.
//
//     __shared__ distwar::accumulator<9, 64, float, 12> sums; // 9 sums in slots of 12 floats
//     sums.clear();
//     ... distwar::reduce_tree(lanes, active, slot, val, sums.sink());
//     distwar::bulk_flush(sums, primitive_of_slot, used_slots, distwar::record<float>{gradient, 12});
//
// Where it wins: medians on an H200, as parts of the time of vector atomics (benchmarks/library/flush.cu;
// docs/benchmarks/library.md has all figures)
//     slots of 16 bytes                  1.2 to 1.6: bulk_flush takes vector atomics
//     slots of 48 bytes, up to 512       0.8 to 0.9
//     slots of 48 bytes, 4,096           1.3: bulk_flush takes vector atomics
//     slots of 64 and 128 bytes          0.65 to 0.8
//     consecutive keys, any slots        0.46 to 0.86; at most 1.5, for 64 slots of 16 bytes in many blocks
#ifndef DISTWAR_BULK_CUH
#define DISTWAR_BULK_CUH

#include "push_macros.h"

#include "block.cuh"

// The instruction is of PTX ISA 8.0, CUDA 12.0, which clang writes from version 17 on. simt has a twin.
#if defined(__SIMT__)
#define DISTWAR_BULK_REDUCTION
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && DISTWAR_CUDA_VERSION >= 12000 &&                     \
    !(defined(__clang__) && defined(__CUDA__) && __clang_major__ < 17)
#define DISTWAR_BULK_REDUCTION
#endif

namespace distwar {

// What a bulk flush waits for before it returns.
//   source   until shared memory is free. The sums are in global memory when the kernel ends
//   complete also until the sums are added: after the call, threads of the block can publish them to other
//            blocks, as after atomicAdd (__threadfence, then a flag or a counter)
enum class bulk_wait { source, complete };

namespace detail {

// The type of the addition: PTX has f32, f64, s32, u32 and u64. s64 is u64, because sums wrap.
template <typename T>
inline constexpr bool is_bulk_value =
    is_same<T, float> || is_same<T, double> || is_same<T, int> || is_same<T, unsigned> ||
    is_same<T, long long> || is_same<T, unsigned long long>;

#if defined(__SIMT__)
// As on a GPU, but done at once; traps where the GPU stops the kernel.
template <typename T>
void bulk_add(T *to, const T *from, unsigned bytes) {
    if ((reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from) | bytes) % 16 != 0) __trap();
    for (unsigned i = 0; i < bytes / sizeof(T); ++i) distwar::atomic_add(to + i, from[i]);
}
template <bulk_wait>
void bulk_finish() {}
inline void bulk_barrier() {
    __syncthreads();
}
#elif defined(DISTWAR_BULK_REDUCTION)
// Starts to add `bytes` bytes of T from shared to global memory. Both addresses and `bytes` are multiples of
// 16. The caller commits and waits.
template <typename T>
__device__ __forceinline__ void bulk_add(T *to, const T *from, unsigned bytes) {
    const size_t global = __cvta_generic_to_global(to);
    const unsigned shared = unsigned(__cvta_generic_to_shared(from));
#define DISTWAR_BULK_ADD(type)                                                                               \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add." type " [%0], [%1], %2;"           \
                 :                                                                                           \
                 : "l"(global), "r"(shared), "r"(bytes)                                                      \
                 : "memory")
    if constexpr (is_same<T, float>)
        DISTWAR_BULK_ADD("f32");
    else if constexpr (is_same<T, double>)
        DISTWAR_BULK_ADD("f64");
    else if constexpr (is_same<T, int>)
        DISTWAR_BULK_ADD("s32");
    else if constexpr (is_same<T, unsigned>)
        DISTWAR_BULK_ADD("u32");
    else
        DISTWAR_BULK_ADD("u64");
#undef DISTWAR_BULK_ADD
}

// Waits for the bulk reductions that this thread has started.
template <bulk_wait Wait>
__device__ __forceinline__ void bulk_finish() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if constexpr (Wait == bulk_wait::source)
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    else
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// A barrier after which bulk reductions may read what the threads of the block wrote to shared memory. Each
// thread orders its own writes before those of the asynchronous proxy, so the fence comes before the barrier.
__device__ __forceinline__ void bulk_barrier() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}
#endif

template <scope S, int K, int N, typename T, int Stride>
__device__ __forceinline__ void check_bulk(const accumulator<K, N, T, Stride> &) {
    static_assert(S != scope::system, "distwar: a bulk flush adds at device scope, not at system scope");
    static_assert(is_bulk_value<T>, "distwar: a bulk flush takes float, double or integers of 4 or 8 bytes");
    static_assert(Stride * sizeof(T) % 16 == 0,
                  "distwar: a bulk flush needs slots that are a multiple of 16 bytes long");
}

// Whether a flush of N slots is faster by a bulk reduction for each slot than by the atomics that replace it,
// for T = float vector atomics. Measured: 16, 48, 64 and 128 bytes per slot; 64, 512 and 4,096 slots.
template <int N, typename T, int Stride>
inline constexpr bool is_faster_in_bulk =
    !is_same<T, float> || Stride * sizeof(T) >= 64 || (Stride * sizeof(T) >= 48 && N <= 512);

// bulk_flush, whether it is faster or not.
template <bulk_wait Wait, int K, int N, typename T, int Stride, typename Key, scope S>
__device__ __forceinline__ void bulk_flush_slots(accumulator<K, N, T, Stride> &sums, const Key *key_of_slot,
                                                 int slots, const record<T, add, S> &to) {
#if defined(DISTWAR_BULK_REDUCTION)
    detail::bulk_barrier();
    for (int i = block_rank(); i < slots; i += block_size()) {
        bool any = false;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) any = any || sums.sum[i][k] != T(0);
        if (any)
            detail::bulk_add(to.base + size_t(key_of_slot[i]) * to.stride, sums.sum[i], Stride * sizeof(T));
    }
    detail::bulk_finish<Wait>();
    for (int i = block_rank(); i < slots; i += block_size()) {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) sums.sum[i][k] = T(0);
    }
    __syncthreads();
#else
    sums.flush(key_of_slot, slots, to);
#endif
}

} // namespace detail

// Adds the sums of slot i to record key_of_slot[i] of `to`, for i < slots, and sets them to 0. As
// sums.flush(key_of_slot, slots, to), with these differences:
//   sums        in slots of a multiple of 16 bytes (Stride of accumulator)
//   to          in global memory, base aligned to 16 bytes, stride a multiple of 16 bytes and at least
//               Stride. Values K..Stride - 1 of a record are reserved: 0 is added to them. Its scope is
//               device or block
//   Wait        see bulk_wait
// Who calls: all threads of the block, with the same arguments.
// Result: each value is added by a relaxed atomic of device scope; the record as a whole is not atomic. A
// float that is subnormal may become 0. When the sums are visible: see bulk_wait.
// Undefined: records in shared memory, or not aligned. The GPU stops the kernel at those that are not
// aligned.
// Cost: 2 barriers, and one bulk reduction of Stride values for each slot with a sum other than 0, spread
// over the threads. Floats in slots of less than 48 bytes, or of 48 bytes in more than 512 slots: vector
// atomics of 4 floats (aligned_record), which are faster there. Source: PTX ISA 8.0, cp.reduce.async.bulk.
// Example (one warp, `lane` its lane, arrays of zeros):
//     __shared__ distwar::accumulator<4, 2> slots;
//     __shared__ int key_of_slot[2];
//     slots.clear();
//     if (lane < 2) key_of_slot[lane] = 1 - lane;
//     const auto list = distwar::values(float3{1, 2, 3}, 4.0f);
//     distwar::reduce(distwar::all_lanes, lane < 24, lane / 16, list, distwar::in_shared(slots.sink()));
//     distwar::bulk_flush(slots, key_of_slot, 2, distwar::record<float>{sums, 4});
//     // sums: 8, 16, 24, 32, 16, 32, 48, 64
template <bulk_wait Wait = bulk_wait::source, int K, int N, typename T, int Stride, typename Key, scope S>
__device__ __forceinline__ void bulk_flush(accumulator<K, N, T, Stride> &sums, const Key *key_of_slot,
                                           int slots, const record<T, add, S> &to) {
    detail::check_bulk<S>(sums);
    if constexpr (detail::is_faster_in_bulk<N, T, Stride>)
        detail::bulk_flush_slots<Wait>(sums, key_of_slot, slots, to);
    else
        sums.flush(key_of_slot, slots, aligned_record_at<S>{to.base, to.stride});
}

// bulk_flush for slots whose keys are consecutive: adds slot i to record first_key + i. The records have the
// stride of the slots: to.stride == Stride. For histograms and other sums that each block keeps in full.
// Cost: 2 barriers and one bulk reduction for each warp, of slots / warps slots, zeros included.
// Example (one warp, `lane` its lane, arrays of zeros):
//     __shared__ distwar::accumulator<4, 2> bins;
//     bins.clear();
//     const auto list = distwar::values(float3{1, 2, 3}, 4.0f);
//     distwar::reduce(distwar::all_lanes, true, lane / 16, list, distwar::in_shared(bins.sink()));
//     distwar::bulk_flush_consecutive(bins, 1, 2, distwar::record<float>{sums, 4});
//     // sums: 0, 0, 0, 0, 16, 32, 48, 64, 16, 32, 48, 64
template <bulk_wait Wait = bulk_wait::source, int K, int N, typename T, int Stride, typename Key, scope S>
__device__ __forceinline__ void bulk_flush_consecutive(accumulator<K, N, T, Stride> &sums, Key first_key,
                                                       int slots, const record<T, add, S> &to) {
    detail::check_bulk<S>(sums);
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
#if defined(DISTWAR_BULK_REDUCTION)
    detail::bulk_barrier();
    // One lane of each warp starts the reduction of the warp's share. The lanes then clear the share, after
    // that lane has waited.
    const int warps = (block_size() + 31) / 32, share = (slots + warps - 1) / warps;
    const int first = block_rank() / 32 * share, end = first + share < slots ? first + share : slots;
    if (block_rank() % 32 == 0 && first < end)
        detail::bulk_add(to.base + (size_t(first_key) + size_t(first)) * Stride, sums.sum[first],
                         unsigned((end - first) * Stride * sizeof(T)));
    detail::bulk_finish<Wait>();
    __syncthreads();
    for (int i = block_rank(); i < slots * Stride; i += block_size()) sums.sum[i / Stride][i % Stride] = T(0);
    __syncthreads();
#else
    __syncthreads();
    for (int i = block_rank(); i < slots; i += block_size()) {
        T total[K];
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            total[k] = sums.sum[i][k];
            sums.sum[i][k] = T(0);
        }
        to.add(first_key + Key(i), total);
    }
    __syncthreads();
#endif
}

} // namespace distwar

#include "pop_macros.h"

#endif
