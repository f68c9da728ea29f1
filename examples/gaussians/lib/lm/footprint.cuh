// SPDX-License-Identifier: MIT
// The derivative of a splat's place and shape along a change of its Gaussian's parameters: docs/developers/math.md,
// section 8.
#pragma once

#include "project/project.cuh"
#include <distwar/warp.cuh>

namespace gs {

// A change of the place and shape of one Gaussian.
struct shape_change {
    float mean[3], log_scale[3], quaternion[4];
};

// 1 in the k-th of these ten, else 0.
__device__ __forceinline__ shape_change unit_change(int k) {
    shape_change change = {};
    DISTWAR_UNROLL
    for (int j = 0; j < 3; j++) {
        change.mean[j] = k == j ? 1.0f : 0.0f;
        change.log_scale[j] = k == 3 + j ? 1.0f : 0.0f;
    }
    DISTWAR_UNROLL
    for (int j = 0; j < 4; j++) change.quaternion[j] = k == 6 + j ? 1.0f : 0.0f;
    return change;
}

// A Gaussian as one camera sees it: what its derivatives need.
template <int model>
struct gaussian_in_view {
    point_of<model, divisor> point;
    gaussian_shape shape;
    image_axes axes;
    view_direction<divisor> direction;
};

template <int model>
__device__ __forceinline__ gaussian_in_view<model> gaussian_in_view_of(const gs_gaussians &gaussians,
                                                                       const gs_camera &camera, int64_t i) {
    gaussian_in_view<model> g;
    float center[3];
    const float *const mean = gaussians.mean + 3 * i;
    g.point = point_of<model, divisor>::of(camera, ratio_limits_of(camera), mean);
    negative_center(camera, center);
    g.direction = view_direction_of<divisor>(center, mean);
    g.shape = gaussian_shape_of(gaussians, i);
    g.axes = image_axes_of(camera, g.point, g.shape);
    return g;
}

template <int model>
__device__ __forceinline__ log_alpha_tangent log_alpha_tangent_of(const gs_camera &camera,
                                                                  const gs_splat &splat,
                                                                  const gaussian_in_view<model> &g,
                                                                  const shape_change &change) {
    const auto t = camera_point_tangent_of(camera, g.point, change.mean);
    float map_change[2][3];
    image_axes_tangent(camera, g.point, t, g.shape, g.axes, change.log_scale, change.quaternion, map_change);
    return whitening_tangent(splat, t.mean2d, covariance_from_map_tangent(g.axes.map, map_change));
}

} // namespace gs
