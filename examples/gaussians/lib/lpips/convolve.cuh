// SPDX-License-Identifier: MIT
// A convolution, bias and ReLU of several images, as a product of matrices: the weights, [outputs][inputs * SIZE *
// SIZE], times the windows of all pixels, whose values are gathered while they are loaded. A block computes a tile
// of 64 outputs at 128 pixels, a thread 8 outputs at 8 pixels in registers. The next slice of both matrices is
// fetched while the present one is multiplied.
#pragma once

#include <distwar/lanes.cuh>
#include <launch.cuh>

namespace gs {

enum {
    CONVOLVE_THREADS = 128,
    CONVOLVE_OUTPUTS = 64, // divides the outputs of every convolution
    CONVOLVE_PIXELS = CONVOLVE_THREADS
};

struct convolution {
    const float *input;  // [images][inputs][height][width]
    const float *weight; // [outputs][inputs][SIZE][SIZE]
    const float *bias;   // [outputs]
    float *output;       // [images][outputs][out_height][out_width]
    int images, inputs, outputs, width, height, out_width, out_height;
};

inline dim3 convolve_grid(const convolution &of) {
    return dim3(blocks_for(int64_t(of.images) * of.out_width * of.out_height, CONVOLVE_PIXELS),
                unsigned(of.outputs / CONVOLVE_OUTPUTS));
}

// By blocks of CONVOLVE_THREADS in convolve_grid.
template <int SIZE, int STRIDE, int PADDING>
__global__ void __launch_bounds__(CONVOLVE_THREADS) convolve(const convolution of) {
    constexpr int DEPTH = 8, EACH = 8, AREA = SIZE * SIZE; // a slice's rows; outputs and pixels of a thread
    constexpr int WEIGHTS = CONVOLVE_OUTPUTS * DEPTH / CONVOLVE_THREADS; // of a slice, that a thread loads
    struct slices {
        alignas(16) float weight[DEPTH][CONVOLVE_OUTPUTS + 4], value[DEPTH][CONVOLVE_PIXELS];
    };
    __shared__ slices memory;

    const int thread = int(threadIdx.x), first_output = int(blockIdx.y) * CONVOLVE_OUTPUTS;
    const int64_t plane = int64_t(of.width) * of.height, out_plane = int64_t(of.out_width) * of.out_height;
    const int64_t first_pixel = int64_t(blockIdx.x) * CONVOLVE_PIXELS, pixels = of.images * out_plane;
    const int rows = of.inputs * AREA;

    // The window of the pixel that this thread loads, and the row of the weights.
    const int64_t loaded = first_pixel + thread;
    const bool has_pixel = loaded < pixels;
    const int64_t image = has_pixel ? loaded / out_plane : 0;
    const int in_plane = has_pixel ? int(loaded - image * out_plane) : 0;
    const int top = in_plane / of.out_width * STRIDE - PADDING,
              left = in_plane % of.out_width * STRIDE - PADDING;
    const float *const window = of.input + image * of.inputs * plane;
    const int output = thread * WEIGHTS / DEPTH, depth = thread * WEIGHTS % DEPTH;
    const float *const weights = of.weight + int64_t(first_output + output) * rows;

    float next_weight[WEIGHTS], next_value[DEPTH];
    const auto fetch = [&](int row) {
        DISTWAR_UNROLL
        for (int j = 0; j < WEIGHTS; j++)
            next_weight[j] = row + depth + j < rows ? weights[row + depth + j] : 0;
        DISTWAR_UNROLL
        for (int j = 0; j < DEPTH; j++) {
            const int channel = (row + j) / AREA, place = (row + j) % AREA;
            const int y = top + place / SIZE, x = left + place % SIZE;
            const bool inside = has_pixel && row + j < rows && unsigned(y) < unsigned(of.height) &&
                                unsigned(x) < unsigned(of.width);
            next_value[j] = inside ? window[channel * plane + int64_t(y) * of.width + x] : 0;
        }
    };

    const int of_outputs = thread / 16 * EACH, of_pixels = thread % 16 * (EACH / 2);
    float sum[EACH][EACH] = {};
    fetch(0);
    for (int row = 0; row < rows; row += DEPTH) {
        for (int j = 0; j < WEIGHTS; j++) memory.weight[depth + j][output] = next_weight[j];
        for (int j = 0; j < DEPTH; j++) memory.value[j][thread] = next_value[j];
        __syncthreads();
        if (row + DEPTH < rows) fetch(row + DEPTH);
        DISTWAR_UNROLL
        for (int k = 0; k < DEPTH; k++) {
            float weight[EACH],
                value[EACH]; // of two runs of pixels: neighbouring threads read neighbouring words
            for (int i = 0; i < EACH; i++) weight[i] = memory.weight[k][of_outputs + i];
            for (int j = 0; j < EACH / 2; j++) {
                value[j] = memory.value[k][of_pixels + j];
                value[EACH / 2 + j] = memory.value[k][CONVOLVE_PIXELS / 2 + of_pixels + j];
            }
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++) sum[i][j] = fmaf(weight[i], value[j], sum[i][j]);
        }
        __syncthreads();
    }

    for (int j = 0; j < EACH; j++) {
        const int64_t pixel =
            first_pixel + of_pixels + j % (EACH / 2) + j / (EACH / 2) * (CONVOLVE_PIXELS / 2);
        if (pixel >= pixels) continue;
        const int64_t written = pixel / out_plane;
        float *const out = of.output + (written * of.outputs + first_output + of_outputs) * out_plane +
                           pixel - written * out_plane;
        for (int i = 0; i < EACH; i++)
            out[i * out_plane] = fmaxf(sum[i][j] + of.bias[first_output + of_outputs + i], 0.0f);
    }
}

} // namespace gs
