// SPDX-License-Identifier: MIT
#include "measure/lpips.h"
#include "device.h"
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

void lpips_meter_open(lpips_meter *meter, const lpips_weights *weights) {
    const size_t bytes = gs_lpips_weight_count(weights->network) * sizeof *meter->on_device;
    *meter = (lpips_meter){.weights = weights,
                           .on_device = device_allocate(bytes),
                           .result = device_allocate((1 + GS_LPIPS_LEVELS) * sizeof(double))};
    device_upload(meter->on_device, weights->values, bytes);
}

void lpips_meter_close(lpips_meter *meter) {
    device_buffer_close(&meter->workspace);
    device_free(meter->result);
    device_free(meter->on_device);
}

double lpips_of_frame(lpips_meter *meter, const frame *f, const target_view *view) {
    const gs_camera *const camera = &view->camera;
    const gs_lpips_network network = meter->weights->network;
    const gs_lpips_comparison compared = {
        .images = {camera->width, camera->height, f->view.image.color, view->pixels, view->mask},
        .network = network,
        .weights = meter->on_device};
    size_t bytes;
    double value;
    GS_CHECK(gs_lpips_bytes(network, camera->width, camera->height, &bytes));
    void *const memory = device_buffer_reserve(&meter->workspace, bytes);
    GS_CHECK(gs_lpips(&compared, memory, bytes, meter->result, NULL));
    device_download(&value, meter->result, sizeof value);
    return value;
}
