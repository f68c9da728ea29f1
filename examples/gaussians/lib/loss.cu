// SPDX-License-Identifier: MIT
// 0.8 L1 + 0.2 (1 - SSIM) and its gradient (docs/math.md section 5). Two kernels, a block a tile of one
// channel: the first computes the value and, a pixel, the derivatives of SSIM by the window's three sums; the
// second gathers them.
#include "status.h"

#include <distwar/reduce.cuh>
#include <launch.cuh>

namespace {

enum { RADIUS = 5, TAPS = 2 * RADIUS + 1, TILE = 32, HALO = TILE + 2 * RADIUS, STEP = 8 };

constexpr double L1_WEIGHT = 0.8, SSIM_WEIGHT = 0.2;
constexpr float C1 = 0.0001f, C2 = 0.0009f; // (0.01 L)^2 and (0.03 L)^2, L = 1

// exp(-i^2 / (2 * 1.5^2)), i = -5..5, divided by their sum.
__constant__ float window[TAPS] = {0.00102838008f, 0.00759875814f, 0.0360007721f, 0.10936069f,
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

__device__ float target_at(const images &in, int64_t pixel, int channel) {
    return float(in.target[3 * pixel + channel]) / 255.0f;
}

__device__ bool inside(const images &in, int x, int y) {
    return x >= 0 && x < in.width && y >= 0 && y < in.height;
}

// The window over TAPS items that lie `stride` apart.
__device__ derivatives gather(const derivatives *item, int stride) {
    derivatives sum = {};
    for (int k = 0; k < TAPS; k++) {
        sum.m += window[k] * item[k * stride].m;
        sum.p += window[k] * item[k * stride].p;
        sum.s += window[k] * item[k * stride].s;
    }
    return sum;
}

// Adds this block's part to result[0..2] and, if maps is not NULL, writes maps[3][height][width].
__global__ void __launch_bounds__(TILE *STEP) loss_forward(images in, derivatives *maps, double *result) {
    __shared__ float color[HALO][HALO], target[HALO][HALO];
    __shared__ statistics rows[HALO][TILE];
    __shared__ double block_sum[3];

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
    if (thread < 3) block_sum[thread] = 0;
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

    double sum[3] = {}; // in the order of result
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
        const float ssim = a1 * a2 / (b1 * b2);
        const float difference =
            fabsf(color[row + RADIUS][threadIdx.x + RADIUS] - target[row + RADIUS][threadIdx.x + RADIUS]);
        sum[0] += L1_WEIGHT * difference + SSIM_WEIGHT * (1 - ssim);
        sum[1] += difference;
        sum[2] += ssim;
        if (maps) {
            const float by_product = 2 * a1 / (b1 * b2); // x of docs/math.md
            derivatives d;
            d.p = -ssim / b2;
            d.s = by_product * ((s.variance1 + s.variance2 - 2 * s.covariance) / b2);
            d.m = 2 * s.mean2 * a2 / (b1 * b2) - 2 * s.mean1 * ssim / b1 - 2 * d.p * (s.mean1 - s.mean2) -
                  d.s * s.mean2;
            maps[channel * plane + int64_t(y) * in.width + x] = d;
        }
    }
    distwar::reduce_bfly(distwar::all_lanes, true, 0, sum, distwar::record<double>{block_sum, 3});
    __syncthreads();
    if (thread < 3) atomicAdd(&result[thread], block_sum[thread] / (3.0 * double(plane)));
}

// gradient = dL/dc from what loss_forward left in maps.
__global__ void __launch_bounds__(TILE *STEP)
    loss_backward(images in, const derivatives *maps, float *gradient) {
    __shared__ derivatives map[HALO][HALO], rows[HALO][TILE];

    const int x0 = blockIdx.x * TILE, y0 = blockIdx.y * TILE, channel = blockIdx.z;
    const int64_t plane = int64_t(in.width) * in.height;
    const int thread = threadIdx.y * TILE + threadIdx.x;
    for (int i = thread; i < HALO * HALO; i += TILE * STEP) {
        const int row = i / HALO, column = i % HALO;
        const int x = x0 - RADIUS + column, y = y0 - RADIUS + row;
        map[row][column] =
            inside(in, x, y) ? maps[channel * plane + int64_t(y) * in.width + x] : derivatives{};
    }
    __syncthreads();
    for (int row = threadIdx.y; row < HALO; row += STEP)
        rows[row][threadIdx.x] = gather(&map[row][threadIdx.x], 1);
    __syncthreads();

    const double n = 3.0 * double(plane);
    const float l1_scale = float(L1_WEIGHT / n), ssim_scale = float(SSIM_WEIGHT / n);
    const int x = x0 + threadIdx.x;
    for (int row = threadIdx.y; row < TILE; row += STEP) {
        const int y = y0 + row;
        if (!inside(in, x, y)) continue;
        const derivatives d = gather(&rows[row][threadIdx.x], TILE);
        const int64_t pixel = int64_t(y) * in.width + x;
        const float c = in.color[channel * plane + pixel], t = target_at(in, pixel, channel);
        const float sign = float(c > t) - float(c < t);
        gradient[channel * plane + pixel] =
            l1_scale * sign - ssim_scale * (d.m + 2 * (c - t) * d.p + t * d.s);
    }
}

} // namespace

gs_status gs_loss_workspace(int32_t width, int32_t height, size_t *bytes) {
    GS_REQUIRE(width >= 1 && width <= GS_MAX_SIZE && height >= 1 && height <= GS_MAX_SIZE,
               "width and height must be 1..GS_MAX_SIZE");
    GS_REQUIRE(bytes, "bytes is NULL");
    *bytes = size_t(3) * width * height * sizeof(derivatives);
    return GS_OK;
}

gs_status gs_loss(const float *color, const uint8_t *target, int32_t width, int32_t height, void *workspace,
                  size_t workspace_bytes, double *result, float *color_gradient, gs_stream stream) {
    size_t bytes_needed = 0;
    const gs_status status = gs_loss_workspace(width, height, &bytes_needed);
    if (status != GS_OK) return status;
    GS_REQUIRE(color && target && result, "color, target or result is NULL");
    GS_REQUIRE(workspace && workspace_bytes >= bytes_needed,
               "the workspace is NULL or smaller than gs_loss_workspace says");

    const images in = {color, target, width, height};
    derivatives *const maps = color_gradient ? static_cast<derivatives *>(workspace) : nullptr;
    const dim3 grid(blocks_for(width, TILE), blocks_for(height, TILE), 3), block(TILE, STEP);
    GS_CUDA(cudaMemsetAsync(result, 0, 3 * sizeof *result, stream));
    GS_CUDA(launch(stream, grid, block, loss_forward, in, maps, result));
    if (color_gradient) GS_CUDA(launch(stream, grid, block, loss_backward, in, maps, color_gradient));
    return GS_OK;
}
