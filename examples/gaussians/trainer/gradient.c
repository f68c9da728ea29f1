// SPDX-License-Identifier: MIT
#include "trainer.h"
#include "cli/progress.h"
#include <math.h>
#include <stdlib.h>

// ---- terms of the loss (LOSS_TERMS): whether a view has it; what frame_loss compares the v-th view with, and where the
// result is written, at t->waiting + view

static bool has_depth(const target_view *view) {
    return view->depth || view->depth_on_host;
}

static void add_depth(trainer *t, const step_views *of, int32_t v, gs_loss_image *to) {
    if (!t->rendered.with_depth) return;
    to->depth_target = of->view[v]->depth;
    to->depth_result = &t->results[t->waiting + v].term[TERM_depth];
    to->depth_weight = (float)t->weights[t->waiting + v][TERM_depth];
}

static const struct {
    double part;
    bool (*has)(const target_view *view);
    void (*add)(trainer *t, const step_views *of, int32_t v, gs_loss_image *to);
} terms[] = {
#define ROW(name, first, part, unit, has, add) {part, has, add},
    LOSS_TERMS(ROW)
#undef ROW
};

// ---- what all ways to a gradient read: the Gaussians and the pictures of a step

const uint8_t *trainer_target(trainer *t, const step_views *of, int32_t v, const target_view *view) {
    if (!t->settings->random_background || !view->alpha) return view->pixels;
    const int32_t width = view->camera.width, height = view->camera.height;
    const size_t bytes = GS_CHANNELS * (size_t)width * (size_t)height;
    uint8_t *const target =
        (uint8_t *)device_buffer_reserve(&t->target, (size_t)of->count * bytes) + (size_t)v * bytes;
    float change[3];
    for (int c = 0; c < 3; c++) change[c] = of->background[c] - t->settings->background[c];
    GS_CHECK(gs_backdrop(view->pixels, view->alpha, width, height, change, target, NULL));
    return target;
}

gs_gaussians trainer_gaussians(trainer *t, const step_views *of) {
    gs_gaussians out = t->state->gaussians;
    const double share = t->settings->dropout * progress_at(t->settings, of->at);
    if (share <= 0) return out;
    out.opacity_logit = device_buffer_reserve(&t->logits, (size_t)out.count * sizeof(float));
    GS_CHECK(gs_dropout(&t->state->gaussians, t->state->first, (float)share, (uint64_t)t->settings->seed,
                        (uint64_t)of->first, out.opacity_logit, NULL));
    return out;
}

bool trainer_weigh(trainer *t, const step_views *of) {
    const training_settings *const s = t->settings;
    bool with_depth = false;
    for (int32_t v = 0; v < of->count; v++) {
        double *const weights = t->weights[t->waiting + v];
        for (int k = 0; k < LOSS_TERM_COUNT; k++) {
            const bool has = terms[k].has(&t->source.views[of->index[v]]) && !of->taught[v];
            const double part = s->weights_left > 0 ? s->weights_left : terms[k].part;
            weights[k] = has ? scheduled_weight(s, s->weights[k], part, of->at) : 0;
        }
        with_depth |= weights[TERM_depth] > 0;
    }
    return with_depth;
}

int64_t trainer_batch(const training_settings *settings, bool small) {
    const int64_t own = small ? settings->resolutions.batch : 0;
    return own > 0 ? own : settings->batch > 0 ? settings->batch : 1;
}

// ---- the gains that correct photographs of different exposure and white balance (docs/developers/math.md, section 5)

// Of the pull of a logarithm of a gain to 0, beside the balance of its pixels, -1 to 1.
static const float gain_prior = 0.5f;
// Gains are known once every view was drawn ROUNDS times and LEAST_VIEWS were in all, at the latest after this part of
// the schedule.
enum { ROUNDS = 12, LEAST_VIEWS = 1000 };
static const double gains_known = 0.2;
// Neighbours are alike where F, the variance between groups by that within, is over the first number, and chance would
// make it so large as seldom as a normal variable exceeds its mean by the second number of deviations. F of gains that are
// independent is 1.
static const double least_alike = 2, least_sure = 1.5;
// The rate of a validation view: it steps only when it is measured.
static const float validation_rate = 0.05f;
// Gains that deviate by less do not pay: below it PSNR stayed within 0.1 dB or fell, above it rose by 0.3 to 3 dB.
static const double least_spread = 0.02;

