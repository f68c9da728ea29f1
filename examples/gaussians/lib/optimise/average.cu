// SPDX-License-Identifier: MIT
// The mean of the parameters over several steps (docs/developers/math.md, section 6).
#include "arrays.h"
#include "check.h"
#include "launch.cuh"

namespace {

constexpr int average_block = 256;

__global__ void __launch_bounds__(average_block)
    average_kernel(const float *sample, float *average, int64_t values, float weight) {
    const int64_t i = int64_t(blockIdx.x) * average_block + threadIdx.x;
    if (i >= values) return;
    average[i] = weight == 1 ? sample[i] : average[i] + weight * (sample[i] - average[i]);
}

} // namespace

gs_status gs_average(const gs_gaussians *average, const gs_gaussians *sample, int64_t samples,
                     gs_stream stream) {
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
