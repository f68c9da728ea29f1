// SPDX-License-Identifier: MIT
// Density control by the screen-space gradient (Kerbl et al. 2023): prune, clone, split, opacity reset.
// Prefix sums give the places in the new arrays, so the result does not depend on the order of threads.
#include "arrays.h"
#include "density.cuh"
#include "distwar_gs_density.h"
#include "launch.cuh"
#include <float.h>
#include <math.h>

using namespace gs;

namespace {

constexpr uint32_t newborn = 1u << 31;
constexpr uint32_t not_growing = UINT32_MAX; // key of Gaussians that do not grow: sorts last

// The value is the number of rows that the Gaussian becomes, except SPLIT, which becomes two as well.
enum action : uint8_t { PRUNE = 0, KEEP = 1, CLONE = 2, SPLIT = 3 };

__device__ int rows_of(uint8_t action) {
    return action == SPLIT ? 2 : action;
}

__global__ void __launch_bounds__(density_block)
    accumulate_kernel(const gs_splat *splats, const float2 *mean2d_gradient, int64_t count, int views,
                      int width, int height, float2 *density) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= count) return;
    float2 sums = density[i];
    const float seen_before = sums.y;
    for (int64_t of_view = i; of_view < views * count; of_view += count) {
        if (splat_radius(splats[of_view], width, height) == 0) continue;
        const float2 g = mean2d_gradient[of_view];
        sums.x += sqrtf(g.x * g.x + g.y * g.y);
        sums.y += 1;
    }
    if (sums.y != seen_before) density[i] = sums;
}

__device__ float mean_gradient(const float2 &sums) {
    return sums.y > 0 ? sums.x / sums.y : 0;
}

// The comparisons are false for NaN: such a Gaussian is pruned or does not grow.
__global__ void __launch_bounds__(density_block)
    choose_kernel(gs_gaussians gaussians, const float2 *density, gs_density_rules rules, uint8_t *actions) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float size = largest_scale(gaussians, i);
    const bool grows = mean_gradient(density[i]) >= rules.gradient_threshold;
    const bool splits = grows && size > rules.split_size;
    const float size_after = splits ? size / rules.split_factor : size;
    const bool small_enough = rules.most_size == 0 ? isfinite(size_after) : size_after <= rules.most_size;
    const bool stays = sigmoid(gaussians.opacity_logit[i]) >= rules.least_opacity && small_enough;
    actions[i] = !stays ? PRUNE : splits ? SPLIT : grows ? CLONE : KEEP;
}

// rows[count] = 0: the scan leaves the total there.
__global__ void __launch_bounds__(density_block)
    count_rows_kernel(const uint8_t *actions, int64_t count, int64_t *rows) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i <= count) rows[i] = i < count ? rows_of(actions[i]) : 0;
}

// Sort keys by gradient for Gaussians that grow. Positive floats order as their bits do.
__global__ void __launch_bounds__(density_block)
    rank_kernel(const uint8_t *actions, const float2 *density, int64_t count, uint32_t *keys,
                uint32_t *indices) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= count) return;
    keys[i] = actions[i] >= CLONE ? __float_as_uint(mean_gradient(density[i])) : not_growing;
    indices[i] = uint32_t(i);
}

__global__ void __launch_bounds__(density_block)
    keep_kernel(const uint32_t *keys, const uint32_t *indices, int64_t count, uint8_t *actions) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i < count && keys[i] != not_growing) actions[indices[i]] = KEEP;
}

__global__ void __launch_bounds__(density_block)
    source_kernel(const uint8_t *actions, const int64_t *begin, int64_t count, uint32_t *source) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= count || actions[i] == PRUNE) return;
    source[begin[i]] = uint32_t(i) | (actions[i] == SPLIT ? newborn : 0);
    if (actions[i] >= CLONE) source[begin[i] + 1] = uint32_t(i) | newborn;
}

