// SPDX-License-Identifier: MIT
// Colour correction for one photograph, and its adjoint (docs/developers/math.md, section 5). The order of sums is
// fixed.
#include "channels.cuh"
#include "check.h"
#include "launch.cuh"
#include "rows.h"

#include <distwar/block.cuh>
#include <float.h>

using namespace gs;

namespace {

enum { THREADS = 256, ROW_THREADS = 1024, GAINS = GS_EXPOSURE_VALUES, SUMS = GS_EXPOSURE_SUMS };

struct gains {
    float of[GAINS];
};

__device__ gains load(const float *log_gain) {
    gains out;
    for_channels([&](int k) { out.of[k] = expf(log_gain[k]); });
    return out;
}

__global__ void __launch_bounds__(THREADS)
    exposure_kernel(const float *log_gain, const float *color, int64_t plane, float *corrected) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= plane) return;
    const gains gain = load(log_gain);
    for_channels([&](int k) { corrected[k * plane + i] = gain.of[k] * color[k * plane + i]; });
}

// One block per row of tiles, from `first` on, and channel.
__global__ void __launch_bounds__(ROW_THREADS)
    exposure_rows_kernel(gs_exposed image, int first, float *__restrict__ gradient,
                         double (*row_sums)[SUMS]) {
    __shared__ distwar::block_sum_memory<2, ROW_THREADS> memory;
    const float *const __restrict__ color = image.color; // else a thread waits for each load by itself
    const int k = int(blockIdx.x) % GAINS;
    const float gain = expf(image.log_gain[k]);
    const int64_t plane = int64_t(image.width) * image.height, row = first + int64_t(blockIdx.x) / GAINS,
                  in_row = int64_t(GS_TILE_SIZE) * image.width, begin = row * in_row;
    const int64_t end = begin + in_row < plane ? begin + in_row : plane;
    float mine[2] = {}, total[2]; // by the gain, its absolute values
    for (int64_t i = k * plane + begin + threadIdx.x; i < k * plane + end; i += ROW_THREADS) {
        const float by_color = gain * gradient[i], by_gain = by_color * color[i];
        mine[0] += by_gain;
        mine[1] += fabsf(by_gain);
        gradient[i] = by_color;
    }
    distwar::block_sum(mine, memory, total);
    if (threadIdx.x == 0) row_sums[row][k] = double(total[0]), row_sums[row][GAINS + k] = double(total[1]);
}

__global__ void __launch_bounds__(32)
    exposure_rows_sum_kernel(const double (*row_sums)[SUMS], int rows, float *sums) {
    if (threadIdx.x >= SUMS) return;
    double sum = 0;
    for (int r = 0; r < rows; r++) sum += row_sums[r][threadIdx.x];
    sums[threadIdx.x] = float(sum);
}

// One block. Its threads keep to their views, so that a step of one needs no barrier before the sum.
__global__ void __launch_bounds__(THREADS)
    exposure_step_kernel(float (*log_gains)[GAINS], gs_exposure_group group, const float *sums, float rate,
                         float prior) {
    __shared__ distwar::block_sum_memory<GAINS, THREADS> memory;
    __shared__ float mean[GAINS];
    float mine[GAINS] = {}, total[GAINS];
    for (int64_t i = threadIdx.x; i < group.count; i += THREADS)
        for_channels([&](int k) {
            float &gain = log_gains[group.views[i]][k];
            if (i == group.view) gain -= rate * fmaf(prior, gain, sums[k] / fmaxf(sums[GAINS + k], FLT_MIN));
            mine[k] += gain;
        });
    if (group.count == 1) return; // all threads: a mean of its own would undo the step
    distwar::block_sum(mine, memory, total);
    if (threadIdx.x == 0) for_channels([&](int k) { mean[k] = total[k] / float(group.count); });
    __syncthreads();
    for (int64_t i = threadIdx.x; i < group.count; i += THREADS)
        for_channels([&](int k) { log_gains[group.views[i]][k] -= mean[k]; });
}

gs_status check(const char *function, const gs_exposed *image) {
    GS_REQUIRE_OF(function, image, "image must be given");
    GS_TRY(check_size(function, image->width, image->height));
    return libgs_require(function, image->log_gain && image->color, "log_gain and color must be given");
}

int64_t pixels_of(const gs_exposed *image) {
    return int64_t(image->width) * image->height;
}

int rows_of(int32_t height) {
    return (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
}

} // namespace

gs_status gs_exposure(const gs_exposed *image, float *corrected, gs_stream stream) {
    GS_TRY(check(__func__, image));
    GS_REQUIRE(corrected, "corrected must be given");
    return GS_STATUS(launch_for(stream, pixels_of(image), THREADS, exposure_kernel, image->log_gain,
                                image->color, pixels_of(image), corrected));
}

gs_status gs_exposure_bytes(int32_t width, int32_t height, size_t *bytes) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = size_t(rows_of(height)) * SUMS * sizeof(double);
    return GS_OK;
}

gs_status gs_exposure_backward(const gs_exposed *image, void *workspace, size_t workspace_bytes,
                               float *gradient, float *sums, gs_stream stream) {
    GS_TRY(check(__func__, image));
    GS_REQUIRE(gradient && sums, "gradient and sums must be given");
    size_t needed = 0;
    GS_TRY(gs_exposure_bytes(image->width, image->height, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));
    const gs_rows all = {0, rows_of(image->height)};
    double *const row_sums = static_cast<double *>(workspace);
    GS_TRY(libgs_exposure_rows(image, all, gradient, row_sums, stream));
    return libgs_exposure_sum(row_sums, all.end, sums, stream);
}

gs_status libgs_exposure_rows(const gs_exposed *image, gs_rows rows, float *gradient, double *row_sums,
                              gs_stream stream) {
    GS_TRY(check(__func__, image));
    GS_REQUIRE(gradient && row_sums, "gradient and row_sums must be given");
    GS_REQUIRE(rows.begin >= 0 && rows.begin < rows.end && rows.end <= rows_of(image->height),
               "rows must be a range of the rows of tiles");
    return GS_STATUS(launch(stream, unsigned(GAINS * (rows.end - rows.begin)), ROW_THREADS,
                            exposure_rows_kernel, *image, int(rows.begin), gradient,
                            reinterpret_cast<double(*)[SUMS]>(row_sums)));
}

gs_status libgs_exposure_sum(const double *row_sums, int32_t rows, float *sums, gs_stream stream) {
    GS_REQUIRE(row_sums && rows > 0 && sums, "row_sums, their number and sums must be given");
    return GS_STATUS(launch(stream, 1, 32, exposure_rows_sum_kernel,
                            reinterpret_cast<const double(*)[SUMS]>(row_sums), int(rows), sums));
}

gs_status gs_exposure_step(float *log_gains, const gs_exposure_group *group, const float *sums, float rate,
                           float prior, gs_stream stream) {
    GS_REQUIRE(log_gains && group && group->views && sums,
               "log_gains, group, its views and sums must be given");
    GS_REQUIRE(group->count >= 1 && group->view >= 0 && group->view < group->count,
               "view must be one of the group's views");
    GS_REQUIRE(rate >= 0 && rate <= FLT_MAX && prior >= 0 && prior <= FLT_MAX,
               "rate and prior must be finite and not negative");
    return GS_STATUS(launch(stream, 1, THREADS, exposure_step_kernel,
                            reinterpret_cast<float(*)[GAINS]>(log_gains), *group, sums, rate, prior));
}
