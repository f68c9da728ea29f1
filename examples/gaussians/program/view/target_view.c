// SPDX-License-Identifier: MIT
#include "view/target_view.h"
#include "device.h"

bool target_view_open(target_view *view, const gs_camera *camera, const image *picture, fault *why) {
    if (picture->channels != 3 || picture->width != camera->width || picture->height != camera->height)
        return fail(why, "a picture of %d x %d with %d channels for a camera of %d x %d", picture->width,
                    picture->height, picture->channels, camera->width, camera->height);
    size_t bytes = 3 * (size_t)picture->width * (size_t)picture->height;
    *view = (target_view){.camera = *camera,
                          .picture = picture,
                          .pixels = device_allocate(bytes),
                          .counted = (int64_t)(bytes / 3)};
    device_upload(view->pixels, picture->pixels, bytes);
    return true;
}

void target_view_set_alpha(target_view *view, const uint8_t *alpha) {
    if (!alpha) return;
    size_t bytes = (size_t)view->picture->width * (size_t)view->picture->height;
    view->alpha = device_allocate(bytes);
    device_upload(view->alpha, alpha, bytes);
}

void target_view_set_mask(target_view *view, const uint8_t *mask) {
    if (!mask) return;
    const size_t pixels = (size_t)view->picture->width * (size_t)view->picture->height;
    view->mask = device_allocate(pixels);
    device_upload(view->mask, mask, pixels);
    view->mask_on_host = mask;
    view->counted = 0;
    for (size_t i = 0; i < pixels; i++) view->counted += mask[i] != 0;
}

void target_view_close(target_view *view) {
    device_free(view->alpha);
    device_free(view->mask);
    device_free(view->pixels);
    *view = (target_view){0};
}
