// SPDX-License-Identifier: MIT
// Splits of Gaussians that lie on several GPUs, see distwar_gs_share_split.h. Keys have random numbers by the place
// among all, and sorts keep the order of rows, so the result does not depend on how the rows are shared out.
#include "arrays.h"
#include "distwar_gs_share_split.h"
#include "launch.cuh"
#include "density/split.cuh"

using namespace gs;

namespace {

// free_rows[count] = 0: the scan leaves the total there. drawable: 1 number, zero before.
__global__ void __launch_bounds__(density_block)
    draw_kernel(gs_gaussians gaussians, gs_split_rules rules, int64_t first, int64_t *free_rows,
                uint32_t *keys, uint32_t *indices, int64_t *drawable) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    bool can_be_drawn = false;
    if (i <= gaussians.count) {
        const bool lives = living_opacity(gaussians, i, rules.existing, rules.least_opacity) > 0;
        free_rows[i] = i < gaussians.count && !lives;
        if (i < gaussians.count) {
            indices[i] = uint32_t(i);
            keys[i] =
                lives ? split_key(rules.density[2 * i], rules.seed, rules.iteration, first + i) : not_drawn;
            can_be_drawn = keys[i] != not_drawn;
        }
    }
    const int all = __syncthreads_count(can_be_drawn);
    if (threadIdx.x == 0 && all > 0)
        atomicAdd(reinterpret_cast<unsigned long long *>(drawable), (unsigned long long)(all));
}

// keys: sorted.
__global__ void count_kernel(const uint32_t *keys, int64_t count, const uint32_t *bounds, int n,
                             int64_t *below) {
    const int k = int(blockIdx.x) * density_block + int(threadIdx.x);
    if (k >= n) return;
    int64_t low = 0, high = count; // keys before `low` are below, those from `high` on are not
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (keys[middle] < bounds[k])
            low = middle + 1;
        else
            high = middle;
    }
    below[k] = low;
}

struct vector_arrays {
    gs_arrays parameters, first, second;
};

vector_arrays arrays_of(const gs_shared_vectors *v) {
    return {gs_arrays_of(&v->gaussians), gs_arrays_of(&v->first_moment), gs_arrays_of(&v->second_moment)};
}

// Copies row i of the parameters to a record, or back.
__device__ void copy_to_record(const gs_arrays &g, int64_t i, float *record) {
#pragma unroll 1
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int k = 0; k < g.width[a]; k++) *record++ = g.of[a][i * g.width[a] + k];
}
__device__ void copy_from_record(const gs_arrays &g, int64_t i, const float *record) {
#pragma unroll 1
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int k = 0; k < g.width[a]; k++) g.of[a][i * g.width[a] + k] = *record++;
}

__global__ void __launch_bounds__(density_block)
    give_kernel(gs_gaussians gaussians, vector_arrays v, float least_opacity, const uint32_t *keys,
                const uint32_t *rows, gs_split_copies copies, int record) {
    const int64_t k = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (k >= copies.count) return;
    const int64_t row = rows[k];
    copies.keys[k] = keys[k];
    copy_to_record(v.parameters, row, copies.values + k * record);
    place_half(gaussians, row, false, least_opacity);
    clear_moment(v.first, row);
    clear_moment(v.second, row);
}

__global__ void __launch_bounds__(density_block)
    list_kernel(gs_split_copies copies, uint32_t *keys, uint32_t *indices) {
    const int64_t k = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (k < copies.count) keys[k] = copies.keys[k], indices[k] = uint32_t(k);
}

// order: of the copies. before: sums of free rows.
__global__ void __launch_bounds__(density_block)
    take_kernel(gs_gaussians gaussians, vector_arrays v, gs_split_rules rules, const int64_t *before,
                const uint32_t *order, gs_split_copies copies, int record) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count || before[i + 1] == before[i]) return; // living
    const bool taken = before[i] < copies.count;
    if (taken) {
        copy_from_record(v.parameters, i, copies.values + int64_t(order[before[i]]) * record);
        place_half(gaussians, i, true, rules.least_opacity);
    } else if (i >= rules.existing) {
        make_dead(v.parameters, i);
    }
    if (!taken && i < rules.existing) return;
    clear_moment(v.first, i);
    clear_moment(v.second, i);
}

// Places the arrays in `memory` (NULL: nowhere). *bytes: theirs. The sorted order lies in keys[0] and values[0].
gs_status place_arrays(void *memory, int64_t count, sorted_rows *out, size_t *bytes) {
    block_layout layout = {static_cast<char *>(memory), 0};
    GS_TRY(place_sorted_rows(&layout, count, out));
    *bytes = layout.bytes;
    return GS_OK;
}

