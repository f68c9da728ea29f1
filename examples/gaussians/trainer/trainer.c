// SPDX-License-Identifier: MIT
#include "trainer.h"
#include "cli/progress.h"
#include "files/growing.h"
#include "random.h"
#include "arrays.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- time

// Looks at the clock that training goes by: under a budget all ranks go by rank 0's. A collective.
static bool look_at_clock(trainer *t) {
    int64_t own, of_all[RANKS_MAX];
    t->clock = t->settings->now ? t->settings->now(t->settings->context) : seconds_now();
    if (ranks_count(t->group) == 1 || t->settings->budget <= 0) return true;
    memcpy(&own, &t->clock, sizeof own);
    if (!ranks_tell_all(t->group, own, of_all, NULL)) return false;
    memcpy(&t->clock, &of_all[0], sizeof t->clock);
    return true;
}

// Of training so far, when the clock was looked at last.
static double seconds_of(const trainer *t) {
    return t->before + t->clock - t->started;
}

// Room for so many losses; for none there is an array too.
static bool reserve_losses(trainer *t, int64_t steps, fault *why) {
    return make_room(&t->report.losses, &t->room, (size_t)fmax((double)steps, 0) + 1, sizeof(double)) ||
           fail(why, "no memory for the losses of %lld iterations", (long long)steps);
}

// Retires Gaussians if that is due; under a budget not where this time and the later ones would take over a quarter of the time
// left. small: scores by small views.
static bool retire(trainer *t, bool small) {
    const training_settings *settings = t->settings;
    const run_place *const place = &t->state->place;
    pace *const p = &t->pace;
    if (!retirement_is_due(&settings->density, place->before, place->at) ||
        (settings->budget > 0 && 4 * p->between * (double)p->between_left > p->budget - p->last))
        return true;
    const bool some = t->report.validating;
    const scored_views by = {.views = view_source_at(&t->source, small),
                             .index = some ? t->source.trained : NULL,
                             .count = some ? t->source.trained_order.count : t->source.count,
                             .batch = trainer_batch(settings, small)};
    if (settings->budget > 0) DEVICE_CHECK(cudaDeviceSynchronize()); // the step's own time
    if (!look_at_clock(t)) return false;
    const double began = t->clock;
    const size_t bytes = (size_t)training_state_count(t->state) * sizeof(float);
    float *const score = device_buffer_reserve(&t->retirement.score, bytes);
    device_clear(score, bytes);
    if (!t->way->scores(t, &by, score) || !retirement_end(t, score, settings->density.retired) ||
        !look_at_clock(t))
        return false;
    p->between = t->clock - began;
    return true;
}

// Before the first step, and after each: sets whether a step is left. If not, the average replaces the parameters.
static bool settle_end(trainer *t) {
    pace then = t->pace;
    if (!look_at_clock(t)) return false;
    if (t->settings->budget > 0) pace_note(&then, seconds_of(t));
    t->over = place_is_over(&t->state->place, t->settings, &then);
    if (t->over) parameter_average_take(&t->state->average, &t->state->gaussians);
    return true;
}

// With --check-finite: fails where the call `by` has written a number that is not finite. Waits for the device.
static bool are_finite(trainer *t, const char *by, const gs_gaussians *vectors) {
    static const char *const names[GS_ARRAYS] = {"mean of Gaussian", "log scales of Gaussian",
                                                 "quaternion of Gaussian", "opacity logit of Gaussian",
                                                 "SH coefficients of Gaussian"};
    float values[8192];
    const int64_t most = sizeof values / sizeof *values;
    const gs_arrays arrays = gs_arrays_of(vectors);
    for (int a = 0; a < GS_ARRAYS && t->settings->check_finite; a++) {
        const int64_t width = arrays.width[a], all = vectors->count * width;
        for (int64_t first = 0, count; first < all; first += count) {
            count = all - first < most ? all - first : most;
            device_download(values, arrays.of[a] + first, (size_t)count * sizeof *values);
            for (int64_t k = 0; k < count; k++)
                if (!isfinite(values[k]))
                    return ranks_fail(
                        t->group,
                        "--check-finite: %s made a number that is not finite, in the %s %lld, in "
                        "the step after %lld views; --checkpoint-every keeps the state before it",
                        by, names[a], (long long)((first + k) / width), (long long)t->state->place.views);
        }
    }
    return true;
}

