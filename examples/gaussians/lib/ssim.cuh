// SPDX-License-Identifier: MIT
// SSIM of a rendered picture with the one it should be, pixel by pixel, and its derivatives: what the loss
// (loss.cu) and the residuals of Levenberg-Marquardt (lm_weights.cu) share. docs/math.md section 5.
#ifndef GS_SSIM_CUH
#define GS_SSIM_CUH

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

enum { RADIUS = 5, TAPS = 2 * RADIUS + 1, TILE = 32, HALO = TILE + 2 * RADIUS, STEP = 8 };

constexpr double L1_WEIGHT = 0.8, SSIM_WEIGHT = 0.2;
constexpr float C1 = 0.0001f, C2 = 0.0009f; // (0.01 L)^2 and (0.03 L)^2, L = 1

// exp(-i^2 / (2 * 1.5^2)), i = -5..5, divided by their sum.
static __constant__ float window[TAPS] = {0.00102838008f, 0.00759875814f, 0.0360007721f, 0.10936069f,
                                          0.213005538f,   0.266011725f,   0.213005538f,  0.10936069f,
                                          0.0360007721f,  0.00759875814f, 0.00102838008f};

struct images {
    const float *color;    // [3][height][width]
    const uint8_t *target; // [height][width][3]
    int width, height;
};

// Of the window's weighted pixels: both means, both variances, the covariance.
struct statistics {
    float mean1, mean2, variance1, variance2, covariance;
};

// m and p of docs/math.md and s = 2 p + x: derivatives of a pixel's SSIM by the window's sums. Where images
// are flat, p and x are near -1/C2 and 2/C2, and G*m + 2 c (G*p) + c* (G*x) cancels. Written with s, which
// comes from B2 - A2 and is small there, it is G*m + 2 (c - c*) (G*p) + c* (G*s): p meets only differences of
// the images, in m as well.
struct derivatives {
    float m, p, s;
};

// About one pixel: SSIM = l q, and what the squares of differences of means and their variance are worth in
// 1 - l and l (1 - q): 1 / B1 and l / B2.
struct similarity {
    float ssim, by_brightness, by_contrast;
};

__device__ inline float target_at(const images &in, int64_t pixel, int channel) {
    return float(in.target[3 * pixel + channel]) / 255.0f;
}

__device__ inline bool inside(const images &in, int x, int y) {
    return x >= 0 && x < in.width && y >= 0 && y < in.height;
}

// Calls use(i, c, t, like, d) for every value i of [3][height][width] in the block's tile of one channel: the
// colour, the target, their similarity about this pixel, and the derivatives of SSIM. By all threads of a
// block of (TILE, STEP), in a grid of tiles by channels.
template <typename Use>
__device__ __forceinline__ void for_each_value(const images &in, const Use &use) {
    __shared__ float color[HALO][HALO], target[HALO][HALO];
    __shared__ statistics rows[HALO][TILE];

    const int x0 = blockIdx.x * TILE, y0 = blockIdx.y * TILE, channel = blockIdx.z;
    const int64_t plane = int64_t(in.width) * in.height;
    const int thread = threadIdx.y * TILE + threadIdx.x;
    for (int i = thread; i < HALO * HALO; i += TILE * STEP) {
        const int row = i / HALO, column = i % HALO;
        const int x = x0 - RADIUS + column, y = y0 - RADIUS + row;
        const bool has = inside(in, x, y);
        const int64_t pixel = int64_t(y) * in.width + x;
        color[row][column] = has ? in.color[channel * plane + pixel] : 0;
        target[row][column] = has ? target_at(in, pixel, channel) : 0;
    }
    __syncthreads();

    // Variances are taken about the mean, first of a row and then of the rows: E[c^2] - E[c]^2 would lose
    // most of its digits where the image is flat, and there SSIM divides by little more than C2.
    for (int row = threadIdx.y; row < HALO; row += STEP) {
        const float *c = &color[row][threadIdx.x], *t = &target[row][threadIdx.x];
        statistics s = {};
        for (int k = 0; k < TAPS; k++) {
            s.mean1 += window[k] * c[k];
            s.mean2 += window[k] * t[k];
        }
        for (int k = 0; k < TAPS; k++) {
            const float d1 = c[k] - s.mean1, d2 = t[k] - s.mean2;
            s.variance1 += window[k] * d1 * d1;
            s.variance2 += window[k] * d2 * d2;
            s.covariance += window[k] * d1 * d2;
        }
        rows[row][threadIdx.x] = s;
    }
    __syncthreads();

    const int x = x0 + threadIdx.x;
    for (int row = threadIdx.y; row < TILE; row += STEP) {
        const int y = y0 + row;
        if (!inside(in, x, y)) continue;
        statistics s = {};
        for (int k = 0; k < TAPS; k++) {
            const statistics &r = rows[row + k][threadIdx.x];
            s.mean1 += window[k] * r.mean1;
            s.mean2 += window[k] * r.mean2;
        }
        for (int k = 0; k < TAPS; k++) {
            const statistics &r = rows[row + k][threadIdx.x];
            const float d1 = r.mean1 - s.mean1, d2 = r.mean2 - s.mean2;
            s.variance1 += window[k] * (r.variance1 + d1 * d1);
            s.variance2 += window[k] * (r.variance2 + d2 * d2);
            s.covariance += window[k] * (r.covariance + d1 * d2);
        }
        const float a1 = 2 * s.mean1 * s.mean2 + C1, a2 = 2 * s.covariance + C2;
        const float b1 = s.mean1 * s.mean1 + s.mean2 * s.mean2 + C1, b2 = s.variance1 + s.variance2 + C2;
        const similarity like = {a1 * a2 / (b1 * b2), 1 / b1, a1 / (b1 * b2)};
        const float by_product = 2 * a1 / (b1 * b2); // x of docs/math.md
        derivatives d;
        d.p = -like.ssim / b2;
        d.s = by_product * ((s.variance1 + s.variance2 - 2 * s.covariance) / b2);
        d.m = 2 * s.mean2 * a2 / (b1 * b2) - 2 * s.mean1 * like.ssim / b1 - 2 * d.p * (s.mean1 - s.mean2) -
              d.s * s.mean2;
        use(channel * plane + int64_t(y) * in.width + x, color[row + RADIUS][threadIdx.x + RADIUS],
            target[row + RADIUS][threadIdx.x + RADIUS], like, d);
    }
}

#endif
