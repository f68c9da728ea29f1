// SPDX-License-Identifier: MIT
// The adjoint of gs_project. Reads parameters, splats and their moments (blend_backward.cu). Writes gradients: by the
// parameters, or steps these by Adam in place; by the means of the splats; by the camera (camera_gradient.cuh). A
// kernel loads, calls the geometry, and stores. Formulas: docs/developers/math.md, sections 2 to 4 and 6.
#include "arrays.h"
#include "camera_gradient.cuh"
#include "project.cuh"
#include "splat.cuh"
#include <gpu/adam.cuh>

using namespace gs;

namespace {

// The gradients of a Gaussian's parameters, except for its colours.
struct gaussian_gradient {
    float mean[3], log_scale[3], quaternion[4], opacity_logit, covariance[6];
};

// ---- a step of Adam by the gradients of a warp's Gaussians, which lie in registers and in shared memory ----

// As adam_array; whole rows.
struct stepped_array {
    float *value, *first_moment, *second_moment;
    float rate;
};

struct stepped_gaussians {
    stepped_array mean, log_scale, quaternion, opacity_logit, sh; // sh.rate: of the constant term
    float shN;
    int used; // floats of a row of sh that are stepped; the others have gradients and moments of 0
    adam_correction correction;
};

// `width` values from i on, aligned to 4 bytes. All are read before the first is written, as the compiler cannot know
// that arrays do not overlap and would wait for one after the other.
template <int width>
struct stepped_values {
    float value[width], first_moment[width], second_moment[width];

