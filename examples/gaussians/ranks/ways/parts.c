// SPDX-License-Identifier: MIT
// A scene in parts: the gradient of a batch of views from the parameters on, over all ranks: home, then the parts, then home
// again. What ranks bring each other in a step: splats, pixels, moments. A rank brings itself the same as others.
#include "parts.h"
#include "device.h"
#include "files/growing.h"
#include "frame.h"
#include <stdlib.h>
#include <string.h>

// ---- open and close

void *parts_open(ranks *group) {
    parts *const s = calloc(1, sizeof *s);
    if (!s) {
        ranks_fail(group, "no memory for the state of a scene in parts");
        return NULL;
    }
    *s = (parts){.group = group, .count = ranks_count(group), .rank = ranks_own(group)};
    int least = 0, greatest = 0;
    DEVICE_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    // What travels starts as soon as it can: kernels that render leave it room only when their blocks end.
    DEVICE_CHECK(cudaStreamCreateWithPriority(&s->travel, cudaStreamNonBlocking, greatest));
    DEVICE_CHECK(cudaStreamCreateWithFlags(&s->watch, cudaStreamNonBlocking));
    DEVICE_CHECK(cudaEventCreateWithFlags(&s->queued, cudaEventDisableTiming));
    DEVICE_CHECK(cudaEventCreateWithFlags(&s->arrived, cudaEventDisableTiming));
    for (int j = 0; j < MOST_OWN; j++)
        DEVICE_CHECK(cudaEventCreateWithFlags(&s->own[j].received, cudaEventDisableTiming));
    return s;
}

// After a failure, too: what the device says then has been told.
void parts_close(void *kept) {
    parts *const s = kept;
    device_buffer *const first = (device_buffer *)&s->buffers; // the struct has nothing else
    for (size_t k = 0; k < sizeof s->buffers / sizeof *first; k++) device_buffer_close(&first[k]);
    for (int k = 0; k < PLACES; k++) gs_view_free(&(gs_view){.memory = s->lists[k]}, NULL);
    for (int j = 0; j < MOST_OWN; j++) cudaEventDestroy(s->own[j].received);
    cudaEventDestroy(s->queued);
    cudaEventDestroy(s->arrived);
    cudaStreamDestroy(s->travel);
    cudaStreamDestroy(s->watch);
    for (size_t k = 0; k < s->costs_room; k++) free(s->costs[k].of);
    free(s->costs);
    free(s);
}

// ---- memory and streams

// The collectives wait for the default stream.
static void begin_travel(parts *s) {
    DEVICE_CHECK(cudaEventRecord(s->queued, NULL));
    DEVICE_CHECK(cudaStreamWaitEvent(s->travel, s->queued, 0));
}

// The default stream waits for them.
static void await_event(parts *s, cudaEvent_t event) {
    DEVICE_CHECK(cudaStreamWaitEvent(NULL, event, 0));
    DEVICE_CHECK(cudaStreamWaitEvent(s->watch, event, 0));
}

static void await_travel(parts *s) {
    DEVICE_CHECK(cudaEventRecord(s->arrived, s->travel));
    await_event(s, s->arrived);
}

static bool reduce_in_travel(parts *s, const ranks_reduction *reduction) {
    begin_travel(s);
    if (!ranks_all_reduce(s->group, reduction, s->travel)) return false;
    await_travel(s);
    return true;
}

// device_buffer_reserve, which may wait for the GPU: looks at the other ranks first. NULL: the group has failed.
static void *reserve(parts *s, device_buffer *buffer, size_t bytes) {
    const bool may_wait = buffer->memory && buffer->bytes < bytes; // memory is freed
    if (may_wait && !(ranks_wait(s->group, s->travel) && ranks_wait(s->group, NULL))) return NULL;
    return device_buffer_reserve(buffer, bytes);
}

