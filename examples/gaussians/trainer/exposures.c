// SPDX-License-Identifier: MIT
// The gains that correct photographs of different exposure and white balance (docs/developers/math.md, section 5).
#include "trainer_parts.h"
#include "device.h"
#include <stdlib.h>

// Of the pull of a logarithm of a gain to 0, beside the balance of its pixels, -1 to 1.
static const float prior = 0.5f;
// Gains are known after so many rounds of the views, or so much of the schedule.
enum { ROUNDS = 12 };
static const double part = 0.2;
// Variance between groups of neighbours by that within, 1 if they know nothing of each other.
static const double most_alike = 2;

bool exposures_open(trainer *t, fault *why) {
    const size_t views = t->order.count;
    if (t->state->exposures == 0) return true;
    t->near = malloc(views * sizeof *t->near);
    t->neighbours = malloc(views * sizeof *t->neighbours);
    t->log_gains = malloc(views * sizeof *t->log_gains);
    if (!t->near || !t->neighbours || !t->log_gains) return fail(why, "no memory for %zu views", views);
    if (!neighbours_choose(t->views, views, t->near, t->neighbours, why)) return false;
    t->near_device = device_allocate(views * sizeof *t->near);
    device_upload(t->near_device, t->near, views * sizeof *t->near);
    return true;
}

void exposures_close(trainer *t) {
    device_free(t->near_device);
    free(t->near);
    free(t->log_gains);
    free(t->neighbours);
}

static int64_t views_in_use(const trainer *t) {
    return (int64_t)(t->used_order.count > 0 ? t->used_order.count : t->order.count);
}

// Takes from the gains of views, whose mean is 0, what neighbours have in the mean. Returns the F statistic of a one-way
// analysis of variance (Fisher 1925), of all channels together.
static double take_neighbours(const trainer *t, float (*log_gains)[GS_EXPOSURE_VALUES]) {
    const int64_t views = views_in_use(t);
    double between = 0, within = 0;
    int64_t groups = 0;
    for (int64_t first = 0, count; first < views; first += count, groups++) {
        const int32_t *const near = t->near + first;
        count = t->neighbours[near[0]].count;
        for (int k = 0; k < GS_EXPOSURE_VALUES; k++) {
            double mean = 0;
            for (int64_t i = 0; i < count; i++) mean += (double)log_gains[near[i]][k] / (double)count;
            between += (double)count * mean * mean;
            for (int64_t i = 0; i < count; i++) {
                const double rest = (double)log_gains[near[i]][k] - mean;
                within += rest * rest;
                log_gains[near[i]][k] = (float)rest;
            }
        }
    }
    return groups < 2 ? 0 : between / (double)(groups - 1) * (double)(views - groups) / within;
}

void exposures_settle(trainer *t) {
    training_state *const state = t->state;
    if (state->exposures == 0 || state->exposed != EXPOSURE_FIRST ||
        (state->iteration < ROUNDS * views_in_use(t) &&
         progress_at(t->settings, state->schedule.at + 1) < part))
        return;
    const size_t bytes = (size_t)state->exposures * sizeof *t->log_gains;
    device_download(t->log_gains, state->exposure, bytes);
    const bool alike = take_neighbours(t, t->log_gains) > most_alike;
    state->exposed = alike ? EXPOSURE_NEIGHBOURS : EXPOSURE_TOGETHER;
    if (alike) device_upload(state->exposure, t->log_gains, bytes);
}

gs_status exposures_step(trainer *t, const step_views *of, int32_t v, const float *sums) {
    const neighbours *const near = &t->neighbours[of->index[v]];
    gs_exposure_group group = {t->near_device + near->first, near->count, near->place};
    if (t->state->exposed != EXPOSURE_NEIGHBOURS && group.count > 1)
        group = (gs_exposure_group){t->near_device, views_in_use(t), near->first + near->place};
    return gs_exposure_step(t->state->exposure, &group, sums,
                            scheduled_exposure_rate(t->settings, of->at + v), prior, NULL);
}
