// SPDX-License-Identifier: MIT
// What the trainer calls of a scene in parts: where rows lie, how they are gathered and shared out anew, a step, density control
// in place (MCMC, splits), pictures and quality. All results have the bits of one GPU with all Gaussians.
#include "arrays.h"
#include "device.h"
#include "frame.h"
#include "parts.h"
#include "trainer.h"
#include <stdlib.h>
#include <string.h>

// ---- rows

// Ranks begin at a warp's first Gaussian, as on one GPU: with other Gaussians in its warp one is rounded otherwise.
static int64_t begin_of(const ranks *group, int64_t all, int64_t rank) {
    const int64_t warps = (all + 31) / 32, n = ranks_count(group),
                  begin =
                      32 * (warps / n * rank + warps % n * rank / n); // without a product that could overflow
    return begin < all ? begin : all;
}

static row_range range_of(const ranks *group, int64_t all, int rank) {
    const int64_t first = begin_of(group, all, rank);
    return (row_range){first, begin_of(group, all, rank + 1) - first};
}

static row_range parts_range(const ranks *group, int64_t all) {
    return range_of(group, all, ranks_own(group));
}

// The rows that two ranges have in common, as bytes of the first.
static ranks_bytes common(row_range a, row_range b, int64_t bytes) {
    const int64_t first = a.first > b.first ? a.first : b.first, of_a = a.first + a.count,
                  of_b = b.first + b.count, end = of_a < of_b ? of_a : of_b;
    return end > first ? (ranks_bytes){(first - a.first) * bytes, (end - first) * bytes} : (ranks_bytes){0};
}

// Brings rows of an array, with `bytes` bytes each, from where `state` has them to the ranks that want them.
static bool bring(const training_state *state, const void *own, int64_t bytes,
                  const row_range wanted[RANKS_MAX], void *to) {
    ranks *const group = state->group;
    const row_range mine = {state->first, state->gaussians.count}, here = wanted[ranks_own(group)];
    ranks_exchange exchange = {.send = own, .receive = to};
    for (int r = 0; r < ranks_count(group); r++) {
        exchange.to[r] = common(mine, wanted[r], bytes);
        exchange.from[r] = common(here, range_of(group, state->all, r), bytes);
    }
    return ranks_all_to_all(group, &exchange, NULL);
}

static bool parts_bring_rows(const training_state *state, const void *own, int64_t bytes, row_range rows,
                             bool to_all, void *to) {
    row_range wanted[RANKS_MAX] = {rows};
    for (int r = 1; r < ranks_count(state->group) && to_all; r++) wanted[r] = rows;
    return bring(state, own, bytes, wanted, to);
}

// For its time this takes the memory of three vectors more.
static bool parts_grow(training_state *state, int64_t all) {
    if (all == state->all) return true;
    const row_range rows = parts_range(state->group, all);
    gs_gaussians *const sets[] = {&state->gaussians, &state->first_moment, &state->second_moment};
    gs_gaussians moved[3];
    row_range wanted[RANKS_MAX];
    for (int r = 0; r < ranks_count(state->group); r++) wanted[r] = range_of(state->group, all, r);
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
            done = bring(state, from.of[k], from.width[k] * (int64_t)sizeof(float), wanted, to.of[k]);
    }
    done = done && bring(state, state->density, 2 * (int64_t)sizeof(float), wanted, density) &&
           ranks_wait(state->group, NULL);
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

// ---- a step of training

static double *gain_rows_of(const parts *s, int32_t view) {
    return (double *)s->buffers.gain_rows.memory + (int64_t)view * tile_rows(s) * GS_EXPOSURE_SUMS;
}

// The loss of rows of a view.
static bool step_loss(parts *s, const own_part *part, float *d_color) {
    trainer *const t = s->batch->context;
    const step_views *const of = s->batch->of;
    const int32_t v = part->part.view;
    const size_t index = of->index[v];
    const target_view *view = of->view[v];
    // An upload waits for the device, without a look at the other ranks.
    if (!view->pixels && !t->source.pictures->pictures[index].view.pixels && !ranks_wait(s->group, NULL))
        return false;
    if (!view->pixels) view = picture_cache_view(t->source.pictures, index);
    const gs_camera *const camera = &part->view.camera;
    const gs_loss_image compared = {.images = {camera->width, camera->height, part->view.image.color,
                                               trainer_target(t, of, v, view), view->mask},
                                    .result = t->results[t->waiting + v].color,
                                    .color_gradient = d_color,
                                    .log_gain = of->exposure[v]};
    GS_CHECK(
        libgs_loss_rows(&compared, part->part.rows, compared.log_gain ? gain_rows_of(s, v) : NULL, NULL));
    return true;
}

