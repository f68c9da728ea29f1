// SPDX-License-Identifier: MIT
#include "measure/maps.h"
#include "device.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void map_color(double part, uint8_t color[GS_CHANNELS]) {
    static const double stops[5][3] = {
        {0, 0, 4}, {87, 16, 110}, {188, 55, 84}, {249, 142, 9}, {252, 255, 164}};
    const double at = 4 * fmin(fmax(part, 0), 1);
    const int below = at < 4 ? (int)at : 3;
    for (int c = 0; c < GS_CHANNELS; c++)
        color[c] = (uint8_t)(stops[below][c] + (at - below) * (stops[below + 1][c] - stops[below][c]) + 0.5);
}

bool map_picture(const gs_gaussians *device, const gs_camera *camera, const float background[GS_CHANNELS],
                 image *out, fault *why) {
    frame f = {0};
    frame_render(&f, device, device->sh_degree, camera, background);
    const bool done = frame_picture(&f, out, why);
    frame_close(&f);
    return done;
}

int compare_floats(const void *a, const void *b) {
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

// Makes a gray picture of the differences.
static bool subtract(const image *a, const image *b, image *out, fault *why) {
    if (!image_open(out, a->width, a->height, GS_CHANNELS, why)) return false;
    const size_t pixels = (size_t)a->width * (size_t)a->height;
    for (size_t i = 0; i < pixels; i++) {
        int sum = 0;
        for (size_t c = 0; c < GS_CHANNELS; c++)
            sum += abs(a->pixels[GS_CHANNELS * i + c] - b->pixels[GS_CHANNELS * i + c]);
        memset(out->pixels + GS_CHANNELS * i, (sum + GS_CHANNELS / 2) / GS_CHANNELS, GS_CHANNELS);
    }
    return true;
}

bool map_errors(const image *a, const image *b, int divisor, image *out, fault *why) {
    image differences;
    if (!subtract(a, b, &differences, why)) return false;
    const bool done = image_downscale(&differences, divisor, out, why);
    image_close(&differences);
    const size_t pixels = done ? (size_t)out->width * (size_t)out->height : 0;
    for (size_t i = 0; i < pixels; i++)
        map_color((double)out->pixels[GS_CHANNELS * i] / FULL_ERROR, out->pixels + GS_CHANNELS * i);
    return done;
}

bool map_trio(const image *rendered, const image *photograph, int divisor, image *out, fault *why) {
    memset(out, 0, 3 * sizeof *out);
    return image_downscale(rendered, divisor, &out[0], why) &&
           image_downscale(photograph, divisor, &out[1], why) &&
           map_errors(rendered, photograph, divisor, &out[2], why);
}

bool map_depth(const frame *f, plane *out, fault *why) {
    if (!plane_open(out, f->view.camera.width, f->view.camera.height, why)) return false;
    device_download(out->values, f->view.image.depth, plane_size(out) * sizeof *out->values);
    return true;
}

static bool find_range(const plane *depth, const float *empty, depth_range *range, fault *why) {
    float *const seen = malloc(plane_size(depth) * sizeof *seen);
    size_t count = 0;
    if (!seen) return fail(why, "no memory for a depth map");
    for (size_t i = 0; i < plane_size(depth); i++)
        if (empty[i] < 0.5f) seen[count++] = depth->values[i] / (1 - empty[i]);
    qsort(seen, count, sizeof *seen, compare_floats);
    if (count > 0) *range = (depth_range){(double)seen[count * 3 / 100], (double)seen[count * 97 / 100]};
    free(seen);
    return true;
}

bool map_depth_colors(const frame *f, depth_range *range, image *out, fault *why) {
    plane depth, empty = {0};
    bool done = map_depth(f, &depth, why) && plane_open(&empty, depth.width, depth.height, why);
    if (done) device_download(empty.values, f->view.image.transmittance, plane_size(&empty) * sizeof(float));
    done = done && (range->nearest > 0 || find_range(&depth, empty.values, range, why)) &&
           image_open(out, depth.width, depth.height, GS_CHANNELS, why);
    for (size_t i = 0; done && i < plane_size(&depth); i++) {
        const double alpha = 1 - (double)empty.values[i],
                     inverse = (double)depth.values[i] / fmax(alpha, 1e-6);
        const double part = (inverse - range->farthest) / fmax(range->nearest - range->farthest, 1e-9);
        map_color(alpha * (0.15 + 0.85 * fmin(fmax(part, 0), 1)), out->pixels + GS_CHANNELS * i);
    }
    plane_close(&depth);
    plane_close(&empty);
    return done;
}

// ---- the sheet

enum { GAP = 8 };

static int divisor_of(const target_view *view) {
    const int width = view->picture->width, height = view->picture->height;
    return ((width > height ? width : height) + SHEET_WIDTH - 1) / SHEET_WIDTH;
}

static void put(const image *from, image *to, int left, int top) {
    const size_t row = GS_CHANNELS * (size_t)from->width;
    for (int y = 0; y < from->height; y++)
        memcpy(to->pixels + GS_CHANNELS * ((size_t)(top + y) * (size_t)to->width + (size_t)left),
               from->pixels + (size_t)y * row, row);
}

// *top moves on.
static bool put_view(const frame *f, const target_view *view, image *sheet, int *top, fault *why) {
    const int divisor = divisor_of(view);
    image rendered, small[3];
    if (!frame_picture(f, &rendered, why)) return false;
    const bool done = map_trio(&rendered, view->picture, divisor, small, why);
    for (int k = 0; k < 3 && done; k++) put(&small[k], sheet, k * (small[k].width + GAP), *top);
    for (int k = 0; k < 3; k++) image_close(&small[k]);
    image_close(&rendered);
    *top += view->picture->height / divisor + GAP;
    return done;
}

bool sheet_write(const char *path, const gs_gaussians *gaussians, const target_view *const *views,
                 size_t count, const float background[GS_CHANNELS], fault *why) {
    int width = 0, height = -GAP, top = 0;
    for (size_t i = 0; i < count; i++) {
        const int divisor = divisor_of(views[i]), row = 3 * (views[i]->picture->width / divisor) + 2 * GAP;
        width = row > width ? row : width;
        height += views[i]->picture->height / divisor + GAP;
    }
    image sheet;
    if (!image_open(&sheet, width, height, GS_CHANNELS, why)) return false;
    memset(sheet.pixels, 255, GS_CHANNELS * (size_t)width * (size_t)height);
    frame f = {0};
    bool done = true;
    for (size_t i = 0; i < count && done; i++) {
        frame_render(&f, gaussians, gaussians->sh_degree, &views[i]->camera, background);
        done = put_view(&f, views[i], &sheet, &top, why);
    }
    frame_close(&f);
    done = done && image_write_png(path, &sheet, why);
    image_close(&sheet);
    return done;
}
