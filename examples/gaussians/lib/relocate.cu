// SPDX-License-Identifier: MIT
// Density control as sampling (Kheradmand et al. 2024): dead and new Gaussians take the places of living
// ones, noise moves nearly transparent ones, penalties on opacity and size let them die. Integer sums decide
// the places, so the result does not depend on the order of threads.
#include "block_layout.h"
#include "density.cuh"
#include "launch.cuh"
#include "scan_sort.h"
#include <float.h>

using namespace gs;

namespace {

constexpr float weight_scale = 0x1p24f; // opacities become integers; 2^31 of them sum to less than 2^63
constexpr int most_sharing = 51;        // as published; with more, the result is brighter than the original

__device__ float living_opacity(const gs_gaussians &gaussians, int64_t i, int64_t existing, float least) {
    if (i >= existing) return 0;
    const float opacity = sigmoid(gaussians.opacity_logit[i]);
    return opacity > least ? opacity : 0;
}

// weights[count] = 0: the scan leaves the total there. sharing: 1 for living Gaussians, 0 for others.
__global__ void __launch_bounds__(density_block)
    weigh_kernel(gs_gaussians gaussians, int64_t existing, float least_opacity, int64_t *weights,
                 uint32_t *sharing) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i > gaussians.count) return;
    const float opacity = i < gaussians.count ? living_opacity(gaussians, i, existing, least_opacity) : 0;
    weights[i] = opacity > 0 ? max(int64_t(opacity * weight_scale), int64_t(1)) : 0;
    if (i < gaussians.count) sharing[i] = opacity > 0;
}

// The row whose range before[row] .. before[row + 1] - 1 contains `at`.
__device__ int64_t row_at(const int64_t *before, int64_t count, int64_t at) {
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

__global__ void __launch_bounds__(density_block)
    draw_kernel(int64_t count, const int64_t *before, uint64_t seed, uint64_t iteration, uint32_t *source,
                uint32_t *sharing) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    const int64_t total = before[count];
    if (i >= count || total == 0) return;
    source[i] = uint32_t(i);
    if (before[i + 1] > before[i]) return; // living
    random_stream random = random_at(seed, RANDOM_RELOCATION, iteration, uint64_t(i));
    source[i] = uint32_t(row_at(before, count, int64_t(random_bits(&random) % uint64_t(total))));
    atomicAdd(&sharing[source[i]], 1u);
}

// The opacity, and the factor of the scales, of n Gaussians that replace one.
__device__ void share(float opacity, int n, float *shared, float *scale_factor) {
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

__global__ void __launch_bounds__(density_block)
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

__global__ void __launch_bounds__(density_block)
    follow_kernel(gs_arrays g, int64_t count, int64_t existing, gs_arrays first, gs_arrays second,
                  const int64_t *before, const uint32_t *source) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= count || before[i + 1] > before[i]) return;
    const bool any_living = before[count] > 0;
    if (!any_living && i < existing) return;
    if (any_living)
        copy_row(g, int64_t(source[i]), i);
    else
        make_dead(g, i);
    clear_moment(first, i);
    clear_moment(second, i);
}

__global__ void __launch_bounds__(density_block)
    noise_kernel(gs_gaussians gaussians, float scale, uint64_t seed, uint64_t iteration) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float strength = sigmoid(-100 * (sigmoid(gaussians.opacity_logit[i]) - 0.005f));
    if (!(strength >= 1e-8f)) return;
    float n[3], rotation[3][3], along[3];
    draw_normal(random_at(seed, RANDOM_NOISE, iteration, uint64_t(i)), n);
    rotation_of(gaussians, i, rotation);
    for (int k = 0; k < 3; k++) {
        const float s = expf(gaussians.log_scale[3 * i + k]);
        along[k] = s * s * (rotation[0][k] * n[0] + rotation[1][k] * n[1] + rotation[2][k] * n[2]);
    }
    for (int k = 0; k < 3; k++)
        gaussians.mean[3 * i + k] +=
            scale * strength *
            (rotation[k][0] * along[0] + rotation[k][1] * along[1] + rotation[k][2] * along[2]);
}

