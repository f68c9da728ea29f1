// SPDX-License-Identifier: MIT
#include "view/target_view.h"
#include "device.h"
#include <stdlib.h>

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

void target_view_set_depth(target_view *view, const float *depth) {
    const size_t bytes = (size_t)view->picture->width * (size_t)view->picture->height * sizeof *depth;
    view->depth = device_allocate(bytes);
    device_upload(view->depth, depth, bytes);
    view->depth_on_host = depth;
}

void target_view_close(target_view *view) {
    device_free(view->depth);
    device_free(view->alpha);
    device_free(view->mask);
    device_free(view->pixels);
    *view = (target_view){0};
}

static bool add_view(view_split *split, const dataset_view *view, bool with_alpha, fault *why) {
    target_view *next = &split->views[split->training + split->held_out];
    if (!target_view_open(next, &view->camera, &view->picture, why))
        return fail(why, "%s: %s", view->name, why->text);
    if (with_alpha) target_view_set_alpha(next, view->alpha);
    target_view_set_mask(next, view->mask);
    next->outline = view->alpha;
    next->name = view->name;
    (*(view->held_out ? &split->held_out : &split->training))++;
    return true;
}

bool view_split_open(view_split *split, const dataset *data, const char *source, bool with_alpha,
                     fault *why) {
    *split = (view_split){.views = calloc(data->view_count + 1, sizeof *split->views)};
    if (!split->views) return fail(why, "no memory for %zu views", data->view_count);
    for (int held_out = 0; held_out < 2; held_out++)
        for (size_t i = 0; i < data->view_count; i++)
            if (data->views[i].held_out == held_out && !add_view(split, &data->views[i], with_alpha, why))
                return false;
    return split->training > 0 ||
           fail(why, "%s: no view is left to train on; all %zu are held out", source, data->view_count);
}

void view_split_close(view_split *split) {
    for (size_t i = 0; i < split->training + split->held_out; i++) target_view_close(&split->views[i]);
    free(split->views);
    *split = (view_split){0};
}
