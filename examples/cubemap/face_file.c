// SPDX-License-Identifier: MIT
#include "face_file.h"
#include "cubemap.h"
#include "images/image.h"
#include <math.h>
#include <stdlib.h>

bool face_file_write(const char *path, const float *texel, int size, fault *why) {
    image picture;
    if (!image_open(&picture, size, 6 * size, 3, why)) return false;
    for (size_t k = 0; k < (size_t)18 * (size_t)size * (size_t)size; k++) {
        const float value = fminf(fmaxf(texel[k], 0), 1); // NaN becomes 0
        picture.pixels[k] = (uint8_t)lrintf(255 * value);
    }
    const bool done = image_write_png(path, &picture, why);
    image_close(&picture);
    return done;
}

static bool is_a_cubemap(const image *picture) {
    const int size = picture->width;
    return picture->channels == 3 && picture->height == 6 * size && (size & (size - 1)) == 0 &&
           size <= CUBEMAP_MAX_SIZE;
}

bool face_file_read(const char *path, float **texel, int *size, fault *why) {
    image picture;
    if (!image_read(path, &picture, why)) return false;
    const size_t values = (size_t)picture.width * (size_t)picture.height * 3;
    bool done = is_a_cubemap(&picture);
    if (!done)
        fail(why,
             "%s: %d x %d pixels with %d channels are not six square faces of three, one below the other, "
             "with "
             "sides of a power of two up to %d",
             path, picture.width, picture.height, picture.channels, CUBEMAP_MAX_SIZE);
    if (done && !(*texel = malloc(values * sizeof **texel))) done = fail(why, "%s: no memory for it", path);
    for (size_t k = 0; done && k < values; k++) (*texel)[k] = (float)picture.pixels[k] / 255;
    *size = picture.width;
    image_close(&picture);
    return done;
}
