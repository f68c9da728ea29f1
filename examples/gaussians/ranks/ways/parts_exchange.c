// SPDX-License-Identifier: MIT
// What ranks of a scene in parts bring each other in a step: splats, pixels, moments.
#include "parts.h"
#include "device.h"
#include <string.h>

// ---- memory and streams

bool begin_travel(parts *s) {
    CUDA_OR_FAIL(s->group, cudaEventRecord(s->queued, s->stream));
    CUDA_OR_FAIL(s->group, cudaStreamWaitEvent(s->travel, s->queued, 0));
    return true;
}

bool await_event(parts *s, cudaEvent_t event) {
    CUDA_OR_FAIL(s->group, cudaStreamWaitEvent(s->stream, event, 0));
    CUDA_OR_FAIL(s->group, cudaStreamWaitEvent(s->watch, event, 0));
    return true;
}

bool await_travel(parts *s) {
    CUDA_OR_FAIL(s->group, cudaEventRecord(s->arrived, s->travel));
    return await_event(s, s->arrived);
}

void *reserve(parts *s, device_buffer *buffer, size_t bytes) {
    const bool may_wait = buffer->memory && buffer->bytes < bytes; // memory is freed
    if (may_wait && !(ranks_wait(s->group, s->travel) && ranks_wait(s->group, s->stream))) return NULL;
    return device_buffer_reserve(buffer, bytes);
}

void *reserve_for_step(parts *s, step_buffer *buffer, size_t bytes) {
    if (buffer->memory && buffer->bytes >= bytes) return buffer->memory;
    const size_t used = (bytes + 255) / 256 * 256;
    if (s->scratch && used <= s->scratch_bytes) {
        buffer->memory = s->scratch;
        s->scratch += used, s->scratch_bytes -= used;
    } else {
        buffer->memory = reserve(s, &buffer->own, bytes);
    }
    buffer->bytes = bytes;
    return buffer->memory;
}

// ---- splats: from the homes of their Gaussians to the parts of images that need them

static int64_t entries_of(const parts *s, int rank, int p) {
    return s->begin[rank][p + 1] - s->begin[rank][p];
}

// Queues s->table[rank][values] of own[values], device, of all ranks; ranks_wait(s->travel) before it is read.
static bool tell_numbers(parts *s, const int64_t *own, int values) {
    const int count = s->count;
    const int64_t bytes = values * (int64_t)sizeof *own;
    void *const all = reserve(s, &s->numbers, (size_t)(count * bytes));
    if (!all) return false;
    ranks_exchange exchange = {.send = own, .receive = all};
    for (int r = 0; r < count; r++)
        exchange.to[r].count = bytes, exchange.from[r] = (ranks_bytes){r * bytes, bytes};
    if (!ranks_all_to_all(s->group, &exchange, s->travel)) return false;
    CUDA_OR_FAIL(s->group,
                 cudaMemcpyAsync(s->table, all, (size_t)(count * bytes), cudaMemcpyDeviceToHost, s->travel));
    return true;
}

static bool gather_entries(parts *s) {
    part_entries *const e = &s->entries;
    e->room = s->entries_room;
    e->index = reserve(s, &s->index, (size_t)e->room * sizeof *e->index);
    e->splats = reserve_for_step(s, &s->sent, (size_t)e->room * sizeof *e->splats);
    if (!e->index || !e->splats) return false;
    GS_OR_FAIL(s->group, parts_gather(&s->home, e, s->stream));
    return true;
}

// This rank's splats for all cameras, and how many of them each part needs. Queues; the sizes are on their way.
bool project_home(parts *s) {
    const part_batch *const batch = s->batch;
    const size_t splats = (size_t)batch->views * (size_t)batch->gaussians.count;
    gs_view *const home = &s->home;
    *home = (gs_view){.gaussians = batch->gaussians,
                      .camera = batch->cameras[0],
                      .sh_degree_used = batch->sh_degree_used,
                      .views = {s->only_images ? 0 : batch->views, batch->cameras},
                      .splats = reserve(s, &s->splats, splats * sizeof(gs_splat))};
    device_begin_stage("project");
    if (!home->splats) return false;
    GS_OR_FAIL(s->group, gs_project(home, s->stream));
    part_entries *const e = &s->entries;
    *e = (part_entries){.count = s->out.begin[s->count]};
    memcpy(e->parts, s->out.parts, sizeof e->parts);
    const size_t begin_bytes = ((MOST_PARTS + 1) * sizeof(int64_t) + 255) / 256 * 256;
    size_t bytes;
    GS_OR_FAIL(s->group, parts_count_bytes(home, e->count, &bytes));
    char *const memory = reserve(s, &s->selection, begin_bytes + bytes);
    if (!memory) return false;
    e->begin = (int64_t *)memory, e->workspace = memory + begin_bytes;
    GS_OR_FAIL(s->group, parts_count(home, e, s->stream));
    return begin_travel(s) && tell_numbers(s, e->begin, e->count + 1) && gather_entries(s);
}

