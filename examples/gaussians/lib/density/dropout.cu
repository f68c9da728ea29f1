// SPDX-License-Identifier: MIT
// Opacities of which a random share is left out for a step (docs/developers/math.md, section 6).
#include "check.h"
#include "density.cuh"
#include "distwar_gs_density.h"
#include "launch.cuh"

using namespace gs;

namespace {

constexpr float unseen_logit = -20, most_opacity = 0.9999f;

__global__ void __launch_bounds__(density_block)
    dropout_kernel(const float *from, int64_t count, int64_t first, float share, uint64_t seed,
                   uint64_t iteration, float *logits) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= count) return;
    random_stream random = random_at(seed, RANDOM_DROPOUT, iteration, uint64_t(first + i));
    const float u = float(random_bits(&random) >> 40) * 0x1p-24f; // 0 <= u < 1
    const float opacity = fminf(sigmoid(from[i]) / (1 - share), most_opacity);
    logits[i] = u < share ? unseen_logit : logf(opacity) - log1pf(-opacity);
}

} // namespace

gs_status gs_dropout(const gs_gaussians *gaussians, int64_t first, float share, uint64_t seed,
                     uint64_t iteration, float *logits, gs_stream stream) {
    GS_TRY(check_parameters(__func__, gaussians));
    GS_REQUIRE(first >= 0, "first must not be negative");
    GS_REQUIRE(share >= 0 && share <= 0.9f, "share must be in 0..0.9");
    GS_REQUIRE(gaussians->count == 0 || logits, "logits must be given");
    return GS_STATUS(launch_for(stream, gaussians->count, density_block, dropout_kernel,
                                gaussians->opacity_logit, gaussians->count, first, share, seed, iteration,
                                logits));
}
