// SPDX-License-Identifier: MIT
// Moments: from the parts to the homes of their Gaussians. Those that are 0 stay: most splats of a large scene are
// hidden behind others.
#include "sharded_parts.h"

static int64_t record_bytes(const sharded *s) {
    return GS_MOMENTS_STRIDE * (int64_t)(s->fixed ? sizeof(int64_t) : sizeof(float));
}

static int64_t packed_bytes(const sharded *s) {
    return (s->absolute ? GS_PACKED_WHOLE : GS_PACKED) *
           (int64_t)(s->fixed ? sizeof(int64_t) : sizeof(float));
}

static bool packs_apart(const sharded *s) {
    return packed_bytes(s) > (int64_t)sizeof(gs_splat);
}

static const char *records_of(const sharded *s, const own_part *part) {
    return s->fixed ? (const char *)part->sums : (const char *)part->gradient.moments;
}

// Where the sums of this rank's splats for all cameras are: integers, or the moments themselves.
static char *sums_of(const sharded *s) {
    return s->fixed ? s->sums.memory : s->moments.memory;
}

// A whole view: this rank's own moments.
static bool keep_own(sharded *s, const own_part *part) {
    const int64_t count = s->batch->gaussians.count, v = part->part.view;
    ranks *const group = s->group;
    const int64_t bytes = record_bytes(s);
    RANKS_CUDA(cudaMemcpyAsync(sums_of(s) + v * count * bytes,
                               records_of(s, part) + part->at[ranks_own(group)] * bytes,
                               (size_t)(count * bytes), cudaMemcpyDeviceToDevice, s->stream));
    return true;
}

// A part of a view: the same, added to those of the view's other parts.
static bool add_own(sharded *s, const own_part *part) {
    const int own = ranks_own(s->group);
    const uint32_t *const index = s->share.index + s->begin[own][part->number];
    const char *const from = records_of(s, part) + part->at[own] * record_bytes(s);
    if (s->fixed)
        GS_OR_FAIL(s->group, gs_share_add_sums(index, (const int64_t *)from, part->from[own], s->sums.memory,
                                               s->stream));
    else
        GS_OR_FAIL(s->group, gs_share_add_moments(index, (const gs_moments *)from, part->from[own],
                                                  s->moments.memory, s->stream));
    return true;
}

// Packs what other ranks' homes get of a part.
static bool pack(sharded *s, own_part *part, int64_t *begin) {
    const int count = ranks_count(s->group), own = ranks_own(s->group);
    int64_t others[RANKS_MAX], all = 0;
    for (int r = 0; r < count; r++) others[r] = r == own ? 0 : part->from[r], all += others[r];
    gs_packing packing = {.fixed = s->fixed,
                          .whole = s->absolute != NULL,
                          .segments = count,
                          .begin = part->at,
                          .count = others,
                          .records = records_of(s, part),
                          .packed_begin = begin};
    GS_OR_FAIL(s->group, gs_share_pack_bytes(&packing, &packing.workspace_bytes));
    packing.workspace = reserve(s, &part->packing, packing.workspace_bytes);
    // Nine floats and a place fit where the splats were. Others need more.
    packing.packed =
        packs_apart(s) ? reserve(s, &part->packed, (size_t)(all * packed_bytes(s))) : part->splats.memory;
    if (!packing.workspace || !packing.packed) return false;
    GS_OR_FAIL(s->group, gs_share_pack(&packing, s->stream));
    return true;
}

// The count of numbers that a rank tells of its k-th part: count + 1 places in the packed rows, and each row's pairs.
static int told_numbers(const sharded *s) {
    return ranks_count(s->group) + 1 + tile_rows(s);
}

