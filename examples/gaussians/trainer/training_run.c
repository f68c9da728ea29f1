// SPDX-License-Identifier: MIT
// A training run: steps until its end, with an observer, a line of progress, and a time or a signal that ends it.
#include "trainer_parts.h"
#include "device.h"
#include "cli/progress.h"
#include <math.h>

enum { LOOK_EVERY = 10 }; // steps between looks at whether a rank wants to end

// The time it takes is not training's.
static bool look_on(trainer *t, const training_observer *observer, progress *bar) {
    fault why;
    if (!trainer_report(t)) return false;
    const double began = seconds_now(), from = trainer_now(t);
    if (!observer->observe(observer->context, t->state, &t->report, &why))
        return ranks_fail_with(t->group, &why);
    if (!trainer_look_at_clock(t)) return false;
    t->started += trainer_now(t) - from;
    bar->started += seconds_now() - began;
    return true;
}

typedef enum ending { GOES_ON, OUT_OF_TIME, STOPPED } ending;

// What the rank that wants the most wants. Several ranks ask each other now and then.
static bool agree_to_end(trainer *t, const training_observer *observer, const progress *bar, int64_t *how) {
    const double limit = t->settings->seconds;
    const int64_t wants = observer && observer->end && *observer->end          ? STOPPED
                          : limit > 0 && seconds_now() - bar->started >= limit ? OUT_OF_TIME
                                                                               : GOES_ON;
    int64_t of_all[RANKS_MAX];
    *how = ranks_count(t->group) > 1 ? GOES_ON : wants;
    if (ranks_count(t->group) == 1 || t->state->steps % LOOK_EVERY != 0) return true;
    if (!ranks_tell_all(t->group, wants, of_all, NULL)) return false;
    for (int r = 0; r < ranks_count(t->group); r++) *how = of_all[r] > *how ? of_all[r] : *how;
    return true;
}

// The loss of the last view on one rank; on several the last loss that all have.
static double shown_loss(const trainer *t) {
    const training_report *const report = &t->report;
    double loss = NAN;
    if (ranks_count(t->group) == 1 && t->waiting > 0)
        device_download(&loss, t->results[t->waiting - 1].color, sizeof loss);
    else if (report->iterations >= report->first_iteration)
        loss = report->losses[report->iterations - report->first_iteration];
    return loss;
}

static void show(trainer *t, progress *bar) {
    if (!t->settings->name || ranks_own(t->group) != 0 || !progress_due(bar)) return;
    bar->total = t->settings->iterations;
    bar->ahead = density_time_ahead(&t->settings->density, t->settings->iterations,
                                    training_state_count(t->state), t->state->schedule.at);
    const bool lessons = t->state->lessons.wanted > 0;
    progress_show(bar, lessons ? t->state->iteration : t->state->schedule.at, shown_loss(t));
}

static bool train_all(trainer *t, const training_observer *observer) {
    const training_settings *settings = t->settings;
    training_state *const state = t->state;
    progress bar;
    progress_begin(&bar, settings->name, settings->iterations);
    bar.before = state->schedule.at;
    bar.time_limit = settings->budget ? settings->budget->seconds - t->before : settings->seconds;
    int64_t how =
        observer && observer->end && *observer->end && ranks_count(t->group) == 1 ? STOPPED : GOES_ON;
    bool good = true, warned = false, last = trainer_is_over(t);
    if (last && how != STOPPED) parameter_average_take(&state->average, &state->gaussians);
    while (!last && good) {
        good = trainer_step(t) && trainer_look_at_clock(t) && agree_to_end(t, observer, &bar, &how);
        if (!good) break;
        last = trainer_is_over(t) || how != GOES_ON;
        t->report.stopped = how == STOPPED;
        // Unless a signal ends training: then it will go on.
        if (last && how != STOPPED) parameter_average_take(&state->average, &state->gaussians);
        show(t, &bar);
        if (t->report.warning[0] && !warned && observer && observer->warn) {
            progress_end(&bar);
            observer->warn(observer->context, t->report.warning);
            warned = true;
        }
        if (observer && observer->observe &&
            (last || training_passed(state->iteration, t->report.step_views, observer->interval) ||
             (observer->wants && observer->wants(observer->context))))
            good = look_on(t, observer, &bar);
    }
    if (good) good = ranks_wait(t->group, NULL) && trainer_agrees(t);
    progress_end(&bar);
    return good;
}

bool train_on(picture_cache *pictures, training_state *state, const target_view *views, size_t view_count,
              const training_settings *settings, const training_observer *observer, training_report *report,
              fault *why) {
    trainer *const t = trainer_open(pictures, state, views, view_count, settings, why);
    if (!t) return false;
    const bool done = train_all(t, observer) && trainer_report(t);
    if (done) {
        stage_clock_close(&t->report.clock);
        *report = t->report;
        t->report = (training_report){0};
    }
    trainer_close(t);
    return done || fail(why, "%s", ranks_error(state->group));
}

bool train(training_state *state, const target_view *views, size_t view_count,
           const training_settings *settings, const training_observer *observer, training_report *report,
           fault *why) {
    return train_on(NULL, state, views, view_count, settings, observer, report, why);
}