// ---- the report

// The losses of the first `count` waiting views, summed over ranks. A collective; waits for the device.
static bool take_losses(trainer *t, int64_t count, double *losses) {
    step_result results[WAITING + GS_MAX_VIEWS];
    const size_t bytes = (size_t)count * sizeof *results;
    const bool several = ranks_count(t->group) > 1;
    const ranks_reduction sum = {t->results, count * (int64_t)(sizeof *results / sizeof(double)),
                                 RANKS_DOUBLE, RANKS_SUM};
    if (several && !(ranks_all_reduce(t->group, &sum, NULL) && ranks_wait(t->group, NULL))) return false;
    device_download(results, t->results, bytes);
    if (several) device_clear(t->results, bytes);
    for (int64_t i = 0; i < count; i++) {
        const double *const weights = t->weights[i];
        losses[i] = results[i].color[0];
        for (int k = 0; k < LOSS_TERM_COUNT; k++)
            losses[i] += weights[k] > 0 ? weights[k] * results[i].term[k] : 0;
    }
    return true;
}

// Adds the waiting losses to the report, on all ranks.
static bool fetch_losses(trainer *t) {
    double losses[WAITING + GS_MAX_VIEWS];
    training_report *report = &t->report;
    const int64_t known = report->iterations - report->first_iteration + 1;
    fault why;
    if (t->waiting == 0) return true;
    if (!reserve_losses(t, known + t->waiting, &why)) return ranks_fail_with(t->group, &why);
    if (!take_losses(t, t->waiting, losses)) return false;
    for (int64_t i = 0; i < t->waiting; i++) {
        report->losses[++report->iterations - report->first_iteration] = losses[i];
        t->state->learning.sum += losses[i], t->state->learning.seen++;
        if (!isfinite(losses[i]))
            return ranks_fail(t->group, "the loss is not finite at iteration %lld; --check-finite tells why",
                              (long long)report->iterations);
    }
    t->waiting = 0;
    return known > 0 || !t->way->agree ||
           t->way->agree(t); // at first: GPUs of two kinds differ from the start
}

static double mean(const double *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i];
    return count > 0 ? sum / (double)count : NAN;
}

const training_report *trainer_report(trainer *t) {
    training_report *report = &t->report;
    if (!fetch_losses(t) || !look_at_clock(t)) return NULL;
    const int64_t steps = report->iterations - report->first_iteration + 1;
    report->loss_window = (int64_t)fmin(fmin(100, (double)(steps / 10 + 1)), (double)steps);
    report->first_loss = mean(report->losses, report->loss_window);
    report->last_loss = mean(report->losses + steps - report->loss_window, report->loss_window);
    report->seconds = t->clock - t->started;
    if (t->settings->budget > 0) t->state->place.seconds = t->before + report->seconds;
    report->repeats = t->rendered.repeats;
    report->strategy = strategy_tuner_report(&t->tuner);
    return report;
}

// ---- early stop: validation views end training where it only learns noise. The curve

// In logarithms: what training must gain between two measurements that are compared, so that the validation views could
// show it: a decibel; and the part of it that they must gain too: 0.1 was judgement, with which one of three runs of
// statue went past its peak.
static const double least_gain = 0.12, least_part = 0.15;
// And what the validation views must be worse by, so that noise can be what keeps them: while rates are high they gain
// little on any scene. bonsai had at most 0.16 in three quarters of 70,000 views, beer and statue 0.31 when they ended.
static const double least_apart = 0.2;

