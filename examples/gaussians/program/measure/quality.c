// SPDX-License-Identifier: MIT
#include "measure/quality.h"
#include "device.h"
#include <math.h>

// The mean over the map's pixels that count.
static double mean_depth(const target_view *view) {
    const size_t pixels = (size_t)view->camera.width * (size_t)view->camera.height;
    double sum = 0, n = 0;
    for (size_t i = 0; i < pixels; i++) {
        if (isnan(view->depth_on_host[i]) || (view->mask_on_host && view->mask_on_host[i] == 0)) continue;
        sum += (double)view->depth_on_host[i];
        n++;
    }
    return sum / n;
}

double depth_error_of(frame *f, const gs_gaussians *gaussians, const target_view *view,
                      double *device_result) {
    const float black[GS_CHANNELS] = {0};
    double error;
    if (!view->depth) return NAN;
    frame_render(f, gaussians, gaussians->sh_degree, &view->camera, black);
    frame_depth_loss(f, view->depth, view->mask, 0, device_result, false);
    device_download(&error, device_result, sizeof error);
    return error / mean_depth(view);
}
