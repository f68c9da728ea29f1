// SPDX-License-Identifier: MIT
// Scan and sort by CUB; on the CPU, where a stream has done its work already, by the standard library.
#include "scan_sort.h"

#include <distwar/config.cuh>
#if DISTWAR_PTX
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#else
#include <numeric>
#endif

cudaError_t scan_exclusive_bytes(int64_t n, size_t *bytes) {
    *bytes = 0;
    if (n < 0) return cudaErrorInvalidValue;
#if DISTWAR_PTX
    if (n > 0)
        return cub::DeviceScan::ExclusiveSum(nullptr, *bytes, (const int64_t *)nullptr, (int64_t *)nullptr,
                                             n);
#endif
    return cudaSuccess;
}

cudaError_t scan_exclusive(const int64_t *in, int64_t *out, int64_t n, [[maybe_unused]] void *workspace,
                           [[maybe_unused]] size_t bytes, [[maybe_unused]] cudaStream_t stream) {
    if (n < 0) return cudaErrorInvalidValue;
    if (n == 0) return cudaSuccess;
#if !DISTWAR_PTX
    std::exclusive_scan(in, in + n, out, int64_t{0});
    return cudaSuccess;
#else
    // Without a workspace CUB would only ask for one, and report success.
    if (!workspace) return cudaErrorInvalidValue;
    return cub::DeviceScan::ExclusiveSum(workspace, bytes, in, out, n, stream);
#endif
}

cudaError_t sort_pairs_bytes(int64_t n, size_t *bytes) {
    *bytes = 0;
    if (n < 0) return cudaErrorInvalidValue;
#if DISTWAR_PTX
    cub::DoubleBuffer<uint32_t> none;
    if (n > 0) return cub::DeviceRadixSort::SortPairs(nullptr, *bytes, none, none, n, 0, 32);
#endif
    return cudaSuccess;
}

cudaError_t sort_pairs(const sort_arrays *arrays, int64_t n, int bits, int *selected,
                       [[maybe_unused]] void *workspace, [[maybe_unused]] size_t bytes,
                       [[maybe_unused]] cudaStream_t stream) {
    *selected = 0;
    if (n < 0 || bits < 1 || bits > 32) return cudaErrorInvalidValue;
    if (n == 0) return cudaSuccess;
#if !DISTWAR_PTX
    // Radix sort from the lowest digit up: stable, like CUB's, and it needs no memory but the two buffers.
    const uint32_t used = bits == 32 ? ~0u : (1u << bits) - 1;
    for (int bit = 0; bit < bits; bit += 8, *selected ^= 1) {
        const uint32_t *key = arrays->keys[*selected], *value = arrays->values[*selected];
        uint32_t *to_key = arrays->keys[*selected ^ 1], *to_value = arrays->values[*selected ^ 1];
        int64_t place[256] = {};
        for (int64_t i = 0; i < n; i++) place[(key[i] & used) >> bit & 255]++;
        std::exclusive_scan(place, place + 256, place, int64_t{0});
        for (int64_t i = 0; i < n; i++) {
            const int64_t to = place[(key[i] & used) >> bit & 255]++;
            to_key[to] = key[i], to_value[to] = value[i];
        }
    }
    return cudaSuccess;
#else
    if (!workspace) return cudaErrorInvalidValue;
    cub::DoubleBuffer<uint32_t> keys(arrays->keys[0], arrays->keys[1]);
    cub::DoubleBuffer<uint32_t> values(arrays->values[0], arrays->values[1]);
    const cudaError_t status =
        cub::DeviceRadixSort::SortPairs(workspace, bytes, keys, values, n, 0, bits, stream);
    *selected = keys.selector;
    return status;
#endif
}
