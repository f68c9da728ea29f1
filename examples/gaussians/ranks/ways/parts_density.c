// SPDX-License-Identifier: MIT
// The rows of a scene in parts: where they lie, how they are gathered and shared out anew, and density control in place
// (MCMC, splits). All results have the bits of one GPU with all Gaussians.
#include "arrays.h"
#include "device.h"
#include "frames/device_gaussians.h"
#include "parts.h"
#include <string.h>

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---- rows

// Ranks begin at a warp's first Gaussian, as on one GPU: with other Gaussians in its warp one is rounded otherwise.
static int64_t begin_of(const ranks *group, int64_t all, int64_t rank) {
    const int64_t warps = (all + 31) / 32, n = ranks_count(group);
    return smaller(all,
                   32 * (warps / n * rank + warps % n * rank / n)); // without a product that could overflow
}

static row_range range_of(const ranks *group, int64_t all, int rank) {
    const int64_t first = begin_of(group, all, rank);
    return (row_range){first, begin_of(group, all, rank + 1) - first};
}

row_range parts_range(const ranks *group, int64_t all) {
    return range_of(group, all, ranks_own(group));
}

// The rows that two ranges have in common, as bytes of the first.
static ranks_bytes common(row_range a, row_range b, int64_t bytes) {
    const int64_t first = larger(a.first, b.first), end = smaller(a.first + a.count, b.first + b.count);
    return end > first ? (ranks_bytes){(first - a.first) * bytes, (end - first) * bytes} : (ranks_bytes){0};
}

bool parts_bring_rows(const training_state *state, const void *own, int64_t bytes, row_range rows,
                      bool to_all, void *to) {
    ranks *const group = state->group;
    const row_range mine = {state->first, state->gaussians.count};
    const bool wants = to_all || ranks_own(group) == 0;
    ranks_exchange exchange = {.send = own, .receive = wants ? to : NULL};
    for (int r = 0; r < ranks_count(group); r++) {
        if (to_all || r == 0) exchange.to[r] = common(mine, rows, bytes);
        if (wants) exchange.from[r] = common(rows, range_of(group, state->all, r), bytes);
    }
    return ranks_all_to_all(group, &exchange, NULL);
}

// An array of rows of `width` floats, from where `state` has them to where ranks have them of `all`.
static bool move_array(const training_state *state, int64_t all, const float *from, float *to, int width) {
    ranks *const group = state->group;
    const int64_t bytes = width * (int64_t)sizeof(float);
    const row_range before = {state->first, state->gaussians.count}, after = parts_range(group, all);
    ranks_exchange exchange = {.send = from, .receive = to};
    for (int r = 0; r < ranks_count(group); r++) {
        exchange.to[r] = common(before, range_of(group, all, r), bytes);
        exchange.from[r] = common(after, range_of(group, state->all, r), bytes);
    }
    return ranks_all_to_all(group, &exchange, NULL);
}

// For its time this takes the memory of three vectors more.
bool parts_grow(training_state *state, int64_t all) {
    if (all == state->all) return true;
    const row_range rows = parts_range(state->group, all);
    gs_gaussians *const sets[] = {&state->gaussians, &state->first_moment, &state->second_moment};
    gs_gaussians moved[3];
    const size_t density_bytes = training_state_density_bytes(rows.count);
    float *const density = device_allocate(density_bytes);
    bool done = true;
    device_clear(density, density_bytes);
    device_gaussians_close(&state->gradients); // first: the most memory is needed here
    for (int v = 0; v < 3; v++) {
        moved[v] = device_gaussians_open(rows.count, sets[v]->sh_degree);
        moved[v].antialias = sets[v]->antialias;
        const gs_arrays from = gs_arrays_of(sets[v]), to = gs_arrays_of(&moved[v]);
        for (int k = 0; k < GS_ARRAYS && done; k++)
            done = move_array(state, all, from.of[k], to.of[k], from.width[k]);
    }
    done = done && move_array(state, all, state->density, density, 2) && ranks_wait(state->group, NULL);
    for (int v = 0; v < 3; v++) {
        device_gaussians_close(sets[v]);
        *sets[v] = moved[v];
    }
    device_free(state->density);
    state->density = density;
    state->gradients = device_gaussians_open(rows.count, state->gaussians.sh_degree);
    state->capacity = rows.count;
    state->first = rows.first, state->all = all;
    return done;
}

