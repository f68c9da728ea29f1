// SPDX-License-Identifier: MIT
// Kernels of density control in parts (kernels.h). Random numbers go by the place among all, sums are integers, and sorts keep
// the order of rows, so the result does not depend on how the rows are shared out.
#include "density.cuh"
#include "kernels.h"
#include "launch.cuh"

using namespace gs;

namespace {

// The sums of weights before each rank's rows.
struct rank_weights {
    int count;
    int64_t begin[RANKS_MAX + 1];
};

// Also the number of requests of every block of rows to every rank, and then where they begin.
struct draw_arrays {
    relocation_arrays own;
    int64_t *begin;
    void *scratch;
    size_t scratch_bytes;
};

gs_status place_draws(void *memory, int64_t count, int32_t ranks, draw_arrays *out, size_t *bytes) {
    const int64_t counters = int64_t(ranks) * blocks_for(count, density_block) + 1;
    size_t own_bytes = 0;
    GS_TRY(place_relocation(memory, count, &out->own, &own_bytes));
    GS_CUDA(scan_exclusive_bytes(counters, &out->scratch_bytes));
    block_layout layout = {static_cast<char *>(memory), own_bytes};
    layout_add(&layout, size_t(counters), &out->begin);
    out->scratch = layout_add(&layout, out->scratch_bytes);
    *bytes = layout.bytes;
    return GS_OK;
}

struct drawn_place {
    int rank;   // -1: the row is living or nothing can be drawn
    int64_t at; // in the sums of weights of that rank
};

// Draws the living row whose place dead or new row i takes.
__device__ drawn_place draw_of(int64_t i, int64_t count, const int64_t *before, const rank_weights &weights,
                               int64_t first, uint64_t seed, uint64_t iteration) {
    const int64_t total = weights.begin[weights.count];
    if (i >= count || before[i + 1] > before[i] || total == 0) return {-1, 0};
    random_stream random = random_at(seed, RANDOM_RELOCATION, iteration, uint64_t(first + i));
    const int64_t at = int64_t(random_bits(&random) % uint64_t(total));
    const int rank = int(row_at(weights.begin, weights.count, at));
    return {rank, at - weights.begin[rank]};
}

__global__ void __launch_bounds__(density_block)
    count_draws_kernel(int64_t count, const int64_t *before, rank_weights weights, int64_t first,
                       gs_relocation relocation, int64_t *counters) {
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x;
    const drawn_place place =
        draw_of(i, count, before, weights, first, relocation.seed, relocation.iteration);
    for (int g = 0; g < weights.count; g++) {
        const int all = __syncthreads_count(place.rank == g);
        if (threadIdx.x == 0) counters[int64_t(g) * gridDim.x + blockIdx.x] = all;
    }
}

__global__ void draws_begin_kernel(const int64_t *begin, int ranks, int64_t blocks, int64_t *out) {
    const int g = int(threadIdx.x);
    if (g <= ranks) out[g] = begin[g * blocks];
}

__global__ void __launch_bounds__(density_block)
    draw_places_kernel(int64_t count, const int64_t *before, rank_weights weights, int64_t first,
                       gs_relocation relocation, const int64_t *begin, uint32_t *row, int64_t *at) {
    __shared__ int in_warp[density_block / 32];
    const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int64_t i = int64_t(blockIdx.x) * density_block + thread;
    const drawn_place place =
        draw_of(i, count, before, weights, first, relocation.seed, relocation.iteration);
    for (int g = 0; g < weights.count; g++) {
        const unsigned lanes = __ballot_sync(0xffffffffu, place.rank == g);
        __syncthreads(); // the counts of the rank before have been read
        if (lane == 0) in_warp[warp] = __popc(lanes);
        __syncthreads();
        int64_t to = begin[int64_t(g) * gridDim.x + blockIdx.x] + __popc(lanes & ((1u << lane) - 1));
        for (int w = 0; w < warp; w++) to += in_warp[w];
        if (place.rank == g) row[to] = uint32_t(i), at[to] = place.at;
    }
}

// Turns places in the sums of weights into rows. The sums end with the total.
__global__ void __launch_bounds__(density_block)
    find_rows_kernel(int64_t count, const int64_t *before, int64_t drawn, int64_t *at, uint32_t *sharing) {
    const int64_t k = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (k >= drawn) return;
    const int64_t row = row_at(before, count, at[k]);
    at[k] = row;
    atomicAdd(&sharing[row], 1u);
}

__device__ int place_in_record(const gs_arrays &g, int array) {
    int at = 0;
    for (int a = 0; a < array; a++) at += g.width[a];
    return at;
}

// blockIdx.y: the array. Gathers rows at[k] into records, or spreads records over rows row[k].
__global__ void __launch_bounds__(density_block)
    gather_rows_kernel(gs_arrays g, const int64_t *at, int64_t drawn, int record, float *values) {
    const int array = int(blockIdx.y), width = g.width[array];
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x, k = i / width,
                  column = i - k * width;
    if (k >= drawn) return;
    values[k * record + place_in_record(g, array) + column] = g.of[array][at[k] * width + column];
}

__global__ void __launch_bounds__(density_block)
    spread_rows_kernel(gs_arrays g, gs_arrays first, gs_arrays second, const uint32_t *row, int64_t drawn,
                       int record, const float *values) {
    const int array = int(blockIdx.y), width = g.width[array];
    const int64_t i = int64_t(blockIdx.x) * density_block + threadIdx.x, k = i / width,
                  column = i - k * width;
    if (k >= drawn) return;
    const int64_t to = int64_t(row[k]) * width + column;
    g.of[array][to] = values[k * record + place_in_record(g, array) + column];
    first.of[array][to] = second.of[array][to] = 0;
}

int record_of(const gs_gaussians *gaussians) {
    const gs_arrays g = gs_arrays_of(gaussians);
    int values = 0;
    for (int a = 0; a < GS_ARRAYS; a++) values += g.width[a];
    return values;
}

draw_arrays arrays_of(const gs_gaussians *gaussians, const part_relocation *r) {
    draw_arrays out = {};
    size_t bytes;
    place_draws(r->workspace, gaussians->count, r->ranks, &out, &bytes);
    return out;
}

rank_weights weights_of(const part_relocation *r) {
    rank_weights out = {};
    out.count = r->ranks;
    for (int g = 0; g <= r->ranks; g++) out.begin[g] = r->weight_begin[g];
    return out;
}

} // namespace