static bool parts_gradient(trainer *t, const step_views *of, const gs_view **view, const float **mean2d) {
    parts *const s = t->state->kept;
    const training_state *const state = t->state;
    const part_batch batch = {.gaussians = trainer_gaussians(t, of),
                              .of = of,
                              .pictures = of->index,
                              .policy = t->settings->policy,
                              .loss = step_loss,
                              .context = t};
    s->batch = &batch; // for tile_rows
    const int64_t row_values = of->count * (int64_t)tile_rows(s) * GS_EXPOSURE_SUMS;
    const size_t row_bytes = (size_t)row_values * sizeof(double),
                 mean_bytes = (size_t)of->count * 2 * (size_t)state->gaussians.count * sizeof(float);
    const bool exposes = state->exposures > 0;
    float *const means =
        of->screen == SCREEN_NONE ? NULL : device_buffer_reserve(&s->buffers.mean2d, mean_bytes);
    if (exposes)
        DEVICE_CHECK(
            cudaMemsetAsync(device_buffer_reserve(&s->buffers.gain_rows, row_bytes), 0, row_bytes, NULL));
    trainer_weigh(t, of);
    if (!parts_backward(s, &batch, &state->gradients, means)) return false;
    // Every rank has all gains and steps those of the batch alike. Each row of tiles has its sums on one rank and zeros on the
    // others, so that this is exact.
    const ranks_reduction sum = {s->buffers.gain_rows.memory, row_values, RANKS_DOUBLE, RANKS_SUM};
    float *const sums = device_buffer_reserve(&s->buffers.gain_sums, GS_EXPOSURE_SUMS * sizeof *sums);
    if (exposes && !ranks_all_reduce(t->group, &sum, NULL)) return false;
    for (int32_t v = 0; v < of->count; v++) {
        if (!of->exposure[v]) continue;
        GS_CHECK(libgs_gain_sums(gain_rows_of(s, v), tile_rows(s), sums, NULL));
        GS_CHECK(exposures_step(t, of, v, sums));
    }
    *view = &s->home;
    *mean2d = means;
    return true;
}

// Scores are compared with each other, so any positive number does, in every pixel: the bytes of 0.747.
static bool even_loss(parts *s, const own_part *part, float *d_color) {
    const size_t pixels = (size_t)part->view.camera.width * (size_t)part->view.camera.height;
    (void)s;
    DEVICE_CHECK(cudaMemsetAsync(d_color, 0x3f, GS_CHANNELS * pixels * sizeof(float), NULL));
    return true;
}

static bool parts_scores(trainer *t, const scored_views *by, float *score) {
    parts *const s = t->state->kept;
    const training_state *const state = t->state;
    const gs_gaussians *const own = &state->gaussians;
    const size_t bytes = (size_t)own->count * sizeof *score;
    float *const here = device_buffer_reserve(&t->retirement.splats, bytes);
    device_clear(here, bytes);
    for (size_t first = 0; first < retirement_views(by->count); first += (size_t)by->batch) {
        step_views of = {0};
        of.count = retirement_cameras(state, by, first, of.camera);
        const part_batch batch = {
            .gaussians = *own, .of = &of, .policy = t->settings->policy, .loss = even_loss};
        if (!parts_backward(s, &batch, &state->gradients, NULL)) return false;
        for (int32_t v = 0; v < of.count; v++)
            GS_CHECK(gs_score_add((const gs_splat_grad *)s->buffers.splat_grad.memory + v * own->count,
                                  own->count, here, NULL));
    }
    return parts_bring_rows(state, here, sizeof *score, (row_range){0, state->all}, true, score);
}

// ---- rows that become copies of others

