// SPDX-License-Identifier: MIT
#include "trainer.h"
#include "device.h"
#include "device_gaussians.h"
#include "frame.h"
#include "gs_check.h"
#include "progress.h"
#include "view_order.h"
#include <math.h>
#include <stdlib.h>

// Losses stay on the device and come over in batches, so that a step does not wait for its own.
enum { BATCH = 100 };

static double mean(const double *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i];
    return sum / (double)count;
}

// Copies the batch's last `count` losses, of the steps up to and with `step`, to the history.
static bool fetch_losses(double *history, const double (*results)[3], int64_t step, int64_t count,
                         fault *why) {
    double batch[BATCH][3];
    device_download(batch, results, (size_t)count * sizeof *batch);
    for (int64_t i = 0; i < count; i++) {
        int64_t of_step = step - count + i;
        history[of_step] = batch[i][0];
        if (!isfinite(batch[i][0]))
            return fail(why, "the loss is not finite at iteration %lld", (long long)of_step + 1);
    }
    return true;
}

typedef struct trainer {
    frame f;
    stage_clock clock;
    reduction_choice reduction;
    view_order order;
    gs_gaussians gradients, first_moment, second_moment;
    double (*results)[3]; // device, [BATCH]
    double *history;      // host, [iterations]
} trainer;

static bool trainer_open(trainer *t, const gs_gaussians *gaussians, size_t view_count,
                         const training_settings *settings, fault *why) {
    *t = (trainer){0};
    t->history = calloc((size_t)settings->iterations, sizeof(double));
    if (!t->history)
        return fail(why, "no memory for the losses of %lld iterations", (long long)settings->iterations);
    if (!view_order_open(&t->order, view_count, settings->seed, why)) return false;
    t->gradients = device_gaussians_allocate(gaussians->count, gaussians->sh_degree);
    t->first_moment = device_gaussians_allocate(gaussians->count, gaussians->sh_degree);
    t->second_moment = device_gaussians_allocate(gaussians->count, gaussians->sh_degree);
    t->results = device_allocate(BATCH * sizeof *t->results);
    stage_clock_open(&t->clock);
    reduction_choice_open(&t->reduction, settings->reduction, settings->threshold);
    t->f.clock = &t->clock;
    return true;
}

static void trainer_close(trainer *t) {
    reduction_choice_close(&t->reduction);
    stage_clock_close(&t->clock);
    device_free(t->results);
    device_gaussians_free(&t->second_moment);
    device_gaussians_free(&t->first_moment);
    device_gaussians_free(&t->gradients);
    view_order_close(&t->order);
    free(t->history);
    frame_free(&t->f);
}

static void train_step(trainer *t, const gs_gaussians *gaussians, const target_view *view, int64_t step,
                       const training_settings *settings) {
    int64_t degree = settings->sh_interval > 0 ? (step - 1) / settings->sh_interval : gaussians->sh_degree;
    if (degree > gaussians->sh_degree) degree = gaussians->sh_degree;
    double progress = settings->iterations > 1 ? (double)(step - 1) / (double)(settings->iterations - 1) : 0;
    gs_adam_rates rates = settings->rates;
    rates.mean *= (float)pow(settings->final_mean_rate / settings->rates.mean, progress);

    stage_clock_start(&t->clock);
    frame_render(&t->f, gaussians, (int)degree, &view->camera, settings->background);
    frame_loss(&t->f, view->pixels, t->results[(step - 1) % BATCH], true);
    reduction_choice_begin(&t->reduction);
    frame_render_backward(&t->f, t->reduction.reduction, t->reduction.threshold);
    reduction_choice_end(&t->reduction, t->f.lists.pairs);
    frame_project_backward(&t->f, &t->gradients);
    GS_CHECK(gs_adam(gaussians, &t->gradients, &t->first_moment, &t->second_moment, &rates, step, NULL));
    stage_clock_mark(&t->clock, STAGE_ADAM);
}

// *done: the steps that were.
static bool train_all(trainer *t, const gs_gaussians *gaussians, const target_view *views,
                      const training_settings *settings, int64_t *done, fault *why) {
    progress bar;
    progress_begin(&bar, "training", settings->iterations);
    bool finite = true, last = false;
    for (int64_t step = 1; !last && finite; step++) {
        train_step(t, gaussians, &views[view_order_next(&t->order)], step, settings);
        last = step == settings->iterations ||
               (settings->seconds > 0 && seconds_now() - bar.started >= settings->seconds);
        int64_t batched = (step - 1) % BATCH + 1;
        if (batched == BATCH || last)
            finite = fetch_losses(t->history, (const double(*)[3])t->results, step, batched, why);
        if (progress_due(&bar)) {
            double loss;
            device_download(&loss, t->results[batched - 1], sizeof loss);
            progress_show(&bar, step, loss);
        }
        *done = step;
    }
    DEVICE_CHECK(cudaDeviceSynchronize());
    progress_end(&bar);
    return finite;
}

bool train(const gs_gaussians *gaussians, const target_view *views, size_t view_count,
           const training_settings *settings, training_report *report, fault *why) {
    trainer t;
    double started = seconds_now();
    int64_t steps = 0;
    bool done = trainer_open(&t, gaussians, view_count, settings, why) &&
                train_all(&t, gaussians, views, settings, &steps, why);
    stage_clock_close(&t.clock);
    if (done) {
        int64_t window = steps / 10 + 1;
        if (window > 100) window = 100;
        *report = (training_report){.iterations = steps,
                                    .loss_window = window,
                                    .first_loss = mean(t.history, window),
                                    .last_loss = mean(t.history + steps - window, window),
                                    .seconds = seconds_now() - started,
                                    .clock = t.clock,
                                    .reduction = reduction_choice_report(&t.reduction)};
    }
    trainer_close(&t);
    return done;
}
