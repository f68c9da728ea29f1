// SPDX-License-Identifier: MIT
// LPIPS (distwar_gs_lpips.h): the input, max-pools, the comparison of activations, and the order of the layers. The
// order of all sums is fixed.
#include "check.h"
#include "distwar_gs_lpips.h"
#include "lpips/convolve.cuh"

#include <algorithm>
#include <distwar/block.cuh>

using namespace gs;

namespace {

enum { IMAGES = 2, THREADS = 256, COMPARED_PIXELS = 32, SLICES = THREADS / COMPARED_PIXELS };

// Where the activations of both images are.
struct features {
    float *values; // [IMAGES][channels][height][width]
    int channels, width, height;
};

__host__ __device__ int64_t plane_of(const features &of) {
    return int64_t(of.width) * of.height;
}

// The colour as a picture's file has it, 0..255.
__device__ float rounded(float color) {
    const float value = color * 255;
    return value > 0 ? value < 255 ? floorf(value + 0.5f) : 255.0f : 0.0f; // NaN: 0
}

// Values in -1..1, less the means and over the standard deviations by which LPIPS normalises them.
__global__ void __launch_bounds__(THREADS) lpips_input(const gs_comparison in, features out) {
    const float mean[GS_CHANNELS] = {-0.030f, -0.088f, -0.188f},
                deviation[GS_CHANNELS] = {0.458f, 0.448f, 0.450f};
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x, plane = plane_of(out);
    if (i >= plane) return;
    const bool counts = !in.mask || in.mask[i] != 0;
    for (int c = 0; c < GS_CHANNELS; c++) {
        const float target = float(in.target[GS_CHANNELS * i + c]);
        const float color = counts ? rounded(in.color[c * plane + i]) : target;
        out.values[c * plane + i] = (color * (2 / 255.0f) - 1 - mean[c]) / deviation[c];
        out.values[(GS_CHANNELS + c) * plane + i] = (target * (2 / 255.0f) - 1 - mean[c]) / deviation[c];
    }
}

// The maximum in windows of size x size, 2 pixels apart. blockIdx.y: the channel of one of the images.
__global__ void __launch_bounds__(THREADS) lpips_pool(const features in, int size, features out) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= plane_of(out)) return;
    const int y = int(i / out.width), x = int(i % out.width);
    const float *const window = in.values + blockIdx.y * plane_of(in) + int64_t(2 * y) * in.width + 2 * x;
    float most = window[0];
    for (int row = 0; row < size; row++)
        for (int column = 0; column < size; column++) most = fmaxf(most, window[row * in.width + column]);
    out.values[blockIdx.y * plane_of(out) + i] = most;
}

// Writes this block's sum, over its pixels, of the weighted squared differences of the normalised activations.
// A block has COMPARED_PIXELS pixels, and SLICES threads for each of them.
__global__ void __launch_bounds__(THREADS)
    lpips_compare(const features of, const float *channel_weight, double *of_block) {
    __shared__ float squares[IMAGES][SLICES][COMPARED_PIXELS];
    __shared__ distwar::block_sum_memory<1, THREADS, double> memory;
    const int slice = int(threadIdx.x) / COMPARED_PIXELS, column = int(threadIdx.x) % COMPARED_PIXELS;
    const int64_t plane = plane_of(of), pixel = int64_t(blockIdx.x) * COMPARED_PIXELS + column;
    const int channels = pixel < plane ? of.channels : 0;
    const float *const value[IMAGES] = {of.values + pixel, of.values + of.channels * plane + pixel};

    float sum[IMAGES] = {};
    for (int c = slice; c < channels; c += SLICES)
        for (int k = 0; k < IMAGES; k++) sum[k] = fmaf(value[k][c * plane], value[k][c * plane], sum[k]);
    for (int k = 0; k < IMAGES; k++) squares[k][slice][column] = sum[k];
    __syncthreads();
    float inverse[IMAGES];
    for (int k = 0; k < IMAGES; k++) {
        float square = 0;
        for (int s = 0; s < SLICES; s++) square += squares[k][s][column];
        inverse[k] = 1 / (sqrtf(square) + 1e-10f);
    }
    double mine[1] = {}, total[1];
    for (int c = slice; c < channels; c += SLICES) {
        const float difference = value[0][c * plane] * inverse[0] - value[1][c * plane] * inverse[1];
        mine[0] += double(channel_weight[c] * difference * difference);
    }
    distwar::block_sum(mine, memory, total);
    if (threadIdx.x == 0) of_block[blockIdx.x] = total[0];
}

// result[level] = the mean over `pixels`; result[0] = the sum of the levels so far. One block.
__global__ void __launch_bounds__(THREADS)
    lpips_level(const double *of_block, int blocks, double pixels, int level, double *result) {
    __shared__ distwar::block_sum_memory<1, THREADS, double> memory;
    double mine[1] = {}, total[1];
    for (int i = int(threadIdx.x); i < blocks; i += THREADS) mine[0] += of_block[i];
    distwar::block_sum(mine, memory, total);
    if (threadIdx.x != 0) return;
    result[level] = total[0] / pixels;
    result[0] = (level > 1 ? result[0] : 0) + result[level];
}

// The shapes of a convolution's input, after the max-pool before it, and of its output.
struct shapes {
    features input, output;
};

