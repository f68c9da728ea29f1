// SPDX-License-Identifier: MIT
// Kernels of density control in parts (kernels.h). Random numbers go by the place among all, sums are integers, and sorts keep
// the order of rows, so the result does not depend on how the rows are shared out.
#include "density.cuh"
#include "kernels.h"
#include "partition.cuh"

using namespace gs;

namespace {

constexpr uint32_t free_row =
    not_drawn - 1; // key of rows that are dead or new: above those that can be drawn

struct move_memory {
    counted_rows all; // source: the row that a row becomes a copy of; itself: of none
    partition given, taken;
};

__host__ __device__ int64_t all_rows(const row_moves &m) {
    return m.begin[m.ranks];
}
__host__ __device__ int64_t own_rows(const row_moves &m) {
    return m.begin[m.own + 1] - m.begin[m.own];
}

// bytes: of all of it.
gs_status place_memory(const row_moves &m, move_memory *out, size_t *bytes = nullptr) {
    block_layout layout = {static_cast<char *>(m.workspace), 0};
    GS_TRY(place_rows(&layout, all_rows(m), m.splits, &out->all));
    GS_TRY(place_partition(&layout, all_rows(m), m.ranks, &out->given));
    GS_TRY(place_partition(&layout, own_rows(m), m.ranks, &out->taken));
    if (bytes) *bytes = layout.bytes;
    return GS_OK;
}

struct vector_arrays {
    gs_arrays parameters, first, second;
};

vector_arrays arrays_of(const part_vectors *v) {
    return {gs_arrays_of(&v->gaussians), gs_arrays_of(&v->first_moment), gs_arrays_of(&v->second_moment)};
}

__device__ void clear_moments(const vector_arrays &v, int64_t i) {
    gs::clear_moments(v.first, v.second, i);
}

// The rows that become copies, among ranks: of all rows those that become copies of this rank's, for the ranks that have
// them, or those of this rank, by the ranks that have what they become copies of. Both come in the order of rows.
struct moved_rows {
    int groups;
    row_moves m;
    gs_gaussians gaussians;
    vector_arrays v;
    const uint32_t *source;
    bool gives;
    int record;
    float *copies;

    // The rank, or -1.
    __device__ int load(int64_t i) const {
        const int64_t first = m.begin[m.own], end = m.begin[m.own + 1];
        if (i >= (gives ? all_rows(m) : end - first)) return -1;
        const int64_t to = gives ? i : first + i, from = source[to];
        if (from == to || (gives && (from < first || from >= end))) return -1;
        return int(row_at(m.begin, m.ranks, gives ? to : from));
    }
    __device__ bool may_have(int) const { return true; }
    __device__ bool has(int rank, int group) const { return rank == group; }
    // A row that is split is given once, so that a thread has it to itself.
    __device__ void put(int, int64_t i, int64_t place) const {
        const int64_t row = gives ? int64_t(source[i]) - m.begin[m.own] : i;
        const gs_arrays &g = v.parameters;
        float *copy = copies + place * record;
#pragma unroll 1
        for (int a = 0; a < GS_ARRAYS; a++)
            for (int k = 0; k < g.width[a]; k++, copy++) {
                float *const value = g.of[a] + row * g.width[a] + k;
                *(gives ? copy : value) = *(gives ? value : copy);
            }
        if (m.splits) place_half(gaussians, row, !gives, m.least_opacity);
        if (m.splits || !gives) clear_moments(v, row);
    }
};

moved_rows items_of(const part_vectors *v, const row_moves *m, const uint32_t *source, bool gives,
                    float *copies) {
    return {m->ranks, *m, v->gaussians, arrays_of(v), source, gives, parts_record(&v->gaussians), copies};
}

__global__ void __launch_bounds__(density_block)
    keys_kernel(gs_gaussians gaussians, row_moves m, uint32_t *keys) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x, first = m.begin[m.own];
    if (i >= gaussians.count) return;
    const float opacity = living_opacity(gaussians, i, m.existing - first, m.least_opacity);
    if (m.splits)
        keys[i] = opacity > 0 ? split_key(m.density[2 * i], m.seed, m.iteration, first + i) : free_row;
    else
        keys[i] = uint32_t(weight_of(opacity));
}

// weights[all] = 0: the scan leaves the total there. sharing: as of relocation.
__global__ void __launch_bounds__(density_block)
    list_weights_kernel(const uint32_t *of_all, int64_t all, int64_t *weights, uint32_t *sharing) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i > all) return;
    weights[i] = i < all ? of_all[i] : 0;
    if (i < all) sharing[i] = of_all[i] > 0;
}

// free_rows[all] = 0, likewise.
__global__ void __launch_bounds__(density_block)
    list_keys_kernel(const uint32_t *of_all, int64_t all, int64_t *free_rows, uint32_t *keys,
                     uint32_t *rows) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i > all) return;
    free_rows[i] = i < all && of_all[i] == free_row;
    if (i < all) keys[i] = of_all[i], rows[i] = uint32_t(i);
}

