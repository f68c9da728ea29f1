// SPDX-License-Identifier: MIT
// Kernels of density control in parts (kernels.h). Random numbers go by the place among all, sums are integers, and sorts keep
// the order of rows, so the result does not depend on how the rows are shared out.
#include "arrays.h"
#include "density/relocate.cuh"
#include "density/split.cuh"
#include "kernels.h"
#include "partition.cuh"

using namespace gs;

namespace {

struct vector_arrays {
    gs_arrays parameters, first, second;
    int record; // floats of a row of the parameters
};

vector_arrays arrays_of(const part_vectors *v) {
    return {gs_arrays_of(&v->gaussians), gs_arrays_of(&v->first_moment), gs_arrays_of(&v->second_moment),
            parts_record(&v->gaussians)};
}

__device__ void clear_moments(const vector_arrays &v, int64_t i) {
    clear_moment(v.first, i);
    clear_moment(v.second, i);
}

// Copies row i of the parameters to a record, or back.
__device__ void copy_to_record(const vector_arrays &v, int64_t i, float *record) {
    const gs_arrays &g = v.parameters;
#pragma unroll 1
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int k = 0; k < g.width[a]; k++) *record++ = g.of[a][i * g.width[a] + k];
}
__device__ void copy_from_record(const vector_arrays &v, int64_t i, const float *record) {
    const gs_arrays &g = v.parameters;
#pragma unroll 1
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int k = 0; k < g.width[a]; k++) g.of[a][i * g.width[a] + k] = *record++;
}

// ---- relocation

// The dead and new rows of this rank, among the ranks that have the Gaussians which they copy.
struct draws_of_rows {
    struct item {
        int rank;   // -1: the row is living or nothing can be drawn
        int64_t at; // in the sums of weights of that rank
    };
    int64_t count, first;
    uint64_t seed, iteration;
    const int64_t *before; // sums of this rank's weights
    int groups;
    int64_t weight_begin[RANKS_MAX + 1]; // of part_relocation
    uint32_t *row;                       // of part_draws
    int64_t *at;

    // Draws the living row whose place the row takes.
    __device__ item load(int64_t i) const {
        const int64_t total = weight_begin[groups];
        if (i >= count || before[i + 1] > before[i] || total == 0) return {-1, 0};
        random_stream random = random_at(seed, RANDOM_RELOCATION, iteration, uint64_t(first + i));
        const int64_t drawn = int64_t(random_bits(&random) % uint64_t(total));
        const int rank = int(row_at(weight_begin, groups, drawn));
        return {rank, drawn - weight_begin[rank]};
    }
    __device__ bool may_have(int) const { return true; }
    __device__ bool has(const item &of, int rank) const { return of.rank == rank; }
    __device__ void put(const item &of, int64_t i, int64_t place) const {
        row[place] = uint32_t(i), at[place] = of.at;
    }
};

struct relocation_memory {
    relocation_arrays own;
    partition draws;
};

gs_status place_memory(void *memory, int64_t count, int32_t ranks, relocation_memory *out, size_t *bytes) {
    size_t own_bytes = 0;
    GS_TRY(place_relocation(memory, count, &out->own, &own_bytes));
    block_layout layout = {static_cast<char *>(memory), own_bytes};
    GS_TRY(place_partition(&layout, count, ranks, &out->draws));
    *bytes = layout.bytes;
    return GS_OK;
}

relocation_memory memory_of(const gs_gaussians *gaussians, const part_relocation *r) {
    relocation_memory out = {};
    size_t bytes;
    place_memory(r->workspace, gaussians->count, r->ranks, &out, &bytes);
    return out;
}

draws_of_rows items_of(const gs_gaussians *gaussians, const part_relocation *r, const part_draws *draws) {
    draws_of_rows out = {};
    out.count = gaussians->count, out.first = r->first;
    out.seed = r->rules.seed, out.iteration = r->rules.iteration;
    out.before = memory_of(gaussians, r).own.weights;
    out.groups = r->ranks;
    for (int g = 0; g <= r->ranks; g++) out.weight_begin[g] = r->weight_begin[g];
    if (draws) out.row = draws->row, out.at = draws->at;
    return out;
}

// Turns places in the sums of weights into rows. The sums end with the total.
__global__ void __launch_bounds__(density_block)
    find_rows_kernel(int64_t count, const int64_t *before, part_draws draws, uint32_t *sharing) {
    const int64_t k = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (k >= draws.count) return;
    const int64_t row = row_at(before, count, draws.at[k]);
    draws.at[k] = row;
    atomicAdd(&sharing[row], 1u);
}

