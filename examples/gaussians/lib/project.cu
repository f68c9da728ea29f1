// SPDX-License-Identifier: MIT
// Gaussians to splats: what one camera sees of each Gaussian, and the adjoint. Formulas: docs/math.md,
// sections 2 to 4.
#include "check.h"
#include "gs.h"
#include "launch.cuh"
#include "project.cuh"
#include "status.h"
#include "warp_rows.cuh"
#include <math.h>

namespace {

constexpr float low_pass = 0.3f;             // pixels^2 added to both variances
constexpr float min_opacity = 1.0f / 255.0f; // what cannot reach this alpha is never drawn
constexpr float min_log2_opacity = -7.994353436858858f;
constexpr int rows_block = 64; // of the kernels that move SH rows: a warp's rows are up to 6.5 KiB

// a b - c d, correctly rounded but for a last ulp (Kahan's difference of products).
__device__ float difference_of_products(float a, float b, float c, float d) {
    const float cd = __fmul_rn(c, d);
    const float error = fmaf(-c, d, cd);
    return __fadd_rn(fmaf(a, b, -cd), error);
}

// P = J R, which takes a covariance of the world to the image.
__device__ void screen_map(const gs_camera &camera, const linear_view &v, float out[2][3]) {
    const float focal[2] = {camera.fx, camera.fy}, *r = camera.rotation;
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) out[k][c] = focal[k] / v.p[2] * (r[3 * k + c] - v.ratio[k] * r[6 + c]);
}

// Row `row` of the symmetric matrix whose upper triangle is xx, xy, xz, yy, yz, zz.
__device__ void symmetric_row(const float *upper, int row, float out[3]) {
    out[0] = upper[row];
    out[1] = upper[row == 0 ? 1 : row + 2];
    out[2] = upper[row == 0 ? 2 : row + 3];
}

// The covariance of a splat, 0.3 on the diagonal included, its determinant, and what that is without the 0.3.
struct covariance2d {
    float xx, xy, yy, determinant, sharp_determinant;
};

// The three minors of the two rows of M.
__device__ void minors(const float m[2][3], float out[3]) {
    out[0] = difference_of_products(m[0][1], m[1][2], m[0][2], m[1][1]);
    out[1] = difference_of_products(m[0][2], m[1][0], m[0][0], m[1][2]);
    out[2] = difference_of_products(m[0][0], m[1][1], m[0][1], m[1][0]);
}

__device__ covariance2d covariance_from_axes(const float m[2][3]) {
    covariance2d s;
    s.xx = squared(m[0][0]) + squared(m[0][1]) + squared(m[0][2]);
    s.xy = m[0][0] * m[1][0] + m[0][1] * m[1][1] + m[0][2] * m[1][2];
    s.yy = squared(m[1][0]) + squared(m[1][1]) + squared(m[1][2]);
    // Cauchy-Binet: nothing negative is added, so a thin splat keeps its digits.
    float n[3];
    minors(m, n);
    s.sharp_determinant = squared(n[2]) + squared(n[1]) + squared(n[0]);
    s.determinant = s.sharp_determinant + low_pass * (s.xx + s.yy) + low_pass * low_pass;
    s.xx += low_pass;
    s.yy += low_pass;
    return s;
}

// A given covariance has no factor whose squares could be summed, and rounding P C P^T to floats can cost a
// long splat more than the 0.3: so this is done in double. s: P C P^T.
__device__ void project_given(const float *given, const float p[2][3], double s[2][2]) {
    double by_row[2][3];
    for (int k = 0; k < 2; k++)
        for (int row = 0; row < 3; row++) {
            float c[3];
            symmetric_row(given, row, c);
            by_row[k][row] = double(p[k][0]) * c[0] + double(p[k][1]) * c[1] + double(p[k][2]) * c[2];
        }
    for (int k = 0; k < 2; k++)
        for (int l = 0; l < 2; l++)
            s[k][l] = by_row[k][0] * p[l][0] + by_row[k][1] * p[l][1] + by_row[k][2] * p[l][2];
}

