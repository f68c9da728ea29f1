// SPDX-License-Identifier: MIT
// The projection's derivative along a direction, and the diagonal of J^T J from what the blend has summed.
// Formulas: docs/math.md, section 8.
#include "gs_lm.h"
#include "launch.cuh"
#include "project.cuh"
#include "status.h"
#include <distwar/lanes.cuh>

namespace {

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
__device__ void rotation_tangent(const float q[4], const float t[4], float out[3][3]) {
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
__device__ void add_color_tangent(const float *sh, int degree, const float view[3], float distance,
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

// What several cameras see, by value to a kernel.
struct sights {
    gs_lm_sight of[GS_LM_SIGHTS];
};

// A Gaussian's coefficients, zeros beyond those that there are; all reads are under way together.
__device__ __forceinline__ void load_sh(const float *sh, int64_t i, int values, float out[48]) {
    const float *row = sh + i * values;
    DISTWAR_UNROLL
    for (int k = 0; k < 48; k += 4) {
        if (values % 4 == 0) { // every row is aligned to 16 bytes
            const float4 four =
                k < values ? *reinterpret_cast<const float4 *>(row + k) : make_float4(0, 0, 0, 0);
            out[k] = four.x, out[k + 1] = four.y, out[k + 2] = four.z, out[k + 3] = four.w;
        } else {
            DISTWAR_UNROLL
            for (int e = 0; e < 4; e++) out[k + e] = k + e < values ? row[k + e] : 0;
        }
    }
}

// Those beyond the degree are 0.
__device__ __forceinline__ void whole_sh_basis(int degree, const float view[3], float out[16]) {
    DISTWAR_UNROLL
    for (int k = 0; k < 16; k++) out[k] = 0;
    sh_basis(degree, view, out);
}

__global__ void __launch_bounds__(project_block)
    tangents_kernel(gs_gaussians gaussians, int degree, sights seen, int views, gs_gaussians direction) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= gaussians.count) return;

    move along;
    for (int k = 0; k < 3; k++) along.mean[k] = direction.mean[3 * i + k];
    for (int k = 0; k < 3; k++) along.log_scale[k] = direction.log_scale[3 * i + k];
    for (int k = 0; k < 4; k++) along.quaternion[k] = direction.quaternion[4 * i + k];
    const float by_opacity = (1 - sigmoid(gaussians.opacity_logit[i])) * direction.opacity_logit[i];
    const int values = 3 * sh_coefficients(gaussians.sh_degree);
    float sh[48], sh_direction[48];
    load_sh(gaussians.sh, i, values, sh);
    load_sh(direction.sh, i, values, sh_direction);
    for (int n = 0; n < views; n++) {
        const gs_camera &camera = seen.of[n].camera;
        const gs_splat splat = seen.of[n].splats[i];
        if (splat.depth == 0) continue;
        const linear_view v = view_of(gaussians, camera, i);
        const footprint_tangent t =
            tangent_of(camera, splat, v, trace_footprint(gaussians, camera, v, i), along);
        float view[3], turn[3], basis[16], basis_change[16], color[3] = {0, 0, 0};
        const float distance = view_direction(gaussians.mean + 3 * i, camera, view);
        turn_of(view, distance, along.mean, turn);
        whole_sh_basis(degree, view, basis);
        sh_basis_tangent(degree, view, turn, basis_change);
        DISTWAR_UNROLL
        for (int k = 0; k < 48; k++)
            color[k % 3] =
                fmaf(basis[k / 3], sh_direction[k], fmaf(basis_change[k / 3], sh[k], color[k % 3]));
        for (int c = 0; c < 3; c++)
            if (!(splat.color[c] > 0)) color[c] = 0;
        float4 *out = reinterpret_cast<float4 *>(seen.of[n].records + i * GS_LM_TANGENT_STRIDE);
        out[0] = make_float4(color[0], color[1], color[2], by_opacity);
        out[1] = make_float4(t.by[0], t.by[1], t.by[2], t.by[3]);
        out[2] = make_float4(t.by[4], 0, 0, 0);
    }
}

__device__ void put(float *to, bool add, float value) {
    *to = add ? *to + value : value;
}

// The transpose of tangents_kernel, by the same derivatives: a parameter's gradient is the moments times what
// a unit of it does.
__global__ void __launch_bounds__(project_block)
    gradients_kernel(gs_gaussians gaussians, int degree, sights seen, int views, bool add,
                     gs_gaussians gradients) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const int values = 3 * sh_coefficients(gaussians.sh_degree);
    float sh[48], by_sh[48] = {}, by_shape[10] = {}, by_opacity = 0;
    load_sh(gaussians.sh, i, values, sh);
    for (int n = 0; n < views; n++) {
        const gs_camera &camera = seen.of[n].camera;
        const gs_splat splat = seen.of[n].splats[i];
        if (splat.depth == 0) continue;
        const float4 *record = reinterpret_cast<const float4 *>(seen.of[n].records + i * GS_MOMENTS_STRIDE);
        const float4 first = record[0], second = record[1], third = record[2];
        const float moments[5] = {second.x, second.y, second.z, second.w, third.x};
        const float color[3] = {splat.color[0] > 0 ? first.x : 0, splat.color[1] > 0 ? first.y : 0,
                                splat.color[2] > 0 ? first.z : 0};
        by_opacity += first.w;

        const linear_view v = view_of(gaussians, camera, i);
        const footprint f = trace_footprint(gaussians, camera, v, i);
        DISTWAR_UNROLL
        for (int k = 0; k < 10; k++) {
            const footprint_tangent t = tangent_of(camera, splat, v, f, unit_move(k));
            DISTWAR_UNROLL
            for (int j = 0; j < 5; j++) by_shape[k] = fmaf(moments[j], t.by[j], by_shape[k]);
        }
        float view[3], basis[16], by_basis[16] = {};
        const float distance = view_direction(gaussians.mean + 3 * i, camera, view);
        whole_sh_basis(degree, view, basis);
        DISTWAR_UNROLL
        for (int k = 0; k < 48; k++) {
            by_sh[k] = fmaf(basis[k / 3], color[k % 3], by_sh[k]);
            by_basis[k / 3] = fmaf(color[k % 3], sh[k], by_basis[k / 3]);
        }
        DISTWAR_UNROLL
        for (int k = 0; k < 3; k++) {
            float turn[3], basis_change[16];
            turn_of(view, distance, unit_move(k).mean, turn);
            sh_basis_tangent(degree, view, turn, basis_change);
            DISTWAR_UNROLL
            for (int j = 1; j < 16; j++) by_shape[k] = fmaf(by_basis[j], basis_change[j], by_shape[k]);
        }
    }
    for (int k = 0; k < 3; k++) put(gradients.mean + 3 * i + k, add, by_shape[k]);
    for (int k = 0; k < 3; k++) put(gradients.log_scale + 3 * i + k, add, by_shape[3 + k]);
    for (int k = 0; k < 4; k++) put(gradients.quaternion + 4 * i + k, add, by_shape[6 + k]);
    put(gradients.opacity_logit + i, add, by_opacity * (1 - sigmoid(gaussians.opacity_logit[i])));
    float *row = gradients.sh + i * values;
    DISTWAR_UNROLL
    for (int k = 0; k < 48; k += 4) {
        if (k >= values) break;
        if (values % 4 == 0) {
            float4 *to = reinterpret_cast<float4 *>(row + k);
            const float4 before = add ? *to : make_float4(0, 0, 0, 0);
            *to = make_float4(before.x + by_sh[k], before.y + by_sh[k + 1], before.z + by_sh[k + 2],
                              before.w + by_sh[k + 3]);
        } else {
            DISTWAR_UNROLL
            for (int e = 0; e < 4; e++)
                if (k + e < values) put(row + k + e, add, by_sh[k + e]);
        }
    }
}

