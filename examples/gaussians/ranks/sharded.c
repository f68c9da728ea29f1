// SPDX-License-Identifier: MIT
// A batch from the parameters to their gradient, over all ranks: home, then the parts, then home again.
#include "sharded.h"
#include "device_buffer.h"
#include "transport.h"
#include <stdlib.h>
#include <string.h>

// Checks a call of libgs inside a function that has the sharded `s`.
#define GS_OR_FAIL(call)                                                                                     \
    do {                                                                                                     \
        if ((call) != GS_OK) return ranks_fail(s->group, "%s", gs_last_error());                             \
    } while (0)

enum { MOST_OWN = GS_MAX_VIEWS + 1 }; // parts of one rank

// What a rank renders.
typedef struct rendered_part {
    gs_part part;
    int64_t from[RANKS_MAX]; // splats of each rank
    device_buffer splats, image, moments, workspace, d_color;
    gs_view view;
    gs_gradient gradient;
    const int64_t *sums; // of DISTWAR_FIXED
} rendered_part;

struct sharded {
    ranks *group;
    sharded_report report;
    // Of this rank's own Gaussians:
    device_buffer splats, selection, entries, returned, moments, sums;
    int64_t *part_begin;   // pinned, [GS_MAX_PARTS + 1]
    device_buffer largest; // [views][2]
    device_buffer units;   // [views]
    device_buffer pixels_sent, pixels_received;
    rendered_part own[MOST_OWN];
    int own_count;
    shared_out out;
    // Of the batch:
    const sharded_batch *batch;
    gs_stream stream;
    gs_view home; // all cameras, this rank's splats
    gs_share share;
    bool fixed;
    double since; // the end of the last stage
};

sharded *sharded_open(ranks *group) {
    sharded *const s = calloc(1, sizeof *s);
    if (!s) {
        ranks_fail(group, "no memory for the state of a shared scene");
        return NULL;
    }
    s->group = group;
    const cudaError_t status = cudaMallocHost((void **)&s->part_begin, (GS_MAX_PARTS + 1) * sizeof(int64_t));
    if (status == cudaSuccess) return s;
    ranks_fail_cuda(group, status, "pinned memory for a shared scene");
    free(s);
    return NULL;
}

void sharded_close(sharded *s) {
    if (!s) return;
    device_buffer *const buffers[] = {&s->splats,      &s->selection,      &s->entries, &s->returned,
                                      &s->moments,     &s->sums,           &s->largest, &s->units,
                                      &s->pixels_sent, &s->pixels_received};
    for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++) device_buffer_close(buffers[k]);
    for (int j = 0; j < MOST_OWN; j++) {
        device_buffer_close(&s->own[j].splats);
        device_buffer_close(&s->own[j].image);
        device_buffer_close(&s->own[j].moments);
        device_buffer_close(&s->own[j].workspace);
        device_buffer_close(&s->own[j].d_color);
    }
    cudaFreeHost(s->part_begin);
    free(s);
}

sharded_report sharded_last(const sharded *s) {
    return s->report;
}

// The j-th part of a rank; -1: it has none.
static int part_of(const sharded *s, int rank, int j) {
    const int p = s->out.begin[rank] + j;
    return p < s->out.begin[rank + 1] ? p : -1;
}

static int64_t entries_of(const sharded *s, int p) {
    return p < 0 ? 0 : s->part_begin[p + 1] - s->part_begin[p];
}

static bool end_stage(sharded *s, sharded_stage stage) {
    if (!s->batch->timed) return true;
    if (!ranks_wait(s->group, s->stream)) return false;
    const double now = ranks_seconds();
    s->report.ms[stage] = 1e3 * (now - s->since);
    s->since = now;
    return true;
}

// ---- at home, before ----

// This rank's splats for all cameras, and how many of them each part needs.
static bool project(sharded *s) {
    const sharded_batch *const batch = s->batch;
    const size_t splats = (size_t)batch->views * (size_t)batch->gaussians.count;
    gs_view *const home = &s->home;
    *home = (gs_view){.gaussians = batch->gaussians,
                      .camera = batch->cameras[0],
                      .sh_degree_used = batch->sh_degree_used,
                      .views = {batch->views, batch->cameras},
                      .splats = device_buffer_reserve(&s->splats, splats * sizeof(gs_splat))};
    GS_OR_FAIL(gs_project(home, s->stream));
    s->share = (gs_share){.parts = s->out.parts, .count = s->out.begin[ranks_count(s->group)]};
    GS_OR_FAIL(gs_share_bytes(home, s->share.count, &s->share.workspace_bytes));
    const size_t begin_bytes = (GS_MAX_PARTS + 1) * sizeof(int64_t) / 256 * 256 + 256;
    char *const memory = device_buffer_reserve(&s->selection, begin_bytes + s->share.workspace_bytes);
    s->share.part_begin = (int64_t *)memory;
    s->share.workspace = memory + begin_bytes;
    GS_OR_FAIL(gs_share_count(home, &s->share, s->stream));
    ranks *const group = s->group;
    RANKS_CUDA(cudaMemcpyAsync(s->part_begin, s->share.part_begin,
                               (size_t)(s->share.count + 1) * sizeof(int64_t), cudaMemcpyDeviceToHost,
                               s->stream));
    return ranks_wait(group, s->stream);
}

