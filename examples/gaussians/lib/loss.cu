// SPDX-License-Identifier: MIT
// 0.8 L1 + 0.2 (1 - SSIM) and its gradient (docs/math.md section 5). Two kernels, a block a tile of one
// channel: the first computes the value and, a pixel, the derivatives of SSIM by the window's three sums; the
// second gathers them. The value's sums are taken in an order that is always the same.
#include "ssim.cuh"
#include "status.h"

#include <distwar/block.cuh>
#include <distwar/tree.cuh>
#include <launch.cuh>

namespace {

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

enum { THREADS = TILE * STEP };

// Of gs_loss's three results, each times the number of values in the image.
struct loss_sums {
    double of[3];
};

// Writes this block's part of the sums and, if maps is not NULL, maps[3][height][width].
__global__ void __launch_bounds__(THREADS) loss_forward(images in, derivatives *maps, loss_sums *of_block) {
    __shared__ double of_warp[THREADS / 32][3];
    double sum[3] = {};
    for_each_value(in, [&](int64_t i, float c, float t, const similarity &like, const derivatives &d) {
        const float difference = fabsf(c - t);
        sum[0] += L1_WEIGHT * difference + SSIM_WEIGHT * (1 - like.ssim);
        sum[1] += difference;
        sum[2] += like.ssim;
        if (maps) maps[i] = d;
    });
    // A row of threads is a warp.
    double of_lane[distwar::tree_places(3)];
    distwar::tree_total(true, sum, of_lane);
    const int k = threadIdx.x;
    if (k < 3) of_warp[threadIdx.y][k] = of_lane[0];
    __syncthreads();
    if (threadIdx.y > 0 || k >= 3) return;
    double total = 0;
    for (int warp = 0; warp < THREADS / 32; warp++) total += of_warp[warp][k];
    of_block[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x].of[k] = total;
}

// result = the sums of all blocks over the number of values. By one block.
__global__ void __launch_bounds__(THREADS)
    loss_value(const loss_sums *of_block, int blocks, double values, double *result) {
    __shared__ distwar::block_sum_memory<3, THREADS, double> memory;
    double mine[3] = {}, total[3];
    for (int i = threadIdx.x; i < blocks; i += THREADS)
        for (int k = 0; k < 3; k++) mine[k] += of_block[i].of[k];
    distwar::block_sum(mine, memory, total);
    if (threadIdx.x > 0) return;
    for (int k = 0; k < 3; k++) result[k] = total[k] / values;
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

static dim3 grid_of(int32_t width, int32_t height) {
    return dim3(blocks_for(width, TILE), blocks_for(height, TILE), 3);
}

static int blocks_in(const dim3 &grid) {
    return int(grid.x * grid.y * grid.z);
}

gs_status gs_loss_workspace(int32_t width, int32_t height, size_t *bytes) {
    GS_REQUIRE(width >= 1 && width <= GS_MAX_SIZE && height >= 1 && height <= GS_MAX_SIZE,
               "width and height must be 1..GS_MAX_SIZE");
    GS_REQUIRE(bytes, "bytes is NULL");
    *bytes = size_t(blocks_in(grid_of(width, height))) * sizeof(loss_sums) +
             size_t(3) * width * height * sizeof(derivatives);
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
    const dim3 grid = grid_of(width, height), block(TILE, STEP);
    auto *const of_block = static_cast<loss_sums *>(workspace);
    derivatives *const maps =
        color_gradient ? reinterpret_cast<derivatives *>(of_block + blocks_in(grid)) : nullptr;
    GS_CUDA(launch(stream, grid, block, loss_forward, in, maps, of_block));
    GS_CUDA(launch(stream, 1, THREADS, loss_value, of_block, blocks_in(grid), 3.0 * width * height, result));
    if (color_gradient) GS_CUDA(launch(stream, grid, block, loss_backward, in, maps, color_gradient));
    return GS_OK;
}
