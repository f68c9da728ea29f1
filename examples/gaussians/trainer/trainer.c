// SPDX-License-Identifier: MIT
#include "trainer.h"
#include "device.h"
#include "frames/blend_strategies.h"
#include "frames/frame.h"
#include "frames/gs_check.h"
#include "cli/progress.h"
#include "random.h"
#include "pace.h"
#include "retirement.h"
#include "view_order.h"
#include <math.h>
#include <stdlib.h>

// Losses stay on the device and come over in batches, so that a step does not wait for its own.
enum { BATCH = 100 };

// Iterations between samples of the average: neighbouring steps say the same.
enum { AVERAGE_EVERY = 5 };

bool training_passed(int64_t iteration, int64_t views, int64_t every) {
    return iteration / every > (iteration - views) / every;
}

int scheduled_sh_degree(const training_settings *settings, int sh_degree, int64_t step) {
    int64_t degree = settings->sh_interval > 0 ? (step - 1) / settings->sh_interval : sh_degree;
    return degree < sh_degree ? (int)degree : sh_degree;
}

// 0 at the first step, 1 at the last.
static double progress_at(const training_settings *settings, int64_t step) {
    return settings->iterations > 1 ? (double)(step - 1) / (double)(settings->iterations - 1) : 0;
}

float scheduled_mean_rate(const training_settings *settings, int64_t step) {
    if (settings->rates.mean == 0) return 0;
    return (float)(settings->rates.mean *
                   pow(settings->final_mean_rate / settings->rates.mean, progress_at(settings, step)));
}

float scheduled_sh_rate(const training_settings *settings, int64_t step) {
    const double first = settings->rates.sh_rest, last = settings->final_sh_rest;
    if (first == 0 || last == 0) return settings->rates.sh_rest;
    return (float)(first * pow(last / first, progress_at(settings, step)));
}

float scheduled_depth_weight(const training_settings *settings, int64_t step) {
    const double first = settings->depth_weight;
    return (float)(first * pow(settings->final_depth_weight / first, progress_at(settings, step)));
}

float scheduled_exposure_rate(const training_settings *settings, int64_t step) {
    return settings->exposure_rate * (float)pow(0.1, progress_at(settings, step));
}

// What a step leaves on the device: the results of gs_loss, and that of gs_depth_loss.
typedef struct step_result {
    double of_colors[3], of_depth;
} step_result;

typedef struct trainer {
    training_state *state;
    const target_view *views;
    const training_settings *settings;
    training_settings fitted; // where settings points to, under a budget
    pace pace;
    double before;   // seconds of training before this run
    double reserved; // as training_budget.fit returned it
    density_control density;
    retirement retirement;
    frame f;
    strategy_tuner tuner;
    view_order order;
    device_buffer exposure_gradient, target, logits;
    step_result *results; // device, [BATCH + GS_MAX_VIEWS]: of the views since the last fetch
    double depth_weights[BATCH + GS_MAX_VIEWS]; // of these steps; 0: the view has no depth
    int64_t waiting;                            // how many of them there are
    int64_t room;                               // of report.losses
    resolution_views sizes;
    double started;
    training_report report;
} trainer;

static double now(const trainer *t) {
    const training_budget *budget = t->settings->budget;
    return budget && budget->now ? budget->now(budget->context) : seconds_now();
}

static bool reserve_losses(trainer *t, int64_t steps, fault *why) {
    if (t->report.losses && steps <= t->room) return true;
    if (steps < 2 * t->room) steps = 2 * t->room;
    double *losses = realloc(t->report.losses, ((size_t)steps + 1) * sizeof *losses);
    if (!losses) return fail(why, "no memory for the losses of %lld iterations", (long long)steps);
    t->report.losses = losses;
    t->room = steps;
    return true;
}

// The schedule's length and what depends on it.
static void fit_schedule(trainer *t) {
    const training_budget *budget = t->settings->budget;
    t->reserved = budget->fit(budget->context, t->state->schedule.steps, &t->fitted);
}

