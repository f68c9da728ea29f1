// SPDX-License-Identifier: MIT
// An orthographic camera: a mean appears at x = fx X + cx, y = fy Y + cy, whatever its depth. J is constant.
#pragma once

#include "geometry/pose.cuh"

namespace gs {

// A mean as an orthographic camera sees it.
struct ortho_point {
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
