// SPDX-License-Identifier: MIT
#include "view/target_view.h"
#include "device.h"
#include <stdlib.h>

// A copy on the device; NULL of NULL.
static uint8_t *uploaded(const uint8_t *host, size_t bytes) {
    if (!host) return NULL;
    uint8_t *const copy = device_allocate(bytes);
    device_upload(copy, host, bytes);
    return copy;
}

static size_t pixels_of(const image *picture) {
    return (size_t)picture->width * (size_t)picture->height;
}

static bool describe(target_view *view, const gs_camera *camera, const image *picture, fault *why) {
    if (picture->channels != 3 || picture->width != camera->width || picture->height != camera->height)
        return fail(why, "a picture of %d x %d with %d channels for a camera of %d x %d", picture->width,
                    picture->height, picture->channels, camera->width, camera->height);
    *view = (target_view){.camera = *camera, .picture = picture, .counted = (int64_t)pixels_of(picture)};
    return true;
}

static void describe_mask(target_view *view, const uint8_t *mask) {
    const size_t pixels = pixels_of(view->picture);
    view->mask_on_host = mask;
    for (size_t i = 0; mask && i < pixels; i++) view->counted -= mask[i] == 0;
}

bool target_view_open(target_view *view, const gs_camera *camera, const image *picture, fault *why) {
    if (!describe(view, camera, picture, why)) return false;
    target_view_upload(view, false);
    return true;
}

void target_view_set_mask(target_view *view, const uint8_t *mask) {
    describe_mask(view, mask);
    view->mask = uploaded(mask, pixels_of(view->picture));
}

bool target_view_list(target_view *view, const dataset_view *source, fault *why) {
    if (!describe(view, &source->camera, &source->picture, why))
        return fail(why, "%s: %s", source->name, why->text);
    describe_mask(view, source->mask);
    view->outline = source->alpha;
    view->name = source->name;
    return true;
}

void target_view_upload(target_view *view, bool with_alpha) {
    const size_t pixels = pixels_of(view->picture);
    view->pixels = uploaded(view->picture->pixels, 3 * pixels);
    view->mask = uploaded(view->mask_on_host, pixels);
    if (with_alpha) view->alpha = uploaded(view->outline, pixels);
}

bool target_view_from(target_view *view, const dataset_view *source, bool with_alpha, fault *why) {
    if (!target_view_list(view, source, why)) return false;
    target_view_upload(view, with_alpha);
    return true;
}

void target_view_set_depth(target_view *view, const float *depth) {
    const size_t bytes = pixels_of(view->picture) * sizeof *depth;
    view->depth = device_allocate(bytes);
    device_upload(view->depth, depth, bytes);
    view->depth_on_host = depth;
}

void target_view_release(target_view *view) {
    device_free(view->depth);
    device_free(view->alpha);
    device_free(view->mask);
    device_free(view->pixels);
    view->depth = NULL, view->alpha = view->mask = view->pixels = NULL;
}

void target_view_close(target_view *view) {
    target_view_release(view);
    *view = (target_view){0};
}

bool view_split_list(view_split *split, const dataset *data, const char *source, fault *why) {
    *split = (view_split){.views = calloc(data->view_count + 1, sizeof *split->views)};
    if (!split->views) return fail(why, "no memory for %zu views", data->view_count);
    target_view *next = split->views;
    for (int held_out = 0; held_out < 2; held_out++)
        for (size_t i = 0; i < data->view_count; i++) {
            if (data->views[i].held_out != held_out) continue;
            if (!target_view_list(next++, &data->views[i], why)) return false;
            (*(held_out ? &split->held_out : &split->training))++;
        }
    return split->training > 0 ||
           fail(why, "%s: no view is left to train on; all %zu are held out", source, data->view_count);
}

bool view_split_open(view_split *split, const dataset *data, const char *source, bool with_alpha,
                     fault *why) {
    if (!view_split_list(split, data, source, why)) return false;
    for (size_t i = 0; i < split->training + split->held_out; i++)
        target_view_upload(&split->views[i], with_alpha);
    return true;
}

void view_split_close(view_split *split) {
    for (size_t i = 0; i < split->training + split->held_out; i++) target_view_close(&split->views[i]);
    free(split->views);
    *split = (view_split){0};
}
