// SPDX-License-Identifier: MIT
// A scene in parts: the gradient of a batch of views from the parameters on, over all ranks: home, then the parts, then home
// again; and a step of training by it.
#include "parts.h"
#include "device.h"
#include "trainer_parts.h"
#include <stdlib.h>
#include <string.h>

// ---- open and close

void *parts_open(ranks *group) {
    parts *const s = calloc(1, sizeof *s);
    row_costs *const costs = row_costs_open();
    if (!s || !costs) {
        ranks_fail(group, "no memory for the state of a scene in parts");
        row_costs_close(costs);
        free(s);
        return NULL;
    }
    *s = (parts){.group = group, .count = ranks_count(group), .rank = ranks_own(group), .costs = costs};
    int least = 0, greatest = 0;
    DEVICE_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    // What travels starts as soon as it can: kernels that render leave it room only when their blocks end.
    DEVICE_CHECK(cudaStreamCreateWithPriority(&s->travel, cudaStreamNonBlocking, greatest));
    DEVICE_CHECK(cudaStreamCreateWithFlags(&s->watch, cudaStreamNonBlocking));
    DEVICE_CHECK(cudaEventCreateWithFlags(&s->queued, cudaEventDisableTiming));
    DEVICE_CHECK(cudaEventCreateWithFlags(&s->arrived, cudaEventDisableTiming));
    DEVICE_CHECK(cudaMallocHost((void **)&s->table, RANKS_MAX * MOST_NUMBERS * sizeof(int64_t)));
    for (int j = 0; j < MOST_OWN; j++)
        DEVICE_CHECK(cudaEventCreateWithFlags(&s->own[j].received, cudaEventDisableTiming));
    for (int k = 0; k <= MOST_CUT; k++) {
        rendering *const r = &s->renderings[k];
        DEVICE_CHECK(cudaMallocHost((void **)&r->report, sizeof *r->report));
        DEVICE_CHECK(cudaMallocHost((void **)&r->known_lengths, sizeof *r->known_lengths));
    }
    return s;
}

// After a failure, too: what the device says then has been told.
void parts_close(void *kept) {
    parts *const s = kept;
    device_buffer *const buffers[] = {&s->splats,         &s->selection,      &s->index,
                                      &s->sent.own,       &s->moments,        &s->sums,
                                      &s->largest,        &s->row_sums,       &s->units,
                                      &s->numbers,        &s->pixels_sent,    &s->pixels_received,
                                      &s->told,           &s->loss_workspace, &s->corrected,
                                      &s->mean2d,         &s->gain_rows,      &s->gain_sums,
                                      &s->given,          &s->taken,          &s->density_workspace,
                                      &s->density_numbers};
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
        device_buffer_close(&s->own[j].packed_apart);
        device_buffer_close(&s->own[j].packing);
        device_buffer_close(&s->returned[j].memory);
        cudaEventDestroy(s->own[j].received);
    }
    cudaEventDestroy(s->queued);
    cudaEventDestroy(s->arrived);
    cudaStreamDestroy(s->travel);
    cudaStreamDestroy(s->watch);
    cudaFreeHost(s->table);
    row_costs_close(s->costs);
    free(s);
}

// The largest array of the result is room for what is needed before it is written.
static void begin_scratch(parts *s, const gs_gaussians *result) {
    const size_t coefficients = (size_t)((result->sh_degree + 1) * (result->sh_degree + 1)),
                 bytes = (size_t)result->count * coefficients * GS_CHANNELS * sizeof(float),
                 skipped = -(uintptr_t)result->sh % 256;
    const bool any = result->sh && bytes > skipped;
    s->scratch = any ? (char *)result->sh + skipped : NULL;
    s->scratch_bytes = any ? bytes - skipped : 0;
    s->sent.memory = NULL;
    for (int k = 0; k <= MOST_CUT; k++)
        s->renderings[k].moments.memory = s->renderings[k].workspace.memory = NULL;
    for (int k = 0; k < MOST_OWN; k++) s->own[k].splats.memory = NULL;
}

