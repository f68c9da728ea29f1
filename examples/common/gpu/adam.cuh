// SPDX-License-Identifier: MIT
// One step of Adam (Kingma and Ba 2015) on flat arrays of parameters. Two rules share one kernel, adam_correction and
// adam_factors: a rule says which rows are stepped, and by how much.
#pragma once

#include "launch.cuh"

#include <math.h>

// `count` values in rows of row_length. The first head_length values of a row have the learning rate
// head_rate, the others rest_rate.
struct adam_array {
    float *value;
    const float *gradient;
    float *first_moment, *second_moment; // zeros before the first step
    int64_t count;
    int row_length, head_length; // 1 <= head_length <= row_length
    float head_rate, rest_rate;
    // 0: steps all values. Else: steps the first used_length values of each row, and may step the others;
    // their gradients and moments must be zeros, so that a step does not change them.
    int used_length = 0;
};

enum { ADAM_THREADS = 256, ADAM_BLOCK_VALUES = 4 * ADAM_THREADS, ADAM_MOST_ARRAYS = 8 };

struct adam_arrays {
    adam_array array[ADAM_MOST_ARRAYS];
    bool aligned[ADAM_MOST_ARRAYS];             // all pointers are aligned to 16 bytes
    unsigned first_block[ADAM_MOST_ARRAYS + 1]; // of each array in the grid; last: the number of blocks
};

// Rows of a block: whole ones, so that finding a value's place in its row needs no 64-bit division; and of most lengths a
// multiple of 4, because each thread takes 4 values at once.
inline __host__ __device__ int adam_block_rows(int row_length) {
    const int rows = row_length < ADAM_BLOCK_VALUES ? ADAM_BLOCK_VALUES / row_length : 1;
    return rows < 4 ? rows : rows / 4 * 4;
}

// The bias corrections 1 / (1 - beta1^step) and 1 / sqrt(1 - beta2^step).
struct adam_correction {
    float rate, second_moment;

    __device__ bool steps(int64_t) const { return true; } // whether a row is stepped
};

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

// Another rule: without the corrections for moments that started at 0, of some rows, by chosen factors.
struct adam_factors {
    float beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon;
    const uint8_t *visible; // of each row: those of 0 keep their values and moments; NULL: all are stepped

    __device__ bool steps(int64_t row) const { return !visible || visible[row]; }
};

__device__ inline float adam_decrease(float gradient, float *first_moment, float *second_moment, float rate,
                                      const adam_factors &by) {
    *first_moment = by.beta1 * *first_moment + by.one_minus_beta1 * gradient;
    *second_moment = by.beta2 * *second_moment + by.one_minus_beta2 * gradient * gradient;
    return rate * *first_moment / (sqrtf(*second_moment) + by.epsilon);
}

// Steps four values by their gradients g, each at its rate.
template <typename Rule>
__device__ __forceinline__ void adam_step_four(const float4 &g, const float rate[4], const Rule &correction,
                                               float4 *value, float4 *first_moment, float4 *second_moment) {
    float4 &x = *value, &m = *first_moment, &v = *second_moment;
    x.x -= adam_decrease(g.x, &m.x, &v.x, rate[0], correction);
    x.y -= adam_decrease(g.y, &m.y, &v.y, rate[1], correction);
    x.z -= adam_decrease(g.z, &m.z, &v.z, rate[2], correction);
    x.w -= adam_decrease(g.w, &m.w, &v.w, rate[3], correction);
}

template <typename Rule>
static __global__ void __launch_bounds__(ADAM_THREADS) adam_kernel(adam_arrays all, Rule rule) {
    int which = 0;
    while (blockIdx.x >= all.first_block[which + 1]) which++;
    const adam_array &a = all.array[which];
    const int rows = adam_block_rows(a.row_length);
    const int64_t first = int64_t(blockIdx.x - all.first_block[which]) * rows, begin = first * a.row_length;
    const int64_t block_values = int64_t(rows) * a.row_length; // of the last block fewer
    const int values = int(a.count - begin < block_values ? a.count - begin : block_values);
    const bool by_four = all.aligned[which] && begin % 4 == 0;
    for (int j = 4 * int(threadIdx.x); j < values; j += 4 * ADAM_THREADS) {
        const int64_t i = begin + j;
        float rate[4];
        bool used = false, steps[4];
        int stepped = 0;
        for (int k = 0; k < 4; k++) {
            const int place = (j + k) % a.row_length;
            rate[k] = place < a.head_length ? a.head_rate : a.rest_rate;
            used |= a.used_length == 0 || place < a.used_length;
            steps[k] = j + k < values && rule.steps(first + (j + k) / a.row_length);
            stepped += steps[k];
        }
        if (!used) continue;
        if (by_four && stepped == 4) {
            const float4 g = *reinterpret_cast<const float4 *>(a.gradient + i);
            float4 *const at = reinterpret_cast<float4 *>(a.value + i);
            float4 *const firsts = reinterpret_cast<float4 *>(a.first_moment + i);
            float4 *const seconds = reinterpret_cast<float4 *>(a.second_moment + i);
            float4 x = *at, m = *firsts, v = *seconds;
            adam_step_four(g, rate, rule, &x, &m, &v);
            *at = x, *firsts = m, *seconds = v;
            continue;
        }
        for (int k = 0; k < 4; k++)
            if (steps[k])
                a.value[i + k] -= adam_decrease(a.gradient[i + k], a.first_moment + i + k,
                                                a.second_moment + i + k, rate[k], rule);
    }
}

// Queues the step for up to ADAM_MOST_ARRAYS arrays. No array overlaps another. It is faster where all pointers of an array
// are aligned to 16 bytes. Cost: one launch; reads 16 bytes per value that is stepped, writes 12.
template <typename Rule>
cudaError_t adam_steps(const adam_array *arrays, int count, const Rule &rule, cudaStream_t stream) {
    adam_arrays all = {};
    for (int i = 0; i < count; i++) {
        const adam_array &a = all.array[i] = arrays[i];
        all.aligned[i] = (uintptr_t(a.value) | uintptr_t(a.gradient) | uintptr_t(a.first_moment) |
                          uintptr_t(a.second_moment)) %
                             16 ==
                         0;
        all.first_block[i + 1] =
            all.first_block[i] + blocks_for(a.count, adam_block_rows(a.row_length) * a.row_length);
    }
    return launch(stream, all.first_block[count], ADAM_THREADS, adam_kernel<Rule>, all, rule);
}
