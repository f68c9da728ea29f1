// SPDX-License-Identifier: MIT
// Adam over all parameters of the Gaussians, where SH's constant term has its own rate; Adam over some rows of any
// arrays; and the mean of the parameters over several steps. Reads gradients, steps parameters and moments in place.
// The step that is fused with the projection's adjoint: project_backward.cu. docs/developers/math.md, section 6.
#include "arrays.h"
#include "check.h"
#include "warp_rows.cuh"
#include <gpu/adam.cuh>

using namespace gs;

namespace {

struct adam_rows {
    int64_t count;
    const uint8_t *visible;
    float beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon;
    gs_adam_array array[GS_ADAM_ARRAYS];
    bool aligned[GS_ADAM_ARRAYS];             // all pointers are, to 16 bytes
    unsigned first_block[GS_ADAM_ARRAYS + 1]; // of each array in the grid; last: the number of blocks
};

// Whole rows, so that the row of a value needs no 64-bit division; and of most widths a multiple of 4, so that a thread can
// take 4 values at once.
__host__ __device__ int rows_of_block(int width) {
    const int rows = width < ADAM_BLOCK_VALUES ? ADAM_BLOCK_VALUES / width : 1;
    return rows < 4 ? rows : rows / 4 * 4;
}

__device__ void step_value(const adam_rows &all, float rate, float g, float *m, float *v, float *value) {
    *m = all.beta1 * *m + all.one_minus_beta1 * g;
    *v = all.beta2 * *v + all.one_minus_beta2 * g * g;
    *value -= rate * *m / (sqrtf(*v) + all.epsilon);
}

__global__ void __launch_bounds__(ADAM_THREADS) adam_rows_kernel(adam_rows all) {
    int which = 0;
    while (blockIdx.x >= all.first_block[which + 1]) which++;
    const gs_adam_array &a = all.array[which];
    const int rows = rows_of_block(a.width);
    const int64_t first = int64_t(blockIdx.x - all.first_block[which]) * rows;
    const int values = int(all.count - first < rows ? all.count - first : rows) * a.width;
    const int64_t begin = first * a.width;
    int done = 0;
    if (!all.visible && all.aligned[which] && begin % 4 == 0) {
        done = values / 4 * 4;
        for (int j = 4 * int(threadIdx.x); j < done; j += 4 * ADAM_THREADS) {
            const int64_t i = begin + j;
            const float4 g = four_at(a.gradient + i);
            float4 &firsts = four_at(a.first_moment + i);
            float4 &seconds = four_at(a.second_moment + i);
            float4 &at = four_at(a.value + i);
            float4 m = firsts, v = seconds, x = at;
            step_value(all, a.rate, g.x, &m.x, &v.x, &x.x);
            step_value(all, a.rate, g.y, &m.y, &v.y, &x.y);
            step_value(all, a.rate, g.z, &m.z, &v.z, &x.z);
            step_value(all, a.rate, g.w, &m.w, &v.w, &x.w);
            firsts = m, seconds = v, at = x;
        }
    }
    for (int j = done + int(threadIdx.x); j < values; j += ADAM_THREADS) {
        const int64_t i = begin + j;
        if (!all.visible || all.visible[first + j / a.width])
            step_value(all, a.rate, a.gradient[i], a.first_moment + i, a.second_moment + i, a.value + i);
    }
}

constexpr int average_block = 256;

__global__ void __launch_bounds__(average_block)
    average_kernel(const float *sample, float *average, int64_t values, float weight) {
    const int64_t i = int64_t(blockIdx.x) * average_block + threadIdx.x;
    if (i >= values) return;
    average[i] = weight == 1 ? sample[i] : average[i] + weight * (sample[i] - average[i]);
}

} // namespace

gs_status gs_adam_rows(const gs_adam_rows_step *step, gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_REQUIRE(step && step->array, "step and its arrays must be given");
    GS_TRY(check_count(__func__, step->count));
    GS_REQUIRE(step->array_count >= 1 && step->array_count <= GS_ADAM_ARRAYS, "array_count must be in 1..8");
    GS_REQUIRE(step->beta1 >= 0 && step->beta1 < 1 && step->beta2 >= 0 && step->beta2 < 1 &&
                   valid_rate(step->epsilon),
               "beta1 and beta2 must be in [0, 1), epsilon finite and not negative");
    adam_rows all = {step->count,
                     step->visible,
                     float(step->beta1),
                     float(1 - step->beta1),
                     float(step->beta2),
                     float(1 - step->beta2),
                     step->epsilon,
                     {},
                     {},
                     {}};
    for (int i = 0; i < step->array_count; i++) {
        const gs_adam_array &a = all.array[i] = step->array[i];
        GS_REQUIRE(a.width >= 1 && a.width <= INT32_MAX - ADAM_THREADS && valid_rate(a.rate),
                   "width must be 1 or more, rate finite and not negative");
        GS_REQUIRE(step->count == 0 || (a.value && a.gradient && a.first_moment && a.second_moment),
                   "arrays must be given");
        all.aligned[i] = adam_is_aligned(a);
        all.first_block[i + 1] = all.first_block[i] + blocks_for(step->count, rows_of_block(a.width));
    }
    return GS_STATUS(launch(stream, all.first_block[step->array_count], ADAM_THREADS, adam_rows_kernel, all));
}

gs_status gs_adam(const gs_gaussians *gaussians, const gs_gaussians *gradients,
                  const gs_gaussians *first_moment, const gs_gaussians *second_moment,
                  const gs_adam_rates *rates, int64_t step, gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_REQUIRE(rates, "rates must be given");
    const gs_adam_step what = {gaussians, first_moment, second_moment, *rates, step, nullptr};
    GS_TRY(check_adam(__func__, &what));
    GS_TRY(check_vector(__func__, gaussians, gradients));
    const int64_t count = gaussians->count;
    if (count == 0) return GS_OK;

    const gs_arrays to = gs_arrays_of(gaussians), by = gs_arrays_of(gradients),
                    first = gs_arrays_of(first_moment), second = gs_arrays_of(second_moment);
    const float rate[GS_ARRAYS] = {rates->mean, rates->log_scale, rates->quaternion, rates->opacity_logit,
                                   rates->sh0};
    adam_array groups[GS_ARRAYS];
    for (int a = 0; a < GS_ARRAYS; a++)
        groups[a] = {
            to.of[a], by.of[a], first.of[a], second.of[a], count * to.width[a], to.width[a], to.width[a],
            rate[a],  0};
    groups[4].head_length = GS_CHANNELS; // of sh
    groups[4].rest_rate = rates->shN;
    groups[4].used_length = GS_CHANNELS * rates->sh_coefficients;
    return GS_STATUS(adam_steps(groups, GS_ARRAYS, step, stream));
}

gs_status gs_average(const gs_gaussians *average, const gs_gaussians *sample, int64_t samples,
                     gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_TRY(check_vector(__func__, average, sample));
    GS_REQUIRE(samples >= 1, "samples must be 1 or more");
    const gs_arrays to = gs_arrays_of(average), from = gs_arrays_of(sample);
    for (int a = 0; a < GS_ARRAYS; a++) {
        const int64_t values = average->count * to.width[a];
        GS_CUDA(launch_for(stream, values, average_block, average_kernel, from.of[a], to.of[a], values,
                           float(1 / double(samples))));
    }
    return GS_OK;
}