// Reads what tell_numbers has brought: how many splats come from where.
static bool take_sizes(parts *s) {
    const int count = s->count, values = s->entries.count + 1;
    if (!ranks_wait(s->group, s->travel)) return false;
    for (int r = 0; r < count; r++)
        memcpy(s->begin[r], s->table + (size_t)r * (size_t)values, (size_t)values * sizeof(int64_t));
    for (int j = 0; j < s->own_count; j++) {
        own_part *const part = &s->own[j];
        int64_t all = 0;
        for (int r = 0; r < count; r++) {
            part->from[r] = entries_of(s, r, part->number);
            part->at[r] = all;
            all += part->from[r];
        }
        if (all >= INT32_MAX)
            return ranks_fail(
                s->group,
                "a rank's part of the views has %lld splats; %d is too many: take a smaller --batch",
                (long long)all, INT32_MAX);
        part->view.gaussians.count = all;
        if (!reserve_for_step(s, &part->splats, (size_t)all * sizeof(gs_splat))) return false;
    }
    return true;
}

// The splats of the k-th parts of all ranks.
static bool send_round(parts *s, int k) {
    const int64_t bytes = sizeof(gs_splat);
    const int own = s->rank;
    own_part *const part = k < s->own_count ? &s->own[k] : NULL;
    ranks_exchange exchange = {.send = s->entries.splats, .receive = part ? part->splats.memory : NULL};
    for (int r = 0; r < s->count; r++) {
        const int p = part_at(s, r, k);
        if (p >= 0) exchange.to[r] = (ranks_bytes){s->begin[own][p] * bytes, entries_of(s, own, p) * bytes};
        if (part) exchange.from[r] = (ranks_bytes){part->at[r] * bytes, part->from[r] * bytes};
    }
    if (!ranks_all_to_all(s->group, &exchange, s->travel)) return false;
    if (part) CUDA_OR_FAIL(s->group, cudaEventRecord(part->received, s->travel));
    return true;
}

bool send_splats(parts *s) {
    if (!take_sizes(s)) return false;
    const int64_t all = s->begin[s->rank][s->entries.count];
    if (all > s->entries_room) { // what was gathered is incomplete
        s->entries_room = all + all / 8;
        if (!gather_entries(s)) return false;
    }
    if (!begin_travel(s)) return false;
    for (int k = 0; k < s->out.most; k++)
        if (!send_round(s, k)) return false;
    return true;
}

// The largest colours and depths of all splats, for the scales of integer sums.
bool find_largest(parts *s) {
    if (!s->fixed) return true;
    struct gs_largest_values *const largest =
        reserve(s, &s->largest, (size_t)s->batch->views * sizeof *largest);
    if (!largest) return false;
    GS_OR_FAIL(s->group, parts_largest(&s->home, largest, s->stream));
    const ranks_reduction take = {largest, s->batch->views * (int64_t)(sizeof *largest / sizeof(float)),
                                  RANKS_FLOAT, RANKS_MAX_OF};
    return begin_travel(s) && ranks_all_reduce(s->group, &take, s->travel) && await_travel(s);
}

// ---- pixels: the loss of rows of an image reads some above and below them, which other ranks render

// The pixels that this rank and another exchange at a border between their parts of a view. Two ranks have one border
// in common at most: their shares are ranges of rows.
typedef struct border {
    int rank; // the other
    float *image;
    int32_t out, out_rows, in, in_rows; // of pixels
} border;

static int rank_of(const parts *s, int p) {
    int r = 0;
    while (p >= s->out.begin[r + 1]) r++;
    return r;
}

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

