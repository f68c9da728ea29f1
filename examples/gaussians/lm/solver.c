// SPDX-License-Identifier: MIT
// A step of Levenberg-Marquardt solves its batches one after another, searches along the mean of their updates, and
// adapts the damping to the result.
#include "solver.h"
#include "arrays.h"
#include "device.h"
#include "frame.h"
#include "cli/progress.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The line search evaluates at most eight lengths.
enum { SEARCHES = 8 };

// The last three are for steps of several batches: the sums of DIAGONAL UPDATE, of DIAGONAL and of RIGHT over them.
enum { RIGHT, DIAGONAL, UPDATE, RESIDUAL, DIRECTION, PRODUCT, SUM, WEIGHTS, RIGHT_OF_ALL, VECTORS };

typedef struct solver {
    const gs_gaussians *gaussians;
    const target_view *views;
    size_t view_count;
    const lm_settings *settings;
    lm_scene scene;
    lm_clock clock;
    // RIGHT: minus the gradient of the open views. PRODUCT: once the equations are solved, a copy of the
    // Gaussians for a step that is undone.
    gs_gaussians vectors[VECTORS];
    int64_t values; // floats of a vector with its padding
    float *blocks;  // device; the preconditioner; NULL: DIAGONAL is
    size_t blocks_bytes;
    double *scalars, *model; // device; model: RIGHT^T UPDATE and |J UPDATE|^2
    size_t *order;           // a permutation of the views
    lm_view *open;           // [most_open]: views of a batch
    int64_t most_open;
    size_t limit;   // of all bytes; 0: none
    double *sum_of; // [view_count]: squared residuals at the start of a step, in the order of `order`
    size_t ready;   // views open at the present Gaussians; or 0
    double damping;
    double resident_model[2];
    size_t fixed_bytes, most_bytes; // on the device: of vectors and blocks; of all
} solver;

static int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// The most bytes that the solver may take; 0: any number. Caches of all views may not fit: their limit is the free
// memory less a sixteenth, since allocations are rounded up.
static size_t limit_of(const lm_settings *settings) {
    if (settings->memory > 0) return (size_t)(settings->memory * 0x1p30);
    if (settings->form == LM_FREE) return 0;
    size_t unused, all;
    DEVICE_CHECK(cudaMemGetInfo(&unused, &all));
    return unused - unused / 16;
}

static bool solver_open(solver *s, fault *why) {
    const lm_settings *settings = s->settings;
    const gs_gaussians *g = s->gaussians;
    s->scene = (lm_scene){.gaussians = g,
                          .epsilon = (float)settings->epsilon,
                          .objective = (gs_lm_objective)settings->objective,
                          .centre_only = settings->centre_only,
                          .form = (lm_form)settings->form,
                          .policy = settings->policy,
                          .clock = &s->clock};
    memcpy(s->scene.background, settings->background, sizeof s->scene.background);
    lm_clock_open(&s->clock);
    s->damping = settings->damping;
    s->values = (int64_t)(device_gaussians_bytes(g->count, g->sh_degree) / sizeof(float));
    s->limit = limit_of(settings);
    const int vectors =
        settings->batches > 1 || s->limit > 0 ? VECTORS : SUM; // a limit may make several batches
    for (int i = 0; i < vectors; i++) s->vectors[i] = device_gaussians_open(g->count, g->sh_degree);
    if (!settings->diagonal_only) {
        s->blocks_bytes = gs_lm_blocks_bytes(g->count, g->sh_degree);
        s->blocks = device_allocate(s->blocks_bytes);
    }
    s->scalars = device_allocate((2 * (size_t)settings->pcg_iterations + 1) * sizeof(double));
    s->model = device_allocate(2 * sizeof(double));
    s->order = calloc(s->view_count, sizeof *s->order);
    s->most_open = min_of(settings->batch, (int64_t)s->view_count);
    s->open = calloc((size_t)s->most_open, sizeof *s->open);
    s->sum_of = calloc(s->view_count, sizeof *s->sum_of);
    if (!s->order || !s->open || !s->sum_of) return fail(why, "no memory for %zu views", s->view_count);
    s->fixed_bytes = (size_t)vectors * (size_t)s->values * sizeof(float) + s->blocks_bytes;
    s->most_bytes = s->fixed_bytes;
    return true;
}

