// SPDX-License-Identifier: MIT
// The Gauss-Newton metric of the loss in the space of pictures: a weight for each value, minus SSIM's
// coupling of the values under a window (docs/developers/math.md, section 8). And the residuals of 3DGS-LM, each of which
// depends on one pixel's colour alone: a weight and a gradient for each value in place of a row of J for each residual.
#include "ssim.cuh"
#include "kernels.cuh"

using namespace gs;

namespace {

// The layout of a change of the picture: [GS_CHANNELS][height][width].
struct layout {
    int width, height;

    __device__ int64_t pixels() const { return int64_t(width) * height; }
    __device__ int64_t operator()(int channel, int64_t pixel) const { return channel * pixels() + pixel; }
};

GS_DEVICE bool counts(const uint8_t *mask, int64_t pixel) {
    return !mask || mask[pixel] != 0;
}

struct blur_memory {
    float values[HALO][HALO], rows[HALO][TILE];
};

GS_DEVICE float tap(int k, bool squared) {
    return squared ? window[k] * window[k] : window[k];
}

// Calls use(pixel, sum) for the pixels of the block's tile. sum: of read(pixel) under the window, or under
// its square; 0 outside the image. By all threads of a block of (TILE, STEP).
template <bool Squared, typename Read, typename Use>
GS_DEVICE void blur(int width, int height, blur_memory &memory, const Read &read, const Use &use) {
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

// Writes L1's part of the weight, and the contrast weight and coupling of the window about every pixel; 0
// where the mask is 0.
template <bool masked>
__global__ void __launch_bounds__(TILE *STEP)
    windows_kernel(images in, float epsilon, float *weight, float *contrast, float *coupling) {
    for_each_value<masked>(
        in, int(blockIdx.z),
        [&](int64_t i, float c, float t, const similarity &like, const derivatives &,
            const window_share &share) {
            const float inv = share.inv_weight;
            weight[i] = share.counts ? 0.25f * float(L1_WEIGHT) / (fabsf(c - t) + epsilon) : 0;
            contrast[i] = float(SSIM_WEIGHT) * inv * like.contrast_weight;
            coupling[i] = float(SSIM_WEIGHT) * inv * inv * (like.contrast_weight - like.brightness_weight);
        });
}

__global__ void __launch_bounds__(TILE *STEP)
    gather_kernel(int width, int height, const uint8_t *mask, const float *contrast, float *weight) {
    __shared__ blur_memory memory;
    const int64_t plane = int64_t(blockIdx.z) * width * height;
    blur<false>(
        width, height, memory, [&](int64_t i) { return contrast[plane + i]; },
        [&](int64_t i, float sum) { weight[plane + i] += counts(mask, i) ? sum : 0; });
}

__global__ void __launch_bounds__(TILE *STEP) diagonal_kernel(gs_lm_metric metric, float *diagonal) {
    __shared__ blur_memory memory;
    const int64_t plane = int64_t(blockIdx.z) * metric.width * metric.height;
    blur<true>(
        metric.width, metric.height, memory, [&](int64_t i) { return metric.coupling[plane + i]; },
        [&](int64_t i, float sum) {
            diagonal[plane + i] = metric.weight[plane + i] - (counts(metric.mask, i) ? sum : 0);
        });
}

// A warp handles a strip of STRIP columns and STRIP_ROWS rows, four columns per lane. The outer two lanes on
// either side have no columns of their own: they supply the columns that the window needs around the strip.
enum { STRIP_WARPS = 4, STRIP_LEND = 2, STRIP_ROWS = 8, STRIP = 4 * (32 - 2 * STRIP_LEND) };

// Four columns of one channel, starting at x, moved 16 bytes at a time if `aligned`. Reads outside the image
// return the nearest row or column, so that no branch delays a read.
template <bool aligned>
struct four_columns {
    int width, height, x;
    int64_t first;

    GS_DEVICE four_columns(const layout &at, int channel, int x)
        : width(at.width), height(at.height), x(x), first(channel * at.pixels()) {}
    GS_DEVICE void read(const float *values, int y, float out[4]) const {
        const float *row = values + first + int64_t(min(max(y, 0), height - 1)) * width;
        if (aligned) {
            const float4 four = *reinterpret_cast<const float4 *>(row + min(max(x, 0), width - 4));
            out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
        } else {
            for (int e = 0; e < 4; e++) out[e] = row[min(max(x + e, 0), width - 1)];
        }
    }
    GS_DEVICE void write(const float in[4], int y, float *values) const {
        float *row = values + first + (int64_t(y) * width + x);
        if (aligned) {
            *reinterpret_cast<float4 *>(row) = make_float4(in[0], in[1], in[2], in[3]);
        } else {
            for (int e = 0; e < 4; e++)
                if (x + e < width) row[e] = in[e];
        }
    }
};

// A lane's place in its strip.
struct strip_place {
    int x, top;

    GS_DEVICE strip_place()
        : x(int(blockIdx.x) * STRIP + 4 * (int(threadIdx.x) - STRIP_LEND)),
          top(int(blockIdx.y * STRIP_WARPS + threadIdx.y) * STRIP_ROWS) {}
    GS_DEVICE bool has(const layout &at, int row) const {
        const int lane = int(threadIdx.x);
        return lane >= STRIP_LEND && lane < 32 - STRIP_LEND && x < at.width && top + row < at.height;
    }
};

// Calls use(row, sum) for every row of the warp's strip. sum: of a lane's four columns under the window, 0
// outside the image. Sums along columns stay in registers; shuffles exchange them between neighbouring lanes.
// There is no shared memory and no barrier. By all lanes of a warp.
template <bool aligned, typename Use>
GS_DEVICE void blur_strip(const four_columns<aligned> &from, int top, const float *values, const Use &use) {
    float column[STRIP_ROWS][4];
    slide_window(
        [&](int k, float value[4]) {
            const int y = top + k - RADIUS;
            from.read(values, y, value);
            for (int e = 0; e < 4; e++) value[e] = y >= 0 && y < from.height ? value[e] : 0;
        },
        column);
    DISTWAR_UNROLL
    for (int row = 0; row < STRIP_ROWS; row++) {
        float near[TAPS + 3]; // columns x - RADIUS .. x + 3 + RADIUS
        for (int e = 0; e < 4; e++)
            if (from.x + e < 0 || from.x + e >= from.width) column[row][e] = 0;
        near[0] = __shfl_up_sync(distwar::all_lanes, column[row][3], 2);
        near[TAPS + 2] = __shfl_down_sync(distwar::all_lanes, column[row][0], 2);
        DISTWAR_UNROLL
        for (int e = 0; e < 4; e++) {
            near[1 + e] = __shfl_up_sync(distwar::all_lanes, column[row][e], 1);
            near[5 + e] = column[row][e];
            near[9 + e] = __shfl_down_sync(distwar::all_lanes, column[row][e], 1);
        }
        float sum[4] = {};
        DISTWAR_UNROLL
        for (int e = 0; e < 4; e++)
            for (int k = 0; k < TAPS; k++) sum[e] = fmaf(window[k], near[e + k], sum[e]);
        use(row, sum);
    }
}

// coupled = coupling times (the change summed under the window).
template <bool aligned>
__global__ void __launch_bounds__(32 * STRIP_WARPS)
    share_strips(layout at, const float *coupling, const float *change, float *coupled) {
    const int channel = int(blockIdx.z);
    const strip_place place;
    const four_columns<aligned> columns(at, channel, place.x);
    float factor[STRIP_ROWS][4]; // read early, so that the latencies overlap
    DISTWAR_UNROLL
    for (int row = 0; row < STRIP_ROWS; row++) columns.read(coupling, place.top + row, factor[row]);
    blur_strip(columns, place.top, change, [&](int row, float sum[4]) {
        for (int e = 0; e < 4; e++) sum[e] *= factor[row][e];
        if (place.has(at, row)) columns.write(sum, place.top + row, coupled);
    });
}

// change = weight times change minus `coupled` summed under the window.
template <bool aligned>
__global__ void __launch_bounds__(32 * STRIP_WARPS)
    apply_strips(layout at, const float *weight, const float *coupled, float *change) {
    const int channel = int(blockIdx.z);
    const strip_place place;
    const four_columns<aligned> columns(at, channel, place.x);
    float own[STRIP_ROWS][4];
    DISTWAR_UNROLL
    for (int row = 0; row < STRIP_ROWS; row++) {
        float factor[4];
        columns.read(weight, place.top + row, factor);
        columns.read(change, place.top + row, own[row]);
        for (int e = 0; e < 4; e++) own[row][e] *= factor[e];
    }
    blur_strip(columns, place.top, coupled, [&](int row, const float sum[4]) {
        float out[4];
        for (int e = 0; e < 4; e++) out[e] = own[row][e] - sum[e];
        if (place.has(at, row)) columns.write(out, place.top + row, change);
    });
}

// change = 0 where the mask is 0.
__global__ void __launch_bounds__(TILE *STEP) mask_kernel(layout at, const uint8_t *mask, float *change) {
    const int x = int(blockIdx.x * TILE + threadIdx.x), channel = int(blockIdx.z);
    for (int row = threadIdx.y; row < TILE; row += STEP) {
        const int y = int(blockIdx.y) * TILE + row;
        if (x >= at.width || y >= at.height) continue;
        const int64_t i = int64_t(y) * at.width + x;
        if (mask[i] == 0) change[at(channel, i)] = 0;
    }
}

// Sums over the residuals of one value of a picture: r^2, slope^2, r slope.
struct value_sums {
    float square, weight, gradient;
};

// The residuals are r = sqrt(A u) for u = |c - t| + epsilon and for u = 1 - SSIM + epsilon. The slope is A u' / (2 r),
// its square A u'^2 / (4 u), and r slope = A u' / 2. At c = t the first residual has slopes +-s on the two sides: the
// gradient counts 0, the weight counts s^2, which holds the pixel at its colour.
__device__ value_sums l1_ssim_sums(float c, float t, float ssim, const derivatives &d, float epsilon) {
    constexpr float of_l1 = float(L1_WEIGHT), of_ssim = float(SSIM_WEIGHT);
    const float centre = window[RADIUS] * window[RADIUS];
    const float d_centre = -centre * (d.m + 2 * (c - t) * d.p + t * d.s); // derivative of 1 - SSIM
    const float difference = fabsf(c - t) + epsilon, dissimilarity = fmaxf(1 - ssim, 0.0f) + epsilon;
    const float sign = float(c > t) - float(c < t);
    return {of_l1 * difference + of_ssim * dissimilarity,
            0.25f * (of_l1 / difference + of_ssim * d_centre * d_centre / dissimilarity),
            0.5f * (of_l1 * sign + of_ssim * d_centre)};
}

// weight and gradient: NULL, or written.
template <bool masked>
__global__ void __launch_bounds__(TILE *STEP)
    weights_kernel(images in, gs_lm_objective objective, float epsilon, double *result, float *weight,
                   float *gradient) {
    double part = 0;
    const auto use = [&](int64_t i, float c, float t, const similarity &like, const derivatives &d,
                         const window_share &share) {
        value_sums sums = {};
        if (share.counts)
            sums = objective == GS_LM_L2 ? value_sums{(c - t) * (c - t), 1, c - t}
                                         : l1_ssim_sums(c, t, like.ssim, d, epsilon);
        part += sums.square;
        if (weight) weight[i] = sums.weight;
        if (gradient) gradient[i] = sums.gradient;
    };
    for_each_value<masked>(in, int(blockIdx.z), use);
    add_of_block<TILE * STEP>(part, result);
}

const dim3 block(TILE, STEP);

} // namespace

gs_status gs_lm_weights(const gs_comparison *compared, gs_lm_objective objective, float epsilon,
                        double *result, float *weight, float *gradient) {
    GS_CUDA(cudaMemsetAsync(result, 0, sizeof *result, nullptr));
    return GS_STATUS(launch(nullptr, grid_of(compared->width, compared->height), block,
                            compared->mask ? weights_kernel<true> : weights_kernel<false>,
                            images_of(*compared), objective, epsilon, result, weight, gradient));
}

gs_status gs_lm_gauss_newton_metric(const gs_comparison *compared, float epsilon,
                                    const gs_lm_metric *metric) {
    const int32_t width = metric->width, height = metric->height;
    float *scratch;
    GS_TRY(libgs_memory(__func__, nullptr, CONTEXT_SCRATCH,
                        size_t(GS_CHANNELS) * width * height * sizeof *scratch, &scratch));
    const dim3 grid = grid_of(width, height);
    GS_CUDA(launch(nullptr, grid, block, compared->mask ? windows_kernel<true> : windows_kernel<false>,
                   images_of(*compared), epsilon, metric->weight, scratch, metric->coupling));
    return GS_STATUS(
        launch(nullptr, grid, block, gather_kernel, width, height, metric->mask, scratch, metric->weight));
}

gs_status gs_lm_metric_diagonal(const gs_lm_metric *metric, float *diagonal) {
    return GS_STATUS(
        launch(nullptr, grid_of(metric->width, metric->height), block, diagonal_kernel, *metric, diagonal));
}

gs_status gs_lm_metric_apply(const gs_lm_metric *metric, float *scratch, float *change) {
    const layout at = {metric->width, metric->height};
    const dim3 grid(blocks_for(at.width, STRIP), blocks_for(at.height, STRIP_WARPS * STRIP_ROWS),
                    GS_CHANNELS);
    const dim3 strips(32, STRIP_WARPS), pixels = grid_of(at.width, at.height);
    const bool aligned = at.width % 4 == 0;
    const uint8_t *const mask = metric->mask;
    if (mask) GS_CUDA(launch(nullptr, pixels, block, mask_kernel, at, mask, change));
    GS_CUDA(launch(nullptr, grid, strips, aligned ? share_strips<true> : share_strips<false>, at,
                   metric->coupling, change, scratch));
    GS_CUDA(launch(nullptr, grid, strips, aligned ? apply_strips<true> : apply_strips<false>, at,
                   metric->weight, scratch, change));
    if (mask) GS_CUDA(launch(nullptr, pixels, block, mask_kernel, at, mask, change));
    return GS_OK;
}
