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

// The rows of this rank that are among the first `existing` of all.
static int64_t existing_here(const training_state *state, int64_t existing) {
    return smaller(larger(existing - state->first, 0), state->gaussians.count);
}

static part_vectors vectors_of(const training_state *state) {
    return (part_vectors){state->gaussians, state->first_moment, state->second_moment};
}

// Copies numbers of the device to the host.
static bool read_numbers(ranks *group, int64_t *to, const int64_t *from, int count) {
    CUDA_OR_FAIL(group, cudaMemcpyAsync(to, from, (size_t)count * sizeof *to, cudaMemcpyDeviceToHost, NULL));
    return ranks_wait(group, NULL);
}

// Items of `bytes` bytes for each rank, and from each: those of rank r are from[r] .. from[r + 1] - 1 and to[r] .. to[r + 1] - 1.
static bool exchange_items(ranks *group, const void *send, const int64_t *from, void *receive,
                           const int64_t *to, int64_t bytes) {
    ranks_exchange exchange = {.send = send, .receive = receive};
    for (int r = 0; r < ranks_count(group); r++) {
        exchange.to[r] = (ranks_bytes){from[r] * bytes, (from[r + 1] - from[r]) * bytes};
        exchange.from[r] = (ranks_bytes){to[r] * bytes, (to[r + 1] - to[r]) * bytes};
    }
    return ranks_all_to_all(group, &exchange, NULL);
}

// ---- relocation

static part_draws place_draws(int64_t count, int64_t record, device_buffer *memory) {
    part_draws out = {.count = count};
    out.at = device_buffer_reserve(memory, (size_t)count * ((size_t)record * sizeof(float) + 12) + 16);
    out.values = (float *)(out.at + count);
    out.row = (uint32_t *)(out.values + count * record);
    return out;
}

bool parts_relocate(training_state *state, const gs_relocation *rules) {
    parts *const s = state->kept;
    ranks *const group = state->group;
    const int count = ranks_count(group);
    const part_vectors vectors = vectors_of(state);
    const gs_gaussians *const gaussians = &vectors.gaussians;
    const int64_t record = parts_record(gaussians), record_bytes = record * (int64_t)sizeof(float);
    int64_t *const numbers = device_buffer_reserve(&s->density_numbers, (RANKS_MAX + 1) * sizeof(int64_t));
    part_relocation r = {.rules = *rules, .first = state->first, .ranks = count};
    int64_t weight, of_all[RANKS_MAX * RANKS_MAX], from[RANKS_MAX + 1] = {0}, to[RANKS_MAX + 1] = {0};
    size_t bytes;
    r.rules.existing = existing_here(state, rules->existing);
    GS_OR_FAIL(group, parts_relocate_bytes(gaussians->count, count, &bytes));
    r.workspace = device_buffer_reserve(&s->density_workspace, bytes);
    GS_OR_FAIL(group, parts_weigh(gaussians, &r, numbers, NULL));
    if (!read_numbers(group, &weight, numbers, 1) || !ranks_tell_all(group, weight, of_all, NULL))
        return false;
    for (int k = 0; k < count; k++) r.weight_begin[k + 1] = r.weight_begin[k] + of_all[k];

    GS_OR_FAIL(group, parts_count_draws(gaussians, &r, numbers, NULL));
    if (!read_numbers(group, from, numbers, count + 1)) return false;
    int64_t asked[RANKS_MAX];
    for (int k = 0; k < count; k++) asked[k] = from[k + 1] - from[k];
    if (!ranks_tell_numbers(group, count, asked, of_all, NULL)) return false;
    for (int k = 0; k < count; k++) to[k + 1] = to[k] + of_all[k * count + ranks_own(group)];
    const part_draws own = place_draws(from[count], record, &s->given),
                     others = place_draws(to[count], record, &s->taken);

    GS_OR_FAIL(group, parts_draw(gaussians, &r, &own, NULL));
    if (!exchange_items(group, own.at, from, others.at, to, sizeof *own.at)) return false;
    GS_OR_FAIL(group, parts_answer(&vectors, &r, &others, NULL));
    if (!exchange_items(group, others.values, to, own.values, from, record_bytes)) return false;
    GS_OR_FAIL(group, parts_take(&vectors, &r, &own, NULL));
    return true;
}

// ---- splits: the free rows of all ranks, in their order, take the Gaussians with the least keys, in the order of keys, then
// of rows. So the free rows of rank r take those between two places of that order. A search over the digits of keys and
// rows finds how many of each rank's Gaussians come before each of these places; no rank sees the keys of all.

enum { DIGIT_BITS = 4, DIGITS = 1 << DIGIT_BITS, PLACES = RANKS_MAX + 1, MOST_BOUNDS = PLACES * DIGITS };

// The memory of one call of parts_split.
typedef struct split_search {
    const gs_gaussians *gaussians;
    part_split split;
    uint64_t *bounds; // device, [MOST_BOUNDS]
    int64_t *below;   // device, [MOST_BOUNDS]
} split_search;

