// SPDX-License-Identifier: MIT
// One step of Adam (Kingma and Ba 2015) on a flat array of parameters.
#ifndef COMMON_ADAM_CUH
#define COMMON_ADAM_CUH

#include "launch.cuh"

#include <math.h>

// `count` values in rows of row_length; the first head_length of a row learn at head_rate, the others at
// rest_rate.
typedef struct adam_array {
    float *value;
    const float *gradient;
    float *first_moment, *second_moment; // zeros before the first step
    int64_t count;
    int row_length, head_length; // 1 <= head_length <= row_length <= ADAM_BLOCK_VALUES
    float head_rate, rest_rate;
} adam_array;

enum { ADAM_THREADS = 256, ADAM_BLOCK_VALUES = 1024 };

// The bias corrections 1 / (1 - beta1^step) and 1 / sqrt(1 - beta2^step).
typedef struct adam_correction {
    float rate, second_moment;
} adam_correction;

inline adam_correction adam_correction_at(int64_t step) {
    const double correction1 = 1 - pow(0.9, double(step)), correction2 = 1 - pow(0.999, double(step));
    return {float(1 / correction1), float(1 / sqrt(correction2))};
}

// Takes a gradient into its two moments; returns what the value decreases by.
__device__ inline float adam_decrease(float gradient, float *first_moment, float *second_moment, float rate,
                                      adam_correction correction) {
    const float beta1 = 0.9f, one_minus_beta1 = 0.1f, beta2 = 0.999f, one_minus_beta2 = 0.001f,
                epsilon = 1e-15f;
    const float m = beta1 * *first_moment + one_minus_beta1 * gradient;
    const float v = beta2 * *second_moment + one_minus_beta2 * gradient * gradient;
    *first_moment = m;
    *second_moment = v;
    return rate * (m * correction.rate) / (sqrtf(v) * correction.second_moment + epsilon);
}

// A block takes whole rows, so that a value's place in its row needs no 64-bit division.
static __global__ void __launch_bounds__(ADAM_THREADS)
    adam_kernel(adam_array a, int block_values, adam_correction correction) {
    const int64_t first = int64_t(blockIdx.x) * block_values;
    for (int j = threadIdx.x; j < block_values && first + j < a.count; j += ADAM_THREADS) {
        const int64_t i = first + j;
        const float rate = j % a.row_length < a.head_length ? a.head_rate : a.rest_rate;
        a.value[i] -= adam_decrease(a.gradient[i], &a.first_moment[i], &a.second_moment[i], rate, correction);
    }
}

// Queues the step; step = 1, 2, ... No array may overlap another. Cost: reads 16 bytes a value, writes 12.
inline cudaError_t adam_step(const adam_array &array, int64_t step, cudaStream_t stream) {
    const int block_values = ADAM_BLOCK_VALUES / array.row_length * array.row_length;
    return launch(stream, blocks_for(array.count, block_values), ADAM_THREADS, adam_kernel, array,
                  block_values, adam_correction_at(step));
}

#endif
