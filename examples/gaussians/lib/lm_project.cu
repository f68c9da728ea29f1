// SPDX-License-Identifier: MIT
// The projection's derivative along a direction, and the diagonal of J^T J from what the blend has summed.
// Formulas: docs/math.md, section 8.
#include "gs_lm.h"
#include "launch.cuh"
#include "lm_check.h"
#include "lm_footprint.cuh"
#include "status.h"
#include <distwar/lanes.cuh>

namespace {

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

gs_status check_sights(const char *function, const gs_gaussians *gaussians, int sh_degree_used,
                       const gs_lm_sight *sights_seen, int views, const gs_gaussians *other, gs_gaussians *in,
                       int *degree, sights *seen) {
    GS_REQUIRE_OF(function, sights_seen && views >= 1 && views <= GS_LM_SIGHTS,
                  "from one to GS_LM_SIGHTS sights must be given");
    for (int n = 0; n < views; n++) {
        const gs_status status = check_lm(function, gaussians, sh_degree_used, &sights_seen[n].camera,
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
        check_lm(__func__, gaussians, sh_degree_used, camera, splats, diagonal, &in, &degree);
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
