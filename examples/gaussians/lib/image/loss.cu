// SPDX-License-Identifier: MIT
// 0.8 L1 + 0.2 (1 - SSIM) and its gradient (docs/developers/math.md, section 5).
#include "distwar_gs_ssim.h"
#include "loss.cuh"
#include "rows.h"

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

// Small images go through a stage together: of large ones each fills the GPU, and their maps leave its cache.
static int32_t images_of_launch(int32_t width, int32_t height, int32_t count) {
    const int64_t most = (1 << 21) / (int64_t(width) * height);
    return most < 1 ? 1 : most < count ? int32_t(most) : count;
}

gs_status gs_losses_bytes(int32_t width, int32_t height, int32_t count, size_t *bytes) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(count >= 1 && count <= GS_MAX_VIEWS, "count must be in 1..32");
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = loss_bytes(width, height, GS_CHANNELS, images_of_launch(width, height, count));
    return GS_OK;
}

gs_status gs_loss_bytes(int32_t width, int32_t height, size_t *bytes) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = loss_bytes(width, height, GS_CHANNELS);
    return GS_OK;
}

static gs_status check_loss(const char *function, const gs_comparison *compared, const double *result) {
    GS_TRY(check_comparison(function, compared));
    return libgs_require(function, result, "result must be given");
}

static loss_run whole_loss(int64_t plane) {
    return {
        {L1_WEIGHT, -SSIM_WEIGHT, SSIM_WEIGHT, false}, {0, plane}, {GS_CHANNELS * double(plane), 1, nullptr}};
}

static gs_status queue_loss(const loss_images<uint8_t> &all, const loss_run &run, void *workspace,
                            gs_stream stream) {
    const auto queue = all.at[0].mask ? launch_loss<true, uint8_t> : launch_loss<false, uint8_t>;
    return queue(all, run, workspace, stream);
}

static loss_images<uint8_t> no_images(const gs_comparison &compared) {
    return {compared.width, compared.height, GS_CHANNELS, 0, int64_t(compared.width) * compared.height, {}};
}

static loss_image<uint8_t> image_of(const gs_loss_image &one) {
    return {one.images.color, one.images.target, one.images.mask, one.result, one.color_gradient};
}

// Whether one launch can be for both.
static bool are_alike(const gs_loss_image &a, const gs_loss_image &b) {
    return !a.images.mask == !b.images.mask && !a.color_gradient == !b.color_gradient;
}

// gs_losses, for `function`.
static gs_status queue_losses(const char *function, const gs_loss_image *of, int32_t count, void *workspace,
                              size_t workspace_bytes, gs_stream stream) {
    const int32_t width = of->images.width, height = of->images.height;
    for (int32_t i = 0; i < count; i++) {
        GS_TRY(check_loss(function, &of[i].images, of[i].result));
        GS_REQUIRE_OF(function, of[i].images.width == width && of[i].images.height == height,
                      "all images must have the same size");
    }
    const int32_t most = images_of_launch(width, height, count);
    GS_TRY(
        check_workspace(function, workspace, workspace_bytes, loss_bytes(width, height, GS_CHANNELS, most)));
    loss_images<uint8_t> all = no_images(of->images);
    const loss_run run = whole_loss(all.plane);
    for (int32_t i = 0; i < count; i++) {
        all.at[all.count++] = image_of(of[i]);
        if (i + 1 < count && all.count < most && are_alike(of[i], of[i + 1])) continue;
        GS_TRY(queue_loss(all, run, workspace, stream));
        all.count = 0;
    }
    return GS_OK;
}

gs_status gs_losses(const gs_loss_image *of, int32_t count, void *workspace, size_t workspace_bytes,
                    gs_stream stream) {
    GS_REQUIRE(of && count >= 1 && count <= GS_MAX_VIEWS, "1 to 32 images must be given");
    return queue_losses(__func__, of, count, workspace, workspace_bytes, stream);
}

gs_status gs_loss(const gs_comparison *compared, void *workspace, size_t workspace_bytes, double *result,
                  float *color_gradient, gs_stream stream) {
    GS_REQUIRE(compared, "images must be given");
    const gs_loss_image one = {*compared, result, color_gradient};
    return queue_losses(__func__, &one, 1, workspace, workspace_bytes, stream);
}

// The rows that are needed are an image of their own. It begins with a block of TILE rows of the whole, so that every
// pixel has its place in a block, on which rounding depends. What differs from the whole image is within RADIUS rows
// of its other rows' ends, and no gradient that counts reads that.
gs_status libgs_loss_rows(const gs_comparison *compared, gs_rows rows, void *workspace,
                          size_t workspace_bytes, double *result, float *color_gradient, gs_stream stream) {
    GS_TRY(check_loss(__func__, compared, result));
    const int32_t width = compared->width, height = compared->height;
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, loss_bytes(width, height, GS_CHANNELS)));
    const int first = rows.begin * GS_TILE_SIZE,
              last = rows.end * GS_TILE_SIZE < height ? rows.end * GS_TILE_SIZE : height;
    GS_REQUIRE(rows.begin >= 0 && rows.begin < rows.end &&
                   rows.end <= (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE,
               "rows must be a range of the rows of tiles");
    static_assert(LOSS_HALO == 2 * RADIUS, "the windows of the windows");
    const int begin = first < LOSS_HALO ? 0 : (first - RADIUS) / TILE * TILE;
    const int end = last + LOSS_HALO < height ? last + LOSS_HALO : height;
    const int64_t before = int64_t(begin) * width;
    loss_images<uint8_t> all = no_images(*compared);
    loss_run run = whole_loss(all.plane);
    loss_image<uint8_t> &in = all.at[all.count++] = image_of({*compared, result, color_gradient});
    all.height = end - begin;
    in.color += before, in.target += GS_CHANNELS * before;
    if (in.mask) in.mask += before;
    if (in.gradient) in.gradient += before;
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
    return queue_loss(all, run, workspace, stream);
}