__device__ covariance2d covariance_from_given(const float *given, const float p[2][3]) {
    double s[2][2];
    project_given(given, p, s);
    const double sharp = s[0][0] * s[1][1] - s[0][1] * s[0][1];
    const double xx = s[0][0] + double(low_pass), yy = s[1][1] + double(low_pass);
    return {float(xx), float(s[0][1]), float(yy), float(xx * yy - s[0][1] * s[0][1]), float(sharp)};
}

// Of a row of coefficients.
__device__ constexpr int sh_floats(int degree) {
    return 3 * (degree + 1) * (degree + 1);
}

// 4 floats of a row of `length`, at once if rows are aligned for it; only the first so many are wanted.
template <int length>
__device__ void read_four(const float *from, int wanted, float out[4]) {
    if (length % 4 == 0) {
        const float4 four = *reinterpret_cast<const float4 *>(from);
        out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
    } else {
        for (int e = 0; e < 4; e++)
            if (e < wanted) out[e] = from[e];
    }
}

template <int length>
__device__ void write_four(const float in[4], int wanted, float *to) {
    if (length % 4 == 0) {
        *reinterpret_cast<float4 *>(to) = make_float4(in[0], in[1], in[2], in[3]);
    } else {
        for (int e = 0; e < 4; e++)
            if (e < wanted) to[e] = in[e];
    }
}

// 0.5 + SH, not cut at 0. row: the Gaussian's coefficients, of which those of `degree` are read.
template <int length>
__device__ void color_from_sh(const float *mean, const float *row, int degree, const gs_camera &camera,
                              float out[3]) {
    float r[3], basis[16] = {};
    view_direction(mean, camera, r);
    sh_basis(degree, r, basis);
    const int used = sh_floats(degree);
    for (int c = 0; c < 3; c++) out[c] = 0.5f;
    DISTWAR_UNROLL
    for (int v = 0; v < length; v += 4) {
        float in[4] = {};
        if (v < used) read_four<length>(row + v, used - v, in);
        for (int e = 0; e < 4; e++)
            if (v + e < used) out[(v + e) % 3] = fmaf(basis[(v + e) / 3], in[e], out[(v + e) % 3]);
    }
}