// ---- which rank renders what

static void plan(parts *s) {
    const int own = s->rank;
    const int64_t *const costs = row_costs_of(s->costs, s->batch->pictures, s->batch->views, tile_rows(s));
    share_out(s->count, s->batch->views, tile_rows(s), costs, &s->out);
    s->own_count = s->out.begin[own + 1] - s->out.begin[own];
    s->any_cut = s->out.begin[s->count] != s->batch->views;
    for (int k = 0; k < s->own_count; k++) {
        own_part *const part = &s->own[k];
        part->number = part_at(s, own, k);
        part->part = s->out.parts[part->number];
        part->whole = is_whole(s, part->number);
        part->in = &s->renderings[part->whole ? MOST_CUT : k]; // at most the first two are not whole
    }
}

static bool is_cut(const parts *s, int k) {
    return k < s->own_count && !s->own[k].whole;
}

// ---- a part of an image, from its splats to their moments

static bool place_lists(parts *s, own_part *part) {
    gs_view *const view = &part->view;
    view->pair_capacity = part->in->pair_capacity;
    GS_OR_FAIL(s->group, gs_bin_bytes(view, &view->workspace_bytes));
    view->workspace = reserve_for_step(s, &part->in->workspace, view->workspace_bytes);
    return view->workspace != NULL;
}

// Makes the lists with more room until they fit. Waits.
static bool bin_waiting(parts *s, own_part *part) {
    gs_view *const view = &part->view;
    view->report = NULL;
    for (;;) {
        if (!place_lists(s, part) || !ranks_wait(s->group, s->watch)) return false;
        const gs_status status = gs_bin(view, s->stream);
        if (status == GS_OK) return true;
        if (status != GS_PAIRS_DO_NOT_FIT) return ranks_fail_gs(s->group, status);
        part->in->pair_capacity = view->pairs_needed + view->pairs_needed / 4;
    }
}

static bool bin(parts *s, own_part *part) {
    gs_view *const view = &part->view;
    device_begin_stage("bin");
    if (part->in->pair_capacity == 0) return bin_waiting(s, part);
    view->report = part->in->report;
    view->lists = part->in->division;
    if (!place_lists(s, part)) return false;
    GS_OR_FAIL(s->group, gs_bin(view, s->stream));
    return true;
}

static bool render(parts *s, own_part *part) {
    device_begin_stage("render");
    GS_OR_FAIL(s->group, gs_render(&part->view, s->stream));
    return true;
}

// Lists and image. The number of pairs is not known yet: settle_lists.
static bool queue_forward(parts *s, own_part *part) {
    gs_view *const view = &part->view;
    const gs_camera *const camera = &s->batch->cameras[part->part.view];
    const size_t pixels = (size_t)camera->width * (size_t)camera->height;
    float *const image = reserve(s, &part->in->image, (GS_CHANNELS + 2) * pixels * sizeof(float));
    if (!image) return false;
    *view = (gs_view){.gaussians = {.count = view->gaussians.count},
                      .camera = *camera,
                      .rows = part->part.rows,
                      .splats = part->splats.memory,
                      .image = {.color = image,
                                .transmittance = image + GS_CHANNELS * pixels,
                                .n_contrib = (uint32_t *)(image + (GS_CHANNELS + 1) * pixels)}};
    memcpy(view->background, s->batch->background, sizeof view->background);
    return await_event(s, part->received) && bin(s, part) && render(s, part);
}

