// SPDX-License-Identifier: MIT
// The lookup of the texels that pixels mirror, forward and adjoint. Formulas: math-examples.md, "Cubemap".
#include "strategies/commit.cuh"
#include "device.h"
#include "texel.cuh"
#include "gpu/tile_pixel.cuh"

namespace {

struct sample {
    float3 direction;
    float detail; // < 0: there is no mesh at the pixel
};

__device__ sample sample_of(const cubemap_frame &f, const tile_pixel &p) {
    const float *at = f.sample + 4 * p.index;
    return {make_float3(at[0], at[1], at[2]), at[3]};
}

__global__ void __launch_bounds__(tile_threads) render_kernel(cubemap_frame f) {
    const tile_pixel p = pixel_of_thread(f.camera);
    if (!p.inside) return;
    const sample s = sample_of(f, p);
    float color[3] = {f.background, f.background, f.background};
    if (s.detail >= 0) {
        color[0] = color[1] = color[2] = 0;
        const level_pair pair = levels_of(s.detail, f.levels);
        DISTWAR_UNROLL
        for (int n = 0; n < 2; ++n) {
            const footprint at = footprint_of(s.direction, f.size >> pair.level[n]);
            const float *level = f.texel + 3 * int64_t(cubemap_level_begin(f.size, pair.level[n]));
            DISTWAR_UNROLL
            for (int k = 0; k < TEXELS; ++k)
                for (int channel = 0; channel < 3; ++channel)
                    color[channel] = fmaf(pair.weight[n] * at.weight[k],
                                          level[3 * int64_t(at.texel[k]) + channel], color[channel]);
        }
    }
    const int64_t plane = int64_t(f.camera.width) * f.camera.height;
    for (int channel = 0; channel < 3; ++channel) f.color[channel * plane + p.index] = color[channel];
}

// The adjoint, one body for every commit. All lanes of a warp stay to the end; lanes without a mesh at their
// pixel are inactive.
template <typename Commit>
__global__ void __launch_bounds__(tile_threads) render_backward_kernel(cubemap_frame f, Commit commit) {
    const tile_pixel p = pixel_of_thread(f.camera);
    sample s = {make_float3(0, 0, 1), -1};
    float gradient[3] = {};
    if (p.inside) {
        const int64_t plane = int64_t(f.camera.width) * f.camera.height;
        s = sample_of(f, p);
        for (int channel = 0; channel < 3; ++channel)
            gradient[channel] = f.color_gradient[channel * plane + p.index];
    }
    const level_pair pair = levels_of(fmaxf(s.detail, 0.0f), f.levels);
    DISTWAR_UNROLL
    for (int n = 0; n < 2; ++n) {
        const footprint at = footprint_of(s.direction, f.size >> pair.level[n]);
        const int begin = cubemap_level_begin(f.size, pair.level[n]);
        DISTWAR_UNROLL
        for (int k = 0; k < TEXELS; ++k) {
            const float weight = pair.weight[n] * at.weight[k];
            const float value[3] = {weight * gradient[0], weight * gradient[1], weight * gradient[2]};
            commit(s.detail >= 0 && weight != 0, begin + at.texel[k], value);
        }
    }
}

template <typename Commit>
cudaError_t launch_backward(const cubemap_frame &f, const Commit &commit) {
    return launch(NULL, tiles_of(f.camera), tile_threads, render_backward_kernel<Commit>, f, commit);
}

} // namespace

void cubemap_render(const cubemap_frame *frame) {
    DEVICE_CHECK(launch(NULL, tiles_of(frame->camera), tile_threads, render_kernel, *frame));
}

void cubemap_render_backward(const cubemap_frame *frame, distwar_policy policy) {
    // A gradient of l1_loss is 1 / (3 pixels); 2^24 units each leave room for sums 2^15 times as large.
    const double values = 3.0 * frame->camera.width * frame->camera.height;
    const float unit = float(exp2(ceil(log2(values)) + 24)), scale[3] = {unit, unit, unit};
    DEVICE_CHECK(sum_values(policy, scale, frame->sums, NULL,
                            [&](const auto &commit) { return launch_backward(*frame, commit); }));
}

void cubemap_count_lanes(const cubemap_frame *frame, lane_histogram *counts) {
    DEVICE_CHECK(launch_backward(*frame, commit_lane_counts{counts}));
}