static void open_budget(trainer *t) {
    t->fitted = *t->settings;
    t->settings = &t->fitted;
    t->before = t->state->schedule.seconds;
    t->pace.budget = t->fitted.budget->seconds;
    if (t->state->schedule.steps > 0) fit_schedule(t);
}

// Of one view, in the whole budget, by the present time of a step.
static double steps_in_all(const trainer *t, int32_t views) {
    return fmin((double)t->state->iteration + views * pace_steps_left(&t->pace), SCHEDULE_MOST);
}

// In the first half, in which Gaussians are added: whether there is much more or less time for steps than thought.
static bool has_changed(const trainer *t, int32_t views) {
    const schedule_place *place = &t->state->schedule;
    const double now_worth = steps_in_all(t, views), factor = 1.3;
    return place->progress < 0.5 && (now_worth > factor * place->steps || now_worth < place->steps / factor);
}

// Moves the schedules to the next step. views: of that step.
static void move_schedule(trainer *t, int32_t views) {
    schedule_place *place = &t->state->schedule;
    place->before = place->at;
    place->at += views;
    if (!t->settings->budget) return;
    place->seconds = t->before + now(t) - t->started;
    pace_note(&t->pace, place->seconds);
    t->pace.ahead = density_time_ahead(&t->settings->density, t->settings->iterations,
                                       t->state->gaussians.count, place->before);
    if (place->steps > 0 ? has_changed(t, views) : pace_is_known(&t->pace)) {
        const bool first = place->steps == 0;
        place->steps = steps_in_all(t, views);
        fit_schedule(t);
        if (first) place->progress = fmin(1, progress_at(t->settings, place->at));
    }
    t->pace.reserved = t->reserved / views;
    t->pace.between_left = retirements_left(&t->settings->density, place->before); // with this step's
    if (place->steps > 0) place->progress = pace_next(&t->pace, place->progress);
    if (place->steps > 0)
        place->at = 1 + (int64_t)(place->progress * (double)(t->settings->iterations - 1) + 0.5);
    if (place->at < place->before) place->at = place->before;
}

// Under a budget: not where this retirement and later ones would take over a quarter of the time left.
static bool retirement_has_time(const trainer *t) {
    const pace *p = &t->pace;
    return !t->settings->budget || 4 * p->between * (double)p->between_left <= p->budget - p->last;
}

static int64_t batch_in(const training_settings *settings, int phase) {
    const resolution_schedule *schedule = &settings->resolutions;
    const int64_t own = phase < schedule->count ? schedule->phase[phase].batch : 0;
    return own > 0 ? own : settings->batch > 0 ? settings->batch : 1;
}

// phase: whose views show what contributes.
static void retire(trainer *t, int phase) {
    const training_settings *settings = t->settings;
    if (settings->budget) DEVICE_CHECK(cudaDeviceSynchronize()); // the step's own time
    const double began = now(t);
    retire_least(&t->retirement, t->state, resolution_views_at(&t->sizes, phase),
                 t->order.count - settings->spared, batch_in(settings, phase), &settings->density,
                 t->tuner.policy);
    t->pace.between = now(t) - began;
}

// Whether the step that was done last is the last of all.
static bool training_is_over(const trainer *t) {
    const schedule_place *place = &t->state->schedule;
    if (!t->settings->budget) return t->state->iteration >= t->settings->iterations;
    pace then = t->pace;
    pace_note(&then, t->before + now(t) - t->started);
    return place->progress >= 1 || pace_is_over(&then);
}

