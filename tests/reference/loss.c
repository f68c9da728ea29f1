// SPDX-License-Identifier: MIT
// 0.8 L1 + 0.2 (1 - SSIM) and its gradient (Wang et al. 2004; padding and constants in docs/developers/math.md section
// 5).
#include "reference.h"

#include "memory.h"

#include <math.h>

enum { RADIUS = 5 };

// The window's weighted sum about every pixel, zeros outside the image. Symmetric, so its own adjoint.
static double *blur(const double *plane, int width, int height) {
    double weight[2 * RADIUS + 1], sum = 0;
    for (int k = -RADIUS; k <= RADIUS; k++) sum += weight[k + RADIUS] = exp(-k * k / (2 * 1.5 * 1.5));
    for (int k = 0; k <= 2 * RADIUS; k++) weight[k] /= sum;
    double *rows = allocate((int64_t)width * height, sizeof(double));
    double *both = allocate((int64_t)width * height, sizeof(double));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int k = -RADIUS; k <= RADIUS; k++)
                if (x + k >= 0 && x + k < width)
                    rows[(int64_t)y * width + x] += weight[k + RADIUS] * plane[(int64_t)y * width + x + k];
    for (int y = 0; y < height; y++)
        for (int k = -RADIUS; k <= RADIUS; k++)
            if (y + k >= 0 && y + k < height)
                for (int x = 0; x < width; x++)
                    both[(int64_t)y * width + x] += weight[k + RADIUS] * rows[(int64_t)(y + k) * width + x];
    free(rows);
    return both;
}

// Over a picture's channels: what one of them is compared with, and which pixels count.
typedef struct channel {
    int width, height;
    const double *color, *target;
    const double *counts; // 1 or 0 for each pixel
    const double *share;  // the window's weight of what counts, about each pixel
    int border;           // pixels nearer to the edge are not summed
} channel;

// The window's mean, over pixels that count, of a b about every pixel; of a alone if b is NULL.
static double *mean_of(const channel *in, const double *a, const double *b) {
    const int64_t pixels = (int64_t)in->width * in->height;
    double *product = allocate(pixels, sizeof(double));
    for (int64_t i = 0; i < pixels; i++) product[i] = in->counts[i] * a[i] * (b ? b[i] : 1);
    double *mean = blur(product, in->width, in->height);
    for (int64_t i = 0; i < pixels; i++) mean[i] = in->counts[i] != 0 ? mean[i] / in->share[i] : 0;
    free(product);
    return mean;
}

// The adjoint of mean_of by the product.
static double *mean_adjoint(const channel *in, const double *d_mean) {
    const int64_t pixels = (int64_t)in->width * in->height;
    double *product = allocate(pixels, sizeof(double));
    for (int64_t i = 0; i < pixels; i++) product[i] = in->counts[i] != 0 ? d_mean[i] / in->share[i] : 0;
    double *out = blur(product, in->width, in->height);
    for (int64_t i = 0; i < pixels; i++) out[i] *= in->counts[i];
    free(product);
    return out;
}

// Sum of SSIM over the pixels of one channel that count. gradient: NULL, or overwritten with the sum's
// gradient.
static double ssim(const channel *in, double *gradient) {
    const int64_t pixels = (int64_t)in->width * in->height;
    const double C1 = 0.01 * 0.01, C2 = 0.03 * 0.03;
    double *mean1 = mean_of(in, in->color, NULL), *mean2 = mean_of(in, in->target, NULL);
    double *square1 = mean_of(in, in->color, in->color), *square2 = mean_of(in, in->target, in->target);
    double *product = mean_of(in, in->color, in->target);
    double sum = 0;
    for (int64_t i = 0; i < pixels; i++) {
        if (in->counts[i] == 0) continue;
        const int64_t x = i % in->width, y = i / in->width;
        if (x < in->border || x >= in->width - in->border || y < in->border || y >= in->height - in->border) {
            mean1[i] = square1[i] = product[i] = 0;
            continue;
        }
        const double m1 = mean1[i], m2 = mean2[i];
        const double A1 = 2 * m1 * m2 + C1, A2 = 2 * (product[i] - m1 * m2) + C2;
        const double B1 = m1 * m1 + m2 * m2 + C1, B2 = square1[i] - m1 * m1 + square2[i] - m2 * m2 + C2;
        const double value = A1 * A2 / (B1 * B2);
        sum += value;
        // Overwrite the maps with the derivatives of the value by them.
        square1[i] = -value / B2;
        product[i] = 2 * A1 / (B1 * B2);
        mean1[i] = 2 * m2 * A2 / (B1 * B2) - 2 * m1 * value / B1 - 2 * m1 * square1[i] - m2 * product[i];
    }
    if (gradient) {
        double *d_mean = mean_adjoint(in, mean1), *d_square = mean_adjoint(in, square1);
        double *d_product = mean_adjoint(in, product);
        for (int64_t i = 0; i < pixels; i++)
            gradient[i] = d_mean[i] + 2 * in->color[i] * d_square[i] + in->target[i] * d_product[i];
        free(d_mean);
        free(d_square);
        free(d_product);
    }
    free(mean1);
    free(mean2);
    free(square1);
    free(square2);
    free(product);
    return sum;
}