// gs_refill. Meanwhile each rank holds 20 or 32 bytes for every Gaussian of all ranks, less than parts_grow takes with up to 14
// ranks, and the parameters of each copy.
static bool parts_refill(training_state *state, const gs_refill_rules *rules) {
    parts *const s = state->kept;
    ranks *const group = state->group;
    const part_vectors vectors = {state->gaussians, state->first_moment, state->second_moment};
    const gs_gaussians *const own = &vectors.gaussians;
    const size_t record = (size_t)parts_record(own) * sizeof(float), key = sizeof(uint32_t);
    const int count = ranks_count(group);
    // Copies for each rank, and from each: those of rank r are given[r] .. given[r + 1] - 1 and taken[r] .. taken[r + 1] - 1.
    int64_t begin[2 * (RANKS_MAX + 1)];
    const int64_t *const given = begin, *const taken = begin + count + 1;
    const size_t begin_bytes = 2 * (size_t)(count + 1) * sizeof *begin;
    size_t bytes;
    row_moves m = {.splits = rules->density != NULL,
                   .existing = rules->existing,
                   .least_opacity = rules->least_opacity,
                   .density = rules->density,
                   .seed = rules->seed,
                   .iteration = rules->iteration,
                   .dead = rules->dead,
                   .ranks = count,
                   .own = ranks_own(group)};
    for (int r = 0; r <= count; r++) m.begin[r] = begin_of(group, state->all, r);
    GS_CHECK(parts_moves_bytes(&m, &bytes));
    m.workspace = device_buffer_reserve(&s->buffers.density_workspace, bytes + begin_bytes);
    int64_t *const counted = (int64_t *)((char *)m.workspace + bytes);
    uint32_t *const keys = device_buffer_reserve(&s->buffers.given, (size_t)own->count * key + 1);
    uint32_t *const of_all = device_buffer_reserve(&s->buffers.taken, (size_t)state->all * key + 1);
    GS_CHECK(parts_move_keys(own, &m, keys));
    if (!parts_bring_rows(state, keys, (int64_t)key, (row_range){0, state->all}, true, of_all)) return false;
    GS_CHECK(parts_choose(&vectors, &m, of_all, counted));
    DEVICE_CHECK(cudaMemcpyAsync(begin, counted, begin_bytes, cudaMemcpyDeviceToHost, NULL));
    if (!ranks_wait(group, NULL)) return false; // also for who reads of_all
    float *const send = device_buffer_reserve(&s->buffers.given, (size_t)given[count] * record + 1);
    float *const receive = device_buffer_reserve(&s->buffers.taken, (size_t)taken[count] * record + 1);
    GS_CHECK(parts_give(&vectors, &m, send));
    ranks_exchange exchange = {.send = send, .receive = receive};
    for (int r = 0; r < count; r++) {
        const int64_t row = (int64_t)record;
        exchange.to[r] = (ranks_bytes){given[r] * row, (given[r + 1] - given[r]) * row};
        exchange.from[r] = (ranks_bytes){taken[r] * row, (taken[r + 1] - taken[r]) * row};
    }
    if (!ranks_all_to_all(group, &exchange, NULL)) return false;
    GS_CHECK(parts_take(&vectors, &m, receive));
    if (!ranks_wait(group, NULL)) return false;
    device_buffer *const done[] = {&s->buffers.density_workspace, &s->buffers.given, &s->buffers.taken};
    for (size_t k = 0; k < sizeof done / sizeof *done; k++) device_buffer_close(done[k]);
    return true;
}

// ---- pictures and quality: all ranks render a view, and each gets the whole image

// Copies the rows that this rank has rendered to an image of the same size.
static bool keep_rows(parts *s, const own_part *part, float *d_color) {
    float *const image = s->batch->context;
    const float *const color = part->view.image.color;
    const size_t width = (size_t)part->view.camera.width, height = (size_t)part->view.camera.height,
                 first = width * (size_t)(part->part.rows.begin * GS_TILE_SIZE),
                 end = width * (size_t)(part->part.rows.end * GS_TILE_SIZE), plane = width * height,
                 bytes = ((end < plane ? end : plane) - first) * sizeof *image;
    (void)d_color;
    for (size_t at = first; at < GS_CHANNELS * plane; at += plane)
        DEVICE_CHECK(cudaMemcpyAsync(image + at, color + at, bytes, cudaMemcpyDeviceToDevice, NULL));
    return true;
}

// The frame gets the image of a view, on all ranks. Each pixel is 0 on all ranks but one, so that the sums are exact.
static bool parts_picture(const training_state *state, const shown_views *shown, size_t index, frame *f) {
    step_views of = {
        .count = 1, .camera = {shown->views[index].camera}, .sh_degree = state->gaussians.sh_degree};
    const int64_t values = GS_CHANNELS * (int64_t)of.camera->width * of.camera->height;
    const size_t bytes = (size_t)values * sizeof(float);
    float *const color = device_buffer_reserve(&f->color_gradient, bytes); // there is no gradient
    const part_batch batch = {.gaussians = state->gaussians, .of = &of, .loss = keep_rows, .context = color};
    const ranks_reduction sum = {color, values, RANKS_FLOAT, RANKS_SUM};
    memcpy(of.background, shown->background, sizeof of.background);
    device_clear(color, bytes);
    f->view.camera = *of.camera, f->view.image.color = color;
    return parts_render(state->kept, &batch) && ranks_all_reduce(state->group, &sum, NULL) &&
           ranks_wait(state->group, NULL);
}

// ---- the table

// Each two H100s took 1.45 and 1.10 times the seconds of one for 7,000 and 30,000 views of bonsai with 300,000 Gaussians; two
// H200s 0.62 with a million.
static const char *few_for_parts(const training_settings *settings, int ranks) {
    const bool many = settings->density.most_gaussians >= 500000;
    return !many && (ranks == 2 || settings->batch < ranks) ? "few Gaussians for several GPUs" : NULL;
}

const training_way parts_way = {.open = parts_open,
                                .close = parts_close,
                                .few = few_for_parts,
                                .gradient = parts_gradient,
                                .scores = parts_scores,
                                .range = parts_range,
                                .gather = parts_bring_rows,
                                .grow = parts_grow,
                                .refill = parts_refill,
                                .render = parts_picture};