// A block moves whole rows of an array.
__global__ void __launch_bounds__(density_block)
    move_kernel(const gs_density_plan plan, int row_length, bool zero_newborns, const float *from,
                float *to) {
    const int rows = density_block / row_length, row = threadIdx.x / row_length;
    const int64_t i = int64_t(blockIdx.x) * rows + row;
    if (row >= rows || i >= plan.count_after) return;
    const int column = threadIdx.x - row * row_length;
    const uint32_t s = plan.source[plan.first_after + i];
    to[i * row_length + column] =
        zero_newborns && (s & newborn) ? 0 : from[(int64_t(s & ~newborn) - plan.first) * row_length + column];
}

__global__ void __launch_bounds__(density_block)
    place_split_kernel(gs_density_plan plan, gs_density_rules rules, gs_gaussians gaussians) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    const int64_t of_all = plan.first_after + i;
    if (i >= plan.count_after || plan.action[plan.source[of_all] & ~newborn] != SPLIT) return;
    float n[3], rotation[3][3];
    draw_normal(random_at(rules.seed, RANDOM_SPLIT, rules.iteration, uint64_t(of_all)), n);
    rotation_of(gaussians, i, rotation);
    float *scale = gaussians.log_scale + 3 * i;
    for (int k = 0; k < 3; k++) n[k] *= expf(scale[k]);
    for (int k = 0; k < 3; k++) {
        gaussians.mean[3 * i + k] += rotation[k][0] * n[0] + rotation[k][1] * n[1] + rotation[k][2] * n[2];
        scale[k] -= logf(rules.split_factor);
    }
}

__global__ void __launch_bounds__(density_block)
    reset_kernel(gs_gaussians gaussians, gs_gaussians first, gs_gaussians second, float most_logit) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count) return;
    gaussians.opacity_logit[i] = fminf(gaussians.opacity_logit[i], most_logit);
    first.opacity_logit[i] = 0;
    second.opacity_logit[i] = 0;
}

// The arrays in gs_density_plan_step's workspace.
struct plan_arrays {
    uint8_t *action;
    uint32_t *source;
    sorted_rows rows; // by key
};

// Places them in `memory` (NULL: nowhere). *bytes: theirs.
gs_status place_arrays(void *memory, int64_t count, plan_arrays *out, size_t *bytes) {
    block_layout layout = {static_cast<char *>(memory), 0};
    layout_add(&layout, size_t(count), &out->action);
    layout_add(&layout, 2 * size_t(count), &out->source);
    GS_TRY(place_sorted_rows(&layout, count, &out->rows));
    *bytes = layout.bytes;
    return GS_OK;
}

bool valid(const gs_density_rules *r) {
    return r->gradient_threshold >= 0 && r->split_size >= 0 && r->split_factor >= 1 &&
           r->split_factor <= FLT_MAX && r->least_opacity >= 0 && r->most_size >= 0 && r->most_gaussians >= 0;
}

// Exclusive prefix sums of the actions' row counts; *total: the sum of all. Waits for the stream.
gs_status place_rows(const plan_arrays &a, int64_t count, int64_t *total, gs_stream stream) {
    int64_t *const before = a.rows.before;
    GS_CUDA(launch_for(stream, count + 1, density_block, count_rows_kernel, a.action, count, before));
    GS_CUDA(scan_exclusive(before, before, count + 1, a.rows.scratch, a.rows.scratch_bytes, stream));
    GS_CUDA(cudaMemcpyAsync(total, before + count, sizeof *total, cudaMemcpyDeviceToHost, stream));
    return GS_STATUS(cudaStreamSynchronize(stream));
}

} // namespace

gs_status gs_density_accumulate(const gs_view *view, const float *mean2d, float *density, gs_stream stream) {
    GS_TRY(check_extent(__func__, view));
    const int64_t count = view->gaussians.count;
    GS_REQUIRE(count == 0 || (view->splats && mean2d && density), "splats, mean2d and density must be given");
    return GS_STATUS(launch_for(stream, count, density_block, accumulate_kernel, view->splats,
                                reinterpret_cast<const float2 *>(mean2d), count, view_count(view),
                                view->camera.width, view->camera.height,
                                reinterpret_cast<float2 *>(density)));
}

