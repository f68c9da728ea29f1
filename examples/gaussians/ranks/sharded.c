// SPDX-License-Identifier: MIT
// A batch from the parameters to their gradient, over all ranks: home, then the parts, then home again.
#include "sharded_parts.h"
#include <stdlib.h>
#include <string.h>

static bool open_streams(sharded *s) {
    ranks *const group = s->group;
    int least = 0, greatest = 0;
    RANKS_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    // What travels starts as soon as it can: kernels that render leave it room only when their blocks end.
    RANKS_CUDA(cudaStreamCreateWithPriority(&s->travel, cudaStreamNonBlocking, greatest));
    RANKS_CUDA(cudaStreamCreateWithFlags(&s->watch, cudaStreamNonBlocking));
    RANKS_CUDA(cudaEventCreateWithFlags(&s->queued, cudaEventDisableTiming));
    RANKS_CUDA(cudaEventCreateWithFlags(&s->arrived, cudaEventDisableTiming));
    for (int j = 0; j < MOST_OWN; j++)
        RANKS_CUDA(cudaEventCreateWithFlags(&s->own[j].received, cudaEventDisableTiming));
    return true;
}

static bool open_pinned(sharded *s) {
    ranks *const group = s->group;
    RANKS_CUDA(cudaMallocHost((void **)&s->table, RANKS_MAX * MOST_NUMBERS * sizeof(int64_t)));
    for (int k = 0; k <= MOST_CUT; k++) {
        rendering *const r = &s->renderings[k];
        RANKS_CUDA(cudaMallocHost((void **)&r->report, sizeof *r->report));
        RANKS_CUDA(cudaMallocHost((void **)&r->known_lengths, sizeof *r->known_lengths));
    }
    return true;
}

sharded *sharded_open(ranks *group) {
    sharded *const s = calloc(1, sizeof *s);
    if (!s) {
        ranks_fail(group, "no memory for the state of a shared scene");
        return NULL;
    }
    s->group = group;
    s->costs = row_costs_open();
    if (!s->costs) ranks_fail(group, "no memory for the costs of rows");
    if (s->costs && open_streams(s) && open_pinned(s)) return s;
    sharded_close(s);
    return NULL;
}

static void close_event(cudaEvent_t event) {
    if (event) cudaEventDestroy(event);
}

void sharded_close(sharded *s) {
    if (!s) return;
    device_buffer *const buffers[] = {
        &s->splats,   &s->selection, &s->index,       &s->entries.own,     &s->moments, &s->sums, &s->largest,
        &s->row_sums, &s->units,     &s->pixels_sent, &s->pixels_received, &s->numbers, &s->told};
    for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++) device_buffer_close(buffers[k]);
    for (int k = 0; k <= MOST_CUT; k++) {
        rendering *const r = &s->renderings[k];
        device_buffer *const of_part[] = {&r->image, &r->moments.own, &r->workspace.own, &r->d_color,
                                          &r->lengths};
        for (size_t i = 0; i < sizeof of_part / sizeof *of_part; i++) device_buffer_close(of_part[i]);
        cudaFreeHost(r->report);
        cudaFreeHost(r->known_lengths);
    }
    for (int j = 0; j < MOST_OWN; j++) {
        device_buffer_close(&s->own[j].splats.own);
        device_buffer_close(&s->own[j].packed);
        device_buffer_close(&s->own[j].packing);
        device_buffer_close(&s->returned[j].memory);
        close_event(s->own[j].received);
    }
    close_event(s->queued);
    close_event(s->arrived);
    if (s->travel) cudaStreamDestroy(s->travel);
    if (s->watch) cudaStreamDestroy(s->watch);
    cudaFreeHost(s->table);
    row_costs_close(s->costs);
    free(s);
}

sharded_report sharded_last(const sharded *s) {
    return s->report;
}

// ---- a batch ----

