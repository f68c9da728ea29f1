// SPDX-License-Identifier: MIT
// Looks for training that goes wrong: numbers that are not finite (--check-finite), and MCMC that runs away.
#include "trainer_parts.h"
#include "arrays.h"
#include "device.h"
#include <math.h>
#include <stdio.h>

// Rows of numbers on the device that a call has written.
typedef struct written {
    const char *by, *what;
    const float *values;
    int64_t rows;
    int width;
    int used; // rows whose value in this column is 0 are not looked at; -1: all are
} written;

// The first row with a number that is not finite; -1: none. Waits for the device.
static int64_t first_not_finite(const written *w) {
    float values[8192];
    const int64_t most = (int64_t)(sizeof values / sizeof *values) / w->width;
    for (int64_t row = 0, rows; w->values && row < w->rows; row += rows) {
        rows = w->rows - row < most ? w->rows - row : most;
        device_download(values, w->values + row * w->width, (size_t)(rows * w->width) * sizeof *values);
        for (int64_t k = 0; k < rows * w->width; k++)
            if (!isfinite(values[k]) && (w->used < 0 || values[k / w->width * w->width + w->used] != 0))
                return row + k / w->width;
    }
    return -1;
}

static bool are_finite(trainer *t, const written *w) {
    const int64_t row = first_not_finite(w);
    return row < 0 ||
           ranks_fail(t->group,
                      "--check-finite: %s made a number that is not finite, in the %s %lld, in the step "
                      "after %lld views; --checkpoint-every keeps the state before it",
                      w->by, w->what, (long long)row, (long long)t->state->iteration);
}

static bool vectors_are_finite(trainer *t, const char *by, const gs_gaussians *vectors) {
    static const char *const names[GS_ARRAYS] = {"mean of Gaussian", "log scales of Gaussian",
                                                 "quaternion of Gaussian", "opacity logit of Gaussian",
                                                 "SH coefficients of Gaussian"};
    const gs_arrays arrays = gs_arrays_of(vectors);
    for (int a = 0; a < GS_ARRAYS; a++) {
        const written w = {by, names[a], arrays.of[a], vectors->count, arrays.width[a], -1};
        if (!are_finite(t, &w)) return false;
    }
    return true;
}

bool trainer_check_backward(trainer *t) {
    if (!t->settings->check_finite) return true;
    if (!t->way->frames || t->one.one_by_one)
        return vectors_are_finite(t,
                                  "forward and backward pass (one GPU with --batch 1 would tell the stage)",
                                  &t->state->gradients);
    const frame *const f = &t->one.f;
    const int64_t views = frame_views(f), splats = views * f->view.gaussians.count,
                  pixels = views * f->view.camera.width * f->view.camera.height;
    enum { SPLAT = sizeof(gs_splat) / sizeof(float), DEPTH = offsetof(gs_splat, depth) / sizeof(float) };
    const written stages[] = {
        {"gs_project", "splat", f->view.splats ? f->view.splats->mean : NULL, splats, SPLAT, DEPTH},
        {"gs_render", "value of the image", f->view.image.color, GS_CHANNELS * pixels, 1, -1},
        {"gs_loss", "gradient by the image's value", f->gradient.color, GS_CHANNELS * pixels, 1, -1},
        {"gs_depth_loss", "gradient by the depth of pixel", f->gradient.depth, pixels, 1, -1},
        {"gs_render_backward", "moments of splat", (const float *)f->gradient.moments, splats,
         GS_MOMENTS_STRIDE, -1}};
    for (size_t k = 0; k < sizeof stages / sizeof *stages; k++)
        if (!are_finite(t, &stages[k])) return false;
    return vectors_are_finite(t, "gs_project_backward", &t->state->gradients);
}

bool trainer_check_penalty(trainer *t) {
    return !t->settings->check_finite ||
           vectors_are_finite(t, "the penalty of density control", &t->state->gradients);
}

bool trainer_check_adam(trainer *t) {
    return !t->settings->check_finite || (vectors_are_finite(t, "gs_adam", &t->state->gaussians) &&
                                          vectors_are_finite(t, "gs_adam", &t->state->first_moment) &&
                                          vectors_are_finite(t, "gs_adam", &t->state->second_moment));
}

// ---- MCMC

enum { WATCHED = 100 }; // views that the loss is smoothed over, steps whose dead Gaussians are counted

void mcmc_watch_begin(mcmc_watch *watch) {
    watch->seen = 0;
    watch->least = INFINITY;
}

bool mcmc_watch_loss(mcmc_watch *watch, double loss) {
    watch->seen++;
    watch->smooth += (loss - watch->smooth) / (double)(watch->seen < WATCHED ? watch->seen : WATCHED);
    if (watch->seen >= WATCHED) watch->least = fmin(watch->least, watch->smooth);
    return watch->smooth > 1.5 * watch->least;
}

bool mcmc_watch_dead(mcmc_watch *watch, int64_t steps, uint64_t dead, int64_t count) {
    watch->dead += dead;
    if (steps - watch->since < WATCHED) return false;
    watch->part = count > 0 ? (double)watch->dead / (double)count : 0;
    watch->dead = 0, watch->since = steps;
    return watch->part > 0.1;
}

void trainer_watch(trainer *t, int64_t losses) {
    mcmc_watch *const watch = &t->watch;
    training_report *const report = &t->report;
    const int64_t end = report->iterations - report->first_iteration + 1;
    uint64_t dead = 0;
    bool rises = false;
    if (t->settings->density.kind != DENSITY_MCMC) return;
    for (int64_t k = end - losses; k < end; k++) rises |= mcmc_watch_loss(watch, report->losses[k]);
    if (t->density.dead) {
        device_download(&dead, t->density.dead, sizeof dead);
        device_clear(t->density.dead, sizeof dead);
    }
    const bool dies = mcmc_watch_dead(watch, t->state->steps, dead, t->state->gaussians.count);
    if (report->warning[0] || !(rises || dies)) return;
    const int length = snprintf(report->warning, sizeof report->warning,
                                "after view %lld MCMC runs away: ", (long long)t->state->iteration);
    char *const text = report->warning + length;
    const size_t room = sizeof report->warning - (size_t)length;
    if (dies)
        snprintf(text, room,
                 "%.0f%% of the Gaussians died in %d steps; lower --opacity-penalty, or take --density split",
                 100 * watch->part, WATCHED);
    else
        snprintf(text, room, "the loss is %.2g times its least; lower --mcmc-noise, or take --density split",
                 watch->smooth / watch->least);
}
