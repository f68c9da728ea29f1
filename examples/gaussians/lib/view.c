// SPDX-License-Identifier: MIT
// The stages in a row, forward and backward, and the memory of a view in one block.
#include "check.h"

// Byte offsets in a block; parts that are not wanted have no bytes.
typedef struct view_layout {
    size_t splats, color, transmittance, n_contrib, moments, moments_bytes, camera, camera_bytes, bin,
        bin_bytes, total;
} view_layout;

// Offset of the next part; *end moves behind it, aligned.
static size_t place(size_t *end, size_t bytes) {
    const size_t at = *end;
    *end += (bytes + 255) / 256 * 256;
    return at;
}

static gs_status layout_of(const char *function, const gs_view *view, const gs_view_parts *parts,
                           view_layout *out) {
    GS_TRY(check_extent(function, view));
    GS_TRY(check_channels(function, view->gaussians.channels));
    const int64_t count = splat_count(view);
    const size_t pixels = (size_t)view_count(view) * (size_t)view->camera.width * (size_t)view->camera.height;
    const size_t wanted = parts && parts->image ? pixels : 0;
    *out = (view_layout){0};
    GS_TRY(gs_bin_bytes(view, &out->bin_bytes));
    if (parts && parts->moments)
        GS_TRY(gs_moments_bytes(count, view->gaussians.channels, parts->strategy, &out->moments_bytes));
    if (parts && parts->camera_gradient)
        GS_TRY(gs_camera_gradient_bytes(view->gaussians.count, &out->camera_bytes));
    out->splats = place(&out->total, (size_t)count * sizeof(gs_splat));
    out->color = place(&out->total, wanted * (size_t)channels_of(&view->gaussians) * sizeof(float));
    out->transmittance = place(&out->total, wanted * sizeof(float));
    out->n_contrib = place(&out->total, wanted * sizeof(uint32_t));
    out->moments = place(&out->total, out->moments_bytes);
    out->camera = place(&out->total, out->camera_bytes);
    out->bin = place(&out->total, out->bin_bytes);
    return GS_OK;
}

gs_status gs_view_bytes(const gs_view *view, const gs_view_parts *parts, size_t *bytes) {
    GS_REQUIRE(bytes, "bytes must be given");
    view_layout layout;
    GS_TRY(layout_of(__func__, view, parts, &layout));
    *bytes = layout.total;
    return GS_OK;
}

gs_status gs_view_place(gs_view *view, gs_gradient *gradient, const gs_view_parts *parts, void *block,
                        size_t bytes) {
    view_layout layout;
    GS_TRY(layout_of(__func__, view, parts, &layout));
    GS_REQUIRE(block && bytes >= layout.total, "the block is NULL or smaller than gs_view_bytes");
    GS_REQUIRE(gradient || !parts || !(parts->moments || parts->camera_gradient),
               "gradient must be given for moments and camera_gradient");
    char *const base = block;
    view->splats = (gs_splat *)(void *)(base + layout.splats);
    view->workspace = base + layout.bin;
    view->workspace_bytes = layout.bin_bytes;
    if (parts && parts->image) {
        view->image.color = (float *)(void *)(base + layout.color);
        view->image.transmittance = (float *)(void *)(base + layout.transmittance);
        view->image.n_contrib = (uint32_t *)(void *)(base + layout.n_contrib);
    }
    if (parts && parts->moments) {
        gradient->moments = (gs_moments *)(void *)(base + layout.moments);
        gradient->moments_bytes = layout.moments_bytes;
    }
    if (parts && parts->camera_gradient) {
        gradient->camera = (gs_camera_gradient *)(void *)(base + layout.camera);
        gradient->camera_bytes = layout.camera_bytes;
    }
    return GS_OK;
}

gs_status gs_forward(gs_view *view, gs_stream stream) {
    GS_TRY(gs_project(view, stream));
    GS_TRY(gs_bin(view, stream));
    return gs_render(view, stream);
}

gs_status gs_backward(const gs_view *view, const gs_gradient *gradient, distwar_policy policy,
                      gs_stream stream) {
    GS_TRY(gs_render_backward(view, gradient, policy, stream));
    return gs_project_backward(view, gradient, stream);
}
