// SPDX-License-Identifier: MIT
// What relocations of Gaussians on one GPU (relocate.cu) and on several have in common.
#pragma once

#include "density.cuh"
#include "distwar_gs_density.h"

namespace gs {

constexpr float weight_scale = 0x1p24f; // opacities become integers; 2^31 of them sum to less than 2^63
constexpr int most_sharing = 51;        // as published; with more, the result is brighter than the original

// What a Gaussian of this opacity is drawn by; 0 of those that do not live.
__device__ inline int64_t weight_of(float opacity) {
    return opacity > 0 ? max(int64_t(opacity * weight_scale), int64_t(1)) : 0;
}

// The row whose range before[row] .. before[row + 1] - 1 contains `at`.
__device__ inline int64_t row_at(const int64_t *before, int64_t count, int64_t at) {
    int64_t low = 0, high = count; // before[low] <= at < before[high]
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (before[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The opacity, and the factor of the scales, of n Gaussians that replace one.
__device__ inline void share(float opacity, int n, float *shared, float *scale_factor) {
    const double o = fmin(double(opacity), 1 - 1e-7), each = -expm1(log1p(-o) / n);
    // The published sum over i = 1..n and k = 0..i-1 of C(i-1, k) (-1)^k each^(k+1) / sqrt(k+1), with m = k +
    // 1 and sum over i of C(i-1, m-1) = C(n, m).
    double sum = 0, term = -1; // term: C(n, m) (-1)^(m-1) each^m
    for (int m = 1; m <= n; m++) {
        term *= -each * (n - m + 1) / m;
        sum += term / sqrt(double(m));
    }
    *shared = float(each);
    *scale_factor = float(o / sum);
}

static __global__ void __launch_bounds__(density_block)
    share_kernel(gs_gaussians gaussians, gs_arrays first, gs_arrays second, const uint32_t *sharing,
                 float least_opacity) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count || sharing[i] <= 1) return;
    float opacity, factor;
    share(sigmoid(gaussians.opacity_logit[i]), int(min(sharing[i], uint32_t(most_sharing))), &opacity,
          &factor);
    opacity = fmaxf(opacity, nextafterf(least_opacity, 1)); // sharing kills no Gaussian
    gaussians.opacity_logit[i] = logf(opacity) - log1pf(-opacity);
    for (int k = 0; k < 3; k++) gaussians.log_scale[3 * i + k] += logf(factor);
    clear_moment(first, i);
    clear_moment(second, i);
}

// source: the living row whose place a dead or new row takes; others are their own, and all are if none lives.
static __global__ void __launch_bounds__(density_block)
    draw_kernel(int64_t count, const int64_t *before, uint64_t seed, uint64_t iteration, uint32_t *source,
                uint32_t *sharing) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    const int64_t total = before[count];
    if (i >= count) return;
    source[i] = uint32_t(i);
    if (before[i + 1] > before[i] || total == 0) return; // living, or nobody is
    random_stream random = random_at(seed, RANDOM_RELOCATION, iteration, uint64_t(i));
    source[i] = uint32_t(row_at(before, count, int64_t(random_bits(&random) % uint64_t(total))));
    atomicAdd(&sharing[source[i]], 1u);
}

// The arrays in gs_relocate's workspace.
struct relocation_arrays {
    int64_t *weights; // then their prefix sums
    uint32_t *source, *sharing;
    void *scratch;
    size_t scratch_bytes;
};

// Places them in `memory` (NULL: nowhere). *bytes: theirs.
inline gs_status place_relocation(void *memory, int64_t count, relocation_arrays *out, size_t *bytes) {
    GS_CUDA(scan_exclusive_bytes(count + 1, &out->scratch_bytes));
    block_layout layout = {static_cast<char *>(memory), 0};
    layout_add(&layout, size_t(count) + 1, &out->weights);
    layout_add(&layout, size_t(count), &out->source);
    layout_add(&layout, size_t(count), &out->sharing);
    out->scratch = layout_add(&layout, out->scratch_bytes);
    *bytes = layout.bytes;
    return GS_OK;
}

} // namespace gs
