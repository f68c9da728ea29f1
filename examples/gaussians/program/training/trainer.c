// SPDX-License-Identifier: MIT
#include "training/trainer.h"
#include "device.h"
#include "view/blend_strategies.h"
#include "view/frame.h"
#include "view/gs_check.h"
#include "progress.h"
#include "random.h"
#include "training/view_order.h"
#include <math.h>
#include <stdlib.h>

// Losses stay on the device and come over in batches, so that a step does not wait for its own.
enum { BATCH = 100 };

int scheduled_sh_degree(const training_settings *settings, int sh_degree, int64_t step) {
    int64_t degree = settings->sh_interval > 0 ? (step - 1) / settings->sh_interval : sh_degree;
    return degree < sh_degree ? (int)degree : sh_degree;
}

// 0 at the first step, 1 at the last.
static double progress_at(const training_settings *settings, int64_t step) {
    return settings->iterations > 1 ? (double)(step - 1) / (double)(settings->iterations - 1) : 0;
}

float scheduled_mean_rate(const training_settings *settings, int64_t step) {
    const double half_pi = 1.5707963267948966;
    if (settings->rates.mean == 0) return 0;
    const double warm =
        step < settings->warm_up ? 0.01 + 0.99 * sin(half_pi * (double)step / (double)settings->warm_up) : 1;
    return (float)(warm * settings->rates.mean *
                   pow(settings->final_mean_rate / settings->rates.mean, progress_at(settings, step)));
}

float scheduled_sh_rate(const training_settings *settings, int64_t step) {
    const double first = settings->rates.sh_rest, last = settings->final_sh_rest;
    if (first == 0 || last == 0) return settings->rates.sh_rest;
    return (float)(first * pow(last / first, progress_at(settings, step)));
}

double usual_sh_rate(size_t views) {
    return fmin(fmax((double)views / 25, 1), 4);
}

double usual_last_sh_rate(double first, int64_t iterations) {
    return fmin(first, fmax(1, first * 7000 / (double)iterations));
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
    density_control density;
    frame f;
    strategy_tuner tuner;
    view_order order;
    device_buffer exposure_gradient, target;
    step_result *results;        // device, [BATCH]: of the steps since the last fetch
    double depth_weights[BATCH]; // of these steps; 0: the view has no depth
    int64_t waiting;             // how many of them there are
    double started;
    training_report report;
} trainer;

static bool trainer_open(trainer *t, training_state *state, const target_view *views, size_t view_count,
                         const training_settings *settings, fault *why) {
    *t = (trainer){.state = state, .views = views, .settings = settings, .started = seconds_now()};
    const int64_t steps = settings->iterations - state->iteration;
    t->report.first_iteration = state->iteration + 1;
    t->report.iterations = state->iteration;
    t->report.losses = calloc((size_t)steps + 1, sizeof *t->report.losses);
    if (!t->report.losses) return fail(why, "no memory for the losses of %lld iterations", (long long)steps);
    if (!view_order_open(&t->order, view_count, settings->seed, why)) return false;
    t->results = device_allocate(BATCH * sizeof *t->results);
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
    device_free(t->results);
    view_order_close(&t->order);
    frame_close(&t->f);
    density_control_close(&t->density);
}

