// SPDX-License-Identifier: MIT
// Adam over all parameters of the Gaussians, with a rate of its own for SH's constant term; Adam over some rows of any
// arrays; and the mean of the parameters over several steps. Reads gradients, steps parameters and moments in place.
// The step that is fused with the projection's adjoint: project_backward.cu. docs/developers/math.md, section 6.
#include "arrays.h"
#include "context.h"
#include <gpu/adam.cuh>

namespace {

constexpr int average_block = 256;

__global__ void __launch_bounds__(average_block)
    average_kernel(const float *sample, float *average, int64_t values, float weight) {
    const int64_t i = int64_t(blockIdx.x) * average_block + threadIdx.x;
    if (i >= values) return;
    average[i] = weight == 1 ? sample[i] : average[i] + weight * (sample[i] - average[i]);
}

} // namespace

gs_status gs_adam_rows(const gs_adam_rows_step *step, gs_context *context) {
    GS_REQUIRE(step && step->array, "step and its arrays must be given");
    GS_TRY(check_count(__func__, step->count));
    GS_REQUIRE(step->array_count >= 1 && step->array_count <= GS_ADAM_ARRAYS, "array_count must be in 1..8");
    GS_REQUIRE(step->beta1 >= 0 && step->beta1 < 1 && step->beta2 >= 0 && step->beta2 < 1 &&
                   valid_rate(step->epsilon),
               "beta1 and beta2 must be in [0, 1), epsilon finite and not negative");
    adam_array arrays[GS_ADAM_ARRAYS];
    for (int i = 0; i < step->array_count; i++) {
        const gs_adam_array &a = step->array[i];
        GS_REQUIRE(a.width >= 1 && a.width <= INT32_MAX - ADAM_BLOCK_VALUES && valid_rate(a.rate),
                   "width must be 1 or more, rate finite and not negative");
        GS_REQUIRE(step->count == 0 || (a.value && a.gradient && a.first_moment && a.second_moment),
                   "arrays must be given");
        arrays[i] = {a.value, a.gradient, a.first_moment, a.second_moment, step->count * a.width,
                     a.width, a.width,    a.rate,         a.rate};
    }
    const adam_factors factors = {float(step->beta1),     float(1 - step->beta1), float(step->beta2),
                                  float(1 - step->beta2), step->epsilon,          step->visible};
    return GS_STATUS(adam_steps(arrays, step->array_count, factors, stream_of(context)));
}

gs_status gs_adam(const gs_gaussians *gaussians, const gs_gaussians *gradients,
                  const gs_gaussians *first_moment, const gs_gaussians *second_moment,
                  const gs_adam_rates *rates, int64_t step, gs_context *context) {
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
    return GS_STATUS(adam_steps(groups, GS_ARRAYS, adam_correction_at(step), stream_of(context)));
}

gs_status gs_average(const gs_gaussians *average, const gs_gaussians *sample, int64_t samples,
                     gs_context *context) {
    GS_TRY(check_vector(__func__, average, sample));
    GS_REQUIRE(samples >= 1, "samples must be 1 or more");
    const gs_arrays to = gs_arrays_of(average), from = gs_arrays_of(sample);
    for (int a = 0; a < GS_ARRAYS; a++) {
        const int64_t values = average->count * to.width[a];
        GS_CUDA(launch_for(stream_of(context), values, average_block, average_kernel, from.of[a], to.of[a],
                           values, float(1 / double(samples))));
    }
    return GS_OK;
}