    __device__ void read(const stepped_array &from, int64_t i) {
        for (int k = 0; k < width; k++) {
            value[k] = from.value[i + k];
            first_moment[k] = from.first_moment[i + k], second_moment[k] = from.second_moment[i + k];
        }
    }
    __device__ void step_and_write(const float *gradient, adam_correction correction, int64_t i,
                                   const stepped_array &to) {
        for (int k = 0; k < width; k++) {
            value[k] -= adam_decrease(gradient[k], &first_moment[k], &second_moment[k], to.rate, correction);
            to.value[i + k] = value[k];
            to.first_moment[i + k] = first_moment[k], to.second_moment[i + k] = second_moment[k];
        }
    }
};

// Steps the parameters by these gradients in place of storing them.
__device__ void finish(const gaussian_gradient &g, int64_t i, const stepped_gaussians &to) {
    stepped_values<3> mean, log_scale;
    stepped_values<4> quaternion;
    stepped_values<1> opacity_logit;
    mean.read(to.mean, 3 * i);
    log_scale.read(to.log_scale, 3 * i);
    quaternion.read(to.quaternion, 4 * i);
    opacity_logit.read(to.opacity_logit, i);
    mean.step_and_write(g.mean, to.correction, 3 * i, to.mean);
    log_scale.step_and_write(g.log_scale, to.correction, 3 * i, to.log_scale);
    quaternion.step_and_write(g.quaternion, to.correction, 4 * i, to.quaternion);
    opacity_logit.step_and_write(&g.opacity_logit, to.correction, i, to.opacity_logit);
}

// Steps the sh of a warp's Gaussians in `existing`, the first ones, from `first` on, a multiple of 32. d_rows: their
// gradients. By all lanes of a warp, after __syncwarp.
template <int length>
GS_DEVICE void step_sh(warp_rows<length> *d_rows, unsigned existing, int64_t first,
                       const stepped_gaussians &to) {
    constexpr int turns = (32 * length + 127) / 128, together = 4; // a lane takes four floats a turn
    const int lane = int(distwar::lane_id()), values = __popc(existing) * length, whole = values / 4 * 4;
    const int64_t begin = first * length;
    const auto gradient_at = [&](int place) {
        return d_rows->value + place + place / length * (warp_rows<length>::stride - length);
    };
    const auto rate_at = [&](int place) { return place % length < GS_CHANNELS ? to.sh.rate : to.shN; };
    const auto is_stepped = [&](int place) {
        bool used = false;
        for (int k = 0; k < 4; k++) used |= (place + k) % length < to.used;
        return used && place < whole;
    };
    for (int turn = 0; turn < turns; turn += together) {
        float4 x[together], m[together], v[together]; // read before the first is written, as above
        DISTWAR_UNROLL
        for (int t = 0; t < together; t++) {
            const int place = 4 * (32 * (turn + t) + lane);
            if (!is_stepped(place)) continue;
            x[t] = four_at(to.sh.value + begin + place);
            m[t] = four_at(to.sh.first_moment + begin + place);
            v[t] = four_at(to.sh.second_moment + begin + place);
        }
        DISTWAR_UNROLL
        for (int t = 0; t < together; t++) {
            const int place = 4 * (32 * (turn + t) + lane);
            if (!is_stepped(place)) continue;
            const float4 g = four_at(gradient_at(place));
            const float rate[4] = {rate_at(place), rate_at(place + 1), rate_at(place + 2),
                                   rate_at(place + 3)};
            adam_step_four(g, rate, to.correction, &x[t], &m[t], &v[t]);
            four_at(to.sh.value + begin + place) = x[t];
            four_at(to.sh.first_moment + begin + place) = m[t];
            four_at(to.sh.second_moment + begin + place) = v[t];
        }
    }
    const int place = whole + lane;
    const int64_t i = begin + place;
    if (place < values)
        to.sh.value[i] -= adam_decrease(*gradient_at(place), to.sh.first_moment + i, to.sh.second_moment + i,
                                        rate_at(place), to.correction);
}

// ---- gradients ----

// What the views of a Gaussian add up to, except for its colours.
template <bool with_camera>
struct gradient_sum {
    float mean[3], h;
    float shape[3][3];                // by W, see covariance.cuh; or shape[0] and [1] by the given covariance
    camera_terms<with_camera> camera; // there is one view
};

// What a block knows of a view.
struct view_constants {
    ratio_limits limits;
    float negative_center[3];
};

// Adds a view's gradients, but for those by SH; writes that by the splat's mean, in pixels. pixel_mean2d: or NULL.
template <int model, bool with_camera>
GS_DEVICE void add_view(const gs_gaussians &gaussians, const gs_camera &camera,
                        const view_constants &constants, int64_t i, const float mean[3],
                        const float axes[3][3], const gs_splat &splat, const gs_splat_grad &sums,
                        const float *pixel_mean2d, float d_mean2d[2], gradient_sum<with_camera> *sum) {
    // antialias: log opacity has the term log sqrt(sharp_determinant / determinant). The gradient by the
    // determinant's logarithm adds to the moments, since that of log sqrt(determinant) is L L^T / 2.
    const float d_log_sharp = gaussians.antialias ? sums.h : 0;
    float d_covariance[2][2], d_j[2][3];
    conic_sqrt_adjoint(splat, sums.h_e0, sums.h_e1, sums.h_e0e0 - d_log_sharp / two_ln2, sums.h_e0e1,
                       sums.h_e1e1 - d_log_sharp / two_ln2, d_mean2d, d_covariance);
    if (pixel_mean2d)
        for (int k = 0; k < 2; k++) d_mean2d[k] = pixel_mean2d[k];
    sum->h += sums.h;

    const auto p = point_of<model, reciprocal>::of(camera, constants.limits, mean);
    if (gaussians.covariance) {
        float map[2][3], d_given[6];
        screen_map(camera, p, map);
        covariance_from_given_adjoint(camera, gaussians.covariance + 6 * i, map, d_covariance, d_log_sharp,
                                      d_given, d_j);
        for (int k = 0; k < 6; k++) sum->shape[k / 3][k % 3] += d_given[k];
    } else {
        const image_axes a = image_axes_of(camera, p, axes);
        float d_map[2][3];
        covariance_from_map_adjoint(a.map, d_covariance, d_log_sharp, d_map);
        add_image_axes_adjoint(camera, p, a, d_map, sum->shape, d_j);
    }
    float d_point[3] = {0, 0, 0};
    add_depth_adjoint(p, sums.depth, d_point);
    for (int k = 0; k < 2; k++) p.add_projection_adjoint(camera, k, d_j[k], d_mean2d[k], d_point);
    for (int k = 0; k < 3; k++) sum->mean[k] += to_world(camera, d_point, k);
    if constexpr (with_camera) {
        camera_terms<true> terms = camera_terms_of(camera, p, d_j, d_mean2d, d_point);
        for (int k = 0; k < 3; k++) terms.value[TERM_CENTER + k] = sum->camera.value[TERM_CENTER + k];
        sum->camera = terms;
    }
}

// The gradient by the splat's colour from SH: a channel that was clamped at 0 has none.
__device__ void color_gradient(const gs_splat &splat, const gs_splat_grad &sums, float out[GS_CHANNELS]) {
    for (int c = 0; c < GS_CHANNELS; c++) out[c] = splat.color[c] > 0 ? sums.color[c] : 0;
}

// Adds a view's gradients by mean and camera by way of SH. Before add_view: the other order takes more registers.
template <int length, bool with_camera>
GS_DEVICE void add_view_color(const gs_gaussians &gaussians, const view_constants &constants,
                              const float mean[3], const gs_splat &splat, const gs_splat_grad &sums,
                              const float *row, int degree, gradient_sum<with_camera> *sum) {
    if (gaussians.color) return;
    float d_color[GS_CHANNELS], d_mean[3];
    color_gradient(splat, sums, d_color);
    color_from_sh_adjoint<length>(view_direction_of<reciprocal>(constants.negative_center, mean), row, degree,
                                  d_color, d_mean);
    for (int k = 0; k < 3; k++) sum->mean[k] += d_mean[k];
    if constexpr (with_camera)
        for (int k = 0; k < 3; k++) sum->camera.value[TERM_CENTER + k] = d_mean[k];
}

// From what the views add up to.
template <bool with_camera>
__device__ gaussian_gradient gradient_of(const gs_gaussians &gaussians, int64_t i,
                                         const gradient_sum<with_camera> &sum, const float axes[3][3]) {
    gaussian_gradient g = {};
    for (int k = 0; k < 3; k++) g.mean[k] = sum.mean[k];
    const float opacity = gaussians.opacity_logit[i];
    g.opacity_logit = gaussians.form != GS_RAW ? sum.h / opacity : sum.h * (1 - sigmoid(opacity));
    if (gaussians.covariance) {
        for (int k = 0; k < 6; k++) g.covariance[k] = sum.shape[k / 3][k % 3];
        return g;
    }
    world_axes_adjoint(gaussian_shape_of(gaussians, i), axes, sum.shape, g.log_scale, g.quaternion);
    for (int j = 0; gaussians.form != GS_RAW && j < 3; j++) { // by scales, not by their logarithms
        const float scale = gaussians.log_scale[3 * i + j];
        g.log_scale[j] = scale != 0 ? g.log_scale[j] / scale : 0;
    }
    return g;
}

template <int length>
__device__ void store(const float *in, int64_t i, float *to) {
    if (to)
        for (int k = 0; k < length; k++) to[length * i + k] = in[k];
}

// A function of its own, since few want it. unit: pixels of a unit of mean2d.
__device__ void absolute_mean2d(const gs_splat &splat, const gs_splat_grad &sums, bool has_gradient,
                                float2 unit, float *out) {
    const float length =
        sqrtf(splat.conic_sqrt[1] * splat.conic_sqrt[1] + splat.conic_sqrt[2] * splat.conic_sqrt[2]);
    out[0] = has_gradient ? two_ln2 * splat.conic_sqrt[0] * sums.abs_x * unit.x : 0;
    out[1] = has_gradient ? two_ln2 * length * sums.abs_y * unit.y : 0;
}

// All but colours and the camera.
__device__ void finish(const gaussian_gradient &g, int64_t i, const gs_gaussians &gradients) {
    store<3>(g.mean, i, gradients.mean);
    store<3>(g.log_scale, i, gradients.log_scale);
    store<4>(g.quaternion, i, gradients.quaternion);
    store<1>(&g.opacity_logit, i, gradients.opacity_logit);
    store<6>(g.covariance, i, gradients.covariance);
}

// Writes whole rows of gradients, those in `existing`.
template <int length>
GS_DEVICE void store_sh(warp_rows<length> *rows, unsigned existing, int64_t first,
                        const gs_gaussians &gradients) {
    if (!gradients.sh) return;
    if constexpr (length > GS_CHANNELS)
        if (gradients.sh0)
            return store_split_rows<GS_CHANNELS>(rows, existing, gradients.sh0 + first * GS_CHANNELS,
                                                 gradients.sh + first * (length - GS_CHANNELS));
    store_rows<length>(rows, existing, gradients.sh + first * length);
}

// Arrays over splats that the backward projection reads and writes; mean2d and abs_mean2d may be NULL.
struct splat_gradients {
    const float *splat_grad, *pixel_mean2d; // pixel_mean2d: or NULL
    float *mean2d, *abs_mean2d;
    float *density; // [][2], or NULL: adds the lengths of abs_mean2d to the first of each row
};

// A bit for each view that has a gradient for the Gaussian. Several loads at once, none behind a branch: a multiprocessor
// has few of these warps, which wait for memory.
GS_DEVICE unsigned views_with_gradient(const gs_splat *splats, const splat_gradients &at, int64_t count,
                                       int views, int64_t i) {
    unsigned in_views = 0, met = 0; // a bit for each view: not culled; a gradient that is not 0
    if (views == 1) {
        in_views = splats[i].depth != 0;
        met = any_grad(load_splat_grad(at.splat_grad, i));
    } else {
#pragma unroll 4
        for (int v = 0; v < views; v++) in_views |= unsigned(splats[v * count + i].depth != 0) << v;
#pragma unroll 4
        for (int v = 0; v < views; v++) {
            const int64_t of_view = in_views >> v & 1 ? v * count + i : 0; // row 0 is in the cache
            met |= unsigned(any_grad(load_splat_grad(at.splat_grad, of_view))) << v;
        }
    }
    for (int v = 0; at.pixel_mean2d && v < views; v++) {
        const float *const mean2d = at.pixel_mean2d + 2 * (v * count + i);
        met |= unsigned(mean2d[0] != 0 || mean2d[1] != 0) << v;
    }
    return in_views & met;
}

// Which views a kernel is for. One for a single view needs fewer registers.
enum views_of_launch { SEVERAL_VIEWS, ONE_VIEW, ONE_VIEW_AND_CAMERA };

// Sums the gradients of all views of the launch. sh_degree as for project_kernel (project.cu). to: where the gradients are
// written, NULL members are not; or what is stepped by them. camera_rows: with the camera, a row per warp.
template <int model, int sh_degree, views_of_launch of_launch, class Target>
__global__ void __launch_bounds__(rows_block)
    project_backward_kernel(const gs_gaussians gaussians, int degree, const several_cameras cameras,
                            const gs_splat *splats, const splat_gradients of_splats, const Target to,
                            float *camera_rows) {
    constexpr int length = sh_floats(sh_degree);
    constexpr bool with_camera = of_launch == ONE_VIEW_AND_CAMERA;
    // Read where it is used: ptxas takes more registers for a variable.
    const auto views = [&] { return of_launch == SEVERAL_VIEWS ? cameras.count : 1; };
    __shared__ warp_rows<length> memory[rows_block / 32];
    __shared__ view_constants constants[GS_MAX_VIEWS];
    static_assert(GS_MAX_VIEWS <= rows_block, "a thread for each view");
    warp_rows<length> *const rows = &memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    const int64_t i = int64_t(blockIdx.x) * rows_block + threadIdx.x, first = i - lane;
    const bool exists = i < gaussians.count;
    if (int(threadIdx.x) < views()) {
        const gs_camera &camera = cameras.at[threadIdx.x];
        constants[threadIdx.x].limits = ratio_limits_of(camera);
        negative_center(camera, constants[threadIdx.x].negative_center);
    }
    __syncthreads();

    const unsigned in_views =
        exists ? views_with_gradient(splats, of_splats, gaussians.count, views(), i) : 0;
    const unsigned wanted = __ballot_sync(distwar::all_lanes, in_views != 0);
    const unsigned existing = __ballot_sync(distwar::all_lanes, exists);
    begin_sh<length>(gaussians, first, wanted, sh_floats(degree), rows);
    float mean[3] = {}, axes[3][3] = {};
    if (in_views != 0) {
        for (int k = 0; k < 3; k++) mean[k] = gaussians.mean[3 * i + k];
        if (!gaussians.covariance) world_axes(gaussian_shape_of(gaussians, i), axes);
    }
    finish_rows();

    float *const row = rows->row(lane);
    gradient_sum<with_camera> sum = {};
    float length_sum = 0;
    for (int v = 0; exists && v < views(); v++) {
        const int64_t of_view = v * gaussians.count + i;
        const float2 unit =
            make_float2(0.5f * float(cameras.at[v].width), 0.5f * float(cameras.at[v].height));
        float mean2d[2] = {}, absolute[2] = {};
        if (in_views >> v & 1) {
            const gs_splat splat = splats[of_view];
            const gs_splat_grad sums = load_splat_grad(of_splats.splat_grad, of_view);
            if (of_splats.abs_mean2d || of_splats.density) absolute_mean2d(splat, sums, true, unit, absolute);
            length_sum += sqrtf(absolute[0] * absolute[0] + absolute[1] * absolute[1]);
            add_view_color<length>(gaussians, constants[v], mean, splat, sums, row, degree, &sum);
            add_view<model>(gaussians, cameras.at[v], constants[v], i, mean, axes, splat, sums,
                            of_splats.pixel_mean2d ? of_splats.pixel_mean2d + 2 * of_view : nullptr, mean2d,
                            &sum);
            mean2d[0] *= unit.x, mean2d[1] *= unit.y;
        }
        store<2>(mean2d, of_view, of_splats.mean2d);
        store<2>(absolute, of_view, of_splats.abs_mean2d);
    }

    if constexpr (with_camera)
        if (existing != 0) // else the warp has no row
            store_warp_total(in_views != 0, sum.camera, camera_rows + first / 32 * camera_row_floats);
    if (of_splats.density && length_sum > 0) of_splats.density[2 * i] += length_sum;
    if (exists) {
        gaussian_gradient g = {};
        if (in_views != 0) g = gradient_of(gaussians, i, sum, axes);
        finish(g, i, to);
    }

    // The rows have been read: gradients take their place, so that more warps have room.
    float d_row[length] = {};
    for (int v = 0; v < views(); v++) {
        if (!(in_views >> v & 1)) continue;
        const int64_t of_view = v * gaussians.count + i;
        const gs_splat_grad sums = load_splat_grad(of_splats.splat_grad, of_view);
        float d_color[GS_CHANNELS];
        if (gaussians.color) {
            for (int c = 0; c < GS_CHANNELS; c++) d_row[c] += sums.color[c];
            continue;
        }
        color_gradient(splats[of_view], sums, d_color);
        add_sh_adjoint<length>(view_direction_of<reciprocal>(constants[v].negative_center, mean), degree,
                               d_color, d_row);
    }
    if constexpr (std::is_same_v<Target, gs_gaussians>) // given colours are not stepped
        if (exists && gaussians.color) store<GS_CHANNELS>(d_row, i, to.color);
    DISTWAR_UNROLL
    for (int k = 0; k < length; k += 4) {
        float four[4] = {};
        for (int e = 0; e < 4 && k + e < length; e++) four[e] = d_row[k + e];
        write_four<length>(four, length - k, row + k);
    }
    __syncwarp();
    if constexpr (std::is_same_v<Target, gs_gaussians>)
        store_sh<length>(rows, existing, first, to);
    else
        step_sh<length>(rows, existing, first, to);
}

__global__ void __launch_bounds__(project_block)
    mean2d_gradient_kernel(const gs_splat *splats, int64_t count, const float *splat_grad, float *mean2d,
                           float *abs_mean2d) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= count) return;
    const gs_splat splat = splats[i];
    const gs_splat_grad sums = load_splat_grad(splat_grad, i);
    float d_mean2d[2] = {}, d_covariance[2][2];
    if (splat.depth != 0) conic_sqrt_adjoint(splat, sums.h_e0, sums.h_e1, 0, 0, 0, d_mean2d, d_covariance);
    store<2>(d_mean2d, i, mean2d);
    if (abs_mean2d) absolute_mean2d(splat, sums, splat.depth != 0, make_float2(1, 1), abs_mean2d + 2 * i);
}