static void solver_close(solver *s) {
    for (int i = 0; i < VECTORS; i++) device_gaussians_close(&s->vectors[i]);
    device_free(s->blocks);
    device_free(s->scalars);
    device_free(s->model);
    lm_scene_close(&s->scene);
    for (int64_t i = 0; s->open && i < s->most_open; i++) lm_view_close(&s->open[i]);
    lm_clock_close(&s->clock);
    free(s->order);
    free(s->open);
    free(s->sum_of);
}

static size_t bytes_of_all(const solver *s) {
    size_t bytes = s->fixed_bytes + lm_scene_bytes(&s->scene);
    for (int64_t i = 0; i < s->most_open; i++) bytes += lm_view_bytes(&s->open[i]);
    return bytes;
}

static void note_memory(solver *s) {
    const size_t bytes = bytes_of_all(s);
    if (bytes > s->most_bytes) s->most_bytes = bytes;
}

// Images of a step: first, first + stride, first + 2 stride, ..., rounded down. Line searches take others in each step.
typedef struct probe {
    size_t first;
    double stride; // >= 1
    size_t images;
} probe;

// The k-th of them; from `images` on there is none.
static size_t place_of(probe of, size_t k) {
    return of.first + (size_t)((double)k * of.stride);
}

static const target_view *image_of(const solver *s, size_t i) {
    return &s->views[s->order[i]];
}

static double values_in(const solver *s, probe of) {
    double values = 0;
    for (size_t k = 0, i; (i = place_of(of, k)) < of.images; k++)
        values += (double)GS_CHANNELS * (double)image_of(s, i)->counted;
    return values;
}

// The mean objective over the probe at the start of the step.
static double objective_before(const solver *s, probe of) {
    double sum = 0;
    for (size_t k = 0, i; (i = place_of(of, k)) < of.images; k++) sum += s->sum_of[i];
    return sum / values_in(s, of);
}

static float *flat(const solver *s, int vector) {
    return s->vectors[vector].mean;
}

static void clear(const solver *s, int vector) {
    DEVICE_CHECK(cudaMemsetAsync(flat(s, vector), 0, (size_t)s->values * sizeof(float), NULL));
}

// Puts this step's images first in s->order, batch by batch; returns their number.
static size_t choose_images(solver *s, int64_t step) {
    const size_t n = s->view_count, batch = (size_t)s->settings->batch;
    const size_t wanted = (size_t)min_of(s->settings->batch * s->settings->batches, (int64_t)n);
    const size_t batches = (wanted + batch - 1) / batch;
    if (s->settings->strided) { // of `wanted` images at equal distances a batch is every one in `batches`
        size_t at = 0;
        for (size_t first = 0; first < batches; first++)
            for (size_t i = first; i < wanted; i += batches)
                s->order[at++] = ((size_t)(step - 1) + i * n / wanted) % n;
        return wanted;
    }
    random_stream random = {s->settings->seed ^ (uint64_t)step * 0x9e3779b97f4a7c15u};
    for (size_t i = 0; i < n; i++) s->order[i] = i;
    for (size_t i = 0; i + 1 < n; i++) {
        const size_t other = i + (size_t)random_below(&random, n - i);
        const size_t chosen = s->order[other];
        s->order[other] = s->order[i];
        s->order[i] = chosen;
    }
    return wanted;
}

// Whether the limit leaves room for one more view beside the open ones. If not, closes views of an earlier batch and
// looks again. Half of the buffers' size is reserved: buffers grow by half, and a step may lengthen the lists.
static bool has_room(solver *s, size_t opened, const target_view *image) {
    const size_t needs = lm_view_needs(&s->scene, image);
    size_t bytes = bytes_of_all(s) + (s->scene.memory.bytes + s->scene.scratch) / 2 + needs;
    if (bytes + needs / 2 <= s->limit) return true;
    for (size_t i = opened; i < (size_t)s->most_open; i++) {
        bytes -= lm_view_bytes(&s->open[i]);
        lm_view_close(&s->open[i]);
    }
    return bytes <= s->limit;
}