void learning_note(learning_curve *curve, bool small, double validation) {
    const double trained = curve->sum / (double)curve->seen;
    curve->sum = 0, curve->seen = 0;
    if (curve->small != small) *curve = (learning_curve){.small = small};
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

// Their loss

// Steps of the gains of validation views, whose exposures are no noise that training learns: at first, then.
enum { FIRST_PASSES = 6, PASSES = 2 };

static void add_view(trainer *t, bool small, size_t index, step_views *of) {
    const training_state *const state = t->state;
    const target_view *const views = view_source_at(&t->source, small);
    const int32_t v = of->count++;
    of->index[v] = index;
    of->view[v] =
        t->source.pictures && t->way->frames ? picture_cache_view(t->source.pictures, index) : views + index;
    of->camera[v] = of->view[v]->camera;
    of->exposure[v] = state->exposures > 0 ? state->exposure + GS_EXPOSURE_VALUES * index : NULL;
    if (state->poses > 0) pose_to_camera(&state->pose[index].now, &of->camera[v]);
}

// What the step does with its views: all of it follows from the place.
static void plan_step(const trainer *t, step_views *of) {
    const training_settings *const settings = t->settings;
    random_stream random = random_at((uint64_t)settings->seed, RANDOM_BACKGROUND, (uint64_t)of->first + 1, 0);
    of->at = schedule_step(&t->state->place);
    of->sh_degree = scheduled_sh_degree(settings, t->state->gaussians.sh_degree, of->at);
    of->screen = density_sums_at(&settings->density, of->at);
    for (int c = 0; c < 3; c++)
        of->background[c] =
            settings->random_background ? (float)random_unit(&random) : settings->background[c];
}

// The mean loss of the validation views, as steps see views now, before a step of their gains. A collective; no losses wait.
static bool validation_loss(trainer *t, bool small, double *loss) {
    const run_place *const place = &t->state->place;
    const int64_t batch = trainer_batch(t->settings, small);
    double losses[GS_MAX_VIEWS];
    stage_clock *const clock = t->rendered.clock;
    const gs_view *view;
    const float *mean2d;
    size_t next = 0, count = 0;
    *loss = 0;
    while (next < t->source.count) {
        step_views of = {.only_loss = true, .first = place->views};
        plan_step(t, &of);
        memcpy(of.background, t->settings->background, sizeof of.background);
        if (t->source.pictures) t->source.pictures->now++;
        for (; next < t->source.count && of.count < batch; next++)
            if (t->source.views[next].validates) add_view(t, small, next, &of);
        if (of.count == 0) break;
        t->rendered.clock = NULL;
        const bool done = t->way->gradient(t, &of, &view, &mean2d);
        t->rendered.clock = clock;
        if (!done || !take_losses(t, of.count, losses)) return false;
        for (int32_t v = 0; v < of.count; v++) *loss += losses[v];
        count += (size_t)of.count;
    }
    *loss /= (double)count;
    return true;
}

// Whether the next step trains on validation views, under a budget that begins with a run of the usual length: the last moment
// at which a longer run can be compared with it.
static bool is_last_look(const trainer *t) {
    return t->state->place.first_run > 0 &&
           progress_at(t->settings, t->state->place.at + 1) >= t->settings->validation_until;
}

static bool validation_is_due(const trainer *t) {
    const run_place *const place = &t->state->place;
    const int64_t every = t->settings->validate_every;
    // Just before Gaussians are retired, which for a while costs both sides.
    return t->report.validating && place->ended == 0 && every > 0 &&
           (is_last_look(t) || training_passed(place->at + every / 10, place->at - place->before, every));
}

// Measures the views, and ends training where they gain no more. No losses wait.
static bool validation_look(trainer *t, bool small) {
    training_state *const state = t->state;
    run_place *const place = &state->place;
    double loss;
    if (is_last_look(t)) {
        if (!validation_loss(t, false, &loss)) return false;
        if (place->scene == 0)
            place->validation_loss = loss;
        else if (!(loss < place->validation_loss))
            place->ended = place->views;
        return true;
    }
    if (place->at <= t->settings->validate_every) {
        state->learning.sum = 0, state->learning.seen = 0; // of the first steps
        return true;
    }
    const int passes = state->exposures == 0 ? 1 : state->learning.count == 0 ? FIRST_PASSES : PASSES;
    for (int i = 0; i < passes; i++)
        if (!validation_loss(t, small, &loss)) return false;
    learning_note(&state->learning, small, loss);
    if (learning_is_over(&state->learning)) place->ended = place->views;
    return true;
}

// ---- a step

// Whether the next step leaves out the validation views.
static bool is_validating(const trainer *t) {
    return t->source.trained_order.count > 0 && t->state->place.scenes == 0 &&
           progress_at(t->settings, t->state->place.at + 1) < t->settings->validation_until;
}

static step_views choose_views(trainer *t, bool small) {
    const training_settings *settings = t->settings;
    const training_state *state = t->state;
    const int64_t batch = trainer_batch(settings, small), views = state->place.views,
                  until = resolution_small_until(&settings->resolutions, settings->iterations),
                  left =
                      settings->budget > 0 && !place_goes_by_views(&state->place)
                          ? batch
                          : place_last_view(settings, &state->place, small ? until : settings->iterations) -
                                views;
    const int32_t count = (int32_t)(batch < left ? batch : left);
    const int64_t all = (int64_t)t->source.count, poses_from = (settings->pose.from + all - 1) / all;
    step_views of = {.first = views, .pose_step = state->poses > 0 ? views / all - poses_from + 1 : 0};
    t->report.validating = is_validating(t);
    if (t->source.pictures) t->source.pictures->now++;
    view_source *const s = &t->source;
    for (int64_t i = views; of.count < count; i++)
        add_view(t, small,
                 t->report.validating ? s->trained[view_order_at(&s->trained_order, i)]
                                      : view_order_at(&s->order, i),
                 &of);
    return of;
}

// Waits for the device: the next step may need the pose.
static bool step_pose(trainer *t, const step_views *of) {
    const pose_schedule *schedule = &t->settings->pose;
    const double rate = schedule->rate * pow(schedule->end, progress_at(t->settings, of->at));
    gs_camera_gradient gradient;
    if (!ranks_wait(t->group, NULL)) return false;
    device_download(&gradient, t->rendered.gradient.camera, sizeof gradient);
    refined_pose_step(&t->state->pose[of->index[0]], gradient.se3_grad, rate, of->pose_step);
    return true;
}

// Whether nothing but Adam needs the gradient of a step. Sums that are the same on any number of GPUs are stepped by the
// kernel that several take: nvcc contracts products and sums of the one that does both in another way.
static bool may_step_at_once(const trainer *t, const step_views *of) {
    return t->way->frames && t->settings->policy.strategy != DISTWAR_FIXED && of->pose_step < 1 &&
           !t->settings->check_finite && !density_adds_to_gradient(&t->settings->density, of->at);
}

bool trainer_step(trainer *t) {
    training_state *const state = t->state;
    run_place *const place = &state->place;
    const training_settings *const settings = t->settings;
    stage_clock *const clock = t->rendered.clock;
    // Plan.
    const bool small = place->at + 1 <= resolution_small_until(&settings->resolutions, settings->iterations);
    exposures_settle(t);
    step_views of = choose_views(t, small);
    distillation_choose(t, &of);
    place_advance(place, &t->pace, &t->fitted, of.count, training_state_count(state), seconds_of(t),
                  state->distillation.start.count > 0);
    plan_step(t, &of);
    const gs_adam_rates rates = scheduled_rates(settings, of.at, of.sh_degree, of.count);
    const gs_adam_step adam = {&state->gaussians,     &state->first_moment,
                               &state->second_moment, rates,
                               place->steps + 1,      of.screen == SCREEN_ABSOLUTE ? state->density : NULL};
    if (may_step_at_once(t, &of)) of.adam = &adam;
    const gs_view *view;
    const float *mean2d;
    // Views, gradient.
    distillation_render(t, &of);
    if (clock) stage_clock_start(clock);
    if (!t->way->gradient(t, &of, &view, &mean2d) ||
        !are_finite(t, "the forward and backward pass", &state->gradients))
        return false;
    density_before_adam(t, of.count);
    if (!are_finite(t, "the penalty of density control", &state->gradients)) return false;
    t->waiting += of.count;
    // Step.
    if (!of.adam)
        GS_CHECK(gs_adam(&state->gaussians, &state->gradients, &state->first_moment, &state->second_moment,
                         &rates, adam.step, NULL));
    place->steps = adam.step, t->mean_rate = rates.mean;
    stage_clock_mark(clock, STAGE_ADAM);
    if (!are_finite(t, "gs_adam", &state->gaussians) || !are_finite(t, "gs_adam", &state->first_moment) ||
        !are_finite(t, "gs_adam", &state->second_moment) || (of.pose_step > 0 && !step_pose(t, &of)))
        return false;
    place->views += of.count;
    t->report.step_views = of.count;
    // Density, average.
    density_sum(t, view, mean2d);
    if (!retire(t, small) || !density_after_adam(t)) return false;
    stage_clock_mark(clock, STAGE_DENSITY);
    if (average_is_due(settings, place->before, place->at)) {
        parameter_average *const a = &state->average;
        const gs_gaussians *const now = &state->gaussians;
        if (a->samples == 0) a->average = device_gaussians_open(now->count, now->sh_degree);
        GS_CHECK(gs_average(&a->average, now, ++a->samples, NULL));
    }
    // Observe: losses, whether training is over, which scene is next.
    const bool looks = validation_is_due(t);
    return ((t->waiting < WAITING && !looks) || fetch_losses(t)) && (!looks || validation_look(t, small)) &&
           distillation_next(t) && settle_end(t);
}

// ---- open and close

static bool open_trainer(trainer *t, picture_cache *pictures, const target_view *views, size_t view_count) {
    training_state *const state = t->state;
    const training_settings *const settings = t->settings;
    fault why;
    if (!look_at_clock(t)) return false;
    t->started = t->clock;
    t->report.first_iteration = state->place.views + 1;
    t->report.iterations = state->place.views;
    t->report.strategy.policy = settings->policy;
    if (settings->budget > 0)
        t->before = state->place.seconds, t->pace.budget = settings->budget;
    else
        place_open(&state->place, settings);
    if (!reserve_losses(t, settings->budget > 0 ? WAITING : settings->iterations - state->place.views,
                        &why) ||
        !view_source_open(&t->source, pictures, views, view_count, &settings->resolutions, settings->batch,
                          (uint64_t)settings->seed, settings->validation_until > 0, &why) ||
        !exposures_open(t, &why))
        return ranks_fail_with(t->group, &why);
    // With the pictures of a run from the start: later scenes may have its resolutions again.
    if (settings->budget > 0 && state->place.length > 0) place_fit(&state->place, &t->fitted);
    if (t->source.trained_order.count > 0 && state->poses > 0)
        return ranks_fail(t->group, "refined poses exclude validation views");
    t->report.validating = is_validating(t);
    t->results = device_allocate((WAITING + GS_MAX_VIEWS) * sizeof *t->results);
    device_clear(t->results, (WAITING + GS_MAX_VIEWS) * sizeof *t->results);
    if (!distillation_open(t)) return false;
    static const int thresholds[] = {0, 4, 8, 12, 16, 20, 24, 28};
    const candidate_list candidates =
        settings->tune && t->way->frames
            ? tuner_candidates(blend_strategies, thresholds, sizeof thresholds / sizeof *thresholds)
            : (candidate_list){.count = 1, .rows = {settings->policy}};
    strategy_tuner_open(&t->tuner, &candidates);
    // A launch for several views would round otherwise than views alone do, which ranks render: the blend divides its work
    // by the lists of all views of a launch, and one bound serves all.
    t->one_by_one = !settings->tune && settings->policy.strategy == DISTWAR_FIXED &&
                    resolution_most_views(&settings->resolutions, settings->batch) > 1;
    if (!t->one_by_one && t->way->frames) { // the clock takes each stage of a step once
        stage_clock_open(&t->report.clock);
        t->rendered.clock = &t->report.clock;
    }
    return settle_end(t);
}

void trainer_close(trainer *t) {
    if (!t) return;
    device_buffer *const buffers[] = {
        &t->exposure_sums,     &t->target,           &t->logits, &t->retirement.score,
        &t->retirement.splats, &t->retirement.logits};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) device_buffer_close(buffers[i]);
    strategy_tuner_close(&t->tuner);
    frame_close(&t->rendered);
    distillation_close(t);
    exposures_close(t);
    device_free(t->results);
    view_source_close(&t->source);
    stage_clock_close(&t->report.clock);
    training_report_close(&t->report);
    free(t);
}

