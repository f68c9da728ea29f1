// SPDX-License-Identifier: MIT
// One step of Adam (Kingma and Ba 2015) on flat arrays of parameters.
#pragma once

#include "launch.cuh"

#include <math.h>

// `count` values in rows of row_length. The first head_length values of a row have the learning rate
// head_rate, the others rest_rate.
typedef struct adam_array {
    float *value;
    const float *gradient;
    float *first_moment, *second_moment; // zeros before the first step
    int64_t count;
    int row_length, head_length; // 1 <= head_length <= row_length <= ADAM_BLOCK_VALUES / 4
    float head_rate, rest_rate;
    // 0: steps all values. Else: steps the first used_length values of each row, and may step the others;
    // their gradients and moments must be zeros, so that a step does not change them.
    int used_length = 0;
} adam_array;

enum { ADAM_THREADS = 256, ADAM_BLOCK_VALUES = 4 * ADAM_THREADS, ADAM_MOST_ARRAYS = 8 };

typedef struct adam_arrays {
    adam_array array[ADAM_MOST_ARRAYS];
    bool aligned[ADAM_MOST_ARRAYS];             // all pointers are aligned to 16 bytes
    unsigned first_block[ADAM_MOST_ARRAYS + 1]; // of each array in the grid; last: the number of blocks
} adam_arrays;

// Values of a block: whole rows, so that finding a value's place in its row needs no 64-bit division; and a
// multiple of 4, because each thread takes 4 values at once.
inline __host__ __device__ int adam_block_values(const adam_array &array) {
    return ADAM_BLOCK_VALUES / (4 * array.row_length) * (4 * array.row_length);
}

// The bias corrections 1 / (1 - beta1^step) and 1 / sqrt(1 - beta2^step).
typedef struct adam_correction {
    float rate, second_moment;
} adam_correction;

inline adam_correction adam_correction_at(int64_t step) {
    const double correction1 = 1 - pow(0.9, double(step)), correction2 = 1 - pow(0.999, double(step));
    return {float(1 / correction1), float(1 / sqrt(correction2))};
}

// Updates the two moments with the gradient. Returns the decrease of the value.
__device__ inline float adam_decrease(float gradient, float *first_moment, float *second_moment, float rate,
                                      adam_correction correction) {
    const float beta1 = 0.9f, one_minus_beta1 = 0.1f, beta2 = 0.999f, one_minus_beta2 = 0.001f,
                epsilon = 1e-15f;
    const float m = beta1 * *first_moment + one_minus_beta1 * gradient;
    const float v = beta2 * *second_moment + one_minus_beta2 * gradient * gradient;
    *first_moment = m;
    *second_moment = v;
    const float root = v > 0 ? v * rsqrtf(v) : 0; // faster than sqrtf, with an error of an ulp
    return __fdividef(rate * (m * correction.rate), root * correction.second_moment + epsilon);
}

// Steps four values by their gradients g, each at its rate.
__device__ __forceinline__ void adam_step_four(const float4 &g, const float rate[4],
                                               adam_correction correction, float4 *value,
                                               float4 *first_moment, float4 *second_moment) {
    float4 &x = *value, &m = *first_moment, &v = *second_moment;
    x.x -= adam_decrease(g.x, &m.x, &v.x, rate[0], correction);
    x.y -= adam_decrease(g.y, &m.y, &v.y, rate[1], correction);
    x.z -= adam_decrease(g.z, &m.z, &v.z, rate[2], correction);
    x.w -= adam_decrease(g.w, &m.w, &v.w, rate[3], correction);
}

static __global__ void __launch_bounds__(ADAM_THREADS)
    adam_kernel(adam_arrays all, adam_correction correction) {
    int which = 0;
    while (blockIdx.x >= all.first_block[which + 1]) which++;
    const adam_array &a = all.array[which];
    const int block_values = adam_block_values(a), j = 4 * int(threadIdx.x);
    const int64_t i = int64_t(blockIdx.x - all.first_block[which]) * block_values + j;
    if (j >= block_values || i >= a.count) return;

    float rate[4];
    bool used = false;
    for (int k = 0; k < 4; k++) {
        const int place = (j + k) % a.row_length;
        rate[k] = place < a.head_length ? a.head_rate : a.rest_rate;
        used |= a.used_length == 0 || place < a.used_length;
    }
    if (!used) return;
    if (all.aligned[which] && i + 4 <= a.count) {
        const float4 g = *reinterpret_cast<const float4 *>(a.gradient + i);
        float4 *const values = reinterpret_cast<float4 *>(a.value + i);
        float4 *const firsts = reinterpret_cast<float4 *>(a.first_moment + i);
        float4 *const seconds = reinterpret_cast<float4 *>(a.second_moment + i);
        float4 x = *values, m = *firsts, v = *seconds;
        adam_step_four(g, rate, correction, &x, &m, &v);
        *values = x, *firsts = m, *seconds = v;
        return;
    }
    for (int k = 0; k < 4 && i + k < a.count; k++)
        a.value[i + k] -= adam_decrease(a.gradient[i + k], a.first_moment + i + k, a.second_moment + i + k,
                                        rate[k], correction);
}

// Whether four values at once can be read and written. Array: adam_array or what has its pointers.
template <class Array>
bool adam_is_aligned(const Array &a) {
    return (uintptr_t(a.value) | uintptr_t(a.gradient) | uintptr_t(a.first_moment) |
            uintptr_t(a.second_moment)) %
               16 ==
           0;
}

// Queues the step for up to ADAM_MOST_ARRAYS arrays; step = 1, 2, ... No array overlaps another. It
// is faster where all pointers of an array are aligned to 16 bytes. Cost: one launch; reads 16 bytes per value,
// writes 12.
inline cudaError_t adam_steps(const adam_array *arrays, int count, int64_t step, cudaStream_t stream) {
    adam_arrays all = {};
    for (int i = 0; i < count; i++) {
        const adam_array &a = all.array[i] = arrays[i];
        all.aligned[i] = adam_is_aligned(a);
        all.first_block[i + 1] =
            all.first_block[i] + blocks_for(arrays[i].count, adam_block_values(arrays[i]));
    }
    return launch(stream, all.first_block[count], ADAM_THREADS, adam_kernel, all, adam_correction_at(step));
}