gs_status parts_relocate_bytes(int64_t count, int32_t ranks, size_t *bytes) {
    draw_arrays unplaced;
    return place_draws(nullptr, count, ranks, &unplaced, bytes);
}

gs_status parts_weigh(const gs_gaussians *gaussians, const part_relocation *r, int64_t *total,
                      gs_stream stream) {
    const relocation_arrays a = arrays_of(gaussians, r).own;
    const int64_t count = gaussians->count;
    GS_CUDA(launch_for(stream, count + 1, density_block, weigh_kernel, *gaussians, r->rules, a.weights,
                       a.sharing));
    GS_CUDA(scan_exclusive(a.weights, a.weights, count + 1, a.scratch, a.scratch_bytes, stream));
    return GS_STATUS(
        cudaMemcpyAsync(total, a.weights + count, sizeof(int64_t), cudaMemcpyDeviceToDevice, stream));
}

gs_status parts_count_draws(const gs_gaussians *gaussians, const part_relocation *r, int64_t *begin,
                            gs_stream stream) {
    const draw_arrays a = arrays_of(gaussians, r);
    const unsigned blocks = blocks_for(gaussians->count, density_block);
    const int64_t counters = int64_t(r->ranks) * blocks + 1;
    GS_CUDA(cudaMemsetAsync(a.begin + counters - 1, 0, sizeof(int64_t), stream));
    GS_CUDA(launch(stream, blocks, density_block, count_draws_kernel, gaussians->count, a.own.weights,
                   weights_of(r), r->first, r->rules, a.begin));
    GS_CUDA(scan_exclusive(a.begin, a.begin, counters, a.scratch, a.scratch_bytes, stream));
    return GS_STATUS(launch(stream, 1, RANKS_MAX + 1, draws_begin_kernel, a.begin, r->ranks, blocks, begin));
}

gs_status parts_draw(const gs_gaussians *gaussians, const part_relocation *r, const part_draws *draws,
                     gs_stream stream) {
    const draw_arrays a = arrays_of(gaussians, r);
    return GS_STATUS(launch_for(stream, gaussians->count, density_block, draw_places_kernel, gaussians->count,
                                a.own.weights, weights_of(r), r->first, r->rules, a.begin, draws->row,
                                draws->at));
}

static dim3 blocks_of_records(const gs_arrays &g, int64_t drawn) {
    const int widest = g.width[GS_ARRAYS - 1] > 4 ? g.width[GS_ARRAYS - 1] : 4;
    return dim3(blocks_for(drawn * widest, density_block), GS_ARRAYS);
}

gs_status parts_answer(const part_vectors *v, const part_relocation *r, const part_draws *draws,
                       gs_stream stream) {
    const gs_gaussians *const gaussians = &v->gaussians;
    const relocation_arrays a = arrays_of(gaussians, r).own;
    const gs_arrays g = gs_arrays_of(gaussians);
    GS_CUDA(launch_for(stream, draws->count, density_block, find_rows_kernel, gaussians->count, a.weights,
                       draws->count, draws->at, a.sharing));
    GS_CUDA(launch_for(stream, gaussians->count, density_block, share_kernel, *gaussians,
                       gs_arrays_of(&v->first_moment), gs_arrays_of(&v->second_moment), a.sharing,
                       r->rules.least_opacity));
    return GS_STATUS(launch(stream, blocks_of_records(g, draws->count), density_block, gather_rows_kernel, g,
                            draws->at, draws->count, record_of(gaussians), draws->values));
}