// Sum of weight (color change + change of log alpha)^2, from the sums of products. Never negative but for
// rounding.
__device__ float square_along(const float *s, const footprint_tangent &t, const float color[3]) {
    const float *k = t.by;
    float sum = k[0] * k[0] * s[4] + 2 * k[0] * k[1] * s[5] + k[1] * k[1] * s[6];
    sum += 2 * (k[0] * k[2] * s[7] + (k[0] * k[3] + k[1] * k[2]) * s[8] + (k[0] * k[4] + k[1] * k[3]) * s[9] +
                k[1] * k[4] * s[10]);
    sum += k[2] * k[2] * s[11] + 2 * k[2] * k[3] * s[12] + (k[3] * k[3] + 2 * k[2] * k[4]) * s[13] +
           2 * k[3] * k[4] * s[14] + k[4] * k[4] * s[15];
    for (int c = 0; c < 3; c++) {
        float cross = 0;
        for (int j = 0; j < 5; j++) cross = fmaf(k[j], s[16 + 5 * c + j], cross);
        sum += color[c] * (color[c] * s[c] + 2 * cross);
    }
    return fmaxf(sum, 0.0f);
}

__global__ void __launch_bounds__(project_block)
    add_diagonal_kernel(gs_gaussians gaussians, int degree, gs_camera camera, const gs_splat *splats,
                        const float *squares, gs_gaussians diagonal) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const gs_splat splat = splats[i];
    if (splat.depth == 0) return;
    const float *s = squares + i * GS_LM_SQUARES_STRIDE;

    const float by_logit = 1 - sigmoid(gaussians.opacity_logit[i]);
    diagonal.opacity_logit[i] += by_logit * by_logit * s[3];

    const linear_view v = view_of(gaussians, camera, i);
    const footprint f = trace_footprint(gaussians, camera, v, i);
    const int64_t first = i * sh_coefficients(gaussians.sh_degree) * 3;
    float view[3], basis[16];
    const float distance = view_direction(gaussians.mean + 3 * i, camera, view);
    for (int k = 0; k < 10; k++) {
        move along = {};
        float color[3] = {0, 0, 0};
        float *to;
        if (k < 3) {
            along.mean[k] = 1;
            to = diagonal.mean + 3 * i + k;
            add_color_tangent(gaussians.sh + first, degree, view, distance, along.mean, color);
            for (int c = 0; c < 3; c++)
                if (!(splat.color[c] > 0)) color[c] = 0;
        } else if (k < 6) {
            along.log_scale[k - 3] = 1;
            to = diagonal.log_scale + 3 * i + k - 3;
        } else {
            along.quaternion[k - 6] = 1;
            to = diagonal.quaternion + 4 * i + k - 6;
        }
        *to += square_along(s, tangent_of(camera, splat, v, f, along), color);
    }
    sh_basis(degree, view, basis);
    DISTWAR_UNROLL
    for (int k = 0; k < 16; k++) {
        if (k >= sh_coefficients(degree)) break;
        for (int c = 0; c < 3; c++)
            if (splat.color[c] > 0) diagonal.sh[first + 3 * k + c] += basis[k] * basis[k] * s[c];
    }
}