static bool trainer_open(trainer *t, training_state *state, const target_view *views, size_t view_count,
                         const training_settings *settings, fault *why) {
    *t = (trainer){.state = state, .views = views, .settings = settings};
    t->started = now(t);
    t->report.first_iteration = state->iteration + 1;
    t->report.iterations = state->iteration;
    if (settings->budget)
        open_budget(t);
    else
        state->schedule = (schedule_place){.at = state->iteration, .before = state->iteration - 1};
    if (!reserve_losses(t, settings->budget ? BATCH : settings->iterations - state->iteration, why) ||
        !view_order_open(&t->order, view_count, settings->seed, why) ||
        !resolution_views_open(&t->sizes, &settings->resolutions, views, view_count, settings->batch, why))
        return false;
    t->results = device_allocate((BATCH + GS_MAX_VIEWS) * sizeof *t->results);
    stage_clock_open(&t->report.clock);
    const candidate_list candidates = settings->tune ? blend_candidates() : candidate_alone(settings->policy);
    strategy_tuner_open(&t->tuner, &candidates);
    t->f.clock = &t->report.clock;
    return true;
}

// But for the report.
static void trainer_close(trainer *t) {
    strategy_tuner_close(&t->tuner);
    device_buffer_close(&t->exposure_gradient);
    device_buffer_close(&t->target);
    device_buffer_close(&t->logits);
    device_free(t->results);
    view_order_close(&t->order);
    resolution_views_close(&t->sizes);
    frame_close(&t->f);
    density_control_close(&t->density);
    retirement_close(&t->retirement);
}

// The views of a step.
typedef struct step_views {
    int64_t first;                         // iteration of the first, less 1
    int32_t count;                         // >= 1
    size_t index[GS_MAX_VIEWS];            // among all views
    const target_view *view[GS_MAX_VIEWS]; // of the size in use
    gs_camera camera[GS_MAX_VIEWS];
    const float *exposure[GS_MAX_VIEWS]; // the matrix; NULL: none
} step_views;

// Steps of Adam until the iteration `first`, which is in `phase`.
static int64_t steps_before(const training_settings *settings, int phase, int64_t first) {
    int64_t steps = 0, begin = 0;
    if (settings->budget) return first / batch_in(settings, phase); // about: phases end by the clock
    for (int p = 0; p <= phase; p++) {
        const int64_t batch = batch_in(settings, p),
                      end = p < phase ? resolution_phase_end(&settings->resolutions, settings->iterations, p)
                                      : first;
        steps += (end - begin + batch - 1) / batch;
        begin = end;
    }
    return steps;
}

static int phase_of(const trainer *t) {
    return resolution_phase_at(&t->settings->resolutions, t->settings->iterations, t->state->schedule.at + 1);
}

// The view of iteration + 1; instead of one that is spared, another one.
static size_t next_view(trainer *t, int64_t iteration) {
    const training_settings *settings = t->settings;
    const size_t index = view_order_at(&t->order, iteration), used = t->order.count - settings->spared;
    return index < used || progress_at(settings, t->state->schedule.at + 1) < settings->spared_from
               ? index
               : (index + (size_t)iteration) % used;
}

// A step has views of one phase.
static step_views choose_views(trainer *t, int phase) {
    const training_settings *settings = t->settings;
    const training_state *state = t->state;
    const int64_t batch = batch_in(settings, phase),
                  left = settings->budget
                             ? batch
                             : resolution_phase_end(&settings->resolutions, settings->iterations, phase) -
                                   state->iteration;
    step_views of = {.first = state->iteration, .count = (int32_t)(batch < left ? batch : left)};
    for (int32_t v = 0; v < of.count; v++) {
        const size_t index = of.index[v] = next_view(t, state->iteration + v);
        of.view[v] = resolution_views_at(&t->sizes, phase) + index;
        of.camera[v] = of.view[v]->camera;
        if (state->poses > 0) pose_to_camera(&state->pose[index].now, &of.camera[v]);
        if (state->exposures > 0) of.exposure[v] = state->exposure + 3 * GS_EXPOSURE_VALUES * index;
    }
    return of;
}

