// SPDX-License-Identifier: MIT
// The four texels of a cubemap around a direction. At an edge they lie on two or three faces, so that the
// lookup has no seams. Formulas: docs/developers/math.md, "Cubemap".
#pragma once

#include "cubemap.h"
#include <cuda_runtime.h>
#include <distwar/warp.cuh>
#include <math.h>

// The first texel of a level.
__device__ inline int cubemap_level_begin(int size, int level) {
    const int s = size >> level;
    return 8 * (size * size - s * s); // the sum of 6 (size >> m)^2 over m < level
}

enum { TEXELS = 4 };

// Texels of a level, numbered from the level's first one; the weights add up to 1. An entry with weight 0 is
// not valid.
struct footprint {
    int texel[TEXELS];
    float weight[TEXELS];
};

// Texel (i, j) of the face that looks along +-axis. If i or j is one outside the face, the texel across the
// edge; if both are, -1: there is no texel across a corner.
__device__ inline int texel_number(int axis, bool positive, int i, int j, int size) {
    const bool i_outside = i < 0 || i >= size, j_outside = j < 0 || j >= size;
    if (i_outside && j_outside) return -1;
    if (i_outside) {
        // The neighbouring face's first axis is this face's second, its second is this face's normal.
        const bool beyond = i >= size;
        axis = (axis + 1) % 3, i = j, j = positive ? size - 1 : 0, positive = beyond;
    } else if (j_outside) {
        const bool beyond = j >= size;
        axis = (axis + 2) % 3, j = i, i = positive ? size - 1 : 0, positive = beyond;
    }
    return ((2 * axis + (positive ? 0 : 1)) * size + j) * size + i;
}

// direction: not 0, of any length. size: texels of a face of the level. All indices are
// known at compile time, so that everything stays in registers.
__device__ inline footprint footprint_of(const float3 &direction, int size) {
    const float3 d = direction;
    const float x = fabsf(d.x), y = fabsf(d.y), z = fabsf(d.z);
    const int axis = x >= y && x >= z ? 0 : y >= z ? 1 : 2;
    const float ahead = axis == 0 ? d.x : axis == 1 ? d.y : d.z, length = fabsf(ahead);
    const float along_i = axis == 0 ? d.y : axis == 1 ? d.z : d.x;
    const float along_j = axis == 0 ? d.z : axis == 1 ? d.x : d.y;
    const float half = 0.5f * float(size);
    // In texels, from the centre of texel 0; at most half a texel outside the face.
    const float u = fmaf(along_i / length, half, half - 0.5f), v = fmaf(along_j / length, half, half - 0.5f);
    const int i = min(max(int(floorf(u)), -1), size - 1), j = min(max(int(floorf(v)), -1), size - 1);
    const float s = u - float(i), t = v - float(j);
    footprint out = {{}, {(1 - s) * (1 - t), s * (1 - t), (1 - s) * t, s * t}};
    float missing = 0;
    DISTWAR_UNROLL
    for (int k = 0; k < TEXELS; ++k) {
        out.texel[k] = texel_number(axis, ahead > 0, i + k % 2, j + k / 2, size);
        if (out.texel[k] < 0) missing = out.weight[k];
    }
    // Three faces meet at a corner; they share the weight of the missing fourth texel.
    DISTWAR_UNROLL
    for (int k = 0; k < TEXELS; ++k) {
        const bool is_there = out.texel[k] >= 0;
        out.weight[k] = is_there ? out.weight[k] + missing / 3 : 0;
        out.texel[k] = is_there ? out.texel[k] : 0;
    }
    return out;
}

// The two levels around a level of detail, and the weight of each.
struct level_pair {
    int level[2];
    float weight[2];
};

__device__ inline level_pair levels_of(float detail, int levels) {
    const int finer = min(int(detail), levels - 1);
    const float coarse = detail - float(finer);
    return {{finer, min(finer + 1, levels - 1)}, {1 - coarse, coarse}};
}