bool exposures_open(trainer *t, fault *why) {
    const size_t views = t->source.count;
    if (t->state->exposures == 0) return true;
    t->log_gains = malloc(views * sizeof *t->log_gains);
    for (int i = 0; i < 2; i++) {
        t->near[i] = malloc(views * sizeof *t->near[i]);
        t->near_of[i] = malloc(views * sizeof *t->near_of[i]);
        if (!t->log_gains || !t->near[i] || !t->near_of[i])
            return fail(why, "no memory for %zu views", views);
        if (!neighbours_choose(t->source.views, views, i == 1, t->near[i], t->near_of[i], why)) return false;
    }
    t->grouping = t->state->exposed == EXPOSURE_IN_ORDER;
    t->near_device = device_allocate(views * sizeof *t->near_device);
    device_upload(t->near_device, t->near[t->grouping], views * sizeof *t->near_device);
    return true;
}

void exposures_close(trainer *t) {
    device_free(t->near_device);
    for (int i = 0; i < 2; i++) free(t->near[i]), free(t->near_of[i]);
    free(t->log_gains);
}

static int64_t views_in_use(const trainer *t) {
    return (int64_t)(t->source.trained_order.count > 0 ? t->source.trained_order.count : t->source.count);
}

typedef struct gain_spread {
    double alike;       // how sure it is that neighbours are, in normal deviations; 0: they are not
    double all, within; // deviations of all, and within groups
} gain_spread;

// f: the statistic of a one-way analysis of variance (Fisher 1925), of all channels together; the approximation of Paulson
// (1942), by the degrees of freedom of one channel, as channels go together.
static double sureness(double f, double free_between, double free_within) {
    const double a = 2 / (9 * free_between), b = 2 / (9 * free_within), root = cbrt(f);
    return f > least_alike ? ((1 - b) * root - (1 - a)) / sqrt(b * root * root + a) : 0;
}

// The mean of all gains is 0. take: takes from the gains what neighbours have in the mean.
static gain_spread measure_spread(const trainer *t, int grouping, bool take) {
    const int64_t views = views_in_use(t);
    double between = 0, within = 0;
    int64_t groups = 0;
    for (int64_t first = 0, count; first < views; first += count, groups++) {
        const int32_t *const near = t->near[grouping] + first;
        count = t->near_of[grouping][near[0]].count;
        for (int k = 0; k < GS_EXPOSURE_VALUES; k++) {
            double mean = 0;
            for (int64_t i = 0; i < count; i++) mean += (double)t->log_gains[near[i]][k];
            mean /= (double)count;
            between += (double)count * mean * mean;
            for (int64_t i = 0; i < count; i++) {
                float *const gain = &t->log_gains[near[i]][k];
                within += pow((double)*gain - mean, 2);
                if (take) *gain -= (float)mean;
            }
        }
    }
    const double free_within = (double)(views - groups), free_between = (double)(groups - 1);
    gain_spread out = {.all = sqrt((between + within) / (double)(GS_EXPOSURE_VALUES * views))};
    if (groups == views) return out;
    out.within = sqrt(within / (GS_EXPOSURE_VALUES * free_within));
    const double f = between / free_between * free_within / fmax(within, 1e-30);
    if (groups > 1) out.alike = sureness(f, free_between, free_within);
    return out;
}

void exposures_settle(trainer *t) {
    training_state *const state = t->state;
    const run_place *const place = &state->place;
    const int64_t rounds = ROUNDS * views_in_use(t), every = rounds > LEAST_VIEWS ? rounds : LEAST_VIEWS;
    const bool first = state->exposed == EXPOSURE_FIRST,
               now = first ? place->views >= every || progress_at(t->settings, place->at + 1) >= gains_known
                           : training_passed(place->at, place->at - place->before, every);
    if (state->exposures == 0 || !now) return;
    device_download(t->log_gains, state->exposure, (size_t)state->exposures * sizeof *t->log_gains);
    gain_spread spread = measure_spread(t, t->grouping, false);
    if (first) {
        const gain_spread in_order = measure_spread(t, 1, false);
        state->exposed = spread.alike > least_sure ? EXPOSURE_NEIGHBOURS : EXPOSURE_TOGETHER;
        if (in_order.alike > fmax(spread.alike, least_sure)) {
            state->exposed = EXPOSURE_IN_ORDER, spread = in_order;
            t->grouping = 1;
        }
    }
    const bool together = state->exposed == EXPOSURE_TOGETHER;
    if ((together ? spread.all : spread.within) < least_spread) {
        device_free(state->exposure);
        state->exposure = NULL, state->exposures = 0; // colours are not corrected any more
        state->learning.count = 0;                    // validation views had gains too
    } else if (first && !together) {
        measure_spread(t, t->grouping, true);
        device_upload(state->exposure, t->log_gains, (size_t)state->exposures * sizeof *t->log_gains);
        device_upload(t->near_device, t->near[t->grouping], t->source.count * sizeof *t->near_device);
    }
}

