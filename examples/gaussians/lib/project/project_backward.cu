// SPDX-License-Identifier: MIT
// The adjoint of gs_project. A kernel loads, calls geometry/, and stores. Formulas: math.md, sections 2 to 4.
#include "camera_gradient.cuh"
#include "distwar_gs_share.h"
#include "distwar_gs.h"
#include "launch.cuh"
#include "moments.cuh"
#include "project_view.cuh"
#include "status.h"
#include "warp_rows.cuh"
#include <math.h>

using namespace gs;

namespace {

// The gradients of one Gaussian, except SH.
template <bool with_camera>
struct gaussian_gradient {
    float mean[3], log_scale[3], quaternion[4], opacity_logit, mean2d[2], color[GS_CHANNELS], covariance[6];
    camera_terms<with_camera> camera;
};

// From gradients by the logarithms of scales to those by scales. Of a scale of 0 both are 0.
__device__ void by_scales(const gs_gaussians &gaussians, int64_t i, float d_log_scale[3]) {
    for (int j = 0; j < 3; j++) {
        const float scale = gaussians.log_scale[3 * i + j];
        d_log_scale[j] = scale != 0 ? d_log_scale[j] / scale : 0;
    }
}

// Writes all but color. The gradients by mean and camera lack SH's part. pixel_mean2d: of the splat, or NULL.
template <int model, bool with_camera>
__device__ void project_adjoint(const gs_gaussians &gaussians, const gs_camera &camera, int64_t i,
                                const gs_splat &splat, const gs_moments &sums, const float *pixel_mean2d,
                                gaussian_gradient<with_camera> *gradient) {
    // antialias: log opacity has the term log sqrt(sharp_determinant / determinant). The gradient by the
    // determinant's logarithm adds to the moments, since that of log sqrt(determinant) is L L^T / 2.
    const float d_log_sharp = gaussians.antialias ? sums.h : 0;
    float d_mean2d[2], d_covariance[2][2], d_j[2][3];
    whitening_adjoint(splat, sums.h_e0, sums.h_e1, sums.h_e0e0 - d_log_sharp / two_ln2, sums.h_e0e1,
                      sums.h_e1e1 - d_log_sharp / two_ln2, d_mean2d, d_covariance);
    if (pixel_mean2d)
        for (int k = 0; k < 2; k++) d_mean2d[k] = pixel_mean2d[k];
    gradient->opacity_logit = gaussians.activated ? sums.h / gaussians.opacity_logit[i]
                                                  : sums.h * (1 - sigmoid(gaussians.opacity_logit[i]));
    gradient->mean2d[0] = d_mean2d[0] * 0.5f * float(camera.width);
    gradient->mean2d[1] = d_mean2d[1] * 0.5f * float(camera.height);

    const auto p = point_of<model, divisor>::of(camera, ratio_limits_of(camera), gaussians.mean + 3 * i);
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
        if (gaussians.activated) by_scales(gaussians, i, gradient->log_scale);
    }
    float d_point[3] = {0, 0, 0};
    add_depth_adjoint(p, sums.depth, d_point);
    for (int k = 0; k < 2; k++) add_projection_adjoint(camera, p, k, d_j[k], d_mean2d[k], d_point);
    for (int k = 0; k < 3; k++) gradient->mean[k] = to_world(camera, d_point, k);
    if constexpr (with_camera) gradient->camera = camera_terms_of(camera, p, d_j, d_mean2d, d_point);
}

// Rows of SH coefficients and of their gradients.
struct sh_rows {
    const float *row;
    float *d_row; // may be `row`
    int degree;
};

// From the gradient by the splat's colour: writes the one by the given colour; or writes to d_row (Adds: adds
// to it) the one by SH, and adds to those by mean and camera.
template <int length, bool Adds, bool with_camera>
__device__ __forceinline__ void color_adjoint(const gs_gaussians &gaussians, const gs_camera &camera,
                                              int64_t i, const gs_splat &splat, const gs_moments &sums,
                                              const sh_rows &rows, gaussian_gradient<with_camera> *gradient) {
    if (gaussians.color) {
        for (int c = 0; c < GS_CHANNELS; c++) gradient->color[c] = sums.color[c];
        return;
    }
    float d_color[GS_CHANNELS], d_mean[3]; // a channel that was clamped at 0 has no gradient
    for (int c = 0; c < GS_CHANNELS; c++) d_color[c] = splat.color[c] > 0 ? sums.color[c] : 0;
    color_from_sh_adjoint<length, Adds>(camera, gaussians.mean + 3 * i, rows.row, rows.d_row, rows.degree,
                                        d_color, d_mean);
    for (int k = 0; k < 3; k++) gradient->mean[k] += d_mean[k];
    if constexpr (with_camera)
        for (int k = 0; k < 3; k++) gradient->camera.value[TERM_CENTER + k] = d_mean[k];
}

