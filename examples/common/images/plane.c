// SPDX-License-Identifier: MIT
#include "plane.h"
#include "image.h"
#include <stdlib.h>

bool plane_open(plane *out, int width, int height, fault *why) {
    *out = (plane){0};
    if (width < 1 || width > IMAGE_MAX_SIZE || height < 1 || height > IMAGE_MAX_SIZE)
        return fail(why, "a map of %d x %d values: each side must be 1..%d", width, height, IMAGE_MAX_SIZE);
    *out = (plane){width, height, NULL};
    out->values = calloc(plane_size(out), sizeof *out->values);
    if (out->values) return true;
    *out = (plane){0};
    return fail(why, "no memory for a map of %d x %d values", width, height);
}

void plane_close(plane *p) {
    free(p->values);
    *p = (plane){0};
}

size_t plane_size(const plane *p) {
    return (size_t)p->width * (size_t)p->height;
}

bool plane_downscale(const plane *p, int factor, plane *out, fault *why) {
    const int block_x = factor < p->width ? factor : p->width;
    const int block_y = factor < p->height ? factor : p->height;
    if (!plane_open(out, p->width / block_x, p->height / block_y, why)) return false;
    for (int y = 0; y < out->height; y++)
        for (int x = 0; x < out->width; x++) {
            double sum = 0;
            for (int j = 0; j < block_y; j++)
                for (int i = 0; i < block_x; i++)
                    sum += (double)p->values[(size_t)(y * block_y + j) * (size_t)p->width +
                                             (size_t)(x * block_x + i)];
            out->values[(size_t)y * (size_t)out->width + (size_t)x] = (float)(sum / block_x / block_y);
        }
    return true;
}
