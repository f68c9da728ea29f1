// SPDX-License-Identifier: MIT
#include "mask.h"
#include "companion.h"
#include <string.h>

enum { CHANNELS = 3 };

bool mask_find(const char *folder, const char *name, char path[PATH_ROOM], fault *why) {
    static const char *const suffixes[] = {".png", NULL};
    return companion_find(folder, name, suffixes, "mask", path, why);
}

bool mask_read(const char *path, const image *picture, image *out, fault *why) {
    if (!image_read(path, out, why)) return false;
    fault wrong;
    if (out->channels != CHANNELS)
        fail(&wrong, "%s: a mask must not have an alpha channel", path);
    else if (out->width != picture->width || out->height != picture->height)
        fail(&wrong, "%s: the mask has %d x %d pixels, its picture %d x %d", path, out->width, out->height,
             picture->width, picture->height);
    else {
        const size_t pixels = (size_t)out->width * (size_t)out->height;
        for (size_t i = 0; i < pixels; i++) {
            uint8_t *pixel = out->pixels + CHANNELS * i;
            memset(pixel, pixel[0] || pixel[1] || pixel[2] ? 255 : 0, CHANNELS);
        }
        return true;
    }
    image_close(out);
    *why = wrong;
    return false;
}

bool mask_by_alpha(const image *picture, image *mask, fault *why) {
    const size_t pixels = (size_t)picture->width * (size_t)picture->height;
    if (!mask->pixels) {
        if (!image_open(mask, picture->width, picture->height, CHANNELS, why)) return false;
        memset(mask->pixels, 255, CHANNELS * pixels);
    }
    for (size_t i = 0; i < pixels; i++)
        if (picture->pixels[4 * i + 3] == 0) memset(mask->pixels + CHANNELS * i, 0, CHANNELS);
    return true;
}

static bool block_counts(const image *mask, int left, int top, int factor) {
    for (int y = top; y < top + factor && y < mask->height; y++)
        for (int x = left; x < left + factor && x < mask->width; x++)
            if (mask->pixels[CHANNELS * ((size_t)y * (size_t)mask->width + (size_t)x)] != 255) return false;
    return true;
}

bool mask_downscale(image *mask, int factor, fault *why) {
    image small;
    if (factor == 1 || !mask->pixels) return true;
    const int width = mask->width > factor ? mask->width / factor : 1;
    const int height = mask->height > factor ? mask->height / factor : 1;
    if (!image_open(&small, width, height, CHANNELS, why)) return false;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            memset(small.pixels + CHANNELS * ((size_t)y * (size_t)width + (size_t)x),
                   block_counts(mask, factor * x, factor * y, factor) ? 255 : 0, CHANNELS);
    image_close(mask);
    *mask = small;
    return true;
}

uint8_t *mask_take(image *mask, size_t *counted) {
    uint8_t *taken = mask->pixels;
    const size_t pixels = (size_t)mask->width * (size_t)mask->height;
    *counted = 0;
    for (size_t i = 0; i < pixels; i++) {
        taken[i] = taken[CHANNELS * i] == 255 ? 255 : 0;
        *counted += taken[i] != 0;
    }
    mask->pixels = NULL;
    return taken;
}