// Every round of the order has each view once, so that its step is the round's number.
static void step_exposure(trainer *t, const step_views *of, int32_t v) {
    const training_settings *settings = t->settings;
    const int64_t before = of->first + v;
    const float rate = scheduled_exposure_rate(settings, schedule_step(&t->state->schedule) + v);
    float *gradient = device_buffer_reserve(&t->exposure_gradient, GS_EXPOSURE_VALUES * sizeof(float));
    frame_choose(&t->f, v);
    frame_expose_backward(&t->f, of->exposure[v], gradient);
    GS_CHECK(gs_exposure_adam(t->state->exposure, t->state->exposures, (int64_t)of->index[v], gradient, rate,
                              before / (int64_t)t->order.count + 1, NULL));
}

// How often the view of this step has moved, with this step; < 1: it does not move yet.
static int64_t pose_steps(const trainer *t) {
    const int64_t views = (int64_t)t->order.count, before = (t->settings->pose.from + views - 1) / views;
    return t->state->poses > 0 ? t->state->iteration / views - before + 1 : 0;
}

// Waits for the device: the next step may need the pose.
static void step_pose(trainer *t, size_t view, int64_t step) {
    training_state *state = t->state;
    const pose_schedule *schedule = &t->settings->pose;
    const double rate =
        schedule->rate * pow(schedule->end, progress_at(t->settings, schedule_step(&state->schedule)));
    const gs_camera_gradient gradient = frame_camera_gradient(&t->f);
    refined_pose_step(&state->pose[view], gradient.twist, rate, step);
}

static void choose_background(const training_settings *settings, int64_t step, float background[3]) {
    random_stream random = random_at(settings->seed, RANDOM_BACKGROUND, (uint64_t)step, 0);
    for (int c = 0; c < 3; c++)
        background[c] = settings->random_background ? (float)random_unit(&random) : settings->background[c];
}

// The view's picture before that background.
static const uint8_t *target_before(trainer *t, const target_view *view, const float background[3]) {
    if (!t->settings->random_background || !view->alpha) return view->pixels;
    const int32_t width = view->camera.width, height = view->camera.height;
    uint8_t *target = device_buffer_reserve(&t->target, 3 * (size_t)width * (size_t)height);
    float change[3];
    for (int c = 0; c < 3; c++) change[c] = background[c] - t->settings->background[c];
    GS_CHECK(gs_backdrop(view->pixels, view->alpha, width, height, change, target, NULL));
    return target;
}

// Queues the loss of one of the views.
static void queue_view_loss(trainer *t, const step_views *of, int32_t v, const float background[3]) {
    const target_view *view = of->view[v];
    step_result *result = &t->results[t->waiting + v];
    const float depth_weight =
        view->depth ? scheduled_depth_weight(t->settings, schedule_step(&t->state->schedule)) : 0;
    t->depth_weights[t->waiting + v] = (double)depth_weight;
    frame_choose(&t->f, v);
    if (of->exposure[v]) frame_expose(&t->f, of->exposure[v]);
    frame_loss(&t->f, target_before(t, view, background), view->mask, result->of_colors, true);
    if (view->depth) frame_depth_loss(&t->f, view->depth, view->mask, depth_weight, &result->of_depth, true);
}

gs_gaussians gaussians_of_step(const training_settings *settings, const gs_gaussians *all,
                               const dropout_place *place, device_buffer *logits) {
    gs_gaussians out = *all;
    const double share = settings->dropout * progress_at(settings, place->step);
    if (share <= 0) return out;
    out.opacity_logit = device_buffer_reserve(logits, (size_t)out.count * sizeof(float));
    GS_CHECK(gs_dropout(all, place->first, (float)share, settings->seed, (uint64_t)place->iteration,
                        out.opacity_logit, NULL));
    return out;
}