// The window's weight about every pixel of those that count and of those outside the image, which are zeros.
static double *share_of(const double *counts, int width, int height) {
    const int64_t pixels = (int64_t)width * height;
    double *masked = allocate(pixels, sizeof(double));
    for (int64_t i = 0; i < pixels; i++) masked[i] = 1 - counts[i];
    double *share = blur(masked, width, height);
    for (int64_t i = 0; i < pixels; i++) share[i] = 1 - share[i];
    free(masked);
    return share;
}

double reference_ssim(const double *first, const double *second, const reference_ssim_shape *shape,
                      double *gradient) {
    const int64_t pixels = (int64_t)shape->width * shape->height;
    double *ones = allocate(pixels, sizeof(double));
    for (int64_t i = 0; i < pixels; i++) ones[i] = 1;
    double sum = 0;
    for (int64_t k = 0; k < shape->planes; k++) {
        const channel in = {shape->width, shape->height, first + k * pixels,       second + k * pixels,
                            ones,         ones,          shape->valid ? RADIUS : 0};
        sum += ssim(&in, gradient ? gradient + k * pixels : NULL);
    }
    free(ones);
    const int border = shape->valid ? 2 * RADIUS : 0;
    const double n = (double)shape->planes * (shape->width - border) * (shape->height - border);
    for (int64_t i = 0; gradient && i < shape->planes * pixels; i++) gradient[i] /= n;
    return sum / n;
}

void reference_loss(const double *color, const uint8_t *target, const uint8_t *mask, int width, int height,
                    const signed char *held, signed char *taken, reference_loss_value *value,
                    double *gradient) {
    const int64_t pixels = (int64_t)width * height;
    double *plane = allocate(pixels, sizeof(double)); // one channel of the target
    double *counts = allocate(pixels, sizeof(double));
    double n = 0, l1 = 0, similarity = 0;
    for (int64_t i = 0; i < pixels; i++) n += 3 * (counts[i] = !mask || mask[i] != 0);
    double *share = share_of(counts, width, height);
    for (int channel_index = 0; channel_index < 3; channel_index++) {
        const int64_t first = channel_index * pixels;
        const channel in = {width, height, color + first, plane, counts, share, 0};
        for (int64_t i = 0; i < pixels; i++) plane[i] = target[3 * i + channel_index] / 255.0;
        similarity += ssim(&in, gradient ? gradient + first : NULL);
        for (int64_t i = 0; i < pixels; i++) {
            const double difference = color[first + i] - plane[i];
            const int sign = held ? held[first + i] : (difference > 0) - (difference < 0);
            l1 += counts[i] * sign * difference;
            if (taken) taken[first + i] = (signed char)sign;
            if (gradient)
                gradient[first + i] = n > 0 ? (0.8 * counts[i] * sign - 0.2 * gradient[first + i]) / n : 0;
        }
    }
    free(plane);
    free(counts);
    free(share);
    value->l1 = n > 0 ? l1 / n : 0;
    value->ssim = n > 0 ? similarity / n : 1;
    value->loss = 0.8 * value->l1 + 0.2 * (1 - value->ssim);
}

double reference_depth_loss(const double *depth, const float *target, const uint8_t *mask, int64_t pixels,
                            const signed char *held, signed char *taken, double *gradient) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < pixels; i++) {
        const int counts = !isnan(target[i]) && (!mask || mask[i] != 0);
        const double difference = counts ? depth[i] - target[i] : 0;
        const int sign = held ? held[i] : (difference > 0) - (difference < 0);
        sum += sign * difference;
        n += counts;
        if (taken) taken[i] = (signed char)sign;
        if (gradient) gradient[i] = sign;
    }
    for (int64_t i = 0; gradient && n > 0 && i < pixels; i++) gradient[i] /= (double)n;
    return n > 0 ? sum / (double)n : 0;
}
