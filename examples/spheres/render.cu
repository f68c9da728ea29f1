// SPDX-License-Identifier: MIT
// Blending, forward and adjoint; formulas: docs/developers/math-examples.md, "Spheres".
#include "strategies/commit.cuh"
#include "device.h"
#include "pixel.cuh"

namespace {

template <int K>
struct channels {
    static constexpr int count = K;
};

// Calls body(channels<K>{}) with the K of the set.
template <typename Body>
void with_channels(const sphere_set &set, Body &&body) {
    switch (set.channels) {
    case 3:
        return body(channels<3>{});
    case 8:
        return body(channels<8>{});
    case 16:
        return body(channels<16>{});
    default:
        return body(channels<32>{});
    }
}

// A sphere of a pixel's list.
struct sample {
    int index;
    float amplitude, radius;
    float closeness; // d; its weight is amplitude * d
    float3 offset;
};

__device__ sample sample_of(const sphere_frame &f, const tile_pixel &p, const float3 &ray, int j) {
    const int index = f.list[j * (int64_t(f.camera.width) * f.camera.height) + p.index];
    const sphere_view s = f.views[index];
    sample out = {index, s.amplitude, s.radius, 0, {}};
    out.closeness =
        closeness(make_float3(s.center[0], s.center[1], s.center[2]), s.inverse_square, ray, &out.offset);
    return out;
}

template <int K>
__global__ void __launch_bounds__(tile_threads) render_kernel(sphere_frame f) {
    const tile_pixel p = pixel_of_thread(f.camera);
    if (!p.inside) return;
    const float3 ray = ray_of(f.camera, p.x, p.y);
    float total = f.blend.background_weight, sum[K];
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) sum[k] = total * f.blend.background;
    const int length = f.list_length[p.index];
    for (int j = 0; j < length; ++j) {
        const sample s = sample_of(f, p, ray, j);
        const float weight = s.amplitude * s.closeness;
        const float *feature = f.set.feature + int64_t(s.index) * K;
        total += weight;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) sum[k] = fmaf(weight, feature[k], sum[k]);
    }
    const int64_t plane = int64_t(f.camera.width) * f.camera.height;
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) f.color[k * plane + p.index] = sum[k] / total;
    f.total[p.index] = total;
}

// The adjoint, one body for every commit. All lanes of a warp stay in the loop until the longest of their
// lists ends. A lane whose list has ended, or whose pixel is outside the picture, is inactive.
template <int K, typename Commit>
__global__ void __launch_bounds__(tile_threads) render_backward_kernel(sphere_frame f, Commit commit) {
    const tile_pixel p = pixel_of_thread(f.camera);
    const float3 ray = ray_of(f.camera, p.x, p.y);
    const int64_t plane = int64_t(f.camera.width) * f.camera.height;
    const int length = p.inside ? f.list_length[p.index] : 0;
    float gradient[K], along_color = 0, inverse_total = 0; // along_color: colour . gradient
    if (length > 0) {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            gradient[k] = f.color_gradient[k * plane + p.index];
            along_color = fmaf(f.color[k * plane + p.index], gradient[k], along_color);
        }
        inverse_total = 1 / f.total[p.index];
    }
    const int longest = int(distwar::detail::largest(distwar::all_lanes, unsigned(length)));
    for (int j = 0; j < longest; ++j) {
        const bool active = j < length;
        int key = 0;
        float value[SPHERES_MOMENTS + K] = {};
        if (active) {
            const sample s = sample_of(f, p, ray, j);
            const float *feature = f.set.feature + int64_t(s.index) * K;
            const float share = s.amplitude * inverse_total, part = share * s.closeness;
            float along = -along_color;
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k) {
                along = fmaf(feature[k], gradient[k], along);
                value[SPHERES_MOMENTS + k] = part * gradient[k];
            }
            const float d_closeness = share * along, d_offset = d_closeness / s.radius;
            key = s.index;
            value[0] = d_offset * s.offset.x;
            value[1] = d_offset * s.offset.y;
            value[2] = d_offset * s.offset.z;
            value[3] = d_closeness * (1 - s.closeness);
            value[4] = d_closeness * s.closeness;
        }
        commit(active, key, value);
    }
}

template <int K, typename Commit>
cudaError_t launch_backward(const sphere_frame &f, const Commit &commit) {
    return launch(NULL, tiles_of(f.camera), tile_threads, render_backward_kernel<K, Commit>, f, commit);
}

} // namespace

void spheres_render(const sphere_frame *frame) {
    with_channels(frame->set, [&](auto chosen) {
        DEVICE_CHECK(launch(NULL, tiles_of(frame->camera), tile_threads,
                            render_kernel<decltype(chosen)::count>, *frame));
    });
}

void spheres_render_backward(const sphere_frame *frame, distwar_policy policy) {
    with_channels(frame->set, [&](auto chosen) {
        constexpr int K = decltype(chosen)::count;
        // A gradient of l1_loss is 1 / (K pixels); 2^24 units each leave room for sums 2^15 times as large.
        const double pixels = double(frame->camera.width) * frame->camera.height;
        const float unit = float(exp2(ceil(log2(pixels)) + 24)),
                    feature_unit = float(exp2(ceil(log2(K)))) * unit;
        float scale[SPHERES_MOMENTS + K];
        for (int k = 0; k < SPHERES_MOMENTS + K; ++k) scale[k] = k < SPHERES_MOMENTS ? unit : feature_unit;
        DEVICE_CHECK(sum_values(policy, scale, frame->moments, NULL,
                                [&](const auto &commit) { return launch_backward<K>(*frame, commit); }));
    });
}

void spheres_count_lanes(const sphere_frame *frame, lane_histogram *counts) {
    with_channels(frame->set, [&](auto chosen) {
        DEVICE_CHECK(launch_backward<decltype(chosen)::count>(*frame, commit_lane_counts{counts}));
    });
}
