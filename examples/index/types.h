// SPDX-License-Identifier: MIT
// Internal to this library.
#pragma once

#include "distwar_index.h"

#include <cuda_runtime.h>

struct ix_calls {
    const char *(*fault)(const ix_rows &rows, bool arrays); // key_sums_fault
    cudaError_t (*bytes)(const ix_rows &rows, size_t *bytes);
    cudaError_t (*add)(const ix_rows &rows, cudaStream_t stream);
};
const ix_calls *ix_float32(const ix_rows &rows);
const ix_calls *ix_float16(const ix_rows &rows);
const ix_calls *ix_bfloat16(const ix_rows &rows);
const ix_calls *ix_float64(const ix_rows &rows);
cudaError_t ix_reduce_rows(const ix_rows &rows, ix_operation operation, cudaStream_t stream);
cudaError_t ix_count(const ix_keys &keys, cudaStream_t stream);
