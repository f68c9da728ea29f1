// SPDX-License-Identifier: MIT
// The way forward of libgs with memory that grows: the one place that calls gs_bin again when the lists do
// not fit.
#ifndef SPLAT_RENDER_VIEW_H
#define SPLAT_RENDER_VIEW_H

#include "device_buffer.h"
#include "gs.h"
#include "view/stage_clock.h"

C_LINKAGE_BEGIN

// gs_project, gs_bin and gs_render of a view whose splats and image have memory. The view's workspace
// becomes the buffer's memory. If the lists do not fit, pair_capacity becomes 1.25 times what they need,
// and gs_bin runs again. clock: marked after each stage; NULL is harmless. Waits for the device once, in
// gs_bin. A failure of the device ends the program.
void render_view(gs_view *view, device_buffer *workspace, stage_clock *clock);

C_LINKAGE_END
#endif