// sh_degree: what gaussians.sh has room for; anything if it is not read.
template <int sh_degree>
__global__ void __launch_bounds__(rows_block)
    project_kernel(gs_gaussians gaussians, int degree, gs_camera camera, gs_splat *splats) {
    constexpr int length = sh_floats(sh_degree);
    constexpr bool together = sh_degree >= 2; // a short row is there sooner if its lane reads it alone
    __shared__ warp_rows<together ? length : 1> memory[rows_block / 32];
    auto *const rows = &memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    const int64_t i = int64_t(blockIdx.x) * rows_block + threadIdx.x, first = i - lane;
    const bool exists = i < gaussians.count;

    float opacity_logit = 0;
    linear_view v = {};
    if (exists) {
        opacity_logit = gaussians.opacity_logit[i];
        v = view_of(gaussians, camera, i);
    }
    const bool may_be_seen = exists && v.p[2] > camera.near_plane && sigmoid(opacity_logit) >= min_opacity;
    if constexpr (together) {
        const unsigned wanted = __ballot_sync(distwar::all_lanes, may_be_seen);
        if (!gaussians.color)
            begin_rows<length>(gaussians.sh + first * length, wanted, sh_floats(degree), rows);
        finish_rows();
    }
    if (!exists) return;

    gs_splat splat = {};
    if (may_be_seen) {
        covariance2d s;
        if (gaussians.covariance) {
            float p[2][3];
            screen_map(camera, v, p);
            s = covariance_from_given(gaussians.covariance + 6 * i, p);
        } else {
            s = covariance_from_axes(trace_footprint(gaussians, camera, v, i).map);
        }
        // Roots of what is not positive definite are NaN or divide by zero: not finite, so culled.
        const float root_y = sqrtf(s.yy), root = sqrtf(s.determinant);
        splat.mean[0] = fmaf(camera.fx, v.p[0] / v.p[2], camera.cx);
        splat.mean[1] = fmaf(camera.fy, v.p[1] / v.p[2], camera.cy);
        splat.whiten[0] = whiten_scale * (root_y / root);
        splat.whiten[1] = -whiten_scale * (s.xy / (root_y * root));
        splat.whiten[2] = whiten_scale / root_y;
        splat.log2_opacity = -1.4426950408889634f * log1pf(expf(-opacity_logit));
        // The root of what is 0 is an infinite logarithm, and so culled like the others.
        if (gaussians.antialias) splat.log2_opacity += 0.5f * log2f(s.sharp_determinant / s.determinant);

        float color[3];
        if (gaussians.color) {
            for (int c = 0; c < 3; c++) splat.color[c] = color[c] = gaussians.color[3 * i + c];
        } else {
            const float *const row = together ? rows->row(lane) : gaussians.sh + i * length;
            color_from_sh<length>(gaussians.mean + 3 * i, row, degree, camera, color);
            for (int c = 0; c < 3; c++) splat.color[c] = fmaxf(color[c], 0.0f);
        }

        // A sum is finite only if all its terms are; fmaxf would have hidden a NaN colour.
        const bool finite = isfinite(splat.mean[0] + splat.mean[1]) &&
                            isfinite(s.xx + s.yy + s.determinant) &&
                            isfinite(splat.whiten[0] + splat.whiten[1] + splat.whiten[2]) &&
                            isfinite(splat.log2_opacity) && isfinite(color[0] + color[1] + color[2]);
        const bool faded = gaussians.antialias && splat.log2_opacity < min_log2_opacity;
        if (finite && !faded) splat.depth = v.p[2];
    }
    splats[i] = splat;
}

// What project_backward_kernel finds of one Gaussian, but for SH.
struct gradients_of_one {
    float mean[3], log_scale[3], quaternion[4], opacity_logit, mean2d[2], color[3], covariance[6];
};

// Adjoint of color_from_sh: puts the gradient of a Gaussian's coefficients in their place, in `row`, and
// returns, in by_mean, that of its mean.
template <int length>
__device__ void color_from_sh_adjoint(const float *mean, float *row, int degree, const gs_camera &camera,
                                      const float color[3], float by_mean[3]) {
    float direction[3], basis[16] = {}, by_basis[16] = {}, by_direction[3];
    const float distance = view_direction(mean, camera, direction);
    sh_basis(degree, direction, basis);
    const int used = sh_floats(degree);
    DISTWAR_UNROLL
    for (int v = 0; v < length; v += 4) {
        float in[4] = {}, out[4];
        if (v < used) read_four<length>(row + v, used - v, in);
        for (int e = 0; e < 4; e++) {
            const int k = (v + e) / 3, c = (v + e) % 3;
            if (v + e < used) by_basis[k] = fmaf(color[c], in[e], by_basis[k]);
            out[e] = v + e < used ? basis[k] * color[c] : 0;
        }
        write_four<length>(out, length - v, row + v);
    }
    sh_basis_adjoint(degree, direction, by_basis, by_direction);
    const float along =
        direction[0] * by_direction[0] + direction[1] * by_direction[1] + direction[2] * by_direction[2];
    for (int k = 0; k < 3; k++) by_mean[k] = (by_direction[k] - direction[k] * along) / distance;
}