// Waits until the lists have been counted; repeats what had no room. The GPU still renders.
static bool settle_lists(parts *s, own_part *part) {
    gs_view *const view = &part->view;
    gs_status status = GS_OK;
    if (view->report) {
        if (!ranks_wait(s->group, s->watch)) return false; // from here on no other rank holds the stream up
        status = gs_bin_wait(view, s->stream);
        if (status != GS_OK && status != GS_PAIRS_DO_NOT_FIT) return ranks_fail_gs(s->group, status);
        const int64_t needed = view->pairs_needed;
        // Grows before there is no room left: to repeat an image costs more than memory.
        if (needed + needed / 8 > part->in->pair_capacity) part->in->pair_capacity = needed + needed / 4;
    }
    if (status == GS_PAIRS_DO_NOT_FIT && !(bin_waiting(s, part) && render(s, part))) return false;
    part->in->division = view->lists;
    return true;
}

// With DISTWAR_FIXED: gs_bin has divided the work of a view's rows by their lists. Another number of ranks would round
// sums otherwise, so all ranks of the view choose by the lists of the whole.
static bool divide_as_whole(parts *s) {
    enum { VALUES = 2 * MOST_CUT };
    const int count = s->count;
    int cut = 0;
    if (!s->fixed || !s->any_cut) return true;
    for (; is_cut(s, cut); cut++) {
        rendering *const in = s->own[cut].in;
        list_lengths *const lengths = reserve(s, &in->lengths, sizeof *lengths);
        if (!lengths) return false;
        GS_OR_FAIL(s->group, libgs_list_lengths(&s->own[cut].view, lengths, s->stream));
        CUDA_OR_FAIL(s->group, cudaMemcpyAsync(in->known_lengths, lengths, sizeof *lengths,
                                               cudaMemcpyDeviceToHost, s->stream));
    }
    if (!ranks_wait(s->group, s->stream)) return false;
    int64_t own[VALUES] = {0}, all[RANKS_MAX * VALUES];
    for (int k = 0; k < cut; k++) {
        own[2 * k] = s->own[k].in->known_lengths->pairs;
        own[2 * k + 1] = s->own[k].in->known_lengths->longest;
    }
    if (!ranks_tell_numbers(s->group, VALUES, own, all, s->travel)) return false;
    for (int k = 0; k < cut; k++) {
        int64_t pairs = 0, longest = 0;
        for (int r = 0; r < count; r++)
            for (int j = 0; j < MOST_CUT; j++) {
                const int p = part_at(s, r, j);
                if (p < 0 || s->out.parts[p].view != s->own[k].part.view) continue;
                const int64_t *const theirs = all + r * VALUES + 2 * j;
                pairs += theirs[0], longest = theirs[1] > longest ? theirs[1] : longest;
            }
        GS_OR_FAIL(s->group,
                   libgs_divide_lists(&s->own[k].view, s->own[k].in->known_lengths, pairs, longest));
    }
    return true;
}

// [rows of tiles][GS_CHANNELS]
static double *row_sums_of(const parts *s, int32_t view) {
    return (double *)s->row_sums.memory + (int64_t)view * tile_rows(s) * GS_CHANNELS;
}

// d_color: NULL where images are all that is wanted.
static bool call_loss(const parts *s, const own_part *part, float *d_color) {
    const part_image image = {.view = part->part.view,
                              .width = part->view.camera.width,
                              .height = part->view.camera.height,
                              .rows = part->part.rows,
                              .color = part->view.image.color,
                              .d_color = d_color};
    return s->batch->loss(s->group, s->batch->context, &image, s->stream);
}

static bool queue_loss(parts *s, own_part *part) {
    const gs_camera *const camera = &part->view.camera;
    const size_t pixels = (size_t)camera->width * (size_t)camera->height;
    float *const d_color = reserve(s, &part->in->d_color, GS_CHANNELS * pixels * sizeof(float));
    if (!d_color) return false;
    part->gradient = (gs_gradient){.color = d_color, .abs_mean2d = s->absolute}; // not written here
    device_begin_stage("loss");
    if (!call_loss(s, part, d_color)) return false;
    if (s->fixed)
        GS_OR_FAIL(s->group, parts_row_sums(&part->view, part->part.rows, d_color,
                                            row_sums_of(s, part->part.view), s->stream));
    return true;
}

