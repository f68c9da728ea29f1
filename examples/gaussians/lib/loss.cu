// SPDX-License-Identifier: MIT
// 0.8 L1 + 0.2 (1 - SSIM) and its gradient (docs/math.md, section 5). Two kernels, one block a tile and
// channel: the first computes the value and, at each pixel, the derivatives of SSIM by the window's three
// sums; the second gathers these under the window. The order of the value's sums is fixed.
#include "check.h"
#include "gs_share.h"
#include "ssim.cuh"

#include <distwar/block.cuh>
#include <distwar/tree.cuh>

using namespace gs;

namespace {

enum { THREADS = TILE * STEP, VALUE_THREADS = 1024, MASK_THREADS = 256, MASK_BLOCKS = 256 };

// Places of a plane: first .. last - 1. Those whose differences are summed.
struct place_range {
    int64_t first, last;
};

// Sums of |c - c*|, of SSIM and, under a mask, of what counts.
struct loss_sums {
    double of[3];
};

template <bool masked>
constexpr int sums_of = masked ? 3 : 2;

// Writes this block's part of the sums and, unless maps is NULL, maps[3][GS_CHANNELS][height][width]: m, p,
// s.
template <bool masked>
__global__ void __launch_bounds__(THREADS)
    loss_forward(images in, place_range summed, float *maps, loss_sums *of_block) {
    constexpr int sums = sums_of<masked>;
    __shared__ double warp_sums[THREADS / 32][sums];
    const int64_t values = GS_CHANNELS * in.plane, first = summed.first + blockIdx.z * in.plane,
                  last = summed.last + blockIdx.z * in.plane;
    float own[3] = {}; // of at most RUN_Y values
    for_each_value<masked>(in, [&](int64_t i, float c, float t, const similarity &like, const derivatives &d,
                                   const window_share &share) {
        if (i >= first && i < last) {
            own[0] += fabsf(c - t);
            own[1] += like.ssim;
            if (masked && share.counts) own[2] += 1;
        }
        if (maps) maps[i] = d.m, maps[values + i] = d.p, maps[2 * values + i] = d.s;
    });
    // A row of threads is a warp.
    double sum[sums], lane_sum[distwar::tree_places(sums)];
    for (int j = 0; j < sums; j++) sum[j] = own[j];
    distwar::tree_total(true, sum, lane_sum);
    const int k = threadIdx.x;
    if (k < sums) warp_sums[threadIdx.y][k] = lane_sum[0];
    __syncthreads();
    if (threadIdx.y > 0 || k >= sums) return;
    double total = 0;
    for (int warp = 0; warp < THREADS / 32; warp++) total += warp_sums[warp][k];
    of_block[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x].of[k] = total;
}

// Of the whole image.
struct loss_values {
    double all, share;               // values, and which part of them is summed
    const unsigned long long *count; // pixels that the mask counts; NULL: those that are summed
};

// Writes gs_loss's results from the sums of all blocks. If masked, the values that count replace all, and *counted
// becomes their number. One block.
template <bool masked>
__global__ void __launch_bounds__(VALUE_THREADS)
    loss_value(const loss_sums *of_block, int blocks, loss_values of, double *result, double *counted) {
    constexpr int sums = sums_of<masked>;
    __shared__ distwar::block_sum_memory<sums, VALUE_THREADS, double> memory;
    double mine[sums] = {}, total[sums];
    for (int i = threadIdx.x; i < blocks; i += VALUE_THREADS)
        for (int k = 0; k < sums; k++) mine[k] += of_block[i].of[k];
    distwar::block_sum(mine, memory, total);
    if (threadIdx.x > 0) return;
    double values = of.all, share = of.share;
    if (masked) {
        values = *counted = of.count ? double(GS_CHANNELS) * double(*of.count) : total[sums - 1];
        if (values > 0) share = total[sums - 1] / values;
    }
    result[1] = total[0] / values;
    result[2] = total[1] / values;
    if (masked && values == 0) result[1] = 0, result[2] = share;
    result[0] = L1_WEIGHT * result[1] + SSIM_WEIGHT * (share - result[2]);
}

__global__ void __launch_bounds__(MASK_THREADS)
    count_mask(const uint8_t *mask, int64_t pixels, unsigned long long *count) {
    const int64_t step = int64_t(gridDim.x) * MASK_THREADS;
    int64_t own = 0; // sums of integers: in any order
    for (int64_t i = int64_t(blockIdx.x) * MASK_THREADS + threadIdx.x; i < pixels; i += step)
        own += mask[i] != 0;
    atomicAdd(count, static_cast<unsigned long long>(own));
}

// gradient = dL/dc, from the maps of loss_forward. counted: of loss_value, read if masked.
template <bool masked>
__global__ void __launch_bounds__(THREADS)
    loss_backward(images in, const float *maps, double values, const double *counted, float *gradient) {
    __shared__ float map[3][HALO][HALO + 1], rows[3][HALO][TILE + 1];

    const int channel = blockIdx.z;
    const int64_t plane = in.plane;
    const float *const channel_maps = maps + channel * plane;
    for_each_of_halo([&](int row, int column, int x, int y) {
        const bool has = inside(in, x, y);
        for (int k = 0; k < 3; k++)
            map[k][row][column] = has ? channel_maps[GS_CHANNELS * k * plane + y * in.width + x] : 0;
    });
    __syncthreads();
    for_each_run([&](int row, int column) {
        float sum[RUN_X][3];
        slide_window(
            [&](int k, float value[3]) {
                for (int m = 0; m < 3; m++) value[m] = map[m][row][column + k];
            },
            sum);
        for (int j = 0; j < RUN_X; j++)
            for (int m = 0; m < 3; m++) rows[m][row][column + j] = sum[j][m];
    });
    __syncthreads();

    const double n = masked ? *counted : values;
    const float l1_scale = float(L1_WEIGHT / n), ssim_scale = float(SSIM_WEIGHT / n);
    const int column = threadIdx.x, row = threadIdx.y * RUN_Y;
    float d[RUN_Y][3]; // m, p and s under the window
    slide_window(
        [&](int k, float value[3]) {
            for (int m = 0; m < 3; m++) value[m] = rows[m][row + k][column];
        },
        d);
    for (int j = 0; j < RUN_Y; j++) {
        const int x = blockIdx.x * TILE + column, y = blockIdx.y * TILE + row + j;
        if (!inside(in, x, y)) continue;
        const int64_t i = channel * plane + y * in.width + x;
        if (masked && in.mask[y * in.width + x] == 0) {
            gradient[i] = 0;
            continue;
        }
        const float c = in.color[i], t = target_at(in, y * in.width + x, channel);
        const float sign = float(c > t) - float(c < t);
        gradient[i] = l1_scale * sign - ssim_scale * (d[j][0] + 2 * (c - t) * d[j][1] + t * d[j][2]);
    }
}

} // namespace

