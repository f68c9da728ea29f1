// SPDX-License-Identifier: MIT
// Gaussians to splats: what one camera sees of each Gaussian. Reads the parameters and the cameras of a view, writes
// its splats. A kernel loads, calls the geometry (camera.cuh, covariance.cuh, sh.cuh), and stores. The adjoint:
// project_backward.cu. Formulas: docs/developers/math.md, sections 2 to 4.
#include "project.cuh"

using namespace gs;

namespace {

constexpr float min_opacity = 1.0f / 255.0f; // a splat below this alpha is not drawn
constexpr float min_log2_opacity = -7.994353436858858f;

// several_cameras of one.
struct one_camera {
    static constexpr int count = 1;
    gs_camera at[count];
    float angle_limit[count];
};

// Whether scales and opacities are stored as logarithms and logits, the low-pass filter is the usual one, and no
// camera has a far plane.
bool is_usual(const gs_view *view, const gs_gaussians &gaussians) {
    bool usual = gaussians.form == GS_RAW && gaussians.eps2d == default_eps2d;
    for (int v = 0; v < view_count(view); v++) usual = usual && !(camera_of(view, v)->far_plane > 0);
    return usual;
}

// sh_degree: of gaussians.sh; any value if gaussians.color is read instead. model: of all cameras. usual: is_usual, a
// template argument since the kernel takes a tenth longer with a variable. A block serves one camera; neighbouring blocks
// serve the same Gaussians, whose parameters are then in the cache.
template <int model, int sh_degree, bool usual, typename Cameras>
__global__ void __launch_bounds__(rows_block)
    project_kernel(gs_gaussians gaussians, int degree, const Cameras cameras, gs_splat *splats) {
    if constexpr (usual) gaussians.form = GS_RAW, gaussians.eps2d = default_eps2d;
    using point = point_of<model, divisor>;
    constexpr int length = sh_floats(sh_degree);
    constexpr bool together = sh_degree >= 2; // a lane reads a short row faster alone
    __shared__ warp_rows<together ? length : 1> memory[rows_block / 32];
    auto *const rows = &memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    const int view = int(blockIdx.x % unsigned(cameras.count));
    const int64_t i = int64_t(blockIdx.x / unsigned(cameras.count)) * rows_block + threadIdx.x,
                  first = i - lane;
    const bool exists = i < gaussians.count;
    const gs_camera &camera = cameras.at[view];

    float stored_opacity = 0; // read along with the mean, used after it
    point p = {};
    if (exists) {
        stored_opacity = gaussians.opacity_logit[i];
        p = point::of(camera, ratio_limits_of(camera), gaussians.mean + 3 * i);
    }
    const bool may_be_seen =
        exists && is_in_front(camera, p, cameras.angle_limit[view]) &&
        (gaussians.form != GS_RAW ? stored_opacity : sigmoid(stored_opacity)) >= min_opacity;
    if constexpr (together) {
        const unsigned wanted = __ballot_sync(distwar::all_lanes, may_be_seen);
        begin_sh<length>(gaussians, first, wanted, sh_floats(degree), rows);
        finish_rows();
    }
    if (!exists) return;

    gs_splat splat = {};
    if (may_be_seen) {
        image_covariance s;
        if (gaussians.covariance) {
            float map[2][3];
            screen_map(camera, p, map);
            s = covariance_from_given(gaussians.covariance + 6 * i, map, gaussians.eps2d);
        } else {
            s = covariance_from_map(image_axes_of(camera, p, gaussian_shape_of(gaussians, i)).map,
                                    gaussians.eps2d);
        }
        for (int k = 0; k < 2; k++) splat.mean[k] = p.projected_mean(camera, k);
        conic_sqrt_of(s, splat.conic_sqrt);
        splat.log2_opacity = gaussians.form != GS_RAW ? log2f(stored_opacity)
                                                      : -1.4426950408889634f * log1pf(expf(-stored_opacity));
        // A determinant of 0 gives an infinite logarithm: not finite, so culled.
        if (gaussians.antialias) splat.log2_opacity += 0.5f * log2f(s.sharp_determinant / s.determinant);

        float color[GS_CHANNELS];
        if (gaussians.color) { // other numbers of channels: the blend reads them
            for (int c = 0; c < GS_CHANNELS; c++)
                splat.color[c] = color[c] =
                    gaussians.channels == GS_CHANNELS ? gaussians.color[GS_CHANNELS * i + c] : 0;
        } else {
            const float *row = together ? rows->row(lane) : gaussians.sh + i * length;
            alignas(16) float own[length];
            if (!together && length > GS_CHANNELS && gaussians.sh0) {
                for (int k = 0; k < length; k++)
                    own[k] = k < GS_CHANNELS ? gaussians.sh0[GS_CHANNELS * i + k]
                                             : gaussians.sh[(length - GS_CHANNELS) * i + k - GS_CHANNELS];
                row = own;
            }
            color_from_sh<length>(camera, gaussians.mean + 3 * i, row, degree, color);
            for (int c = 0; c < GS_CHANNELS; c++) splat.color[c] = fmaxf(color[c], 0.0f);
        }

        // A sum is finite only if all its terms are. `color`, not splat.color: fmaxf drops a NaN.
        float color_sum = color[0];
        for (int c = 1; c < GS_CHANNELS; c++) color_sum += color[c];
        const bool finite = isfinite(splat.mean[0] + splat.mean[1]) &&
                            isfinite(s.xx + s.yy + s.determinant) &&
                            isfinite(splat.conic_sqrt[0] + splat.conic_sqrt[1] + splat.conic_sqrt[2]) &&
                            isfinite(splat.log2_opacity) && isfinite(color_sum);
        const bool faded = gaussians.antialias && splat.log2_opacity < min_log2_opacity;
        const bool too_far = !usual && camera.far_plane > 0 && splat_depth(p) > camera.far_plane;
        if (finite && !faded && !too_far) splat.depth = splat_depth(p);
    }
    splats[view * gaussians.count + i] = splat;
}

__global__ void __launch_bounds__(project_block)
    radii_kernel(const gs_splat *splats, int64_t count, int width, int height, int32_t *radii) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= count) return;
    radii[i] = splat_radius(splats[i], width, height);
}

