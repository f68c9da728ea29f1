// SPDX-License-Identifier: MIT
// How a camera sees a Gaussian: the steps of the projection that its value, its adjoint and its derivative
// along a direction (lm_footprint.cuh, lm_project.cu) share. Formulas: docs/math.md, section 2.
#ifndef GS_PROJECT_CUH
#define GS_PROJECT_CUH

#include "gs.h"
#include <cuda_runtime.h>
#include <math.h>

constexpr int project_block = 128;
constexpr float whiten_scale = 0.84932180028801907f; // sqrt(log2(e) / 2): |w^T d|^2 is an exponent of 2
constexpr float two_ln2 = 1.3862943611198906f;       // 1 / whiten_scale^2

__device__ inline float clamp(float x, float low, float high) {
    return fminf(fmaxf(x, low), high);
}

__device__ inline float squared(float x) {
    return x * x;
}

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

// Row `row` of R m + t. Row 2 alone decides what is behind the near plane.
__device__ inline float camera_space(const gs_camera &camera, const float *m, int row) {
    const float *r = camera.rotation + 3 * row;
    return fmaf(r[0], m[0], fmaf(r[1], m[1], fmaf(r[2], m[2], camera.translation[row])));
}

// How the camera sees a neighbourhood of a mean.
struct linear_view {
    float p[3];        // mean in camera space
    float ratio[2];    // x/z and y/z as used in J
    bool ratio_cut[2]; // the ratio was cut: no gradient through it
};

__device__ inline linear_view view_of(const gs_gaussians &gaussians, const gs_camera &camera, int64_t i) {
    linear_view v;
    for (int row = 0; row < 3; row++) v.p[row] = camera_space(camera, gaussians.mean + 3 * i, row);
    const float focal[2] = {camera.fx, camera.fy}, center[2] = {camera.cx, camera.cy};
    const float size[2] = {float(camera.width), float(camera.height)};
    for (int k = 0; k < 2; k++) {
        const float ratio = v.p[k] / v.p[2];
        v.ratio[k] =
            clamp(ratio, -(center[k] + 0.15f * size[k]) / focal[k], (1.15f * size[k] - center[k]) / focal[k]);
        v.ratio_cut[k] = v.ratio[k] != ratio;
    }
    return v;
}

// The path of scale and quaternion to the image; the adjoint walks it back.
struct footprint {
    float unit[4], length; // quaternion normalised, and its length
    float scale[3];
    float axes[3][3]; // V = R Q S: the Gaussian's axes in camera space, one a column
    float map[2][3];  // M = J V
};

__device__ inline footprint trace_footprint(const gs_gaussians &gaussians, const gs_camera &camera,
                                            const linear_view &v, int64_t i) {
    footprint f;
    const float *r = camera.rotation;
    const float4 g = reinterpret_cast<const float4 *>(gaussians.quaternion)[i];
    f.length = sqrtf(g.x * g.x + g.y * g.y + g.z * g.z + g.w * g.w);
    f.unit[0] = g.x / f.length, f.unit[1] = g.y / f.length, f.unit[2] = g.z / f.length,
    f.unit[3] = g.w / f.length;
    float q[3][3];
    rotation_matrix(f.unit, q);
    for (int j = 0; j < 3; j++) {
        f.scale[j] = gaussians.scale_modifier * expf(gaussians.log_scale[3 * i + j]);
        for (int row = 0; row < 3; row++)
            f.axes[row][j] = f.scale[j] * fmaf(r[3 * row], q[0][j],
                                               fmaf(r[3 * row + 1], q[1][j], r[3 * row + 2] * q[2][j]));
    }
    const float focal[2] = {camera.fx, camera.fy};
    for (int k = 0; k < 2; k++)
        for (int j = 0; j < 3; j++)
            f.map[k][j] = focal[k] / v.p[2] * (f.axes[k][j] - v.ratio[k] * f.axes[2][j]);
    return f;
}

__device__ inline int sh_coefficients(int degree) {
    return (degree + 1) * (degree + 1);
}

// The unit vector from the camera's centre to a mean; returns the distance.
__device__ inline float view_direction(const float *mean, const gs_camera &camera, float out[3]) {
    const float *r = camera.rotation, *t = camera.translation;
    for (int k = 0; k < 3; k++) out[k] = mean[k] + (r[k] * t[0] + r[3 + k] * t[1] + r[6 + k] * t[2]);
    const float distance = sqrtf(out[0] * out[0] + out[1] * out[1] + out[2] * out[2]);
    for (int k = 0; k < 3; k++) out[k] /= distance;
    return distance;
}

