// SPDX-License-Identifier: MIT
// What splits of Gaussians on one GPU and on several share (split.cu, share_split.cu).
#pragma once

#include "gpu/block_layout.h"
#include "density.cuh"
#include "distwar_gs_split.h"
#include "gpu/scan_sort.h"
#include <float.h>

namespace gs {

constexpr uint32_t not_drawn = UINT32_MAX; // key of Gaussians that cannot be drawn: sorts last

// Weighted sampling without replacement: the n least of the exponential variates -log(u) / weight are drawn
// (Efraimidis and Spirakis 2006). Positive floats order as their bits do. place: of the Gaussian among all.
__device__ inline uint32_t split_key(float weight, uint64_t seed, uint64_t iteration, int64_t place) {
    random_stream random = random_at(seed, RANDOM_DRAW, iteration, uint64_t(place));
    const float u = (float(random_bits(&random) >> 40) + 0.5f) * 0x1p-24f; // never 0 or 1
    const float key = -logf(u) / weight;
    return weight > 0 && weight <= FLT_MAX && key <= FLT_MAX ? __float_as_uint(key) : not_drawn;
}

// What Gaussian i is drawn by, which lives.
__device__ inline float weight_of(const gs_split_rules &rules, int64_t i, float opacity) {
    return rules.density ? rules.density[(rules.row > 0 ? rules.row : 2) * i] : opacity;
}

// Opacity and scales of one of two that stay together.
__device__ inline float place_together(const gs_gaussians &g, int64_t i) {
    float opacity, factor;
    share(sigmoid(g.opacity_logit[i]), 2, &opacity, &factor);
    for (int k = 0; k < 3; k++) g.log_scale[3 * i + k] += logf(factor);
    return opacity;
}

// Place, longest axis and opacity of the half on the negative side of that axis, or of the other.
__device__ inline float place_apart(const gs_gaussians &g, int64_t i, bool other_side) {
    const float *scale = g.log_scale + 3 * i;
    const int axis = longest_axis(scale);
    const float inv_sqrt2 = 0.70710678f, log_sqrt2 = 0.34657359f, inv_e = 0.36787944f;
    const float reach = inv_sqrt2 * expf(scale[axis]), along = other_side ? reach : -reach;
    float rotation[3][3];
    rotation_of(g, i, rotation);
    // 4 p - p^2 / e = 2 sqrt 2 o
    const float twice = 2.8284271f * sigmoid(g.opacity_logit[i]);
    const float half = twice / (2 + sqrtf(4 - inv_e * twice));
    for (int k = 0; k < 3; k++) g.mean[3 * i + k] += along * rotation[k][axis];
    g.log_scale[3 * i + axis] -= log_sqrt2;
    return half;
}

// Makes one of the two of a Gaussian.
__device__ inline void place_half(const gs_gaussians &g, int64_t i, bool other_side,
                                  const gs_split_rules &rules) {
    const float half = rules.together ? place_together(g, i) : place_apart(g, i, other_side);
    const float opacity = fmaxf(half, nextafterf(rules.least_opacity, 1)); // a split kills no Gaussian
    g.opacity_logit[i] = logf(opacity) - log1pf(-opacity);
}

// The arrays of a draw, in a workspace.
struct split_draw {
    int64_t *free_rows; // then their prefix sums
    sort_arrays order;  // values: rows
    void *scratch;
    size_t scratch_bytes;
};

inline gs_status place_draw(block_layout *layout, int64_t count, split_draw *out) {
    size_t scan = 0, sort = 0;
    GS_CUDA(scan_exclusive_bytes(count + 1, &scan));
    GS_CUDA(sort_pairs_bytes(count, &sort));
    layout_add(layout, size_t(count) + 1, &out->free_rows);
    for (int i = 0; i < 2; i++) {
        layout_add(layout, size_t(count), &out->order.keys[i]);
        layout_add(layout, size_t(count), &out->order.values[i]);
    }
    out->scratch_bytes = scan > sort ? scan : sort;
    out->scratch = layout_add(layout, out->scratch_bytes);
    return GS_OK;
}

} // namespace gs