__global__ void __launch_bounds__(density_block) answer_kernel(vector_arrays v, part_draws draws) {
    const int64_t k = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (k < draws.count) copy_to_record(v, draws.at[k], draws.values + k * v.record);
}

__global__ void __launch_bounds__(density_block) take_drawn_kernel(vector_arrays v, part_draws draws) {
    const int64_t k = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (k >= draws.count) return;
    copy_from_record(v, draws.row[k], draws.values + k * v.record);
    clear_moments(v, draws.row[k]);
}

} // namespace

int32_t parts_record(const gs_gaussians *gaussians) {
    const gs_arrays g = gs_arrays_of(gaussians);
    int values = 0;
    for (int a = 0; a < GS_ARRAYS; a++) values += g.width[a];
    return values;
}

gs_status parts_relocate_bytes(int64_t count, int32_t ranks, size_t *bytes) {
    relocation_memory unplaced;
    return place_memory(nullptr, count, ranks, &unplaced, bytes);
}

gs_status parts_weigh(const gs_gaussians *gaussians, const part_relocation *r, int64_t *total,
                      gs_stream stream) {
    const relocation_arrays a = memory_of(gaussians, r).own;
    const int64_t count = gaussians->count;
    GS_CUDA(launch_for(stream, count + 1, density_block, weigh_kernel, *gaussians, r->rules, a.weights,
                       a.sharing));
    GS_CUDA(scan_exclusive(a.weights, a.weights, count + 1, a.scratch, a.scratch_bytes, stream));
    return GS_STATUS(
        cudaMemcpyAsync(total, a.weights + count, sizeof(int64_t), cudaMemcpyDeviceToDevice, stream));
}

gs_status parts_count_draws(const gs_gaussians *gaussians, const part_relocation *r, int64_t *begin,
                            gs_stream stream) {
    return count_items(memory_of(gaussians, r).draws, 1, items_of(gaussians, r, nullptr), begin, stream);
}

gs_status parts_draw(const gs_gaussians *gaussians, const part_relocation *r, const part_draws *draws,
                     gs_stream stream) {
    return put_items(memory_of(gaussians, r).draws, 1, items_of(gaussians, r, draws), stream);
}

gs_status parts_answer(const part_vectors *v, const part_relocation *r, const part_draws *draws,
                       gs_stream stream) {
    const gs_gaussians *const gaussians = &v->gaussians;
    const relocation_arrays a = memory_of(gaussians, r).own;
    const vector_arrays arrays = arrays_of(v);
    GS_CUDA(launch_for(stream, draws->count, density_block, find_rows_kernel, gaussians->count, a.weights,
                       *draws, a.sharing));
    GS_CUDA(launch_for(stream, gaussians->count, density_block, share_kernel, *gaussians, arrays.first,
                       arrays.second, a.sharing, r->rules.least_opacity));
    return GS_STATUS(launch_for(stream, draws->count, density_block, answer_kernel, arrays, *draws));
}

gs_status parts_take(const part_vectors *v, const part_relocation *r, const part_draws *draws,
                     gs_stream stream) {
    const gs_gaussians *const gaussians = &v->gaussians;
    const relocation_arrays a = memory_of(gaussians, r).own;
    const vector_arrays arrays = arrays_of(v);
    if (r->weight_begin[r->ranks] == 0) // nobody lives: the sums are 0, as follow_kernel reads them
        return GS_STATUS(launch_for(stream, gaussians->count, density_block, follow_kernel, arrays.parameters,
                                    gaussians->count, r->rules.existing, arrays.first, arrays.second,
                                    a.weights, a.source));
    return GS_STATUS(launch_for(stream, draws->count, density_block, take_drawn_kernel, arrays, *draws));
}

// ---- splits

namespace {

// free_rows[count] = 0: the scan leaves the total there.
__global__ void __launch_bounds__(density_block)
    split_draw_kernel(gs_gaussians gaussians, gs_split_rules rules, int64_t first, int64_t *free_rows,
                      uint32_t *keys, uint32_t *indices) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i > gaussians.count) return;
    const bool lives = living_opacity(gaussians, i, rules.existing, rules.least_opacity) > 0;
    free_rows[i] = i < gaussians.count && !lives;
    if (i == gaussians.count) return;
    indices[i] = uint32_t(i);
    keys[i] = lives ? split_key(rules.density[2 * i], rules.seed, rules.iteration, first + i) : not_drawn;
}

// keys: sorted, of the rows.
__global__ void __launch_bounds__(density_block)
    count_keys_kernel(const uint32_t *keys, const uint32_t *rows, int64_t count, int64_t first,
                      const uint64_t *bounds, int n, int64_t *below) {
    const int k = int(blockIdx.x) * density_block + int(threadIdx.x);
    if (k >= n) return;
    int64_t low = 0, high = count; // places before `low` are below, those from `high` on are not
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((uint64_t(keys[middle]) << 32 | uint64_t(first + rows[middle])) < bounds[k])
            low = middle + 1;
        else
            high = middle;
    }
    below[k] = low;
}