// below: host, [n]: how many of this rank's Gaussians, or of all ranks', come before each bound.
static bool count_below(ranks *group, const split_search *d, const uint64_t *bounds, int n, bool of_all,
                        int64_t *below) {
    CUDA_OR_FAIL(
        group, cudaMemcpyAsync(d->bounds, bounds, (size_t)n * sizeof *bounds, cudaMemcpyHostToDevice, NULL));
    GS_OR_FAIL(group, parts_split_count(d->gaussians, &d->split, d->bounds, n, d->below, NULL));
    const ranks_reduction sum = {d->below, n, RANKS_INT64, RANKS_SUM};
    return (!of_all || ranks_all_reduce(group, &sum, NULL)) && read_numbers(group, below, d->below, n);
}

// The free rows of rank r take the Gaussians at place[r] .. place[r + 1] - 1 of the order; no place is beyond the last one
// that can be drawn.
static bool find_places(ranks *group, const split_search *d, int64_t place[PLACES]) {
    const uint64_t not_drawn = (uint64_t)UINT32_MAX << 32;
    int64_t own[2], of_all[2 * RANKS_MAX], free_rows = 0, drawable = 0;
    GS_OR_FAIL(group, parts_split_draw(d->gaussians, &d->split, d->below, NULL));
    if (!read_numbers(group, own, d->below, 1) || !count_below(group, d, &not_drawn, 1, false, own + 1) ||
        !ranks_tell_numbers(group, 2, own, of_all, NULL))
        return false;
    for (int r = 0; r < ranks_count(group); r++) drawable += of_all[2 * r + 1];
    for (int r = 0; r <= ranks_count(group); r++) {
        place[r] = smaller(free_rows, drawable);
        if (r < ranks_count(group)) free_rows += of_all[2 * r];
    }
    return true;
}

// before: host, [ranks][ranks + 1]: how many of each rank's Gaussians come before each place.
static bool find_divisions(ranks *group, const split_search *d, const int64_t *place, int64_t *before) {
    uint64_t least[PLACES] = {0},
             bounds[MOST_BOUNDS]; // least: the largest bound with place[p] before it, at most
    int64_t below[MOST_BOUNDS];
    const int places = ranks_count(group) + 1;
    for (int shift = 64 - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        for (int p = 0; p < places; p++)
            for (uint64_t digit = 0; digit < DIGITS; digit++)
                bounds[p * DIGITS + (int)digit] = least[p] | digit << shift;
        if (!count_below(group, d, bounds, places * DIGITS, true, below)) return false;
        for (int k = 0; k < places * DIGITS; k++) // the last one that fits counts
            if (below[k] <= place[k / DIGITS]) least[k / DIGITS] = bounds[k];
    }
    return count_below(group, d, least, places, false, below) &&
           ranks_tell_numbers(group, places, below, before, NULL);
}

static split_copies place_copies(int64_t count, int64_t record, device_buffer *memory) {
    return (split_copies){count,
                          device_buffer_reserve(memory, (size_t)(count * record) * sizeof(float) + 16)};
}

// Cost: that of gs_split on each rank, a record of the parameters for each split whose halves lie on two ranks, and about
// twenty small reductions.
bool parts_split(training_state *state, const gs_split_rules *rules) {
    parts *const s = state->kept;
    ranks *const group = state->group;
    const int own = ranks_own(group), count = ranks_count(group), places = count + 1;
    const part_vectors vectors = vectors_of(state);
    const gs_gaussians *const gaussians = &vectors.gaussians;
    const int64_t record = 1 + parts_record(gaussians);
    int64_t *const numbers =
        device_buffer_reserve(&s->density_numbers, MOST_BOUNDS * (sizeof(int64_t) + sizeof(uint64_t)));
    split_search d = {.gaussians = gaussians,
                      .split = {.rules = *rules, .first = state->first},
                      .bounds = (uint64_t *)(numbers + MOST_BOUNDS),
                      .below = numbers};
    int64_t place[PLACES], before[RANKS_MAX * PLACES], to[PLACES] = {0};
    size_t bytes;
    d.split.rules.existing = existing_here(state, rules->existing);
    GS_OR_FAIL(group, parts_split_bytes(gaussians->count, &bytes));
    d.split.workspace = device_buffer_reserve(&s->density_workspace, bytes);
    if (!find_places(group, &d, place) || !find_divisions(group, &d, place, before)) return false;
    const int64_t *const from = before + own * places; // rank r gets this rank's from[r] .. from[r + 1] - 1
    for (int r = 0; r < count; r++)
        to[r + 1] = to[r] + before[r * places + own + 1] - before[r * places + own];

    const split_copies given = place_copies(from[count], record, &s->given),
                       taken = place_copies(to[count], record, &s->taken);
    GS_OR_FAIL(group, parts_split_give(&vectors, &d.split, &given, NULL));
    if (!exchange_items(group, given.values, from, taken.values, to, record * (int64_t)sizeof(float)))
        return false;
    GS_OR_FAIL(group, parts_split_take(&vectors, &d.split, &taken, NULL));
    return true;
}
