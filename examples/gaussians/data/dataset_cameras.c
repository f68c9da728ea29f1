// SPDX-License-Identifier: MIT
// Rules for the cameras of a dataset. They are a file of their own as libdistwar_train links them without the readers of
// pictures.
#include "reconstruction.h"
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

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void dataset_set_near_planes(gs_camera *cameras, size_t stride, size_t count) {
    enum { MOST_ASKED = 500 };
    double mean[3] = {0}, at[3], spread = 0, near_plane = 0.01;
#define CAMERA(i) ((gs_camera *)(void *)((char *)cameras + (i)*stride))
    for (size_t i = 0; i < count; i++) {
        camera_center(CAMERA(i), at);
        for (int k = 0; k < 3; k++) mean[k] += at[k] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        camera_center(CAMERA(i), at);
        spread = fmax(spread, hypot(hypot(at[0] - mean[0], at[1] - mean[1]), at[2] - mean[2]));
    }
    double next[2 * MOST_ASKED]; // distances to the next camera
    const size_t every = count < MOST_ASKED ? 1 : count / MOST_ASKED;
    size_t asked = 0;
    for (size_t i = 0; i < count; i += every) {
        double least = INFINITY;
        for (size_t j = 0; j < count; j++)
            if (i != j) least = fmin(least, camera_separation(CAMERA(i), CAMERA(j)));
        next[asked++] = least;
    }
    qsort(next, asked, sizeof *next, by_value);
    if (spread > 0) near_plane = fmin(fmax(next[asked / 2] / 2, spread / 100000), spread / 30);
    for (size_t i = 0; i < count; i++) CAMERA(i)->near_plane = (float)fmax(near_plane, FLT_MIN);
#undef CAMERA
}