shapes shapes_after(const features &before, const gs_lpips_convolution &c) {
    const auto pooled = [&](int side) { return c.pool > 0 ? (side - c.pool) / 2 + 1 : side; };
    const auto convolved = [&](int side) { return (side + 2 * c.padding - c.size) / c.stride + 1; };
    const features input = {nullptr, c.inputs, pooled(before.width), pooled(before.height)};
    return {input, {nullptr, c.outputs, convolved(input.width), convolved(input.height)}};
}

int64_t values_of(const features &of) {
    return IMAGES * of.channels * plane_of(of);
}

unsigned compared_blocks(const features &of) {
    return blocks_for(plane_of(of), COMPARED_PIXELS);
}

// Sizes of the two arrays between which the layers go back and forth, and of the sums of blocks behind them.
struct layout {
    int64_t values;  // of one of the two, a multiple of 4
    unsigned blocks; // of the largest comparison
};

layout layout_of(const gs_lpips_architecture &network, int width, int height) {
    features at = {nullptr, GS_CHANNELS, width, height};
    layout out = {values_of(at), 0};
    for (int i = 0; i < network.convolutions; i++) {
        const shapes next = shapes_after(at, network.convolution[i]);
        at = next.output;
        out.values = std::max({out.values, values_of(next.input), values_of(next.output)});
        if (network.convolution[i].level > 0) out.blocks = std::max(out.blocks, compared_blocks(at));
    }
    out.values = (out.values + 3) / 4 * 4;
    return out;
}

cudaError_t launch_convolution(const gs_lpips_convolution &c, const convolution &of, gs_stream stream) {
    const auto kernel = c.size == 11  ? convolve<11, 4, 2>
                        : c.size == 5 ? convolve<5, 1, 2>
                                      : convolve<3, 1, 1>;
    return launch(stream, convolve_grid(of), CONVOLVE_THREADS, kernel, of);
}

gs_status check(const char *function, gs_lpips_network network, int32_t width, int32_t height) {
    GS_REQUIRE_OF(function, gs_lpips_architecture_of(network), "network must be one of gs_lpips_network");
    GS_TRY(check_size(function, width, height));
    return libgs_require(function, width >= GS_LPIPS_MIN_SIZE && height >= GS_LPIPS_MIN_SIZE,
                         "width and height must be 32 or more");
}

} // namespace

gs_status gs_lpips_bytes(gs_lpips_network network, int32_t width, int32_t height, size_t *bytes) {
    GS_TRY(check(__func__, network, width, height));
    GS_REQUIRE(bytes, "bytes must be given");
    const layout of = layout_of(*gs_lpips_architecture_of(network), width, height);
    *bytes = size_t(2 * of.values) * sizeof(float) + of.blocks * sizeof(double);
    return GS_OK;
}

gs_status gs_lpips(const gs_lpips_comparison *compared, void *workspace, size_t workspace_bytes,
                   double *result, gs_stream stream) {
    GS_REQUIRE(compared, "compared must be given");
    const gs_comparison &images = compared->images;
    GS_TRY(check_comparison(__func__, &images));
    GS_REQUIRE(compared->weights && result, "weights and result must be given");
    size_t needed = 0;
    GS_TRY(gs_lpips_bytes(compared->network, images.width, images.height, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));

    const gs_lpips_architecture &network = *gs_lpips_architecture_of(compared->network);
    const layout sizes = layout_of(network, images.width, images.height);
    float *const memory = static_cast<float *>(workspace);
    double *const of_block = reinterpret_cast<double *>(memory + 2 * sizes.values);
    // The array of the workspace that does not hold `at`.
    const auto other = [&](const features &at) {
        return at.values == memory ? memory + sizes.values : memory;
    };

    features at = {memory, GS_CHANNELS, images.width, images.height};
    GS_CUDA(launch_for(stream, plane_of(at), THREADS, lpips_input, images, at));
    const float *weight = compared->weights,
                *level_weight = weight + gs_lpips_weight_count(compared->network);
    for (int i = 0; i < network.convolutions; i++)
        if (network.convolution[i].level > 0) level_weight -= network.convolution[i].outputs;
    for (int i = 0; i < network.convolutions; i++) {
        const gs_lpips_convolution &c = network.convolution[i];
        shapes next = shapes_after(at, c);
        if (c.pool > 0) {
            next.input.values = other(at);
            const dim3 grid(blocks_for(plane_of(next.input), THREADS), unsigned(IMAGES * c.inputs));
            GS_CUDA(launch(stream, grid, THREADS, lpips_pool, at, c.pool, next.input));
            at = next.input;
        }
        float *const kept = c.level > 0 ? compared->activations[c.level - 1] : nullptr;
        next.output.values = kept ? kept : other(at);
        const float *const bias = weight + int64_t(c.outputs) * c.inputs * c.size * c.size;
        GS_CUDA(launch_convolution(c,
                                   {at.values, weight, bias, next.output.values, IMAGES, c.inputs, c.outputs,
                                    at.width, at.height, next.output.width, next.output.height},
                                   stream));
        weight = bias + c.outputs;
        at = next.output;
        if (c.level == 0) continue;
        GS_CUDA(launch(stream, compared_blocks(at), THREADS, lpips_compare, at, level_weight, of_block));
        GS_CUDA(launch(stream, 1, THREADS, lpips_level, of_block, int(compared_blocks(at)),
                       double(plane_of(at)), c.level, result));
        level_weight += c.outputs;
    }
    return GS_OK;
}
