// SPDX-License-Identifier: MIT
// How a splat moves with the parameters of its Gaussian: docs/math.md, section 8.
#ifndef GS_LM_FOOTPRINT_CUH
#define GS_LM_FOOTPRINT_CUH

#include "project.cuh"
#include <distwar/lanes.cuh>

// A direction's share of one Gaussian's shape and place.
struct move {
    float mean[3], log_scale[3], quaternion[4];
};

// A unit of the k-th of these ten.
__device__ __forceinline__ move unit_move(int k) {
    move m = {};
    DISTWAR_UNROLL
    for (int j = 0; j < 3; j++) {
        m.mean[j] = k == j ? 1.0f : 0.0f;
        m.log_scale[j] = k == 3 + j ? 1.0f : 0.0f;
    }
    DISTWAR_UNROLL
    for (int j = 0; j < 4; j++) m.quaternion[j] = k == 6 + j ? 1.0f : 0.0f;
    return m;
}

// Of the derivative of log alpha: the coefficients of e0, e1, e0^2, e0 e1, e1^2.
struct footprint_tangent {
    float by[5];
};

// The derivative of rotation_matrix at q along t.
__device__ inline void rotation_tangent(const float q[4], const float t[4], float out[3][3]) {
    const float w = q[0], x = q[1], y = q[2], z = q[3];
    const float xx = 2 * x * t[1], yy = 2 * y * t[2], zz = 2 * z * t[3];
    const float xy = x * t[2] + y * t[1], xz = x * t[3] + z * t[1], yz = y * t[3] + z * t[2];
    const float wx = w * t[1] + x * t[0], wy = w * t[2] + y * t[0], wz = w * t[3] + z * t[0];
    out[0][0] = -2 * (yy + zz), out[0][1] = 2 * (xy - wz), out[0][2] = 2 * (xz + wy);
    out[1][0] = 2 * (xy + wz), out[1][1] = -2 * (xx + zz), out[1][2] = 2 * (yz - wx);
    out[2][0] = 2 * (xz - wy), out[2][1] = 2 * (yz + wx), out[2][2] = -2 * (xx + yy);
}

__device__ __forceinline__ footprint_tangent tangent_of(const gs_camera &camera, const gs_splat &splat,
                                                        const linear_view &v, const footprint &f,
                                                        const move &along) {
    const float *r = camera.rotation, z = v.p[2];
    float point[3], unit[4], turn[3][3];
    for (int row = 0; row < 3; row++)
        point[row] =
            r[3 * row] * along.mean[0] + r[3 * row + 1] * along.mean[1] + r[3 * row + 2] * along.mean[2];
    float radial = 0;
    for (int k = 0; k < 4; k++) radial += f.unit[k] * along.quaternion[k];
    for (int k = 0; k < 4; k++) unit[k] = (along.quaternion[k] - f.unit[k] * radial) / f.length;
    rotation_tangent(f.unit, unit, turn);

    float axes[3][3]; // of V = R Q S
    for (int j = 0; j < 3; j++)
        for (int row = 0; row < 3; row++)
            axes[row][j] = along.log_scale[j] * f.axes[row][j] +
                           f.scale[j] * (r[3 * row] * turn[0][j] + r[3 * row + 1] * turn[1][j] +
                                         r[3 * row + 2] * turn[2][j]);
    const float focal[2] = {camera.fx, camera.fy};
    float map[2][3], mean2d[2];
    for (int k = 0; k < 2; k++) {
        const float scale = focal[k] / z;
        const float ratio = v.ratio_cut[k] ? 0 : (point[k] - v.ratio[k] * point[2]) / z;
        for (int j = 0; j < 3; j++)
            map[k][j] = scale * (axes[k][j] - v.ratio[k] * axes[2][j] - ratio * f.axes[2][j]) -
                        point[2] / z * f.map[k][j];
        mean2d[k] = scale * (point[k] - v.p[k] / z * point[2]);
    }
    float xx = 0, xy = 0, yy = 0; // of the covariance
    for (int j = 0; j < 3; j++) {
        xx += 2 * f.map[0][j] * map[0][j];
        xy += f.map[0][j] * map[1][j] + f.map[1][j] * map[0][j];
        yy += 2 * f.map[1][j] * map[1][j];
    }
    const float w0 = splat.whiten[0], w1 = splat.whiten[1], w2 = splat.whiten[2];
    const float sx = w0 * xx + w1 * xy, sy = w0 * xy + w1 * yy, s = two_ln2 * two_ln2;
    return {{two_ln2 * (w0 * mean2d[0] + w1 * mean2d[1]), two_ln2 * w2 * mean2d[1],
             0.5f * s * (w0 * sx + w1 * sy), s * w2 * sy, 0.5f * s * w2 * w2 * yy}};
}

// How the direction of view turns as the mean moves.
__device__ __forceinline__ void turn_of(const float view[3], float distance, const float mean[3],
                                        float turn[3]) {
    const float radial = view[0] * mean[0] + view[1] * mean[1] + view[2] * mean[2];
    for (int k = 0; k < 3; k++) turn[k] = (mean[k] - view[k] * radial) / distance;
}

// The derivative of sh_basis at r along t.
__device__ __forceinline__ void sh_basis_tangent(int degree, const float r[3], const float t[3],
                                                 float out[16]) {
    const float x = r[0], y = r[1], z = r[2];
    for (int k = 0; k < 16; k++) out[k] = 0;
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

// Adds the derivative of the colour as the mean moves.
__device__ inline void add_color_tangent(const float *sh, int degree, const float view[3], float distance,
                                         const float mean[3], float color[3]) {
    float turn[3], basis[16];
    turn_of(view, distance, mean, turn);
    sh_basis_tangent(degree, view, turn, basis);
    DISTWAR_UNROLL
    for (int k = 1; k < 16; k++) {
        if (k >= sh_coefficients(degree)) break;
        for (int c = 0; c < 3; c++) color[c] = fmaf(basis[k], sh[3 * k + c], color[c]);
    }
}

#endif