gs_status exposures_step(trainer *t, const step_views *of, int32_t v, const float *sums) {
    const neighbours *const near = &t->near_of[t->grouping][of->index[v]];
    gs_exposure_group group = {t->near_device + near->first, near->count, near->place};
    const bool together = t->state->exposed == EXPOSURE_FIRST || t->state->exposed == EXPOSURE_TOGETHER;
    if (together && group.count > 1)
        group = (gs_exposure_group){t->near_device, views_in_use(t), near->first + near->place};
    const bool validates = t->report.validating && t->source.views[of->index[v]].validates;
    const float rate =
        validates ? validation_rate
                  : t->settings->exposure_rate * (float)pow(0.01, progress_at(t->settings, of->at + v));
    return gs_exposure_step(t->state->exposure, &group, sums, rate, gain_prior, NULL);
}

// ---- one rank

// The gradient of a step where one rank has all Gaussians and pictures: all views go through each stage in one launch, but with
// DISTWAR_FIXED from the lists to the backward blend one after another.

// Queues the picture, the loss and, unless it is all that is wanted, the backward blend of some of the views.
static bool queue_views(trainer *t, const step_views *of, int32_t first, int32_t count) {
    frame *const f = &t->rendered;
    strategy_tuner *const tuner = &t->tuner;
    gs_loss_image images[GS_MAX_VIEWS];
    double began;
    bool settled;
    do { // again while the lists have no room
        frame_draw(f, first, count, of->background);
        for (int32_t v = first; v < first + count; v++) {
            gs_loss_image *const image = &images[v - first];
            *image = (gs_loss_image){
                .images = {.target = trainer_target(t, of, v, of->view[v]), .mask = of->view[v]->mask},
                .result = t->results[t->waiting + v].color,
                .log_gain = of->exposure[v],
                .gain_sums = (float *)t->exposure_sums.memory + v * GS_EXPOSURE_SUMS};
            for (int k = 0; k < LOSS_TERM_COUNT; k++) terms[k].add(t, of, v, image);
        }
        frame_loss(f, images, true);
        began = seconds_now();
        // The device waits for other ranks too, which may be gone.
        if (ranks_count(t->group) > 1 && !ranks_wait(t->group, t->watch)) return false;
        settled = frame_settle(f);
        t->report.waited += seconds_now() - began;
    } while (!settled);
    stage_clock_mark(f->clock, STAGE_LOSS);
    if (of->only_loss) return true;
    strategy_tuner_begin(tuner);
    f->screen = of->screen;
    frame_render_backward(f, tuner->policy);
    strategy_tuner_end(tuner, (double)f->view.ranges.isects);
    return true;
}

bool frame_gradient_of(trainer *t, const step_views *of, int32_t first, int32_t count,
                       bool (*exchange)(trainer *t, const step_views *of, float *gain_sums),
                       const gs_view **view, const float **mean2d) {
    frame *const f = &t->rendered;
    const gs_gaussians gaussians = trainer_gaussians(t, of);
    const int32_t together = t->one_by_one ? 1 : count;
    const size_t sums_bytes = GS_MAX_VIEWS * GS_EXPOSURE_SUMS * sizeof(float);
    float *const sums = device_buffer_reserve(&t->exposure_sums, sums_bytes);
    if (exchange) DEVICE_CHECK(cudaMemsetAsync(sums, 0, sums_bytes, NULL)); // of the views of others
    f->with_depth = trainer_weigh(t, of);
    frame_project(f, &gaussians, of->sh_degree, of->camera, of->count);
    for (int32_t v = first; v < first + count; v += together)
        if (!queue_views(t, of, v, together)) return false;
    if (exchange && !exchange(t, of, sums)) return false;
    for (int32_t v = 0; v < of->count; v++) // after the sums of all views: a step moves the gains of others
        if (of->exposure[v]) GS_CHECK(exposures_step(t, of, v, sums + v * GS_EXPOSURE_SUMS));
    if (of->only_loss) return true;
    f->screen = of->screen;
    frame_project_backward(f, &t->state->gradients, of->pose_step > 0, of->adam);
    *view = &f->all;
    *mean2d = f->screen == SCREEN_ABSOLUTE ? f->gradient.abs_mean2d : f->gradient.mean2d;
    return true;
}

static bool gradient_alone(trainer *t, const step_views *of, const gs_view **view, const float **mean2d) {
    return frame_gradient_of(t, of, 0, of->count, NULL, view, mean2d);
}

const training_way alone_way = {.frames = true, .gradient = gradient_alone, .scores = trainer_scores};
