// SPDX-License-Identifier: MIT
// histogram: counts[key[i]] += 1 for any number of bins, as one call from the host.
//
// Example (device memory: key = {3, 1, 3, 3}, four zeros in counts):
//     const distwar::key_counts<int> given = {4, 4, key, counts, nullptr}; // 4 keys, 4 bins, no report
//     const cudaError_t error = distwar::histogram(given, stream);
//     // counts: 0, 1, 0, 3
//
// Bins that fit into shared memory, or into it several times, are counted there: blocks share out ranges of bins and
// parts of the keys. More bins are counted in memory, the keys that come most often in hot_slots.cuh. Sums of weights:
// sums_by_key with width 1. Up to 256 bins and for samples that are not bin numbers cub::DeviceHistogram is the call to use.
#ifndef DISTWAR_DEVICE_HISTOGRAM_CUH
#define DISTWAR_DEVICE_HISTOGRAM_CUH

#include "../hot_slots.cuh"
#include "launch.cuh"
#include <limits.h>
#include <stdint.h>

namespace distwar {

// Key: an integer of 4 or 8 bytes. Count: an integer of 4 or 8 bytes.
template <typename Key = int, typename Count = unsigned>
struct key_counts {
    int64_t count = 0, bins = 0; // keys; fewer than 2^31 bins
    const Key *key = nullptr;    // [count], each 0..bins - 1
    Count *counts = nullptr;     // [bins]
    // One word, device memory or pinned host memory, or nullptr: becomes 1 if a key out of range was left out.
    uint32_t *report = nullptr;
};

namespace detail {

enum { COUNT_BLOCK = 1024, HOT_COUNT_BLOCK = 256, HOT_COUNTS = 1024, MOST_RANGES = 8 };

// Calls each(key) for the keys of one of `parts` parts, 16 bytes at a time.
template <typename Key, typename Each>
DISTWAR_DEVICE void over_keys(const Key *key, int64_t count, int part, int parts, const Each &each) {
    constexpr int each_load = 16 / int(sizeof(Key)), together = 4; // loads on their way
    struct alignas(16) keys {
        Key of[each_load];
    };
    const int64_t unaligned = int64_t(-reinterpret_cast<uintptr_t>(key) % 16 / sizeof(Key));
    const int64_t head = unaligned < count ? unaligned : count, vectors = (count - head) / each_load;
    const keys *const vector = reinterpret_cast<const keys *>(key + head);
    const int64_t step = int64_t(parts) * blockDim.x;
    const int64_t first = int64_t(part) * blockDim.x + threadIdx.x;
    for (int64_t at = first; at < vectors; at += together * step) {
        keys loaded[together];
        DISTWAR_UNROLL
        for (int j = 0; j < together; ++j)
            if (at + j * step < vectors) loaded[j] = vector[at + j * step];
        DISTWAR_UNROLL
        for (int j = 0; j < together; ++j)
            if (at + j * step < vectors) {
                DISTWAR_UNROLL
                for (int k = 0; k < each_load; ++k) each(loaded[j].of[k]);
            }
    }
    for (int64_t i = first; i < head; i += step) each(key[i]);
    for (int64_t i = head + vectors * each_load + first; i < count; i += step) each(key[i]);
}

// Adds what a block has seen of a bin, in 32 bits, to a counter.
template <typename Count>
struct counts_sink {
    Count *counts;
    __device__ void add_one(int bin, int, unsigned n) const { distwar::atomic_add(counts + bin, Count(n)); }
};

// Block b counts the bins of range b % ranges, in part b / ranges of the keys.
template <typename Key, typename Count>
__global__ void __launch_bounds__(COUNT_BLOCK)
    count_in_ranges(key_counts<Key, Count> in, int range, int ranges) {
    DISTWAR_DYNAMIC_SHARED(unsigned, seen);
    const int64_t begin = int64_t(int(blockIdx.x) % ranges) * range;
    const int size = int(in.bins - begin < range ? in.bins - begin : range);
    for (int i = int(threadIdx.x); i < size; i += COUNT_BLOCK) seen[i] = 0;
    __syncthreads();
    using word = bits_of<Key>;
    detail::over_keys(in.key, in.count, int(blockIdx.x) / ranges, int(gridDim.x) / ranges, [&](Key key) {
        const word bin = word(key) - word(begin);
        if (bin < word(size))
            atomicAdd_block(&seen[bin], 1u);
        else if (in.report && word(key) >= word(in.bins))
            *in.report = 1;
    });
    __syncthreads();
    for (int i = int(threadIdx.x); i < size; i += COUNT_BLOCK)
        if (seen[i] != 0) distwar::atomic_add(in.counts + begin + i, Count(seen[i]));
}

template <typename Key, typename Count>
__global__ void __launch_bounds__(HOT_COUNT_BLOCK) count_in_memory(key_counts<Key, Count> in) {
    __shared__ hot_slots<HOT_COUNTS, 1, unsigned> hot;
    const counts_sink<Count> memory = {in.counts};
    hot.clear();
    const auto sink = hot.sink(memory);
    using word = bits_of<Key>;
    detail::over_keys(in.key, in.count, int(blockIdx.x), int(gridDim.x), [&](Key key) {
        if (word(key) < word(in.bins))
            sink.add_one(int(key), 0, 1u);
        else if (in.report)
            *in.report = 1;
    });
    hot.flush(memory);
}

} // namespace detail

// counts[key[i]] += 1 for i < count, in the arithmetic of Count. The host calls, from any thread. Work is queued on `stream`;
// nothing is allocated; it can be captured in a graph. Arrays lie in device memory, aligned to their types.
// Undefined: arrays that overlap; keys that change meanwhile; 2^32 keys or more of one bin in one call.
// Errors: cudaErrorInvalidValue for a negative number, 2^31 bins or more, a missing array; those of a launch.
// Cost: 1 launch. Keys are read once for each range of bins: 56,000 bins on compute capability 9.0 (a fourth of the
// bytes of its shared memory), at most 8 ranges. With more bins, or fewer keys than pay for the flush of the ranges,
// they are read once, with an atomic for each key that is not hot.
template <typename Key, typename Count>
cudaError_t histogram(const key_counts<Key, Count> &given, cudaStream_t stream) {
    static_assert(detail::is_integer<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    static_assert(detail::is_integer<Count>, "distwar: a counter is an integer of 4 or 8 bytes");
    if (given.count < 0 || given.bins < 0 || given.bins > INT_MAX) return cudaErrorInvalidValue;
    if (given.count == 0) return cudaSuccess;
    if (!given.key || (!given.counts && given.bins > 0)) return cudaErrorInvalidValue;
    int multiprocessors;
    int most_bytes = 48 * 1024; // of shared memory that a block may have, and a multiprocessor for two
    cudaError_t error = detail::read_attribute(cudaDevAttrMultiProcessorCount, &multiprocessors);
#if DISTWAR_PTX
    if (error == cudaSuccess)
        error = detail::read_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most_bytes);
#endif
    if (error != cudaSuccess) return error;
    const int64_t most = most_bytes / 4, ranges = given.bins < 1 ? 1 : (given.bins + most - 1) / most;
    const int64_t range = (given.bins + ranges - 1) / ranges;
    // A block reads enough keys that its flush, an atomic for each 8 bins, is the lesser part.
    const int64_t least = range / 4 > 4096 ? range / 4 : 4096, parts = (given.count + least - 1) / least;
    const int64_t resident = int64_t(multiprocessors) * (range * 16 <= most_bytes * int64_t{2} ? 2 : 1);
    const int64_t most_parts = resident / ranges < 1 ? 1 : resident / ranges;
    if (ranges > detail::MOST_RANGES || parts < most_parts / 8) {
        const int64_t threads = (given.count + 15) / 16, all = int64_t(multiprocessors) * 8;
        const int64_t blocks = (threads + detail::HOT_COUNT_BLOCK - 1) / detail::HOT_COUNT_BLOCK;
        return detail::launch_kernel(stream, unsigned(blocks < all ? blocks : all), detail::HOT_COUNT_BLOCK,
                                     0, detail::count_in_memory<Key, Count>, given);
    }
    const auto kernel = detail::count_in_ranges<Key, Count>;
    const size_t bytes = size_t(range) * 4;
    if (bytes > 48 * 1024)
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
    if (error != cudaSuccess) return error;
    return detail::launch_kernel(stream, unsigned((parts < most_parts ? parts : most_parts) * ranges),
                                 detail::COUNT_BLOCK, bytes, kernel, given, int(range), int(ranges));
}

} // namespace distwar

#endif
