// SPDX-License-Identifier: MIT
// 0.8 L1 + 0.2 (1 - SSIM) and its gradient (docs/developers/math.md, section 5).
#include "distwar_gs_share.h"
#include "loss.cuh"

using namespace gs;

enum { MASK_THREADS = 256, MASK_BLOCKS = 256 };

static __global__ void __launch_bounds__(MASK_THREADS)
    count_mask(const uint8_t *mask, int64_t pixels, unsigned long long *count) {
    const int64_t step = int64_t(gridDim.x) * MASK_THREADS;
    int64_t own = 0; // sums of integers: in any order
    for (int64_t i = int64_t(blockIdx.x) * MASK_THREADS + threadIdx.x; i < pixels; i += step)
        own += mask[i] != 0;
    atomicAdd(count, static_cast<unsigned long long>(own));
}

gs_status gs_loss_bytes(int32_t width, int32_t height, size_t *bytes) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = loss_bytes(width, height, GS_CHANNELS);
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

static loss_run whole_loss(const images &in) {
    return {{L1_WEIGHT, -SSIM_WEIGHT, SSIM_WEIGHT, false},
            GS_CHANNELS,
            {0, in.plane},
            {GS_CHANNELS * double(in.plane), 1, nullptr}};
}

gs_status gs_loss(const gs_comparison *compared, void *workspace, size_t workspace_bytes, double *result,
                  float *color_gradient, gs_stream stream) {
    GS_TRY(check_loss(__func__, compared, workspace, workspace_bytes, result));
    const images in = images_of(*compared);
    const auto queue = compared->mask ? launch_loss<true, uint8_t> : launch_loss<false, uint8_t>;
    return queue(in, whole_loss(in), workspace, result, color_gradient, stream);
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
    images in = images_of(*compared);
    loss_run run = whole_loss(in);
    in.height = end - begin;
    in.color += before, in.target += GS_CHANNELS * before;
    if (in.mask) in.mask += before;
    if (color_gradient) color_gradient += before;
    run.summed = {int64_t(first - begin) * width, int64_t(last - begin) * width};
    const bool whole = first == 0 && last == height;
    run.of.share = whole ? 1 : double(last - first) / height;
    if (compared->mask && !whole) {
        unsigned long long *const count =
            reinterpret_cast<unsigned long long *>(&static_cast<loss_sums *>(workspace)->of[1]);
        GS_CUDA(cudaMemsetAsync(count, 0, sizeof *count, stream));
        GS_CUDA(launch(stream, MASK_BLOCKS, MASK_THREADS, count_mask, compared->mask, int64_t(width) * height,
                       count));
        run.of.count = count;
    }
    const auto queue = compared->mask ? launch_loss<true, uint8_t> : launch_loss<false, uint8_t>;
    return queue(in, run, workspace, result, color_gradient, stream);
}