__device__ void add_where_seen(float *diagonal, int64_t i, int values, float what) {
    for (int k = 0; k < values; k++)
        if (diagonal[i * values + k] > 0) diagonal[i * values + k] += what;
}

__global__ void __launch_bounds__(project_block)
    add_units_kernel(gs_gaussians gaussians, float weight, gs_gaussians diagonal) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float *s = gaussians.log_scale + 3 * i, *q = gaussians.quaternion + 4 * i;
    const float square = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    add_where_seen(diagonal.mean, i, 3, weight * expf(-2.0f / 3.0f * (s[0] + s[1] + s[2])));
    add_where_seen(diagonal.log_scale, i, 3, weight);
    add_where_seen(diagonal.quaternion, i, 4, weight / square);
    add_where_seen(diagonal.opacity_logit, i, 1, weight);
    add_where_seen(diagonal.sh, i, 3 * sh_coefficients(gaussians.sh_degree), weight);
}

// The largest of what the update does to a Gaussian's place and shape: see gs_lm_limit.
__device__ float reach(const gs_gaussians &gaussians, const gs_gaussians &update, int64_t i) {
    const float *log_scale = gaussians.log_scale + 3 * i, *q = gaussians.quaternion + 4 * i;
    const float *mean = update.mean + 3 * i, *by = update.quaternion + 4 * i;
    const float length = sqrtf(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    float unit[4], radial = 0, axes[3][3], turn = 0, place = 0, most = 0.5f * fabsf(update.opacity_logit[i]);
    for (int k = 0; k < 4; k++) {
        unit[k] = q[k] / length;
        radial += unit[k] * by[k];
    }
    for (int k = 0; k < 4; k++) turn += squared((by[k] - unit[k] * radial) / length);
    rotation_matrix(unit, axes);
    const float longest = fmaxf(log_scale[0], fmaxf(log_scale[1], log_scale[2]));
    for (int j = 0; j < 3; j++) {
        const float along = axes[0][j] * mean[0] + axes[1][j] * mean[1] + axes[2][j] * mean[2];
        place += squared(along * expf(-fmaxf(log_scale[j], longest - 2)));
        most = fmaxf(most, fabsf(update.log_scale[3 * i + j]));
    }
    return fmaxf(most, fmaxf(2 * sqrtf(turn), sqrtf(place)));
}

__global__ void __launch_bounds__(project_block)
    limit_kernel(gs_gaussians gaussians, float radius, gs_gaussians update) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float most = reach(gaussians, update, i);
    if (!(most > radius)) return;
    const float by = radius / most;
    for (int k = 0; k < 3; k++) update.mean[3 * i + k] *= by;
    for (int k = 0; k < 3; k++) update.log_scale[3 * i + k] *= by;
    for (int k = 0; k < 4; k++) update.quaternion[4 * i + k] *= by;
    update.opacity_logit[i] *= by;
}