// The borders of this rank's k-th part. Returns their number. A part has GS_TILE_SIZE rows of pixels or more, or is the
// last of its image, so that no part beyond the next is needed.
static int borders_of(const parts *s, int k, border *out) {
    _Static_assert((int)LOSS_HALO <= (int)GS_TILE_SIZE, "the halo lies in the next part");
    const own_part *const part = &s->own[k];
    const int32_t height = s->home.camera.height, first = part->part.rows.begin * GS_TILE_SIZE,
                  last = smaller(part->part.rows.end * GS_TILE_SIZE, height),
                  rows = smaller(last - first, LOSS_HALO);
    int count = 0;
    if (first > 0)
        out[count++] = (border){
            rank_of(s, part->number - 1), part->view.image.color, first, rows, first - LOSS_HALO, LOSS_HALO};
    if (last < height)
        out[count++] =
            (border){rank_of(s, part->number + 1),     part->view.image.color, last - rows, rows, last,
                     smaller(LOSS_HALO, height - last)};
    return count;
}

static int64_t row_bytes(const parts *s) {
    return s->home.camera.width * (int64_t)sizeof(float);
}

// Moves rows between an image and memory where the rows of its channels follow one another.
static bool copy_rows(parts *s, float *image, int32_t row, int32_t rows, char *packed, bool packs) {
    const int64_t width = s->home.camera.width, plane = width * s->home.camera.height,
                  bytes = rows * row_bytes(s);
    for (int c = 0; c < GS_CHANNELS; c++) {
        float *const at = image + c * plane + row * width;
        char *const place = packed + c * bytes;
        CUDA_OR_FAIL(s->group, cudaMemcpyAsync(packs ? (void *)place : at, packs ? (const void *)at : place,
                                               (size_t)bytes, cudaMemcpyDeviceToDevice, s->stream));
    }
    return true;
}

// All ranks call it if any view is cut.
bool exchange_pixels(parts *s) {
    border borders[2 * MOST_CUT];
    int count = 0;
    for (int k = 0; k < s->own_count && !s->own[k].whole; k++) count += borders_of(s, k, borders + count);
    const int64_t most = GS_CHANNELS * LOSS_HALO * row_bytes(s); // of a border
    char *const sent = reserve(s, &s->pixels_sent, (size_t)(2 * MOST_CUT * most));
    char *const got = reserve(s, &s->pixels_received, (size_t)(2 * MOST_CUT * most));
    if (!sent || !got) return false;
    ranks_exchange exchange = {.send = sent, .receive = got};
    for (int k = 0; k < count; k++) {
        const border *const b = &borders[k];
        exchange.to[b->rank] = (ranks_bytes){k * most, GS_CHANNELS * b->out_rows * row_bytes(s)};
        exchange.from[b->rank] = (ranks_bytes){k * most, GS_CHANNELS * b->in_rows * row_bytes(s)};
        if (!copy_rows(s, b->image, b->out, b->out_rows, sent + k * most, true)) return false;
    }
    if (!begin_travel(s) || !ranks_all_to_all(s->group, &exchange, s->travel) || !await_travel(s))
        return false;
    for (int k = 0; k < count; k++) {
        const border *const b = &borders[k];
        if (!copy_rows(s, b->image, b->in, b->in_rows, got + k * most, false)) return false;
    }
    return true;
}

// ---- moments: from the parts to the homes of their Gaussians. Those that are 0 stay: most splats of a large scene are
// hidden behind others

int64_t record_bytes(const parts *s) {
    return GS_MOMENTS_STRIDE * (int64_t)(s->fixed ? sizeof(int64_t) : sizeof(float));
}

static int64_t packed_bytes(const parts *s) {
    return (s->absolute ? PACKED_WHOLE : PACKED) * (int64_t)(s->fixed ? sizeof(int64_t) : sizeof(float));
}

char *sums_of(const parts *s) {
    return s->fixed ? s->sums.memory : s->moments.memory;
}

// Packs the moments of a part for the homes of its splats.
static bool pack(parts *s, own_part *part, int64_t *begin) {
    const void *const records = s->fixed ? (const void *)part->sums : part->gradient.moments;
    const int64_t splats = part->view.gaussians.count;
    moment_packing packing = {.fixed = s->fixed,
                              .whole = s->absolute != NULL,
                              .segments = s->count,
                              .begin = part->at,
                              .count = part->from,
                              .records = records,
                              .packed_begin = begin};
    size_t workspace;
    GS_OR_FAIL(s->group, parts_pack_bytes(&packing, &workspace));
    packing.workspace = reserve(s, &part->packing, workspace);
    // Nine floats and a place fit where the splats were. Others need more.
    part->packed = packed_bytes(s) > (int64_t)sizeof(gs_splat)
                       ? reserve(s, &part->packed_apart, (size_t)(splats * packed_bytes(s)))
                       : part->splats.memory;
    packing.packed = part->packed;
    if (!packing.workspace || !packing.packed) return false;
    GS_OR_FAIL(s->group, parts_pack(&packing, s->stream));
    return true;
}

