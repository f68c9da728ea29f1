// SPDX-License-Identifier: MIT
// The stages in a row, forward and backward, and the memory of a view. Queues no kernels of its own.
#include "check.h"
#include "rows.h"

gs_status gs_forward(gs_view *view, gs_context *context) {
    gs_status status;
    do {
        GS_TRY(libgs_hold(__func__, view, context));
        GS_TRY(gs_project(view, context));
        GS_TRY(gs_bin(view, context));
        GS_TRY(gs_render(view, context));
        status = gs_settle(view, context);
    } while (status == GS_ISECTS_DO_NOT_FIT); // there is room now
    return status;
}

gs_status gs_backward(const gs_view *view, const gs_gradient *gradient, distwar_policy policy,
                      gs_context *context) {
    GS_TRY(gs_render_backward(view, gradient, policy, context));
    return gs_project_backward(view, gradient, context);
}

gs_status gs_reserve(gs_view *view, distwar_strategy strategy, int64_t isects, gs_context *context) {
    GS_REQUIRE(view && isects >= 0, "view must be given, and isects not negative");
    GS_TRY(check_strategy(__func__, strategy, blend_strategy_bits));
    if (view->memory.isect_capacity < isects) view->memory.isect_capacity = isects;
    GS_TRY(libgs_hold(__func__, view, context));
    const size_t needed[] = {
        libgs_bin_bytes(view), libgs_loss_bytes(view->camera.width, view->camera.height, view_count(view)),
        strategy == DISTWAR_FIXED ? libgs_fixed_bytes(splat_count(view), channels_of(&view->gaussians)) : 0};
    size_t most = 0;
    for (size_t k = 0; k < sizeof needed / sizeof *needed; k++) most = needed[k] > most ? needed[k] : most;
    void *memory;
    return libgs_memory(__func__, context, CONTEXT_SCRATCH, most, &memory);
}

void gs_view_free(gs_view *view, gs_context *context) {
    gs_view_memory *const memory = &view->memory;
    const uintptr_t begin = (uintptr_t)memory->memory;
    if (!memory->memory || libgs_context(__func__, &context) != GS_OK) return;
    context->allocator.release(context->allocator.user, memory->memory, context->stream);
#define GONE(array)                                                                                          \
    if ((uintptr_t)(array)-begin < memory->bytes) (array) = NULL
    GONE(view->splats);
    GONE(view->image.color);
    GONE(view->image.transmittance);
    GONE(view->image.n_contrib);
#undef GONE
    view->ranges = (gs_tile_ranges){.pixels_per_thread = view->ranges.pixels_per_thread,
                                    .split_tiles = view->ranges.split_tiles};
    memory->memory = NULL, memory->bytes = 0;
}
