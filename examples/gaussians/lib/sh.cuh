// SPDX-License-Identifier: MIT
// Spherical harmonics: the basis and the colour, with adjoints. math.md, sections 2 and 4.
#pragma once

#include "camera.cuh"
#include "warp_rows.cuh"

namespace gs {

constexpr int max_sh_coefficients = (GS_MAX_SH_DEGREE + 1) * (GS_MAX_SH_DEGREE + 1);

__host__ __device__ constexpr int sh_coefficients(int degree) {
    return (degree + 1) * (degree + 1);
}

// Floats of a Gaussian's row of coefficients.
__host__ __device__ constexpr int sh_floats(int degree) {
    return GS_CHANNELS * (degree + 1) * (degree + 1);
}

// ---- basis ----

// Writes the coefficients of `degree`; the rest of `out` stays as it is.
__device__ inline void sh_basis(int degree, const float r[3], float out[max_sh_coefficients]) {
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

// Adjoint of sh_basis: from the gradient d_basis to the gradient by r.
__device__ inline void sh_basis_adjoint(int degree, const float r[3],
                                        const float d_basis[max_sh_coefficients], float out[3]) {
    const float x = r[0], y = r[1], z = r[2], *g = d_basis;
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

// ---- colour ----

// Calls body(k, channel, value) for the coefficients of `degree`. row: of a Gaussian, `length` floats, of which these
// are read; 16-byte aligned if length is a multiple of 4.
template <int length, typename Body>
GS_DEVICE void for_coefficients(const float *row, int degree, const Body &body) {
    const int used = sh_floats(degree);
    DISTWAR_UNROLL
    for (int first = 0; first < length; first += 4) {
        float in[4] = {};
        if (first < used) read_four<length>(row + first, used - first, in);
        for (int e = 0; e < 4; e++)
            if (first + e < used) body((first + e) / GS_CHANNELS, (first + e) % GS_CHANNELS, in[e]);
    }
}

// 0.5 + SH, not clamped at 0.
template <int length>
__device__ void color_from_sh(const gs_camera &camera, const float *mean, const float *row, int degree,
                              float out[GS_CHANNELS]) {
    float center[3], basis[max_sh_coefficients] = {};
    negative_center(camera, center);
    const view_direction<divisor> view = view_direction_of<divisor>(center, mean);
    sh_basis(degree, view.unit, basis);
    for (int c = 0; c < GS_CHANNELS; c++) out[c] = 0.5f;
    for_coefficients<length>(row, degree,
                             [&](int k, int c, float in) { out[c] = fmaf(basis[k], in, out[c]); });
}

// Adjoint of color_from_sh by the mean. d_color: gradient by the colour.
template <int length>
GS_DEVICE void color_from_sh_adjoint(const view_direction<reciprocal> &view, const float *row, int degree,
                                     const float d_color[GS_CHANNELS], float d_mean[3]) {
    float d_basis[max_sh_coefficients] = {}, d_direction[3];
    for_coefficients<length>(row, degree,
                             [&](int k, int c, float in) { d_basis[k] = fmaf(d_color[c], in, d_basis[k]); });
    sh_basis_adjoint(degree, view.unit, d_basis, d_direction);
    view_direction_tangent(view, d_direction, d_mean);
}

// Adjoint of color_from_sh by the coefficients: adds to d_row, which stays 0 beyond `degree`.
template <int length>
GS_DEVICE void add_sh_adjoint(const view_direction<reciprocal> &view, int degree,
                              const float d_color[GS_CHANNELS], float d_row[length]) {
    float basis[max_sh_coefficients] = {};
    sh_basis(degree, view.unit, basis);
    DISTWAR_UNROLL
    for (int k = 0; k < length; k++)
        d_row[k] = fmaf(basis[k / GS_CHANNELS], d_color[k % GS_CHANNELS], d_row[k]);
}

} // namespace gs