gs_status gs_density_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    plan_arrays unplaced;
    return place_arrays(nullptr, count, &unplaced, bytes);
}

gs_status gs_density_plan_step(const gs_gaussians *gaussians, const float *density,
                               const gs_density_rules *rules, void *workspace, size_t workspace_bytes,
                               gs_density_plan *plan, gs_stream stream) {
    GS_TRY(check_parameters(__func__, gaussians));
    GS_REQUIRE(rules && valid(rules), "rules must be given and in their ranges");
    GS_REQUIRE(plan, "plan must be given");
    const int64_t count = gaussians->count;
    plan_arrays a;
    size_t needed;
    GS_TRY(place_arrays(workspace, count, &a, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));
    GS_REQUIRE(count == 0 || density, "density must be given");

    const float2 *sums = reinterpret_cast<const float2 *>(density);
    const unsigned blocks = blocks_for(count, density_block);
    int64_t total;
    GS_CUDA(launch(stream, blocks, density_block, choose_kernel, *gaussians, sums, *rules, a.action));
    GS_TRY(place_rows(a, count, &total, stream));
    if (rules->most_gaussians > 0 && total > rules->most_gaussians) {
        int selected;
        const int64_t excess = total - rules->most_gaussians, first = excess < count ? excess : count;
        GS_CUDA(launch(stream, blocks, density_block, rank_kernel, a.action, sums, count,
                       a.rows.order.keys[0], a.rows.order.values[0]));
        GS_CUDA(
            sort_pairs(&a.rows.order, count, 32, &selected, a.rows.scratch, a.rows.scratch_bytes, stream));
        GS_CUDA(launch_for(stream, first, density_block, keep_kernel, a.rows.order.keys[selected],
                           a.rows.order.values[selected], first, a.action));
        GS_TRY(place_rows(a, count, &total, stream));
    }
    GS_REQUIRE(total < INT32_MAX, "there would be more than 2^31 - 2 Gaussians");
    GS_CUDA(launch(stream, blocks, density_block, source_kernel, a.action, a.rows.before, count, a.source));
    *plan = {count, total, 0, 0, a.action, a.source, a.rows.before};
    return GS_OK;
}

gs_status gs_density_move(const gs_density_plan *plan, const gs_density_rules *rules, int moments,
                          const gs_gaussians *from, const gs_gaussians *to, gs_stream stream) {
    GS_REQUIRE(plan && rules && valid(rules), "plan and rules must be given");
    GS_TRY(check_parameters(__func__, from));
    GS_TRY(check_parameters(__func__, to));
    GS_REQUIRE(from->count == plan->count && to->count == plan->count_after &&
                   from->sh_degree == to->sh_degree,
               "count or sh_degree of from or to does not fit the plan");
    const gs_arrays source = gs_arrays_of(from), target = gs_arrays_of(to);
    for (int a = 0; a < GS_ARRAYS; a++)
        GS_CUDA(launch(stream, blocks_for(to->count, density_block / source.width[a]), density_block,
                       move_kernel, *plan, source.width[a], moments != 0, source.of[a], target.of[a]));
    if (!moments)
        GS_CUDA(launch_for(stream, to->count, density_block, place_split_kernel, *plan, *rules, *to));
    return GS_OK;
}

gs_status gs_opacity_reset(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                           const gs_gaussians *second_moment, float most, gs_stream stream) {
    GS_REQUIRE(gaussians && first_moment && second_moment, "gaussians and moments must be given");
    GS_REQUIRE(!gaussians->activated, "activated opacities are taken by gs_project alone");
    GS_REQUIRE(most > 0 && most < 1, "most must be between 0 and 1");
    const int64_t count = gaussians->count;
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(first_moment->count == count && second_moment->count == count,
               "count of gaussians and moments differ");
    GS_REQUIRE(count == 0 ||
                   (gaussians->opacity_logit && first_moment->opacity_logit && second_moment->opacity_logit),
               "opacity_logit must be given");
    return GS_STATUS(launch_for(stream, count, density_block, reset_kernel, *gaussians, *first_moment,
                                *second_moment, float(log(double(most) / (1 - double(most))))));
}