bool complete(const gs_gaussians *g) {
    return g->mean && g->log_scale && g->quaternion && g->opacity_logit && g->sh;
}

// *in becomes what the kernels read.
gs_status check(const char *function, const gs_gaussians *gaussians, int sh_degree_used,
                const gs_camera *camera, const gs_splat *splats, const gs_gaussians *other, gs_gaussians *in,
                int *degree) {
    GS_REQUIRE_OF(function, gaussians && camera && other, "gaussians, camera and a vector must be given");
    GS_REQUIRE_OF(function, gaussians->count >= 0 && gaussians->count < INT32_MAX,
                  "count must be in 0..2^31 - 2");
    GS_REQUIRE_OF(function, gaussians->sh_degree >= 0 && gaussians->sh_degree <= GS_MAX_SH_DEGREE,
                  "sh_degree must be in 0..3");
    GS_REQUIRE_OF(function, sh_degree_used >= 0, "sh_degree_used must not be negative");
    GS_REQUIRE_OF(function, !gaussians->color && !gaussians->covariance,
                  "given colours and covariances are not parameters");
    GS_REQUIRE_OF(function, !gaussians->antialias, "antialiased scenes are not taken");
    GS_REQUIRE_OF(function, other->count == gaussians->count && other->sh_degree == gaussians->sh_degree,
                  "the vector must have the shape of gaussians");
    GS_REQUIRE_OF(function, gaussians->count == 0 || (complete(gaussians) && complete(other) && splats),
                  "every array of gaussians and the vector, and splats, must be given");
    *in = *gaussians;
    if (in->scale_modifier == 0) in->scale_modifier = 1;
    *degree = sh_degree_used < in->sh_degree ? sh_degree_used : in->sh_degree;
    return GS_OK;
}

