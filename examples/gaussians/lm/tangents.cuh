// SPDX-License-Identifier: MIT
// Derivatives along a change of a Gaussian's parameters: of its place and shape as a camera sees them, and of its colour.
// The values and their adjoints are in lib: camera.cuh, covariance.cuh and sh.cuh. A function here has the name of its
// value there. Also the covariance in the world and its adjoints, in which gradients are summed over views. Formulas:
// docs/developers/math.md, sections 2 and 8.
#pragma once

#include "project.cuh"

namespace gs {

// ---- a mean as a pinhole sees it ----

// The derivative of a camera_point along a change of the mean.
struct camera_point_tangent {
    float relative_depth; // of z, over z
    float ratio[2];
    float mean2d[2]; // pixels
};

GS_DEVICE camera_point_tangent camera_point_tangent_of(const gs_camera &camera,
                                                       const camera_point<reciprocal> &p,
                                                       const float mean_change[3]) {
    camera_point_tangent t;
    float at[3];
    for (int row = 0; row < 3; row++) at[row] = to_camera(camera, mean_change, row);
    t.relative_depth = at[2] / p.depth;
    for (int k = 0; k < 2; k++) {
        const float diagonal = focal_length(camera, k) / p.depth;
        t.ratio[k] = p.clamped[k] ? 0 : (at[k] - p.ratio[k] * at[2]) / p.depth;
        t.mean2d[k] = diagonal * (at[k] - p.at[k] * t.relative_depth);
    }
    return t;
}

// The derivative of P = J R. map: P.
GS_DEVICE void screen_map_tangent(const gs_camera &camera, const camera_point<reciprocal> &p,
                                  const camera_point_tangent &t, const float map[2][3], float out[2][3]) {
    for (int k = 0; k < 2; k++) {
        const float diagonal = focal_length(camera, k) / p.depth;
        for (int c = 0; c < 3; c++)
            out[k][c] = -diagonal * t.ratio[k] * camera.rotation[6 + c] - t.relative_depth * map[k][c];
    }
}

// ---- as an orthographic camera does ----

// The derivative of an ortho_point along a change of the mean.
struct ortho_point_tangent {
    float mean2d[2]; // pixels
};

GS_DEVICE ortho_point_tangent camera_point_tangent_of(const gs_camera &camera, const ortho_point &,
                                                      const float mean_change[3]) {
    ortho_point_tangent t;
    for (int k = 0; k < 2; k++) t.mean2d[k] = focal_length(camera, k) * to_camera(camera, mean_change, k);
    return t;
}

GS_DEVICE void screen_map_tangent(const gs_camera &, const ortho_point &, const ortho_point_tangent &,
                                  const float[2][3], float out[2][3]) {
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) out[k][c] = 0;
}

// ---- as a fisheye does ----

// The derivative of a fisheye_point along a change of the mean.
struct fisheye_point_tangent {
    float jacobian[2][3];
    float mean2d[2]; // pixels
};

GS_DEVICE fisheye_point_tangent camera_point_tangent_of(const gs_camera &camera, const fisheye_point &p,
                                                        const float mean_change[3]) {
    fisheye_point_tangent t;
    float at[3];
    for (int row = 0; row < 3; row++) at[row] = to_camera(camera, mean_change, row);
    for (int k = 0; k < 2; k++) {
        p.second_derivative_times(camera, k, at, t.jacobian[k]);
        t.mean2d[k] = dot(p.jacobian[k], at);
    }
    return t;
}

GS_DEVICE void screen_map_tangent(const gs_camera &camera, const fisheye_point &,
                                  const fisheye_point_tangent &t, const float[2][3], float out[2][3]) {
    const float *r = camera.rotation;
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) {
            const float column[3] = {r[c], r[3 + c], r[6 + c]};
            out[k][c] = dot(t.jacobian[k], column);
        }
}

// ---- the covariance in the world, of which the rasteriser keeps the factor ----

// A symmetric matrix: xx, xy, xz, yy, yz, zz.
struct symmetric {
    float at[6];
};

GS_DEVICE void times(const symmetric &m, const float v[3], float out[3]) {
    const float *a = m.at;
    out[0] = a[0] * v[0] + a[1] * v[1] + a[2] * v[2];
    out[1] = a[1] * v[0] + a[3] * v[1] + a[4] * v[2];
    out[2] = a[2] * v[0] + a[4] * v[1] + a[5] * v[2];
}

// W W^T
GS_DEVICE symmetric world_covariance(const float a[3][3]) {
    return {{dot(a[0], a[0]), dot(a[0], a[1]), dot(a[0], a[2]), dot(a[1], a[1]), dot(a[1], a[2]),
             dot(a[2], a[2])}};
}

