// SPDX-License-Identifier: MIT
// How the loss bends as a picture changes: a weight a value, and what SSIM takes away again from changes that
// a whole window shares (docs/math.md, section 8).
#include "gs_lm.h"
#include "ssim.cuh"
#include "status.h"
#include <distwar/block.cuh>
#include <launch.cuh>

namespace {

// Where values of a change lie.
struct layout {
    int width, height;
    bool interleaved; // [height][width][4], else [3][height][width]

    __device__ int64_t pixels() const { return int64_t(width) * height; }
    __device__ int64_t operator()(int channel, int64_t pixel) const {
        return interleaved ? 4 * pixel + channel : channel * pixels() + pixel;
    }
};

struct blur_memory {
    float values[HALO][HALO], rows[HALO][TILE];
};

__device__ __forceinline__ float tap(int k, bool squared) {
    return squared ? window[k] * window[k] : window[k];
}

// Calls use(pixel, sum) for the pixels of the block's tile, sum being that of read(pixel) under the window,
// or under its square; zeros outside. By all threads of a block of (TILE, STEP).
template <bool Squared, typename Read, typename Use>
__device__ __forceinline__ void blur(int width, int height, blur_memory &memory, const Read &read,
                                     const Use &use) {
    for_each_of_halo([&](int row, int column, int x, int y) {
        const bool has = x >= 0 && x < width && y >= 0 && y < height;
        memory.values[row][column] = has ? read(int64_t(y) * width + x) : 0;
    });
    __syncthreads();
    for (int row = threadIdx.y; row < HALO; row += STEP) {
        float sum = 0;
        for (int k = 0; k < TAPS; k++) sum = fmaf(tap(k, Squared), memory.values[row][threadIdx.x + k], sum);
        memory.rows[row][threadIdx.x] = sum;
    }
    __syncthreads();
    const int x = blockIdx.x * TILE + threadIdx.x;
    for (int row = threadIdx.y; row < TILE; row += STEP) {
        const int y = blockIdx.y * TILE + row;
        if (x >= width || y >= height) continue;
        float sum = 0;
        for (int k = 0; k < TAPS; k++) sum = fmaf(tap(k, Squared), memory.rows[row + k][threadIdx.x], sum);
        use(int64_t(y) * width + x, sum);
    }
}

// weight: L1's part; contrast and coupling: of the window about every pixel.
__global__ void __launch_bounds__(TILE *STEP)
    windows_kernel(images in, float epsilon, float *weight, float *contrast, float *coupling) {
    for_each_value(in, [&](int64_t i, float c, float t, const similarity &like, const derivatives &) {
        weight[i] = 0.25f * float(L1_WEIGHT) / (fabsf(c - t) + epsilon);
        contrast[i] = float(SSIM_WEIGHT) * like.by_contrast;
        coupling[i] = float(SSIM_WEIGHT) * (like.by_contrast - like.by_brightness);
    });
}

__global__ void __launch_bounds__(TILE *STEP)
    gather_kernel(int width, int height, const float *contrast, float *weight) {
    __shared__ blur_memory memory;
    const int64_t plane = int64_t(blockIdx.z) * width * height;
    blur<false>(
        width, height, memory, [&](int64_t i) { return contrast[plane + i]; },
        [&](int64_t i, float sum) { weight[plane + i] += sum; });
}

__global__ void __launch_bounds__(TILE *STEP)
    diagonal_kernel(int width, int height, const float *weight, const float *coupling, float *diagonal) {
    __shared__ blur_memory memory;
    const int64_t plane = int64_t(blockIdx.z) * width * height;
    blur<true>(
        width, height, memory, [&](int64_t i) { return coupling[plane + i]; },
        [&](int64_t i, float sum) { diagonal[plane + i] = weight[plane + i] - sum; });
}

// coupled = coupling times the change under each window.
__global__ void __launch_bounds__(TILE *STEP)
    share_kernel(layout at, const float *coupling, const float *change, float *coupled) {
    __shared__ blur_memory memory;
    const int channel = int(blockIdx.z);
    const int64_t plane = channel * at.pixels();
    blur<false>(
        at.width, at.height, memory, [&](int64_t i) { return change[at(channel, i)]; },
        [&](int64_t i, float sum) { coupled[plane + i] = coupling[plane + i] * sum; });
}

__global__ void __launch_bounds__(TILE *STEP)
    apply_kernel(layout at, const float *weight, const float *coupled, float *change) {
    __shared__ blur_memory memory;
    const int channel = int(blockIdx.z);
    const int64_t plane = channel * at.pixels();
    blur<false>(
        at.width, at.height, memory, [&](int64_t i) { return coupled[plane + i]; },
        [&](int64_t i, float sum) {
            float &value = change[at(channel, i)];
            value = fmaf(weight[plane + i], value, -sum);
        });
}

__global__ void __launch_bounds__(TILE *STEP) weigh_kernel(layout at, const float *weight, float *change) {
    const int x = int(blockIdx.x * TILE + threadIdx.x), channel = int(blockIdx.z);
    for (int row = threadIdx.y; row < TILE; row += STEP) {
        const int y = int(blockIdx.y) * TILE + row;
        if (x >= at.width || y >= at.height) continue;
        const int64_t i = int64_t(y) * at.width + x;
        change[at(channel, i)] *= weight[channel * at.pixels() + i];
    }
}

__global__ void __launch_bounds__(TILE *STEP)
    square_kernel(int width, int height, const float *weight, const float *coupling, const float *change,
                  double *sum) {
    __shared__ blur_memory memory;
    __shared__ distwar::block_sum_memory<1, TILE * STEP, double> totals;
    const int64_t plane = int64_t(blockIdx.z) * width * height;
    double part[1] = {}, total[1];
    blur<false>(
        width, height, memory, [&](int64_t i) { return change[plane + i]; },
        [&](int64_t i, float shared) {
            const double own = change[plane + i];
            part[0] += weight[plane + i] * own * own;
            if (coupling) part[0] -= coupling[plane + i] * double(shared) * shared;
        });
    distwar::block_sum(part, totals, total);
    if (threadIdx.y == 0 && threadIdx.x == 0) atomicAdd(sum, total[0]);
}

dim3 grid_of(int32_t width, int32_t height) {
    return dim3(blocks_for(width, TILE), blocks_for(height, TILE), 3);
}

const dim3 block(TILE, STEP);

gs_status check(const char *function, const gs_lm_metric *metric, int32_t width, int32_t height) {
    GS_REQUIRE_OF(function, width >= 1 && width <= GS_MAX_SIZE && height >= 1 && height <= GS_MAX_SIZE,
                  "width and height must be 1..GS_MAX_SIZE");
    GS_REQUIRE_OF(function, metric && metric->weight, "a metric with a weight must be given");
    return GS_OK;
}

} // namespace

