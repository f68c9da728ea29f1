// SPDX-License-Identifier: MIT
#include "measure/lpips.h"
#include "device.h"
#include "frames/frame.h"
#include "frames/gs_check.h"

bool lpips_is_possible(const target_view *views, size_t count, fault *why) {
    for (size_t i = 0; i < count; i++) {
        const gs_camera *camera = &views[i].camera;
        if (camera->width < GS_LPIPS_MIN_SIZE || camera->height < GS_LPIPS_MIN_SIZE)
            return fail(why, "%s: the picture has %d x %d pixels; LPIPS takes %d x %d or more", views[i].name,
                        camera->width, camera->height, GS_LPIPS_MIN_SIZE, GS_LPIPS_MIN_SIZE);
    }
    return true;
}

void lpips_measure(const gs_gaussians *gaussians, const target_view *views, size_t count,
                   const float background[3], const lpips_weights *weights, double *mean, double *each) {
    const size_t bytes_of_weights = gs_lpips_weight_count(weights->network) * sizeof(float);
    float *const on_device = device_allocate(bytes_of_weights);
    device_upload(on_device, weights->values, bytes_of_weights);
    double *const device_result = device_allocate((1 + GS_LPIPS_LEVELS) * sizeof(double));
    device_buffer workspace = {0};
    frame f = {0};
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const gs_camera *camera = &views[i].camera;
        frame_render(&f, gaussians, gaussians->sh_degree, camera, background);
        const gs_lpips_comparison compared = {
            .images = {camera->width, camera->height, f.view.image.color, views[i].pixels, views[i].mask},
            .network = weights->network,
            .weights = on_device};
        size_t bytes;
        GS_CHECK(gs_lpips_bytes(weights->network, camera->width, camera->height, &bytes));
        void *const memory = device_buffer_reserve(&workspace, bytes);
        GS_CHECK(gs_lpips(&compared, memory, bytes, device_result, NULL));
        device_download(&each[i], device_result, sizeof each[i]);
        sum += each[i];
    }
    *mean = sum / (double)count;
    frame_close(&f);
    device_buffer_close(&workspace);
    device_free(device_result);
    device_free(on_device);
}
