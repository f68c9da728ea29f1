// SPDX-License-Identifier: MIT
// Density control by splits of Gaussians that are drawn by a weight, see distwar_gs_split.h. A prefix sum numbers the
// rows that are free and a sort orders the draws, so the result does not depend on the order of threads.
#include "arrays.h"
#include "distwar_gs_split.h"
#include "launch.cuh"
#include "split.cuh"

using namespace gs;

namespace {

// free_rows[count] = 0: the scan leaves the total there.
__global__ void __launch_bounds__(density_block)
    draw_kernel(gs_gaussians gaussians, gs_split_rules rules, int64_t *free_rows, uint32_t *keys,
                uint32_t *indices) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i > gaussians.count) return;
    const bool lives = living_opacity(gaussians, i, rules.existing, rules.least_opacity) > 0;
    free_rows[i] = i < gaussians.count && !lives;
    if (i == gaussians.count) return;
    indices[i] = uint32_t(i);
    keys[i] = lives ? split_key(rules.density[2 * i], rules.seed, rules.iteration, i) : not_drawn;
}

// The drawn Gaussian number k goes to the free row number k. source[i]: the Gaussian that row i is a half of;
// i if it is of none.
__global__ void __launch_bounds__(density_block)
    follow_kernel(gs_arrays g, int64_t count, int64_t existing, const int64_t *before, const uint32_t *keys,
                  const uint32_t *indices, uint32_t *source) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= count) return;
    source[i] = uint32_t(i);
    if (before[i + 1] == before[i]) return; // living
    if (keys[before[i]] != not_drawn) {
        source[i] = indices[before[i]];
        copy_row(g, source[i], i);
    } else if (i >= existing) {
        make_dead(g, i);
    }
}

// Splits the drawn Gaussians. Each is drawn once at most, so a thread has both rows to itself.
__global__ void __launch_bounds__(density_block)
    split_kernel(gs_gaussians g, gs_arrays first, gs_arrays second, gs_split_rules rules,
                 const uint32_t *source) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= g.count) return;
    const int64_t from = source[i];
    if (from != i) {
        place_half(g, from, false, rules.least_opacity);
        place_half(g, i, true, rules.least_opacity);
        clear_moment(first, from);
        clear_moment(second, from);
    }
    if (from != i || i >= rules.existing) {
        clear_moment(first, i);
        clear_moment(second, i);
    }
}

// The arrays in gs_split's workspace.
struct split_arrays {
    sorted_rows rows;
    uint32_t *source;
};

// Places them in `memory` (NULL: nowhere). *bytes: theirs.
gs_status place_arrays(void *memory, int64_t count, split_arrays *out, size_t *bytes) {
    block_layout layout = {static_cast<char *>(memory), 0};
    GS_TRY(place_sorted_rows(&layout, count, &out->rows));
    layout_add(&layout, size_t(count), &out->source);
    *bytes = layout.bytes;
    return GS_OK;
}

} // namespace

gs_status gs_split_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    split_arrays unplaced;
    return place_arrays(nullptr, count, &unplaced, bytes);
}

gs_status gs_split(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                   const gs_gaussians *second_moment, const gs_split_rules *rules, void *workspace,
                   size_t workspace_bytes, gs_stream stream) {
    GS_TRY(check_vector(__func__, gaussians, first_moment));
    GS_TRY(check_vector(__func__, gaussians, second_moment));
    GS_REQUIRE(rules, "rules must be given");
    const int64_t count = gaussians->count;
    GS_TRY(check_living(__func__, count, rules->existing, rules->least_opacity));
    GS_REQUIRE(count == 0 || rules->density, "density must be given");
    split_arrays a;
    size_t needed;
    GS_TRY(place_arrays(workspace, count, &a, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));

    const sorted_rows &d = a.rows;
    int selected;
    GS_CUDA(launch_for(stream, count + 1, density_block, draw_kernel, *gaussians, *rules, d.before,
                       d.order.keys[0], d.order.values[0]));
    GS_CUDA(scan_exclusive(d.before, d.before, count + 1, d.scratch, d.scratch_bytes, stream));
    GS_CUDA(sort_pairs(&d.order, count, 32, &selected, d.scratch, d.scratch_bytes, stream));
    GS_CUDA(launch_for(stream, count, density_block, follow_kernel, gs_arrays_of(gaussians), count,
                       rules->existing, d.before, d.order.keys[selected], d.order.values[selected],
                       a.source));
    return GS_STATUS(launch_for(stream, count, density_block, split_kernel, *gaussians,
                                gs_arrays_of(first_moment), gs_arrays_of(second_moment), *rules, a.source));
}
