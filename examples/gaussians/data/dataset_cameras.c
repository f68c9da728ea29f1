// SPDX-License-Identifier: MIT
#include "dataset.h"
#include "lenses.h"
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

typedef struct camera_list {
    gs_camera *first;
    size_t stride, count;
} camera_list;

static gs_camera *camera_at(const camera_list *cameras, size_t index) {
    return (gs_camera *)(void *)((char *)cameras->first + index * cameras->stride);
}

static double distance_to_next(const camera_list *cameras, size_t index) {
    double least = INFINITY;
    for (size_t i = 0; i < cameras->count; i++)
        if (i != index)
            least = fmin(least, camera_separation(camera_at(cameras, index), camera_at(cameras, i)));
    return least;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_distance(const camera_list *cameras) {
    double next[2 * MOST_ASKED];
    const size_t every = cameras->count < MOST_ASKED ? 1 : cameras->count / MOST_ASKED;
    size_t asked = 0;
    for (size_t i = 0; i < cameras->count; i += every) next[asked++] = distance_to_next(cameras, i);
    qsort(next, asked, sizeof *next, by_value);
    return next[asked / 2];
}

// The largest distance of a camera from the mean of all.
static double spread_of(const camera_list *cameras) {
    double mean[3] = {0}, at[3], spread = 0;
    for (size_t i = 0; i < cameras->count; i++) {
        camera_center(camera_at(cameras, i), at);
        for (int k = 0; k < 3; k++) mean[k] += at[k] / (double)cameras->count;
    }
    for (size_t i = 0; i < cameras->count; i++) {
        camera_center(camera_at(cameras, i), at);
        spread = fmax(spread, hypot(hypot(at[0] - mean[0], at[1] - mean[1]), at[2] - mean[2]));
    }
    return spread;
}

void dataset_set_near_planes(gs_camera *cameras, size_t stride, size_t count) {
    const camera_list list = {cameras, stride, count};
    const double spread = spread_of(&list);
    double near_plane = 0.01;
    if (spread > 0) near_plane = fmin(fmax(median_distance(&list) / 2, spread / 100000), spread / 30);
    for (size_t i = 0; i < count; i++) camera_at(&list, i)->near_plane = (float)fmax(near_plane, FLT_MIN);
}