gs_status parts_take(const part_vectors *v, const part_relocation *r, const part_draws *draws,
                     gs_stream stream) {
    const gs_gaussians *const gaussians = &v->gaussians;
    const relocation_arrays a = arrays_of(gaussians, r).own;
    const gs_arrays g = gs_arrays_of(gaussians), first = gs_arrays_of(&v->first_moment),
                    second = gs_arrays_of(&v->second_moment);
    if (r->weight_begin[r->ranks] == 0) // nobody lives: the sums are 0, as follow_kernel reads them
        return GS_STATUS(launch_for(stream, gaussians->count, density_block, follow_kernel, g,
                                    gaussians->count, r->rules.existing, first, second, a.weights, a.source));
    return GS_STATUS(launch(stream, blocks_of_records(g, draws->count), density_block, spread_rows_kernel, g,
                            first, second, draws->row, draws->count, record_of(gaussians), draws->values));
}

int32_t parts_record(const gs_gaussians *gaussians) {
    return record_of(gaussians);
}

// ---- splits ----

namespace {

// free_rows[count] = 0: the scan leaves the total there. drawable: 1 number, zero before.
__global__ void __launch_bounds__(density_block)
    split_draw_kernel(gs_gaussians gaussians, gs_split_rules rules, int64_t first, int64_t *free_rows,
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
__global__ void count_keys_kernel(const uint32_t *keys, int64_t count, const uint32_t *bounds, int n,
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

vector_arrays arrays_of(const part_vectors *v) {
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
                const uint32_t *rows, split_copies copies, int record) {
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
    list_kernel(split_copies copies, uint32_t *keys, uint32_t *indices) {
    const int64_t k = int64_t(blockIdx.x) * density_block + threadIdx.x;
    if (k < copies.count) keys[k] = copies.keys[k], indices[k] = uint32_t(k);
}

// order: of the copies. before: sums of free rows.
__global__ void __launch_bounds__(density_block)
    take_kernel(gs_gaussians gaussians, vector_arrays v, gs_split_rules rules, const int64_t *before,
                const uint32_t *order, split_copies copies, int record) {
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

gs_status parts_split_draw(const gs_gaussians *gaussians, const part_split *split, int64_t *totals,
                           gs_stream stream) {
    const sorted_rows a = rows_of(gaussians, split);
    const int64_t count = gaussians->count;
    GS_CUDA(cudaMemsetAsync(totals, 0, 2 * sizeof *totals, stream));
    GS_CUDA(launch_for(stream, count + 1, density_block, split_draw_kernel, *gaussians, split->rules,
                       split->first, a.before, a.order.keys[0], a.order.values[0], totals + 1));
    GS_CUDA(scan_exclusive(a.before, a.before, count + 1, a.scratch, a.scratch_bytes, stream));
    GS_CUDA(cudaMemcpyAsync(totals, a.before + count, sizeof *totals, cudaMemcpyDeviceToDevice, stream));
    return sort_in_place(a, count, stream);
}

gs_status parts_split_count(const gs_gaussians *gaussians, const part_split *split, const uint32_t *bounds,
                            int32_t n, int64_t *below, gs_stream stream) {
    return GS_STATUS(launch_for(stream, n, density_block, count_keys_kernel,
                                rows_of(gaussians, split).order.keys[0], gaussians->count, bounds, n, below));
}

gs_status parts_split_give(const part_vectors *v, const part_split *split, const split_copies *copies,
                           gs_stream stream) {
    const sorted_rows a = rows_of(&v->gaussians, split);
    return GS_STATUS(launch_for(stream, copies->count, density_block, give_kernel, v->gaussians, arrays_of(v),
                                split->rules.least_opacity, a.order.keys[0], a.order.values[0], *copies,
                                record_of(&v->gaussians)));
}

gs_status parts_split_take(const part_vectors *v, const part_split *split, const split_copies *copies,
                           gs_stream stream) {
    const sorted_rows a = rows_of(&v->gaussians, split);
    GS_CUDA(launch_for(stream, copies->count, density_block, list_kernel, *copies, a.order.keys[0],
                       a.order.values[0]));
    GS_TRY(sort_in_place(a, copies->count, stream));
    return GS_STATUS(launch_for(stream, v->gaussians.count, density_block, take_kernel, v->gaussians,
                                arrays_of(v), split->rules, a.before, a.order.values[0], *copies,
                                record_of(&v->gaussians)));
}
