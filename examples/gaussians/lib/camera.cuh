// SPDX-License-Identifier: MIT
// The camera: where it sees a mean, the Jacobian J of that, and the direction of view, each with its adjoint. math.md,
// sections 2 and 4. No other kernel file depends on the camera model: kernels take it as a template argument, and the
// points of all models (GS_CAMERA_LIST) have the functions of a pinhole's. The host's version: lenses.h.
#pragma once

#include "device_code.h"
#include "distwar_gs.h"
#include <cuda_runtime.h>
#include <float.h>
#include <math.h>
#include <tuple>
#include <type_traits>

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
    return dot(camera.rotation + 3 * row, v);
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

// gs_splat.depth: z, unless a model has another version, as for the next two.
template <typename Point>
GS_DEVICE float splat_depth(const Point &p) {
    return p.at[2];
}
// Adds to d_point, in camera space, from the gradient by gs_splat.depth.
template <typename Point>
GS_DEVICE void add_depth_adjoint(const Point &, float d_depth, float d_point[3]) {
    d_point[2] += d_depth;
}
// Whether the camera may see the mean. angle_limit: for a fisheye.
template <typename Point>
GS_DEVICE bool is_in_front(const gs_camera &camera, const Point &p, float) {
    return p.at[2] > camera.near_plane;
}

// ---- pinhole: a mean appears at x = fx X / Z + cx, y = fy Y / Z + cy ----

// A mean as a pinhole sees it. Denominator: divisor or reciprocal.
template <typename Denominator>
struct camera_point {
    float at[3];       // camera space
    Denominator depth; // at[2]
    float ratio[2];    // x/z and y/z as J uses them
    bool clamped[2];   // the ratio was clamped: its derivative is 0