static int blocks_in(const dim3 &grid) {
    return int(grid.x * grid.y * grid.z);
}

gs_status gs_loss_bytes(int32_t width, int32_t height, size_t *bytes) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = (size_t(blocks_in(grid_of(width, height))) + 1) * sizeof(loss_sums) +
             size_t(3 * GS_CHANNELS) * width * height * sizeof(float);
    return GS_OK;
}

// What gs_loss and gs_share_loss compute: `in` has the rows that they read, on which `summed` counts.
struct loss_work {
    images in;
    place_range summed;
    loss_values of;
    double *result;
    float *color_gradient; // of the rows
};

template <bool masked>
static gs_status launch_loss(const loss_work &work, loss_sums *sums, gs_stream stream) {
    const images &in = work.in;
    const dim3 grid = grid_of(in.width, in.height), block(TILE, STEP);
    loss_sums *const of_block = sums + 1; // the first has what counts
    double *const counted = sums->of;
    float *const maps = work.color_gradient ? reinterpret_cast<float *>(of_block + blocks_in(grid)) : nullptr;
    GS_CUDA(launch(stream, grid, block, loss_forward<masked>, in, work.summed, maps, of_block));
    GS_CUDA(launch(stream, 1, VALUE_THREADS, loss_value<masked>, of_block, blocks_in(grid), work.of,
                   work.result, counted));
    if (work.color_gradient)
        GS_CUDA(launch(stream, grid, block, loss_backward<masked>, in, maps, work.of.all, counted,
                       work.color_gradient));
    return GS_OK;
}

