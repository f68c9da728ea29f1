// SPDX-License-Identifier: MIT
// Shared by all density controls (densify.cu, relocate.cu, split.cu).
#pragma once

#include "arrays.h"
#include "check.h"
#include "gpu/block_layout.h"
#include "gpu/scan_sort.h"
#include "project/project.cuh"
#include "random.h"

namespace gs {

constexpr int density_block = 256;

// Purposes of libdistwar_gs's random numbers: the second argument of random_at. Disjoint from those of its callers,
// who may use the same seed.
enum density_purpose : uint64_t {
    RANDOM_SPLIT = 1u << 16,
    RANDOM_RELOCATION,
    RANDOM_NOISE,
    RANDOM_DRAW,
    RANDOM_DROPOUT
};

__device__ inline float largest_scale(const gs_gaussians &gaussians, int64_t i) {
    const float *s = gaussians.log_scale + 3 * i;
    return expf(fmaxf(fmaxf(s[0], s[1]), s[2]));
}

// Three independent standard normal numbers (Box-Muller).
__device__ inline void draw_normal(random_stream random, float out[3]) {
    float both[4];
    for (int k = 0; k < 4; k += 2) {
        const uint64_t bits = random_bits(&random); // two numbers of 24 bits; u is never 0
        const float u = (float(bits >> 40) + 0.5f) * 0x1p-24f, v = float(bits >> 8 & 0xffffff) * 0x1p-24f;
        const float radius = sqrtf(-2 * logf(u));
        both[k] = radius * cosf(6.2831853f * v);
        both[k + 1] = radius * sinf(6.2831853f * v);
    }
    for (int k = 0; k < 3; k++) out[k] = both[k];
}

// Gaussians of rows below `existing` whose opacity is above least_opacity live.
inline gs_status check_living(const char *function, int64_t count, int64_t existing, float least_opacity) {
    GS_REQUIRE_OF(function, existing >= 0 && existing <= count, "existing must be in 0..count");
    GS_REQUIRE_OF(function, least_opacity >= 0 && least_opacity < 1,
                  "least_opacity must be in 0..1, exclusive of 1");
    return GS_OK;
}

// The opacity of a Gaussian that lives; 0 of others.
__device__ inline float living_opacity(const gs_gaussians &gaussians, int64_t i, int64_t existing,
                                       float least) {
    if (i >= existing) return 0;
    const float opacity = sigmoid(gaussians.opacity_logit[i]);
    return opacity > least ? opacity : 0;
}

// The rotation of Gaussian i; NaN if its quaternion is 0.
__device__ inline void rotation_of(const gs_gaussians &gaussians, int64_t i, float out[3][3]) {
    const float *g = gaussians.quaternion + 4 * i;
    const float length = sqrtf(g[0] * g[0] + g[1] * g[1] + g[2] * g[2] + g[3] * g[3]);
    const float unit[4] = {g[0] / length, g[1] / length, g[2] / length, g[3] / length};
    rotation_matrix(unit, out);
}

// Sets row i of a moment of Adam to 0.
__device__ inline void clear_moment(const gs_arrays &moment, int64_t i) {
#pragma unroll 1
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int k = 0; k < moment.width[a]; k++) moment.of[a][i * moment.width[a] + k] = 0;
}

// Row i of the parameters becomes a Gaussian that is never seen.
__device__ inline void make_dead(const gs_arrays &parameters, int64_t i) {
    const float first[GS_ARRAYS] = {0, 0, 1, -20, 0}; // the first value of each array; others are 0
#pragma unroll 1
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int k = 0; k < parameters.width[a]; k++)
            parameters.of[a][i * parameters.width[a] + k] = k == 0 ? first[a] : 0;
}

__device__ inline void copy_row(const gs_arrays &parameters, int64_t from, int64_t to) {
#pragma unroll 1
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int k = 0; k < parameters.width[a]; k++)
            parameters.of[a][to * parameters.width[a] + k] = parameters.of[a][from * parameters.width[a] + k];
}

// The arrays that count rows and sort them, in a workspace.
struct sorted_rows {
    int64_t *before;   // of each row and of the end: a count, then the sum of those before
    sort_arrays order; // values: rows
    void *scratch;
    size_t scratch_bytes;
};

inline gs_status place_sorted_rows(block_layout *layout, int64_t count, sorted_rows *out) {
    size_t scan = 0, sort = 0;
    GS_CUDA(scan_exclusive_bytes(count + 1, &scan));
    GS_CUDA(sort_pairs_bytes(count, &sort));
    layout_add(layout, size_t(count) + 1, &out->before);
    for (int i = 0; i < 2; i++) {
        layout_add(layout, size_t(count), &out->order.keys[i]);
        layout_add(layout, size_t(count), &out->order.values[i]);
    }
    out->scratch_bytes = scan > sort ? scan : sort;
    out->scratch = layout_add(layout, out->scratch_bytes);
    return GS_OK;
}

} // namespace gs