    static GS_DEVICE camera_point of(const gs_camera &camera, const ratio_limits &limits, const float *mean) {
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
    // Coordinate k of the mean in pixels.
    GS_DEVICE float projected_mean(const gs_camera &camera, int k) const {
        return fmaf(focal_length(camera, k), at[k] / depth, image_center(camera, k));
    }
    // (J v)_k for a direction v in camera space.
    GS_DEVICE float jacobian_times(const gs_camera &camera, int k, const float v[3]) const {
        return focal_length(camera, k) / depth * (v[k] - ratio[k] * v[2]);
    }
    // out += J^T (d in row k)
    GS_DEVICE void add_jacobian_transposed(const gs_camera &camera, int k, float d, float out[3]) const {
        const float diagonal = focal_length(camera, k) / depth;
        out[k] += diagonal * d;
        out[2] += -diagonal * ratio[k] * d;
    }
    // Adjoint of projected_mean and of J, for coordinate k. d_mean2d: gradient by the mean in pixels; d_row: by
    // row k of J. Adds the gradient by the point in camera space.
    GS_DEVICE void add_projection_adjoint(const gs_camera &camera, int k, const float d_row[3],
                                          float d_mean2d, float d_point[3]) const {
        const float diagonal = focal_length(camera, k) / depth;
        const float d_ratio = d_row[2] * diagonal; // negative
        d_point[2] -= (d_row[k] * diagonal - d_ratio * ratio[k]) / depth;
        if (!clamped[k]) {
            d_point[k] -= d_ratio / depth;
            d_point[2] += d_ratio * ratio[k] / depth;
        }
        d_point[k] += d_mean2d * diagonal;
        d_point[2] -= d_mean2d * diagonal * (at[k] / depth);
    }
    // The same by the intrinsics: writes the gradients by focal length and principal point of coordinate k. A clamped
    // ratio is a bound over the focal length: J then depends on the principal point, not on the focal length.
    GS_DEVICE void intrinsics_adjoint(const gs_camera &, int k, const float d_row[3], float d_mean2d,
                                      float *d_focal, float *d_center) const {
        const float d_last = d_row[2] / depth;
        *d_focal = d_mean2d * (at[k] / depth) + d_row[k] / depth - (clamped[k] ? 0 : d_last * ratio[k]);
        *d_center = d_mean2d + (clamped[k] ? d_last : 0);
    }
};

// ---- fisheye (Kannala and Brandt 2006) ----

// The mean's angle theta off the axis becomes the radius D(theta) in the image, in focal lengths:
// D = theta (1 + k1 theta^2 + k2 theta^4 + k3 theta^6 + k4 theta^8). Quotients by the angle have limits on the axis.
struct fisheye_curve {
    float value_over_angle; // D / theta
    float slope;            // D'
    float bend_over_angle;  // D'' / theta
    float excess;           // (D' - D / theta) / theta^2
};

GS_DEVICE fisheye_curve fisheye_curve_at(const float k[4], float angle) {
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

    static GS_DEVICE fisheye_point of(const gs_camera &camera, const ratio_limits &, const float *mean) {
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
    GS_DEVICE float projected_mean(const gs_camera &camera, int k) const {
        return fmaf(focal_length(camera, k), curve.value_over_angle * angle * outward[k],
                    image_center(camera, k));
    }
    GS_DEVICE float jacobian_times(const gs_camera &, int k, const float v[3]) const {
        return dot(jacobian[k], v);
    }
    GS_DEVICE void add_jacobian_transposed(const gs_camera &, int k, float d, float out[3]) const {
        for (int i = 0; i < 3; i++) out[i] += jacobian[k][i] * d;
    }
    // (sin(2 theta) / (2 theta) - 1) / theta^2
    GS_DEVICE float sine_defect() const {
        const float w = angle * angle;
        if (w < 0.25f) // of the next term 7e-10
            return fmaf(
                w, fmaf(w, fmaf(w, fmaf(w, -2.5652114e-5f, 7.0546737e-4f), -1.26984127e-2f), 1.33333333e-1f),
                -6.66666667e-1f);
        return (sine * cosine / angle - 1) / w;
    }
    // The change of row k of J as the point moves by v. The matrix, of second derivatives, is symmetric: it takes
    // a gradient by row k to the gradient by the point as well. docs/developers/math.md, section 4.
    GS_DEVICE void second_derivative_times(const gs_camera &camera, int k, const float v[3],
                                           float out[3]) const {
        const float *const e = outward;
        const float slope = curve.slope, ratio = angle_over_sine;
        const float a = ratio * ratio * ratio * (slope * sine_defect() + curve.excess);
        const float a_z = 2 * slope - curve.bend_over_angle * ratio * cosine;
        const float b_z = curve.bend_over_angle * angle * sine + 2 * slope * cosine;
        const float focal = focal_length(camera, k) * (inv_distance * inv_distance);
        const float along = e[0] * v[0] + e[1] * v[1], x_v = sine * along, x_k = sine * e[k];
        const float radial = sine * a_z * v[2] - (3 * a + cosine * a_z) * along;
        for (int j = 0; j < 2; j++)
            out[j] = focal * (a * sine * e[j] * v[k] + x_k * (a * v[j] + e[j] * radial));
        out[k] += focal * (a * x_v - slope * v[2]);
        out[2] = focal * (x_k * (a_z * x_v + b_z * v[2]) - slope * v[k]);
    }
    GS_DEVICE void add_projection_adjoint(const gs_camera &camera, int k, const float d_row[3],
                                          float d_mean2d, float d_point[3]) const {
        float d_from_row[3];
        second_derivative_times(camera, k, d_row, d_from_row);
        for (int i = 0; i < 3; i++) d_point[i] += d_from_row[i] + jacobian[k][i] * d_mean2d;
    }
    GS_DEVICE void intrinsics_adjoint(const gs_camera &camera, int k, const float d_row[3], float d_mean2d,
                                      float *d_focal, float *d_center) const {
        *d_focal = d_mean2d * (curve.value_over_angle * angle * outward[k]) +
                   dot(jacobian[k], d_row) / focal_length(camera, k);
        *d_center = d_mean2d;
    }
};

// z is 0 at 90 degrees and negative beyond.
GS_DEVICE float splat_depth(const fisheye_point &p) {
    return p.distance;
}
GS_DEVICE void add_depth_adjoint(const fisheye_point &p, float d_depth, float d_point[3]) {
    for (int k = 0; k < 3; k++) d_point[k] += d_depth * p.at[k] * p.inv_distance;
}
GS_DEVICE bool is_in_front(const gs_camera &camera, const fisheye_point &p, float angle_limit) {
    return p.distance > camera.near_plane && p.distance <= FLT_MAX && p.angle <= angle_limit;
}

// ---- orthographic: a mean appears at x = fx X + cx, y = fy Y + cy, whatever its depth; J is constant ----

// A mean as an orthographic camera sees it.
struct ortho_point {
    float at[3]; // camera space

    static GS_DEVICE ortho_point of(const gs_camera &camera, const ratio_limits &, const float *mean) {
        ortho_point p;
        for (int row = 0; row < 3; row++) p.at[row] = camera_space(camera, mean, row);
        return p;
    }
    GS_DEVICE float projected_mean(const gs_camera &camera, int k) const {
        return fmaf(focal_length(camera, k), at[k], image_center(camera, k));
    }
    GS_DEVICE float jacobian_times(const gs_camera &camera, int k, const float v[3]) const {
        return focal_length(camera, k) * v[k];
    }
    GS_DEVICE void add_jacobian_transposed(const gs_camera &camera, int k, float d, float out[3]) const {
        out[k] += focal_length(camera, k) * d;
    }
    GS_DEVICE void add_projection_adjoint(const gs_camera &camera, int k, const float[3], float d_mean2d,
                                          float d_point[3]) const {
        d_point[k] += focal_length(camera, k) * d_mean2d;
    }
    GS_DEVICE void intrinsics_adjoint(const gs_camera &, int k, const float d_row[3], float d_mean2d,
                                      float *d_focal, float *d_center) const {
        *d_focal = d_mean2d * at[k] + d_row[k];
        *d_center = d_mean2d;
    }
};

// ---- all models ----

// What kernels of a model keep of a mean, with the functions of camera_point: in the order of GS_CAMERA_LIST.
template <int model, typename Denominator>
using point_of =
    std::tuple_element_t<model, std::tuple<camera_point<Denominator>, fisheye_point, ortho_point>>;

// body(model) with the model, or another number of 0..last, as a compile-time constant.
template <int last = GS_CAMERA_MODELS - 1, typename Body>
auto with_model(int32_t model, const Body &body) {
    if constexpr (last > 0)
        if (model != last) return with_model<last - 1>(model, body);
    return body(std::integral_constant<int, last>());
}

// kernel<model>, on the host.
#define GS_OF_MODEL(kernel, model) gs::with_model((model), [](auto of) { return kernel<of>; })

// P = J R, which takes directions of the world to the image.
template <typename Point>
GS_DEVICE void screen_map(const gs_camera &camera, const Point &p, float out[2][3]) {
    const float *r = camera.rotation;
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) {
            const float column[3] = {r[c], r[3 + c], r[6 + c]};
            out[k][c] = p.jacobian_times(camera, k, column);
        }
}

// ---- direction of view ----

// Minus the camera's centre: R^T t.
__host__ __device__ inline void negative_center(const gs_camera &camera, float out[3]) {
    for (int k = 0; k < 3; k++) out[k] = to_world(camera, camera.translation, k);
}

// From the camera's centre to a mean.
template <typename Denominator>
struct view_direction {
    float unit[3];
    Denominator distance;
};

template <typename Denominator>
GS_DEVICE view_direction<Denominator> view_direction_of(const float negative_center[3], const float *mean) {
    view_direction<Denominator> v;
    for (int k = 0; k < 3; k++) v.unit[k] = mean[k] + negative_center[k];
    v.distance = Denominator::of(sqrtf(dot(v.unit, v.unit)));
    for (int k = 0; k < 3; k++) v.unit[k] = v.unit[k] / v.distance;
    return v;
}

// The derivative of the unit vector along a change of the mean. The matrix is symmetric, so this is its
// adjoint as well: from the gradient by the unit vector to the gradient by the mean.
template <typename Denominator>
GS_DEVICE void view_direction_tangent(const view_direction<Denominator> &v, const float mean_change[3],
                                      float out[3]) {
    const float along = dot(v.unit, mean_change);
    for (int k = 0; k < 3; k++) out[k] = (mean_change[k] - v.unit[k] * along) / v.distance;
}

} // namespace gs