// Adjoint of world_covariance and world_axes. d_covariance: twice the gradient as a full symmetric matrix.
GS_DEVICE void world_covariance_adjoint(const gaussian_shape &s, const float axes[3][3],
                                        const symmetric &d_covariance, float d_log_scale[3],
                                        float d_quaternion[4]) {
    float d_axes[3][3];
    for (int j = 0; j < 3; j++) {
        const float axis[3] = {axes[0][j], axes[1][j], axes[2][j]};
        float d_axis[3];
        times(d_covariance, axis, d_axis);
        for (int k = 0; k < 3; k++) d_axes[k][j] = d_axis[k];
    }
    world_axes_adjoint(s, axes, d_axes, d_log_scale, d_quaternion);
}

// Adjoint of P C P^T without eps2d and determinants, in float: adds twice the gradient by C, as a
// symmetric matrix, and writes the gradient by J.
GS_DEVICE void add_seen_covariance_adjoint(const gs_camera &camera, const symmetric &given,
                                           const float p[2][3], const float g[2][2], symmetric *d_given,
                                           float d_j[2][3]) {
    float gp[2][3];
    for (int k = 0; k < 2; k++) {
        float d_p[3];
        for (int c = 0; c < 3; c++) gp[k][c] = g[k][0] * p[0][c] + g[k][1] * p[1][c];
        times(given, gp[k], d_p);
        for (int row = 0; row < 3; row++) d_j[k][row] = dot(d_p, camera.rotation + 3 * row);
    }
    for (int a = 0, at = 0; a < 3; a++)
        for (int b = a; b < 3; b++, at++) d_given->at[at] += p[0][a] * gp[0][b] + p[1][a] * gp[1][b];
}

// ---- the shape in the world ----

// The derivative of rotation_matrix at q along t.
__device__ inline void rotation_matrix_tangent(const float q[4], const float t[4], float out[3][3]) {
    const float w = q[0], x = q[1], y = q[2], z = q[3];
    const float xx = 2 * x * t[1], yy = 2 * y * t[2], zz = 2 * z * t[3];
    const float xy = x * t[2] + y * t[1], xz = x * t[3] + z * t[1], yz = y * t[3] + z * t[2];
    const float wx = w * t[1] + x * t[0], wy = w * t[2] + y * t[0], wz = w * t[3] + z * t[0];
    out[0][0] = -2 * (yy + zz), out[0][1] = 2 * (xy - wz), out[0][2] = 2 * (xz + wy);
    out[1][0] = 2 * (xy + wz), out[1][1] = -2 * (xx + zz), out[1][2] = 2 * (yz - wx);
    out[2][0] = 2 * (xz - wy), out[2][1] = 2 * (yz + wx), out[2][2] = -2 * (xx + yy);
}

// The derivative of W W^T along changes of log scale and quaternion. a: W.
GS_DEVICE symmetric world_covariance_tangent(const gaussian_shape &s, const float a[3][3],
                                             const float log_scale_change[3],
                                             const float quaternion_change[4]) {
    float unit_change[4], t[3][3]; // t: of W
    unit_quaternion_tangent(s, quaternion_change, unit_change);
    rotation_matrix_tangent(s.unit, unit_change, t);
    for (int j = 0; j < 3; j++)
        for (int row = 0; row < 3; row++)
            t[row][j] = log_scale_change[j] * a[row][j] + s.scale[j] * t[row][j];
    return {{2 * dot(a[0], t[0]), dot(a[0], t[1]) + dot(t[0], a[1]), dot(a[0], t[2]) + dot(t[0], a[2]),
             2 * dot(a[1], t[1]), dot(a[1], t[2]) + dot(t[1], a[2]), 2 * dot(a[2], t[2])}};
}

// ---- the shape in the image ----

// The derivative of an image_covariance; eps2d is constant.
struct image_covariance_tangent {
    float xx, xy, yy;
};

// The derivative of P C P^T as P changes by p_change and C by given_change.
GS_DEVICE image_covariance_tangent covariance_from_given_tangent(const symmetric &given,
                                                                 const symmetric &given_change,
                                                                 const float p[2][3],
                                                                 const float p_change[2][3]) {
    float pc[2][3], pc_change[2][3];
    for (int k = 0; k < 2; k++) {
        times(given, p[k], pc[k]);
        times(given_change, p[k], pc_change[k]);
    }
    return {dot(p[0], pc_change[0]) + 2 * dot(p_change[0], pc[0]),
            dot(p[0], pc_change[1]) + dot(p_change[0], pc[1]) + dot(p_change[1], pc[0]),
            dot(p[1], pc_change[1]) + 2 * dot(p_change[1], pc[1])};
}

// ---- log alpha at a pixel ----

// The derivative of log alpha at a pixel: the coefficients of e0, e1, e0^2, e0 e1, e1^2. Transpose of
// conic_sqrt_adjoint.
struct log_alpha_tangent {
    float d[5];
};

