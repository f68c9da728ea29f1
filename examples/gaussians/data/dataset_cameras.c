// SPDX-License-Identifier: MIT
#include "dataset.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

void dataset_downscale_camera(gs_camera *camera, int factor) {
    // A pixel is now a block. Cutting off the right and the bottom does not move the others.
    const float block_x = (float)(factor < camera->width ? factor : camera->width);
    const float block_y = (float)(factor < camera->height ? factor : camera->height);
    camera->fx /= block_x;
    camera->cx /= block_x;
    camera->fy /= block_y;
    camera->cy /= block_y;
    camera->width = camera->width > factor ? camera->width / factor : 1; // as image_downscale does
    camera->height = camera->height > factor ? camera->height / factor : 1;
}

// ---- near planes

enum { MOST_ASKED = 500 };

typedef struct placed_cameras {
    const char *first;
    size_t stride, count;
} placed_cameras;

static void center_of(const placed_cameras *cameras, size_t index, double center[3]) {
    const gs_camera *const c = (const gs_camera *)(const void *)(cameras->first + index * cameras->stride);
    for (int k = 0; k < 3; k++) {
        center[k] = 0;
        for (int row = 0; row < 3; row++) center[k] -= (double)c->rotation[3 * row + k] * c->translation[row];
    }
}

static double distance(const double a[3], const double b[3]) {
    return hypot(hypot(a[0] - b[0], a[1] - b[1]), a[2] - b[2]);
}

static double distance_to_next(const placed_cameras *cameras, size_t index) {
    double own[3], other[3], least = INFINITY;
    center_of(cameras, index, own);
    for (size_t i = 0; i < cameras->count; i++) {
        if (i == index) continue;
        center_of(cameras, i, other);
        least = fmin(least, distance(own, other));
    }
    return least;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_distance(const placed_cameras *cameras) {
    double next[2 * MOST_ASKED];
    const size_t every = cameras->count < MOST_ASKED ? 1 : cameras->count / MOST_ASKED;
    size_t asked = 0;
    for (size_t i = 0; i < cameras->count; i += every) next[asked++] = distance_to_next(cameras, i);
    qsort(next, asked, sizeof *next, by_value);
    return next[asked / 2];
}

float near_plane_of(const gs_camera *cameras, size_t stride, size_t count) {
    const placed_cameras placed = {(const char *)cameras, stride, count};
    double mean[3] = {0}, center[3], spread = 0;
    for (size_t i = 0; i < count; i++) {
        center_of(&placed, i, center);
        for (int k = 0; k < 3; k++) mean[k] += center[k] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        center_of(&placed, i, center);
        spread = fmax(spread, distance(center, mean));
    }
    if (!(spread > 0)) return 0.01f;
    const double half = median_distance(&placed) / 2;
    return (float)fmax(fmin(fmax(half, spread / 100000), spread / 30), FLT_MIN);
}