// The largest array of the result is room for what is needed before it is written.
static void begin_scratch(sharded *s, const gs_gaussians *result) {
    const size_t coefficients = (size_t)((result->sh_degree + 1) * (result->sh_degree + 1)),
                 bytes = (size_t)result->count * coefficients * GS_CHANNELS * sizeof(float),
                 skipped = -(uintptr_t)result->sh % 256;
    const bool any = result->sh && bytes > skipped;
    s->scratch = any ? (char *)result->sh + skipped : NULL;
    s->scratch_bytes = any ? bytes - skipped : 0;
    s->entries.memory = NULL;
    for (int k = 0; k <= MOST_CUT; k++)
        s->renderings[k].moments.memory = s->renderings[k].workspace.memory = NULL;
    for (int k = 0; k < MOST_OWN; k++) s->own[k].splats.memory = NULL;
}

// Which rank renders what.
static void plan(sharded *s) {
    const int own = ranks_own(s->group);
    const int64_t *const costs = row_costs_of(s->costs, s->batch->pictures, s->batch->views, tile_rows(s));
    share_out(ranks_count(s->group), s->batch->views, tile_rows(s), costs, &s->out);
    s->own_count = s->out.begin[own + 1] - s->out.begin[own];
    s->any_cut = s->out.begin[ranks_count(s->group)] != s->batch->views;
    for (int k = 0; k < s->own_count; k++) {
        own_part *const part = &s->own[k];
        part->number = part_at(s, own, k);
        part->part = s->out.parts[part->number];
        part->whole = is_whole(s, part->number);
        s->report.rows += part->part.rows.end - part->part.rows.begin;
        part->in = &s->renderings[part->whole ? MOST_CUT : k]; // at most the first two are not whole
    }
}

// Zeros, where moments of parts are added.
static bool begin_sums(sharded *s) {
    ranks *const group = s->group;
    const int64_t count = s->batch->gaussians.count, splats = s->batch->views * count;
    const int64_t bytes = count * GS_MOMENTS_STRIDE * (int64_t)(s->fixed ? sizeof(int64_t) : sizeof(float));
    if (!reserve(s, &s->moments, (size_t)splats * sizeof(gs_moments))) return false;
    if (s->alone) return true;
    if (s->fixed && !reserve(s, &s->sums, (size_t)(s->batch->views * bytes))) return false;
    char *const sums = s->fixed ? s->sums.memory : s->moments.memory;
    bool whole[GS_MAX_VIEWS] = {false};
    for (int k = 0; k < s->own_count; k++) whole[s->own[k].part.view] = s->own[k].whole;
    for (int v = 0; v < s->batch->views; v++)
        if (!whole[v]) RANKS_CUDA(cudaMemsetAsync(sums + v * bytes, 0, (size_t)bytes, s->stream));
    return true;
}

static bool is_cut(const sharded *s, int k) {
    return k < s->own_count && !s->own[k].whole;
}

// Each row has a value on one rank and zeros on the others, so that the sums are exact.
static bool combine_row_sums(sharded *s) {
    if (!s->fixed || !s->any_cut) return true;
    const ranks_reduction sum = {s->row_sums.memory, s->batch->views * tile_rows(s) * (int64_t)GS_ROW_SUMS,
                                 RANKS_DOUBLE, RANKS_SUM};
    return begin_travel(s) && ranks_all_reduce(s->group, &sum, s->travel) && await_travel(s);
}

static bool begin_row_sums(sharded *s) {
    ranks *const group = s->group;
    const size_t bytes = (size_t)(s->batch->views * tile_rows(s) * GS_ROW_SUMS) * sizeof(double);
    if (!s->fixed) return true;
    if (!reserve(s, &s->row_sums, bytes)) return false;
    RANKS_CUDA(cudaMemsetAsync(s->row_sums.memory, 0, bytes, s->stream));
    return true;
}

// Images of the parts that are rows of views.
static bool forward_cut(sharded *s) {
    for (int k = 0; is_cut(s, k); k++)
        if (!queue_forward(s, &s->own[k])) return false;
    for (int k = 0; is_cut(s, k); k++)
        if (!settle_lists(s, &s->own[k])) return false;
    return true;
}

// Rows of views: their ranks bring each other the pixels next to theirs before the loss.
static bool render_cut(sharded *s) {
    if (!forward_cut(s)) return false;
    if (s->any_cut && !exchange_pixels(s)) return false;
    for (int k = 0; is_cut(s, k); k++)
        if (!queue_loss(s, &s->own[k])) return false;
    return combine_row_sums(s) && divide_as_whole(s);
}