// Opens the next batch of the `left` views from s->order[first] on, as far as there is room; returns their number.
// with_gradient: RIGHT becomes minus their gradient, and they have caches.
static size_t open_views(solver *s, size_t first, size_t left, bool with_gradient) {
    const size_t most = lm_equal_part(left, (size_t)s->settings->batch);
    size_t opened = 0;
    if (with_gradient) clear(s, RIGHT);
    for (; opened < most; opened++) {
        const target_view *const image = image_of(s, first + opened);
        if (s->limit > 0 && !has_room(s, opened, image)) break;
        s->sum_of[first + opened] =
            lm_view_open(&s->open[opened], &s->scene, image, with_gradient ? &s->vectors[RIGHT] : NULL);
    }
    if (with_gradient) GS_CHECK(gs_lm_add(flat(s, RIGHT), -2, NULL, flat(s, RIGHT), s->values));
    note_memory(s);
    return opened;
}

// to = P RESIDUAL, at the start of the iteration.
static void precondition(solver *s, int to, int iteration) {
    double *sum = s->scalars + 2 * iteration;
    if (s->blocks)
        GS_CHECK(gs_lm_precondition(s->blocks, &s->vectors[DIAGONAL], &s->vectors[RESIDUAL], &s->vectors[to],
                                    sum));
    else
        GS_CHECK(
            gs_lm_precondition_diagonal(flat(s, DIAGONAL), flat(s, RESIDUAL), s->values, flat(s, to), sum));
}

// UPDATE = P RIGHT, and RESIDUAL what is then left of the right-hand side. Right after gs_lm_pcg_start.
static void start_preconditioned(solver *s, size_t views) {
    float *const residual = flat(s, RESIDUAL);
    precondition(s, UPDATE, 0);
    DEVICE_CHECK(cudaMemsetAsync(s->scalars, 0, sizeof *s->scalars, NULL));
    lm_views_product(s->open, views, &s->scene, &s->vectors[UPDATE], &s->vectors[PRODUCT], NULL);
    GS_CHECK(gs_lm_add(residual, -1, NULL, flat(s, PRODUCT), s->values));
    GS_CHECK(gs_lm_add(residual, -(float)s->damping, flat(s, DIAGONAL), flat(s, UPDATE), s->values));
}

// UPDATE becomes the solution of the open views' normal equations, DIAGONAL their diagonal.
static void solve(solver *s, size_t views) {
    lm_clock *clock = &s->clock;
    clear(s, DIAGONAL);
    if (s->blocks) DEVICE_CHECK(cudaMemsetAsync(s->blocks, 0, s->blocks_bytes, NULL));
    for (size_t i = 0; i < views; i++)
        lm_view_add_diagonal(&s->open[i], &s->scene, &s->vectors[DIAGONAL], s->blocks);
    if (s->settings->unit_weight > 0)
        GS_CHECK(gs_lm_add_units(s->gaussians, (float)s->settings->unit_weight, &s->vectors[DIAGONAL]));
    const int iterations = (int)s->settings->pcg_iterations;
    const gs_lm_pcg pcg = {.values = s->values,
                           .x = flat(s, UPDATE),
                           .residual = flat(s, RESIDUAL),
                           .direction = flat(s, DIRECTION),
                           .scalars = s->scalars};
    GS_CHECK(gs_lm_pcg_start(&pcg, flat(s, RIGHT), iterations));
    if (s->blocks) GS_CHECK(gs_lm_factor_blocks(&s->vectors[DIAGONAL], (float)s->damping, s->blocks));
    if (s->settings->start_preconditioned) start_preconditioned(s, views);
    precondition(s, DIRECTION, 0);
    lm_clock_mark(clock, LM_SOLVER);
    for (int k = 0; k < iterations; k++) {
        lm_views_product(s->open, views, &s->scene, &s->vectors[DIRECTION], &s->vectors[PRODUCT], NULL);
        GS_CHECK(gs_lm_pcg_step(&pcg, flat(s, DIAGONAL), (float)s->damping, k, flat(s, PRODUCT)));
        if (k + 1 < iterations) {
            precondition(s, PRODUCT, k + 1);
            GS_CHECK(gs_lm_pcg_update(&pcg, flat(s, PRODUCT), k));
        }
        lm_clock_mark(clock, LM_SOLVER);
    }
}