trainer *trainer_open(picture_cache *pictures, training_state *state, const target_view *views,
                      size_t view_count, const training_settings *settings, fault *why) {
    trainer *const t = calloc(1, sizeof *t);
    if (t)
        *t = (trainer){.state = state,
                       .group = state->group,
                       .way = state->way,
                       .fitted = *settings,
                       .settings = &t->fitted};
    if (t && open_trainer(t, pictures, views, view_count)) return t;
    fail(why, "%s", t ? ranks_error(state->group) : "no memory for a trainer");
    trainer_close(t);
    return NULL;
}

void training_report_close(training_report *report) {
    free(report->losses);
    report->losses = NULL;
}

// ---- a run: steps until its end, with an observer, a line of progress, and a signal that ends it.

enum { LOOK_EVERY = 10 }; // steps between looks at whether a rank wants to end

// Whether any rank is asked to end training. Several ranks ask each other now and then.
static bool agree_to_stop(trainer *t, const training_observer *observer, bool *stop) {
    const bool wants = observer && observer->end && *observer->end;
    int64_t of_all[RANKS_MAX];
    *stop = ranks_count(t->group) == 1 && wants;
    if (ranks_count(t->group) == 1 || t->state->place.steps % LOOK_EVERY != 0) return true;
    if (!ranks_tell_all(t->group, wants, of_all, NULL)) return false;
    for (int r = 0; r < ranks_count(t->group); r++) *stop = *stop || of_all[r];
    return true;
}

