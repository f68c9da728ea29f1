// SPDX-License-Identifier: MIT
// The gains that correct photographs of different exposure and white balance (docs/developers/math.md, section 5).
#include "trainer_parts.h"
#include <math.h>
#include <stdlib.h>

// Of the pull of a logarithm of a gain to 0, beside the balance of its pixels, -1 to 1.
static const float prior = 0.5f;
// Gains are known once every view was drawn ROUNDS times and LEAST_VIEWS were in all, at the latest after this part of
// the schedule.
enum { ROUNDS = 12, LEAST_VIEWS = 1000 };
static const double part = 0.2;
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
    if (!t->log_gains) return fail(why, "no memory for %zu views", views);
    for (int i = 0; i < EXPOSURE_GROUPINGS; i++) {
        exposure_grouping *const g = &t->groupings[i];
        g->near = malloc(views * sizeof *g->near);
        g->of = malloc(views * sizeof *g->of);
        if (!g->near || !g->of) return fail(why, "no memory for %zu views", views);
        if (!neighbours_choose(t->source.views, views, i == 1, g->near, g->of, why)) return false;
    }
    t->grouping = &t->groupings[t->state->exposed == EXPOSURE_IN_ORDER];
    t->near_device = device_allocate(views * sizeof *t->grouping->near);
    device_upload(t->near_device, t->grouping->near, views * sizeof *t->grouping->near);
    return true;
}

void exposures_close(trainer *t) {
    device_free(t->near_device);
    for (int i = 0; i < EXPOSURE_GROUPINGS; i++) free(t->groupings[i].near), free(t->groupings[i].of);
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
static gain_spread measure_spread(const trainer *t, const exposure_grouping *by, bool take) {
    const int64_t views = views_in_use(t);
    double between = 0, within = 0;
    int64_t groups = 0;
    for (int64_t first = 0, count; first < views; first += count, groups++) {
        const int32_t *const near = by->near + first;
        count = by->of[near[0]].count;
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
               now = first ? place->views >= every || progress_at(t->settings, place->at + 1) >= part
                           : training_passed(place->at, place->at - place->before, every);
    if (state->exposures == 0 || !now) return;
    device_download(t->log_gains, state->exposure, (size_t)state->exposures * sizeof *t->log_gains);
    gain_spread spread = measure_spread(t, t->grouping, false);
    if (first) {
        const gain_spread in_order = measure_spread(t, &t->groupings[1], false);
        state->exposed = spread.alike > least_sure ? EXPOSURE_NEIGHBOURS : EXPOSURE_TOGETHER;
        if (in_order.alike > fmax(spread.alike, least_sure)) {
            state->exposed = EXPOSURE_IN_ORDER, spread = in_order;
            t->grouping = &t->groupings[1];
        }
    }
    const bool together = state->exposed == EXPOSURE_TOGETHER;
    if ((together ? spread.all : spread.within) < least_spread) {
        training_state_close_exposures(state);
        state->learning.count = 0; // validation views had gains too
    } else if (first && !together) {
        const size_t count = (size_t)state->exposures;
        measure_spread(t, t->grouping, true);
        device_upload(state->exposure, t->log_gains, count * sizeof *t->log_gains);
        device_upload(t->near_device, t->grouping->near, count * sizeof *t->grouping->near);
    }
}

gs_status exposures_step(trainer *t, const step_views *of, int32_t v, const float *sums) {
    const neighbours *const near = &t->grouping->of[of->index[v]];
    gs_exposure_group group = {t->near_device + near->first, near->count, near->place};
    const bool together = t->state->exposed == EXPOSURE_FIRST || t->state->exposed == EXPOSURE_TOGETHER;
    if (together && group.count > 1)
        group = (gs_exposure_group){t->near_device, views_in_use(t), near->first + near->place};
    const bool validates = t->report.validating && t->source.views[of->index[v]].validates;
    const float rate = validates ? validation_rate : scheduled_exposure_rate(t->settings, of->at + v);
    return gs_exposure_step(t->state->exposure, &group, sums, rate, prior, NULL);
}
