// SPDX-License-Identifier: MIT
// The projection's derivative along a direction and the adjoint, of several cameras at once; the diagonal of
// J^T J from what the blend has summed; how far an update may go.
// Formulas: docs/math.md, section 8.
#include "check.h"
#include "gs_lm.h"
#include "launch.cuh"
#include "lm/footprint.cuh"
#include "warp_rows.cuh"
#include <distwar/lanes.cuh>

namespace {

// What several cameras see, by value to a kernel.
struct sights {
    gs_lm_view of[GS_LM_VIEWS];
    struct {
        float low[2], high[2]; // limits of the ratios that view_of cuts
        float center[3];       // of the camera, in the world, negative
    } given[GS_LM_VIEWS];      // what would be the same for all Gaussians
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

__device__ void put(float *to, bool add, float value) {
    *to = add ? *to + value : value;
}

// A symmetric matrix: xx, xy, xz, yy, yz, zz.
struct symmetric {
    float at[6];
};

__device__ __forceinline__ void times(const symmetric &m, const float v[3], float out[3]) {
    const float *a = m.at;
    out[0] = a[0] * v[0] + a[1] * v[1] + a[2] * v[2];
    out[1] = a[1] * v[0] + a[3] * v[1] + a[4] * v[2];
    out[2] = a[2] * v[0] + a[4] * v[1] + a[5] * v[2];
}

__device__ __forceinline__ float dot(const float a[3], const float b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

// A Gaussian's shape in the world, the same for all cameras: W = Q S.
struct shape {
    float unit[4], length; // quaternion normalised, and its length
    float scale[3], axes[3][3];
};

__device__ __forceinline__ shape shape_of(const gs_gaussians &gaussians, int64_t i) {
    shape s;
    const float4 g = reinterpret_cast<const float4 *>(gaussians.quaternion)[i];
    s.length = sqrtf(g.x * g.x + g.y * g.y + g.z * g.z + g.w * g.w);
    s.unit[0] = g.x / s.length, s.unit[1] = g.y / s.length, s.unit[2] = g.z / s.length,
    s.unit[3] = g.w / s.length;
    rotation_matrix(s.unit, s.axes);
    for (int j = 0; j < 3; j++) {
        s.scale[j] = gaussians.scale_modifier * expf(gaussians.log_scale[3 * i + j]);
        for (int row = 0; row < 3; row++) s.axes[row][j] *= s.scale[j];
    }
    return s;
}

// W W^T, and how it changes as W does.
__device__ __forceinline__ symmetric covariance_of(const float a[3][3]) {
    return {{dot(a[0], a[0]), dot(a[0], a[1]), dot(a[0], a[2]), dot(a[1], a[1]), dot(a[1], a[2]),
             dot(a[2], a[2])}};
}

__device__ __forceinline__ symmetric covariance_tangent(const float a[3][3], const float t[3][3]) {
    return {{2 * dot(a[0], t[0]), dot(a[0], t[1]) + dot(t[0], a[1]), dot(a[0], t[2]) + dot(t[0], a[2]),
             2 * dot(a[1], t[1]), dot(a[1], t[2]) + dot(t[1], a[2]), 2 * dot(a[2], t[2])}};
}

// linear_view and view_direction by one quotient each.
struct sight_of_one {
    float p[3], ratio[2], by_z; // as in linear_view, 1 / p[2]
    bool ratio_cut[2];
    float view[3], by_distance;
};

__device__ __forceinline__ sight_of_one sight_from(const sights &seen, int n, const float mean[3]) {
    sight_of_one v;
    for (int row = 0; row < 3; row++) v.p[row] = camera_space(seen.of[n].camera, mean, row);
    v.by_z = 1 / v.p[2];
    for (int k = 0; k < 2; k++) {
        const float ratio = v.p[k] * v.by_z;
        v.ratio[k] = clamp(ratio, seen.given[n].low[k], seen.given[n].high[k]);
        v.ratio_cut[k] = v.ratio[k] != ratio;
    }
    for (int k = 0; k < 3; k++) v.view[k] = mean[k] + seen.given[n].center[k];
    v.by_distance = 1 / sqrtf(dot(v.view, v.view));
    for (int k = 0; k < 3; k++) v.view[k] *= v.by_distance;
    return v;
}

// What one camera makes of the derivatives; covariance and its change are the world's.
__device__ __forceinline__ footprint_tangent seen_tangent(const gs_camera &camera, const gs_splat &splat,
                                                          const sight_of_one &v, const symmetric &covariance,
                                                          const symmetric &covariance_change,
                                                          const float mean[3]) {
    const float *r = camera.rotation;
    const float by_z = v.by_z, focal[2] = {camera.fx, camera.fy};
    float point[3], p[2][3], p_change[2][3], spread[2][3], spread_change[2][3], mean2d[2];
    for (int row = 0; row < 3; row++)
        point[row] = r[3 * row] * mean[0] + r[3 * row + 1] * mean[1] + r[3 * row + 2] * mean[2];
    const float nearer = point[2] * by_z;
    for (int k = 0; k < 2; k++) {
        const float scale = focal[k] * by_z;
        const float ratio = v.ratio_cut[k] ? 0 : (point[k] - v.ratio[k] * point[2]) * by_z;
        for (int c = 0; c < 3; c++) {
            p[k][c] = scale * (r[3 * k + c] - v.ratio[k] * r[6 + c]);
            p_change[k][c] = -scale * ratio * r[6 + c] - nearer * p[k][c];
        }
        times(covariance, p[k], spread[k]);
        times(covariance_change, p[k], spread_change[k]);
        mean2d[k] = scale * (point[k] - v.p[k] * nearer);
    }
    const float xx = dot(p[0], spread_change[0]) + 2 * dot(p_change[0], spread[0]);
    const float xy = dot(p[0], spread_change[1]) + dot(p_change[0], spread[1]) + dot(p_change[1], spread[0]);
    const float yy = dot(p[1], spread_change[1]) + 2 * dot(p_change[1], spread[1]);
    const float w0 = splat.whiten[0], w1 = splat.whiten[1], w2 = splat.whiten[2];
    const float sx = w0 * xx + w1 * xy, sy = w0 * xy + w1 * yy, s = two_ln2 * two_ln2;
    return {{two_ln2 * (w0 * mean2d[0] + w1 * mean2d[1]), two_ln2 * w2 * mean2d[1],
             0.5f * s * (w0 * sx + w1 * sy), s * w2 * sy, 0.5f * s * w2 * w2 * yy}};
}

// The adjoint of seen_tangent: adds to the gradients by the covariance, off the diagonal those of either of
// the two places, and by the mean.
__device__ __forceinline__ void add_seen_adjoint(const gs_camera &camera, const gs_splat &splat,
                                                 const sight_of_one &v, const symmetric &covariance,
                                                 const float moments[5], symmetric *by_covariance,
                                                 float by_mean[3]) {
    const float *r = camera.rotation;
    const float by_z = v.by_z, focal[2] = {camera.fx, camera.fy};
    const float w0 = splat.whiten[0], w1 = splat.whiten[1], w2 = splat.whiten[2];
    const float mean2d[2] = {two_ln2 * (w0 * moments[0]), two_ln2 * (w1 * moments[0] + w2 * moments[1])};
    // Twice that by the splat's covariance.
    const float t0 = w1 * moments[2] + w2 * moments[3], t1 = w1 * moments[3] + w2 * moments[4];
    const float s = two_ln2 * two_ln2;
    const float g[2][2] = {{s * w0 * w0 * moments[2], s * w0 * t0}, {s * w0 * t0, s * (w1 * t0 + w2 * t1)}};
    float p[2][3], g_p[2][3], point[3] = {0, 0, 0};
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) p[k][c] = focal[k] * by_z * (r[3 * k + c] - v.ratio[k] * r[6 + c]);
    for (int k = 0; k < 2; k++) {
        float by_p[3];
        for (int c = 0; c < 3; c++) g_p[k][c] = g[k][0] * p[0][c] + g[k][1] * p[1][c];
        times(covariance, g_p[k], by_p);
        const float scale = focal[k] * by_z, by_depth = dot(by_p, r + 6) * scale;
        point[2] -= (dot(by_p, r + 3 * k) * scale - by_depth * v.ratio[k]) * by_z;
        if (!v.ratio_cut[k]) {
            point[k] -= by_depth * by_z;
            point[2] += by_depth * v.ratio[k] * by_z;
        }
        point[k] += mean2d[k] * scale;
        point[2] -= mean2d[k] * scale * (v.p[k] * by_z);
    }
    for (int a = 0, at = 0; a < 3; a++)
        for (int b = a; b < 3; b++, at++) by_covariance->at[at] += p[0][a] * g_p[0][b] + p[1][a] * g_p[1][b];
    for (int k = 0; k < 3; k++) by_mean[k] += r[k] * point[0] + r[3 + k] * point[1] + r[6 + k] * point[2];
}

// Coefficients of a warp's Gaussians in shared memory, 48 each; zeros beyond those that there are.
using sh_rows = warp_rows<48>;

// By all lanes of a warp, of Gaussians first and on, those in `existing`. Whole rows are moved together.
__device__ __forceinline__ void read_sh_rows(const float *sh, int64_t first, unsigned existing, int values,
                                             sh_rows *rows) {
    __syncwarp();
    const int lane = int(distwar::lane_id());
    if (values == 48) {
        begin_rows<48>(sh + first * 48, existing, 48, rows);
    } else if (existing >> lane & 1) {
        float own[48];
        load_sh(sh, first + lane, values, own);
        for (int k = 0; k < 48; k++) rows->row(lane)[k] = own[k];
    }
    finish_rows();
}

__device__ __forceinline__ void read_own(const float *row, float out[48]) {
    DISTWAR_UNROLL
    for (int k = 0; k < 48; k += 4) {
        const float4 four = *reinterpret_cast<const float4 *>(row + k);
        out[k] = four.x, out[k + 1] = four.y, out[k + 2] = four.z, out[k + 3] = four.w;
    }
}

// Puts or adds what every lane has, through the rows, by all lanes of a warp.
__device__ __forceinline__ void put_sh_rows(const float mine[48], bool add, int64_t first, unsigned existing,
                                            int values, sh_rows *rows, float *sh) {
    const int lane = int(distwar::lane_id());
    if (values == 48) {
        using part = lane_of_rows<48>;
        const part of;
        const unsigned share = of.share_of(existing);
        float *const own = rows->row(lane);
        DISTWAR_UNROLL
        for (int k = 0; k < 48; k += 4)
            *reinterpret_cast<float4 *>(own + k) =
                make_float4(mine[k], mine[k + 1], mine[k + 2], mine[k + 3]);
        float *const to = sh + (first + of.first_row) * 48 + of.column;
        const float *const from = rows->row(of.first_row) + of.column;
        float4 before[part::turns];
        DISTWAR_UNROLL
        for (int turn = 0; turn < part::turns; turn++) {
            const int row = turn * part::rows_a_turn;
            before[turn] = add && (share >> row & 1) ? *reinterpret_cast<const float4 *>(to + row * 48)
                                                     : make_float4(0, 0, 0, 0);
        }
        __syncwarp();
        DISTWAR_UNROLL
        for (int turn = 0; turn < part::turns; turn++) {
            const int row = turn * part::rows_a_turn;
            if (!(share >> row & 1)) continue;
            const float4 b = before[turn];
            const float4 more = *reinterpret_cast<const float4 *>(from + row * sh_rows::stride);
            *reinterpret_cast<float4 *>(to + row * 48) =
                make_float4(b.x + more.x, b.y + more.y, b.z + more.z, b.w + more.w);
        }
    } else if (existing >> lane & 1) {
        DISTWAR_UNROLL
        for (int k = 0; k < 48; k++)
            if (k < values) put(sh + (first + lane) * values + k, add, mine[k]);
    }
}

constexpr int sights_block = 64, sights_blocks = 8; // threads, and at least so many a multiprocessor

__global__ void __launch_bounds__(sights_block, sights_blocks)
    tangents_kernel(gs_gaussians gaussians, int degree, sights seen, int views, gs_gaussians direction) {
    __shared__ sh_rows memory[sights_block / 32];
    sh_rows *const rows = &memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    const int64_t here = int64_t(blockIdx.x) * sights_block + threadIdx.x, first = here - lane;
    const bool exists = here < gaussians.count;
    const unsigned existing = __ballot_sync(distwar::all_lanes, exists);
    const int64_t i = exists ? here : gaussians.count - 1; // whoever does not exist does as the last, unseen

    float mean[3], mean_change[3];
    for (int k = 0; k < 3; k++) mean[k] = gaussians.mean[3 * i + k];
    for (int k = 0; k < 3; k++) mean_change[k] = direction.mean[3 * i + k];
    symmetric covariance, covariance_change;
    {
        const shape s = shape_of(gaussians, i);
        const float4 q = reinterpret_cast<const float4 *>(direction.quaternion)[i];
        const float along[4] = {q.x, q.y, q.z, q.w};
        float radial = 0, unit[4], axes[3][3];
        for (int k = 0; k < 4; k++) radial += s.unit[k] * along[k];
        for (int k = 0; k < 4; k++) unit[k] = (along[k] - s.unit[k] * radial) / s.length;
        rotation_tangent(s.unit, unit, axes);
        for (int j = 0; j < 3; j++) {
            const float by_scale = direction.log_scale[3 * i + j];
            for (int row = 0; row < 3; row++)
                axes[row][j] = by_scale * s.axes[row][j] + s.scale[j] * axes[row][j];
        }
        covariance = covariance_of(s.axes);
        covariance_change = covariance_tangent(s.axes, axes);
    }
    const float by_opacity = (1 - sigmoid(gaussians.opacity_logit[i])) * direction.opacity_logit[i];
    const int values = 3 * sh_coefficients(gaussians.sh_degree);
    float sh_direction[48];
    read_sh_rows(direction.sh, first, existing, values, rows);
    read_own(rows->row(lane), sh_direction);
    read_sh_rows(gaussians.sh, first, existing, values, rows);
    const float *const sh = rows->row(lane);
    if (!exists) return;
    for (int n = 0; n < views; n++) {
        asm volatile("" ::: "memory"); // rows are read again, not kept in registers
        const gs_camera &camera = seen.of[n].camera;
        const gs_splat splat = seen.of[n].splats[i];
        if (splat.depth == 0) continue;
        const sight_of_one v = sight_from(seen, n, mean);
        float turn[3], basis[16], basis_change[16], color[3] = {0, 0, 0};
        const float radial = dot(v.view, mean_change);
        for (int k = 0; k < 3; k++) turn[k] = (mean_change[k] - v.view[k] * radial) * v.by_distance;
        whole_sh_basis(degree, v.view, basis);
        sh_basis_tangent(degree, v.view, turn, basis_change);
        DISTWAR_UNROLL
        for (int k = 0; k < 48; k++)
            color[k % 3] =
                fmaf(basis[k / 3], sh_direction[k], fmaf(basis_change[k / 3], sh[k], color[k % 3]));
        for (int c = 0; c < 3; c++)
            if (!(splat.color[c] > 0)) color[c] = 0;
        const footprint_tangent t =
            seen_tangent(camera, splat, v, covariance, covariance_change, mean_change);
        float4 *out = reinterpret_cast<float4 *>(seen.of[n].records + i * GS_LM_TANGENT_STRIDE);
        out[0] = make_float4(color[0], color[1], color[2], by_opacity);
        out[1] = make_float4(t.by[0], t.by[1], t.by[2], t.by[3]);
        out[2] = make_float4(t.by[4], 0, 0, 0);
    }
}

// The transpose. What cameras have in common waits until they are summed: by_covariance.
__global__ void __launch_bounds__(sights_block, sights_blocks)
    gradients_kernel(gs_gaussians gaussians, int degree, sights seen, int views, bool add,
                     gs_gaussians gradients) {
    __shared__ sh_rows memory[sights_block / 32];
    sh_rows *const rows = &memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    const int64_t here = int64_t(blockIdx.x) * sights_block + threadIdx.x, first = here - lane;
    const bool exists = here < gaussians.count;
    const unsigned existing = __ballot_sync(distwar::all_lanes, exists);
    const int64_t i = exists ? here : gaussians.count - 1; // whoever does not exist does as the last, unseen

    const int values = 3 * sh_coefficients(gaussians.sh_degree);
    float by_sh[48] = {}, by_mean[3] = {}, by_opacity = 0;
    read_sh_rows(gaussians.sh, first, existing, values, rows);
    const float *const sh = rows->row(lane);
    const symmetric covariance = covariance_of(shape_of(gaussians, i).axes);
    symmetric by_covariance = {};
    bool any = false; // what no camera sees may not even have a shape
    float mean[3];
    for (int k = 0; k < 3; k++) mean[k] = gaussians.mean[3 * i + k];
    for (int n = 0; n < views; n++) {
        asm volatile("" ::: "memory"); // rows are read again, not kept in registers
        const gs_camera &camera = seen.of[n].camera;
        const gs_splat splat = seen.of[n].splats[i];
        const float4 *record = reinterpret_cast<const float4 *>(seen.of[n].records + i * GS_MOMENTS_STRIDE);
        const float4 front = record[0], second = record[1], third = record[2];
        // What is culled or meets no pixel has no gradient.
        const bool met = front.x != 0 || front.y != 0 || front.z != 0 || front.w != 0 || second.x != 0 ||
                         second.y != 0 || second.z != 0 || second.w != 0 || third.x != 0;
        if (splat.depth == 0 || !met) continue;
        const float moments[5] = {second.x, second.y, second.z, second.w, third.x};
        const float color[3] = {splat.color[0] > 0 ? front.x : 0, splat.color[1] > 0 ? front.y : 0,
                                splat.color[2] > 0 ? front.z : 0};
        by_opacity += front.w;
        any = true;
        const sight_of_one v = sight_from(seen, n, mean);
        add_seen_adjoint(camera, splat, v, covariance, moments, &by_covariance, by_mean);
        float basis[16], by_basis[16] = {}, by_view[3];
        whole_sh_basis(degree, v.view, basis);
        DISTWAR_UNROLL
        for (int k = 0; k < 48; k++) {
            by_sh[k] = fmaf(basis[k / 3], color[k % 3], by_sh[k]);
            by_basis[k / 3] = fmaf(color[k % 3], sh[k], by_basis[k / 3]);
        }
        sh_basis_adjoint(degree, v.view, by_basis, by_view);
        const float along = dot(v.view, by_view);
        for (int k = 0; k < 3; k++) by_mean[k] += (by_view[k] - v.view[k] * along) * v.by_distance;
    }
    put_sh_rows(by_sh, add, first, existing, values, rows, gradients.sh);
    if (!exists) return;
    const shape s = shape_of(gaussians, i);
    float by_axes[3][3], by_unit[4], radial = 0; // by W, then by Q
    for (int j = 0; j < 3; j++) {
        const float axis[3] = {s.axes[0][j], s.axes[1][j], s.axes[2][j]};
        float by_axis[3];
        times(by_covariance, axis, by_axis);
        put(gradients.log_scale + 3 * i + j, add, any ? dot(axis, by_axis) : 0);
        for (int k = 0; k < 3; k++) by_axes[k][j] = s.scale[j] * by_axis[k];
    }
    rotation_matrix_adjoint(s.unit, by_axes, by_unit);
    for (int k = 0; k < 4; k++) radial += s.unit[k] * by_unit[k];
    for (int k = 0; k < 4; k++)
        put(gradients.quaternion + 4 * i + k, add, any ? (by_unit[k] - s.unit[k] * radial) / s.length : 0);
    for (int k = 0; k < 3; k++) put(gradients.mean + 3 * i + k, add, by_mean[k]);
    put(gradients.opacity_logit + i, add, by_opacity * (1 - sigmoid(gaussians.opacity_logit[i])));
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

gs_status check_views(const char *function, const gs_gaussians *gaussians, int sh_degree_used,
                      const gs_lm_view *views, int count, const gs_gaussians *vector, gs_gaussians *in,
                      int *degree, sights *seen) {
    GS_REQUIRE_OF(function, views && count >= 1 && count <= GS_LM_VIEWS,
                  "1..GS_LM_VIEWS views must be given");
    GS_TRY(check_lm(function, gaussians, sh_degree_used, vector, in, degree));
    for (int n = 0; n < count; n++) {
        GS_TRY(check_camera(function, &views[n].camera));
        GS_REQUIRE_OF(function, in->count == 0 || (views[n].splats && views[n].records),
                      "splats and records of every view must be given");
        seen->of[n] = views[n];
        const gs_camera &camera = seen->of[n].camera;
        const float *r = camera.rotation, *t = camera.translation;
        const float focal[2] = {camera.fx, camera.fy}, center[2] = {camera.cx, camera.cy};
        const float size[2] = {float(camera.width), float(camera.height)};
        for (int k = 0; k < 2; k++) {
            seen->given[n].low[k] = -(center[k] + 0.15f * size[k]) / focal[k];
            seen->given[n].high[k] = (1.15f * size[k] - center[k]) / focal[k];
        }
        for (int k = 0; k < 3; k++)
            seen->given[n].center[k] = r[k] * t[0] + r[3 + k] * t[1] + r[6 + k] * t[2];
    }
    return GS_OK;
}

} // namespace

gs_status gs_lm_tangents(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_view *views,
                         int count, const gs_gaussians *direction, gs_stream stream) {
    gs_gaussians in = {};
    sights seen = {};
    int degree = 0;
    GS_TRY(check_views(__func__, gaussians, sh_degree_used, views, count, direction, &in, &degree, &seen));
    GS_CUDA(launch(stream, blocks_for(in.count, sights_block), sights_block, tangents_kernel, in, degree,
                   seen, count, *direction));
    return GS_OK;
}

gs_status gs_lm_gradients(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_view *views,
                          int count, int add, const gs_gaussians *gradients, gs_stream stream) {
    gs_gaussians in = {};
    sights seen = {};
    int degree = 0;
    GS_TRY(check_views(__func__, gaussians, sh_degree_used, views, count, gradients, &in, &degree, &seen));
    GS_CUDA(launch(stream, blocks_for(in.count, sights_block), sights_block, gradients_kernel, in, degree,
                   seen, count, add != 0, *gradients));
    return GS_OK;
}

gs_status gs_lm_add_diagonal(const gs_view *view, const float *squares, const gs_gaussians *diagonal,
                             gs_stream stream) {
    gs_gaussians in = {};
    int degree = 0;
    GS_TRY(check_lm_view(__func__, view, diagonal, &in, &degree));
    GS_REQUIRE(in.count == 0 || squares, "squares must be given");
    GS_CUDA(launch(stream, blocks_for(in.count, project_block), project_block, add_diagonal_kernel, in,
                   degree, view->camera, view->splats, squares, *diagonal));
    return GS_OK;
}

gs_status gs_lm_add_units(const gs_gaussians *gaussians, float weight, const gs_gaussians *diagonal,
                          gs_stream stream) {
    GS_TRY(check_vector(__func__, gaussians, diagonal));
    GS_REQUIRE(weight >= 0 && isfinite(weight), "weight must be finite and not negative");
    GS_CUDA(launch(stream, blocks_for(gaussians->count, project_block), project_block, add_units_kernel,
                   *gaussians, weight, *diagonal));
    return GS_OK;
}

gs_status gs_lm_limit(const gs_gaussians *gaussians, float radius, const gs_gaussians *update,
                      gs_stream stream) {
    GS_TRY(check_vector(__func__, gaussians, update));
    GS_REQUIRE(radius > 0 && isfinite(radius), "radius must be finite and above 0");
    GS_CUDA(launch(stream, blocks_for(gaussians->count, project_block), project_block, limit_kernel,
                   *gaussians, radius, *update));
    return GS_OK;
}