template <int length>
__device__ void clear_row(float *row) {
    const float zeros[4] = {};
    for (int k = 0; k < length; k += 4) write_four<length>(zeros, length - k, row + k);
}

template <int length>
__device__ void store(const float *in, int64_t i, float *to) {
    if (to)
        for (int k = 0; k < length; k++) to[length * i + k] = in[k];
}

// Pixels of a unit of mean2d.
__device__ float2 half_size(const gs_camera &camera) {
    return make_float2(0.5f * float(camera.width), 0.5f * float(camera.height));
}

// Apart from the other gradients: only if it is wanted. unit: pixels.
__device__ void absolute_mean2d(const gs_splat &splat, const gs_moments &sums, bool has_gradient, float2 unit,
                                float *out) {
    const float length = sqrtf(splat.whiten[1] * splat.whiten[1] + splat.whiten[2] * splat.whiten[2]);
    out[0] = has_gradient ? two_ln2 * splat.whiten[0] * sums.abs_x * unit.x : 0;
    out[1] = has_gradient ? two_ln2 * length * sums.abs_y * unit.y : 0;
}

// All but SH and the camera.
template <bool with_camera>
__device__ void store_gradient(const gaussian_gradient<with_camera> &g, int64_t i,
                               const gs_gaussians &gradients) {
    store<3>(g.mean, i, gradients.mean);
    store<3>(g.log_scale, i, gradients.log_scale);
    store<4>(g.quaternion, i, gradients.quaternion);
    store<1>(&g.opacity_logit, i, gradients.opacity_logit);
    store<GS_CHANNELS>(g.color, i, gradients.color);
    store<6>(g.covariance, i, gradients.covariance);
}

// Arrays over splats that the backward projection reads and writes; mean2d and abs_mean2d may be NULL.
struct splat_gradients {
    const float *moments, *pixel_mean2d; // pixel_mean2d: or NULL
    float *mean2d, *abs_mean2d;
};

// Row i of pixel_mean2d.
__device__ const float *pixel_mean2d_at(const splat_gradients &at, int64_t i) {
    return at.pixel_mean2d ? at.pixel_mean2d + 2 * i : nullptr;
}

__device__ bool any_pixel_gradient(const splat_gradients &at, int64_t i) {
    const float *const mean2d = pixel_mean2d_at(at, i);
    return mean2d && (mean2d[0] != 0 || mean2d[1] != 0);
}

// NULL members of `gradients` are not written. sh_degree as for project_kernel (project.cu). camera_rows: with_camera,
// a row per warp.
template <int model, int sh_degree, bool with_camera>
__global__ void __launch_bounds__(rows_block)
    project_backward_kernel(gs_gaussians gaussians, int degree, gs_camera camera, const gs_splat *splats,
                            splat_gradients of_splats, gs_gaussians gradients, float *camera_rows) {
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
        sums = load_moments(of_splats.moments, i);
        has_gradient = splat.depth != 0 && (any_moment(sums) || any_pixel_gradient(of_splats, i));
        if (of_splats.abs_mean2d)
            absolute_mean2d(splat, sums, has_gradient, half_size(camera), of_splats.abs_mean2d + 2 * i);
    }
    const unsigned wanted = __ballot_sync(distwar::all_lanes, has_gradient);
    const unsigned existing = __ballot_sync(distwar::all_lanes, exists);
    begin_sh<length>(gaussians, first, wanted, sh_floats(degree), rows);
    gaussian_gradient<with_camera> g = {};
    if (has_gradient)
        project_adjoint<model>(gaussians, camera, i, splat, sums, pixel_mean2d_at(of_splats, i), &g);
    finish_rows();

    if (has_gradient)
        color_adjoint<length, false>(gaussians, camera, i, splat, sums, {row, row, degree}, &g);
    else
        clear_row<length>(row);
    __syncwarp();
    store_sh<length>(rows, existing, first, gradients);
    if constexpr (with_camera)
        if (existing != 0) // else the warp has no row
            store_warp_total(has_gradient, g.camera, camera_rows + first / 32 * camera_row_floats);
    if (!exists) return;
    store_gradient(g, i, gradients);
    store<2>(g.mean2d, i, of_splats.mean2d);
}