static void *reserve_for_step(parts *s, int which, size_t bytes) {
    step_buffer *const buffer = &s->step[which];
    if (buffer->memory && buffer->bytes >= bytes) return buffer->memory;
    const size_t used = (bytes + 255) / 256 * 256;
    if (s->scratch && used <= s->scratch_bytes) {
        buffer->memory = s->scratch;
        s->scratch += used, s->scratch_bytes -= used;
    } else {
        buffer->memory = reserve(s, &s->buffers.step[which], bytes);
    }
    buffer->bytes = bytes;
    return buffer->memory;
}

// The largest array of the result is room for what is needed before it is written.
static void begin_scratch(parts *s, const gs_gaussians *result) {
    const size_t coefficients = (size_t)((result->sh_degree + 1) * (result->sh_degree + 1)),
                 bytes = (size_t)result->count * coefficients * GS_CHANNELS * sizeof(float),
                 skipped = -(uintptr_t)result->sh % 256;
    const bool any = result->sh && bytes > skipped;
    s->scratch = any ? (char *)result->sh + skipped : NULL;
    s->scratch_bytes = any ? bytes - skipped : 0;
    memset(s->step, 0, sizeof s->step);
}

// Queues numbers of all ranks, to be read after ranks_wait(s->travel).
static bool gather_numbers(parts *s, const int64_t *own, int values) {
    begin_travel(s);
    s->told = ranks_gather_numbers(s->group, values, own, s->travel);
    return s->told != NULL;
}

// ---- which rank renders what: rows of tiles of nearly equal cost. What a row costs is known from the last time that its
// picture was rendered: the entries of its lists, and a constant for each tile. As long as a batch has a picture that has not
// been rendered, all rows cost the same

enum { TILE_COST = 32 }; // entries that an empty tile takes as long as, about