// Adds the solution of a batch to the mean of the step's: sum of DIAGONAL UPDATE over sum of DIAGONAL, equation 7.
static void add_to_mean(solver *s, bool first) {
    for (int i = SUM; first && i < VECTORS; i++) clear(s, i);
    GS_CHECK(gs_lm_add(flat(s, SUM), 1, flat(s, DIAGONAL), flat(s, UPDATE), s->values));
    GS_CHECK(gs_lm_add(flat(s, WEIGHTS), 1, NULL, flat(s, DIAGONAL), s->values));
    GS_CHECK(gs_lm_add(flat(s, RIGHT_OF_ALL), 1, NULL, flat(s, RIGHT), s->values));
}

// UPDATE and RIGHT become those of all batches.
static void take_mean(solver *s) {
    GS_CHECK(
        gs_lm_precondition_diagonal(flat(s, WEIGHTS), flat(s, SUM), s->values, flat(s, UPDATE), s->scalars));
    device_gaussians_copy(&s->vectors[RIGHT], &s->vectors[RIGHT_OF_ALL]);
}

// UPDATE becomes the step for the step's images. report: images, batches, before.
static bool find_update(solver *s, size_t images, lm_step *report, fault *why) {
    for (size_t first = 0, views; first < images; first += views) {
        views = s->ready ? s->ready : open_views(s, first, images - first, true);
        s->ready = 0;
        if (views == 0)
            return fail(why,
                        "one view does not fit: %.3g GiB are allowed, and %.3g are in use without it; raise "
                        "--lm-memory or --downscale, or take --lm-form free",
                        (double)s->limit / 0x1p30, (double)bytes_of_all(s) / 0x1p30);
        solve(s, views);
        report->batches++;
        if (views < images) add_to_mean(s, first == 0);
    }
    const bool several = report->batches > 1;
    if (several) take_mean(s);
    if (s->settings->radius > 0)
        GS_CHECK(gs_lm_limit(s->gaussians, (float)s->settings->radius, &s->vectors[UPDATE]));
    DEVICE_CHECK(cudaMemsetAsync(s->model, 0, 2 * sizeof(double), NULL));
    for (size_t first = 0, views; first < images; first += views) {
        views = several ? open_views(s, first, images - first, false) : images;
        lm_views_product(s->open, views, &s->scene, &s->vectors[UPDATE], NULL, &s->model[1]);
    }
    GS_CHECK(gs_lm_add_dot(NULL, flat(s, RIGHT), flat(s, UPDATE), s->values, &s->model[0]));
    device_download(s->resident_model, s->model, sizeof s->resident_model);
    report->images = (int64_t)images;
    report->before = objective_before(s, (probe){0, 1, images});
    return true;
}

// Gaussians = PRODUCT + gamma UPDATE. With gamma 0 they get the same bytes back.
static void move_to(solver *s, double gamma) {
    device_gaussians_copy(s->gaussians, &s->vectors[PRODUCT]);
    if (gamma == 0) return;
    const gs_arrays to = gs_arrays_of(s->gaussians), by = gs_arrays_of(&s->vectors[UPDATE]);
    for (int i = 0; i < GS_ARRAYS; i++)
        GS_CHECK(gs_lm_add(to.of[i], (float)gamma, NULL, by.of[i], s->gaussians->count * to.width[i]));
}

// The mean objective over the probe; infinite if it is not finite.
static double objective_at(solver *s, double gamma, probe of) {
    move_to(s, gamma);
    double sum = 0;
    for (size_t k = 0, i; (i = place_of(of, k)) < of.images; k++)
        sum += lm_picture_objective(&s->scene, image_of(s, i));
    note_memory(s);
    return isfinite(sum) ? sum / values_in(s, of) : INFINITY;
}

// Tries the minimum of the model, then that of the parabola through the objective's value and slope at 0 and
// its value at the first try, then shorter lengths while none helps. Returns the best. slope: of the mean
// objective.
static double search_gamma(solver *s, probe of, double slope) {
    const double model = -s->resident_model[0], curvature = s->resident_model[1];
    const double before = objective_before(s, of);
    double gamma = model < 0 && curvature > 0 ? fmin(-model / curvature, 2) : 1, best = gamma,
           least = INFINITY;
    for (int tried = 0; tried < SEARCHES; tried++) {
        const double here = objective_at(s, gamma, of);
        if (here < least) {
            least = here;
            best = gamma;
        }
        if (tried > 0 && least < before) break;
        const double bend = (here - before - slope * gamma) / (gamma * gamma);
        double next = bend > 0 ? -slope / (2 * bend) : INFINITY; // 0 if `here` is infinite
        next = fmin(fmax(next, gamma / 4), 1.5 * gamma);         // at 2 the model predicts no gain
        if (here < before && fabs(next - gamma) < 0.2 * gamma) break;
        gamma = next;
    }
    return best;
}

