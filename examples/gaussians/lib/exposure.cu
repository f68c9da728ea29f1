// SPDX-License-Identifier: MIT
// The colour correction of one photograph, and its adjoint (docs/math.md, section 5). The order of every
// sum is fixed.
#include "check.h"

#include <adam.cuh>
#include <distwar/block.cuh>
#include <float.h>

namespace {

enum { THREADS = 256, MOST_BLOCKS = THREADS, MATRIX = GS_EXPOSURE_VALUES };

// Every thread reads the whole matrix.
struct matrix3x4 {
    float row[3][4];
};

__device__ matrix3x4 load(const float *matrix) {
    matrix3x4 m;
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 4; c++) m.row[r][c] = matrix[4 * r + c];
    return m;
}

__global__ void __launch_bounds__(THREADS)
    exposure_kernel(const float *matrix, const float *color, int64_t plane, float *corrected) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= plane) return;
    const matrix3x4 m = load(matrix);
    const float c[3] = {color[i], color[i + plane], color[i + 2 * plane]};
    for (int r = 0; r < 3; r++)
        corrected[r * plane + i] =
            fmaf(m.row[r][0], c[0], fmaf(m.row[r][1], c[1], fmaf(m.row[r][2], c[2], m.row[r][3])));
}

// Writes this block's part of the matrix's gradient.
__global__ void __launch_bounds__(THREADS)
    exposure_backward_kernel(const float *matrix, const float *color, int64_t plane, float *gradient,
                             float (*of_block)[MATRIX]) {
    __shared__ distwar::block_sum_memory<MATRIX, THREADS> memory;
    const matrix3x4 m = load(matrix);
    float mine[MATRIX] = {}, total[MATRIX];
    for (int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x; i < plane;
         i += int64_t(gridDim.x) * THREADS) {
        const float c[4] = {color[i], color[i + plane], color[i + 2 * plane], 1};
        const float g[3] = {gradient[i], gradient[i + plane], gradient[i + 2 * plane]};
        for (int r = 0; r < 3; r++)
            for (int k = 0; k < 4; k++) mine[4 * r + k] = fmaf(g[r], c[k], mine[4 * r + k]);
        for (int k = 0; k < 3; k++)
            gradient[k * plane + i] = fmaf(m.row[0][k], g[0], fmaf(m.row[1][k], g[1], m.row[2][k] * g[2]));
    }
    distwar::block_sum(mine, memory, total);
    for (int k = 0; threadIdx.x == 0 && k < MATRIX; k++) of_block[blockIdx.x][k] = total[k];
}

__global__ void __launch_bounds__(32)
    exposure_sum_kernel(const float (*of_block)[MATRIX], int blocks, float *matrix_gradient) {
    if (threadIdx.x >= MATRIX) return;
    double sum = 0;
    for (int b = 0; b < blocks; b++) sum += double(of_block[b][threadIdx.x]);
    matrix_gradient[threadIdx.x] = float(sum);
}

// One block.
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
    GS_REQUIRE_OF(function, image->matrix && image->color, "matrix and color must be given");
    return GS_OK;
}

int64_t pixels_of(const gs_exposed *image) {
    return int64_t(image->width) * image->height;
}

// Eight pixels a thread: small images then have few blocks to sum.
int blocks_of(int64_t plane) {
    const unsigned blocks = blocks_for(plane, 8 * THREADS);
    return blocks < MOST_BLOCKS ? int(blocks) : MOST_BLOCKS;
}

} // namespace

gs_status gs_exposure(const gs_exposed *image, float *corrected, gs_stream stream) {
    GS_TRY(check(__func__, image));
    GS_REQUIRE(corrected, "corrected must be given");
    GS_CUDA(launch(stream, blocks_for(pixels_of(image), THREADS), THREADS, exposure_kernel, image->matrix,
                   image->color, pixels_of(image), corrected));
    return GS_OK;
}

gs_status gs_exposure_bytes(int32_t width, int32_t height, size_t *bytes) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = size_t(blocks_of(int64_t(width) * height)) * MATRIX * sizeof(float);
    return GS_OK;
}

gs_status gs_exposure_backward(const gs_exposed *image, void *workspace, size_t workspace_bytes,
                               float *gradient, float *matrix_gradient, gs_stream stream) {
    GS_TRY(check(__func__, image));
    GS_REQUIRE(gradient && matrix_gradient, "gradient and matrix_gradient must be given");
    size_t needed = 0;
    GS_TRY(gs_exposure_bytes(image->width, image->height, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));
    const int blocks = blocks_of(pixels_of(image));
    auto *const of_block = static_cast<float(*)[MATRIX]>(workspace);
    GS_CUDA(launch(stream, unsigned(blocks), THREADS, exposure_backward_kernel, image->matrix, image->color,
                   pixels_of(image), gradient, of_block));
    GS_CUDA(launch(stream, 1, 32, exposure_sum_kernel, of_block, blocks, matrix_gradient));
    return GS_OK;
}

gs_status gs_exposure_adam(float *exposures, int64_t views, int64_t view, const float *gradient, float rate,
                           int64_t step, gs_stream stream) {
    GS_REQUIRE(exposures && gradient, "exposures and gradient must be given");
    GS_REQUIRE(views >= 1 && view >= 0 && view < views, "view must be one of the views");
    GS_REQUIRE(rate >= 0 && rate <= FLT_MAX, "rate must be finite and not negative");
    GS_REQUIRE(step >= 1, "step must be 1 or more");
    GS_CUDA(launch(stream, 1, THREADS, exposure_adam_kernel, exposures, views, view, gradient, rate,
                   adam_correction_at(step)));
    return GS_OK;
}