__global__ void __launch_bounds__(density_block)
    give_kernel(gs_gaussians gaussians, vector_arrays v, float least_opacity, const uint32_t *keys,
                const uint32_t *rows, split_copies copies) {
    const int64_t k = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (k >= copies.count) return;
    float *const record = copies.values + k * (1 + v.record);
    record[0] = __uint_as_float(keys[k]);
    copy_to_record(v, rows[k], record + 1);
    place_half(gaussians, rows[k], false, least_opacity);
    clear_moments(v, rows[k]);
}

__global__ void __launch_bounds__(density_block)
    list_kernel(split_copies copies, int record, uint32_t *keys, uint32_t *indices) {
    const int64_t k = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (k >= copies.count) return;
    keys[k] = __float_as_uint(copies.values[k * (1 + record)]);
    indices[k] = uint32_t(k);
}

// order: of the copies. before: sums of free rows.
__global__ void __launch_bounds__(density_block)
    take_kernel(gs_gaussians gaussians, vector_arrays v, gs_split_rules rules, const int64_t *before,
                const uint32_t *order, split_copies copies) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= gaussians.count || before[i + 1] == before[i]) return; // living
    const bool taken = before[i] < copies.count;
    if (taken) {
        copy_from_record(v, i, copies.values + int64_t(order[before[i]]) * (1 + v.record) + 1);
        place_half(gaussians, i, true, rules.least_opacity);
    } else if (i >= rules.existing) {
        make_dead(v.parameters, i);
    }
    if (taken || i >= rules.existing) clear_moments(v, i);
}

// The sorted order lies in keys[0] and values[0].
sorted_rows rows_of(const gs_gaussians *gaussians, const part_split *split) {
    sorted_rows out = {};
    block_layout layout = {static_cast<char *>(split->workspace), 0};
    place_sorted_rows(&layout, gaussians->count, &out);
    return out;
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

gs_status parts_split_bytes(int64_t count, size_t *bytes) {
    sorted_rows unplaced;
    block_layout layout = {nullptr, 0};
    GS_TRY(place_sorted_rows(&layout, count, &unplaced));
    *bytes = layout.bytes;
    return GS_OK;
}

gs_status parts_split_draw(const gs_gaussians *gaussians, const part_split *split, int64_t *free_rows,
                           gs_stream stream) {
    const sorted_rows a = rows_of(gaussians, split);
    const int64_t count = gaussians->count;
    GS_CUDA(launch_for(stream, count + 1, density_block, split_draw_kernel, *gaussians, split->rules,
                       split->first, a.before, a.order.keys[0], a.order.values[0]));
    GS_CUDA(scan_exclusive(a.before, a.before, count + 1, a.scratch, a.scratch_bytes, stream));
    GS_CUDA(
        cudaMemcpyAsync(free_rows, a.before + count, sizeof *free_rows, cudaMemcpyDeviceToDevice, stream));
    return sort_in_place(a, count, stream);
}

gs_status parts_split_count(const gs_gaussians *gaussians, const part_split *split, const uint64_t *bounds,
                            int32_t n, int64_t *below, gs_stream stream) {
    const sorted_rows a = rows_of(gaussians, split);
    return GS_STATUS(launch_for(stream, n, density_block, count_keys_kernel, a.order.keys[0],
                                a.order.values[0], gaussians->count, split->first, bounds, n, below));
}

gs_status parts_split_give(const part_vectors *v, const part_split *split, const split_copies *copies,
                           gs_stream stream) {
    const sorted_rows a = rows_of(&v->gaussians, split);
    return GS_STATUS(launch_for(stream, copies->count, density_block, give_kernel, v->gaussians, arrays_of(v),
                                split->rules.least_opacity, a.order.keys[0], a.order.values[0], *copies));
}

gs_status parts_split_take(const part_vectors *v, const part_split *split, const split_copies *copies,
                           gs_stream stream) {
    const sorted_rows a = rows_of(&v->gaussians, split);
    const vector_arrays arrays = arrays_of(v);
    GS_CUDA(launch_for(stream, copies->count, density_block, list_kernel, *copies, arrays.record,
                       a.order.keys[0], a.order.values[0]));
    GS_TRY(sort_in_place(a, copies->count, stream));
    return GS_STATUS(launch_for(stream, v->gaussians.count, density_block, take_kernel, v->gaussians, arrays,
                                split->rules, a.before, a.order.values[0], *copies));
}