gs_status gs_lm_find_metric(const float *color, const uint8_t *target, int32_t width, int32_t height,
                            float epsilon, float *scratch, const gs_lm_metric *metric, gs_stream stream) {
    const gs_status status = check(__func__, metric, width, height);
    if (status != GS_OK) return status;
    GS_REQUIRE(color && target && scratch && metric->coupling,
               "color, target, scratch or the metric's coupling is NULL");
    GS_REQUIRE(epsilon > 0 && epsilon <= 1, "epsilon must be in (0, 1]");
    const dim3 grid = grid_of(width, height);
    GS_CUDA(launch(stream, grid, block, windows_kernel, images{color, target, width, height}, epsilon,
                   metric->weight, scratch, metric->coupling));
    GS_CUDA(launch(stream, grid, block, gather_kernel, width, height, scratch, metric->weight));
    return GS_OK;
}

gs_status gs_lm_metric_diagonal(const gs_lm_metric *metric, int32_t width, int32_t height, float *diagonal,
                                gs_stream stream) {
    const gs_status status = check(__func__, metric, width, height);
    if (status != GS_OK) return status;
    GS_REQUIRE(diagonal && metric->coupling, "diagonal or the metric's coupling is NULL");
    GS_CUDA(launch(stream, grid_of(width, height), block, diagonal_kernel, width, height, metric->weight,
                   metric->coupling, diagonal));
    return GS_OK;
}

gs_status gs_lm_metric_apply(const gs_lm_metric *metric, int32_t width, int32_t height, int interleaved,
                             float *scratch, float *change, gs_stream stream) {
    const gs_status status = check(__func__, metric, width, height);
    if (status != GS_OK) return status;
    GS_REQUIRE(change && (scratch || !metric->coupling), "change or scratch is NULL");
    const layout at = {width, height, interleaved != 0};
    const dim3 grid = grid_of(width, height);
    if (!metric->coupling) {
        GS_CUDA(launch(stream, grid, block, weigh_kernel, at, metric->weight, change));
        return GS_OK;
    }
    GS_CUDA(launch(stream, grid, block, share_kernel, at, metric->coupling, change, scratch));
    GS_CUDA(launch(stream, grid, block, apply_kernel, at, metric->weight, scratch, change));
    return GS_OK;
}

gs_status gs_lm_metric_add_square(const gs_lm_metric *metric, int32_t width, int32_t height,
                                  const float *change, double *sum, gs_stream stream) {
    const gs_status status = check(__func__, metric, width, height);
    if (status != GS_OK) return status;
    GS_REQUIRE(change && sum, "change or sum is NULL");
    GS_CUDA(launch(stream, grid_of(width, height), block, square_kernel, width, height, metric->weight,
                   metric->coupling, change, sum));
    return GS_OK;
}