GS_DEVICE log_alpha_tangent conic_sqrt_tangent(const gs_splat &splat, const float mean2d_change[2],
                                               const image_covariance_tangent &change) {
    const float w0 = splat.conic_sqrt[0], w1 = splat.conic_sqrt[1], w2 = splat.conic_sqrt[2];
    const float sx = w0 * change.xx + w1 * change.xy, sy = w0 * change.xy + w1 * change.yy,
                s = two_ln2 * two_ln2;
    return {{two_ln2 * (w0 * mean2d_change[0] + w1 * mean2d_change[1]), two_ln2 * w2 * mean2d_change[1],
             0.5f * s * (w0 * sx + w1 * sy), s * w2 * sy, 0.5f * s * w2 * w2 * change.yy}};
}

// ---- the colour ----

// The derivative of sh_basis at r along t; 0 beyond `degree`.
GS_DEVICE void sh_basis_tangent(int degree, const float r[3], const float t[3],
                                float out[max_sh_coefficients]) {
    const float x = r[0], y = r[1], z = r[2];
    for (int k = 0; k < max_sh_coefficients; k++) out[k] = 0;
    if (degree < 1) return;
    out[1] = -0.4886025119029199f * t[1];
    out[2] = 0.4886025119029199f * t[2];
    out[3] = -0.4886025119029199f * t[0];
    if (degree < 2) return;
    const float xx = 2 * x * t[0], yy = 2 * y * t[1], zz = 2 * z * t[2];
    const float xy = x * t[1] + y * t[0], yz = y * t[2] + z * t[1], xz = x * t[2] + z * t[0];
    out[4] = 1.0925484305920792f * xy;
    out[5] = -1.0925484305920792f * yz;
    out[6] = 0.31539156525252005f * (2 * zz - xx - yy);
    out[7] = -1.0925484305920792f * xz;
    out[8] = 0.5462742152960396f * (xx - yy);
    if (degree < 3) return;
    const float x2 = x * x, y2 = y * y, z2 = z * z;
    out[9] = -0.5900435899266435f * (t[1] * (3 * x2 - y2) + y * (3 * xx - yy));
    out[10] = 2.890611442640554f * (xy * z + x * y * t[2]);
    out[11] = -0.4570457994644658f * (t[1] * (4 * z2 - x2 - y2) + y * (4 * zz - xx - yy));
    out[12] = 0.3731763325901154f * (t[2] * (2 * z2 - 3 * x2 - 3 * y2) + z * (2 * zz - 3 * xx - 3 * yy));
    out[13] = -0.4570457994644658f * (t[0] * (4 * z2 - x2 - y2) + x * (4 * zz - xx - yy));
    out[14] = 1.445305721320277f * (t[2] * (x2 - y2) + z * (xx - yy));
    out[15] = -0.5900435899266435f * (t[0] * (x2 - 3 * y2) + x * (xx - 3 * yy));
}

// Adds the derivative of the colour along a change of the mean.
__device__ inline void add_color_tangent(const float *sh, int degree, const view_direction<reciprocal> &view,
                                         const float mean_change[3], float color[GS_CHANNELS]) {
    float direction_change[3], basis[max_sh_coefficients];
    view_direction_tangent(view, mean_change, direction_change);
    sh_basis_tangent(degree, view.unit, direction_change, basis);
    DISTWAR_UNROLL
    for (int k = 1; k < max_sh_coefficients; k++) {
        if (k >= sh_coefficients(degree)) break;
        for (int c = 0; c < GS_CHANNELS; c++) color[c] = fmaf(basis[k], sh[GS_CHANNELS * k + c], color[c]);
    }
}

// ---- one Gaussian in one view ----

// The constants of a view, the same for all Gaussians.
struct view_constants {
    ratio_limits limits;
    float negative_center[3];
};

__host__ __device__ inline view_constants view_constants_of(const gs_camera &camera) {
    view_constants v;
    v.limits = ratio_limits_of(camera);
    negative_center(camera, v.negative_center);
    return v;
}

// A mean as one camera sees it.
template <int model>
struct seen_mean {
    point_of<model, reciprocal> point;
    view_direction<reciprocal> direction;
};

template <int model>
GS_DEVICE seen_mean<model> seen_mean_of(const gs_camera &camera, const view_constants &v,
                                        const float mean[3]) {
    return {point_of<model, reciprocal>::of(camera, v.limits, mean),
            view_direction_of<reciprocal>(v.negative_center, mean)};
}

// The derivative of log alpha in one view. covariance and its change: of the world.
template <typename Point>
GS_DEVICE log_alpha_tangent log_alpha_tangent_of(const gs_camera &camera, const gs_splat &splat,
                                                 const Point &p, const symmetric &covariance,
                                                 const symmetric &covariance_change,
                                                 const float mean_change[3]) {
    const auto t = camera_point_tangent_of(camera, p, mean_change);
    float map[2][3], map_change[2][3];
    screen_map(camera, p, map);
    screen_map_tangent(camera, p, t, map, map_change);
    return conic_sqrt_tangent(splat, t.mean2d,
                              covariance_from_given_tangent(covariance, covariance_change, map, map_change));
}

} // namespace gs
