// SPDX-License-Identifier: MIT
// The rows of a scene in parts: where they lie, how they are gathered and shared out anew, and density control in place
// (MCMC, splits). All results have the bits of one GPU with all Gaussians.
#include "arrays.h"
#include "device.h"
#include "frame.h"
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
    int64_t weight, of_all[RANKS_MAX], from[RANKS_MAX + 1] = {0}, to[RANKS_MAX + 1] = {0};
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
    if (!ranks_exchange_sizes(group, 1, asked, of_all, NULL)) return false;
    for (int k = 0; k < count; k++) to[k + 1] = to[k] + of_all[k];
    const part_draws own = place_draws(from[count], record, &s->given),
                     others = place_draws(to[count], record, &s->taken);

    GS_OR_FAIL(group, parts_draw(gaussians, &r, &own, NULL));
    if (!exchange_items(group, own.at, from, others.at, to, sizeof *own.at)) return false;
    GS_OR_FAIL(group, parts_answer(&vectors, &r, &others, NULL));
    if (!exchange_items(group, others.values, to, own.values, from, record_bytes)) return false;
    GS_OR_FAIL(group, parts_take(&vectors, &r, &own, NULL));
    return true;
}

// ---- splits: the free rows of all ranks, in their order, take the Gaussians with the least keys, in the order of keys, of
// ranks, of rows. So the free rows of rank r take those between two places of that order. A search over the digits of the
// keys finds how many of each rank's keys lie before each of these places; no rank sees the keys of all.

enum { DIGIT_BITS = 4, DIGITS = 1 << DIGIT_BITS, PLACES = RANKS_MAX + 1, MOST_BOUNDS = PLACES * DIGITS };

// The state of one call of parts_split.
typedef struct division {
    const gs_gaussians *gaussians;
    part_split split;
    uint32_t *bounds;                       // device, [MOST_BOUNDS]
    int64_t *below;                         // device, [MOST_BOUNDS]
    int count;                              // ranks
    int64_t place[PLACES];                  // of the order: rank r's rows take place[r] .. place[r + 1] - 1
    int64_t before[RANKS_MAX][PLACES];      // of each rank's keys: how many lie before each place
    int64_t of_all[RANKS_MAX * 2 * PLACES]; // received
} division;

// The same numbers to all ranks.
static bool tell_numbers(ranks *group, division *d, const int64_t *own, int n) {
    int64_t to_all[RANKS_MAX * 2 * PLACES];
    for (int r = 0; r < d->count; r++) memcpy(to_all + r * n, own, (size_t)n * sizeof *own);
    return ranks_exchange_sizes(group, n, to_all, d->of_all, NULL);
}

// Where the free rows of each rank begin among all; no place is beyond the last Gaussian that can be drawn.
static bool find_places(ranks *group, division *d) {
    int64_t own[2], free_rows = 0, drawable = 0;
    GS_OR_FAIL(group, parts_split_draw(d->gaussians, &d->split, d->below, NULL));
    if (!read_numbers(group, own, d->below, 2) || !tell_numbers(group, d, own, 2)) return false;
    for (int r = 0; r < d->count; r++) drawable += d->of_all[2 * r + 1];
    for (int r = 0; r <= d->count; r++) {
        d->place[r] = smaller(free_rows, drawable);
        if (r < d->count) free_rows += d->of_all[2 * r];
    }
    return true;
}

// below: host, [n], of this rank's keys, or of all ranks'.
static bool count_below(ranks *group, division *d, const uint32_t *bounds, int n, bool of_all,
                        int64_t *below) {
    CUDA_OR_FAIL(
        group, cudaMemcpyAsync(d->bounds, bounds, (size_t)n * sizeof *bounds, cudaMemcpyHostToDevice, NULL));
    GS_OR_FAIL(group, parts_split_count(d->gaussians, &d->split, d->bounds, n, d->below, NULL));
    const ranks_reduction sum = {d->below, n, RANKS_INT64, RANKS_SUM};
    return (!of_all || ranks_all_reduce(group, &sum, NULL)) && read_numbers(group, below, d->below, n);
}

