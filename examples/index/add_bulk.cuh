// SPDX-License-Identifier: MIT
// Adds whole rows of floats by bulk reductions: a warp copies rows to shared memory, and one instruction adds a row to
// global memory.
#pragma once

#include "request.cuh"

#include <distwar/bulk.cuh>

enum { BULK_WARPS = 4, BULK_FLOATS = 1024 };
struct bulk_memory {
    alignas(128) float of[BULK_WARPS][2][BULK_FLOATS];
};

__device__ __forceinline__ void bulk_fence() {
#if !defined(__SIMT__)
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncwarp();
}
template <int Left>
__device__ __forceinline__ void bulk_wait_until() {
#if !defined(__SIMT__)
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Left) : "memory");
#endif
    __syncwarp();
}

template <int Unused>
__global__ void __launch_bounds__(32 * BULK_WARPS)
    add_in_bulk(row_request in, float *out, int rows_together) {
    __shared__ bulk_memory memory;
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, width = 4 * in.vectors;
    const int64_t step = int64_t(gridDim.x) * BULK_WARPS * rows_together;
    int half = 0;
    for (int64_t first = (int64_t(blockIdx.x) * BULK_WARPS + warp) * rows_together; first < in.count;
         first += step, half ^= 1) {
        const int here = in.count - first < rows_together ? int(in.count - first) : rows_together;
        float *const rows = memory.of[warp][half];
        int64_t row[2];
        DISTWAR_UNROLL
        for (int r = 0; r < 2; ++r) row[r] = lane + 32 * r < here ? index_at(in, first + lane + 32 * r) : 0;
        uint4 vector[8];
        DISTWAR_UNROLL
        for (int j = 0; j < 8; ++j)
            if (j * 32 + lane < here * in.vectors)
                vector[j] =
                    __ldcs(static_cast<const uint4 *>(in.source) + first * in.vectors + j * 32 + lane);
        bulk_wait_until<1>();
        DISTWAR_UNROLL
        for (int j = 0; j < 8; ++j)
            if (j * 32 + lane < here * in.vectors) reinterpret_cast<uint4 *>(rows)[j * 32 + lane] = vector[j];
        bulk_fence();
#if defined(DISTWAR_BULK_REDUCTION)
        DISTWAR_UNROLL
        for (int r = 0; r < 2; ++r)
            if (lane + 32 * r < here && (row[r] = row_of(in, row[r])) >= 0)
                distwar::detail::bulk_add(out + row[r] * width, rows + (lane + 32 * r) * width,
                                          unsigned(width) * 4);
#endif
#if !defined(__SIMT__)
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
    }
    bulk_wait_until<0>();
}