__global__ void __launch_bounds__(density_block)
    penalty_kernel(gs_gaussians gaussians, float opacity_weight, float scale_weight, gs_gaussians gradients) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float opacity = sigmoid(gaussians.opacity_logit[i]);
    gradients.opacity_logit[i] += opacity_weight * opacity * (1 - opacity);
    for (int k = 0; k < 3; k++)
        gradients.log_scale[3 * i + k] += scale_weight * expf(gaussians.log_scale[3 * i + k]);
}

// The arrays in gs_relocate's workspace.
struct relocation_arrays {
    int64_t *weights; // then their prefix sums
    uint32_t *source, *sharing;
    void *scratch;
    size_t scratch_bytes;
};

// Places them in `memory` (NULL: nowhere). *bytes: theirs.
gs_status place_arrays(void *memory, int64_t count, relocation_arrays *out, size_t *bytes) {
    GS_CUDA(scan_exclusive_bytes(count + 1, &out->scratch_bytes));
    block_layout layout = {static_cast<char *>(memory), 0};
    layout_add(&layout, size_t(count) + 1, &out->weights);
    layout_add(&layout, size_t(count), &out->source);
    layout_add(&layout, size_t(count), &out->sharing);
    out->scratch = layout_add(&layout, out->scratch_bytes);
    *bytes = layout.bytes;
    return GS_OK;
}

} // namespace

gs_status gs_relocate_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    relocation_arrays unplaced;
    return place_arrays(nullptr, count, &unplaced, bytes);
}

gs_status gs_relocate(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                      const gs_gaussians *second_moment, const gs_relocation *relocation, void *workspace,
                      size_t workspace_bytes, gs_stream stream) {
    GS_TRY(check_vector(__func__, gaussians, first_moment));
    GS_TRY(check_vector(__func__, gaussians, second_moment));
    GS_REQUIRE(relocation, "relocation must be given");
    const int64_t count = gaussians->count, existing = relocation->existing;
    const float least_opacity = relocation->least_opacity;
    GS_REQUIRE(existing >= 0 && existing <= count, "existing must be in 0..count");
    GS_REQUIRE(least_opacity >= 0 && least_opacity < 1, "least_opacity must be in 0..1, exclusive of 1");
    relocation_arrays a;
    size_t needed;
    GS_TRY(place_arrays(workspace, count, &a, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));

    const unsigned blocks = blocks_for(count, density_block);
    GS_CUDA(launch_for(stream, count + 1, density_block, weigh_kernel, *gaussians, existing, least_opacity,
                       a.weights, a.sharing));
    GS_CUDA(scan_exclusive(a.weights, a.weights, count + 1, a.scratch, a.scratch_bytes, stream));
    GS_CUDA(launch(stream, blocks, density_block, draw_kernel, count, a.weights, relocation->seed,
                   relocation->iteration, a.source, a.sharing));
    const gs_arrays first = gs_arrays_of(first_moment), second = gs_arrays_of(second_moment);
    GS_CUDA(launch(stream, blocks, density_block, share_kernel, *gaussians, first, second, a.sharing,
                   least_opacity));
    return GS_STATUS(launch(stream, blocks, density_block, follow_kernel, gs_arrays_of(gaussians), count,
                            existing, first, second, a.weights, a.source));
}

gs_status gs_density_noise(const gs_gaussians *gaussians, float scale, uint64_t seed, uint64_t iteration,
                           gs_stream stream) {
    GS_TRY(check_parameters(__func__, gaussians));
    GS_REQUIRE(scale >= 0 && scale <= FLT_MAX, "scale must be finite and not negative");
    return GS_STATUS(launch_for(stream, gaussians->count, density_block, noise_kernel, *gaussians, scale,
                                seed, iteration));
}

gs_status gs_density_penalty(const gs_gaussians *gaussians, float opacity_weight, float scale_weight,
                             const gs_gaussians *gradients, gs_stream stream) {
    GS_TRY(check_vector(__func__, gaussians, gradients));
    GS_REQUIRE(opacity_weight >= 0 && opacity_weight <= FLT_MAX && scale_weight >= 0 &&
                   scale_weight <= FLT_MAX,
               "weights must be finite and not negative");
    const double count = double(gaussians->count > 0 ? gaussians->count : 1);
    return GS_STATUS(launch_for(stream, gaussians->count, density_block, penalty_kernel, *gaussians,
                                float(opacity_weight / count), float(scale_weight / (3 * count)),
                                *gradients));
}
