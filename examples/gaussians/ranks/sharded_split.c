// SPDX-License-Identifier: MIT
// Splits over all ranks. The free rows of all ranks, in their order, take the Gaussians with the least keys, in the
// order of keys, of ranks, of rows. So the free rows of rank r take those between two places of that order. A search
// over the digits of the keys finds how many of each rank's keys lie before each of these places; no rank sees the keys
// of all.
#include "sharded_density.h"
#include "transport.h"
#include <string.h>

enum { DIGIT_BITS = 4, DIGITS = 1 << DIGIT_BITS, PLACES = RANKS_MAX + 1, MOST_BOUNDS = PLACES * DIGITS };

// The state of one call of shard_split.
typedef struct division {
    const gs_gaussians *gaussians;
    gs_shared_split split;
    uint32_t *bounds;                       // device, [MOST_BOUNDS]
    int64_t *below;                         // device, [MOST_BOUNDS]
    int count;                              // ranks
    int64_t place[PLACES];                  // of the order: rank r's rows take place[r] .. place[r + 1] - 1
    int64_t before[RANKS_MAX][PLACES];      // of each rank's keys: how many lie before each place
    int64_t of_all[RANKS_MAX * 2 * PLACES]; // received
} division;

// Where the free rows of each rank begin among all; no place is beyond the last Gaussian that can be drawn.
static bool find_places(ranks *group, division *d, gs_stream stream) {
    int64_t own[2] = {0}, to_all[2 * RANKS_MAX], free_rows = 0, drawable = 0;
    GS_OR_FAIL(group, gs_share_split_draw(d->gaussians, &d->split, d->below, stream));
    RANKS_CUDA(cudaMemcpyAsync(own, d->below, sizeof own, cudaMemcpyDeviceToHost, stream));
    if (!ranks_wait(group, stream)) return false;
    for (int r = 0; r < d->count; r++) memcpy(to_all + 2 * r, own, sizeof own);
    if (!ranks_exchange_sizes(group, 2, to_all, d->of_all, stream)) return false;
    for (int r = 0; r < d->count; r++) drawable += d->of_all[2 * r + 1];
    for (int r = 0; r <= d->count; r++) {
        d->place[r] = free_rows < drawable ? free_rows : drawable;
        if (r < d->count) free_rows += d->of_all[2 * r];
    }
    return true;
}

// below: host, [n], of this rank's keys, or of all ranks'.
static bool count_below(ranks *group, division *d, const uint32_t *bounds, int n, bool of_all, int64_t *below,
                        gs_stream stream) {
    RANKS_CUDA(
        cudaMemcpyAsync(d->bounds, bounds, (size_t)n * sizeof *bounds, cudaMemcpyHostToDevice, stream));
    GS_OR_FAIL(group, gs_share_split_count(d->gaussians, &d->split, d->bounds, n, d->below, stream));
    const ranks_reduction sum = {d->below, n, RANKS_INT64, RANKS_SUM};
    if (of_all && !ranks_all_reduce(group, &sum, stream)) return false;
    RANKS_CUDA(cudaMemcpyAsync(below, d->below, (size_t)n * sizeof *below, cudaMemcpyDeviceToHost, stream));
    return ranks_wait(group, stream);
}

