// SPDX-License-Identifier: MIT
// Gaussians to splats: what one camera sees of each Gaussian, and the adjoint. A kernel loads, calls
// geometry/, and stores. Formulas: docs/math.md, sections 2 to 4.
#include "camera_gradient.cuh"
#include "check.h"
#include "project.cuh"
#include "gs.h"
#include "launch.cuh"
#include "moments.cuh"
#include "status.h"
#include "warp_rows.cuh"
#include <math.h>

using namespace gs;

namespace {

constexpr float min_opacity = 1.0f / 255.0f; // a splat below this alpha is not drawn
constexpr float min_log2_opacity = -7.994353436858858f;
constexpr int rows_block = 64; // threads of the kernels that move SH rows: a warp's rows take up to 6.5 KiB

// sh_degree: of gaussians.sh; any value if gaussians.color is read instead.
template <int sh_degree>
__global__ void __launch_bounds__(rows_block)
    project_kernel(gs_gaussians gaussians, int degree, gs_camera camera, gs_splat *splats) {
    constexpr int length = sh_floats(sh_degree);
    constexpr bool together = sh_degree >= 2; // a lane reads a short row faster alone
    __shared__ warp_rows<together ? length : 1> memory[rows_block / 32];
    auto *const rows = &memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    const int64_t i = int64_t(blockIdx.x) * rows_block + threadIdx.x, first = i - lane;
    const bool exists = i < gaussians.count;

    float opacity_logit = 0;
    camera_point<divisor> p = {};
    if (exists) {
        opacity_logit = gaussians.opacity_logit[i];
        p = camera_point_of<divisor>(camera, ratio_limits_of(camera), gaussians.mean + 3 * i);
    }
    const bool may_be_seen = exists && p.at[2] > camera.near_plane && sigmoid(opacity_logit) >= min_opacity;
    if constexpr (together) {
        const unsigned wanted = __ballot_sync(distwar::all_lanes, may_be_seen);
        if (!gaussians.color)
            begin_rows<length>(gaussians.sh + first * length, wanted, sh_floats(degree), rows);
        finish_rows();
    }
    if (!exists) return;

    gs_splat splat = {};
    if (may_be_seen) {
        image_covariance s;
        if (gaussians.covariance) {
            float map[2][3];
            screen_map(camera, p, map);
            s = covariance_from_given(gaussians.covariance + 6 * i, map);
        } else {
            s = covariance_from_map(image_axes_of(camera, p, gaussian_shape_of(gaussians, i)).map);
        }
        for (int k = 0; k < 2; k++) splat.mean[k] = projected_mean(camera, p, k);
        whitening(s, splat.whiten);
        splat.log2_opacity = -1.4426950408889634f * log1pf(expf(-opacity_logit));
        // A determinant of 0 gives an infinite logarithm: not finite, so culled.
        if (gaussians.antialias) splat.log2_opacity += 0.5f * log2f(s.sharp_determinant / s.determinant);

        float color[GS_CHANNELS];
        if (gaussians.color) {
            for (int c = 0; c < GS_CHANNELS; c++)
                splat.color[c] = color[c] = gaussians.color[GS_CHANNELS * i + c];
        } else {
            const float *const row = together ? rows->row(lane) : gaussians.sh + i * length;
            color_from_sh<length>(camera, gaussians.mean + 3 * i, row, degree, color);
            for (int c = 0; c < GS_CHANNELS; c++) splat.color[c] = fmaxf(color[c], 0.0f);
        }

        // A sum is finite only if all its terms are. `color`, not splat.color: fmaxf drops a NaN.
        float color_sum = color[0];
        for (int c = 1; c < GS_CHANNELS; c++) color_sum += color[c];
        const bool finite = isfinite(splat.mean[0] + splat.mean[1]) &&
                            isfinite(s.xx + s.yy + s.determinant) &&
                            isfinite(splat.whiten[0] + splat.whiten[1] + splat.whiten[2]) &&
                            isfinite(splat.log2_opacity) && isfinite(color_sum);
        const bool faded = gaussians.antialias && splat.log2_opacity < min_log2_opacity;
        if (finite && !faded) splat.depth = p.at[2];
    }
    splats[i] = splat;
}

// The gradients of one Gaussian, except SH.
template <bool with_camera>
struct gaussian_gradient {
    float mean[3], log_scale[3], quaternion[4], opacity_logit, mean2d[2], color[GS_CHANNELS], covariance[6];
    camera_terms<with_camera> camera;
};

// Writes all but color. The gradients by mean and camera lack SH's part.
template <bool with_camera>
__device__ void project_adjoint(const gs_gaussians &gaussians, const gs_camera &camera, int64_t i,
                                const gs_splat &splat, const gs_moments &sums,
                                gaussian_gradient<with_camera> *gradient) {
    // antialias: log opacity has the term log sqrt(sharp_determinant / determinant). The gradient by the
    // determinant's logarithm adds to the moments, since that of log sqrt(determinant) is L L^T / 2.
    const float d_log_sharp = gaussians.antialias ? sums.h : 0;
    float d_mean2d[2], d_covariance[2][2], d_j[2][3];
    whitening_adjoint(splat, sums.h_e0, sums.h_e1, sums.h_e0e0 - d_log_sharp / two_ln2, sums.h_e0e1,
                      sums.h_e1e1 - d_log_sharp / two_ln2, d_mean2d, d_covariance);
    gradient->opacity_logit = sums.h * (1 - sigmoid(gaussians.opacity_logit[i]));
    gradient->mean2d[0] = d_mean2d[0] * 0.5f * float(camera.width);
    gradient->mean2d[1] = d_mean2d[1] * 0.5f * float(camera.height);

    const camera_point<divisor> p =
        camera_point_of<divisor>(camera, ratio_limits_of(camera), gaussians.mean + 3 * i);
    if (gaussians.covariance) {
        float map[2][3];
        screen_map(camera, p, map);
        covariance_from_given_adjoint(camera, gaussians.covariance + 6 * i, map, d_covariance, d_log_sharp,
                                      gradient->covariance, d_j);
    } else {
        const gaussian_shape s = gaussian_shape_of(gaussians, i);
        const image_axes a = image_axes_of(camera, p, s);
        float d_map[2][3];
        covariance_from_map_adjoint(a.map, d_covariance, d_log_sharp, d_map);
        image_axes_adjoint(camera, p, s, a, d_map, gradient->log_scale, gradient->quaternion, d_j);
    }
    float d_point[3] = {0, 0, 0};
    for (int k = 0; k < 2; k++) add_projection_adjoint(camera, p, k, d_j[k], d_mean2d[k], d_point);
    for (int k = 0; k < 3; k++) gradient->mean[k] = to_world(camera, d_point, k);
    if constexpr (with_camera) gradient->camera = camera_terms_of(camera, p, d_j, d_mean2d, d_point);
}

template <int length>
__device__ void store(const float *in, int64_t i, float *to) {
    if (to)
        for (int k = 0; k < length; k++) to[length * i + k] = in[k];
}

// NULL members of `gradients` are not written. sh_degree as for project_kernel. camera_rows: with_camera, a
// row a warp.
template <int sh_degree, bool with_camera>
__global__ void __launch_bounds__(rows_block)
    project_backward_kernel(gs_gaussians gaussians, int degree, gs_camera camera, const gs_splat *splats,
                            const float *moments, gs_gaussians gradients, float *mean2d_gradient,
                            float *camera_rows) {
    constexpr int length = sh_floats(sh_degree);
    __shared__ warp_rows<length> memory[rows_block / 32];
    warp_rows<length> *const rows = &memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    float *const row = rows->row(lane);
    const int64_t i = int64_t(blockIdx.x) * rows_block + threadIdx.x, first = i - lane;
    const bool exists = i < gaussians.count;

    // Culled Gaussians and those with all moments 0 have no gradient; the rest of their parameters is not
    // read.
    gs_splat splat = {};
    gs_moments sums = {};
    bool has_gradient = false;
    if (exists) {
        splat = splats[i];
        sums = load_moments(moments, i);
        has_gradient = any_moment(sums) && splat.depth != 0;
    }
    const unsigned wanted = __ballot_sync(distwar::all_lanes, has_gradient);
    const unsigned existing = __ballot_sync(distwar::all_lanes, exists);
    if (!gaussians.color) begin_rows<length>(gaussians.sh + first * length, wanted, sh_floats(degree), rows);
    gaussian_gradient<with_camera> g = {};
    if (has_gradient) project_adjoint(gaussians, camera, i, splat, sums, &g);
    finish_rows();

    if (has_gradient) {
        if (gaussians.color) {
            for (int c = 0; c < GS_CHANNELS; c++) g.color[c] = sums.color[c];
        } else {
            float d_color[GS_CHANNELS], d_mean[3]; // a channel that was clamped at 0 has no gradient
            for (int c = 0; c < GS_CHANNELS; c++) d_color[c] = splat.color[c] > 0 ? sums.color[c] : 0;
            color_from_sh_adjoint<length>(camera, gaussians.mean + 3 * i, row, degree, d_color, d_mean);
            for (int k = 0; k < 3; k++) g.mean[k] += d_mean[k];
            if constexpr (with_camera)
                for (int k = 0; k < 3; k++) g.camera.value[TERM_CENTER + k] = d_mean[k];
        }
    } else {
        const float zeros[4] = {};
        for (int k = 0; k < length; k += 4) write_four<length>(zeros, length - k, row + k);
    }
    __syncwarp();
    if (gradients.sh) store_rows<length>(rows, existing, gradients.sh + first * length);
    if constexpr (with_camera)
        if (existing != 0) // else the warp has no row
            store_warp_total(has_gradient, g.camera, camera_rows + first / 32 * camera_row_floats);
    if (!exists) return;
    store<3>(g.mean, i, gradients.mean);
    store<3>(g.log_scale, i, gradients.log_scale);
    store<4>(g.quaternion, i, gradients.quaternion);
    store<1>(&g.opacity_logit, i, gradients.opacity_logit);
    store<GS_CHANNELS>(g.color, i, gradients.color);
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

gs_status check_camera_bytes(const char *function, const gs_gradient *gradient, int64_t count) {
    const size_t needed = camera_gradient_bytes(count);
    if (!gradient->camera || gradient->camera_bytes >= needed) return GS_OK;
    return libgs_fail(GS_INVALID_ARGUMENT, "%s: camera_bytes must be at least %zu", function, needed);
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
    GS_TRY(check_camera_bytes(__func__, gradient, in.count));
    using kernel = decltype(&project_backward_kernel<0, false>);
    constexpr kernel of_degree[2][GS_MAX_SH_DEGREE + 1] = {
        {project_backward_kernel<0, false>, project_backward_kernel<1, false>,
         project_backward_kernel<2, false>, project_backward_kernel<3, false>},
        {project_backward_kernel<0, true>, project_backward_kernel<1, true>, project_backward_kernel<2, true>,
         project_backward_kernel<3, true>}};
    const camera_sums sums = camera_sums_in(gradient->camera);
    GS_CUDA(launch(stream, blocks_for(in.count, rows_block), rows_block,
                   of_degree[gradient->camera != nullptr][in.color ? 0 : in.sh_degree], in,
                   used_degree(view->sh_degree_used, &in), view->camera, view->splats,
                   reinterpret_cast<const float *>(gradient->moments), out, gradient->mean2d, sums.rows));
    if (gradient->camera) GS_CUDA(launch_camera_sums(stream, view->camera, in.count, gradient->camera));
    return GS_OK;
}

gs_status gs_camera_gradient_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = camera_gradient_bytes(count);
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
