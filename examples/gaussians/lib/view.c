// SPDX-License-Identifier: MIT
// The stages in a row, forward and backward. Queues no kernels of its own.
#include "check.h"

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