// All ranks learn how many splats come from where.
static bool exchange_counts(sharded *s) {
    const int count = ranks_count(s->group), own = ranks_own(s->group), most = s->out.most;
    int64_t *const counts = calloc(2 * (size_t)(count * most), sizeof *counts), *const received =
                                                                                    counts + count * most;
    if (!counts) return ranks_fail(s->group, "no memory for the sizes of %d parts", count * most);
    for (int r = 0; r < count; r++)
        for (int j = 0; j < most; j++) counts[r * most + j] = entries_of(s, part_of(s, r, j));
    const bool good = ranks_exchange_sizes(s->group, most, counts, received, s->stream);
    s->own_count = s->out.begin[own + 1] - s->out.begin[own];
    for (int j = 0; j < s->own_count && good; j++) {
        s->own[j].part = s->out.parts[s->out.begin[own] + j];
        for (int r = 0; r < count; r++) s->own[j].from[r] = received[r * most + j];
    }
    free(counts);
    return good;
}

// The records of a part, between the homes and the rank that renders it.
typedef struct records {
    int64_t bytes; // of one
    bool to_parts; // else to the homes
    void *at_home; // of this rank, part after part
} records;

// Exchanges the records of the j-th parts of all ranks. at_part: of this rank's part, home after home.
static bool exchange_records(sharded *s, int j, const records *what, void *at_part) {
    const int count = ranks_count(s->group), own = ranks_own(s->group);
    int64_t home_begin[RANKS_MAX], home_bytes[RANKS_MAX], part_begin[RANKS_MAX], part_bytes[RANKS_MAX],
        at = 0;
    for (int r = 0; r < count; r++) {
        const int p = part_of(s, r, j);
        home_begin[r] = p < 0 ? 0 : s->part_begin[p] * what->bytes;
        home_bytes[r] = entries_of(s, p) * what->bytes;
        part_begin[r] = at;
        part_bytes[r] = j < s->own_count ? s->own[j].from[r] * what->bytes : 0;
        at += part_bytes[r];
        if (r != own) s->report.bytes_sent += what->to_parts ? home_bytes[r] : part_bytes[r];
    }
    const ranks_exchange forth = {what->at_home, home_begin, home_bytes, at_part, part_begin, part_bytes};
    const ranks_exchange back = {at_part, part_begin, part_bytes, what->at_home, home_begin, home_bytes};
    return ranks_all_to_all(s->group, what->to_parts ? &forth : &back, s->stream);
}

static bool send_splats(sharded *s) {
    const int64_t entries = s->part_begin[s->share.count];
    const size_t splat_bytes = (size_t)entries * sizeof(gs_splat);
    char *const memory = device_buffer_reserve(&s->entries, splat_bytes + (size_t)entries * sizeof(uint32_t));
    s->share.splats = (gs_splat *)memory;
    s->share.index = (uint32_t *)(memory + splat_bytes);
    GS_OR_FAIL(gs_share_gather(&s->home, &s->share, s->stream));
    s->report.splats_sent = entries;
    const records splats = {sizeof(gs_splat), true, s->share.splats};
    for (int j = 0; j < s->out.most; j++) {
        void *received = NULL;
        if (j < s->own_count) {
            rendered_part *const part = &s->own[j];
            int64_t all = 0;
            for (int r = 0; r < ranks_count(s->group); r++) all += part->from[r];
            if (all >= INT32_MAX) return ranks_fail(s->group, "a part has %lld splats", (long long)all);
            part->view = (gs_view){.gaussians = {.count = all}, .pair_capacity = part->view.pair_capacity};
            received = device_buffer_reserve(&part->splats, (size_t)all * sizeof(gs_splat));
            s->report.splats_received += all;
        }
        if (!exchange_records(s, j, &splats, received)) return false;
    }
    return true;
}

