// SPDX-License-Identifier: MIT
#include "measure/quality.h"
#include "device.h"
#include <math.h>

bool quality_of_frame(frame *f, const target_view *view, double *device_result, quality *out, fault *why) {
    frame_loss(f, view->pixels, view->mask, device_result, false);
    double result[3]; // loss, mean absolute difference, SSIM
    device_download(result, device_result, sizeof result);
    image picture;
    if (!frame_picture(f, &picture, why)) return false;
    const double ssim = isnan(result[2]) ? NAN : result[2]; // of colours that overflow: NaN without a sign
    *out = (quality){image_masked_psnr(&picture, view->picture, view->mask_on_host), ssim};
    image_close(&picture);
    return true;
}

bool quality_measure(const gs_gaussians *gaussians, const target_view *views, size_t count,
                     const float background[3], quality *mean, quality *each, fault *why) {
    quality sum = {0, 0};
    frame f = {0};
    double *device_result = device_allocate(3 * sizeof(double));
    bool done = true;
    for (size_t i = 0; i < count && done; i++) {
        frame_render(&f, gaussians, gaussians->sh_degree, &views[i].camera, background);
        quality one = {0, 0};
        done = quality_of_frame(&f, &views[i], device_result, &one, why);
        if (each) each[i] = one;
        sum.psnr += one.psnr;
        sum.ssim += one.ssim;
    }
    *mean = (quality){sum.psnr / (double)count, sum.ssim / (double)count};
    device_free(device_result);
    frame_close(&f);
    return done;
}

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