// Adjoint of covariance_from_axes and trace_footprint. g: twice the gradient by the splat's covariance;
// by_sharp: by the logarithm of the root of the determinant without the 0.3. Returns the gradients of scale
// and quaternion, and that of J.
__device__ void footprint_adjoint(const gs_gaussians &gaussians, const gs_camera &camera,
                                  const linear_view &v, int64_t i, const float g[2][2], float by_sharp,
                                  gradients_of_one *gradients, float by_j[2][3]) {
    const footprint f = trace_footprint(gaussians, camera, v, i);
    const float focal[2] = {camera.fx, camera.fy}, *r = camera.rotation;
    float by_map[2][3];
    for (int k = 0; k < 2; k++)
        for (int j = 0; j < 3; j++) by_map[k][j] = g[k][0] * f.map[0][j] + g[k][1] * f.map[1][j];
    if (by_sharp != 0) {
        float n[3]; // by the minors, not by an inverse, in which a thin splat would lose its digits
        minors(f.map, n);
        const float scale = by_sharp / (squared(n[0]) + squared(n[1]) + squared(n[2]));
        for (int j = 0; j < 3; j++) {
            const int next = (j + 1) % 3, last = (j + 2) % 3;
            by_map[0][j] += scale * (f.map[1][next] * n[last] - f.map[1][last] * n[next]);
            by_map[1][j] += scale * (n[next] * f.map[0][last] - n[last] * f.map[0][next]);
        }
    }
    float axes[3][3] = {};
    for (int k = 0; k < 2; k++) {
        const float j_diagonal = focal[k] / v.p[2], j_depth = -j_diagonal * v.ratio[k];
        for (int j = 0; j < 3; j++) {
            axes[k][j] += j_diagonal * by_map[k][j];
            axes[2][j] += j_depth * by_map[k][j];
        }
        for (int row = 0; row < 3; row++)
            by_j[k][row] =
                by_map[k][0] * f.axes[row][0] + by_map[k][1] * f.axes[row][1] + by_map[k][2] * f.axes[row][2];
    }
    float by_rotation[3][3];
    for (int j = 0; j < 3; j++) {
        gradients->log_scale[j] =
            axes[0][j] * f.axes[0][j] + axes[1][j] * f.axes[1][j] + axes[2][j] * f.axes[2][j];
        for (int row = 0; row < 3; row++)
            by_rotation[row][j] =
                f.scale[j] * (r[row] * axes[0][j] + r[3 + row] * axes[1][j] + r[6 + row] * axes[2][j]);
    }
    float by_unit[4];
    rotation_matrix_adjoint(f.unit, by_rotation, by_unit);
    const float radial =
        f.unit[0] * by_unit[0] + f.unit[1] * by_unit[1] + f.unit[2] * by_unit[2] + f.unit[3] * by_unit[3];
    for (int k = 0; k < 4; k++) gradients->quaternion[k] = (by_unit[k] - f.unit[k] * radial) / f.length;
}

// Adjoint of covariance_from_given; arguments as above. Writes the gradient P^T (g / 2) P; returns that of J,
// g (P C R^T).
__device__ void given_covariance_adjoint(const float *given, const gs_camera &camera, const linear_view &v,
                                         const float by_covariance[2][2], float by_sharp, float *gradient,
                                         float by_j[2][3]) {
    float p[2][3], by_row[2][3], right[2][3], g[2][2];
    screen_map(camera, v, p);
    for (int k = 0; k < 2; k++)
        for (int l = 0; l < 2; l++) g[k][l] = by_covariance[k][l];
    if (by_sharp != 0) { // the inverse of P C P^T
        double s[2][2];
        project_given(given, p, s);
        const double scale = by_sharp / (s[0][0] * s[1][1] - s[0][1] * s[0][1]);
        g[0][0] += float(scale * s[1][1]);
        g[0][1] -= float(scale * s[0][1]);
        g[1][0] -= float(scale * s[0][1]);
        g[1][1] += float(scale * s[0][0]);
    }
    for (int row = 0; row < 3; row++) {
        float c[3];
        symmetric_row(given, row, c);
        for (int k = 0; k < 2; k++) {
            by_row[k][row] = p[k][0] * c[0] + p[k][1] * c[1] + p[k][2] * c[2];
            right[k][row] = g[k][0] * p[0][row] + g[k][1] * p[1][row];
        }
    }
    const float *r = camera.rotation;
    for (int row = 0; row < 3; row++) {
        float map_axes[2]; // P C R^T
        for (int k = 0; k < 2; k++)
            map_axes[k] =
                by_row[k][0] * r[3 * row] + by_row[k][1] * r[3 * row + 1] + by_row[k][2] * r[3 * row + 2];
        for (int k = 0; k < 2; k++) by_j[k][row] = g[k][0] * map_axes[0] + g[k][1] * map_axes[1];
    }
    for (int row = 0, at = 0; row < 3; row++)
        for (int column = row; column < 3; column++, at++)
            gradient[at] =
                (row == column ? 0.5f : 1.0f) * (p[0][row] * right[0][column] + p[1][row] * right[1][column]);
}

