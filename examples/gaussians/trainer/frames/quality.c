// SPDX-License-Identifier: MIT
#include "frames/quality.h"
#include "device.h"
#include <math.h>

bool quality_of_frame(frame *f, const target_view *view, double *device_result, quality *out, fault *why) {
    frame_loss(f, &(frame_target){view->pixels, view->mask, device_result}, false);
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