// Queues the kernel. The caller has checked the arguments.
template <views_of_launch of_launch, typename Target>
gs_status queue_backward(const gs_view *view, const gs_gaussians &in, const gs_gradient &gradient,
                         const Target &to, float *camera_rows, gs_stream stream) {
    const splat_gradients of_splats = {reinterpret_cast<const float *>(gradient.splat_grad),
                                       gradient.pixel_mean2d, gradient.mean2d, gradient.abs_mean2d,
                                       gradient.adam ? gradient.adam->density : nullptr};
    return GS_STATUS(with_model_and_degree(view, in, [&](auto model, auto sh_degree) {
        return launch_for(stream, in.count, rows_block,
                          project_backward_kernel<model, sh_degree, of_launch, Target>, in,
                          used_degree(view->sh_degree_used, &in), cameras_of(view), view->splats, of_splats,
                          to, camera_rows);
    }));
}

// Steps gradient.adam in place of storing gradients.
gs_status step_by_gradient(const char *function, const gs_view *view, const gs_gaussians &in,
                           const gs_gradient &gradient, gs_stream stream) {
    const gs_adam_step *const adam = gradient.adam;
    GS_ARGUMENT(!in.color && !in.covariance && in.form == GS_RAW && !in.sh0,
                "given colours and covariances, activated arrays and sh0 are not stepped");
    GS_TRY(check_adam(function, adam));
    GS_ARGUMENT(same_shape(adam->gaussians, &in), "adam must have the shape of gaussians");
    GS_ARGUMENT(!gradient.camera, "the gradient by the camera is not computed with a step");
    const gs_arrays value = gs_arrays_of(adam->gaussians), first = gs_arrays_of(adam->first_moment),
                    second = gs_arrays_of(adam->second_moment);
    const gs_adam_rates *const rates = &adam->rates;
    const auto of = [&](int a, float rate) {
        return stepped_array{value.of[a], first.of[a], second.of[a], rate};
    };
    const int length = value.width[GS_ARRAYS - 1], used = GS_CHANNELS * rates->sh_coefficients;
    const stepped_gaussians to = {of(0, rates->mean),
                                  of(1, rates->log_scale),
                                  of(2, rates->quaternion),
                                  of(3, rates->opacity_logit),
                                  of(4, rates->sh0),
                                  rates->shN,
                                  used > 0 && used < length ? used : length,
                                  adam_correction_at(adam->step)};
    GS_ARGUMENT(
        (uintptr_t(to.sh.value) | uintptr_t(to.sh.first_moment) | uintptr_t(to.sh.second_moment)) % 16 == 0,
        "sh of adam's arrays must be aligned to 16 bytes");
    return queue_backward<SEVERAL_VIEWS>(view, in, gradient, to, nullptr, stream);
}

} // namespace