// ---- the parts ----

// Memory for the image and the moments of a part.
static bool place_part(sharded *s, rendered_part *part) {
    gs_view *const view = &part->view;
    gs_gradient *const gradient = &part->gradient;
    const size_t pixels = (size_t)view->camera.width * (size_t)view->camera.height;
    float *const image = device_buffer_reserve(&part->image, (GS_CHANNELS + 2) * pixels * sizeof(float));
    view->image = (gs_image){.color = image,
                             .transmittance = image + GS_CHANNELS * pixels,
                             .n_contrib = (uint32_t *)(image + (GS_CHANNELS + 1) * pixels)};
    GS_OR_FAIL(
        gs_moments_bytes(view->gaussians.count, 0, s->batch->policy.strategy, &gradient->moments_bytes));
    gradient->moments = device_buffer_reserve(&part->moments, gradient->moments_bytes);
    return true;
}

// Makes the lists of a part, with more room until they fit.
static bool bin_part(sharded *s, rendered_part *part) {
    gs_view *const view = &part->view;
    if (view->pair_capacity < 10 * view->gaussians.count) view->pair_capacity = 10 * view->gaussians.count;
    for (;;) {
        GS_OR_FAIL(gs_bin_bytes(view, &view->workspace_bytes));
        view->workspace = device_buffer_reserve(&part->workspace, view->workspace_bytes);
        const gs_status status = gs_bin(view, s->stream);
        if (status == GS_OK) return true;
        if (status != GS_PAIRS_DO_NOT_FIT) return ranks_fail(s->group, "%s", gs_last_error());
        view->pair_capacity = view->pairs_needed + view->pairs_needed / 4;
    }
}

static bool render_part(sharded *s, rendered_part *part) {
    gs_view *const view = &part->view;
    view->camera = s->batch->cameras[part->part.view];
    view->rows = part->part.rows;
    memcpy(view->background, s->batch->background, sizeof view->background);
    view->splats = part->splats.memory;
    part->gradient = (gs_gradient){0};
    if (!place_part(s, part) || !bin_part(s, part)) return false;
    s->report.pairs += view->lists.pairs;
    // gs_bin chooses by the lists of the part: another number of ranks would round sums otherwise.
    if (s->fixed) view->lists.pixels_per_thread = 2, view->lists.split_tiles = 0;
    GS_OR_FAIL(gs_render(view, s->stream));
    return true;
}

// Pixels of a part: [GS_CHANNELS][rows][width].
typedef struct strip {
    int64_t first, bytes; // of one channel's rows in the image: pixels before them, bytes
} strip;

static strip strip_of(const sharded *s, const gs_part *part) {
    const int64_t width = s->home.camera.width, height = s->home.camera.height;
    const int64_t begin = part->rows.begin * GS_TILE_SIZE, end = part->rows.end * GS_TILE_SIZE;
    return (strip){begin * width, ((end < height ? end : height) - begin) * width * (int64_t)sizeof(float)};
}

// Moves a strip between an image and memory where its channels follow one another.
static bool copy_strip(sharded *s, const strip *of, float *image, char *packed, bool packs) {
    const int64_t plane = (int64_t)s->home.camera.width * s->home.camera.height;
    ranks *const group = s->group;
    for (int c = 0; c < GS_CHANNELS; c++) {
        float *const rows = image + c * plane + of->first;
        char *const place = packed + c * of->bytes;
        RANKS_CUDA(cudaMemcpyAsync(packs ? (void *)place : rows, packs ? (const void *)rows : place,
                                   (size_t)of->bytes, cudaMemcpyDeviceToDevice, s->stream));
    }
    return true;
}

// The part of a view that a rank renders; -1: none. There is one at most.
static int part_in_view(const sharded *s, int rank, int view) {
    for (int p = s->out.begin[rank]; p < s->out.begin[rank + 1]; p++)
        if (s->out.parts[p].view == view) return p;
    return -1;
}

// The part of this rank and the one of another rank that are of one view; false: there is none. Two ranks have one view
// in common at most: their shares are ranges of rows.
static bool common_view(const sharded *s, int rank, int *own_part, int *their_part) {
    for (int j = 0; j < s->own_count; j++) {
        *own_part = j;
        *their_part = part_in_view(s, rank, s->own[j].part.view);
        if (*their_part >= 0) return true;
    }
    return false;
}