static void show(trainer *t, progress *bar) {
    if (!t->settings->name || ranks_own(t->group) != 0 || !progress_due(bar)) return;
    bar->total = t->settings->iterations;
    bar->ahead = density_time_ahead(&t->settings->density, t->settings->iterations,
                                    training_state_count(t->state), t->state->place.at);
    const run_place *const place = &t->state->place;
    const training_report *const report = &t->report;
    double loss = NAN; // of the last view on one rank; on several the last that all have
    if (ranks_count(t->group) == 1 && t->waiting > 0)
        device_download(&loss, t->results[t->waiting - 1].color, sizeof loss);
    else if (report->iterations >= report->first_iteration)
        loss = report->losses[report->iterations - report->first_iteration];
    progress_show(bar, place->scenes > 0 ? place->views : place->at, loss);
}

bool train_on(picture_cache *pictures, training_state *state, const target_view *views, size_t view_count,
              const training_settings *settings, const training_observer *observer, training_report *report,
              fault *why) {
    trainer *const t = trainer_open(pictures, state, views, view_count, settings, why);
    if (!t) return false;
    progress bar;
    progress_begin(&bar, settings->name, t->settings->iterations);
    bar.before = state->place.at;
    bar.time_limit = settings->budget > 0 ? settings->budget - t->before : 0;
    bool stop = false, good = true, last = t->over;
    while (!last && good) {
        good = trainer_step(t) && agree_to_stop(t, observer, &stop);
        if (!good) break;
        last = t->over || stop;
        t->report.stopped = stop;
        show(t, &bar);
        if (observer && observer->observe &&
            (last || training_passed(state->place.views, t->report.step_views, observer->interval) ||
             (observer->wants && observer->wants(observer->context)))) {
            fault failed;
            good = trainer_report(t) != NULL;
            const double began = seconds_now(), from = t->clock; // the time it takes is not training's
            good = good &&
                   (observer->observe(observer->context, state, &t->report, &failed) ||
                    ranks_fail_with(t->group, &failed)) &&
                   look_at_clock(t);
            t->started += t->clock - from;
            bar.started += seconds_now() - began;
        }
    }
    good = good && ranks_wait(t->group, NULL) && (!t->way->agree || t->way->agree(t));
    progress_end(&bar);
    good = good && trainer_report(t);
    if (good && report) {
        stage_clock_close(&t->report.clock);
        *report = t->report;
        t->report = (training_report){0};
    }
    trainer_close(t);
    return good || fail(why, "%s", ranks_error(state->group));
}
