// SPDX-License-Identifier: MIT
// Scores of Gaussians by what they contribute to views, and the end of those that contribute least, see
// distwar_gs_split.h.
#include "check.h"
#include "density.cuh"
#include "distwar_gs_split.h"
#include "launch.cuh"

using namespace gs;

namespace {

__global__ void __launch_bounds__(density_block)
    score_kernel(const gs_moments *moments, int64_t count, float *score) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i < count) score[i] = fmaxf(score[i], moments[i].color[0]);
}

// Floats that are not negative order as their bits do.
__global__ void __launch_bounds__(density_block)
    rank_scores_kernel(const float *score, int64_t count, uint32_t *keys, uint32_t *indices) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= count) return;
    keys[i] = score[i] > 0 ? __float_as_uint(score[i]) : 0;
    indices[i] = uint32_t(i);
}

__global__ void __launch_bounds__(density_block)
    retire_kernel(gs_gaussians gaussians, const uint32_t *sorted_keys, const uint32_t *indices, float part) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    const float upper_quartile = __uint_as_float(sorted_keys[(gaussians.count - 1) * 3 / 4]);
    if (i < gaussians.count && __uint_as_float(sorted_keys[i]) <= part * upper_quartile)
        gaussians.opacity_logit[indices[i]] = -20; // as a dead row of density.cuh
}

struct score_arrays {
    sort_arrays order; // values: indices
    void *scratch;
    size_t scratch_bytes;
};

// Places them in `memory` (NULL: nowhere). *bytes: theirs.
gs_status place_arrays(void *memory, int64_t count, score_arrays *out, size_t *bytes) {
    GS_CUDA(sort_pairs_bytes(count, &out->scratch_bytes));
    block_layout layout = {static_cast<char *>(memory), 0};
    for (int i = 0; i < 2; i++) {
        layout_add(&layout, size_t(count), &out->order.keys[i]);
        layout_add(&layout, size_t(count), &out->order.values[i]);
    }
    out->scratch = layout_add(&layout, out->scratch_bytes);
    *bytes = layout.bytes;
    return GS_OK;
}

} // namespace

gs_status gs_score_add(const gs_moments *moments, int64_t count, float *score, gs_stream stream) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(count == 0 || (moments && score), "moments and score must be given");
    return GS_STATUS(launch_for(stream, count, density_block, score_kernel, moments, count, score));
}

gs_status gs_retire_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    score_arrays unplaced;
    return place_arrays(nullptr, count, &unplaced, bytes);
}

gs_status gs_retire(const gs_gaussians *gaussians, const float *score, float part, void *workspace,
                    size_t workspace_bytes, gs_stream stream) {
    GS_TRY(check_parameters(__func__, gaussians));
    const int64_t count = gaussians->count;
    GS_REQUIRE(count == 0 || score, "score must be given");
    GS_REQUIRE(part >= 0 && part <= 1, "part must be in 0..1");
    score_arrays a;
    size_t needed;
    GS_TRY(place_arrays(workspace, count, &a, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));
    int selected;
    GS_CUDA(launch_for(stream, count, density_block, rank_scores_kernel, score, count, a.order.keys[0],
                       a.order.values[0]));
    GS_CUDA(sort_pairs(&a.order, count, 32, &selected, a.scratch, a.scratch_bytes, stream));
    return GS_STATUS(launch_for(stream, count, density_block, retire_kernel, *gaussians,
                                a.order.keys[selected], a.order.values[selected], part));
}