// The count of numbers that a rank tells of its k-th part: count + 1 places in the packed rows, and each row's pairs.
static int told_numbers(const parts *s) {
    return s->count + 1 + tile_rows(s);
}

// The moments of the k-th part are packed, and their sizes are sent.
bool pack_moments(parts *s, int k) {
    const int numbers = told_numbers(s);
    own_part *const part = k < s->own_count ? &s->own[k] : NULL;
    int64_t *const told = reserve(s, &s->told, (size_t)numbers * sizeof(int64_t));
    if (!told) return false;
    if (!part) CUDA_OR_FAIL(s->group, cudaMemsetAsync(told, 0, (size_t)numbers * sizeof(int64_t), s->stream));
    if (part) {
        if (!pack(s, part, told)) return false;
        GS_OR_FAIL(s->group, parts_row_pairs(&part->view, told + s->count + 1, s->stream));
    }
    return begin_travel(s) && tell_numbers(s, told, numbers);
}

// Notes the cost of the rows of the rank's k-th part.
static void learn_costs(parts *s, int rank, int k, const int64_t *pairs) {
    const int p = part_at(s, rank, k);
    if (p < 0 || !s->batch->pictures) return;
    const image_part *const part = &s->out.parts[p];
    row_costs_learn(s->costs, s->batch->pictures[part->view], part->rows, pairs, tile_rows(s),
                    (s->home.camera.width + GS_TILE_SIZE - 1) / GS_TILE_SIZE);
}

// Waits for the sizes, and sends the moments that pack_moments has packed.
bool send_moments(parts *s, int k) {
    const int count = s->count, own = s->rank, numbers = told_numbers(s);
    const int64_t bytes = packed_bytes(s);
    returned_moments *const returned = &s->returned[k];
    ranks_exchange exchange = {.send = k < s->own_count ? s->own[k].packed : NULL};
    int64_t all = 0;
    if (!ranks_wait(s->group, s->travel)) return false;
    for (int r = 0; r < count; r++) {
        const int64_t *const mine = s->table + own * numbers, *const theirs = s->table + r * numbers;
        exchange.to[r] = (ranks_bytes){mine[r] * bytes, (mine[r + 1] - mine[r]) * bytes};
        returned->at[r] = all, returned->count[r] = theirs[own + 1] - theirs[own];
        exchange.from[r] = (ranks_bytes){all * bytes, returned->count[r] * bytes};
        all += returned->count[r];
        learn_costs(s, r, k, theirs + count + 1);
    }
    exchange.receive = reserve(s, &returned->memory, (size_t)(all * bytes));
    return exchange.receive && ranks_all_to_all(s->group, &exchange, s->travel);
}

static bool add_returned(parts *s, int k) {
    const returned_moments *const returned = &s->returned[k];
    for (int r = 0; r < s->count; r++) {
        const int p = part_at(s, r, k);
        if (p < 0) continue;
        GS_OR_FAIL(s->group, parts_add_packed(
                                 s->entries.index + s->begin[s->rank][p],
                                 (const char *)returned->memory.memory + returned->at[r] * packed_bytes(s),
                                 returned->count[r], s->fixed, s->absolute != NULL, sums_of(s), s->stream));
    }
    return true;
}

// Adds what has come home, and makes moments of integers.
bool gather_moments(parts *s) {
    const ranks_reduction take = {s->units.memory,
                                  s->batch->views * (int64_t)(sizeof(fixed_units) / sizeof(float)),
                                  RANKS_FLOAT, RANKS_MAX_OF};
    if (s->fixed && !(begin_travel(s) && ranks_all_reduce(s->group, &take, s->travel))) return false;
    if (!await_travel(s)) return false;
    for (int k = 0; k < s->out.most; k++)
        if (!add_returned(s, k)) return false;
    if (s->fixed)
        GS_OR_FAIL(s->group, parts_from_sums(s->sums.memory, s->units.memory, s->batch->gaussians.count,
                                             s->batch->views, s->moments.memory, s->stream));
    return true;
}
