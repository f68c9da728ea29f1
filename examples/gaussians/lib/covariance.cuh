// SPDX-License-Identifier: MIT
// The shape of a Gaussian in the world and in the image: rotation, axes, covariance, conic. Each with its
// adjoint. docs/developers/math.md, sections 2 and 4.
//
// Two ways to the covariance of a splat: by the axes M = J V, with V = R Q S the Gaussian's axes in camera
// space, or by P C P^T from a covariance C of the world, with P = J R.
#pragma once

#include "camera.cuh"

namespace gs {

constexpr float default_eps2d = 0.3f;                    // pixels^2, gs_gaussians.eps2d unless given
constexpr float conic_sqrt_scale = 0.84932180028801907f; // sqrt(log2(e) / 2): |w^T d|^2 is an exponent of 2
constexpr float two_ln2 = 1.3862943611198906f;           // 1 / conic_sqrt_scale^2

__device__ inline float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

__device__ inline float squared(float x) {
    return x * x;
}

// a b - c d with an error of at most 1.5 ulp (Kahan's difference of products).
__device__ inline float difference_of_products(float a, float b, float c, float d) {
    const float cd = __fmul_rn(c, d);
    const float error = fmaf(-c, d, cd);
    return __fadd_rn(fmaf(a, b, -cd), error);
}

// ---- rotation ----

// The rotation of a unit quaternion (w, x, y, z), row-major.
__device__ inline void rotation_matrix(const float q[4], float out[3][3]) {
    const float w = q[0], x = q[1], y = q[2], z = q[3];
    out[0][0] = 1 - 2 * (y * y + z * z), out[0][1] = 2 * (x * y - w * z), out[0][2] = 2 * (x * z + w * y);
    out[1][0] = 2 * (x * y + w * z), out[1][1] = 1 - 2 * (x * x + z * z), out[1][2] = 2 * (y * z - w * x);
    out[2][0] = 2 * (x * z - w * y), out[2][1] = 2 * (y * z + w * x), out[2][2] = 1 - 2 * (x * x + y * y);
}

// Adjoint of rotation_matrix: from the gradient g by the matrix to the gradient by q.
__device__ inline void rotation_matrix_adjoint(const float q[4], const float g[3][3], float out[4]) {
    const float w = q[0], x = q[1], y = q[2], z = q[3];
    out[0] = 2 * (x * (g[2][1] - g[1][2]) + y * (g[0][2] - g[2][0]) + z * (g[1][0] - g[0][1]));
    out[1] = 2 * (y * (g[0][1] + g[1][0]) + z * (g[0][2] + g[2][0]) + w * (g[2][1] - g[1][2])) -
             4 * x * (g[1][1] + g[2][2]);
    out[2] = 2 * (x * (g[0][1] + g[1][0]) + z * (g[1][2] + g[2][1]) + w * (g[0][2] - g[2][0])) -
             4 * y * (g[0][0] + g[2][2]);
    out[3] = 2 * (x * (g[0][2] + g[2][0]) + y * (g[1][2] + g[2][1]) + w * (g[1][0] - g[0][1])) -
             4 * z * (g[0][0] + g[1][1]);
}

// ---- a Gaussian's shape ----

struct gaussian_shape {
    float unit[4], length; // the quaternion normalised, and its length
    float scale[3];        // with the modifier
    float rotation[3][3];  // Q
};

// Writes the quaternion of Gaussian i, normalised, and returns its length. NaN if that is 0.
__device__ inline float unit_quaternion_of(const gs_gaussians &gaussians, int64_t i, float unit[4]) {
    const float4 g = reinterpret_cast<const float4 *>(gaussians.quaternion)[i];
    const float length = sqrtf(g.x * g.x + g.y * g.y + g.z * g.z + g.w * g.w);
    unit[0] = g.x / length, unit[1] = g.y / length, unit[2] = g.z / length, unit[3] = g.w / length;
    return length;
}

__device__ inline gaussian_shape gaussian_shape_of(const gs_gaussians &gaussians, int64_t i) {
    gaussian_shape s;
    s.length = unit_quaternion_of(gaussians, i, s.unit);
    rotation_matrix(s.unit, s.rotation);
    for (int j = 0; j < 3; j++) {
        const float stored = gaussians.log_scale[3 * i + j];
        s.scale[j] = gaussians.scale_modifier * (gaussians.form != GS_RAW ? stored : expf(stored));
    }
    return s;
}

// The derivative of the unit quaternion along a change of the stored one. The matrix is symmetric, so this is
// its adjoint as well: from the gradient by the unit quaternion to the gradient by the stored one.
__device__ inline void unit_quaternion_tangent(const gaussian_shape &s, const float change[4], float out[4]) {
    float along = 0;
    for (int k = 0; k < 4; k++) along += s.unit[k] * change[k];
    for (int k = 0; k < 4; k++) out[k] = (change[k] - s.unit[k] * along) / s.length;
}

// ---- axes in the world ----

// W = Q S: axis j is column j.
GS_DEVICE void world_axes(const gaussian_shape &s, float out[3][3]) {
    for (int j = 0; j < 3; j++)
        for (int row = 0; row < 3; row++) out[row][j] = s.rotation[row][j] * s.scale[j];
}

// Adjoint of world_axes. d_axes: gradient by W.
GS_DEVICE void world_axes_adjoint(const gaussian_shape &s, const float axes[3][3], const float d_axes[3][3],
                                  float d_log_scale[3], float d_quaternion[4]) {
    float d_rotation[3][3], d_unit[4];
    for (int j = 0; j < 3; j++) {
        d_log_scale[j] = axes[0][j] * d_axes[0][j] + axes[1][j] * d_axes[1][j] + axes[2][j] * d_axes[2][j];
        for (int k = 0; k < 3; k++) d_rotation[k][j] = s.scale[j] * d_axes[k][j];
    }
    rotation_matrix_adjoint(s.unit, d_rotation, d_unit);
    unit_quaternion_tangent(s, d_unit, d_quaternion);
}

// ---- axes in the image ----

// axis[j]: column j of V = R Q S. map: M = J V.
struct image_axes {
    float axis[3][3];
    float map[2][3];
};

template <typename Point>
GS_DEVICE image_axes image_axes_of(const gs_camera &camera, const Point &p, const gaussian_shape &s) {
    image_axes a;
    const float *r = camera.rotation;
    for (int j = 0; j < 3; j++)
        for (int row = 0; row < 3; row++)
            a.axis[j][row] =
                s.scale[j] * fmaf(r[3 * row], s.rotation[0][j],
                                  fmaf(r[3 * row + 1], s.rotation[1][j], r[3 * row + 2] * s.rotation[2][j]));
    for (int k = 0; k < 2; k++)
        for (int j = 0; j < 3; j++) a.map[k][j] = p.jacobian_times(camera, k, a.axis[j]);
    return a;
}

// image_axes_of a shape whose axes W in the world are known.
template <typename Point>
GS_DEVICE image_axes image_axes_of(const gs_camera &camera, const Point &p, const float axes[3][3]) {
    image_axes a;
    for (int j = 0; j < 3; j++) {
        const float axis[3] = {axes[0][j], axes[1][j], axes[2][j]};
        for (int row = 0; row < 3; row++) a.axis[j][row] = to_camera(camera, axis, row);
        for (int k = 0; k < 2; k++) a.map[k][j] = p.jacobian_times(camera, k, a.axis[j]);
    }
    return a;
}

// Its adjoint. d_map: gradient by M. Adds the gradient by W to d_axes, and writes the one by J.
template <typename Point>
GS_DEVICE void add_image_axes_adjoint(const gs_camera &camera, const Point &p, const image_axes &a,
                                      const float d_map[2][3], float d_axes[3][3], float d_j[2][3]) {
    for (int k = 0; k < 2; k++)
        for (int row = 0; row < 3; row++)
            d_j[k][row] =
                d_map[k][0] * a.axis[0][row] + d_map[k][1] * a.axis[1][row] + d_map[k][2] * a.axis[2][row];
    for (int j = 0; j < 3; j++) {
        float d_axis[3] = {};
        for (int k = 0; k < 2; k++) p.add_jacobian_transposed(camera, k, d_map[k][j], d_axis);
        for (int row = 0; row < 3; row++) d_axes[row][j] += to_world(camera, d_axis, row);
    }
}

// ---- covariance in the image ----

// The covariance of a splat with eps2d on the diagonal, its determinant, and the determinant without eps2d.
struct image_covariance {
    float xx, xy, yy, determinant, sharp_determinant;
};

// The three minors of M, the cross product of its rows.
__device__ inline void minors(const float m[2][3], float out[3]) {
    out[0] = difference_of_products(m[0][1], m[1][2], m[0][2], m[1][1]);
    out[1] = difference_of_products(m[0][2], m[1][0], m[0][0], m[1][2]);
    out[2] = difference_of_products(m[0][0], m[1][1], m[0][1], m[1][0]);
}

// M M^T
__device__ inline image_covariance covariance_from_map(const float m[2][3], float eps2d = default_eps2d) {
    image_covariance s;
    s.xx = dot(m[0], m[0]), s.xy = dot(m[0], m[1]), s.yy = dot(m[1], m[1]);
    // Cauchy-Binet: every term is >= 0, so there is no cancellation even for a thin splat.
    float n[3];
    minors(m, n);
    s.sharp_determinant = squared(n[2]) + squared(n[1]) + squared(n[0]);
    s.determinant = s.sharp_determinant + eps2d * (s.xx + s.yy) + eps2d * eps2d;
    s.xx += eps2d;
    s.yy += eps2d;
    return s;
}

// Adjoint of covariance_from_map. g: twice the gradient by the covariance; d_log_sharp: by log sqrt(sharp_determinant).
__device__ inline void covariance_from_map_adjoint(const float m[2][3], const float g[2][2],
                                                   float d_log_sharp, float d_map[2][3]) {
    for (int k = 0; k < 2; k++)
        for (int j = 0; j < 3; j++) d_map[k][j] = g[k][0] * m[0][j] + g[k][1] * m[1][j];
    if (d_log_sharp != 0) {
        float n[3]; // by the minors: an inverse would cancel for a thin splat
        minors(m, n);
        const float scale = d_log_sharp / dot(n, n);
        for (int j = 0; j < 3; j++) {
            const int next = (j + 1) % 3, last = (j + 2) % 3;
            d_map[0][j] += scale * (m[1][next] * n[last] - m[1][last] * n[next]);
            d_map[1][j] += scale * (n[next] * m[0][last] - n[last] * m[0][next]);
        }
    }
}

// Row `row` of the symmetric matrix whose upper triangle is xx, xy, xz, yy, yz, zz.
__device__ inline void symmetric_row(const float *upper, int row, float out[3]) {
    out[0] = upper[row];
    out[1] = upper[row == 0 ? 1 : row + 2];
    out[2] = upper[row == 0 ? 2 : row + 3];
}

// P C P^T in double precision: C has no factor whose squares could be summed, and in float the rounding of a
// long splat can exceed eps2d.
__device__ inline void project_given(const float *given, const float p[2][3], double out[2][2]) {
    double pc[2][3];
    for (int k = 0; k < 2; k++)
        for (int row = 0; row < 3; row++) {
            float c[3];
            symmetric_row(given, row, c);
            pc[k][row] = double(p[k][0]) * c[0] + double(p[k][1]) * c[1] + double(p[k][2]) * c[2];
        }
    for (int k = 0; k < 2; k++)
        for (int l = 0; l < 2; l++) out[k][l] = pc[k][0] * p[l][0] + pc[k][1] * p[l][1] + pc[k][2] * p[l][2];
}

__device__ inline image_covariance covariance_from_given(const float *given, const float p[2][3],
                                                         float eps2d = default_eps2d) {
    double s[2][2];
    project_given(given, p, s);
    const double sharp = s[0][0] * s[1][1] - s[0][1] * s[0][1];
    const double xx = s[0][0] + double(eps2d), yy = s[1][1] + double(eps2d);
    return {float(xx), float(s[0][1]), float(yy), float(xx * yy - s[0][1] * s[0][1]), float(sharp)};
}

// Adjoint of covariance_from_given; arguments as for covariance_from_map_adjoint, but g is overwritten. d_given:
// P^T (g / 2) P, with off-diagonal entries counted twice. d_j: g (P C R^T).
__device__ inline void covariance_from_given_adjoint(const gs_camera &camera, const float *given,
                                                     const float p[2][3], float g[2][2], float d_log_sharp,
                                                     float *d_given, float d_j[2][3]) {
    float pc[2][3], right[2][3];
    if (d_log_sharp != 0) { // the inverse of P C P^T
        double s[2][2];
        project_given(given, p, s);
        const double scale = d_log_sharp / (s[0][0] * s[1][1] - s[0][1] * s[0][1]);
        g[0][0] += float(scale * s[1][1]);
        g[0][1] -= float(scale * s[0][1]);
        g[1][0] -= float(scale * s[0][1]);
        g[1][1] += float(scale * s[0][0]);
    }
    for (int row = 0; row < 3; row++) {
        float c[3];
        symmetric_row(given, row, c);
        for (int k = 0; k < 2; k++) {
            pc[k][row] = dot(p[k], c);
            right[k][row] = g[k][0] * p[0][row] + g[k][1] * p[1][row];
        }
    }
    for (int row = 0; row < 3; row++) {
        float map_axes[2]; // P C R^T
        for (int k = 0; k < 2; k++) map_axes[k] = dot(pc[k], camera.rotation + 3 * row);
        for (int k = 0; k < 2; k++) d_j[k][row] = g[k][0] * map_axes[0] + g[k][1] * map_axes[1];
    }
    for (int row = 0, at = 0; row < 3; row++)
        for (int column = row; column < 3; column++, at++)
            d_given[at] =
                (row == column ? 0.5f : 1.0f) * (p[0][row] * right[0][column] + p[1][row] * right[1][column]);
}

// ---- the square root of the conic ----

// gs_splat.conic_sqrt. Not finite unless the covariance is positive definite: the roots are NaN or divide by 0.
__device__ inline void conic_sqrt_of(const image_covariance &s, float out[3]) {
    const float root_y = sqrtf(s.yy), root = sqrtf(s.determinant);
    out[0] = conic_sqrt_scale * (root_y / root);
    out[1] = -conic_sqrt_scale * (s.xy / (root_y * root));
    out[2] = conic_sqrt_scale / root_y;
}

// From a splat's moments to gradients. d_mean2d = L (sum h e), by the mean in pixels; g = L (sum h e e^T)
// L^T, twice the gradient by the covariance.
GS_DEVICE void conic_sqrt_adjoint(const gs_splat &splat, float h_e0, float h_e1, float h_e0e0, float h_e0e1,
                                  float h_e1e1, float d_mean2d[2], float g[2][2]) {
    const float w0 = splat.conic_sqrt[0], w1 = splat.conic_sqrt[1], w2 = splat.conic_sqrt[2];
    d_mean2d[0] = two_ln2 * (w0 * h_e0);
    d_mean2d[1] = two_ln2 * (w1 * h_e0 + w2 * h_e1);
    const float t0 = w1 * h_e0e0 + w2 * h_e0e1, t1 = w1 * h_e0e1 + w2 * h_e1e1;
    const float s = two_ln2 * two_ln2;
    g[0][0] = s * w0 * w0 * h_e0e0;
    g[0][1] = g[1][0] = s * w0 * t0;
    g[1][1] = s * (w1 * t0 + w2 * t1);
}

// Half the side, in pixels, of the square around a splat: see gs_radii.
__device__ inline int32_t splat_radius(const gs_splat &splat, int width, int height) {
    if (!(splat.depth > 0)) return 0;
    const float l0 = splat.conic_sqrt[0] / conic_sqrt_scale, l2 = splat.conic_sqrt[2] / conic_sqrt_scale;
    const float slope = splat.conic_sqrt[1] / splat.conic_sqrt[0]; // the covariance's -b / c
    const float yy = 1 / (l2 * l2), xy = -slope * yy, xx = 1 / (l0 * l0) + slope * slope * yy;
    const float variance = 0.5f * (xx + yy) + hypotf(0.5f * (xx - yy), xy);
    const float half = fminf(ceilf(3 * sqrtf(variance)), 0x1p30f);
    const bool is_seen = splat.mean[0] + half > 0 && splat.mean[0] - half < float(width) &&
                         splat.mean[1] + half > 0 && splat.mean[1] - half < float(height);
    return is_seen ? int32_t(half) : 0;
}

} // namespace gs
