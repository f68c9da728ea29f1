// SPDX-License-Identifier: MIT
// A fisheye (Kannala and Brandt 2006). The host's version: fisheye.h.
#pragma once

#include "geometry/pose.cuh"
#include <float.h>
#include <math.h>

namespace gs {

// The mean's angle theta off the axis becomes the radius D(theta) in the image, in focal lengths:
// D = theta (1 + k1 theta^2 + k2 theta^4 + k3 theta^6 + k4 theta^8). Quotients by the angle have limits on
// the axis.
struct fisheye_curve {
    float value_over_angle; // D / theta
    float slope;            // D'
    float bend_over_angle;  // D'' / theta
    float excess;           // (D' - D / theta) / theta^2
};

__device__ __forceinline__ fisheye_curve fisheye_curve_at(const float k[4], float angle) {
    const float w = angle * angle;
    return {fmaf(w, fmaf(w, fmaf(w, fmaf(w, k[3], k[2]), k[1]), k[0]), 1.0f),
            fmaf(w, fmaf(w, fmaf(w, fmaf(w, 9 * k[3], 7 * k[2]), 5 * k[1]), 3 * k[0]), 1.0f),
            fmaf(w, fmaf(w, fmaf(w, 72 * k[3], 42 * k[2]), 20 * k[1]), 6 * k[0]),
            fmaf(w, fmaf(w, fmaf(w, 8 * k[3], 6 * k[2]), 4 * k[1]), 2 * k[0])};
}

// A mean as a fisheye sees it.
struct fisheye_point {
    float at[3];    // camera space
    float distance; // from the camera
    float inv_distance;
    float angle;        // off the axis, 0..pi
    float sine, cosine; // of the angle
    float angle_over_sine;
    float outward[2]; // (x, y) / |(x, y)|; on the axis any direction serves
    fisheye_curve curve;
    float jacobian[2][3]; // J