static gs_status check_loss(const char *function, const gs_comparison *compared, const void *workspace,
                            size_t workspace_bytes, const double *result) {
    GS_TRY(check_comparison(function, compared));
    GS_REQUIRE_OF(function, result, "result must be given");
    size_t needed = 0;
    GS_TRY(gs_loss_bytes(compared->width, compared->height, &needed));
    return check_workspace(function, workspace, workspace_bytes, needed);
}

static loss_work whole_loss(const gs_comparison &compared, double *result, float *color_gradient) {
    const images in = images_of(compared);
    return {in, {0, in.plane}, {GS_CHANNELS * double(in.plane), 1, nullptr}, result, color_gradient};
}

gs_status gs_loss(const gs_comparison *compared, void *workspace, size_t workspace_bytes, double *result,
                  float *color_gradient, gs_stream stream) {
    GS_TRY(check_loss(__func__, compared, workspace, workspace_bytes, result));
    const auto run = compared->mask ? launch_loss<true> : launch_loss<false>;
    return run(whole_loss(*compared, result, color_gradient), static_cast<loss_sums *>(workspace), stream);
}

// The rows that are needed are an image of their own. It begins with a block of TILE rows of the whole, so that every
// pixel has its place in a block, on which rounding depends. What differs from the whole image is within RADIUS rows
// of its other rows' ends, and no gradient that counts reads that.
gs_status gs_share_loss(const gs_comparison *compared, gs_rows rows, void *workspace, size_t workspace_bytes,
                        double *result, float *color_gradient, gs_stream stream) {
    GS_TRY(check_loss(__func__, compared, workspace, workspace_bytes, result));
    const int32_t width = compared->width, height = compared->height;
    const int first = rows.begin * GS_TILE_SIZE,
              last = rows.end * GS_TILE_SIZE < height ? rows.end * GS_TILE_SIZE : height;
    GS_REQUIRE(rows.begin >= 0 && rows.begin < rows.end &&
                   rows.end <= (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE,
               "rows must be a range of the rows of tiles");
    static_assert(GS_LOSS_HALO == 2 * RADIUS, "the windows of the windows");
    const int begin = first < GS_LOSS_HALO ? 0 : (first - RADIUS) / TILE * TILE;
    const int end = last + GS_LOSS_HALO < height ? last + GS_LOSS_HALO : height;
    const int64_t before = int64_t(begin) * width;
    loss_work work = whole_loss(*compared, result, color_gradient);
    work.in.height = end - begin;
    work.in.color += before, work.in.target += GS_CHANNELS * before;
    if (work.in.mask) work.in.mask += before;
    if (color_gradient) work.color_gradient += before;
    work.summed = {int64_t(first - begin) * width, int64_t(last - begin) * width};
    work.of.share = double(last - first) / height;
    loss_sums *const sums = static_cast<loss_sums *>(workspace);
    if (first == 0 && last == height) work.of.share = 1;
    if (compared->mask && last - first < height) {
        unsigned long long *const count = reinterpret_cast<unsigned long long *>(&sums->of[1]);
        GS_CUDA(cudaMemsetAsync(count, 0, sizeof *count, stream));
        GS_CUDA(launch(stream, MASK_BLOCKS, MASK_THREADS, count_mask, compared->mask, int64_t(width) * height,
                       count));
        work.of.count = count;
    }
    const auto run = compared->mask ? launch_loss<true> : launch_loss<false>;
    return run(work, sums, stream);
}