// All but SH, whose gradient by the colour it returns. sums: the splat's moments.
__device__ void project_adjoint(const gs_gaussians &gaussians, const gs_camera &camera, int64_t i,
                                const gs_splat &splat, const float sums[GS_MOMENTS],
                                gradients_of_one *gradients) {
    const float h = sums[3], h0 = sums[4], h1 = sums[5], h01 = sums[7];
    // The opacity is divided by the root of the determinant, whose logarithm has the gradient L L^T / 2.
    const float by_sharp = gaussians.antialias ? h : 0;
    const float h00 = sums[6] - by_sharp / two_ln2, h11 = sums[8] - by_sharp / two_ln2;
    const float w0 = splat.whiten[0], w1 = splat.whiten[1], w2 = splat.whiten[2];

    gradients->opacity_logit = h * (1 - sigmoid(gaussians.opacity_logit[i]));

    // By the mean in pixels: L (sum h e).
    const float mean2d[2] = {two_ln2 * (w0 * h0), two_ln2 * (w1 * h0 + w2 * h1)};
    gradients->mean2d[0] = mean2d[0] * 0.5f * float(camera.width);
    gradients->mean2d[1] = mean2d[1] * 0.5f * float(camera.height);

    // By the covariance, times two: L (sum h e e^T) L^T.
    const float t0 = w1 * h00 + w2 * h01, t1 = w1 * h01 + w2 * h11;
    const float s = two_ln2 * two_ln2;
    const float g[2][2] = {{s * w0 * w0 * h00, s * w0 * t0}, {s * w0 * t0, s * (w1 * t0 + w2 * t1)}};

    const linear_view v = view_of(gaussians, camera, i);
    float by_j[2][3];
    if (gaussians.covariance)
        given_covariance_adjoint(gaussians.covariance + 6 * i, camera, v, g, by_sharp, gradients->covariance,
                                 by_j);
    else
        footprint_adjoint(gaussians, camera, v, i, g, by_sharp, gradients, by_j);

    const float focal[2] = {camera.fx, camera.fy}, z = v.p[2];
    float point[3] = {0, 0, 0};
    for (int k = 0; k < 2; k++) {
        const float j_diagonal = focal[k] / z;
        const float by_diagonal = by_j[k][k], by_depth = by_j[k][2];
        point[2] -= (by_diagonal * j_diagonal - by_depth * j_diagonal * v.ratio[k]) / z;
        if (!v.ratio_cut[k]) {
            const float by_ratio = -by_depth * j_diagonal;
            point[k] += by_ratio / z;
            point[2] -= by_ratio * v.ratio[k] / z;
        }
        point[k] += mean2d[k] * j_diagonal;
        point[2] -= mean2d[k] * j_diagonal * (v.p[k] / z);
    }
    const float *r = camera.rotation;
    for (int k = 0; k < 3; k++)
        gradients->mean[k] = r[k] * point[0] + r[3 + k] * point[1] + r[6 + k] * point[2];
}

template <int length>
__device__ void store(const float *in, int64_t i, float *to) {
    if (to)
        for (int k = 0; k < length; k++) to[length * i + k] = in[k];
}

