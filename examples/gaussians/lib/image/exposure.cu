// SPDX-License-Identifier: MIT
// Colour correction for one photograph, and its adjoint (docs/developers/math.md, section 5). The order of sums is
// fixed.
#include "channels.cuh"
#include "check.h"
#include "distwar_gs_share.h"

#include <gpu/adam.cuh>
#include <distwar/block.cuh>
#include <float.h>

using namespace gs;

namespace {

enum { THREADS = 256, MATRIX = GS_EXPOSURE_VALUES };

// A c + b: column GS_CHANNELS is b.
struct color_matrix {
    float row[GS_CHANNELS][GS_CHANNELS + 1];
};
static_assert(sizeof(color_matrix) == GS_EXPOSURE_VALUES * sizeof(float), "row-major, as in memory");

__device__ color_matrix load(const float *matrix) {
    color_matrix m;
    for (int r = 0; r < GS_CHANNELS; r++)
        for (int c = 0; c <= GS_CHANNELS; c++) m.row[r][c] = matrix[(GS_CHANNELS + 1) * r + c];
    return m;
}

__global__ void __launch_bounds__(THREADS)
    exposure_kernel(const float *matrix, const float *color, int64_t plane, float *corrected) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= plane) return;
    const color_matrix m = load(matrix);
    float c[GS_CHANNELS];
    for (int k = 0; k < GS_CHANNELS; k++) c[k] = color[k * plane + i];
    for (int r = 0; r < GS_CHANNELS; r++) {
        float sum = m.row[r][GS_CHANNELS];
        for (int k = GS_CHANNELS - 1; k >= 0; k--) sum = fmaf(m.row[r][k], c[k], sum);
        corrected[r * plane + i] = sum;
    }
}

// At pixel i: replaces the gradient by the corrected colours with the gradient by the colours, and adds to the
// matrix's.
__device__ void step_back(const color_matrix &m, const float *color, int64_t plane, int64_t i,
                          float *gradient, float mine[MATRIX]) {
    float c[GS_CHANNELS + 1], g[GS_CHANNELS];
    for_channels([&](int k) { c[k] = color[k * plane + i]; });
    for_channels([&](int k) { g[k] = gradient[k * plane + i]; });
    c[GS_CHANNELS] = 1;
    for (int r = 0, at = 0; r < GS_CHANNELS; r++)
        for (int k = 0; k <= GS_CHANNELS; k++, at++) mine[at] = fmaf(g[r], c[k], mine[at]);
    for (int k = 0; k < GS_CHANNELS; k++) {
        float sum = 0;
        for_channels([&](int step) {
            const int r = GS_CHANNELS - 1 - step;
            sum = step == 0 ? m.row[r][k] * g[r] : fmaf(m.row[r][k], g[r], sum);
        });
        gradient[k * plane + i] = sum;
    }
}

// One block per row of tiles, from `first` on.
__global__ void __launch_bounds__(THREADS)
    exposure_rows_kernel(gs_exposed image, int first, float *gradient, double (*row_sums)[MATRIX]) {
    __shared__ distwar::block_sum_memory<MATRIX, THREADS> memory;
    const color_matrix m = load(image.matrix);
    const int64_t plane = int64_t(image.width) * image.height, row = first + int64_t(blockIdx.x),
                  in_row = int64_t(GS_TILE_SIZE) * image.width, begin = row * in_row;
    const int64_t end = begin + in_row < plane ? begin + in_row : plane;
    float mine[MATRIX] = {}, total[MATRIX];
    for (int64_t i = begin + threadIdx.x; i < end; i += THREADS)
        step_back(m, image.color, plane, i, gradient, mine);
    distwar::block_sum(mine, memory, total);
    for (int k = 0; threadIdx.x == 0 && k < MATRIX; k++) row_sums[row][k] = double(total[k]);
}

__global__ void __launch_bounds__(32)
    exposure_rows_sum_kernel(const double (*row_sums)[MATRIX], int rows, float *matrix_gradient) {
    if (threadIdx.x >= MATRIX) return;
    double sum = 0;
    for (int r = 0; r < rows; r++) sum += row_sums[r][threadIdx.x];
    matrix_gradient[threadIdx.x] = float(sum);
}

