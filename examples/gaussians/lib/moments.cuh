// SPDX-License-Identifier: MIT
// gs_moments as kernels read and write it: as a struct, and as an array of GS_MOMENTS floats where the
// library sums it.
#pragma once

#include "distwar_gs.h"
#include <cuda_runtime.h>
#include <stddef.h>

namespace gs {

// Index of each field of gs_moments in the array.
enum moment {
    MOMENT_COLOR = offsetof(gs_moments, color) / sizeof(float), // and GS_CHANNELS - 1 more
    MOMENT_H = offsetof(gs_moments, h) / sizeof(float),
    MOMENT_H_E0 = offsetof(gs_moments, h_e0) / sizeof(float),
    MOMENT_H_E1 = offsetof(gs_moments, h_e1) / sizeof(float),
    MOMENT_H_E0E0 = offsetof(gs_moments, h_e0e0) / sizeof(float),
    MOMENT_H_E0E1 = offsetof(gs_moments, h_e0e1) / sizeof(float),
    MOMENT_H_E1E1 = offsetof(gs_moments, h_e1e1) / sizeof(float),
    MOMENT_DEPTH = offsetof(gs_moments, depth) / sizeof(float),
    MOMENT_ABS_X = offsetof(gs_moments, abs_x) / sizeof(float),
    MOMENT_ABS_Y = offsetof(gs_moments, abs_y) / sizeof(float)
};
static_assert(MOMENT_H_E1E1 + 1 == GS_MOMENTS, "the fields that are always summed come first");
static_assert(MOMENT_ABS_Y + 1 == GS_MOMENTS_STRIDE, "a gs_moments has no other fields");

__device__ __forceinline__ gs_moments load_moments(const float *moments, int64_t i) {
    return reinterpret_cast<const gs_moments *>(moments)[i];
}

__device__ __forceinline__ bool any_moment(const gs_moments &m) {
    bool any = m.h != 0 || m.h_e0 != 0 || m.h_e1 != 0 || m.h_e0e0 != 0 || m.h_e0e1 != 0 || m.h_e1e1 != 0 ||
               m.depth != 0 || m.abs_x != 0 || m.abs_y != 0;
    for (int c = 0; c < GS_CHANNELS; c++) any = any || m.color[c] != 0;
    return any;
}

} // namespace gs
