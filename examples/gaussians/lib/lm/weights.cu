// SPDX-License-Identifier: MIT
// The residuals of a picture and their slopes, reduced to a weight and a gradient for each value
// (docs/developers/math.md, section 8).
#include "check.h"
#include "distwar_gs_lm.h"
#include "image/ssim.cuh"
#include <distwar/reduce.cuh>

using namespace gs;

namespace {

// Sums over the residuals of one value of a picture: r^2, slope^2, r slope.
struct residuals {
    float square, weight, gradient;
};

// The residuals are r = sqrt(A u) for u = |c - t| + epsilon and for u = 1 - SSIM + epsilon. The slope is
// A u' / (2 r), its square A u'^2 / (4 u), and r slope = A u' / 2. At c = t the first residual has slopes +-s
// on the two sides: the gradient counts 0, the weight counts s^2, which holds the pixel at its colour.
__device__ residuals l1_ssim_residuals(float c, float t, float ssim, const derivatives &d, float epsilon) {
    constexpr float of_l1 = float(L1_WEIGHT), of_ssim = float(SSIM_WEIGHT);
    const float centre = window[RADIUS] * window[RADIUS];
    const float d_centre = -centre * (d.m + 2 * (c - t) * d.p + t * d.s); // derivative of 1 - SSIM
    const float difference = fabsf(c - t) + epsilon, dissimilarity = fmaxf(1 - ssim, 0.0f) + epsilon;
    const float sign = float(c > t) - float(c < t);
    return {of_l1 * difference + of_ssim * dissimilarity,
            0.25f * (of_l1 / difference + of_ssim * d_centre * d_centre / dissimilarity),
            0.5f * (of_l1 * sign + of_ssim * d_centre)};
}

// weight and gradient: NULL, or written.
template <bool masked>
__global__ void __launch_bounds__(TILE *STEP)
    weights_kernel(images in, float epsilon, double *result, float *weight, float *gradient) {
    __shared__ double block_sum[1]; // little: the window's memory nearly fills what a block may have
    const int thread = threadIdx.y * TILE + threadIdx.x;
    if (thread == 0) block_sum[0] = 0;
    double sum[1] = {};
    for_each_value<masked>(in, int(blockIdx.z),
                           [&](int64_t i, float c, float t, const similarity &like, const derivatives &d,
                               const window_share &share) {
                               residuals r = l1_ssim_residuals(c, t, like.ssim, d, epsilon);
                               if (masked && !share.counts) r = {0, 0, 0};
                               sum[0] += r.square;
                               if (weight) weight[i] = r.weight;
                               if (gradient) gradient[i] = r.gradient;
                           });
    distwar::reduce_bfly(distwar::all_lanes, true, 0, sum, distwar::record<double>{block_sum, 1});
    __syncthreads();
    if (thread == 0) atomicAdd(result, block_sum[0]);
}

} // namespace

gs_status gs_lm_weights(const gs_comparison *compared, float epsilon, double *result, float *weight,
                        float *gradient, gs_stream stream) {
    GS_TRY(check_comparison(__func__, compared));
    GS_REQUIRE(result && !weight == !gradient,
               "result must be given, weight and gradient both or neither of them");
    GS_REQUIRE(epsilon > 0 && epsilon <= 1, "epsilon must be in (0, 1]");
    GS_CUDA(cudaMemsetAsync(result, 0, sizeof *result, stream));
    return GS_STATUS(launch(stream, grid_of(compared->width, compared->height), dim3(TILE, STEP),
                            compared->mask ? weights_kernel<true> : weights_kernel<false>,
                            images_of(*compared), epsilon, result, weight, gradient));
}