template <int model>
__global__ void __launch_bounds__(project_block)
    mark_visible_kernel(gs_gaussians gaussians, gs_camera camera, float angle_limit, uint8_t *visible) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const auto p = point_of<model, divisor>::of(camera, ratio_limits_of(camera), gaussians.mean + 3 * i);
    visible[i] = is_in_front(camera, p, angle_limit) && isfinite(splat_depth(p));
}

} // namespace

gs_status gs_project(const gs_view *view, gs_context *context) {
    gs_gaussians in;
    GS_TRY(check_projected(__func__, view, &in));
    const auto run = [&](const auto &cameras) {
        using Cameras = std::decay_t<decltype(cameras)>;
        return with_model_and_degree(view, in, [&](auto model, auto sh_degree) {
            return launch(stream_of(context), blocks_for(in.count, rows_block) * unsigned(cameras.count),
                          rows_block,
                          is_usual(view, in) ? project_kernel<model, sh_degree, true, Cameras>
                                             : project_kernel<model, sh_degree, false, Cameras>,
                          in, used_degree(view->sh_degree_used, &in), cameras, view->splats);
        });
    };
    const gs_camera &first = *camera_of(view, 0);
    return GS_STATUS(view_count(view) > 1 ? run(cameras_of(view))
                                          : run(one_camera{{first}, {angle_limit(first)}}));
}

gs_status gs_radii(const gs_view *view, int32_t *radii, gs_context *context) {
    GS_TRY(check_one_view(__func__, view));
    const int64_t count = view->gaussians.count;
    GS_REQUIRE(count == 0 || (view->splats && radii), "splats and radii must be given");
    return GS_STATUS(launch_for(stream_of(context), count, project_block, radii_kernel, view->splats, count,
                                view->camera.width, view->camera.height, radii));
}

gs_status gs_mark_visible(const gs_view *view, uint8_t *visible, gs_context *context) {
    GS_TRY(check_one_view(__func__, view));
    GS_TRY(check_camera(__func__, &view->camera));
    const gs_gaussians &gaussians = view->gaussians;
    GS_REQUIRE(gaussians.count == 0 || (gaussians.mean && visible), "mean and visible must be given");
    return GS_STATUS(launch_for(stream_of(context), gaussians.count, project_block,
                                GS_OF_MODEL(mark_visible_kernel, view->camera.model), gaussians, view->camera,
                                angle_limit(view->camera), visible));
}
