// SPDX-License-Identifier: MIT
// The sort of sums_by_key for wide rows, and for tables with more rows than are added.
//
//     distwar::sums_by_key<distwar::key_sort>(sums, stream); // and sums_by_key_bytes<distwar::key_sort>
//
// Includes CUB; under simt it sorts by itself.
#ifndef DISTWAR_DEVICE_SORTED_SUMS_BY_KEY_CUH
#define DISTWAR_DEVICE_SORTED_SUMS_BY_KEY_CUH

#include "sums_by_key.cuh"
#if DISTWAR_PTX
#include <cub/device/device_radix_sort.cuh>
#else
#include <algorithm>
#include <numeric>
#include <vector>
#endif

namespace distwar {

// Sorts pairs by the lowest `bits` bits of the key, ascending; pairs of equal keys keep their order. keys[0] and
// values[0] in, keys[selected] and values[selected] out. Another sort with these members serves as well.
struct key_sort {
    static constexpr bool sorts = true;
    static cudaError_t bytes([[maybe_unused]] int64_t count, size_t *bytes) {
        *bytes = 0;
#if DISTWAR_PTX
        cub::DoubleBuffer<uint32_t> none;
        if (count > 0) return cub::DeviceRadixSort::SortPairs(nullptr, *bytes, none, none, count, 0, 32);
#endif
        return cudaSuccess;
    }
    static cudaError_t pairs(uint32_t *const (&keys)[2], uint32_t *const (&values)[2], int64_t count,
                             int bits, int *selected, [[maybe_unused]] void *workspace,
                             [[maybe_unused]] size_t bytes, [[maybe_unused]] cudaStream_t stream) {
#if DISTWAR_PTX
        cub::DoubleBuffer<uint32_t> key(keys[0], keys[1]), value(values[0], values[1]);
        const cudaError_t error =
            cub::DeviceRadixSort::SortPairs(workspace, bytes, key, value, count, 0, bits, stream);
        *selected = key.selector;
        return error;
#else
        const uint32_t mask = uint32_t((uint64_t{1} << bits) - 1), *const key = keys[0];
        std::vector<int64_t> order(static_cast<size_t>(count));
        std::iota(order.begin(), order.end(), int64_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return (key[a] & mask) < (key[b] & mask); });
        for (int64_t i = 0; i < count; ++i) keys[1][i] = key[order[i]], values[1][i] = values[0][order[i]];
        *selected = 1;
        return cudaSuccess;
#endif
    }
};

} // namespace distwar

#endif
