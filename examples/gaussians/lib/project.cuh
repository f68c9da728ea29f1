// SPDX-License-Identifier: MIT
// A view as gs_project and its adjoint read it: its cameras, its scene, and the choice of their kernels.
#pragma once

#include "context.h"
#include "covariance.cuh"
#include "launch.cuh"
#include "sh.cuh"

namespace gs {

constexpr int project_block = 128;
constexpr int rows_block = 64; // threads of the kernels that move SH rows: a warp's rows take up to 6.5 KiB

// Starts reading the first `used` floats of the SH rows of a warp's Gaussians in `wanted`, from the first one on;
// finish_rows waits. length: sh_floats(sh_degree).
template <int length>
GS_DEVICE void begin_sh(const gs_gaussians &gaussians, int64_t first, unsigned wanted, int used,
                        warp_rows<length> *rows) {
    if (gaussians.color) return;
    if constexpr (length > GS_CHANNELS)
        if (gaussians.sh0)
            return begin_split_rows<GS_CHANNELS>(gaussians.sh0 + first * GS_CHANNELS,
                                                 gaussians.sh + first * (length - GS_CHANNELS), wanted, used,
                                                 rows);
    begin_rows<length>(gaussians.sh + first * length, wanted, used, rows);
}

// The cameras of a launch, as kernels take them. angle_limit: of a fisheye.
struct several_cameras {
    int count;
    gs_camera at[GS_MAX_VIEWS];
    float angle_limit[GS_MAX_VIEWS];
};
static_assert(sizeof(several_cameras) <= 3840, "fits with the other arguments into 4 KiB");

// *out becomes what the kernels read or write: arrays that the scene does not read become NULL.
inline gs_status readable(const char *function, const gs_gaussians *in, const gs_gaussians *scene,
                          gs_gaussians *out) {
    GS_TRY(check_degree(function, in->sh_degree));
    GS_TRY(check_colors(function, scene));
    *out = *in;
    out->channels = channels_of(scene);
    const bool has_sh0 = scene->sh0 && in->sh_degree > 0 && !scene->color;
    if (scene->sh0 && in->sh_degree == 0) out->sh = out->sh0; // there is no rest
    if (!has_sh0) out->sh0 = nullptr;
    (scene->color ? out->sh : out->color) = nullptr;
    (scene->covariance ? out->log_scale : out->covariance) = nullptr;
    if (scene->covariance) out->quaternion = nullptr;
    if (in->count == 0) return GS_OK;
    GS_ARGUMENT(out->mean && out->opacity_logit, "mean and opacity_logit must be given");
    GS_ARGUMENT(scene->color ? out->color : out->sh, "sh, or color, must be given, in gradients the same");
    GS_ARGUMENT(!has_sh0 || out->sh0, "sh0 must be given in gradients too");
    GS_ARGUMENT(scene->covariance ? out->covariance != nullptr : out->log_scale && out->quaternion,
                "log_scale and quaternion, or covariance, must be given, in gradients the same");
    return GS_OK;
}

inline float angle_limit(const gs_camera &camera) {
    return float(lens_of(&camera)->limit_of(&camera));
}

inline gs_status check_projected(const char *function, const gs_view *view, gs_gaussians *out) {
    GS_TRY(check_extent(function, view));
    for (int32_t v = 0; v < view_count(view); v++) {
        GS_TRY(check_camera(function, camera_of(view, v)));
        GS_ARGUMENT(camera_of(view, v)->model == camera_of(view, 0)->model,
                    "the cameras of a view must have one model");
    }
    GS_TRY(readable(function, &view->gaussians, &view->gaussians, out));
    GS_ARGUMENT(out->scale_modifier >= 0 && isfinite(out->scale_modifier),
                "scale_modifier must be finite and not negative");
    if (out->scale_modifier == 0) out->scale_modifier = 1;
    GS_ARGUMENT(out->form == GS_RAW || out->form == GS_ACTIVATED, "form must be GS_RAW or GS_ACTIVATED");
    GS_ARGUMENT(out->eps2d >= 0 && isfinite(out->eps2d), "eps2d must be finite and not negative");
    if (out->eps2d == 0) out->eps2d = default_eps2d;
    GS_ARGUMENT(view->sh_degree_used >= 0, "sh_degree_used must not be negative");
    GS_ARGUMENT(out->count == 0 || view->splats, "splats must be given");
    return GS_OK;
}

inline several_cameras cameras_of(const gs_view *view) {
    several_cameras out = {};
    out.count = view_count(view);
    for (int v = 0; v < out.count; v++) {
        out.at[v] = *camera_of(view, v);
        out.angle_limit[v] = angle_limit(out.at[v]);
    }
    return out;
}

// Returns body(model, sh_degree) with both at compile time: of the cameras, and of gaussians.sh, 0 with given colours.
template <typename Body>
auto with_model_and_degree(const gs_view *view, const gs_gaussians &gaussians, const Body &body) {
    const int degree = gaussians.color ? 0 : gaussians.sh_degree;
    return with_model(camera_of(view, 0)->model, [&](auto model) {
        return with_model<GS_MAX_SH_DEGREE>(degree, [&](auto sh_degree) { return body(model, sh_degree); });
    });
}

} // namespace gs