// ---- rows that become copies of others

// Copies for each rank, and from each: those of rank r are to[r] .. to[r + 1] - 1 and from[r] .. from[r + 1] - 1.
static bool exchange_copies(ranks *group, const float *send, const int64_t *to, float *receive,
                            const int64_t *from, int64_t bytes) {
    ranks_exchange exchange = {.send = send, .receive = receive};
    for (int r = 0; r < ranks_count(group); r++) {
        exchange.to[r] = (ranks_bytes){to[r] * bytes, (to[r + 1] - to[r]) * bytes};
        exchange.from[r] = (ranks_bytes){from[r] * bytes, (from[r + 1] - from[r]) * bytes};
    }
    return ranks_all_to_all(group, &exchange, NULL);
}

// For its time this takes 20 or 32 bytes per Gaussian of all ranks on each, which is less than parts_grow takes on each of up
// to 14 ranks, and the parameters of each copy.
static bool move_rows(training_state *state, row_moves *m) {
    parts *const s = state->kept;
    ranks *const group = state->group;
    const part_vectors vectors = {state->gaussians, state->first_moment, state->second_moment};
    const gs_gaussians *const own = &vectors.gaussians;
    const size_t record = (size_t)parts_record(own) * sizeof(float), key = sizeof(uint32_t);
    const int count = ranks_count(group);
    int64_t begin[2 * (RANKS_MAX + 1)];
    const int64_t *const given = begin, *const taken = begin + count + 1;
    const size_t begin_bytes = 2 * (size_t)(count + 1) * sizeof *begin;
    size_t bytes;
    m->ranks = count, m->own = ranks_own(group);
    for (int r = 0; r <= count; r++) m->begin[r] = begin_of(group, state->all, r);
    GS_OR_FAIL(group, parts_moves_bytes(m, &bytes));
    m->workspace = device_buffer_reserve(&s->density_workspace, bytes);
    int64_t *const counted = device_buffer_reserve(&s->density_numbers, begin_bytes);
    uint32_t *const keys = device_buffer_reserve(&s->given, (size_t)own->count * key + 1);
    uint32_t *const of_all = device_buffer_reserve(&s->taken, (size_t)state->all * key + 1);
    GS_OR_FAIL(group, parts_move_keys(own, m, keys, NULL));
    if (!parts_bring_rows(state, keys, (int64_t)key, (row_range){0, state->all}, true, of_all)) return false;
    GS_OR_FAIL(group, parts_choose(&vectors, m, of_all, counted, NULL));
    CUDA_OR_FAIL(group, cudaMemcpyAsync(begin, counted, begin_bytes, cudaMemcpyDeviceToHost, NULL));
    if (!ranks_wait(group, NULL)) return false; // also for who reads of_all
    float *const send = device_buffer_reserve(&s->given, (size_t)given[count] * record + 1);
    float *const receive = device_buffer_reserve(&s->taken, (size_t)taken[count] * record + 1);
    GS_OR_FAIL(group, parts_give(&vectors, m, send, NULL));
    if (!exchange_copies(group, send, given, receive, taken, (int64_t)record)) return false;
    GS_OR_FAIL(group, parts_take(&vectors, m, receive, NULL));
    if (!ranks_wait(group, NULL)) return false;
    device_buffer *const done[] = {&s->density_workspace, &s->given, &s->taken};
    for (size_t k = 0; k < sizeof done / sizeof *done; k++) device_buffer_close(done[k]);
    return true;
}

bool parts_relocate(training_state *state, const gs_relocation *rules) {
    return move_rows(state, &(row_moves){.relocation = rules});
}

bool parts_split(training_state *state, const gs_split_rules *rules) {
    return move_rows(state, &(row_moves){.split = rules});
}
