// SPDX-License-Identifier: MIT
// SSIM of a rendered picture and its target at every pixel, and its derivatives. Shared by the loss (loss.cu)
// and by Levenberg-Marquardt (lm/weights.cu, lm/metric.cu). docs/math.md, section 5.
#pragma once

#include "gs.h"
#include <cuda_runtime.h>
#include <distwar/lanes.cuh>
#include <math.h>
#include <stdint.h>

namespace gs {

// A block of TILE x STEP threads handles a tile of TILE x TILE pixels. A thread slides the window: it
// computes RUN_X pixels of a row, then RUN_Y pixels of a column, so that it uses each value it reads several
// times.
enum {
    RADIUS = 5,
    TAPS = 2 * RADIUS + 1,
    TILE = 32,
    HALO = TILE + 2 * RADIUS,
    STEP = 8,
    RUN_X = 8,
    RUN_Y = TILE / STEP
};

constexpr double L1_WEIGHT = 0.8, SSIM_WEIGHT = 0.2;
constexpr float C1 = 0.0001f, C2 = 0.0009f; // (0.01 L)^2 and (0.03 L)^2, L = 1

// exp(-i^2 / (2 * 1.5^2)), i = -5..5, divided by their sum.
static __constant__ float window[TAPS] = {0.00102838008f, 0.00759875814f, 0.0360007721f, 0.10936069f,
                                          0.213005538f,   0.266011725f,   0.213005538f,  0.10936069f,
                                          0.0360007721f,  0.00759875814f, 0.00102838008f};

struct images {
    const float *color;    // [GS_CHANNELS][height][width]
    const uint8_t *target; // [height][width][GS_CHANNELS]
    const uint8_t *mask;   // [height][width], or NULL: all pixels count
    int width, height;
};

inline images images_of(const gs_comparison &compared) {
    return {compared.color, compared.target, compared.mask, compared.width, compared.height};
}

// Weighted by the window about a pixel. 1: the picture, 2: the target.
struct statistics {
    float mean1, mean2, variance1, variance2, covariance;
};

// Derivatives of a pixel's SSIM by the window's sums: m and p of docs/math.md, and s = 2 p + x. Where images
// are flat, p and x are near -1/C2 and 2/C2, and G*m + 2 c (G*p) + c* (G*x) cancels. With s, which is
// computed from B2 - A2 and is small there, the sum is G*m + 2 (c - c*) (G*p) + c* (G*s). Here p multiplies
// only differences of the images; likewise in m.
struct derivatives {
    float m, p, s;
};

// One pixel's SSIM = l q, with l = A1 / B1 and q = A2 / B2. Then 1 - l = brightness_weight (difference of the
// means)^2 and l (1 - q) = contrast_weight (variance of the difference).
struct similarity {
    float ssim;
    float brightness_weight; // 1 / B1
    float contrast_weight;   // l / B2
};

// The target's value / 255, correctly rounded: the product, corrected by its remainder.
__device__ inline float target_at(const images &in, int pixel, int channel) {
    const float value = in.target[GS_CHANNELS * pixel + channel], quotient = value * (1 / 255.0f);
    return fmaf(fmaf(-quotient, 255.0f, value), 1 / 255.0f, quotient);
}

__device__ inline bool inside(const images &in, int x, int y) {
    return unsigned(x) < unsigned(in.width) && unsigned(y) < unsigned(in.height);
}

// Calls load(row, column, x, y) for the block's tile and the RADIUS pixels around it.
template <typename Load>
__device__ __forceinline__ void for_each_of_halo(const Load &load) {
    const int thread = threadIdx.y * TILE + threadIdx.x;
    for (int i = thread; i < HALO * HALO; i += TILE * STEP) {
        const int row = i / HALO, column = i % HALO;
        load(row, column, int(blockIdx.x) * TILE - RADIUS + column, int(blockIdx.y) * TILE - RADIUS + row);
    }
}

// Calls run(row, column) for every run of RUN_X places in the HALO rows of the block's tile. Neighbouring
// threads have neighbouring rows, of odd length in shared memory, so there are no bank conflicts.
template <typename Run>
__device__ __forceinline__ void for_each_run(const Run &run) {
    const int thread = threadIdx.y * TILE + threadIdx.x;
    for (int i = thread; i < HALO * (TILE / RUN_X); i += TILE * STEP) run(i % HALO, i / HALO * RUN_X);
}

// Sums of K kinds of values under the window at n consecutive places. item(k, value) gives the values at
// place k, k = 0 .. n + TAPS - 2.
template <int K, int n, typename Item>
__device__ __forceinline__ void slide_window(const Item &item, float (&sum)[n][K]) {
    for (int j = 0; j < n; j++)
        for (int c = 0; c < K; c++) sum[j][c] = 0;
    DISTWAR_UNROLL
    for (int k = 0; k < n + TAPS - 1; k++) {
        float value[K];
        item(k, value);
        DISTWAR_UNROLL
        for (int j = 0; j < n; j++)
            if (k >= j && k < j + TAPS)
                for (int c = 0; c < K; c++) sum[j][c] += window[k - j] * value[c];
    }
}

__device__ __forceinline__ similarity similarity_of(const statistics &s, derivatives *d) {
    const float a1 = 2 * s.mean1 * s.mean2 + C1, a2 = 2 * s.covariance + C2;
    const float b1 = s.mean1 * s.mean1 + s.mean2 * s.mean2 + C1, b2 = s.variance1 + s.variance2 + C2;
    const float inv_b1b2 = 1 / (b1 * b2), inv_b1 = b2 * inv_b1b2, inv_b2 = b1 * inv_b1b2;
    const similarity like = {a1 * a2 * inv_b1b2, inv_b1, a1 * inv_b1b2};
    const float x = 2 * like.contrast_weight; // as in docs/math.md
    d->p = -like.ssim * inv_b2;
    d->s = x * ((s.variance1 + s.variance2 - 2 * s.covariance) * inv_b2);
    d->m = 2 * s.mean2 * a2 * inv_b1b2 - 2 * s.mean1 * like.ssim * inv_b1 - 2 * d->p * (s.mean1 - s.mean2) -
           d->s * s.mean2;
    return like;
}

// Whether a value counts, and 1 / the weight of its window: of the pixels that count.
struct window_share {
    bool counts;
    float inv_weight;
};

// Calls use(i, c, t, like, d, share) for every value in the block's tile of one channel. i: its index in
// [GS_CHANNELS][height][width]; c, t: colour and target; like: their similarity; d: the derivatives of SSIM.
// Does not read in.mask: ssim_masked.cuh.
// By all threads of a block of (TILE, STEP), in a grid of (tiles, tiles, GS_CHANNELS).
template <typename Use>
__device__ __forceinline__ void for_each_value(const images &in, const Use &use) {
    __shared__ float color[HALO][HALO + 1], target[HALO][HALO + 1];
    __shared__ float rows[5][HALO][TILE + 1]; // the members of statistics

    const int channel = blockIdx.z;
    const int64_t plane = int64_t(in.width) * in.height;
    const float *const in_color = in.color + channel * plane;
    for_each_of_halo([&](int row, int column, int x, int y) {
        const bool has = inside(in, x, y);
        color[row][column] = has ? in_color[y * in.width + x] : 0;
        target[row][column] = has ? target_at(in, y * in.width + x, channel) : 0;
    });
    __syncthreads();

    // Variances are computed about the value in the middle of the run, first along rows, then of the rows.
    // The usual E[c^2] - E[c]^2 cancels where the image is flat, and there SSIM divides by little more than
    // C2.
    for_each_run([&](int row, int column) {
        const int middle = column + RADIUS + RUN_X / 2;
        const float about1 = color[row][middle], about2 = target[row][middle];
        float sum[RUN_X][5];
        slide_window(
            [&](int k, float value[5]) {
                const float d1 = color[row][column + k] - about1, d2 = target[row][column + k] - about2;
                value[0] = d1, value[1] = d2, value[2] = d1 * d1, value[3] = d2 * d2, value[4] = d1 * d2;
            },
            sum);
        for (int j = 0; j < RUN_X; j++) {
            const float *m = sum[j];
            rows[0][row][column + j] = about1 + m[0];
            rows[1][row][column + j] = about2 + m[1];
            rows[2][row][column + j] = m[2] - m[0] * m[0];
            rows[3][row][column + j] = m[3] - m[1] * m[1];
            rows[4][row][column + j] = m[4] - m[0] * m[1];
        }
    });
    __syncthreads();

    const int column = threadIdx.x, row = threadIdx.y * RUN_Y, middle = row + RADIUS + RUN_Y / 2;
    const float about1 = rows[0][middle][column], about2 = rows[1][middle][column];
    float sum[RUN_Y][5];
    slide_window(
        [&](int k, float value[5]) {
            const float d1 = rows[0][row + k][column] - about1, d2 = rows[1][row + k][column] - about2;
            value[0] = d1, value[1] = d2;
            value[2] = rows[2][row + k][column] + d1 * d1;
            value[3] = rows[3][row + k][column] + d2 * d2;
            value[4] = rows[4][row + k][column] + d1 * d2;
        },
        sum);
    for (int j = 0; j < RUN_Y; j++) {
        const int x = blockIdx.x * TILE + column, y = blockIdx.y * TILE + row + j;
        if (!inside(in, x, y)) continue;
        const float *m = sum[j];
        derivatives d;
        const similarity like = similarity_of(
            {about1 + m[0], about2 + m[1], m[2] - m[0] * m[0], m[3] - m[1] * m[1], m[4] - m[0] * m[1]}, &d);
        use(channel * plane + y * in.width + x, color[row + j + RADIUS][column + RADIUS],
            target[row + j + RADIUS][column + RADIUS], like, d, window_share{true, 1});
    }
}

} // namespace gs