// Adds rounded values: the compiler cannot contract the sum with what gave a value.
template <int N>
__device__ void add_rounded(float (&to)[N], const float (&value)[N]) {
    for (int k = 0; k < N; k++) to[k] = __fadd_rn(to[k], value[k]);
}

// The same for several cameras. Adds the gradients in the order of the cameras.
template <int model, int sh_degree>
__global__ void __launch_bounds__(rows_block)
    project_backward_views_kernel(const gs_gaussians gaussians, int degree, const several_cameras cameras,
                                  const gs_splat *splats, const splat_gradients of_splats,
                                  const gs_gaussians gradients) {
    constexpr int length = sh_floats(sh_degree);
    __shared__ warp_rows<length> memory[rows_block / 32], d_memory[rows_block / 32];
    warp_rows<length> *const rows = &memory[threadIdx.x / 32], *const d_rows = &d_memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    const int64_t i = int64_t(blockIdx.x) * rows_block + threadIdx.x, first = i - lane;
    const bool exists = i < gaussians.count;

    unsigned in_views = 0; // a bit for each view that has a gradient for the Gaussian
    // Several views' loads at once, none behind a branch: a multiprocessor has few of these warps, which wait for memory.
#pragma unroll 4
    for (int v = 0; v < cameras.count; v++)
        in_views |= unsigned(exists && splats[v * gaussians.count + i].depth != 0) << v;
    unsigned met = 0; // those where it met a pixel
#pragma unroll 4
    for (int v = 0; v < cameras.count; v++) {
        const int64_t of_view = in_views >> v & 1 ? v * gaussians.count + i : 0; // row 0 is in the cache
        met |= unsigned(any_moment(load_moments(of_splats.moments, of_view))) << v;
    }
    for (int v = 0; of_splats.pixel_mean2d && exists && v < cameras.count; v++)
        met |= unsigned(any_pixel_gradient(of_splats, v * gaussians.count + i)) << v;
    in_views &= met;
    const unsigned wanted = __ballot_sync(distwar::all_lanes, in_views != 0);
    const unsigned existing = __ballot_sync(distwar::all_lanes, exists);
    begin_sh<length>(gaussians, first, wanted, sh_floats(degree), rows);
    clear_row<length>(d_rows->row(lane));
    finish_rows();

    const sh_rows own = {rows->row(lane), d_rows->row(lane), degree};
    gaussian_gradient<false> sum = {};
    for (int v = 0; exists && v < cameras.count; v++) {
        const int64_t of_view = v * gaussians.count + i;
        gaussian_gradient<false> g = {};
        float absolute[2] = {};
        if (in_views >> v & 1) {
            const gs_splat splat = splats[of_view];
            const gs_moments sums = load_moments(of_splats.moments, of_view);
            if (of_splats.abs_mean2d) absolute_mean2d(splat, sums, true, half_size(cameras.at[v]), absolute);
            project_adjoint<model>(gaussians, cameras.at[v], i, splat, sums,
                                   pixel_mean2d_at(of_splats, of_view), &g);
            color_adjoint<length, true>(gaussians, cameras.at[v], i, splat, sums, own, &g);
            add_rounded(sum.mean, g.mean);
            add_rounded(sum.log_scale, g.log_scale);
            add_rounded(sum.quaternion, g.quaternion);
            sum.opacity_logit = __fadd_rn(sum.opacity_logit, g.opacity_logit);
            add_rounded(sum.color, g.color);
            add_rounded(sum.covariance, g.covariance);
        }
        store<2>(g.mean2d, of_view, of_splats.mean2d);
        store<2>(absolute, of_view, of_splats.abs_mean2d);
    }
    __syncwarp();
    store_sh<length>(d_rows, existing, first, gradients);
    if (exists) store_gradient(sum, i, gradients);
}

