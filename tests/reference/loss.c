// SPDX-License-Identifier: MIT
//
// 0.8 L1 + 0.2 (1 - SSIM) and its gradient (Wang et al. 2004; padding and constants in docs/math.md section
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

static double *blur_product(const double *a, const double *b, int width, int height) {
    double *product = allocate((int64_t)width * height, sizeof(double));
    for (int64_t i = 0; i < (int64_t)width * height; i++) product[i] = a[i] * b[i];
    double *blurred = blur(product, width, height);
    free(product);
    return blurred;
}

// Sum of SSIM over one channel. gradient: NULL, or overwritten with the sum's gradient.
static double ssim(const double *color, const double *target, int width, int height, double *gradient) {
    const int64_t pixels = (int64_t)width * height;
    const double C1 = 0.01 * 0.01, C2 = 0.03 * 0.03;
    double *mean1 = blur(color, width, height), *mean2 = blur(target, width, height);
    double *square1 = blur_product(color, color, width, height),
           *square2 = blur_product(target, target, width, height);
    double *product = blur_product(color, target, width, height);
    double sum = 0;
    for (int64_t i = 0; i < pixels; i++) {
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
        double *d_mean = blur(mean1, width, height), *d_square = blur(square1, width, height);
        double *d_product = blur(product, width, height);
        for (int64_t i = 0; i < pixels; i++)
            gradient[i] = d_mean[i] + 2 * color[i] * d_square[i] + target[i] * d_product[i];
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

void reference_loss(const double *color, const uint8_t *target, int width, int height,
                    const signed char *held, signed char *taken, reference_loss_value *value,
                    double *gradient) {
    const int64_t pixels = (int64_t)width * height;
    const double n = 3.0 * (double)pixels;
    double *plane = allocate(pixels, sizeof(double)); // one channel of the target
    double l1 = 0, similarity = 0;
    for (int channel = 0; channel < 3; channel++) {
        const int64_t first = channel * pixels;
        for (int64_t i = 0; i < pixels; i++) plane[i] = target[3 * i + channel] / 255.0;
        similarity += ssim(color + first, plane, width, height, gradient ? gradient + first : NULL);
        for (int64_t i = 0; i < pixels; i++) {
            const double difference = color[first + i] - plane[i];
            const int sign = held ? held[first + i] : (difference > 0) - (difference < 0);
            l1 += sign * difference;
            if (taken) taken[first + i] = (signed char)sign;
            if (gradient) gradient[first + i] = (0.8 * sign - 0.2 * gradient[first + i]) / n;
        }
    }
    free(plane);
    value->l1 = l1 / n;
    value->ssim = similarity / n;
    value->loss = 0.8 * value->l1 + 0.2 * (1 - value->ssim);
}