gs_status check_sights(const char *function, const gs_gaussians *gaussians, int sh_degree_used,
                       const gs_lm_sight *sights_seen, int views, const gs_gaussians *other, gs_gaussians *in,
                       int *degree, sights *seen) {
    GS_REQUIRE_OF(function, sights_seen && views >= 1 && views <= GS_LM_SIGHTS,
                  "from one to GS_LM_SIGHTS sights must be given");
    for (int n = 0; n < views; n++) {
        const gs_status status = check(function, gaussians, sh_degree_used, &sights_seen[n].camera,
                                       sights_seen[n].splats, other, in, degree);
        if (status != GS_OK) return status;
        GS_REQUIRE_OF(function, in->count == 0 || sights_seen[n].records, "records must be given");
        seen->of[n] = sights_seen[n];
    }
    return GS_OK;
}

} // namespace

gs_status gs_lm_tangents(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_sight *sights_seen,
                         int views, const gs_gaussians *direction, gs_stream stream) {
    gs_gaussians in = {};
    sights seen = {};
    int degree = 0;
    const gs_status status =
        check_sights(__func__, gaussians, sh_degree_used, sights_seen, views, direction, &in, &degree, &seen);
    if (status != GS_OK) return status;
    GS_CUDA(launch(stream, blocks_for(in.count, project_block), project_block, tangents_kernel, in, degree,
                   seen, views, *direction));
    return GS_OK;
}

gs_status gs_lm_gradients(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_sight *sights_seen,
                          int views, int add, const gs_gaussians *gradients, gs_stream stream) {
    gs_gaussians in = {};
    sights seen = {};
    int degree = 0;
    const gs_status status =
        check_sights(__func__, gaussians, sh_degree_used, sights_seen, views, gradients, &in, &degree, &seen);
    if (status != GS_OK) return status;
    GS_CUDA(launch(stream, blocks_for(in.count, project_block), project_block, gradients_kernel, in, degree,
                   seen, views, add != 0, *gradients));
    return GS_OK;
}

gs_status gs_lm_add_diagonal(const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *camera,
                             const gs_splat *splats, const float *squares, const gs_gaussians *diagonal,
                             gs_stream stream) {
    gs_gaussians in = {};
    int degree = 0;
    const gs_status status =
        check(__func__, gaussians, sh_degree_used, camera, splats, diagonal, &in, &degree);
    if (status != GS_OK) return status;
    GS_REQUIRE(in.count == 0 || squares, "squares must be given");
    GS_CUDA(launch(stream, blocks_for(in.count, project_block), project_block, add_diagonal_kernel, in,
                   degree, *camera, splats, squares, *diagonal));
    return GS_OK;
}

gs_status gs_lm_add_units(const gs_gaussians *gaussians, float weight, const gs_gaussians *diagonal,
                          gs_stream stream) {
    GS_REQUIRE(gaussians && diagonal && gaussians->count == diagonal->count &&
                   gaussians->sh_degree == diagonal->sh_degree,
               "gaussians and a vector of their shape must be given");
    GS_REQUIRE(gaussians->count == 0 || (complete(gaussians) && complete(diagonal)),
               "every array of gaussians and the vector must be given");
    GS_REQUIRE(weight >= 0 && isfinite(weight), "weight must be finite and not negative");
    GS_CUDA(launch(stream, blocks_for(gaussians->count, project_block), project_block, add_units_kernel,
                   *gaussians, weight, *diagonal));
    return GS_OK;
}

gs_status gs_lm_limit(const gs_gaussians *gaussians, float radius, const gs_gaussians *update,
                      gs_stream stream) {
    GS_REQUIRE(gaussians && update && gaussians->count == update->count &&
                   gaussians->sh_degree == update->sh_degree,
               "gaussians and a vector of their shape must be given");
    GS_REQUIRE(gaussians->count == 0 || (complete(gaussians) && complete(update)),
               "every array of gaussians and the vector must be given");
    GS_REQUIRE(radius > 0 && isfinite(radius), "radius must be finite and above 0");
    GS_CUDA(launch(stream, blocks_for(gaussians->count, project_block), project_block, limit_kernel,
                   *gaussians, radius, *update));
    return GS_OK;
}
