// SPDX-License-Identifier: MIT
// What several views agree on: a score for growth that noise of single views does not raise (math.md, section 9).
#include "density.cuh"
#include "distwar_gs_split.h"
#include "launch.cuh"

using namespace gs;

namespace {

constexpr int groups = GS_AGREEMENT_GROUPS;

struct view_groups {
    int count, of[GS_MAX_VIEWS];
};

__global__ void __launch_bounds__(density_block)
    add_kernel(const float *tilt, int64_t count, const view_groups views, float *sums) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= count) return;
    for (int v = 0; v < views.count; v++)
        for (int c = 0; c < GS_CHANNELS; c++)
            sums[i * GS_AGREEMENT_ROW + views.of[v] * GS_CHANNELS + c] +=
                tilt[(v * count + i) * GS_CHANNELS + c];
}

// In double precision: products of two products of gradients are below the range of float.
__global__ void __launch_bounds__(density_block)
    weigh_kernel(const gs_gaussians gaussians, const gs_agreement_rules rules, float *sums,
                 unsigned long long *counts) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    bool agrees = false, by_chance = false;
    if (i < gaussians.count) {
        random_stream random =
            random_at(rules.seed, RANDOM_SIGNS, rules.iteration, uint64_t(rules.first + i));
        const uint64_t signs = random_bits(&random);
        double sum = 0, squares = 0, flipped = 0;
        float *const row = sums + i * GS_AGREEMENT_ROW;
#pragma unroll 1
        for (int g = 1; g < groups; g++)
            for (int h = 0; h < g; h++) {
                double product = 0;
                for (int c = 0; c < GS_CHANNELS; c++)
                    product += double(row[g * GS_CHANNELS + c]) * double(row[h * GS_CHANNELS + c]);
                sum += product;
                squares += product * product;
                flipped += (signs >> g ^ signs >> h) & 1 ? -product : product;
            }
        const double chance = double(rules.errors) * sqrt(squares);
        const bool lives = living_opacity(gaussians, i, rules.existing, rules.least_opacity) > 0;
        agrees = lives && sum > chance;
        by_chance = lives && flipped > chance;
        row[0] = agrees ? float(sqrt(sum - chance)) : 0;
    }
    const int all = __syncthreads_count(agrees), all_by_chance = __syncthreads_count(by_chance);
    if (threadIdx.x != 0) return;
    atomicAdd(counts, (unsigned long long)(all));
    atomicAdd(counts + 1, (unsigned long long)(all_by_chance));
}

} // namespace

gs_status gs_agreement_add(const float *tilt, int64_t count, const int32_t *groups_of, int32_t views,
                           float *sums, gs_stream stream) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(views >= 0 && views <= GS_MAX_VIEWS, "views must be in 0..32");
    GS_REQUIRE(views == 0 || (groups_of && (count == 0 || (tilt && sums))),
               "tilt, groups and sums must be given");
    view_groups in = {views, {}};
    for (int v = 0; v < views; v++) {
        in.of[v] = groups_of[v];
        GS_REQUIRE(in.of[v] >= 0 && in.of[v] < groups, "groups must be in 0..7");
    }
    return GS_STATUS(launch_for(stream, count, density_block, add_kernel, tilt, count, in, sums));
}

gs_status gs_agreement_weigh(const gs_gaussians *gaussians, const gs_agreement_rules *rules, float *sums,
                             int64_t *counts, gs_stream stream) {
    GS_TRY(check_parameters(__func__, gaussians));
    GS_REQUIRE(rules, "rules must be given");
    GS_TRY(check_living(__func__, gaussians->count, rules->existing, rules->least_opacity));
    GS_REQUIRE(rules->errors >= 0, "errors must not be negative");
    GS_REQUIRE((gaussians->count == 0 || sums) && counts, "sums and counts must be given");
    return GS_STATUS(launch_for(stream, gaussians->count, density_block, weigh_kernel, *gaussians, *rules,
                                sums, reinterpret_cast<unsigned long long *>(counts)));
}
