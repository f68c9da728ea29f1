// SPDX-License-Identifier: MIT
// The mean absolute difference of a rendered and a given depth, and its gradient (math.md, section 5). The
// order of the sums is fixed.
#include "check.h"

#include <distwar/block.cuh>
#include <launch.cuh>

namespace {

enum { THREADS = 256, VALUES_A_THREAD = 8, VALUES = THREADS * VALUES_A_THREAD };

// Sums of |depth - target| and of the pixels that count.
struct depth_sums {
    double of[2];
};

// NaN in the target: unknown.
__device__ bool counts(const gs_depth_comparison &in, int64_t i) {
    return !isnan(in.target[i]) && (!in.mask || in.mask[i] != 0);
}

__device__ depth_sums sum_of_block(const double (&mine)[2]) {
    __shared__ distwar::block_sum_memory<2, THREADS, double> memory;
    depth_sums total;
    distwar::block_sum(mine, memory, total.of);
    return total;
}

__global__ void __launch_bounds__(THREADS)
    depth_loss_sums(const gs_depth_comparison in, int64_t pixels, depth_sums *of_block) {
    const int64_t first = int64_t(blockIdx.x) * VALUES + threadIdx.x;
    double mine[2] = {};
    for (int j = 0; j < VALUES_A_THREAD; j++) {
        const int64_t i = first + j * THREADS;
        if (i >= pixels || !counts(in, i)) continue;
        mine[0] += double(fabsf(in.depth[i] - in.target[i]));
        mine[1] += 1;
    }
    const depth_sums total = sum_of_block(mine);
    if (threadIdx.x == 0) of_block[blockIdx.x] = total;
}

// Writes the sums over all blocks to *all. One block.
__global__ void __launch_bounds__(THREADS)
    depth_loss_value(const depth_sums *of_block, int blocks, depth_sums *all, double *result) {
    double mine[2] = {};
    for (int i = threadIdx.x; i < blocks; i += THREADS)
        for (int k = 0; k < 2; k++) mine[k] += of_block[i].of[k];
    const depth_sums total = sum_of_block(mine);
    if (threadIdx.x != 0) return;
    *all = total;
    *result = total.of[1] > 0 ? total.of[0] / total.of[1] : 0;
}

__global__ void __launch_bounds__(THREADS) depth_loss_gradient(const gs_depth_comparison in, int64_t pixels,
                                                               const depth_sums *all, float *gradient) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= pixels) return;
    float slope = 0;
    if (counts(in, i)) {
        const float difference = in.depth[i] - in.target[i];
        slope = float(double(in.weight) / all->of[1]) * (float(difference > 0) - float(difference < 0));
    }
    gradient[i] = slope;
}

int64_t pixels_of(int32_t width, int32_t height) {
    return int64_t(width) * height;
}

} // namespace

gs_status gs_depth_loss_bytes(int32_t width, int32_t height, size_t *bytes) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = (size_t(blocks_for(pixels_of(width, height), VALUES)) + 1) * sizeof(depth_sums);
    return GS_OK;
}

gs_status gs_depth_loss(const gs_depth_comparison *depths, void *workspace, size_t workspace_bytes,
                        double *result, float *gradient, gs_stream stream) {
    GS_REQUIRE(depths, "depths must be given");
    GS_REQUIRE(depths->depth && depths->target && result, "depth, target and result must be given");
    GS_REQUIRE(depths->weight - depths->weight == 0, "the weight must be finite");
    size_t needed = 0;
    GS_TRY(gs_depth_loss_bytes(depths->width, depths->height, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));
    const int64_t pixels = pixels_of(depths->width, depths->height);
    const unsigned blocks = blocks_for(pixels, VALUES);
    depth_sums *const all = static_cast<depth_sums *>(workspace), *const of_block = all + 1;
    GS_CUDA(launch(stream, blocks, THREADS, depth_loss_sums, *depths, pixels, of_block));
    GS_CUDA(launch(stream, 1, THREADS, depth_loss_value, of_block, int(blocks), all, result));
    if (gradient)
        GS_CUDA(launch_for(stream, pixels, THREADS, depth_loss_gradient, *depths, pixels, all, gradient));
    return GS_OK;
}
