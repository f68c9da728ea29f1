// SPDX-License-Identifier: MIT
#include "picture_row.h"
#include <math.h>

enum { GAP = 4 };

bool image_write_beside(const char *path, const image *const *pictures, int count, int gap, fault *why) {
    image row = {0};
    const bool done = image_beside(pictures, count, gap, &row, why) && image_write_png(path, &row, why);
    image_close(&row);
    return done;
}

bool picture_row_write(const char *path, const float *const *planes, int count, int width, int height,
                       fault *why) {
    image pictures[MAX_PICTURES_IN_ROW] = {{0}};
    const image *list[MAX_PICTURES_IN_ROW] = {0};
    bool done = true;
    for (int i = 0; done && i < count; i++) {
        list[i] = &pictures[i];
        done = image_from_planes(planes[i], width, height, &pictures[i], why);
    }
    done = done && image_write_beside(path, list, count, GAP, why);
    for (int i = 0; i < count; i++) image_close(&pictures[i]);
    return done;
}

double picture_psnr(const float *a, const float *b, long long count) {
    double square = 0;
    for (long long i = 0; i < count; i++) square += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return -10 * log10(square / (double)count);
}