// The ranks of a view bring its image together.
static bool exchange_pixels(sharded *s) {
    const int count = ranks_count(s->group), own = ranks_own(s->group);
    int64_t send_begin[RANKS_MAX] = {0}, send_bytes[RANKS_MAX] = {0}, begin[RANKS_MAX] = {0},
            bytes[RANKS_MAX] = {0};
    int64_t part_begin[MOST_OWN + 1] = {0}, received = 0;
    for (int j = 0; j < s->own_count; j++)
        part_begin[j + 1] = part_begin[j] + GS_CHANNELS * strip_of(s, &s->own[j].part).bytes;
    int own_part, their_part;
    for (int r = 0; r < count; r++) {
        if (r == own || !common_view(s, r, &own_part, &their_part)) continue;
        send_begin[r] = part_begin[own_part];
        send_bytes[r] = part_begin[own_part + 1] - part_begin[own_part];
        begin[r] = received;
        bytes[r] = GS_CHANNELS * strip_of(s, &s->out.parts[their_part]).bytes;
        received += bytes[r];
        s->report.bytes_sent += send_bytes[r];
    }
    char *const sent = device_buffer_reserve(&s->pixels_sent, (size_t)part_begin[s->own_count]);
    char *const got = device_buffer_reserve(&s->pixels_received, (size_t)received);
    for (int r = 0; r < count; r++) {
        if (send_bytes[r] == 0 || !common_view(s, r, &own_part, &their_part)) continue;
        const strip of = strip_of(s, &s->own[own_part].part); // packed again for each rank: they are few
        if (!copy_strip(s, &of, s->own[own_part].view.image.color, sent + send_begin[r], true)) return false;
    }
    const ranks_exchange exchange = {sent, send_begin, send_bytes, got, begin, bytes};
    if (!ranks_all_to_all(s->group, &exchange, s->stream)) return false;
    for (int r = 0; r < count; r++) {
        if (bytes[r] == 0 || !common_view(s, r, &own_part, &their_part)) continue;
        const strip of = strip_of(s, &s->out.parts[their_part]);
        if (!copy_strip(s, &of, s->own[own_part].view.image.color, got + begin[r], false)) return false;
    }
    return true;
}

// The largest colours and depths of all splats, for the scales of integer sums.
static bool find_largest(sharded *s) {
    float *const largest = device_buffer_reserve(&s->largest, 2 * (size_t)s->batch->views * sizeof(float));
    GS_OR_FAIL(gs_largest(&s->home, largest, s->stream));
    const ranks_reduction take = {largest, 2 * s->batch->views, RANKS_FLOAT, RANKS_MAX_OF};
    return ranks_all_reduce(s->group, &take, s->stream);
}

static sharded_image image_of(const rendered_part *part, float *d_color) {
    const gs_view *const view = &part->view;
    return (sharded_image){part->part.view,           view->camera.width, view->camera.height,
                           part->part.rows,           view->image.color,  d_color,
                           part->part.rows.begin == 0};
}

static bool loss_and_backward(sharded *s, rendered_part *part) {
    const gs_view *const view = &part->view;
    const int32_t v = part->part.view;
    const size_t pixels = (size_t)view->camera.width * (size_t)view->camera.height;
    float *const d_color = device_buffer_reserve(&part->d_color, GS_CHANNELS * pixels * sizeof(float));
    const sharded_image image = image_of(part, d_color);
    if (!s->batch->loss(s->group, s->batch->context, &image, s->stream)) return false;
    part->gradient.color = d_color;
    if (s->fixed) part->gradient.largest = (const float *)s->largest.memory + 2 * v;
    GS_OR_FAIL(gs_render_backward(view, &part->gradient, s->batch->policy, s->stream));
    if (s->fixed)
        GS_OR_FAIL(gs_fixed_sums(view, &part->gradient, &part->sums, (gs_fixed_units *)s->units.memory + v,
                                 s->stream));
    return true;
}

// ---- at home, after ----