// The moments of the k-th part: this rank's own go home, the others' are packed, and their sizes are sent.
bool pack_moments(sharded *s, int k) {
    const int numbers = told_numbers(s);
    own_part *const part = k < s->own_count ? &s->own[k] : NULL;
    if (part && !(part->whole ? keep_own(s, part) : add_own(s, part))) return false;
    ranks *const group = s->group;
    int64_t *const told = reserve(s, &s->told, (size_t)numbers * sizeof(int64_t));
    if (!told) return false;
    if (!part) RANKS_CUDA(cudaMemsetAsync(told, 0, (size_t)numbers * sizeof(int64_t), s->stream));
    if (part) {
        if (!pack(s, part, told)) return false;
        GS_OR_FAIL(s->group, gs_share_row_pairs(&part->view, told + ranks_count(group) + 1, s->stream));
    }
    return begin_travel(s) && share_numbers(s, told, numbers);
}

// Notes the cost of the rows of the rank's k-th part.
static void learn_costs(sharded *s, int rank, int k, const int64_t *pairs) {
    const int p = part_at(s, rank, k);
    if (p < 0 || !s->batch->pictures) return;
    const gs_part *const part = &s->out.parts[p];
    row_costs_learn(s->costs, s->batch->pictures[part->view], part->rows, pairs, tile_rows(s),
                    (s->home.camera.width + GS_TILE_SIZE - 1) / GS_TILE_SIZE);
}

// Waits for the sizes, and sends the moments that pack_moments has packed.
bool send_moments(sharded *s, int k) {
    const int count = ranks_count(s->group), own = ranks_own(s->group), numbers = told_numbers(s);
    const own_part *const part = k < s->own_count ? &s->own[k] : NULL;
    const int64_t bytes = packed_bytes(s);
    returned_moments *const returned = &s->returned[k];
    int64_t send_begin[RANKS_MAX], send_bytes[RANKS_MAX], begin[RANKS_MAX], received[RANKS_MAX], all = 0;
    if (!ranks_wait(s->group, s->travel)) return false;
    for (int r = 0; r < count; r++) {
        const int64_t *const mine = s->table + own * numbers, *const theirs = s->table + r * numbers;
        send_begin[r] = mine[r] * bytes, send_bytes[r] = (mine[r + 1] - mine[r]) * bytes;
        returned->at[r] = all, returned->count[r] = theirs[own + 1] - theirs[own];
        begin[r] = all * bytes, received[r] = returned->count[r] * bytes;
        all += returned->count[r];
        learn_costs(s, r, k, theirs + count + 1);
        s->report.bytes_sent += send_bytes[r];
    }
    void *const to = reserve(s, &returned->memory, (size_t)(all * bytes));
    if (!to) return false;
    const void *const from = !part ? NULL : packs_apart(s) ? part->packed.memory : part->splats.memory;
    const ranks_exchange exchange = {from, send_begin, send_bytes, to, begin, received};
    return ranks_all_to_all(s->group, &exchange, s->travel);
}

static bool add_returned(sharded *s, int k) {
    const returned_moments *const returned = &s->returned[k];
    const int own = ranks_own(s->group);
    for (int r = 0; r < ranks_count(s->group); r++) {
        const int p = r == own ? -1 : part_at(s, r, k);
        if (p < 0) continue;
        GS_OR_FAIL(s->group, gs_share_add_packed(
                                 s->share.index + s->begin[own][p],
                                 (const char *)returned->memory.memory + returned->at[r] * packed_bytes(s),
                                 returned->count[r], s->fixed, s->absolute != NULL, sums_of(s), s->stream));
    }
    return true;
}

// Adds what has come home, and makes moments of integers.
bool gather_moments(sharded *s) {
    const ranks_reduction take = {s->units.memory,
                                  s->batch->views * (int64_t)(sizeof(gs_fixed_units) / sizeof(float)),
                                  RANKS_FLOAT, RANKS_MAX_OF};
    if (s->fixed && !(begin_travel(s) && ranks_all_reduce(s->group, &take, s->travel))) return false;
    if (!await_travel(s)) return false;
    for (int k = 0; k < s->out.most; k++)
        if (!add_returned(s, k)) return false;
    if (s->fixed)
        GS_OR_FAIL(s->group, gs_moments_from_sums(s->sums.memory, s->units.memory, s->batch->gaussians.count,
                                                  s->batch->views, s->moments.memory, s->stream));
    return true;
}
