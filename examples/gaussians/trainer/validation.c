// SPDX-License-Identifier: MIT
// Early stop: validation views end training where it only learns noise.
#include "trainer.h"
#include <math.h>
#include <string.h>

// ---- the curve

// In logarithms: what training must gain between two measurements that are compared, so that the validation views could
// show it: a decibel; and the part of it that they must gain too: 0.1 was judgement, with which one of three runs of
// statue went past its peak.
static const double least_gain = 0.12, least_part = 0.15;
// And what the validation views must be worse by, so that noise can be what keeps them: while rates are high they gain
// little on any scene. bonsai had at most 0.16 in three quarters of 70,000 views, beer and statue 0.31 when they ended.
static const double least_apart = 0.2;

void learning_see(learning_curve *curve, double loss) {
    curve->sum += loss;
    curve->seen++;
}

void learning_note(learning_curve *curve, int phase, double validation) {
    const double trained = curve->sum / (double)curve->seen;
    curve->sum = 0, curve->seen = 0;
    if (curve->phase != phase) *curve = (learning_curve){.phase = phase};
    if (curve->count == LEARNING_MOST) {
        curve->count /= 2;
        for (int32_t i = 0; i < curve->count; i++)
            curve->trained[i] = curve->trained[2 * i + 1],
            curve->validation[i] = curve->validation[2 * i + 1];
    }
    curve->trained[curve->count] = (float)log(fmax(trained, 1e-30));
    curve->validation[curve->count++] = (float)log(fmax(validation, 1e-30));
}

bool learning_is_over(const learning_curve *curve) {
    const int32_t last = curve->count - 1;
    if (last < 0 || (double)curve->validation[last] - (double)curve->trained[last] < least_apart)
        return false;
    double least = INFINITY;
    for (int32_t from = last; from >= 0; from--) {
        const double gain = curve->trained[from] - curve->trained[last];
        if (from < last - 1 && gain >= least_gain && curve->validation[from] - least < least_part * gain)
            return true;
        least = fmin(least, curve->validation[from]);
    }
    return false;
}

bool learning_curve_is_possible(const learning_curve *curve) {
    if (curve->count < 0 || curve->count > LEARNING_MOST || curve->seen < 0 || !isfinite(curve->sum))
        return false;
    for (int32_t i = 0; i < curve->count; i++)
        if (!isfinite(curve->trained[i]) || !isfinite(curve->validation[i])) return false;
    return true;
}

// ---- the loss

// Steps of the gains of validation views, whose exposures are no noise that training learns: at first, then.
enum { FIRST_PASSES = 6, PASSES = 2 };

// The mean loss of the validation views, as steps see views now, before a step of their gains. A collective; no losses wait.
static bool validation_loss(trainer *t, int phase, double *loss) {
    const run_place *const place = &t->state->place;
    const int64_t batch = trainer_batch(t->settings, phase);
    step_result results[GS_MAX_VIEWS];
    stage_clock *const clock = t->one.f.clock;
    const gs_view *view;
    const float *mean2d;
    size_t next = 0, count = 0;
    *loss = 0;
    while (next < t->source.count) {
        step_views of = {.only_loss = true,
                         .first = place->views,
                         .at = schedule_step(place),
                         .sh_degree = scheduled_sh_degree(t->settings, t->state->gaussians.sh_degree,
                                                          schedule_step(place))};
        memcpy(of.background, t->settings->background, sizeof of.background);
        if (t->pictures) picture_cache_next_step(t->pictures);
        for (; next < t->source.count && of.count < batch; next++)
            if (t->source.views[next].validates) trainer_add_view(t, phase, next, &of);
        if (of.count == 0) break;
        t->one.f.clock = NULL;
        const bool done = t->way->gradient(t, &of, &view, &mean2d);
        t->one.f.clock = clock;
        if (!done || !trainer_take_results(t, of.count, results)) return false;
        for (int32_t v = 0; v < of.count; v++) *loss += trainer_loss(&results[v], &t->weights[v]);
        count += (size_t)of.count;
    }
    *loss /= (double)count;
    return true;
}

bool validation_is_due(const trainer *t) {
    const run_place *const place = &t->state->place;
    const int64_t every = t->settings->validate_every;
    // Just before Gaussians are retired, which for a while costs both sides.
    return t->report.validating && place->ended == 0 && every > 0 &&
           training_passed(place->at + every / 10, place->at - place->before, every);
}

bool validation_look(trainer *t, int phase) {
    training_state *const state = t->state;
    run_place *const place = &state->place;
    double loss;
    if (place->at <= t->settings->validate_every) {
        state->learning.sum = 0, state->learning.seen = 0; // of the first steps
        return true;
    }
    const int passes = state->exposures == 0 ? 1 : state->learning.count == 0 ? FIRST_PASSES : PASSES;
    for (int i = 0; i < passes; i++)
        if (!validation_loss(t, phase, &loss)) return false;
    learning_note(&state->learning, phase, loss);
    if (learning_is_over(&state->learning)) place->ended = place->views;
    return true;
}