    static __device__ __forceinline__ fisheye_point of(const gs_camera &camera, const ratio_limits &,
                                                       const float *mean) {
        fisheye_point p;
        for (int row = 0; row < 3; row++) p.at[row] = camera_space(camera, mean, row);
        const float square = p.at[0] * p.at[0] + p.at[1] * p.at[1], across = sqrtf(square);
        const bool off_axis = square > FLT_MIN;
        p.distance = sqrtf(fmaf(p.at[2], p.at[2], square));
        p.inv_distance = 1 / p.distance;
        p.angle = atan2f(across, p.at[2]);
        p.sine = across * p.inv_distance;
        p.cosine = p.at[2] * p.inv_distance;
        p.angle_over_sine = off_axis ? p.angle / p.sine : 1;
        p.outward[0] = off_axis ? p.at[0] / across : 1;
        p.outward[1] = off_axis ? p.at[1] / across : 0;
        p.curve = fisheye_curve_at(camera.distortion, p.angle);
        // Outwards the image stretches by the slope, around the axis by D / sin. No sum of these cancels.
        const float outward = p.curve.slope * p.cosine * p.inv_distance;
        const float around = p.curve.value_over_angle * p.angle_over_sine * p.inv_distance;
        const float along = -p.curve.slope * p.sine * p.inv_distance;
        const float e0 = p.outward[0], e1 = p.outward[1];
        p.jacobian[0][0] = camera.fx * (outward * e0 * e0 + around * e1 * e1);
        p.jacobian[0][1] = camera.fx * ((outward - around) * e0 * e1);
        p.jacobian[0][2] = camera.fx * (along * e0);
        p.jacobian[1][0] = camera.fy * ((outward - around) * e0 * e1);
        p.jacobian[1][1] = camera.fy * (outward * e1 * e1 + around * e0 * e0);
        p.jacobian[1][2] = camera.fy * (along * e1);
        return p;
    }
};

template <typename Denominator>
struct point_of_model<GS_FISHEYE, Denominator> {
    using type = fisheye_point;
};

// z is 0 at 90 degrees and negative beyond.
__device__ __forceinline__ float splat_depth(const fisheye_point &p) {
    return p.distance;
}
__device__ __forceinline__ void add_depth_adjoint(const fisheye_point &p, float d_depth, float d_point[3]) {
    for (int k = 0; k < 3; k++) d_point[k] += d_depth * p.at[k] * p.inv_distance;
}

__device__ __forceinline__ bool is_in_front(const gs_camera &camera, const fisheye_point &p,
                                            float angle_limit) {
    return p.distance > camera.near_plane && p.distance <= FLT_MAX && p.angle <= angle_limit;
}

__device__ __forceinline__ float projected_mean(const gs_camera &camera, const fisheye_point &p, int k) {
    return fmaf(focal_length(camera, k), p.curve.value_over_angle * p.angle * p.outward[k],
                image_center(camera, k));
}

__device__ __forceinline__ float jacobian_times(const gs_camera &, const fisheye_point &p, int k,
                                                const float v[3]) {
    return dot(p.jacobian[k], v);
}

__device__ __forceinline__ void add_jacobian_transposed(const gs_camera &, const fisheye_point &p, int k,
                                                        float d, float out[3]) {
    for (int i = 0; i < 3; i++) out[i] += p.jacobian[k][i] * d;
}

// (sin(2 theta) / (2 theta) - 1) / theta^2
__device__ __forceinline__ float sine_defect(const fisheye_point &p) {
    const float w = p.angle * p.angle;
    if (w < 0.25f) // of the next term 7e-10
        return fmaf(w,
                    fmaf(w, fmaf(w, fmaf(w, -2.5652114e-5f, 7.0546737e-4f), -1.26984127e-2f), 1.33333333e-1f),
                    -6.66666667e-1f);
    return (p.sine * p.cosine / p.angle - 1) / w;
}

// The change of row k of J as the point moves by v. The matrix, of second derivatives, is symmetric: it takes
// a gradient by row k to the gradient by the point as well. docs/developers/math.md, section 4.
__device__ __forceinline__ void second_derivative_times(const gs_camera &camera, const fisheye_point &p,
                                                        int k, const float v[3], float out[3]) {
    const float *const e = p.outward;
    const float slope = p.curve.slope, ratio = p.angle_over_sine;
    const float a = ratio * ratio * ratio * (slope * sine_defect(p) + p.curve.excess);
    const float a_z = 2 * slope - p.curve.bend_over_angle * ratio * p.cosine;
    const float b_z = p.curve.bend_over_angle * p.angle * p.sine + 2 * slope * p.cosine;
    const float focal = focal_length(camera, k) * (p.inv_distance * p.inv_distance);
    const float along = e[0] * v[0] + e[1] * v[1], x_v = p.sine * along, x_k = p.sine * e[k];
    const float outward = p.sine * a_z * v[2] - (3 * a + p.cosine * a_z) * along;
    for (int j = 0; j < 2; j++)
        out[j] = focal * (a * p.sine * e[j] * v[k] + x_k * (a * v[j] + e[j] * outward));
    out[k] += focal * (a * x_v - slope * v[2]);
    out[2] = focal * (x_k * (a_z * x_v + b_z * v[2]) - slope * v[k]);
}

__device__ __forceinline__ void add_projection_adjoint(const gs_camera &camera, const fisheye_point &p, int k,
                                                       const float d_row[3], float d_mean2d,
                                                       float d_point[3]) {
    float d_from_row[3];
    second_derivative_times(camera, p, k, d_row, d_from_row);
    for (int i = 0; i < 3; i++) d_point[i] += d_from_row[i] + p.jacobian[k][i] * d_mean2d;
}

__device__ __forceinline__ void intrinsics_adjoint(const gs_camera &camera, const fisheye_point &p, int k,
                                                   const float d_row[3], float d_mean2d, float *d_focal,
                                                   float *d_center) {
    *d_focal = d_mean2d * (p.curve.value_over_angle * p.angle * p.outward[k]) +
               dot(p.jacobian[k], d_row) / focal_length(camera, k);
    *d_center = d_mean2d;
}

} // namespace gs
