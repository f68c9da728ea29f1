// SPDX-License-Identifier: MIT
// What ix_add has decided before it launches kernels. Internal to this library.
#pragma once

#include "distwar_index.h"

#include <cuda_runtime.h>

struct ix_plan {
    ix_way way;
    int vector_bytes;    // of a load and an atomic: 16, 4 or 2
    int multiprocessors; // of the device
    size_t bytes;        // of the workspace
};

// ix_add of arguments that were checked, for a type in memory.
cudaError_t ix_add_float32(const ix_rows &rows, const ix_plan &plan, cudaStream_t stream);
cudaError_t ix_add_float16(const ix_rows &rows, const ix_plan &plan, cudaStream_t stream);
cudaError_t ix_add_bfloat16(const ix_rows &rows, const ix_plan &plan, cudaStream_t stream);

// The bytes of the workspace of a way.
cudaError_t ix_way_bytes(const ix_rows &rows, ix_way way, size_t *bytes);