// Steps one view's matrix, then moves all matrices so that their mean stays. One block.
__global__ void __launch_bounds__(THREADS)
    exposure_adam_kernel(float *exposures, int64_t views, int64_t view, const float *gradient, float rate,
                         adam_correction correction) {
    __shared__ float decrease[MATRIX];
    const int k = int(threadIdx.x);
    if (k < MATRIX) {
        float *const mine = exposures + view * 3 * MATRIX;
        decrease[k] = adam_decrease(gradient[k], &mine[MATRIX + k], &mine[2 * MATRIX + k], rate, correction);
    }
    __syncthreads();
    for (int64_t i = k; i < views * MATRIX; i += THREADS) {
        const int64_t of = i / MATRIX, value = i % MATRIX;
        exposures[of * 3 * MATRIX + value] +=
            decrease[value] / float(views) - (of == view ? decrease[value] : 0);
    }
}

gs_status check(const char *function, const gs_exposed *image) {
    GS_REQUIRE_OF(function, image, "image must be given");
    GS_TRY(check_size(function, image->width, image->height));
    return libgs_require(function, image->matrix && image->color, "matrix and color must be given");
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
    return GS_STATUS(launch_for(stream, pixels_of(image), THREADS, exposure_kernel, image->matrix,
                                image->color, pixels_of(image), corrected));
}

gs_status gs_exposure_bytes(int32_t width, int32_t height, size_t *bytes) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = size_t(rows_of(height)) * MATRIX * sizeof(double);
    return GS_OK;
}

gs_status gs_exposure_backward(const gs_exposed *image, void *workspace, size_t workspace_bytes,
                               float *gradient, float *matrix_gradient, gs_stream stream) {
    GS_TRY(check(__func__, image));
    GS_REQUIRE(gradient && matrix_gradient, "gradient and matrix_gradient must be given");
    size_t needed = 0;
    GS_TRY(gs_exposure_bytes(image->width, image->height, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));
    const gs_rows all = {0, rows_of(image->height)};
    double *const row_sums = static_cast<double *>(workspace);
    GS_TRY(gs_share_exposure_backward(image, all, gradient, row_sums, stream));
    return gs_share_exposure_sum(row_sums, all.end, matrix_gradient, stream);
}

gs_status gs_share_exposure_backward(const gs_exposed *image, gs_rows rows, float *gradient, double *row_sums,
                                     gs_stream stream) {
    GS_TRY(check(__func__, image));
    GS_REQUIRE(gradient && row_sums, "gradient and row_sums must be given");
    GS_REQUIRE(rows.begin >= 0 && rows.begin < rows.end &&
                   rows.end <= rows_of(image->height),
               "rows must be a range of the rows of tiles");
    return GS_STATUS(launch(stream, unsigned(rows.end - rows.begin), THREADS, exposure_rows_kernel, *image,
                            int(rows.begin), gradient, reinterpret_cast<double(*)[MATRIX]>(row_sums)));
}

gs_status gs_share_exposure_sum(const double *row_sums, int32_t rows, float *matrix_gradient,
                                gs_stream stream) {
    GS_REQUIRE(row_sums && rows > 0 && matrix_gradient,
               "row_sums, their number and matrix_gradient must be given");
    return GS_STATUS(launch(stream, 1, 32, exposure_rows_sum_kernel,
                            reinterpret_cast<const double(*)[MATRIX]>(row_sums), int(rows), matrix_gradient));
}

gs_status gs_exposure_adam(float *exposures, int64_t views, int64_t view, const float *gradient, float rate,
                           int64_t step, gs_stream stream) {
    GS_REQUIRE(exposures && gradient, "exposures and gradient must be given");
    GS_REQUIRE(views >= 1 && view >= 0 && view < views, "view must be one of the views");
    GS_REQUIRE(rate >= 0 && rate <= FLT_MAX, "rate must be finite and not negative");
    GS_REQUIRE(step >= 1, "step must be 1 or more");
    return GS_STATUS(launch(stream, 1, THREADS, exposure_adam_kernel, exposures, views, view, gradient, rate,
                            adam_correction_at(step)));
}