// least[p]: the largest key that has at most place[p] keys below it, digit after digit.
static bool find_keys(ranks *group, division *d, uint32_t *least) {
    uint32_t bounds[MOST_BOUNDS];
    int64_t below[MOST_BOUNDS];
    const int places = d->count + 1;
    memset(least, 0, (size_t)places * sizeof *least);
    for (int shift = 32 - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        for (int p = 0; p < places; p++)
            for (uint32_t digit = 0; digit < DIGITS; digit++)
                bounds[p * DIGITS + (int)digit] = least[p] | digit << shift;
        if (!count_below(group, d, bounds, places * DIGITS, true, below)) return false;
        for (int p = 0; p < places; p++)
            for (int digit = DIGITS - 1; digit >= 0; digit--) {
                if (below[p * DIGITS + digit] > d->place[p]) continue;
                least[p] = bounds[p * DIGITS + digit];
                break;
            }
    }
    return true;
}

// Equal keys come in the order of ranks.
static bool find_divisions(ranks *group, division *d) {
    uint32_t least[PLACES], bounds[2 * PLACES];
    int64_t own[2 * PLACES];
    const int places = d->count + 1, n = 2 * places;
    if (!find_keys(group, d, least)) return false;
    for (int p = 0; p < places; p++) {
        bounds[2 * p] = least[p];
        bounds[2 * p + 1] = least[p] + (least[p] < UINT32_MAX);
    }
    if (!count_below(group, d, bounds, n, false, own) || !tell_numbers(group, d, own, n)) return false;
    for (int p = 0; p < places; p++) {
        int64_t left = d->place[p];
        for (int r = 0; r < d->count; r++) left -= d->of_all[r * n + 2 * p];
        for (int r = 0; r < d->count; r++) {
            const int64_t *const of = d->of_all + r * n + 2 * p;
            const int64_t taken = smaller(of[1] - of[0], left); // of equal keys
            d->before[r][p] = of[0] + taken;
            left -= taken;
        }
    }
    return true;
}

static split_copies place_copies(int64_t count, int64_t record, device_buffer *memory) {
    split_copies copies = {.count = count};
    const size_t values = (size_t)(count * record);
    copies.values =
        device_buffer_reserve(memory, values * sizeof(float) + (size_t)count * sizeof(uint32_t) + 16);
    copies.keys = (uint32_t *)(copies.values + values);
    return copies;
}

// Cost: that of gs_split on each rank, a record of the parameters for each split whose halves lie on two ranks, and about ten
// small reductions.
bool parts_split(training_state *state, const gs_split_rules *rules) {
    parts *const s = state->kept;
    ranks *const group = state->group;
    const int own = ranks_own(group);
    const part_vectors vectors = vectors_of(state);
    const gs_gaussians *const gaussians = &vectors.gaussians;
    const int64_t record = parts_record(gaussians);
    int64_t *const numbers =
        device_buffer_reserve(&s->density_numbers, MOST_BOUNDS * (sizeof(int64_t) + sizeof(uint32_t)));
    division d = {.gaussians = gaussians,
                  .split = {.rules = *rules, .first = state->first},
                  .bounds = (uint32_t *)(numbers + MOST_BOUNDS),
                  .below = numbers,
                  .count = ranks_count(group)};
    int64_t to[PLACES] = {0};
    size_t bytes;
    d.split.rules.existing = existing_here(state, rules->existing);
    GS_OR_FAIL(group, parts_split_bytes(gaussians->count, &bytes));
    d.split.workspace = device_buffer_reserve(&s->density_workspace, bytes);
    if (!find_places(group, &d) || !find_divisions(group, &d)) return false;
    for (int r = 0; r < d.count; r++) to[r + 1] = to[r] + d.before[r][own + 1] - d.before[r][own];

    const split_copies given = place_copies(d.before[own][d.count], record, &s->given),
                       taken = place_copies(to[d.count], record, &s->taken);
    GS_OR_FAIL(group, parts_split_give(&vectors, &d.split, &given, NULL));
    if (!exchange_items(group, given.keys, d.before[own], taken.keys, to, sizeof(uint32_t)) ||
        !exchange_items(group, given.values, d.before[own], taken.values, to,
                        record * (int64_t)sizeof(float)))
        return false;
    GS_OR_FAIL(group, parts_split_take(&vectors, &d.split, &taken, NULL));
    return true;
}
