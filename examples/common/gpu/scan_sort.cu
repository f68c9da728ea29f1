// SPDX-License-Identifier: MIT
// Scan and sort by CUB.
#include "scan_sort.h"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

cudaError_t scan_exclusive_bytes(int64_t n, size_t *bytes) {
    *bytes = 0;
    if (n < 0) return cudaErrorInvalidValue;
    if (n == 0) return cudaSuccess;
    return cub::DeviceScan::ExclusiveSum(nullptr, *bytes, (const int64_t *)nullptr, (int64_t *)nullptr, n);
}

cudaError_t scan_exclusive(const int64_t *in, int64_t *out, int64_t n, void *workspace, size_t bytes,
                           cudaStream_t stream) {
    if (n == 0) return cudaSuccess;
    // Without a workspace CUB would only ask for one, and report success.
    if (n < 0 || !workspace) return cudaErrorInvalidValue;
    return cub::DeviceScan::ExclusiveSum(workspace, bytes, in, out, n, stream);
}

cudaError_t sort_pairs_bytes(int64_t n, size_t *bytes) {
    *bytes = 0;
    if (n < 0) return cudaErrorInvalidValue;
    if (n == 0) return cudaSuccess;
    cub::DoubleBuffer<uint32_t> keys;
    cub::DoubleBuffer<uint32_t> values;
    return cub::DeviceRadixSort::SortPairs(nullptr, *bytes, keys, values, n, 0, 32);
}

cudaError_t sort_pairs(const sort_arrays *arrays, int64_t n, int bits, int *selected, void *workspace,
                       size_t bytes, cudaStream_t stream) {
    *selected = 0;
    if (n < 0 || bits < 1 || bits > 32) return cudaErrorInvalidValue;
    if (n == 0) return cudaSuccess;
    if (!workspace) return cudaErrorInvalidValue;
    cub::DoubleBuffer<uint32_t> keys(arrays->keys[0], arrays->keys[1]);
    cub::DoubleBuffer<uint32_t> values(arrays->values[0], arrays->values[1]);
    const cudaError_t status =
        cub::DeviceRadixSort::SortPairs(workspace, bytes, keys, values, n, 0, bits, stream);
    *selected = keys.selector;
    return status;
}
