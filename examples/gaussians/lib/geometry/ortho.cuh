// SPDX-License-Identifier: MIT
// An orthographic camera: a mean appears at x = fx X + cx, y = fy Y + cy, whatever its depth. J is constant.
#pragma once

#include "geometry/pose.cuh"

namespace gs {

// The derivative of an ortho_point along a change of the mean.
struct ortho_point_tangent {
    float mean2d[2]; // pixels
};

// A mean as an orthographic camera sees it.
struct ortho_point {
    using tangent = ortho_point_tangent;

    float at[3]; // camera space

    static __device__ __forceinline__ ortho_point of(const gs_camera &camera, const ratio_limits &,
                                                     const float *mean) {
        ortho_point p;
        for (int row = 0; row < 3; row++) p.at[row] = camera_space(camera, mean, row);
        return p;
    }
};

template <typename Denominator>
struct point_of_model<GS_ORTHO, Denominator> {
    using type = ortho_point;
};

__device__ __forceinline__ float projected_mean(const gs_camera &camera, const ortho_point &p, int k) {
    return fmaf(focal_length(camera, k), p.at[k], image_center(camera, k));
}

__device__ __forceinline__ float jacobian_times(const gs_camera &camera, const ortho_point &, int k,
                                                const float v[3]) {
    return focal_length(camera, k) * v[k];
}

__device__ __forceinline__ void add_jacobian_transposed(const gs_camera &camera, const ortho_point &, int k,
                                                        float d, float out[3]) {
    out[k] += focal_length(camera, k) * d;
}

__device__ __forceinline__ ortho_point_tangent camera_point_tangent_of(const gs_camera &camera,
                                                                       const ortho_point &,
                                                                       const float mean_change[3]) {
    ortho_point_tangent t;
    for (int k = 0; k < 2; k++) t.mean2d[k] = focal_length(camera, k) * to_camera(camera, mean_change, k);
    return t;
}

__device__ __forceinline__ float jacobian_times_tangent(const gs_camera &camera, const ortho_point &,
                                                        const ortho_point_tangent &, int k, const float[3],
                                                        const float v_change[3], float) {
    return focal_length(camera, k) * v_change[k];
}

__device__ __forceinline__ void screen_map_tangent(const gs_camera &, const ortho_point &,
                                                   const ortho_point_tangent &, const float[2][3],
                                                   float out[2][3]) {
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) out[k][c] = 0;
}

__device__ __forceinline__ void add_projection_adjoint(const gs_camera &camera, const ortho_point &, int k,
                                                       const float[3], float d_mean2d, float d_point[3]) {
    d_point[k] += focal_length(camera, k) * d_mean2d;
}

__device__ __forceinline__ void intrinsics_adjoint(const gs_camera &, const ortho_point &p, int k,
                                                   const float d_row[3], float d_mean2d, float *d_focal,
                                                   float *d_center) {
    *d_focal = d_mean2d * p.at[k] + d_row[k];
    *d_center = d_mean2d;
}

} // namespace gs
