// SPDX-License-Identifier: MIT
// 8-bit images in host memory.
#include "image.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const image *picture) {
    return (size_t)picture->width * (size_t)picture->height * (size_t)picture->channels;
}

static uint8_t *pixel_at(const image *picture, int x, int y) {
    return picture->pixels + ((size_t)y * (size_t)picture->width + (size_t)x) * (size_t)picture->channels;
}

bool image_open(image *out, int width, int height, int channels, fault *why) {
    *out = (image){0};
    if (width < 1 || width > IMAGE_MAX_SIZE || height < 1 || height > IMAGE_MAX_SIZE)
        return fail(why, "an image of %d x %d pixels: each side must be 1..%d", width, height,
                    IMAGE_MAX_SIZE);
    if (channels != 3 && channels != 4)
        return fail(why, "an image of %d channels: there must be 3 or 4", channels);
    *out = (image){.width = width, .height = height, .channels = channels};
    out->pixels = calloc(bytes_of(out), 1);
    if (out->pixels) return true;
    *out = (image){0};
    return fail(why, "no memory for an image of %d x %d pixels", width, height);
}

void image_close(image *picture) {
    free(picture->pixels);
    *picture = (image){0};
}

bool image_downscale(const image *picture, int factor, image *out, fault *why) {
    *out = (image){0};
    if (factor < 1) return fail(why, "cannot divide an image's size by %d", factor);
    const int block_x = factor < picture->width ? factor : picture->width;
    const int block_y = factor < picture->height ? factor : picture->height;
    if (!image_open(out, picture->width / block_x, picture->height / block_y, picture->channels, why))
        return false;
    const uint64_t area = (uint64_t)block_x * (uint64_t)block_y;
    for (int y = 0; y < out->height; y++) {
        for (int x = 0; x < out->width; x++) {
            uint64_t sum[4] = {0};
            for (int j = 0; j < block_y; j++) {
                const uint8_t *in = pixel_at(picture, x * block_x, y * block_y + j);
                for (int i = 0; i < block_x; i++)
                    for (int c = 0; c < picture->channels; c++) sum[c] += *in++;
            }
            for (int c = 0; c < picture->channels; c++)
                pixel_at(out, x, y)[c] = (uint8_t)((sum[c] + area / 2) / area);
        }
    }
    return true;
}

bool image_beside(const image *const *pictures, int count, int gap, image *out, fault *why) {
    *out = (image){0};
    if (count < 1 || gap < 0) return fail(why, "cannot put %d pictures side by side with gap %d", count, gap);
    int64_t width = -(int64_t)gap;
    for (int k = 0; k < count; k++) {
        if (pictures[k]->height != pictures[0]->height || pictures[k]->channels != pictures[0]->channels)
            return fail(why, "cannot put pictures of different height or channel count side by side");
        width += (int64_t)gap + pictures[k]->width;
    }
    if (width > IMAGE_MAX_SIZE)
        return fail(why, "%d pictures side by side are wider than %d pixels", count, IMAGE_MAX_SIZE);
    if (!image_open(out, (int)width, pictures[0]->height, pictures[0]->channels, why)) return false;
    memset(out->pixels, 255, bytes_of(out));
    for (int k = 0, x = 0; k < count; x += pictures[k]->width + gap, k++)
        for (int y = 0; y < out->height; y++)
            memcpy(pixel_at(out, x, y), pixel_at(pictures[k], 0, y),
                   (size_t)pictures[k]->width * (size_t)out->channels);
    return true;
}

bool image_from_planes(const float *planes, int width, int height, image *out, fault *why) {
    if (!image_open(out, width, height, 3, why)) return false;
    const size_t plane = (size_t)width * (size_t)height;
    for (size_t i = 0; i < plane; i++) {
        for (size_t c = 0; c < 3; c++) {
            const float value = planes[c * plane + i] * 255.0f;
            if (value > 0.0f)
                out->pixels[3 * i + c] = value < 255.0f ? (uint8_t)(value + 0.5f) : 255; // NaN stays 0
        }
    }
    return true;
}

// A sum of that many squares fits in 32 bits, in which compilers vectorise it.
enum { SUMMED = 4096 };

static uint32_t squares_of_part(const uint8_t *a, const uint8_t *b) {
    uint32_t sum = 0;
    for (int i = 0; i < SUMMED; i++) {
        const int difference = (int)a[i] - (int)b[i];
        sum += (uint32_t)(difference * difference);
    }
    return sum;
}

void image_squared_error(const image *a, const image *b, const uint8_t *mask, uint64_t *sum,
                         uint64_t *counted) {
    *sum = *counted = 0;
    const size_t bytes = bytes_of(a), channels = (size_t)a->channels;
    size_t i = 0;
    for (; !mask && i + SUMMED <= bytes; i += SUMMED) *sum += squares_of_part(a->pixels + i, b->pixels + i);
    *counted = i;
    for (; i < bytes; i++) {
        if (mask && mask[i / channels] == 0) continue;
        const int difference = (int)a->pixels[i] - (int)b->pixels[i];
        *sum += (uint64_t)(difference * difference);
        (*counted)++;
    }
}

double image_psnr_of(double sum, double counted) {
    return 10.0 * log10(255.0 * 255.0 * counted / sum);
}

double image_masked_psnr(const image *a, const image *b, const uint8_t *mask) {
    if (a->width != b->width || a->height != b->height || a->channels != b->channels) return NAN;
    uint64_t sum, counted;
    image_squared_error(a, b, mask, &sum, &counted);
    return image_psnr_of((double)sum, (double)counted);
}

double image_psnr(const image *a, const image *b) {
    return image_masked_psnr(a, b, NULL);
}