// least[p]: the largest key that has at most place[p] keys below it, digit after digit.
static bool find_keys(ranks *group, division *d, uint32_t *least, gs_stream stream) {
    uint32_t bounds[MOST_BOUNDS];
    int64_t below[MOST_BOUNDS];
    const int places = d->count + 1;
    memset(least, 0, (size_t)places * sizeof *least);
    for (int shift = 32 - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        for (int p = 0; p < places; p++)
            for (uint32_t digit = 0; digit < DIGITS; digit++)
                bounds[p * DIGITS + (int)digit] = least[p] | digit << shift;
        if (!count_below(group, d, bounds, places * DIGITS, true, below, stream)) return false;
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
static bool find_divisions(ranks *group, division *d, gs_stream stream) {
    uint32_t least[PLACES], bounds[2 * PLACES];
    int64_t own[2 * PLACES], to_all[RANKS_MAX * 2 * PLACES];
    const int places = d->count + 1, n = 2 * places;
    if (!find_keys(group, d, least, stream)) return false;
    for (int p = 0; p < places; p++) {
        bounds[2 * p] = least[p];
        bounds[2 * p + 1] = least[p] + (least[p] < UINT32_MAX);
    }
    if (!count_below(group, d, bounds, n, false, own, stream)) return false;
    for (int r = 0; r < d->count; r++) memcpy(to_all + r * n, own, (size_t)n * sizeof *own);
    if (!ranks_exchange_sizes(group, n, to_all, d->of_all, stream)) return false;
    for (int p = 0; p < places; p++) {
        int64_t left = d->place[p];
        for (int r = 0; r < d->count; r++) left -= d->of_all[r * n + 2 * p];
        for (int r = 0; r < d->count; r++) {
            const int64_t *const of = d->of_all + r * n + 2 * p;
            const int64_t equal = of[1] - of[0], taken = equal < left ? equal : left;
            d->before[r][p] = of[0] + taken;
            left -= taken;
        }
    }
    return true;
}

static gs_split_copies place_copies(int64_t count, int64_t record, device_buffer *memory) {
    gs_split_copies copies = {.count = count};
    const size_t values = (size_t)(count * record);
    copies.values =
        device_buffer_reserve(memory, values * sizeof(float) + (size_t)count * sizeof(uint32_t) + 16);
    copies.keys = (uint32_t *)(copies.values + values);
    return copies;
}

// Brings items of `bytes` bytes to the ranks that have rows for them.
static bool exchange_items(ranks *group, const division *d, const void *send, void *receive, int64_t bytes,
                           gs_stream stream) {
    int64_t send_begin[RANKS_MAX], send_bytes[RANKS_MAX], begin[RANKS_MAX], received[RANKS_MAX], at = 0;
    const int own = ranks_own(group);
    for (int r = 0; r < d->count; r++) {
        send_begin[r] = d->before[own][r] * bytes;
        send_bytes[r] = (d->before[own][r + 1] - d->before[own][r]) * bytes;
        begin[r] = at;
        received[r] = (d->before[r][own + 1] - d->before[r][own]) * bytes;
        at += received[r];
    }
    const ranks_exchange exchange = {send, send_begin, send_bytes, receive, begin, received};
    return ranks_all_to_all(group, &exchange, stream);
}

// All Gaussians are here.
static bool split_alone(ranks *group, const shard_split_rules *what, shard_workspace *workspace,
                        gs_stream stream) {
    const gs_shared_vectors *const v = &what->vectors;
    size_t bytes;
    GS_OR_FAIL(group, gs_split_bytes(v->gaussians.count, &bytes));
    GS_OR_FAIL(group, gs_split(&v->gaussians, &v->first_moment, &v->second_moment, &what->rules,
                               device_buffer_reserve(&workspace->relocation, bytes), bytes, stream));
    return true;
}

bool shard_split(ranks *group, const shard_split_rules *what, shard_workspace *workspace, gs_stream stream) {
    if (ranks_count(group) == 1) return split_alone(group, what, workspace, stream);
    const gs_gaussians *const gaussians = &what->vectors.gaussians;
    const int own = ranks_own(group);
    const int64_t record = gs_share_record(gaussians);
    int64_t *const numbers =
        device_buffer_reserve(&workspace->numbers, MOST_BOUNDS * (sizeof(int64_t) + sizeof(uint32_t)));
    division d = {.gaussians = gaussians,
                  .split = {.rules = what->rules, .first = what->first},
                  .bounds = (uint32_t *)(numbers + MOST_BOUNDS),
                  .below = numbers,
                  .count = ranks_count(group)};
    const int64_t existing = what->rules.existing - what->first;
    d.split.rules.existing = existing < 0 ? 0 : existing < gaussians->count ? existing : gaussians->count;
    GS_OR_FAIL(group, gs_share_split_bytes(gaussians->count, &d.split.workspace_bytes));
    d.split.workspace = device_buffer_reserve(&workspace->relocation, d.split.workspace_bytes);
    if (!find_places(group, &d, stream) || !find_divisions(group, &d, stream)) return false;

    const gs_split_copies given = place_copies(d.before[own][d.count], record, &workspace->own),
                          taken = place_copies(d.place[own + 1] - d.place[own], record, &workspace->others);
    GS_OR_FAIL(group, gs_share_split_give(&what->vectors, &d.split, &given, stream));
    if (!exchange_items(group, &d, given.keys, taken.keys, sizeof(uint32_t), stream) ||
        !exchange_items(group, &d, given.values, taken.values, record * (int64_t)sizeof(float), stream))
        return false;
    GS_OR_FAIL(group, gs_share_split_take(&what->vectors, &d.split, &taken, stream));
    return true;
}