// Queues the forward pass and the loss, again while the lists have no room.
static void queue_loss(trainer *t, const step_views *of, int degree, const float background[3]) {
    const dropout_place place = {schedule_step(&t->state->schedule), t->state->iteration, 0};
    const gs_gaussians seen = gaussians_of_step(t->settings, &t->state->gaussians, &place, &t->logits);
    const gs_gaussians *const gaussians = &seen;
    double began;
    bool settled;
    t->f.with_depth = of->view[0]->depth != NULL;
    do {
        frame_queue_views(&t->f, gaussians, degree, of->camera, of->count, background);
        for (int32_t v = 0; v < of->count; v++) queue_view_loss(t, of, v, background);
        began = seconds_now();
        settled = frame_settle(&t->f);
        t->report.waited += seconds_now() - began;
    } while (!settled);
    t->waiting += of->count;
}

gs_adam_rates scheduled_rates(const training_settings *settings, int64_t step, int degree, int64_t views) {
    const float factor = sqrtf((float)views);
    gs_adam_rates rates = settings->rates;
    rates.mean = factor * scheduled_mean_rate(settings, step);
    rates.log_scale *= factor, rates.quaternion *= factor, rates.opacity_logit *= factor;
    rates.sh_constant *= factor, rates.sh_rest = factor * scheduled_sh_rate(settings, step);
    rates.sh_coefficients = (degree + 1) * (degree + 1);
    return rates;
}

int64_t average_from(const training_settings *s) {
    const int64_t from = s->iterations - (int64_t)(s->average_part * (double)s->iterations);
    const bool acts = s->density.kind != DENSITY_NONE && s->average_part > 0;
    return acts && s->density.until > from ? s->density.until : from;
}

bool average_is_due(const training_settings *settings, int64_t before, int64_t at) {
    return at > average_from(settings) && training_passed(at, at - before, AVERAGE_EVERY);
}

static void train_step(trainer *t) {
    training_state *state = t->state;
    const training_settings *settings = t->settings;
    const int phase = phase_of(t);
    const step_views of = choose_views(t, phase);
    move_schedule(t, of.count);
    const int64_t step = state->iteration + 1, at = schedule_step(&state->schedule);
    const int degree = scheduled_sh_degree(settings, state->gaussians.sh_degree, at);
    const gs_adam_rates rates = scheduled_rates(settings, at, degree, of.count);

    stage_clock_start(&t->report.clock);
    float background[3];
    choose_background(settings, step, background);
    queue_loss(t, &of, degree, background);
    for (int32_t v = 0; v < of.count; v++)
        if (of.exposure[v]) step_exposure(t, &of, v);
    strategy_tuner_begin(&t->tuner);
    t->f.absolute = density_reads_absolute(&settings->density) && at < settings->density.until;
    frame_render_backward(&t->f, t->tuner.policy);
    strategy_tuner_end(&t->tuner, (double)t->f.view.lists.pairs);
    const int64_t moved = pose_steps(t);
    frame_project_backward(&t->f, &state->gradients, moved > 0);
    density_before_adam(&settings->density, state, of.count);
    const int64_t adam_step = steps_before(settings, phase, of.first) + 1;
    GS_CHECK(gs_adam(&state->gaussians, &state->gradients, &state->first_moment, &state->second_moment,
                     &rates, adam_step, NULL));
    stage_clock_mark(&t->report.clock, STAGE_ADAM);
    if (moved > 0) step_pose(t, of.index[0], moved);
    state->iteration += of.count;
    t->report.step_views = of.count;
    if (retirement_is_due(&settings->density, state->schedule.before, state->schedule.at) &&
        retirement_has_time(t))
        retire(t, phase);
    density_after_adam(&t->density, &settings->density, settings->seed, rates.mean, &t->f, state);
    stage_clock_mark(&t->report.clock, STAGE_DENSITY);
    if (average_is_due(settings, state->schedule.before, state->schedule.at))
        parameter_average_add(&state->average, &state->gaussians);
}

// Unless a signal ends training: then it will go on.
static void take_average(trainer *t, const training_observer *observer) {
    if (!(observer && observer->end && *observer->end))
        parameter_average_take(&t->state->average, &t->state->gaussians);
}

