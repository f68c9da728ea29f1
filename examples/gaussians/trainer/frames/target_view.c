// SPDX-License-Identifier: MIT
#include "target_view.h"
#include "device.h"
#include "distwar_gs_shrink.h"
#include "gs_check.h"
#include <stdlib.h>
#include <string.h>

// Memory that this device alone reads and writes, from its pool, if it has one. In a process with several connected GPUs
// cudaMalloc changes what each of them sees, one after the other: half a second for bonsai's 246 pictures on four H100s.
static void *allocate_from_pool(size_t bytes) {
    void *memory = NULL;
    const cudaError_t status = cudaMallocAsync(&memory, bytes, NULL);
    if (status == cudaSuccess) return memory;
    cudaGetLastError(); // a device without a pool, or without memory, which is told below
    return device_allocate(bytes);
}

// A copy on the device; NULL of NULL.
static uint8_t *uploaded(const uint8_t *host, size_t bytes) {
    if (!host) return NULL;
    uint8_t *const copy = allocate_from_pool(bytes);
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

void target_view_set_alpha(target_view *view, const uint8_t *alpha) {
    view->outline = alpha;
    view->alpha = uploaded(alpha, pixels_of(view->picture));
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
    if (view->depth_on_host) target_view_set_depth(view, view->depth_on_host);
}

void target_view_set_depth(target_view *view, const float *depth) {
    const size_t bytes = pixels_of(view->picture) * sizeof *depth;
    view->depth = allocate_from_pool(bytes);
    device_upload(view->depth, depth, bytes);
    view->depth_on_host = depth;
}

static uint8_t *shrunk(const gs_shrinking *by, int channels, const uint8_t *picture, size_t pixels) {
    if (!picture) return NULL;
    uint8_t *const small = allocate_from_pool((size_t)channels * pixels);
    GS_CHECK(gs_shrink_picture(by, channels, picture, small, NULL));
    return small;
}

void target_view_shrink(target_view *small, const target_view *view, int factor) {
    const gs_shrinking by = {view->camera.width, view->camera.height, factor};
    *small = (target_view){.camera = view->camera, .name = view->name};
    dataset_downscale_camera(&small->camera, factor);
    const size_t pixels = (size_t)small->camera.width * (size_t)small->camera.height;
    small->counted = (int64_t)pixels;
    small->pixels = shrunk(&by, GS_CHANNELS, view->pixels, pixels);
    small->alpha = shrunk(&by, 1, view->alpha, pixels);
    if (view->mask) {
        small->mask = allocate_from_pool(pixels);
        GS_CHECK(gs_shrink_mask(&by, view->mask, small->mask, NULL));
    }
    if (view->depth) {
        small->depth = allocate_from_pool(pixels * sizeof *small->depth);
        GS_CHECK(gs_shrink_depth(&by, view->depth, small->depth, NULL));
    }
}

// A picture of the host with `bytes` bytes per pixel on the device, in the corner of a larger one whose other bytes are
// `fill`. picture NULL: bytes of 255. NULL: no memory.
static void *enlarged(const void *picture, size_t bytes, const gs_camera *from, const gs_camera *to,
                      int fill) {
    const size_t row = bytes * (size_t)from->width, to_row = bytes * (size_t)to->width,
                 size = to_row * (size_t)to->height;
    uint8_t *const host = malloc(size);
    if (!host) return NULL;
    memset(host, fill, size);
    for (size_t y = 0; y < (size_t)from->height; y++)
        if (picture)
            memcpy(host + y * to_row, (const uint8_t *)picture + y * row, row);
        else
            memset(host + y * to_row, 255, row);
    void *const device = allocate_from_pool(size);
    device_upload(device, host, size);
    free(host);
    return device;
}

bool target_view_pad(target_view *padded, const target_view *view, int width, int height, bool with_alpha,
                     fault *why) {
    const gs_camera *from = &view->camera;
    *padded = (target_view){.camera = *from, .counted = view->counted, .name = view->name};
    gs_camera *const to = &padded->camera;
    to->width = width;
    to->height = height;
    const bool alpha = with_alpha && view->outline;
    const bool differs = from->width < width || from->height < height;
    padded->pixels = enlarged(view->picture->pixels, GS_CHANNELS, from, to, 0);
    if (view->mask_on_host || differs) padded->mask = enlarged(view->mask_on_host, 1, from, to, 0);
    if (alpha) padded->alpha = enlarged(view->outline, 1, from, to, 0);
    if (view->depth_on_host)
        padded->depth = enlarged(view->depth_on_host, sizeof(float), from, to, 255); // of bytes 255: NaN
    return (padded->pixels && (padded->mask || !(view->mask_on_host || differs)) &&
            (padded->alpha || !alpha) && (padded->depth || !view->depth_on_host)) ||
           fail(why, "no memory for a picture of %d x %d", width, height);
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
