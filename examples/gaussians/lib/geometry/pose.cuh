// SPDX-License-Identifier: MIT
// The pose of a camera and what all its models share.
#pragma once

#include "distwar_gs.h"
#include <cuda_runtime.h>

namespace gs {

// A denominator that several quotients share. `divisor` divides each time, correctly rounded. `reciprocal`
// multiplies by the inverse: faster, with an error of about one ulp. Both are written x / denominator.
struct divisor {
    float value;
    static __device__ divisor of(float x) { return {x}; }
};
struct reciprocal {
    float inv_value;
    static __device__ reciprocal of(float x) { return {1 / x}; }
};
__device__ inline float operator/(float x, const divisor &d) {
    return x / d.value;
}
__device__ inline float operator/(float x, const reciprocal &r) {
    return x * r.inv_value;
}
// a b / denominator
__device__ inline float product_over(float a, float b, const divisor &d) {
    return a / d.value * b;
}
__device__ inline float product_over(float a, float b, const reciprocal &r) {
    return a * (b * r.inv_value);
}

__device__ inline float clamped(float x, float low, float high) {
    return fminf(fmaxf(x, low), high);
}

__device__ inline float dot(const float a[3], const float b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

// Row `row` of R m + t.
__device__ inline float camera_space(const gs_camera &camera, const float *m, int row) {
    const float *r = camera.rotation + 3 * row;
    return fmaf(r[0], m[0], fmaf(r[1], m[1], fmaf(r[2], m[2], camera.translation[row])));
}

// Row `row` of R v: a direction of the world in camera space.
__device__ inline float to_camera(const gs_camera &camera, const float v[3], int row) {
    const float *r = camera.rotation + 3 * row;
    return r[0] * v[0] + r[1] * v[1] + r[2] * v[2];
}

// Row `row` of R^T v: a direction of camera space in the world, and the adjoint of to_camera.
__host__ __device__ inline float to_world(const gs_camera &camera, const float v[3], int row) {
    const float *r = camera.rotation + row;
    return r[0] * v[0] + r[3] * v[1] + r[6] * v[2];
}

__device__ inline float focal_length(const gs_camera &camera, int k) {
    return k == 0 ? camera.fx : camera.fy;
}

__device__ inline float image_center(const gs_camera &camera, int k) {
    return k == 0 ? camera.cx : camera.cy;
}

// J uses x/z and y/z, clamped to the image enlarged by this part of its size on every side. Without the limit
// the linear approximation would make a Gaussian beside the image arbitrarily large.
constexpr float ratio_margin = 0.15f;
static_assert(1 + ratio_margin == 1.15f, "the limits are exact floats");

struct ratio_limits {
    float low[2], high[2];
};

__host__ __device__ inline ratio_limits ratio_limits_of(const gs_camera &camera) {
    const float focal[2] = {camera.fx, camera.fy}, center[2] = {camera.cx, camera.cy};
    const float size[2] = {float(camera.width), float(camera.height)};
    ratio_limits limits = {};
    for (int k = 0; k < 2; k++) {
        limits.low[k] = -(center[k] + ratio_margin * size[k]) / focal[k];
        limits.high[k] = ((1 + ratio_margin) * size[k] - center[k]) / focal[k];
    }
    return limits;
}

// What kernels of a model hold of a mean: `type`. Each model's file says it.
template <int model, typename Denominator>
struct point_of_model;
template <int model, typename Denominator>
using point_of = typename point_of_model<model, Denominator>::type;

// By z, unless a model's file has another version:
// gs_splat.depth.
template <typename Point>
__device__ __forceinline__ float splat_depth(const Point &p) {
    return p.at[2];
}
// Adds to d_point, in camera space, from the gradient by gs_splat.depth.
template <typename Point>
__device__ __forceinline__ void add_depth_adjoint(const Point &, float d_depth, float d_point[3]) {
    d_point[2] += d_depth;
}
// Whether the camera may see the mean. angle_limit: for a fisheye.
template <typename Point>
__device__ __forceinline__ bool is_in_front(const gs_camera &camera, const Point &p, float) {
    return p.at[2] > camera.near_plane;
}

} // namespace gs