// Adds the waiting losses to the report.
static bool fetch_losses(trainer *t, fault *why) {
    step_result batch[BATCH + GS_MAX_VIEWS];
    training_report *report = &t->report;
    const int64_t known = report->iterations - report->first_iteration + 1;
    if (!reserve_losses(t, known + t->waiting, why)) return false;
    device_download(batch, t->results, (size_t)t->waiting * sizeof *batch);
    for (int64_t i = 0; i < t->waiting; i++) {
        const double weight = t->depth_weights[i];
        const double loss = batch[i].of_colors[0] + (weight > 0 ? weight * batch[i].of_depth : 0);
        report->losses[++report->iterations - report->first_iteration] = loss;
        if (!isfinite(loss))
            return fail(why, "the loss is not finite at iteration %lld", (long long)report->iterations);
    }
    t->waiting = 0;
    return true;
}

static double mean(const double *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i];
    return count > 0 ? sum / (double)count : NAN;
}

void training_report_average(training_report *report) {
    const int64_t steps = report->iterations - report->first_iteration + 1;
    int64_t window = steps / 10 + 1;
    if (window > 100) window = 100;
    if (window > steps) window = steps;
    report->loss_window = window;
    report->first_loss = mean(report->losses, window);
    report->last_loss = mean(report->losses + steps - window, window);
}

static bool update_report(trainer *t, fault *why) {
    if (!fetch_losses(t, why)) return false;
    training_report *report = &t->report;
    training_report_average(report);
    report->seconds = now(t) - t->started;
    if (t->settings->budget) t->state->schedule.seconds = t->before + report->seconds;
    report->repeats = t->f.repeats;
    report->strategy = strategy_tuner_report(&t->tuner);
    return true;
}

// The time it takes is not training's.
static bool look_on(trainer *t, const training_observer *observer, progress *bar, fault *why) {
    const double began = seconds_now(), from = now(t);
    const bool done = observer->observe(observer->context, t->state, &t->report, why);
    t->started += now(t) - from;
    bar->started += seconds_now() - began;
    return done;
}

static bool train_all(trainer *t, const training_observer *observer, fault *why) {
    const training_settings *settings = t->settings;
    progress bar;
    progress_begin(&bar, settings->name ? settings->name : "training", settings->iterations);
    bar.before = t->state->schedule.at;
    bar.time_limit = settings->budget ? settings->budget->seconds - t->before : settings->seconds;
    bool done = true, last = training_is_over(t);
    if (last) take_average(t, observer);
    while (!last && done) {
        train_step(t);
        const int64_t step = t->state->iteration;
        last = training_is_over(t) ||
               (settings->seconds > 0 && seconds_now() - bar.started >= settings->seconds) ||
               (observer && observer->end && *observer->end);
        if (last) take_average(t, observer);
        if (progress_due(&bar)) {
            double loss;
            device_download(&loss, t->results[t->waiting - 1].of_colors, sizeof loss);
            bar.total = settings->iterations;
            progress_show(&bar, t->state->schedule.at, loss);
        }
        if (observer && observer->observe &&
            (last || training_passed(step, t->report.step_views, observer->interval)))
            done = update_report(t, why) && look_on(t, observer, &bar, why);
        else if (t->waiting >= BATCH)
            done = fetch_losses(t, why);
    }
    DEVICE_CHECK(cudaDeviceSynchronize());
    progress_end(&bar);
    return done;
}

bool train(training_state *state, const target_view *views, size_t view_count,
           const training_settings *settings, const training_observer *observer, training_report *report,
           fault *why) {
    trainer t;
    bool done = trainer_open(&t, state, views, view_count, settings, why) && train_all(&t, observer, why) &&
                update_report(&t, why);
    stage_clock_close(&t.report.clock);
    if (done)
        *report = t.report;
    else
        training_report_close(&t.report);
    trainer_close(&t);
    return done;
}

void training_report_close(training_report *report) {
    free(report->losses);
    report->losses = NULL;
}
