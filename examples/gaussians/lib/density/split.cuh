// SPDX-License-Identifier: MIT
// What splits of Gaussians on one GPU (split.cu) and on several have in common.
#pragma once

#include "density.cuh"
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

// Makes a half of a Gaussian: that on the negative side of the longest axis, or the other.
__device__ inline void place_half(const gs_gaussians &g, int64_t i, bool other_side, float least_opacity) {
    const float *scale = g.log_scale + 3 * i;
    const int axis = scale[0] >= scale[1] ? (scale[0] >= scale[2] ? 0 : 2) : (scale[1] >= scale[2] ? 1 : 2);
    const float inv_sqrt2 = 0.70710678f, log_sqrt2 = 0.34657359f, inv_e = 0.36787944f;
    const float reach = inv_sqrt2 * expf(scale[axis]), along = other_side ? reach : -reach;
    float rotation[3][3];
    rotation_of(g, i, rotation);
    // 4 p - p^2 / e = 2 sqrt 2 o
    const float twice = 2.8284271f * sigmoid(g.opacity_logit[i]);
    const float half = twice / (2 + sqrtf(4 - inv_e * twice));
    const float opacity = fmaxf(half, nextafterf(least_opacity, 1)); // a split kills no Gaussian
    for (int k = 0; k < 3; k++) g.mean[3 * i + k] += along * rotation[k][axis];
    g.log_scale[3 * i + axis] -= log_sqrt2;
    g.opacity_logit[i] = logf(opacity) - log1pf(-opacity);
}

} // namespace gs
