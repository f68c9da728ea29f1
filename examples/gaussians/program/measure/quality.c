// SPDX-License-Identifier: MIT
#include "measure/quality.h"
#include "device.h"
#include <math.h>

// Of the map's pixels that count.
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

bool depth_error_measure(const gs_gaussians *gaussians, const target_view *views, size_t count, double *mean,
                         double *each) {
    const float black[GS_CHANNELS] = {0};
    frame f = {.with_depth = true};
    double *device_result = device_allocate(sizeof(double));
    double sum = 0, maps = 0;
    for (size_t i = 0; i < count; i++) {
        each[i] = NAN;
        if (!views[i].depth) continue;
        frame_render(&f, gaussians, gaussians->sh_degree, &views[i].camera, black);
        frame_depth_loss(&f, views[i].depth, views[i].mask, 0, device_result, false);
        device_download(&each[i], device_result, sizeof each[i]);
        each[i] /= mean_depth(&views[i]);
        sum += each[i];
        maps++;
    }
    device_free(device_result);
    frame_close(&f);
    *mean = sum / maps;
    return maps > 0;
}