int32_t tile_rows(const parts *s) {
    return (s->batch->of->camera[0].height + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
}

// [views][rows] for divide_tiles; NULL: unknown.
static const int64_t *costs_of_rows(parts *s) {
    const int32_t rows = tile_rows(s);
    for (int32_t v = 0; v < s->batch->of->count; v++) {
        const size_t k = s->batch->pictures ? s->batch->pictures[v] : SIZE_MAX;
        if (k >= s->costs_room || s->costs[k].rows != rows) return NULL;
        memcpy(s->asked + v * rows, s->costs[k].of, (size_t)rows * sizeof *s->asked);
    }
    return s->asked;
}

// pairs: [rows of tiles]
static void learn_costs(parts *s, size_t picture, gs_rows part, const int64_t *pairs) {
    const int32_t rows = tile_rows(s), tiles = (s->home.camera.width + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
    const size_t room = s->costs_room;
    if (!make_room(&s->costs, &s->costs_room, picture + 1, sizeof *s->costs))
        device_give_up("no memory for what %zu pictures cost", picture); // all ranks must know the same
    memset(s->costs + room, 0, (s->costs_room - room) * sizeof *s->costs);
    picture_costs *const costs = &s->costs[picture];
    if (costs->rows != rows) {
        free(costs->of);
        costs->of = malloc((size_t)rows * sizeof *costs->of);
        if (!costs->of) device_give_up("no memory for what %d rows cost", rows);
        costs->rows = rows;
        for (int32_t row = 0; row < rows; row++)
            costs->of[row] = 1; // until the other parts of the view are told
    }
    for (int32_t row = part.begin; row < part.end; row++)
        costs->of[row] = pairs[row] + (int64_t)TILE_COST * tiles;
}

enum { TOLERANCE = 10 }; // a cut may miss its place by 1 / TOLERANCE of a share, for the end of a view

void divide_tiles(int32_t ranks_number, int32_t views, int32_t rows, const int64_t *costs,
                  tile_partition *out) {
    const int64_t length = (int64_t)views * rows;   // the rows of all views, one after another
    int64_t all = 0, at = 0, before = 0, count = 0; // before: what the rows before `at` cost
    for (int64_t row = 0; row < length; row++) all += costs ? costs[row] : 1;
    *out = (tile_partition){.most = 0};
    for (int32_t r = 0; r < ranks_number; r++) {
        // The rank's share ends as near to this cost as rows allow, or at the end of a view if that is near enough: a view
        // that is not cut needs one list and no exchange of pixels.
        const int64_t wanted = all * (r + 1) / ranks_number, tolerance = all / ranks_number / TOLERANCE;
        int64_t end = at, cost = before, least = llabs(before - wanted);
        bool ends_view = false;
        for (int64_t row = at, here = before;; here += costs ? costs[row] : 1, row++) {
            const int64_t off = llabs(here - wanted);
            const bool of_view = row % rows == 0 && off <= tolerance, first = of_view && !ends_view;
            if (first || (of_view == ends_view && off < least)) end = row, cost = here, least = off;
            ends_view |= of_view;
            if (row == length || here > wanted + tolerance) break;
        }
        out->begin[r] = (int32_t)count;
        for (before = cost; at < end;) {
            const int64_t view = at / rows, view_end = (view + 1) * rows,
                          until = end < view_end ? end : view_end;
            out->parts[count++] =
                (image_part){(int32_t)view, {(int32_t)(at - view * rows), (int32_t)(until - view * rows)}};
            at = until;
        }
        if (count - out->begin[r] > out->most) out->most = (int32_t)count - out->begin[r];
    }
    out->begin[ranks_number] = out->count = (int32_t)count;
}

// Part p has all rows of its view.
static bool is_whole(const parts *s, int p) {
    const gs_rows rows = s->out.parts[p].rows;
    return rows.begin == 0 && rows.end == tile_rows(s);
}

// The k-th part that a rank renders, first those that are not whole; -1: it has none.
static int part_at(const parts *s, int rank, int k) {
    const int begin = s->out.begin[rank], end = s->out.begin[rank + 1];
    for (int whole = 0; whole < 2; whole++)
        for (int p = begin; p < end; p++)
            if (is_whole(s, p) == (whole != 0) && k-- == 0) return p;
    return -1;
}

static void plan(parts *s) {
    const int own = s->rank, views = s->batch->of->count;
    divide_tiles(s->count, views, tile_rows(s), costs_of_rows(s), &s->out);
    s->own_count = s->out.begin[own + 1] - s->out.begin[own];
    s->any_cut = s->out.count != views;
    for (int k = 0; k < s->own_count; k++) {
        own_part *const part = &s->own[k];
        part->number = part_at(s, own, k);
        part->part = s->out.parts[part->number];
        part->whole = is_whole(s, part->number);
        part->place = part->whole ? MOST_CUT : k; // at most the first two are not whole
    }
}

static bool is_cut(const parts *s, int k) {
    return k < s->own_count && !s->own[k].whole;
}

// ---- splats: from the homes of their Gaussians to the parts of images that need them

static int64_t entries_of(const parts *s, int rank, int p) {
    return s->begin[rank][p + 1] - s->begin[rank][p];
}

static bool gather_entries(parts *s) {
    const size_t room = (size_t)s->entries_room;
    uint32_t *const index = reserve(s, &s->buffers.index, room * sizeof *index);
    gs_splat *const splats = reserve_for_step(s, SENT, room * sizeof *splats);
    if (!index || !splats) return false;
    GS_CHECK(parts_gather(&s->home, &s->out, index, splats, s->entries_room));
    return true;
}

// This rank's splats for all cameras, and how many of them each part needs. Queues; the sizes are on their way.
static bool project_home(parts *s) {
    const part_batch *const batch = s->batch;
    const step_views *const of = batch->of;
    const size_t splats = (size_t)of->count * (size_t)batch->gaussians.count;
    s->home = (gs_view){.gaussians = batch->gaussians,
                        .camera = of->camera[0],
                        .sh_degree_used = of->sh_degree,
                        .views = {s->only_images ? 0 : of->count, of->camera},
                        .splats = reserve(s, &s->buffers.splats, splats * sizeof(gs_splat))};
    int64_t *const begin = reserve(s, &s->buffers.begin, (MOST_PARTS + 1) * sizeof *begin);
    device_begin_stage("project");
    if (!s->home.splats || !begin) return false;
    GS_CHECK(gs_project(&s->home, NULL));
    GS_CHECK(parts_count(&s->home, &s->out, begin));
    return gather_numbers(s, begin, s->out.count + 1) && gather_entries(s);
}

// Reads what gather_numbers has brought: how many splats come from where.
static bool take_sizes(parts *s) {
    const int count = s->count, values = s->out.count + 1;
    if (!ranks_wait(s->group, s->travel)) return false;
    for (int r = 0; r < count; r++)
        memcpy(s->begin[r], s->told + (size_t)r * (size_t)values, (size_t)values * sizeof(int64_t));
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
        if (!reserve_for_step(s, PART_SPLATS + j, (size_t)all * sizeof(gs_splat))) return false;
    }
    return true;
}

static bool send_splats(parts *s) {
    const int64_t bytes = sizeof(gs_splat);
    const int own = s->rank;
    if (!take_sizes(s)) return false;
    const int64_t all = s->begin[own][s->out.count];
    if (all > s->entries_room) { // what was gathered is incomplete
        s->entries_room = all + all / 8;
        if (!gather_entries(s)) return false;
    }
    begin_travel(s);
    for (int k = 0; k < s->out.most; k++) { // the k-th parts of all ranks
        own_part *const part = k < s->own_count ? &s->own[k] : NULL;
        ranks_exchange exchange = {.send = s->step[SENT].memory,
                                   .receive = part ? s->step[PART_SPLATS + k].memory : NULL};
        for (int r = 0; r < s->count; r++) {
            const int p = part_at(s, r, k);
            if (p >= 0)
                exchange.to[r] = (ranks_bytes){s->begin[own][p] * bytes, entries_of(s, own, p) * bytes};
            if (part) exchange.from[r] = (ranks_bytes){part->at[r] * bytes, part->from[r] * bytes};
        }
        if (!ranks_all_to_all(s->group, &exchange, s->travel)) return false;
        if (part) DEVICE_CHECK(cudaEventRecord(part->received, s->travel));
    }
    return true;
}

// ---- pixels: the loss of rows of an image reads some above and below them, which other ranks render

// The pixels that this rank and another exchange at a border between their parts of a view. Two ranks have one border
// in common at most: their shares are ranges of rows.
typedef struct border {
    int rank;                           // the other
    int32_t out, out_rows, in, in_rows; // of pixels
} border;

// The border above this rank's k-th part, or below it. False: there is none. A part has GS_TILE_SIZE rows of pixels or more,
// or is the last of its image, so that no part beyond the next is needed.
static bool border_of(const parts *s, int k, bool below, border *out) {
    _Static_assert((int)LOSS_HALO <= (int)GS_TILE_SIZE, "the halo lies in the next part");
    const own_part *const part = &s->own[k];
    const int32_t height = s->home.camera.height, first = part->part.rows.begin * GS_TILE_SIZE,
                  end = part->part.rows.end * GS_TILE_SIZE, last = end < height ? end : height,
                  rows = last - first < LOSS_HALO ? last - first : LOSS_HALO;
    if (!is_cut(s, k) || (below ? last == height : first == 0)) return false;
    const int other = below ? part->number + 1 : part->number - 1;
    int r = 0;
    while (other >= s->out.begin[r + 1]) r++;
    *out = below ? (border){r, last - rows, rows, last, height - last < LOSS_HALO ? height - last : LOSS_HALO}
                 : (border){r, first, rows, first - LOSS_HALO, LOSS_HALO};
    return true;
}

static int64_t row_bytes(const parts *s) {
    return s->home.camera.width * (int64_t)sizeof(float);
}

// Moves rows between an image and memory where the rows of its channels follow one another.
static void copy_rows(parts *s, float *image, int32_t row, int32_t rows, char *packed, bool packs) {
    const int64_t width = s->home.camera.width, plane = width * s->home.camera.height,
                  bytes = rows * row_bytes(s);
    for (int c = 0; c < GS_CHANNELS; c++) {
        float *const at = image + c * plane + row * width;
        char *const place = packed + c * bytes;
        DEVICE_CHECK(cudaMemcpyAsync(packs ? (void *)place : at, packs ? (const void *)at : place,
                                     (size_t)bytes, cudaMemcpyDeviceToDevice, NULL));
    }
}

// All ranks call it if any view is cut.
static bool exchange_pixels(parts *s) {
    enum { BORDERS = 2 * MOST_CUT };
    const int64_t most = GS_CHANNELS * LOSS_HALO * row_bytes(s); // of a border
    char *const sent = reserve(s, &s->buffers.pixels, (size_t)(2 * BORDERS * most));
    char *const got = sent + BORDERS * most;
    border b;
    if (!sent) return false;
    ranks_exchange exchange = {.send = sent, .receive = got};
    for (int k = 0; k < BORDERS; k++) {
        if (!border_of(s, k / 2, k % 2, &b)) continue;
        exchange.to[b.rank] = (ranks_bytes){k * most, GS_CHANNELS * b.out_rows * row_bytes(s)};
        exchange.from[b.rank] = (ranks_bytes){k * most, GS_CHANNELS * b.in_rows * row_bytes(s)};
        copy_rows(s, s->own[k / 2].view.image.color, b.out, b.out_rows, sent + k * most, true);
    }
    begin_travel(s);
    if (!ranks_all_to_all(s->group, &exchange, s->travel)) return false;
    await_travel(s);
    for (int k = 0; k < BORDERS; k++)
        if (border_of(s, k / 2, k % 2, &b))
            copy_rows(s, s->own[k / 2].view.image.color, b.in, b.in_rows, got + k * most, false);
    return true;
}

// ---- a part of an image, from its splats to their moments

static void bin_and_render(parts *s, own_part *part) {
    device_begin_stage("bin");
    GS_CHECK(gs_bin(&part->view, NULL));
    s->lists[part->place] = part->view.memory;
    device_begin_stage("render");
    GS_CHECK(gs_render(&part->view, NULL));
}

// Lists and image of the k-th part. The number of pairs is not known yet: settle_lists.
static bool queue_forward(parts *s, int k) {
    own_part *const part = &s->own[k];
    gs_view *const view = &part->view;
    const gs_camera *const camera = &s->batch->of->camera[part->part.view];
    const size_t pixels = (size_t)camera->width * (size_t)camera->height;
    float *const image =
        reserve(s, &s->buffers.image[part->place], (GS_CHANNELS + 2) * pixels * sizeof(float));
    if (!image) return false;
    *view = (gs_view){.gaussians = {.count = view->gaussians.count},
                      .camera = *camera,
                      .rows = part->part.rows,
                      .memory = s->lists[part->place],
                      .ranges = s->division[part->place],
                      .splats = s->step[PART_SPLATS + k].memory,
                      .image = {.color = image,
                                .transmittance = image + GS_CHANNELS * pixels,
                                .n_contrib = (uint32_t *)(image + (GS_CHANNELS + 1) * pixels)}};
    memcpy(view->background, s->batch->of->background, sizeof view->background);
    await_event(s, part->received);
    bin_and_render(s, part);
    return true;
}

// Waits until the lists have been counted; repeats what had no room. The GPU still renders.
static bool settle_lists(parts *s, own_part *part) {
    gs_status status;
    for (;;) {
        if (!ranks_wait(s->group, s->watch)) return false; // from here on no other rank holds the stream up
        status = gs_settle(&part->view, NULL);
        s->lists[part->place] = part->view.memory;
        if (status != GS_ISECTS_DO_NOT_FIT) break;
        bin_and_render(s, part);
    }
    GS_CHECK(status);
    s->division[part->place] = part->view.ranges;
    return true;
}

// With DISTWAR_FIXED: gs_bin has divided the work of a view's rows by their lists. Another number of ranks would round
// sums otherwise, so all ranks of the view choose by the lists of the whole.
static bool divide_as_whole(parts *s) {
    const int values = 2 * s->batch->of->count; // of each view: pairs and the longest list, of its rows here
    int64_t own[2 * GS_MAX_VIEWS] = {0}, all[RANKS_MAX * 2 * GS_MAX_VIEWS];
    list_lengths known[MOST_CUT];
    for (int k = 0; is_cut(s, k); k++) {
        list_lengths *const lengths = reserve(s, &s->buffers.lengths[k], sizeof *lengths);
        if (!lengths) return false;
        GS_CHECK(libgs_list_lengths(&s->own[k].view, lengths, NULL));
    }
    if (!ranks_wait(s->group, NULL)) return false;
    for (int k = 0; is_cut(s, k); k++) {
        device_download(&known[k], s->buffers.lengths[k].memory, sizeof *known);
        int64_t *const of_view = own + 2 * s->own[k].part.view;
        of_view[0] = known[k].isects, of_view[1] = known[k].longest;
    }
    if (!ranks_tell_numbers(s->group, values, own, all, s->travel)) return false;
    for (int k = 0; is_cut(s, k); k++) {
        int64_t pairs = 0, longest = 0;
        for (int r = 0; r < s->count; r++) {
            const int64_t *const theirs = all + r * values + 2 * s->own[k].part.view;
            pairs += theirs[0], longest = theirs[1] > longest ? theirs[1] : longest;
        }
        GS_CHECK(libgs_divide_lists(&s->own[k].view, &known[k], pairs, longest));
    }
    return true;
}

// [rows of tiles][GS_CHANNELS]
static double *row_sums_of(const parts *s, int32_t view) {
    return (double *)s->buffers.row_sums.memory + (int64_t)view * tile_rows(s) * GS_CHANNELS;
}

static bool queue_loss(parts *s, own_part *part) {
    const gs_camera *const camera = &part->view.camera;
    const size_t pixels = (size_t)camera->width * (size_t)camera->height;
    float *const d_color = reserve(s, &s->buffers.d_color[part->place], GS_CHANNELS * pixels * sizeof(float));
    if (!d_color) return false;
    part->gradient = (gs_gradient){.color = d_color, .abs_mean2d = s->absolute}; // not written here
    device_begin_stage("loss");
    if (!s->batch->loss(s, part, d_color)) return false;
    if (s->fixed)
        GS_CHECK(parts_row_sums(&part->view, part->part.rows, d_color, row_sums_of(s, part->part.view)));
    return true;
}

static bool queue_backward(parts *s, own_part *part) {
    const gs_view *const view = &part->view;
    const int32_t v = part->part.view;
    gs_gradient *const gradient = &part->gradient;
    device_begin_stage("render backward");
    gradient->splat_grad =
        reserve_for_step(s, SPLAT_GRADS + part->place, (size_t)view->gaussians.count * sizeof(gs_splat_grad));
    if (!gradient->splat_grad) return false;
    if (s->fixed) {
        struct gs_largest_values *const largest = (struct gs_largest_values *)s->buffers.largest.memory + v;
        GS_CHECK(parts_bound(view, row_sums_of(s, v), largest));
        gradient->largest = largest;
    }
    GS_CHECK(gs_render_backward(view, gradient, s->batch->policy, NULL));
    if (s->fixed)
        GS_CHECK(parts_fixed_sums(view, gradient, &part->sums, (fixed_units *)s->buffers.units.memory + v));
    return true;
}

// ---- moments: from the parts to the homes of their Gaussians. Those that are 0 stay: most splats of a large scene are
// hidden behind others

static int64_t packed_bytes(const parts *s) {
    return (s->absolute ? PACKED_WHOLE : PACKED) * (int64_t)(s->fixed ? sizeof(int64_t) : sizeof(float));
}

// The count of numbers that a rank tells of its k-th part: count + 1 places in the packed rows, and each row's pairs.
static int told_numbers(const parts *s) {
    return s->count + 1 + tile_rows(s);
}

// The moments of the k-th part are packed for the homes of its splats, and their sizes are sent.
static bool pack_moments(parts *s, int k) {
    const int numbers = told_numbers(s);
    const size_t bytes = (size_t)numbers * sizeof(int64_t);
    int64_t *const told = reserve(s, &s->buffers.numbers, bytes);
    if (!told) return false;
    if (k >= s->own_count) {
        DEVICE_CHECK(cudaMemsetAsync(told, 0, bytes, NULL));
        return gather_numbers(s, told, numbers);
    }
    own_part *const part = &s->own[k];
    const size_t room = (size_t)(part->view.gaussians.count * packed_bytes(s));
    // Nine floats and a place fit where the splats were. Others need more.
    part->packed = packed_bytes(s) > (int64_t)sizeof(gs_splat) ? reserve(s, &s->buffers.packed[k], room)
                                                               : s->step[PART_SPLATS + k].memory;
    if (!part->packed) return false;
    GS_CHECK(parts_pack(s->fixed ? (const void *)part->sums : part->gradient.splat_grad, s->fixed,
                        s->absolute != NULL, s->count, part->at, part->from, part->packed, told));
    GS_CHECK(parts_row_isects(&part->view, told + s->count + 1));
    return gather_numbers(s, told, numbers);
}

// Waits for the sizes, and sends the moments that pack_moments has packed.
static bool send_moments(parts *s, int k) {
    const int count = s->count, own = s->rank, numbers = told_numbers(s);
    const int64_t bytes = packed_bytes(s);
    ranks_exchange exchange = {.send = k < s->own_count ? s->own[k].packed : NULL};
    int64_t all = 0;
    if (!ranks_wait(s->group, s->travel)) return false;
    for (int r = 0; r < count; r++) {
        const int64_t *const mine = s->told + own * numbers, *const theirs = s->told + r * numbers;
        exchange.to[r] = (ranks_bytes){mine[r] * bytes, (mine[r + 1] - mine[r]) * bytes};
        exchange.from[r] = (ranks_bytes){all, (theirs[own + 1] - theirs[own]) * bytes};
        all += exchange.from[r].count;
        const int p = part_at(s, r, k);
        if (p >= 0 && s->batch->pictures)
            learn_costs(s, s->batch->pictures[s->out.parts[p].view], s->out.parts[p].rows,
                        theirs + count + 1);
    }
    memcpy(s->returned[k], exchange.from, sizeof exchange.from);
    exchange.receive = reserve(s, &s->buffers.returned[k], (size_t)all);
    return exchange.receive && ranks_all_to_all(s->group, &exchange, s->travel);
}

// Adds what has come home, and makes moments of integers.
static bool gather_moments(parts *s) {
    const int32_t views = s->batch->of->count;
    const ranks_reduction units = {s->buffers.units.memory,
                                   views * (int64_t)(sizeof(fixed_units) / sizeof(float)), RANKS_FLOAT,
                                   RANKS_MAX_OF};
    // Of this rank's splats for all cameras: integers, or the moments themselves.
    void *const sums = s->fixed ? s->buffers.sums.memory : s->buffers.splat_grad.memory;
    if (s->fixed && !reduce_in_travel(s, &units)) return false;
    await_travel(s);
    for (int k = 0; k < s->out.most; k++)
        for (int r = 0; r < s->count; r++) {
            const ranks_bytes at = s->returned[k][r];
            const char *const packed = (const char *)s->buffers.returned[k].memory + at.begin;
            const int p = part_at(s, r, k);
            if (p >= 0)
                GS_CHECK(parts_add_packed((const uint32_t *)s->buffers.index.memory + s->begin[s->rank][p],
                                          packed, at.count / packed_bytes(s), s->fixed, s->absolute != NULL,
                                          sums));
        }
    if (s->fixed)
        GS_CHECK(parts_from_sums(s->buffers.sums.memory, s->buffers.units.memory, s->batch->gaussians.count,
                                 views, s->buffers.splat_grad.memory));
    return true;
}

// ---- a batch

static bool reserve_zeros(parts *s, device_buffer *buffer, size_t bytes) {
    if (!reserve(s, buffer, bytes)) return false;
    DEVICE_CHECK(cudaMemsetAsync(buffer->memory, 0, bytes, NULL));
    return true;
}

// Memory for sums over parts; the largest colours and depths of all splats, for the scales of integer sums.
static bool begin_sums(parts *s) {
    const size_t views = (size_t)s->batch->of->count, splats = views * (size_t)s->batch->gaussians.count;
    if (!s->fixed) return reserve_zeros(s, &s->buffers.splat_grad, splats * sizeof(gs_splat_grad));
    struct gs_largest_values *const largest = reserve(s, &s->buffers.largest, views * sizeof *largest);
    if (!largest || !reserve(s, &s->buffers.splat_grad, splats * sizeof(gs_splat_grad)) ||
        !reserve_zeros(s, &s->buffers.sums, splats * GS_SPLAT_GRAD_STRIDE * sizeof(int64_t)) ||
        !reserve_zeros(s, &s->buffers.units, views * sizeof(fixed_units)) ||
        !reserve_zeros(s, &s->buffers.row_sums, views * (size_t)tile_rows(s) * GS_CHANNELS * sizeof(double)))
        return false;
    GS_CHECK(parts_largest(&s->home, largest));
    return reduce_in_travel(s,
                            &(ranks_reduction){largest, (int64_t)(views * (sizeof *largest / sizeof(float))),
                                               RANKS_FLOAT, RANKS_MAX_OF});
}

// Up to the images of the parts that are rows of views: their ranks bring each other the pixels next to theirs before the
// loss. result: its memory is used until it is written; NULL: parts_render.
static bool begin_batch(parts *s, const part_batch *batch, const gs_gaussians *result) {
    s->batch = batch;
    s->fixed = batch->policy.strategy == DISTWAR_FIXED;
    s->only_images = !result;
    plan(s);
    begin_scratch(s, result ? result : &(gs_gaussians){0});
    if (!project_home(s) || !send_splats(s) || (result && !begin_sums(s))) return false;
    for (int k = 0; is_cut(s, k); k++)
        if (!queue_forward(s, k)) return false;
    for (int k = 0; is_cut(s, k); k++)
        if (!settle_lists(s, &s->own[k])) return false;
    return !s->any_cut || exchange_pixels(s);
}

bool parts_backward(parts *s, const part_batch *batch, const gs_gaussians *gradients, float *abs_mean2d) {
    s->absolute = abs_mean2d;
    if (!begin_batch(s, batch, gradients)) return false;
    for (int k = 0; is_cut(s, k); k++)
        if (!queue_loss(s, &s->own[k])) return false;
    // Each row has a value on one rank and zeros on the others, so that the sums are exact.
    const ranks_reduction rows = {s->buffers.row_sums.memory,
                                  batch->of->count * tile_rows(s) * (int64_t)GS_CHANNELS, RANKS_DOUBLE,
                                  RANKS_SUM};
    if (s->fixed && s->any_cut && !(reduce_in_travel(s, &rows) && divide_as_whole(s))) return false;
    // The moments of one part travel while the next is rendered.
    for (int k = 0; k < s->out.most; k++) {
        own_part *const part = k < s->own_count ? &s->own[k] : NULL;
        if ((part && part->whole && !(queue_forward(s, k) && settle_lists(s, part) && queue_loss(s, part))) ||
            (part && !queue_backward(s, part)) || (k > 0 && !send_moments(s, k - 1)) || !pack_moments(s, k))
            return false;
    }
    if (!send_moments(s, s->out.most - 1) || !gather_moments(s)) return false;
    const gs_gradient own = {
        .splat_grad = s->buffers.splat_grad.memory, .gaussians = *gradients, .abs_mean2d = abs_mean2d};
    device_begin_stage("project backward");
    GS_CHECK(gs_project_backward(&s->home, &own, NULL));
    device_begin_stage("adam");
    return true;
}

bool parts_render(parts *s, const part_batch *batch) {
    if (!begin_batch(s, batch, NULL)) return false;
    for (int k = 0; k < s->own_count; k++) // one rank may render all rows
        if ((s->own[k].whole && !(queue_forward(s, k) && settle_lists(s, &s->own[k]))) ||
            !batch->loss(s, &s->own[k], NULL))
            return false;
    await_travel(s); // also for what others get
    return true;
}
