// SPDX-License-Identifier: MIT
// Scan and sort on the CPU, where device memory is host memory and a stream has done its work already.
#include "scan_sort.h"

#include <numeric>

cudaError_t scan_exclusive_bytes(int64_t n, size_t *bytes) {
    *bytes = 0;
    return n < 0 ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t scan_exclusive(const int64_t *in, int64_t *out, int64_t n, void *, size_t, cudaStream_t) {
    if (n < 0) return cudaErrorInvalidValue;
    std::exclusive_scan(in, in + n, out, int64_t{0});
    return cudaSuccess;
}

cudaError_t sort_pairs_bytes(int64_t n, size_t *bytes) {
    *bytes = 0;
    return n < 0 ? cudaErrorInvalidValue : cudaSuccess;
}

// Radix sort from the lowest digit up: stable, like CUB's, and it needs no memory but the two buffers.
cudaError_t sort_pairs(const sort_arrays *arrays, int64_t n, int bits, int *selected, void *, size_t,
                       cudaStream_t) {
    *selected = 0;
    if (n < 0 || bits < 1 || bits > 32) return cudaErrorInvalidValue;
    const uint32_t used = bits == 32 ? ~0u : (1u << bits) - 1;
    for (int bit = 0; bit < bits; bit += 8) {
        const uint32_t *key = arrays->keys[*selected];
        const uint32_t *value = arrays->values[*selected];
        int64_t place[256] = {};
        for (int64_t i = 0; i < n; i++) place[(key[i] & used) >> bit & 255]++;
        std::exclusive_scan(place, place + 256, place, int64_t{0});
        *selected ^= 1;
        for (int64_t i = 0; i < n; i++) {
            const int64_t to = place[(key[i] & used) >> bit & 255]++;
            arrays->keys[*selected][to] = key[i];
            arrays->values[*selected][to] = value[i];
        }
    }
    return cudaSuccess;
}