gs_status gs_project_backward(const gs_view *view, const gs_gradient *gradient, gs_context *context) {
    const gs_stream stream = stream_of(context);
    gs_gaussians in, out;
    GS_TRY(check_projected(__func__, view, &in));
    GS_REQUIRE(gradient, "gradient must be given");
    GS_REQUIRE(in.count == 0 || gradient->splat_grad, "splat_grad must be given");
    if (gradient->adam) return step_by_gradient(__func__, view, in, *gradient, stream);
    GS_REQUIRE(gradient->gaussians.count == in.count &&
                   (in.color || gradient->gaussians.sh_degree == in.sh_degree),
               "the gradient must have the shape of gaussians");
    GS_TRY(readable(__func__, &gradient->gaussians, &view->gaussians, &out));
    if (in.channels != GS_CHANNELS) out.color = nullptr; // gs_render_backward has written it
    camera_sums sums = {};
    if (gradient->camera) {
        GS_REQUIRE(view_count(view) == 1, "the gradient by the camera is of one camera only");
        GS_TRY(place_camera_sums(__func__, context, in.count, &sums));
    }
    const auto queue = gradient->camera        ? queue_backward<ONE_VIEW_AND_CAMERA, gs_gaussians>
                       : view_count(view) == 1 ? queue_backward<ONE_VIEW, gs_gaussians>
                                               : queue_backward<SEVERAL_VIEWS, gs_gaussians>;
    GS_TRY(queue(view, in, *gradient, out, sums.rows, stream));
    if (!gradient->camera) return GS_OK;
    return launch_camera_sums(stream, *camera_of(view, 0), in.count, sums, gradient->camera);
}

gs_status gs_backward(const gs_view *view, const gs_gradient *gradient, distwar_policy policy,
                      gs_context *context) {
    GS_TRY(gs_render_backward(view, gradient, policy, context));
    return gs_project_backward(view, gradient, context);
}

gs_status gs_mean2d_gradient(const gs_view *view, const gs_splat_grad *splat_grad, float *mean2d,
                             float *abs_mean2d, gs_context *context) {
    GS_TRY(check_extent(__func__, view));
    const int64_t count = splat_count(view);
    GS_REQUIRE(count == 0 || (view->splats && splat_grad), "splats and splat_grad must be given");
    return GS_STATUS(launch_for(stream_of(context), count, project_block, mean2d_gradient_kernel,
                                view->splats, count, reinterpret_cast<const float *>(splat_grad), mean2d,
                                abs_mean2d));
}