// The row with the k-th key, of the sorted ones, goes to the free row number k.
__global__ void __launch_bounds__(density_block)
    split_sources_kernel(int64_t all, const int64_t *before, const uint32_t *keys, const uint32_t *rows,
                         uint32_t *source) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (i >= all) return;
    const bool is_free = before[i + 1] > before[i];
    source[i] = is_free && keys[before[i]] < free_row ? rows[before[i]] : uint32_t(i);
}

// New rows that are no copies become dead. weights: sums of those before; counts this rank's rows that were dead. NULL: does
// not.
__global__ void __launch_bounds__(density_block)
    end_rows_kernel(vector_arrays v, row_moves m, const uint32_t *source, const int64_t *weights) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x, place = m.begin[m.own] + i;
    if (i >= own_rows(m)) return;
    if (weights && m.dead && place < m.existing && weights[place + 1] == weights[place])
        atomicAdd(reinterpret_cast<unsigned long long *>(m.dead), 1ull);
    if (place < m.existing || source[place] != place) return;
    make_dead(v.parameters, i);
    clear_moments(v, i);
}

gs_status choose_relocation(const part_vectors *v, const row_moves &m, const counted_rows &a,
                            const uint32_t *of_all) {
    const int64_t all = all_rows(m);
    uint32_t *const sharing = a.order.keys[0];
    GS_CUDA(launch_for(nullptr, all + 1, density_block, list_weights_kernel, of_all, all, a.before, sharing));
    GS_CUDA(scan_exclusive(a.before, a.before, all + 1, a.scratch, a.scratch_bytes, nullptr));
    GS_CUDA(launch_for(nullptr, all, density_block, draw_source_kernel, all, a.before, m.seed, m.iteration,
                       a.source, sharing));
    return GS_STATUS(launch_for(nullptr, own_rows(m), density_block, share_kernel, v->gaussians,
                                gs_arrays_of(&v->first_moment), gs_arrays_of(&v->second_moment),
                                sharing + m.begin[m.own], m.least_opacity));
}

gs_status choose_splits(const row_moves &m, const counted_rows &a, const uint32_t *of_all) {
    const int64_t all = all_rows(m);
    int selected = 0;
    GS_CUDA(launch_for(nullptr, all + 1, density_block, list_keys_kernel, of_all, all, a.before,
                       a.order.keys[0], a.order.values[0]));
    GS_CUDA(scan_exclusive(a.before, a.before, all + 1, a.scratch, a.scratch_bytes, nullptr));
    GS_CUDA(sort_pairs(&a.order, all, 32, &selected, a.scratch, a.scratch_bytes, nullptr));
    return GS_STATUS(launch_for(nullptr, all, density_block, split_sources_kernel, all, a.before,
                                a.order.keys[selected], a.order.values[selected], a.source));
}

} // namespace

int32_t parts_record(const gs_gaussians *gaussians) {
    const gs_arrays g = gs_arrays_of(gaussians);
    int values = 0;
    for (int a = 0; a < GS_ARRAYS; a++) values += g.width[a];
    return values;
}

gs_status parts_moves_bytes(const row_moves *moves, size_t *bytes) {
    move_memory unplaced = {};
    row_moves nowhere = *moves;
    nowhere.workspace = nullptr;
    return place_memory(nowhere, &unplaced, bytes);
}

gs_status parts_move_keys(const gs_gaussians *gaussians, const row_moves *moves, uint32_t *keys) {
    return GS_STATUS(
        launch_for(nullptr, gaussians->count, density_block, keys_kernel, *gaussians, *moves, keys));
}

gs_status parts_choose(const part_vectors *v, const row_moves *moves, const uint32_t *of_all,
                       int64_t *begin) {
    move_memory memory = {};
    GS_TRY(place_memory(*moves, &memory));
    const counted_rows &all = memory.all;
    GS_TRY(moves->splits ? choose_splits(*moves, all, of_all) : choose_relocation(v, *moves, all, of_all));
    GS_TRY(count_items(memory.given, 1, items_of(v, moves, all.source, true, nullptr), begin));
    return count_items(memory.taken, 1, items_of(v, moves, all.source, false, nullptr),
                       begin + moves->ranks + 1);
}

gs_status parts_give(const part_vectors *v, const row_moves *moves, float *copies) {
    move_memory memory = {};
    GS_TRY(place_memory(*moves, &memory));
    return put_items(memory.given, 1, items_of(v, moves, memory.all.source, true, copies));
}

gs_status parts_take(const part_vectors *v, const row_moves *moves, float *copies) {
    move_memory memory = {};
    GS_TRY(place_memory(*moves, &memory));
    const counted_rows &all = memory.all;
    GS_TRY(put_items(memory.taken, 1, items_of(v, moves, all.source, false, copies)));
    return GS_STATUS(launch_for(nullptr, own_rows(*moves), density_block, end_rows_kernel, arrays_of(v),
                                *moves, all.source, moves->splits ? nullptr : all.before));
}