static bool render_whole(sharded *s, own_part *part) {
    return queue_forward(s, part) && settle_lists(s, part) && queue_loss(s, part);
}

// All parts of this rank. The moments of one travel while the next is rendered.
static bool render_parts(sharded *s) {
    if (!render_cut(s)) return false;
    for (int k = 0; k < s->out.most; k++) {
        own_part *const part = k < s->own_count ? &s->own[k] : NULL;
        if (part && part->whole && !render_whole(s, part)) return false;
        if (part && !queue_backward(s, part)) return false;
        if (k > 0 && !send_moments(s, k - 1)) return false;
        if (!pack_moments(s, k)) return false;
    }
    return send_moments(s, s->out.most - 1);
}

// Up to the splats that this rank's parts need. result: its memory is used until it is written; NULL: sharded_render.
static bool begin_batch(sharded *s, const sharded_batch *batch, const gs_gaussians *result,
                        gs_stream stream) {
    ranks *const group = s->group;
    if (batch->views < 1 || batch->views > GS_MAX_VIEWS)
        return ranks_fail(group, "a batch has 1..%d views, not %d", GS_MAX_VIEWS, (int)batch->views);
    s->batch = batch, s->stream = stream;
    s->fixed = batch->policy.strategy == DISTWAR_FIXED;
    s->alone = ranks_count(group) == 1;
    s->report = (sharded_report){0};
    plan(s);
    s->only_images = !result;
    begin_scratch(s, result ? result : &(gs_gaussians){0});
    return project_home(s) && send_splats(s);
}

bool sharded_backward(sharded *s, const sharded_batch *batch, const sharded_gradient *gradient,
                      gs_stream stream) {
    ranks *const group = s->group;
    s->absolute = gradient->abs_mean2d;
    s->whole_records = s->absolute || batch->with_depth;
    if (!begin_batch(s, batch, &gradient->gaussians, stream)) return false;
    const size_t units_bytes = (size_t)batch->views * sizeof(gs_fixed_units);
    void *const units = reserve(s, &s->units, units_bytes);
    if (!units) return false;
    RANKS_CUDA(cudaMemsetAsync(units, 0, units_bytes, stream));
    if (!begin_sums(s) || !begin_row_sums(s) || !find_largest(s)) return false;
    if (!render_parts(s) || !gather_moments(s)) return false;
    gs_gradient own = {.moments = s->moments.memory,
                       .gaussians = gradient->gaussians,
                       .mean2d = gradient->mean2d,
                       .abs_mean2d = gradient->abs_mean2d,
                       .camera = gradient->camera};
    device_begin_stage("project backward");
    GS_OR_FAIL(group, gs_camera_gradient_bytes(batch->gaussians.count, &own.camera_bytes));
    GS_OR_FAIL(s->group, gs_project_backward(&s->home, &own, stream));
    device_begin_stage("adam");
    return true;
}

static bool show(sharded *s, const own_part *part) {
    const gs_view *const view = &part->view;
    const sharded_image image = {.view = part->part.view,
                                 .width = view->camera.width,
                                 .height = view->camera.height,
                                 .rows = part->part.rows,
                                 .color = view->image.color};
    return s->batch->loss(s->group, s->batch->context, &image, s->stream);
}

bool sharded_render(sharded *s, const sharded_batch *batch, gs_stream stream) {
    if (!begin_batch(s, batch, NULL, stream) || !forward_cut(s)) return false;
    if (s->any_cut && !exchange_pixels(s)) return false;
    for (int k = 0; k < s->own_count; k++) {
        own_part *const part = &s->own[k];
        if (part->whole && !(queue_forward(s, part) && settle_lists(s, part))) return false;
        if (!show(s, part)) return false;
    }
    return await_travel(s); // also for what others get
}

gs_view sharded_home(const sharded *s) {
    return s->home;
}

const gs_moments *sharded_moments(const sharded *s) {
    return s->moments.memory;
}
