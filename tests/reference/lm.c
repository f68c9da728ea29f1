// SPDX-License-Identifier: MIT
//
// Residuals from sums over each pixel's own window, and dense normal equations.
#include "lm.h"

#include "memory.h"

#include <math.h>

enum { RADIUS = 5 };

int64_t reference_lm_residuals_of(int width, int height) {
    return 6 * (int64_t)width * height;
}

// Weighted sums over the window about a pixel: of colours, targets, their squares and product, and of a
// change and its square.
typedef struct window_sums {
    double m1, m2, s1, s2, s12, d1, d2;
} window_sums;

// About the pixel (x, y) of one channel, the pixel's own colour being `center`, over the pixels that count.
// change and mask may be NULL.
static window_sums sums_about(const double *base, double center, const uint8_t *target, const uint8_t *mask,
                              const double *change, int width, int height, int x, int y) {
    double weight[2 * RADIUS + 1], norm = 0;
    for (int k = -RADIUS; k <= RADIUS; k++) norm += weight[k + RADIUS] = exp(-k * k / (2 * 1.5 * 1.5));
    double masked = 0;
    window_sums s = {0};
    for (int i = -RADIUS; i <= RADIUS; i++)
        for (int j = -RADIUS; j <= RADIUS; j++) {
            if (x + j < 0 || x + j >= width || y + i < 0 || y + i >= height) continue;
            const int64_t at = (int64_t)(y + i) * width + x + j;
            const double w = weight[i + RADIUS] * weight[j + RADIUS] / (norm * norm);
            if (mask && mask[at] == 0) {
                masked += w;
                continue;
            }
            const double c = i == 0 && j == 0 ? center : base[at], t = target[3 * at] / 255.0;
            s.m1 += w * c;
            s.m2 += w * t;
            s.s1 += w * c * c;
            s.s2 += w * t * t;
            s.s12 += w * c * t;
            if (!change) continue;
            s.d1 += w * change[at];
            s.d2 += w * change[at] * change[at];
        }
    double *const sums[] = {&s.m1, &s.m2, &s.s1, &s.s2, &s.s12, &s.d1, &s.d2};
    for (int k = 0; k < 7; k++) *sums[k] /= 1 - masked;
    return s;
}

static const double C1 = 0.01 * 0.01, C2 = 0.03 * 0.03;

double reference_lm_square(const double *color, const uint8_t *target, const uint8_t *mask, int width,
                           int height, double epsilon, const double *change) {
    double sum = 0;
    for (int channel = 0; channel < 3; channel++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                const int64_t plane = (int64_t)channel * width * height, at = (int64_t)y * width + x;
                if (mask && mask[at] == 0) continue;
                const double c = color[plane + at], d = change[plane + at];
                const window_sums s =
                    sums_about(color + plane, c, target + channel, mask, change + plane, width, height, x, y);
                const double brightness = s.m1 * s.m1 + s.m2 * s.m2 + C1;
                const double contrast = s.s1 - s.m1 * s.m1 + s.s2 - s.m2 * s.m2 + C2;
                const double alike = (2 * s.m1 * s.m2 + C1) / brightness;
                sum += 0.8 / 4 * d * d / (fabs(c - target[3 * at + channel] / 255.0) + epsilon) +
                       0.2 * (s.d1 * s.d1 / brightness + alike * (s.d2 - s.d1 * s.d1) / contrast);
            }
    return sum;
}

void reference_lm_residuals(const double *color, const double *base, const uint8_t *target,
                            const uint8_t *mask, int width, int height, double epsilon,
                            const signed char *sign, double *residuals) {
    const int64_t pixels = (int64_t)width * height;
    for (int channel = 0; channel < 3; channel++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                const int64_t at = (int64_t)y * width + x, i = channel * pixels + at;
                residuals[i] = residuals[3 * pixels + i] = 0;
                if (mask && mask[at] == 0) continue;
                const double difference = color[i] - target[3 * at + channel] / 255.0;
                const window_sums s = sums_about(base + channel * pixels, color[i], target + channel, mask,
                                                 NULL, width, height, x, y);
                const double ssim =
                    (2 * s.m1 * s.m2 + C1) * (2 * (s.s12 - s.m1 * s.m2) + C2) /
                    ((s.m1 * s.m1 + s.m2 * s.m2 + C1) * (s.s1 - s.m1 * s.m1 + s.s2 - s.m2 * s.m2 + C2));
                residuals[i] = sqrt(0.8 * (sign[i] * difference + epsilon));
                residuals[3 * pixels + i] = sqrt(0.2 * (1 - ssim + epsilon));
            }
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

void reference_lm_solve(const double *jacobian, const double *residuals, int64_t rows, int64_t columns,
                        double lambda, double *update) {
    // Row i of `factor` becomes that of Cholesky's lower triangle.
    double *factor = allocate(columns * columns, sizeof(double));
    for (int64_t i = 0; i < columns; i++) {
        for (int64_t j = 0; j <= i; j++)
            factor[i * columns + j] = dot(jacobian + i * rows, jacobian + j * rows, rows);
        factor[i * columns + i] *= 1 + lambda;
        if (factor[i * columns + i] == 0) factor[i * columns + i] = 1;
        update[i] = -dot(jacobian + i * rows, residuals, rows);
    }
    for (int64_t i = 0; i < columns; i++) {
        for (int64_t j = 0; j < i; j++)
            factor[i * columns + j] =
                (factor[i * columns + j] - dot(factor + i * columns, factor + j * columns, j)) /
                factor[j * columns + j];
        factor[i * columns + i] =
            sqrt(factor[i * columns + i] - dot(factor + i * columns, factor + i * columns, i));
        update[i] = (update[i] - dot(factor + i * columns, update, i)) / factor[i * columns + i];
    }
    for (int64_t i = columns - 1; i >= 0; i--) {
        for (int64_t j = i + 1; j < columns; j++) update[i] -= factor[j * columns + i] * update[j];
        update[i] /= factor[i * columns + i];
    }
    free(factor);
}