static bool queue_backward(parts *s, own_part *part) {
    const gs_view *const view = &part->view;
    const int32_t v = part->part.view;
    gs_gradient *const gradient = &part->gradient;
    device_begin_stage("render backward");
    GS_OR_FAIL(s->group, gs_moments_bytes(view->gaussians.count, 0, s->batch->policy.strategy,
                                          &gradient->moments_bytes));
    gradient->moments = reserve_for_step(s, &part->in->moments, gradient->moments_bytes);
    if (!gradient->moments) return false;
    if (s->fixed) {
        struct gs_largest_values *const largest = (struct gs_largest_values *)s->largest.memory + v;
        GS_OR_FAIL(s->group, parts_bound(view, row_sums_of(s, v), largest, s->stream));
        gradient->largest = largest;
    }
    GS_OR_FAIL(s->group, gs_render_backward(view, gradient, s->batch->policy, s->stream));
    if (s->fixed)
        GS_OR_FAIL(s->group, parts_fixed_sums(view, gradient, &part->sums, (fixed_units *)s->units.memory + v,
                                              s->stream));
    return true;
}

// ---- a batch

// Memory for sums over parts: zeros.
static bool begin_sums(parts *s) {
    const int32_t views = s->batch->views;
    const size_t sums_bytes = (size_t)(views * s->batch->gaussians.count * record_bytes(s)),
                 units_bytes = (size_t)views * sizeof(fixed_units),
                 row_bytes = (size_t)(views * tile_rows(s) * GS_CHANNELS) * sizeof(double);
    if (!reserve(s, &s->moments, (size_t)(views * s->batch->gaussians.count) * sizeof(gs_moments)))
        return false;
    if (s->fixed) {
        if (!reserve(s, &s->sums, sums_bytes) || !reserve(s, &s->units, units_bytes) ||
            !reserve(s, &s->row_sums, row_bytes))
            return false;
        CUDA_OR_FAIL(s->group, cudaMemsetAsync(s->units.memory, 0, units_bytes, s->stream));
        CUDA_OR_FAIL(s->group, cudaMemsetAsync(s->row_sums.memory, 0, row_bytes, s->stream));
    }
    CUDA_OR_FAIL(s->group, cudaMemsetAsync(sums_of(s), 0, sums_bytes, s->stream));
    return true;
}

// Each row has a value on one rank and zeros on the others, so that the sums are exact.
static bool combine_row_sums(parts *s) {
    if (!s->fixed || !s->any_cut) return true;
    const ranks_reduction sum = {s->row_sums.memory, s->batch->views * tile_rows(s) * (int64_t)GS_CHANNELS,
                                 RANKS_DOUBLE, RANKS_SUM};
    return begin_travel(s) && ranks_all_reduce(s->group, &sum, s->travel) && await_travel(s);
}

// Images of the parts that are rows of views: their ranks bring each other the pixels next to theirs before the loss.
static bool forward_cut(parts *s) {
    for (int k = 0; is_cut(s, k); k++)
        if (!queue_forward(s, &s->own[k])) return false;
    for (int k = 0; is_cut(s, k); k++)
        if (!settle_lists(s, &s->own[k])) return false;
    return !s->any_cut || exchange_pixels(s);
}

// Up to the images of cut views. result: its memory is used until it is written; NULL: parts_render.
static bool begin_batch(parts *s, const part_batch *batch, const gs_gaussians *result, gs_stream stream) {
    if (batch->views < 1 || batch->views > GS_MAX_VIEWS)
        return ranks_fail(s->group, "a batch has 1..%d views, not %d", GS_MAX_VIEWS, (int)batch->views);
    s->batch = batch, s->stream = stream;
    s->fixed = batch->policy.strategy == DISTWAR_FIXED;
    s->only_images = !result;
    plan(s);
    begin_scratch(s, result ? result : &(gs_gaussians){0});
    return project_home(s) && send_splats(s);
}

