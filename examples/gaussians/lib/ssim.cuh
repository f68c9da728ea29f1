// SPDX-License-Identifier: MIT
// SSIM of a rendered picture and its target at every pixel, and its derivatives. Shared by the losses
// (loss.cu), gs_ssim and others. docs/developers/math.md, section 5.
#pragma once

#include "device_code.h"
#include "distwar_gs.h"
#include "launch.cuh"
#include <distwar/warp.cuh>
#include <math.h>
#include <stdint.h>

namespace gs {

// A block of TILE x STEP threads handles a tile of TILE x TILE pixels. A thread slides the window: it computes RUN_X
// pixels of a row, then RUN_Y pixels of a column, so that it uses each value it reads several times.
enum {
    RADIUS = 5,
    TAPS = 2 * RADIUS + 1,
    TILE = 32,
    HALO = TILE + 2 * RADIUS,
    STEP = 8,
    RUN_X = 8,
    RUN_Y = TILE / STEP
};

constexpr double L1_WEIGHT = 0.8, SSIM_WEIGHT = 0.2; // of the loss
constexpr float C1 = 0.0001f, C2 = 0.0009f;          // (0.01 L)^2 and (0.03 L)^2, L = 1

// exp(-i^2 / (2 * 1.5^2)), i = -5..5, divided by their sum.
static __constant__ float window[TAPS] = {0.00102838008f, 0.00759875814f, 0.0360007721f, 0.10936069f,
                                          0.213005538f,   0.266011725f,   0.213005538f,  0.10936069f,
                                          0.0360007721f,  0.00759875814f, 0.00102838008f};

// Target: uint8_t, a photograph; float, planes like the picture's.
template <typename Target>
struct images_of_type {
    const float *color; // [planes][height][width]; with a photograph there are GS_CHANNELS planes
    // [height][width][GS_CHANNELS], or [planes][height][width]
    const Target *target;
    const uint8_t *mask; // [height][width], or NULL: all pixels count
    int width, height;
    int64_t plane; // pixels from a channel to the next: more than width * height, of rows of an image
};
using images = images_of_type<uint8_t>;

inline images images_of(const gs_comparison &compared) {
    return {compared.color, compared.target, compared.mask,
            compared.width, compared.height, int64_t(compared.width) * compared.height};
}

// A grid of blocks of (TILE, STEP) threads that covers all values of an image.
inline dim3 grid_of(int32_t width, int32_t height, int32_t planes = GS_CHANNELS) {
    return dim3(blocks_for(width, TILE), blocks_for(height, TILE), unsigned(planes));
}

// Weighted by the window about a pixel. 1: the picture, 2: the target. The sum of their variances, which SSIM divides
// by, is that of the difference and twice the covariance.
struct statistics {
    float mean1, mean2, difference_variance, covariance;
};

// Derivatives of a pixel's SSIM by the window's sums: m and p of docs/developers/math.md, and s = 2 p + x. Where images
// are flat, p and x are near -1/C2 and 2/C2, and G*m + 2 c (G*p) + c* (G*x) cancels. With s, which is in
// proportion to B2 - A2, the variance of the difference, the sum is G*m + 2 (c - c*) (G*p) + c* (G*s). Here p
// multiplies only differences of the images; likewise in m.
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
__device__ inline float target_at(const images_of_type<uint8_t> &in, int pixel, int channel) {
    const float value = in.target[GS_CHANNELS * pixel + channel], quotient = value * (1 / 255.0f);
    return fmaf(fmaf(-quotient, 255.0f, value), 1 / 255.0f, quotient);
}

__device__ inline float target_at(const images_of_type<float> &in, int pixel, int plane) {
    return in.target[plane * in.plane + pixel];
}

template <typename Target>
__device__ inline bool inside(const images_of_type<Target> &in, int x, int y) {
    return unsigned(x) < unsigned(in.width) && unsigned(y) < unsigned(in.height);
}

// Calls load(row, column, x, y) for the block's tile and the RADIUS pixels around it.
template <typename Load>
GS_DEVICE void for_each_of_halo(const Load &load) {
    const int thread = threadIdx.y * TILE + threadIdx.x;
    for (int i = thread; i < HALO * HALO; i += TILE * STEP) {
        const int row = i / HALO, column = i % HALO;
        load(row, column, int(blockIdx.x) * TILE - RADIUS + column, int(blockIdx.y) * TILE - RADIUS + row);
    }
}

// Calls run(row, column) for every run of RUN_X places in the HALO rows of the block's tile. Neighbouring
// threads have neighbouring rows, of odd length in shared memory, so there are no bank conflicts.
template <typename Run>
GS_DEVICE void for_each_run(const Run &run) {
    const int thread = threadIdx.y * TILE + threadIdx.x;
    for (int i = thread; i < HALO * (TILE / RUN_X); i += TILE * STEP) run(i % HALO, i / HALO * RUN_X);
}

// Sums of K kinds of values under the window at n consecutive places. item(k, value): those at k = 0 .. n + TAPS - 2.
template <int K, int n, typename Item>
GS_DEVICE void slide_window(const Item &item, float (&sum)[n][K]) {
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

GS_DEVICE similarity similarity_of(const statistics &s, derivatives *d) {
    const float a1 = 2 * s.mean1 * s.mean2 + C1, a2 = 2 * s.covariance + C2;
    const float b1 = s.mean1 * s.mean1 + s.mean2 * s.mean2 + C1, b2 = s.difference_variance + a2;
    const float inv_b1b2 = 1 / (b1 * b2), inv_b1 = b2 * inv_b1b2, inv_b2 = b1 * inv_b1b2;
    const similarity like = {a1 * a2 * inv_b1b2, inv_b1, a1 * inv_b1b2};
    const float x = 2 * like.contrast_weight; // as in docs/developers/math.md
    d->p = -like.ssim * inv_b2;
    d->s = x * (s.difference_variance * inv_b2);
    d->m = 2 * s.mean2 * a2 * inv_b1b2 - 2 * s.mean1 * like.ssim * inv_b1 - 2 * d->p * (s.mean1 - s.mean2) -
           d->s * s.mean2;
    return like;
}

// Whether a value counts, and 1 / the weight of its window: of the pixels that count.
struct window_share {
    bool counts;
    float inv_weight;
};

// The place nearest to `middle` for which has(place) is true, among middle - most .. middle + most - 1; else `middle`.
template <typename Has>
GS_DEVICE int nearest(int middle, int most, const Has &has) {
    for (int k = 0; k < most; k++) {
        if (has(middle + k)) return middle + k;
        if (has(middle - 1 - k)) return middle - 1 - k;
    }
    return middle;
}

// From a window's sums of d1, d2, (d1 - d2)^2 and d1 d2, where d1 and d2 are differences from about1 and about2.
GS_DEVICE statistics statistics_of(const float *sum, float about1, float about2, float inv_weight) {
    const float d1 = sum[0] * inv_weight, d2 = sum[1] * inv_weight, d = d1 - d2;
    return {about1 + d1, about2 + d2, sum[2] * inv_weight - d * d, sum[3] * inv_weight - d1 * d2};
}

// Calls use(i, c, t, like, d, share) for every value in the block's tile of one plane, `channel`. i: its index in
// [planes][height][width]; c, t: colour and target; like: their similarity; d: the derivatives of SSIM.
// masked: windows' means are over the pixels that count by in.mask, and those outside the image, which count
// as zeros (docs/developers/math.md, section 5). Where the mask is 0 the values, the similarity and the derivatives are
// 0. Otherwise every weight below is the constant 1.
// By all threads of a block of (TILE, STEP), in a grid of (tiles, tiles, any).
template <bool masked, typename Target, typename Use>
GS_DEVICE void for_each_value(const images_of_type<Target> &in, int channel, const Use &use) {
    constexpr int sums = masked ? 5 : 4;
    __shared__ float color[HALO][HALO + 1], target[HALO][HALO + 1]; // masked: a target below 0 does not count
    __shared__ float rows[sums][HALO][TILE + 1]; // the members of statistics; masked: the weight

    const int64_t plane = in.plane;
    const float *const in_color = in.color + channel * plane;
    for_each_of_halo([&](int row, int column, int x, int y) {
        const bool has = inside(in, x, y), counts = has && (!masked || in.mask[y * in.width + x] != 0);
        color[row][column] = counts ? in_color[y * in.width + x] : 0;
        target[row][column] = counts ? target_at(in, y * in.width + x, channel) : masked && has ? -1 : 0;
    });
    __syncthreads();

    // Variances are computed about the value in the middle of the run, or the nearest that counts: along rows, then of
    // these. The usual E[c^2] - E[c]^2 cancels where the image is flat, and there SSIM divides by little more than C2.
    for_each_run([&](int row, int column) {
        int at = column + RADIUS + RUN_X / 2;
        if (masked) at = nearest(at, RADIUS + RUN_X / 2, [&](int i) { return target[row][i] >= 0; });
        const float about1 = color[row][at], about2 = masked ? fmaxf(target[row][at], 0.0f) : target[row][at];
        float sum[RUN_X][sums];
        slide_window(
            [&](int k, float value[sums]) {
                const float t = target[row][column + k], weight = masked && t < 0 ? 0.0f : 1.0f;
                const float d1 = weight * (color[row][column + k] - about1), d2 = weight * (t - about2);
                value[0] = d1, value[1] = d2, value[2] = (d1 - d2) * (d1 - d2), value[3] = d1 * d2;
                if constexpr (masked) value[4] = weight;
            },
            sum);
        for (int j = 0; j < RUN_X; j++) {
            float inv_weight = 1;
            if constexpr (masked) inv_weight = sum[j][4] > 0 ? 1 / sum[j][4] : 0;
            const statistics s = statistics_of(sum[j], about1, about2, inv_weight);
            const float value[] = {s.mean1, s.mean2, s.difference_variance, s.covariance};
            for (int m = 0; m < 4; m++) rows[m][row][column + j] = value[m];
            if constexpr (masked) rows[4][row][column + j] = sum[j][4];
        }
    });
    __syncthreads();

    const int column = threadIdx.x, row = threadIdx.y * RUN_Y;
    int at = row + RADIUS + RUN_Y / 2;
    if constexpr (masked) at = nearest(at, RADIUS + RUN_Y / 2, [&](int i) { return rows[4][i][column] > 0; });
    const float about1 = rows[0][at][column], about2 = rows[1][at][column];
    float sum[RUN_Y][sums];
    slide_window(
        [&](int k, float value[sums]) {
            float weight = 1;
            if constexpr (masked) weight = value[4] = rows[4][row + k][column];
            const float d1 = rows[0][row + k][column] - about1, d2 = rows[1][row + k][column] - about2;
            value[0] = weight * d1, value[1] = weight * d2;
            value[2] = weight * (rows[2][row + k][column] + (d1 - d2) * (d1 - d2));
            value[3] = weight * (rows[3][row + k][column] + d1 * d2);
        },
        sum);
    for (int j = 0; j < RUN_Y; j++) {
        const int x = blockIdx.x * TILE + column, y = blockIdx.y * TILE + row + j;
        if (!inside(in, x, y)) continue;
        const int64_t i = channel * plane + y * in.width + x;
        const float c = color[row + j + RADIUS][column + RADIUS],
                    t = target[row + j + RADIUS][column + RADIUS];
        if (masked && t < 0) {
            use(i, 0.0f, 0.0f, similarity{}, derivatives{}, window_share{false, 0});
            continue;
        }
        float inv_weight = 1;
        if constexpr (masked) inv_weight = 1 / sum[j][4];
        derivatives d;
        const similarity like = similarity_of(statistics_of(sum[j], about1, about2, inv_weight), &d);
        d.m *= inv_weight, d.p *= inv_weight, d.s *= inv_weight;
        use(i, c, t, like, d, window_share{true, inv_weight});
    }
}

} // namespace gs