gs_status check_split(const char *function, const gs_gaussians *gaussians, const gs_shared_split *split,
                      sorted_rows *arrays) {
    GS_TRY(check_parameters(function, gaussians));
    GS_REQUIRE_OF(function, split, "split must be given");
    const gs_split_rules *rules = &split->rules;
    GS_TRY(check_living(function, gaussians->count, rules->existing, rules->least_opacity));
    GS_REQUIRE_OF(function, gaussians->count == 0 || rules->density, "density must be given");
    size_t needed = 0;
    GS_TRY(place_arrays(split->workspace, gaussians->count, arrays, &needed));
    return check_workspace(function, split->workspace, split->workspace_bytes, needed);
}

gs_status check_copies(const char *function, const gs_shared_vectors *v, const gs_shared_split *split,
                       const gs_split_copies *copies, sorted_rows *arrays) {
    GS_REQUIRE_OF(function, v, "Gaussians, and vectors of their shape, must be given");
    GS_TRY(check_split(function, &v->gaussians, split, arrays));
    GS_TRY(check_vector(function, &v->gaussians, &v->first_moment));
    GS_TRY(check_vector(function, &v->gaussians, &v->second_moment));
    GS_REQUIRE_OF(function, copies && copies->count >= 0 && copies->count <= v->gaussians.count,
                  "copies must be given, at most one a row");
    GS_REQUIRE_OF(function, copies->count == 0 || (copies->keys && copies->values),
                  "keys and values must be given");
    return GS_OK;
}

// Sorts `count` pairs into keys[0] and values[0].
gs_status sort_in_place(const sorted_rows &a, int64_t count, gs_stream stream) {
    int selected = 0;
    GS_CUDA(sort_pairs(&a.order, count, 32, &selected, a.scratch, a.scratch_bytes, stream));
    if (selected == 0) return GS_OK;
    const size_t bytes = size_t(count) * sizeof(uint32_t);
    GS_CUDA(cudaMemcpyAsync(a.order.keys[0], a.order.keys[1], bytes, cudaMemcpyDeviceToDevice, stream));
    return GS_STATUS(
        cudaMemcpyAsync(a.order.values[0], a.order.values[1], bytes, cudaMemcpyDeviceToDevice, stream));
}

} // namespace

gs_status gs_share_split_bytes(int64_t count, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(bytes, "bytes must be given");
    sorted_rows unplaced;
    return place_arrays(nullptr, count, &unplaced, bytes);
}

gs_status gs_share_split_draw(const gs_gaussians *gaussians, const gs_shared_split *split, int64_t *totals,
                              gs_stream stream) {
    sorted_rows a;
    GS_TRY(check_split(__func__, gaussians, split, &a));
    GS_REQUIRE(totals, "totals must be given");
    const int64_t count = gaussians->count;
    GS_CUDA(cudaMemsetAsync(totals, 0, 2 * sizeof *totals, stream));
    GS_CUDA(launch_for(stream, count + 1, density_block, draw_kernel, *gaussians, split->rules, split->first,
                       a.before, a.order.keys[0], a.order.values[0], totals + 1));
    GS_CUDA(scan_exclusive(a.before, a.before, count + 1, a.scratch, a.scratch_bytes, stream));
    GS_CUDA(cudaMemcpyAsync(totals, a.before + count, sizeof *totals, cudaMemcpyDeviceToDevice, stream));
    return sort_in_place(a, count, stream);
}

gs_status gs_share_split_count(const gs_gaussians *gaussians, const gs_shared_split *split,
                               const uint32_t *bounds, int32_t n, int64_t *below, gs_stream stream) {
    sorted_rows a;
    GS_TRY(check_split(__func__, gaussians, split, &a));
    GS_REQUIRE(n >= 0 && (n == 0 || (bounds && below)), "bounds and below must be given, and n >= 0");
    return GS_STATUS(launch_for(stream, n, density_block, count_kernel, a.order.keys[0], gaussians->count,
                                bounds, n, below));
}

gs_status gs_share_split_give(const gs_shared_vectors *v, const gs_shared_split *split,
                              const gs_split_copies *copies, gs_stream stream) {
    sorted_rows a;
    GS_TRY(check_copies(__func__, v, split, copies, &a));
    return GS_STATUS(launch_for(stream, copies->count, density_block, give_kernel, v->gaussians, arrays_of(v),
                                split->rules.least_opacity, a.order.keys[0], a.order.values[0], *copies,
                                gs_share_record(&v->gaussians)));
}

gs_status gs_share_split_take(const gs_shared_vectors *v, const gs_shared_split *split,
                              const gs_split_copies *copies, gs_stream stream) {
    sorted_rows a;
    GS_TRY(check_copies(__func__, v, split, copies, &a));
    GS_CUDA(launch_for(stream, copies->count, density_block, list_kernel, *copies, a.order.keys[0],
                       a.order.values[0]));
    GS_TRY(sort_in_place(a, copies->count, stream));
    return GS_STATUS(launch_for(stream, v->gaussians.count, density_block, take_kernel, v->gaussians,
                                arrays_of(v), split->rules, a.before, a.order.values[0], *copies,
                                gs_share_record(&v->gaussians)));
}