bool parts_backward(parts *s, const part_batch *batch, const gs_gaussians *gradients, float *abs_mean2d,
                    gs_stream stream) {
    s->absolute = abs_mean2d;
    if (!begin_batch(s, batch, gradients, stream) || !begin_sums(s) || !find_largest(s) || !forward_cut(s))
        return false;
    for (int k = 0; is_cut(s, k); k++)
        if (!queue_loss(s, &s->own[k])) return false;
    if (!combine_row_sums(s) || !divide_as_whole(s)) return false;
    // The moments of one part travel while the next is rendered.
    for (int k = 0; k < s->out.most; k++) {
        own_part *const part = k < s->own_count ? &s->own[k] : NULL;
        if (part && part->whole && !(queue_forward(s, part) && settle_lists(s, part) && queue_loss(s, part)))
            return false;
        if ((part && !queue_backward(s, part)) || (k > 0 && !send_moments(s, k - 1)) || !pack_moments(s, k))
            return false;
    }
    if (!send_moments(s, s->out.most - 1) || !gather_moments(s)) return false;
    const gs_gradient own = {.moments = s->moments.memory, .gaussians = *gradients, .abs_mean2d = abs_mean2d};
    device_begin_stage("project backward");
    GS_OR_FAIL(s->group, gs_project_backward(&s->home, &own, stream));
    device_begin_stage("adam");
    return true;
}

bool parts_render(parts *s, const part_batch *batch, gs_stream stream) {
    if (!begin_batch(s, batch, NULL, stream) || !forward_cut(s)) return false;
    for (int k = 0; k < s->own_count; k++) // one rank may render all rows
        if ((s->own[k].whole && !(queue_forward(s, &s->own[k]) && settle_lists(s, &s->own[k]))) ||
            !call_loss(s, &s->own[k], NULL))
            return false;
    return await_travel(s); // also for what others get
}

// ---- a step of training

static double *gain_rows_of(const parts *s, int32_t view) {
    return (double *)s->gain_rows.memory + (int64_t)view * tile_rows(s) * GS_EXPOSURE_SUMS;
}

// The loss of rows of a view.
static bool step_loss(ranks *group, void *context, const part_image *image, gs_stream stream) {
    trainer *const t = context;
    parts *const s = t->state->kept;
    const int32_t v = image->view;
    const size_t index = s->of->index[v], values = GS_CHANNELS * (size_t)image->width * (size_t)image->height;
    const target_view *view = s->of->view[v];
    // An upload waits for the device, without a look at the other ranks.
    if (!view->pixels && !picture_cache_has(t->pictures, index) && !ranks_wait(group, stream)) return false;
    if (!view->pixels) view = picture_cache_view(t->pictures, index);
    const gs_exposed exposed = {.log_gain = s->of->exposure[v],
                                .color = image->color,
                                .width = image->width,
                                .height = image->height};
    const float *compared = image->color;
    size_t bytes = 0;
    if (exposed.log_gain) {
        float *const corrected = device_buffer_reserve(&s->corrected, values * sizeof(float));
        GS_OR_FAIL(group, gs_exposure(&exposed, corrected, stream));
        compared = corrected;
    }
    const gs_comparison images = {image->width, image->height, compared, trainer_target(t, s->of, v, view),
                                  view->mask};
    GS_OR_FAIL(group, gs_loss_bytes(image->width, image->height, &bytes));
    GS_OR_FAIL(group, libgs_loss_rows(&images, image->rows, device_buffer_reserve(&s->loss_workspace, bytes),
                                      bytes, t->results[t->waiting + v].color, image->d_color, stream));
    if (exposed.log_gain)
        GS_OR_FAIL(group,
                   libgs_exposure_rows(&exposed, image->rows, image->d_color, gain_rows_of(s, v), stream));
    return true;
}