// The members of `gradients` that are not wanted are NULL. sh_degree as in project_kernel.
template <int sh_degree>
__global__ void __launch_bounds__(rows_block)
    project_backward_kernel(gs_gaussians gaussians, int degree, gs_camera camera, const gs_splat *splats,
                            const float *moments, gs_gaussians gradients, float *mean2d_gradient) {
    constexpr int length = sh_floats(sh_degree);
    __shared__ warp_rows<length> memory[rows_block / 32];
    warp_rows<length> *const rows = &memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    float *const row = rows->row(lane);
    const int64_t i = int64_t(blockIdx.x) * rows_block + threadIdx.x, first = i - lane;
    const bool exists = i < gaussians.count;

    // Who was culled, or met no pixel, has no gradient, and nothing more of it need be read.
    gs_splat splat = {};
    float sums[GS_MOMENTS] = {};
    bool has_gradient = false;
    if (exists) {
        splat = splats[i];
        const float4 *record = reinterpret_cast<const float4 *>(moments + i * GS_MOMENTS_STRIDE);
        const float4 a = record[0], b = record[1], c = record[2];
        const float sum[GS_MOMENTS] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x};
        for (int k = 0; k < GS_MOMENTS; k++) has_gradient |= (sums[k] = sum[k]) != 0;
        has_gradient &= splat.depth != 0;
    }
    const unsigned wanted = __ballot_sync(distwar::all_lanes, has_gradient);
    const unsigned existing = __ballot_sync(distwar::all_lanes, exists);
    if (!gaussians.color) begin_rows<length>(gaussians.sh + first * length, wanted, sh_floats(degree), rows);
    gradients_of_one g = {};
    if (has_gradient) project_adjoint(gaussians, camera, i, splat, sums, &g);
    finish_rows();

    if (has_gradient) {
        if (gaussians.color) {
            for (int c = 0; c < 3; c++) g.color[c] = sums[c];
        } else {
            float color[3], by_mean[3]; // a channel that was cut at 0 has no gradient
            for (int c = 0; c < 3; c++) color[c] = splat.color[c] > 0 ? sums[c] : 0;
            color_from_sh_adjoint<length>(gaussians.mean + 3 * i, row, degree, camera, color, by_mean);
            for (int k = 0; k < 3; k++) g.mean[k] += by_mean[k];
        }
    } else {
        const float zeros[4] = {};
        for (int v = 0; v < length; v += 4) write_four<length>(zeros, length - v, row + v);
    }
    __syncwarp();
    if (gradients.sh) store_rows<length>(rows, existing, gradients.sh + first * length);
    if (!exists) return;
    store<3>(g.mean, i, gradients.mean);
    store<3>(g.log_scale, i, gradients.log_scale);
    store<4>(g.quaternion, i, gradients.quaternion);
    store<1>(&g.opacity_logit, i, gradients.opacity_logit);
    store<3>(g.color, i, gradients.color);
    store<6>(g.covariance, i, gradients.covariance);
    store<2>(g.mean2d, i, mean2d_gradient);
}

__global__ void __launch_bounds__(project_block)
    radii_kernel(const gs_splat *splats, int64_t count, int width, int height, int32_t *radii) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= count) return;
    radii[i] = splat_radius(splats[i], width, height);
}

__global__ void __launch_bounds__(project_block)
    mark_visible_kernel(gs_gaussians gaussians, gs_camera camera, uint8_t *visible) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float z = camera_space(camera, gaussians.mean + 3 * i, 2);
    visible[i] = z > camera.near_plane && isfinite(z);
}

// *out becomes what the kernels read or write: arrays that the scene does not read become NULL.
gs_status readable(const char *function, const gs_gaussians *in, const gs_gaussians *scene,
                   gs_gaussians *out) {
    GS_TRY(check_degree(function, in->sh_degree));
    *out = *in;
    if (scene->color)
        out->sh = nullptr;
    else
        out->color = nullptr;
    if (scene->covariance)
        out->log_scale = out->quaternion = nullptr;
    else
        out->covariance = nullptr;
    if (in->count == 0) return GS_OK;
    GS_REQUIRE_OF(function, out->mean && out->opacity_logit, "mean and opacity_logit must be given");
    GS_REQUIRE_OF(function, scene->color ? out->color : out->sh,
                  "sh, or color, must be given, in gradients the same");
    GS_REQUIRE_OF(function,
                  scene->covariance ? out->covariance != nullptr : out->log_scale && out->quaternion,
                  "log_scale and quaternion, or covariance, must be given, in gradients the same");
    return GS_OK;
}