__global__ void __launch_bounds__(project_block)
    mean2d_gradient_kernel(const gs_splat *splats, int64_t count, const float *moments, float *mean2d,
                           float *abs_mean2d) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= count) return;
    const gs_splat splat = splats[i];
    const gs_moments sums = load_moments(moments, i);
    float d_mean2d[2] = {}, d_covariance[2][2];
    if (splat.depth != 0) whitening_adjoint(splat, sums.h_e0, sums.h_e1, 0, 0, 0, d_mean2d, d_covariance);
    store<2>(d_mean2d, i, mean2d);
    if (abs_mean2d) absolute_mean2d(splat, sums, splat.depth != 0, make_float2(1, 1), abs_mean2d + 2 * i);
}

gs_status check_camera_gradient(const char *function, const gs_view *view, const gs_gradient *gradient) {
    if (!gradient->camera) return GS_OK;
    const size_t needed = camera_gradient_bytes(view->gaussians.count);
    GS_REQUIRE_OF(function, view_count(view) == 1, "the gradient by the camera is of one camera only");
    if (gradient->camera_bytes >= needed) return GS_OK;
    return libgs_fail(GS_INVALID_ARGUMENT, "%s: camera_bytes must be at least %zu", function, needed);
}

} // namespace

gs_status gs_project_backward(const gs_view *view, const gs_gradient *gradient, gs_stream stream) {
    gs_gaussians in, out;
    GS_TRY(check_projected(__func__, view, &in));
    GS_REQUIRE(gradient, "gradient must be given");
    GS_REQUIRE(gradient->gaussians.count == in.count &&
                   (in.color || gradient->gaussians.sh_degree == in.sh_degree),
               "the gradient must have the shape of gaussians");
    GS_TRY(readable(__func__, &gradient->gaussians, &view->gaussians, &out));
    if (in.channels != GS_CHANNELS) out.color = nullptr; // gs_render_backward has written it
    GS_REQUIRE(in.count == 0 || gradient->moments, "moments must be given");
    GS_TRY(check_camera_gradient(__func__, view, gradient));
    const camera_sums sums = camera_sums_in(gradient->camera);
    const splat_gradients of_splats = {reinterpret_cast<const float *>(gradient->moments),
                                       gradient->pixel_mean2d, gradient->mean2d, gradient->abs_mean2d};
    GS_CUDA(with_model_and_degree(view, in, [&](auto model, auto sh_degree) {
        const auto run = [&](const auto &kernel, const auto &cameras, auto... more) {
            return launch(stream, blocks_for(in.count, rows_block), rows_block, kernel, in,
                          used_degree(view->sh_degree_used, &in), cameras, view->splats, of_splats, out,
                          more...);
        };
        if (view_count(view) > 1)
            return run(project_backward_views_kernel<model, sh_degree>, cameras_of(view));
        return run(gradient->camera ? project_backward_kernel<model, sh_degree, true>
                                    : project_backward_kernel<model, sh_degree, false>,
                   *camera_of(view, 0), sums.rows);
    }));
    if (gradient->camera)
        GS_CUDA(launch_camera_sums(stream, *camera_of(view, 0), in.count, gradient->camera));
    return GS_OK;
}

gs_status gs_mean2d_gradient(const gs_view *view, const gs_moments *moments, float *mean2d, float *abs_mean2d,
                             gs_stream stream) {
    GS_TRY(check_extent(__func__, view));
    const int64_t count = splat_count(view);
    GS_REQUIRE(count == 0 || (view->splats && moments), "splats and moments must be given");
    GS_CUDA(launch(stream, blocks_for(count, project_block), project_block, mean2d_gradient_kernel,
                   view->splats, count, reinterpret_cast<const float *>(moments), mean2d, abs_mean2d));
    return GS_OK;
}

static_assert(GS_CAMERA_ROW == camera_row_floats * sizeof(float), "the rows that GPUs exchange");

gs_status gs_share_camera_gradient(const gs_view *view, int64_t all, gs_camera_gradient *gradient,
                                   gs_stream stream) {
    GS_TRY(check_extent(__func__, view));
    GS_TRY(check_count(__func__, all));
    GS_REQUIRE(gradient, "gradient must be given");
    GS_CUDA(launch_camera_sums(stream, *camera_of(view, 0), all, gradient));
    return GS_OK;
}

gs_status gs_camera_gradient_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = camera_gradient_bytes(count);
    return GS_OK;
}
