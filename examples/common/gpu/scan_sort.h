// SPDX-License-Identifier: MIT
// Scan and sort of device arrays. GPU and CPU give the same result, bit for bit. Counts are 64-bit, 0 is no work; 2^31 items
// and more are fine.
//
// The workspace is device memory of at least the bytes asked for beforehand (which may be 0), aligned to 16
// bytes; its contents do not matter before or after. Pointers may be NULL only if n is 0. Work is queued on
// `stream`; nothing is allocated. Returns cudaErrorInvalidValue for a bad argument or a workspace that is too
// small.
#pragma once

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

// Enough for any scan of at most n items.
cudaError_t scan_exclusive_bytes(int64_t n, size_t *bytes);

// out[i] = in[0] + ... + in[i - 1], out[0] = 0. For the total as well, scan n + 1 items of which the last is
// 0. out may be in. Cost: two memory passes.
cudaError_t scan_exclusive(const int64_t *in, int64_t *out, int64_t n, void *workspace, size_t bytes,
                           cudaStream_t stream);

// Enough for any sort of at most n items.
cudaError_t sort_pairs_bytes(int64_t n, size_t *bytes);

// Two buffers of n items each.
typedef struct sort_arrays {
    uint32_t *keys[2];
    uint32_t *values[2];
} sort_arrays;

// Sorts keys[0][n] with values[0][n] by the lowest `bits` bits of the key, 1..32, ascending; pairs of equal
// keys keep their order. The result stands in keys[*selected], values[*selected], *selected known on return;
// the other two buffers are scratch. Cost: ceil(bits / 8) passes over keys and values.
cudaError_t sort_pairs(const sort_arrays *arrays, int64_t n, int bits, int *selected, void *workspace,
                       size_t bytes, cudaStream_t stream);
