// SPDX-License-Identifier: MIT
// The whole way from parameters to picture, and back, as one call each: the stages in a row, with the memory
// between them laid out in one workspace.
#include "status.h"

// Where the parts lie in a frame's workspace.
typedef struct frame_layout {
    size_t splats, moments, bin, bin_bytes, total;
} frame_layout;

static size_t aligned(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static gs_status layout_of(const gs_frame *frame, frame_layout *out) {
    const int64_t count = frame->gaussians.count;
    gs_status status = gs_bin_workspace(count, frame->camera.width, frame->camera.height,
                                        frame->pair_capacity, &out->bin_bytes);
    size_t moments_bytes;
    if (status == GS_OK)
        status = gs_moments_bytes(count, frame->with_fixed ? GS_FIXED : GS_TREE, &moments_bytes);
    if (status != GS_OK) return status;
    out->splats = 0;
    out->moments = out->splats + aligned((size_t)count * sizeof(gs_splat));
    out->bin = out->moments + aligned(moments_bytes);
    out->total = out->bin + out->bin_bytes;
    return GS_OK;
}

gs_status gs_frame_workspace(const gs_frame *frame, size_t *bytes) {
    GS_REQUIRE(frame && bytes, "frame and bytes must be given");
    frame_layout layout;
    const gs_status status = layout_of(frame, &layout);
    if (status == GS_OK) *bytes = layout.total;
    return status;
}

gs_status gs_forward(gs_frame *frame, gs_stream stream) {
    GS_REQUIRE(frame, "frame must be given");
    frame_layout layout;
    gs_status status = layout_of(frame, &layout);
    if (status != GS_OK) return status;
    GS_REQUIRE(frame->workspace && frame->workspace_bytes >= layout.total,
               "the workspace is NULL or smaller than gs_frame_workspace says");

    const gs_camera *camera = &frame->camera;
    const int64_t count = frame->gaussians.count;
    char *base = frame->workspace;
    gs_splat *splats = (gs_splat *)(base + layout.splats);
    gs_lists lists;
    status = gs_project(&frame->gaussians, frame->sh_degree_used, camera, splats, stream);
    if (status == GS_OK)
        status = gs_bin(splats, count, camera->width, camera->height, frame->pair_capacity, base + layout.bin,
                        layout.bin_bytes, &lists, &frame->pairs_needed, stream);
    if (status != GS_OK) return status;
    frame->splats = splats;
    frame->lists = lists;
    return gs_render(splats, &lists, camera->width, camera->height, frame->background, &frame->image, stream);
}

gs_status gs_backward(const gs_frame *frame, const float *color_gradient, const float *alpha_gradient,
                      gs_reduction reduction, int balance_threshold, const gs_gaussians *gradients,
                      float *mean2d_gradient, gs_stream stream) {
    GS_REQUIRE(frame, "frame must be given");
    frame_layout layout;
    gs_status status = layout_of(frame, &layout);
    if (status != GS_OK) return status;
    GS_REQUIRE(frame->workspace && frame->splats == frame->workspace,
               "the frame is not as gs_forward left it");
    GS_REQUIRE(reduction != GS_FIXED || frame->with_fixed, "GS_FIXED needs a frame with_fixed");

    const gs_camera *camera = &frame->camera;
    float *moments = (float *)((char *)frame->workspace + layout.moments);
    status = gs_render_backward(frame->splats, frame->gaussians.count, &frame->lists, camera->width,
                                camera->height, frame->background, &frame->image, color_gradient,
                                alpha_gradient, reduction, balance_threshold, moments, stream);
    if (status != GS_OK) return status;
    return gs_project_backward(&frame->gaussians, frame->sh_degree_used, camera, frame->splats, moments,
                               gradients, mean2d_gradient, stream);
}
