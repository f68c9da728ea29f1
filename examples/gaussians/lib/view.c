// SPDX-License-Identifier: MIT
// The stages in a row, forward and backward, and the memory of a view in one block.
#include "gpu/block_layout.h"
#include "check.h"

// Divides `memory` (NULL: only counts) among the wanted parts, which become those of *view and *gradient.
static gs_status divide(const char *function, gs_view *view, gs_gradient *gradient,
                        const gs_view_parts *parts, void *memory, size_t *bytes) {
    GS_TRY(check_extent(function, view));
    GS_TRY(check_channels(function, view->gaussians.channels));
    const gs_view_parts wanted = parts ? *parts : (gs_view_parts){0};
    const int64_t count = splat_count(view);
    const size_t pixels = (size_t)view_count(view) * (size_t)view->camera.width * (size_t)view->camera.height;
    block_layout layout = {memory, 0};
    view->splats = layout_add(&layout, (size_t)count * sizeof(gs_splat));
    if (wanted.image) {
        gs_image *image = &view->image;
        image->color = layout_add(&layout, pixels * (size_t)channels_of(&view->gaussians) * sizeof(float));
        image->transmittance = layout_add(&layout, pixels * sizeof(float));
        image->n_contrib = layout_add(&layout, pixels * sizeof(uint32_t));
    }
    if (wanted.splat_grad) {
        GS_TRY(gs_splat_grad_bytes(count, view->gaussians.channels, wanted.strategy,
                                   &gradient->splat_grad_bytes));
        gradient->splat_grad = layout_add(&layout, gradient->splat_grad_bytes);
    }
    if (wanted.camera_gradient) {
        gradient->camera = layout_add(&layout, sizeof *gradient->camera);
    }
    GS_TRY(gs_bin_bytes(view, &view->workspace_bytes));
    view->workspace = layout_add(&layout, view->workspace_bytes);
    *bytes = layout.bytes;
    return GS_OK;
}

gs_status gs_view_bytes(const gs_view *view, const gs_view_parts *parts, size_t *bytes) {
    GS_REQUIRE(view, "view must be given");
    GS_REQUIRE(bytes, "bytes must be given");
    gs_view divided = *view;
    gs_gradient unused;
    return divide(__func__, &divided, &unused, parts, NULL, bytes);
}

gs_status gs_view_place(gs_view *view, gs_gradient *gradient, const gs_view_parts *parts, void *block,
                        size_t bytes) {
    GS_REQUIRE(view, "view must be given");
    GS_REQUIRE(gradient || !parts || !(parts->splat_grad || parts->camera_gradient),
               "gradient must be given for splat_grad and camera_gradient");
    gs_view divided = *view;
    gs_gradient with = gradient ? *gradient : (gs_gradient){0};
    size_t needed;
    GS_TRY(divide(__func__, &divided, &with, parts, block, &needed));
    GS_REQUIRE(block && bytes >= needed, "the block is NULL or smaller than gs_view_bytes");
    *view = divided;
    if (gradient) *gradient = with;
    return GS_OK;
}

gs_status gs_forward(gs_view *view, gs_context *context) {
    GS_TRY(gs_project(view, context));
    GS_TRY(gs_bin(view, context));
    return gs_render(view, context);
}

gs_status gs_backward(const gs_view *view, const gs_gradient *gradient, distwar_policy policy,
                      gs_context *context) {
    GS_TRY(gs_render_backward(view, gradient, policy, context));
    return gs_project_backward(view, gradient, context);
}