// The mean objective at the end of the step. If the next step begins with the same views, opens them for it.
static double arrive(solver *s, double gamma, size_t images, const lm_step *step) {
    const probe all = {0, 1, images};
    const bool same = images == s->view_count && step->batches == 1 && step->step < s->settings->steps;
    if (!same) return objective_at(s, gamma, all);
    move_to(s, gamma);
    if (open_views(s, 0, images, true) < images) return objective_at(s, gamma, all);
    s->ready = images;
    const double mean = objective_before(s, all);
    return isfinite(mean) ? mean : INFINITY;
}

// by_length: where damping dominates, the length of a step is proportional to 1 / damping, so this brings the
// next gamma near 1.
static double damping_factor(const lm_settings *settings, const lm_step *step) {
    if (!step->kept) return 2;
    return settings->by_length ? fmin(fmax(0.5 / step->gamma, 0.25), 8) : 0.5;
}

static bool lm_step_once(solver *s, lm_step *report, fault *why) {
    lm_clock_mark(&s->clock, LM_PICTURES); // begins to count
    const size_t chosen = s->ready ? s->ready : choose_images(s, report->step);
    if (!find_update(s, chosen, report, why)) return false;
    if (!isfinite(report->before))
        return fail(why, "the objective is not finite: parameters of the scene overflow");
    const size_t images = (size_t)report->images;
    device_gaussians_copy(&s->vectors[PRODUCT], s->gaussians);
    const double values = values_in(s, (probe){0, 1, images});
    const double slope = -2 * s->resident_model[0] / values, bend = s->resident_model[1] / values;
    const double stride = 1 / s->settings->search_share;
    const size_t some_first = (double)images >= 3 * stride ? (size_t)report->step % (size_t)stride : 0;
    const probe some = {some_first, stride, images};
    const double gamma = search_gamma(s, some, slope);
    report->after = arrive(s, gamma, images, report);
    const double predicted = -slope * gamma - bend * gamma * gamma;
    report->gamma = gamma;
    report->damping = s->damping;
    report->gain = predicted > 0 ? (report->before - report->after) / predicted : -1;
    report->kept = report->gain > s->settings->least_gain;
    if (!report->kept) {
        move_to(s, 0);
        s->ready = 0;
    }
    s->damping *= damping_factor(s->settings, report);
    const lm_settings *const o = s->settings;
    s->damping =
        fmin(fmax(s->damping, fmin(o->least_damping, o->damping)), fmax(o->most_damping, o->damping));
    lm_clock_stop(&s->clock);
    DEVICE_CHECK(cudaDeviceSynchronize());
    report->bytes = s->most_bytes;
    memcpy(report->milliseconds, s->clock.milliseconds, sizeof report->milliseconds);
    return true;
}

bool finish_lm(const gs_gaussians *gaussians, const target_view *views, size_t view_count,
               const lm_settings *settings, bool (*observe)(void *context, const lm_step *step, fault *why),
               void *context, fault *why) {
    if (gaussians->antialias) return fail(why, "Levenberg-Marquardt does not take antialiased scenes");
    solver s = {.gaussians = gaussians, .views = views, .view_count = view_count, .settings = settings};
    progress bar;
    progress_begin(&bar, "Levenberg-Marquardt", settings->steps);
    const double opening = seconds_now();
    bool done = solver_open(&s, why);
    double spent = seconds_now() - opening;
    for (int64_t step = 1; done && step <= settings->steps; step++) {
        lm_step report = {.step = step};
        const double started = seconds_now();
        done = lm_step_once(&s, &report, why);
        spent += seconds_now() - started;
        report.seconds = spent;
        if (done && progress_due(&bar)) progress_show(&bar, step, report.after);
        done = done && observe(context, &report, why);
    }
    progress_end(&bar);
    solver_close(&s);
    return done;
}