// Every rank has all gains and steps those of the batch alike.
static bool step_gains(trainer *t, parts *s, int64_t row_values) {
    // Each row of tiles has its sums on one rank and zeros on the others, so that this is exact.
    const ranks_reduction sum = {s->gain_rows.memory, row_values, RANKS_DOUBLE, RANKS_SUM};
    float *const sums = device_buffer_reserve(&s->gain_sums, GS_EXPOSURE_SUMS * sizeof *sums);
    if (!ranks_all_reduce(t->group, &sum, NULL)) return false;
    for (int32_t v = 0; v < s->of->count; v++) {
        if (!s->of->exposure[v]) continue;
        GS_OR_FAIL(t->group, libgs_exposure_sum(gain_rows_of(s, v), tile_rows(s), sums, NULL));
        GS_OR_FAIL(t->group, exposures_step(t, s->of, v, sums));
    }
    return true;
}

bool parts_gradient(trainer *t, const step_views *of, const gs_view **view, const float **mean2d) {
    parts *const s = t->state->kept;
    const training_state *const state = t->state;
    int32_t pictures[GS_MAX_VIEWS];
    for (int32_t v = 0; v < of->count; v++) pictures[v] = (int32_t)of->index[v];
    part_batch batch = {.gaussians = trainer_gaussians(t, of),
                        .sh_degree_used = of->sh_degree,
                        .views = of->count,
                        .cameras = of->camera,
                        .pictures = pictures,
                        .policy = t->settings->policy,
                        .loss = step_loss,
                        .context = t};
    memcpy(batch.background, of->background, sizeof batch.background);
    s->of = of, s->batch = &batch;
    const int64_t row_values = of->count * (int64_t)tile_rows(s) * GS_EXPOSURE_SUMS;
    const size_t row_bytes = (size_t)row_values * sizeof(double),
                 mean_bytes = (size_t)of->count * 2 * (size_t)state->gaussians.count * sizeof(float);
    const bool exposes = state->exposures > 0;
    float *const means = of->screen == SCREEN_NONE ? NULL : device_buffer_reserve(&s->mean2d, mean_bytes);
    if (exposes)
        DEVICE_CHECK(cudaMemsetAsync(device_buffer_reserve(&s->gain_rows, row_bytes), 0, row_bytes, NULL));
    trainer_weigh(t, of);
    if (!parts_backward(s, &batch, &state->gradients, means, NULL) ||
        (exposes && !step_gains(t, s, row_values)))
        return false;
    s->seen = s->home;
    *view = &s->seen;
    *mean2d = means;
    return true;
}

// Scores are compared with each other, so any positive number does, in every pixel: the bytes of 0.747.
static bool even_loss(ranks *group, void *context, const part_image *image, gs_stream stream) {
    const size_t bytes = GS_CHANNELS * (size_t)image->width * (size_t)image->height * sizeof(float);
    (void)context;
    CUDA_OR_FAIL(group, cudaMemsetAsync(image->d_color, 0x3f, bytes, stream));
    return true;
}

bool parts_scores(trainer *t, const scored_views *by, float *score) {
    parts *const s = t->state->kept;
    const training_state *const state = t->state;
    const gs_gaussians *const own = &state->gaussians;
    const size_t bytes = (size_t)own->count * sizeof *score;
    float *const here = device_buffer_reserve(&t->retirement.splats, bytes);
    device_clear(here, bytes);
    for (size_t first = 0; first < retirement_views(by->count); first += (size_t)by->batch) {
        gs_camera camera[GS_MAX_VIEWS];
        const part_batch of = {.gaussians = *own,
                               .views = retirement_cameras(state, by, first, camera),
                               .cameras = camera,
                               .policy = t->settings->policy,
                               .loss = even_loss};
        if (!parts_backward(s, &of, &state->gradients, NULL, NULL)) return false;
        for (int32_t v = 0; v < of.views; v++)
            GS_OR_FAIL(state->group, gs_score_add((const gs_moments *)s->moments.memory + v * own->count,
                                                  own->count, here, NULL));
    }
    return parts_bring_rows(state, here, sizeof *score, (row_range){0, state->all}, true, score);
}