// Every round of the order has each view once, so that its step is the round's number.
static void step_exposure(trainer *t, size_t view, const float *matrix) {
    const training_settings *settings = t->settings;
    const float rate = scheduled_exposure_rate(settings, t->state->iteration + 1);
    float *gradient = device_buffer_reserve(&t->exposure_gradient, GS_EXPOSURE_VALUES * sizeof(float));
    frame_expose_backward(&t->f, matrix, gradient);
    GS_CHECK(gs_exposure_adam(t->state->exposure, t->state->exposures, (int64_t)view, gradient, rate,
                              t->state->iteration / (int64_t)t->order.count + 1, NULL));
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
    const double rate = schedule->rate * pow(schedule->end, progress_at(t->settings, state->iteration + 1));
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

// Queues the forward pass and the loss, again while the lists have no room.
static void queue_loss(trainer *t, const target_view *view, const gs_camera *camera, int degree,
                       const float background[3], const float *exposure) {
    const gs_gaussians *gaussians = &t->state->gaussians;
    const float depth_weight = view->depth ? scheduled_depth_weight(t->settings, t->state->iteration + 1) : 0;
    t->depth_weights[t->waiting] = (double)depth_weight;
    step_result *result = &t->results[t->waiting++];
    double began;
    bool settled;
    t->f.with_depth = view->depth != NULL;
    do {
        if (t->settings->wait_for_pairs)
            frame_render(&t->f, gaussians, degree, camera, background);
        else
            frame_queue(&t->f, gaussians, degree, camera, background);
        if (exposure) frame_expose(&t->f, exposure);
        frame_loss(&t->f, target_before(t, view, background), view->mask, result->of_colors, true);
        if (view->depth)
            frame_depth_loss(&t->f, view->depth, view->mask, depth_weight, &result->of_depth, true);
        began = seconds_now();
        settled = frame_settle(&t->f);
        t->report.waited += seconds_now() - began;
    } while (!settled);
}

static void train_step(trainer *t) {
    training_state *state = t->state;
    const training_settings *settings = t->settings;
    const int64_t step = state->iteration + 1;
    const size_t index = view_order_at(&t->order, state->iteration);
    const target_view *view = &t->views[index];
    const float *exposure = state->exposures > 0 ? state->exposure + 3 * GS_EXPOSURE_VALUES * index : NULL;
    const int degree = scheduled_sh_degree(settings, state->gaussians.sh_degree, step);
    gs_adam_rates rates = settings->rates;
    rates.mean = scheduled_mean_rate(settings, step);
    rates.sh_rest = scheduled_sh_rate(settings, step);
    rates.sh_coefficients = (degree + 1) * (degree + 1);

    gs_camera camera = view->camera;
    if (state->poses > 0) pose_to_camera(&state->pose[index].now, &camera);

    stage_clock_start(&t->report.clock);
    float background[3];
    choose_background(settings, step, background);
    queue_loss(t, view, &camera, degree, background, exposure);
    if (exposure) step_exposure(t, index, exposure);
    strategy_tuner_begin(&t->tuner);
    t->f.absolute = density_reads_absolute(&settings->density);
    frame_render_backward(&t->f, t->tuner.policy);
    strategy_tuner_end(&t->tuner, (double)t->f.view.lists.pairs);
    const int64_t moved = pose_steps(t);
    frame_project_backward(&t->f, &state->gradients, moved > 0);
    density_before_adam(&settings->density, state);
    GS_CHECK(gs_adam(&state->gaussians, &state->gradients, &state->first_moment, &state->second_moment,
                     &rates, step, NULL));
    stage_clock_mark(&t->report.clock, STAGE_ADAM);
    if (moved > 0) step_pose(t, index, moved);
    state->iteration = step;
    density_after_adam(&t->density, &settings->density, settings->seed, rates.mean, &t->f, state);
    stage_clock_mark(&t->report.clock, STAGE_DENSITY);
}

// Adds the waiting losses to the report.
static bool fetch_losses(trainer *t, fault *why) {
    step_result batch[BATCH];
    training_report *report = &t->report;
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
    report->seconds = seconds_now() - t->started;
    report->repeats = t->f.repeats;
    report->strategy = strategy_tuner_report(&t->tuner);
    return true;
}

// The time it takes is not training's.
static bool look_on(trainer *t, const training_observer *observer, progress *bar, fault *why) {
    const double began = seconds_now();
    const bool done = observer->observe(observer->context, t->state, &t->report, why);
    const double took = seconds_now() - began;
    t->started += took;
    bar->started += took;
    return done;
}

static bool train_all(trainer *t, const training_observer *observer, fault *why) {
    const training_settings *settings = t->settings;
    progress bar;
    progress_begin(&bar, settings->name ? settings->name : "training", settings->iterations);
    bar.before = t->state->iteration;
    bar.time_limit = settings->seconds;
    bool done = true, last = t->state->iteration >= settings->iterations;
    while (!last && done) {
        train_step(t);
        const int64_t step = t->state->iteration;
        last = step == settings->iterations ||
               (settings->seconds > 0 && seconds_now() - bar.started >= settings->seconds) ||
               (observer && observer->end && *observer->end);
        if (progress_due(&bar)) {
            double loss;
            device_download(&loss, t->results[t->waiting - 1].of_colors, sizeof loss);
            progress_show(&bar, step, loss);
        }
        if (observer && observer->observe && (last || step % observer->interval == 0))
            done = update_report(t, why) && look_on(t, observer, &bar, why);
        else if (t->waiting == BATCH)
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