gs_status check(const char *function, const gs_view *view, gs_gaussians *out) {
    GS_TRY(check_extent(function, view));
    GS_TRY(check_camera(function, &view->camera));
    GS_TRY(readable(function, &view->gaussians, &view->gaussians, out));
    GS_REQUIRE_OF(function, out->scale_modifier >= 0 && isfinite(out->scale_modifier),
                  "scale_modifier must be finite and not negative");
    if (out->scale_modifier == 0) out->scale_modifier = 1;
    GS_REQUIRE_OF(function, view->sh_degree_used >= 0, "sh_degree_used must not be negative");
    GS_REQUIRE_OF(function, out->count == 0 || view->splats, "splats must be given");
    return GS_OK;
}

} // namespace

gs_status gs_project(const gs_view *view, gs_stream stream) {
    gs_gaussians in;
    GS_TRY(check(__func__, view, &in));
    constexpr decltype(&project_kernel<0>) of_degree[] = {project_kernel<0>, project_kernel<1>,
                                                          project_kernel<2>, project_kernel<3>};
    GS_CUDA(launch(stream, blocks_for(in.count, rows_block), rows_block,
                   of_degree[in.color ? 0 : in.sh_degree], in, used_degree(view->sh_degree_used, &in),
                   view->camera, view->splats));
    return GS_OK;
}

gs_status gs_project_backward(const gs_view *view, const gs_gradient *gradient, gs_stream stream) {
    gs_gaussians in, out;
    GS_TRY(check(__func__, view, &in));
    GS_REQUIRE(gradient, "gradient must be given");
    GS_REQUIRE(gradient->gaussians.count == in.count &&
                   (in.color || gradient->gaussians.sh_degree == in.sh_degree),
               "the gradient must have the shape of gaussians");
    GS_TRY(readable(__func__, &gradient->gaussians, &view->gaussians, &out));
    GS_REQUIRE(in.count == 0 || gradient->moments, "moments must be given");
    constexpr decltype(&project_backward_kernel<0>) of_degree[] = {
        project_backward_kernel<0>, project_backward_kernel<1>, project_backward_kernel<2>,
        project_backward_kernel<3>};
    GS_CUDA(launch(stream, blocks_for(in.count, rows_block), rows_block,
                   of_degree[in.color ? 0 : in.sh_degree], in, used_degree(view->sh_degree_used, &in),
                   view->camera, view->splats, reinterpret_cast<const float *>(gradient->moments), out,
                   gradient->mean2d));
    return GS_OK;
}

gs_status gs_radii(const gs_view *view, int32_t *radii, gs_stream stream) {
    GS_TRY(check_extent(__func__, view));
    const int64_t count = view->gaussians.count;
    GS_REQUIRE(count == 0 || (view->splats && radii), "splats and radii must be given");
    GS_CUDA(launch(stream, blocks_for(count, project_block), project_block, radii_kernel, view->splats, count,
                   view->camera.width, view->camera.height, radii));
    return GS_OK;
}

gs_status gs_mark_visible(const gs_view *view, uint8_t *visible, gs_stream stream) {
    GS_TRY(check_extent(__func__, view));
    GS_TRY(check_camera(__func__, &view->camera));
    const gs_gaussians &gaussians = view->gaussians;
    GS_REQUIRE(gaussians.count == 0 || (gaussians.mean && visible), "mean and visible must be given");
    GS_CUDA(launch(stream, blocks_for(gaussians.count, project_block), project_block, mark_visible_kernel,
                   gaussians, view->camera, visible));
    return GS_OK;
}
