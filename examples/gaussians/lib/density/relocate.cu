// SPDX-License-Identifier: MIT
// Density control as sampling (Kheradmand et al. 2024): dead and new Gaussians take the places of living
// ones, noise moves nearly transparent ones, penalties on opacity and size let them die. Integer sums decide
// the places, so the result does not depend on the order of threads.
#include "launch.cuh"
#include "relocate.cuh"
#include <float.h>

using namespace gs;

namespace {

// weights[count] = 0: the scan leaves the total there. sharing: 1 for living Gaussians, 0 for others.
__global__ void __launch_bounds__(density_block)
    weigh_kernel(gs_gaussians gaussians, const gs_relocation r, int64_t *weights, uint32_t *sharing) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i > gaussians.count) return;
    const float opacity = i < gaussians.count ? living_opacity(gaussians, i, r.existing, r.least_opacity) : 0;
    weights[i] = weight_of(opacity);
    if (i < gaussians.count) sharing[i] = opacity > 0;
    if (r.dead && i < r.existing && !(opacity > 0))
        atomicAdd(reinterpret_cast<unsigned long long *>(r.dead), 1ull);
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
    noise_kernel(gs_gaussians gaussians, int64_t before, float scale, uint64_t seed, uint64_t iteration) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float strength = sigmoid(-100 * (sigmoid(gaussians.opacity_logit[i]) - 0.005f));
    if (!(strength >= 1e-8f)) return;
    float n[3], rotation[3][3], along[3];
    draw_normal(random_at(seed, RANDOM_NOISE, iteration, uint64_t(before + i)), n);
    rotation_of(gaussians, i, rotation);
    for (int k = 0; k < 3; k++) {
        const float s = expf(gaussians.log_scale[3 * i + k]);
        const float sizes = fminf(scale * s, 1); // scale has no unit, and nothing else bounds the noise
        along[k] = s * sizes * (rotation[0][k] * n[0] + rotation[1][k] * n[1] + rotation[2][k] * n[2]);
    }
    for (int k = 0; k < 3; k++)
        gaussians.mean[3 * i + k] +=
            strength * (rotation[k][0] * along[0] + rotation[k][1] * along[1] + rotation[k][2] * along[2]);
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

} // namespace

gs_status gs_relocate_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    relocation_arrays unplaced;
    return place_relocation(nullptr, count, &unplaced, bytes);
}

gs_status gs_relocate(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                      const gs_gaussians *second_moment, const gs_relocation *relocation, void *workspace,
                      size_t workspace_bytes, gs_stream stream) {
    GS_TRY(check_vector(__func__, gaussians, first_moment));
    GS_TRY(check_vector(__func__, gaussians, second_moment));
    GS_REQUIRE(relocation, "relocation must be given");
    const int64_t count = gaussians->count, existing = relocation->existing;
    const float least_opacity = relocation->least_opacity;
    GS_TRY(check_living(__func__, count, existing, least_opacity));
    relocation_arrays a;
    size_t needed;
    GS_TRY(place_relocation(workspace, count, &a, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));

    const unsigned blocks = blocks_for(count, density_block);
    GS_CUDA(launch_for(stream, count + 1, density_block, weigh_kernel, *gaussians, *relocation, a.weights,
                       a.sharing));
    GS_CUDA(scan_exclusive(a.weights, a.weights, count + 1, a.scratch, a.scratch_bytes, stream));
    GS_CUDA(launch(stream, blocks, density_block, draw_kernel, count, a.weights, relocation->seed,
                   relocation->iteration, a.source, a.sharing));
    const gs_arrays first = gs_arrays_of(first_moment), second = gs_arrays_of(second_moment);
    GS_CUDA(launch(stream, blocks, density_block, share_kernel, *gaussians, first, second, a.sharing,
                   least_opacity));
    return GS_STATUS(launch(stream, blocks, density_block, follow_kernel, gs_arrays_of(gaussians), count,
                            existing, first, second, a.weights, a.source));
}

gs_status gs_density_noise(const gs_gaussians *gaussians, int64_t first, float scale, uint64_t seed,
                           uint64_t iteration, gs_stream stream) {
    GS_TRY(check_parameters(__func__, gaussians));
    GS_REQUIRE(scale >= 0 && scale <= FLT_MAX, "scale must be finite and not negative");
    return GS_STATUS(launch_for(stream, gaussians->count, density_block, noise_kernel, *gaussians, first,
                                scale, seed, iteration));
}

gs_status gs_density_penalty(const gs_gaussians *gaussians, int64_t all, float opacity_weight,
                             float scale_weight, const gs_gaussians *gradients, gs_stream stream) {
    GS_TRY(check_vector(__func__, gaussians, gradients));
    GS_REQUIRE(opacity_weight >= 0 && opacity_weight <= FLT_MAX && scale_weight >= 0 &&
                   scale_weight <= FLT_MAX,
               "weights must be finite and not negative");
    const double count = double(all > 0 ? all : 1);
    return GS_STATUS(launch_for(stream, gaussians->count, density_block, penalty_kernel, *gaussians,
                                float(opacity_weight / count), float(scale_weight / (3 * count)),
                                *gradients));
}