// The moments of this rank's splats, from all parts, in their order.
static bool bring_back(sharded *s) {
    const int64_t bytes =
        s->fixed ? GS_MOMENTS_STRIDE * (int64_t)sizeof(int64_t) : (int64_t)sizeof(gs_moments);
    const size_t splats = (size_t)s->batch->views * (size_t)s->batch->gaussians.count;
    void *const returned =
        device_buffer_reserve(&s->returned, (size_t)(s->part_begin[s->share.count] * bytes));
    const records moments = {bytes, false, returned};
    for (int j = 0; j < s->out.most; j++) {
        void *at_part = NULL;
        if (j < s->own_count)
            at_part = s->fixed ? (void *)(uintptr_t)s->own[j].sums : (void *)s->own[j].gradient.moments;
        if (!exchange_records(s, j, &moments, at_part)) return false;
    }
    gs_moments *const to = device_buffer_reserve(&s->moments, splats * sizeof(gs_moments));
    int64_t *const sums = s->fixed ? device_buffer_reserve(&s->sums, splats * (size_t)bytes) : NULL;
    ranks *const group = s->group;
    RANKS_CUDA(cudaMemsetAsync(s->fixed ? (void *)sums : (void *)to, 0, splats * (size_t)bytes, s->stream));
    for (int p = 0; p < s->share.count; p++) {
        const uint32_t *const index = s->share.index + s->part_begin[p];
        const char *const from = (const char *)returned + s->part_begin[p] * bytes;
        if (s->fixed)
            GS_OR_FAIL(gs_share_add_sums(index, (const int64_t *)from, entries_of(s, p), sums, s->stream));
        else
            GS_OR_FAIL(
                gs_share_add_moments(index, (const gs_moments *)from, entries_of(s, p), to, s->stream));
    }
    if (!s->fixed) return true;
    const ranks_reduction take = {s->units.memory,
                                  s->batch->views * (int64_t)(sizeof(gs_fixed_units) / sizeof(float)),
                                  RANKS_FLOAT, RANKS_MAX_OF};
    if (!ranks_all_reduce(group, &take, s->stream)) return false;
    GS_OR_FAIL(gs_moments_from_sums(sums, s->units.memory, s->batch->gaussians.count, s->batch->views, to,
                                    s->stream));
    return true;
}

// The images of all views, on the ranks that render parts of them.
static bool render(sharded *s, const sharded_batch *batch, gs_stream stream) {
    ranks *const group = s->group;
    if (batch->views < 1 || batch->views > GS_MAX_VIEWS)
        return ranks_fail(group, "a batch has 1..%d views, not %d", GS_MAX_VIEWS, (int)batch->views);
    const int32_t rows = (batch->cameras[0].height + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
    share_out(ranks_count(group), batch->views, rows, &s->out);
    s->batch = batch, s->stream = stream;
    s->fixed = batch->policy.strategy == DISTWAR_FIXED;
    s->report = (sharded_report){0};
    const size_t units_bytes = (size_t)batch->views * sizeof(gs_fixed_units);
    void *const units = device_buffer_reserve(&s->units, units_bytes);
    RANKS_CUDA(cudaMemsetAsync(units, 0, units_bytes, stream));
    if (batch->timed && !ranks_wait(group, stream)) return false; // what the caller has queued does not count
    s->since = ranks_seconds();
    if (!project(s) || !end_stage(s, SHARDED_PROJECT)) return false;
    if (!exchange_counts(s) || !send_splats(s) || (s->fixed && !find_largest(s))) return false;
    if (!ranks_wait(group, stream)) return false; // gs_bin waits for the stream without a look at the others
    if (!end_stage(s, SHARDED_EXCHANGE)) return false;
    for (int j = 0; j < s->own_count; j++)
        if (!render_part(s, &s->own[j])) return false;
    return end_stage(s, SHARDED_RENDER) && exchange_pixels(s) && end_stage(s, SHARDED_PIXELS);
}

bool sharded_backward(sharded *s, const sharded_batch *batch, const sharded_gradient *gradient,
                      gs_stream stream) {
    if (!render(s, batch, stream)) return false;
    for (int j = 0; j < s->own_count; j++)
        if (!loss_and_backward(s, &s->own[j])) return false;
    if (!end_stage(s, SHARDED_BACKWARD) || !bring_back(s) || !end_stage(s, SHARDED_RETURN)) return false;
    const gs_gradient own = {
        .moments = s->moments.memory, .gaussians = gradient->gaussians, .mean2d = gradient->mean2d};
    GS_OR_FAIL(gs_project_backward(&s->home, &own, stream));
    return end_stage(s, SHARDED_HOME);
}

bool sharded_render(sharded *s, const sharded_batch *batch, gs_stream stream) {
    if (!render(s, batch, stream)) return false;
    for (int j = 0; j < s->own_count; j++) {
        const sharded_image image = image_of(&s->own[j], NULL);
        if (!batch->loss(s->group, batch->context, &image, stream)) return false;
    }
    return true;
}

gs_view sharded_home(const sharded *s, int32_t view) {
    gs_view home = s->home;
    home.camera = s->batch->cameras[view];
    home.views = (gs_views){0};
    home.splats += (int64_t)view * home.gaussians.count;
    return home;
}
