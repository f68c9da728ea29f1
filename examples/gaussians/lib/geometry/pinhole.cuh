// SPDX-License-Identifier: MIT
// A pinhole: a mean appears at x = fx X / Z + cx, y = fy Y / Z + cy.
#pragma once

#include "geometry/pose.cuh"

namespace gs {

// A mean as a pinhole sees it. Denominator: divisor or reciprocal.
template <typename Denominator>
struct camera_point {
    float at[3];       // camera space
    Denominator depth; // at[2]
    float ratio[2];    // x/z and y/z as J uses them
    bool clamped[2];   // the ratio was clamped: its derivative is 0

    static __device__ __forceinline__ camera_point of(const gs_camera &camera, const ratio_limits &limits,
                                                      const float *mean) {
        camera_point p;
        for (int row = 0; row < 3; row++) p.at[row] = camera_space(camera, mean, row);
        p.depth = Denominator::of(p.at[2]);
        for (int k = 0; k < 2; k++) {
            const float ratio = p.at[k] / p.depth;
            p.ratio[k] = gs::clamped(ratio, limits.low[k], limits.high[k]);
            p.clamped[k] = p.ratio[k] != ratio;
        }
        return p;
    }
};

template <typename Denominator>
struct point_of_model<GS_PINHOLE, Denominator> {
    using type = camera_point<Denominator>;
};

// Coordinate k of the mean in pixels.
__device__ inline float projected_mean(const gs_camera &camera, const camera_point<divisor> &p, int k) {
    return fmaf(focal_length(camera, k), p.at[k] / p.depth, image_center(camera, k));
}

// (J v)_k for a direction v in camera space.
template <typename Denominator>
__device__ __forceinline__ float jacobian_times(const gs_camera &camera, const camera_point<Denominator> &p,
                                                int k, const float v[3]) {
    return focal_length(camera, k) / p.depth * (v[k] - p.ratio[k] * v[2]);
}

// out += J^T (d in row k)
template <typename Denominator>
__device__ __forceinline__ void add_jacobian_transposed(const gs_camera &camera,
                                                        const camera_point<Denominator> &p, int k, float d,
                                                        float out[3]) {
    const float diagonal = focal_length(camera, k) / p.depth;
    out[k] += diagonal * d;
    out[2] += -diagonal * p.ratio[k] * d;
}

// Adjoint of projected_mean and of J, for coordinate k. d_mean2d: gradient by the mean in pixels; d_row: by
// row k of J. Adds the gradient by the point in camera space.
template <typename Denominator>
__device__ __forceinline__ void
add_projection_adjoint(const gs_camera &camera, const camera_point<Denominator> &p, int k,
                       const float d_row[3], float d_mean2d, float d_point[3]) {
    const float diagonal = focal_length(camera, k) / p.depth;
    const float d_ratio = d_row[2] * diagonal; // negative
    d_point[2] -= (d_row[k] * diagonal - d_ratio * p.ratio[k]) / p.depth;
    if (!p.clamped[k]) {
        d_point[k] -= d_ratio / p.depth;
        d_point[2] += d_ratio * p.ratio[k] / p.depth;
    }
    d_point[k] += d_mean2d * diagonal;
    d_point[2] -= d_mean2d * diagonal * (p.at[k] / p.depth);
}

// The same by the intrinsics: writes the gradients by focal length and principal point of coordinate k. A
// clamped ratio is a bound over the focal length: J then depends on the principal point, not on the focal
// length.
template <typename Denominator>
__device__ __forceinline__ void intrinsics_adjoint(const gs_camera &, const camera_point<Denominator> &p,
                                                   int k, const float d_row[3], float d_mean2d,
                                                   float *d_focal, float *d_center) {
    const float d_last = d_row[2] / p.depth;
    *d_focal = d_mean2d * (p.at[k] / p.depth) + d_row[k] / p.depth - (p.clamped[k] ? 0 : d_last * p.ratio[k]);
    *d_center = d_mean2d + (p.clamped[k] ? d_last : 0);
}

} // namespace gs
