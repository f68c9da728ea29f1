// SPDX-License-Identifier: MIT
#include "view/render_view.h"
#include "view/gs_check.h"

static gs_status bin(gs_view *view, device_buffer *workspace) {
    GS_CHECK(gs_bin_bytes(view, &view->workspace_bytes));
    view->workspace = device_buffer_reserve(workspace, view->workspace_bytes);
    return gs_bin(view, NULL);
}

void render_view(gs_view *view, device_buffer *workspace, stage_clock *clock) {
    GS_CHECK(gs_project(view, NULL));
    stage_clock_mark(clock, STAGE_PROJECT);
    gs_status status;
    while ((status = bin(view, workspace)) == GS_PAIRS_DO_NOT_FIT)
        view->pair_capacity = view->pairs_needed + view->pairs_needed / 4; // room for other views
    GS_CHECK(status);
    stage_clock_mark(clock, STAGE_BIN);
    GS_CHECK(gs_render(view, NULL));
    stage_clock_mark(clock, STAGE_RENDER);
}
