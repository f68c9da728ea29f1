// SPDX-License-Identifier: MIT
#include "image.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *pixel_at(const image *picture, int x, int y) {
    return picture->pixels + ((size_t)y * (size_t)picture->width + (size_t)x) * (size_t)picture->channels;
}

bool image_open(image *out, int width, int height, int channels, fault *why) {
    *out = (image){0};
    if (width < 1 || width > IMAGE_MAX_SIZE || height < 1 || height > IMAGE_MAX_SIZE)
        return fail(why, "an image of %d x %d pixels: each side must be 1..%d", width, height,
                    IMAGE_MAX_SIZE);
    uint8_t *const pixels = calloc((size_t)width * (size_t)height * (size_t)channels, 1);
    if (!pixels) return fail(why, "no memory for an image of %d x %d pixels", width, height);
    *out = (image){width, height, channels, pixels, false};
    return true;
}

void image_close(image *picture) {
    free(picture->pixels);
    *picture = (image){0};
}

bool image_downscale(const image *picture, int factor, image *out, fault *why) {
    const int block_x = factor < picture->width ? factor : picture->width;
    const int block_y = factor < picture->height ? factor : picture->height;
    if (!image_open(out, picture->width / block_x, picture->height / block_y, picture->channels, why))
        return false;
    const uint64_t area = (uint64_t)block_x * (uint64_t)block_y;
    const int channels = picture->channels, width = out->width, height = out->height;
    uint8_t *to = out->pixels;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint64_t sum[4] = {0};
            for (int j = 0; j < block_y; j++) {
                const uint8_t *in = pixel_at(picture, x * block_x, y * block_y + j);
                for (int i = 0; i < block_x; i++)
                    for (int c = 0; c < channels; c++) sum[c] += *in++;
            }
            for (int c = 0; c < channels; c++) *to++ = (uint8_t)((sum[c] + area / 2) / area);
        }
    return true;
}

bool image_from_planes(const float *planes, int width, int height, image *out, fault *why) {
    if (!image_open(out, width, height, 3, why)) return false;
    const size_t plane = (size_t)width * (size_t)height;
    for (size_t i = 0; i < plane; i++)
        for (size_t c = 0; c < 3; c++) {
            const float value = planes[c * plane + i] * 255.0f;
            if (value > 0.0f)
                out->pixels[3 * i + c] = value < 255.0f ? (uint8_t)(value + 0.5f) : 255; // NaN stays 0
        }
    return true;
}

static uint32_t square_of_difference(uint8_t a, uint8_t b) {
    const int difference = (int)a - (int)b;
    return (uint32_t)(difference * difference);
}

double image_psnr(const image *a, const image *b, const uint8_t *mask) {
    enum { SUMMED = 4096 }; // a sum of so many squares fits in 32 bits, in which compilers vectorise it
    if (a->width != b->width || a->height != b->height || a->channels != b->channels) return NAN;
    const size_t channels = (size_t)a->channels, bytes = (size_t)a->width * (size_t)a->height * channels;
    uint64_t sum = 0, counted = 0;
    for (size_t begin = 0; begin < bytes; begin += SUMMED) {
        const size_t end = begin + SUMMED < bytes ? begin + SUMMED : bytes;
        uint32_t part = 0;
        for (size_t i = begin; i < end && !mask; i++)
            part += square_of_difference(a->pixels[i], b->pixels[i]);
        for (size_t i = begin; i < end && mask; i++)
            if (mask[i / channels] != 0) part += square_of_difference(a->pixels[i], b->pixels[i]), counted++;
        sum += part;
    }
    return 10.0 * log10(255.0 * 255.0 * (double)(mask ? counted : bytes) / (double)sum);
}

// ---- planes

bool plane_open(plane *out, int width, int height, fault *why) {
    *out = (plane){0};
    if (width < 1 || width > IMAGE_MAX_SIZE || height < 1 || height > IMAGE_MAX_SIZE)
        return fail(why, "a map of %d x %d values: each side must be 1..%d", width, height, IMAGE_MAX_SIZE);
    float *const values = calloc((size_t)width * (size_t)height, sizeof *values);
    if (!values) return fail(why, "no memory for a map of %d x %d values", width, height);
    *out = (plane){width, height, values};
    return true;
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