__device__ inline void sh_basis(int degree, const float r[3], float out[16]) {
    const float x = r[0], y = r[1], z = r[2];
    out[0] = 0.28209479177387814f;
    if (degree < 1) return;
    out[1] = -0.4886025119029199f * y;
    out[2] = 0.4886025119029199f * z;
    out[3] = -0.4886025119029199f * x;
    if (degree < 2) return;
    const float xx = x * x, yy = y * y, zz = z * z;
    out[4] = 1.0925484305920792f * x * y;
    out[5] = -1.0925484305920792f * y * z;
    out[6] = 0.31539156525252005f * (2 * zz - xx - yy);
    out[7] = -1.0925484305920792f * x * z;
    out[8] = 0.5462742152960396f * (xx - yy);
    if (degree < 3) return;
    out[9] = -0.5900435899266435f * y * (3 * xx - yy);
    out[10] = 2.890611442640554f * x * y * z;
    out[11] = -0.4570457994644658f * y * (4 * zz - xx - yy);
    out[12] = 0.3731763325901154f * z * (2 * zz - 3 * xx - 3 * yy);
    out[13] = -0.4570457994644658f * x * (4 * zz - xx - yy);
    out[14] = 1.445305721320277f * z * (xx - yy);
    out[15] = -0.5900435899266435f * x * (xx - 3 * yy);
}

// Adjoint of sh_basis: from the gradient g by the basis to the gradient by r.
__device__ inline void sh_basis_adjoint(int degree, const float r[3], const float g[16], float out[3]) {
    const float x = r[0], y = r[1], z = r[2];
    out[0] = out[1] = out[2] = 0;
    if (degree < 1) return;
    out[0] += -0.4886025119029199f * g[3];
    out[1] += -0.4886025119029199f * g[1];
    out[2] += 0.4886025119029199f * g[2];
    if (degree < 2) return;
    const float xx = x * x, yy = y * y, zz = z * z;
    const float g4 = 1.0925484305920792f * g[4], g5 = -1.0925484305920792f * g[5],
                g6 = 0.31539156525252005f * g[6];
    const float g7 = -1.0925484305920792f * g[7], g8 = 0.5462742152960396f * g[8];
    out[0] += y * g4 - 2 * x * g6 + z * g7 + 2 * x * g8;
    out[1] += x * g4 + z * g5 - 2 * y * g6 - 2 * y * g8;
    out[2] += y * g5 + 4 * z * g6 + x * g7;
    if (degree < 3) return;
    const float g9 = -0.5900435899266435f * g[9], g10 = 2.890611442640554f * g[10];
    const float g11 = -0.4570457994644658f * g[11], g12 = 0.3731763325901154f * g[12];
    const float g13 = -0.4570457994644658f * g[13], g14 = 1.445305721320277f * g[14];
    const float g15 = -0.5900435899266435f * g[15];
    out[0] += 6 * x * y * g9 + y * z * g10 - 2 * x * y * g11 - 6 * x * z * g12 +
              (4 * zz - 3 * xx - yy) * g13 + 2 * x * z * g14 + 3 * (xx - yy) * g15;
    out[1] += 3 * (xx - yy) * g9 + x * z * g10 + (4 * zz - xx - 3 * yy) * g11 - 6 * y * z * g12 -
              2 * x * y * g13 - 2 * y * z * g14 - 6 * x * y * g15;
    out[2] +=
        x * y * g10 + 8 * y * z * g11 + 3 * (2 * zz - xx - yy) * g12 + 8 * x * z * g13 + (xx - yy) * g14;
}

__device__ inline float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

// See gs_radii.
__device__ inline int32_t splat_radius(const gs_splat &splat, int width, int height) {
    int32_t radius = 0;
    if (splat.depth > 0) {
        const float l0 = splat.whiten[0] / whiten_scale, l2 = splat.whiten[2] / whiten_scale;
        const float slope = splat.whiten[1] / splat.whiten[0]; // the covariance's -b / c
        const float yy = 1 / (l2 * l2), xy = -slope * yy, xx = 1 / (l0 * l0) + slope * slope * yy;
        const float variance = 0.5f * (xx + yy) + hypotf(0.5f * (xx - yy), xy);
        const float half = fminf(ceilf(3 * sqrtf(variance)), 0x1p30f);
        if (splat.mean[0] + half > 0 && splat.mean[0] - half < float(width) && splat.mean[1] + half > 0 &&
            splat.mean[1] - half < float(height))
            radius = int32_t(half);
    }
    return radius;
}

#endif
