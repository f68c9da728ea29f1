// SPDX-License-Identifier: MIT
#include "train_finish.h"
#include "device.h"
#include "distwar_gs_lm.h"
#include "frames/device_gaussians.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// dB by which the first step must raise the PSNR of the views that decide. They were trained on for half of the time
// and judge too kindly (docs/notes/levenberg-marquardt.md).
#define FIRST_GAIN 0.5

enum {
    SPARED_EACH = 16,   // one view in 16 decides
    LEAST_VIEWS = 64,   // with fewer none is spared: it costs more than the steps can bring
    MOST_STEPS = 20,    // of auto
    USUAL_STEPS = 1,    // of auto, for which a budget keeps time; later ones gain little
    MOST_SHARE = 3,     // of a budget: a third
    STEP_COST = 10,     // times of a step of training, for each view
    VECTORS = 8,        // of the solver, at most
    BYTES_A_PIXEL = 44, // of a view, at most
    BYTES_A_SPLAT = 128 // of a view, with its lists
};

size_t train_finish_spared(size_t views) {
    return views < LEAST_VIEWS ? 0 : (views + SPARED_EACH / 2) / SPARED_EACH;
}

static int64_t steps_wanted(const train_finish_plan *plan) {
    const train_options *o = plan->options;
    return o->finish == TRAIN_FINISH_NONE ? 0
           : o->finish == TRAIN_FINISH_LM ? o->lm.steps
           : plan->spared > 0             ? MOST_STEPS
                                          : 0;
}

bool train_finish_open(train_finish_plan *plan, const train_options *options, const view_split *split,
                       fault *why) {
    const size_t count = split->training;
    const bool decides = options->finish == TRAIN_FINISH_AUTO;
    *plan = (train_finish_plan){.options = options,
                                .views = split->views,
                                .count = count,
                                .spared = decides ? train_finish_spared(count) : 0,
                                .threshold = 0.02};
    plan->steps = options->budget ? 0 : steps_wanted(plan); // none if training ends before its pace is known
    if (plan->spared == 0) return true;
    plan->views = plan->copies = malloc(count * sizeof *plan->views);
    if (!plan->views) return fail(why, "no memory for %zu views", count);
    size_t used = 0, spared = 0;
    for (size_t i = 0; i < count; i++) {
        const bool decide = spared < plan->spared && i == (2 * spared + 1) * count / (2 * plan->spared);
        plan->views[decide ? count - plan->spared + spared++ : used++] = split->views[i];
    }
    return true;
}

void train_finish_close(train_finish_plan *plan) {
    free(plan->copies);
    *plan = (train_finish_plan){0};
}

double train_finish_reserve(train_finish_plan *plan, double steps) {
    const lm_settings *lm = &plan->options->lm;
    const double views = (double)(plan->count - plan->spared);
    const double each = STEP_COST * fmin(views, (double)lm->batch * (double)lm->batches);
    const int64_t most = steps_wanted(plan);
    const double wanted = (double)(plan->spared > 0 ? USUAL_STEPS : most);
    const double fitting = fmin(wanted, floor(steps / MOST_SHARE / each));
    plan->steps = fitting < 1 || plan->spared == 0 ? (int64_t)fitting : most;
    return fitting * each;
}

// ---- the steps

typedef struct finishing {
    train_finish_plan *plan;
    const gs_gaussians *gaussians;
    const float *background;
    const lm_observer *then;
    double before; // seconds of the steps before
} finishing;

static bool measure_spared(const finishing *f, quality *out, fault *why) {
    const train_finish_plan *plan = f->plan;
    return plan->spared == 0 || quality_measure(f->gaussians, plan->views + plan->count - plan->spared,
                                                plan->spared, f->background, out, NULL, why);
}

// Whether the end of one more step would be farther from the end of the budget, or more than 2% of it too late.
static bool no_time(const train_finish_plan *plan, double spent) {
    const double left = plan->budget - spent;
    return plan->budget > 0 &&
           (left < plan->took / 2 || plan->took - left > 0.02 * plan->options->budget_seconds);
}

static bool decide(void *context, const lm_step *step, lm_verdict *verdict, fault *why) {
    finishing *f = context;
    train_finish_plan *plan = f->plan;
    quality now = {0, 0};
    if (!measure_spared(f, &now, why)) return false;
    plan->took = fmax(plan->took, step->seconds - f->before);
    f->before = step->seconds;
    if (plan->spared > 0) {
        const double gain = now.psnr - plan->reached.psnr;
        printf("decided    PSNR of %zu views set aside %.3f -> %.3f dB\n", plan->spared, plan->reached.psnr,
               now.psnr);
        const bool kept = gain > (step->step == 1 ? FIRST_GAIN : 0);
        if (!kept)
            *verdict = LM_UNDO;
        else if (gain < plan->threshold)
            *verdict = LM_STOP;
        if (kept) plan->reached = now;
    }
    if (*verdict == LM_GO_ON && no_time(plan, step->seconds)) *verdict = LM_STOP;
    return true;
}

static bool observe(void *context, const lm_step *step, fault *why) {
    const finishing *f = context;
    return !f->then->observe || f->then->observe(f->then->context, step, why);
}

// The most that the steps may take of the device's memory, GiB, if it decides anything; 0: it does not; negative: it is
// too little.
static double memory_limit(const train_finish_plan *plan, const gs_gaussians *gaussians) {
    size_t free_bytes, all, blocks;
    double views = 0, largest = 0;
    DEVICE_CHECK(cudaMemGetInfo(&free_bytes, &all));
    if (gs_lm_blocks_bytes(gaussians->count, gaussians->sh_degree, &blocks) != GS_OK) return -1;
    for (size_t i = 0; i < plan->count; i++) {
        const gs_camera *c = &plan->views[i].camera;
        const double bytes =
            (double)BYTES_A_PIXEL * c->width * c->height + (double)BYTES_A_SPLAT * (double)gaussians->count;
        views += bytes;
        largest = fmax(largest, bytes);
    }
    const double fixed =
        VECTORS * (double)device_gaussians_bytes(gaussians->count, gaussians->sh_degree) + (double)blocks;
    const double room = 0.9 * (double)free_bytes;
    return fixed + 3 * largest > room ? -1 : fixed + views > room ? room / 0x1p30 : 0;
}

bool train_finish_run(train_finish_plan *plan, const gs_gaussians *gaussians, const lm_settings *settings,
                      const lm_observer *observer, fault *why) {
    lm_settings here = *settings;
    finishing f = {
        .plan = plan, .gaussians = gaussians, .background = settings->background, .then = observer};
    const lm_observer both = {.observe = observe, .context = &f, .decide = decide};
    here.steps = plan->steps;
    if (plan->options->finish == TRAIN_FINISH_AUTO && plan->spared == 0) {
        fprintf(stderr,
                "dsplat: --finish auto: no step, as %zu training views are too few to set some aside\n",
                plan->count);
        return true;
    }
    if (plan->steps == 0) {
        fprintf(stderr, "dsplat: --budget has no time for a step of --finish\n");
        return true;
    }
    if (plan->options->finish == TRAIN_FINISH_AUTO) {
        const double limit = memory_limit(plan, gaussians);
        if (limit < 0) {
            fprintf(
                stderr,
                "dsplat: --finish auto: the device has too little memory left; training ends without it\n");
            return true;
        }
        if (here.memory == 0) here.memory = limit;
    }
    return measure_spared(&f, &plan->reached, why) &&
           finish_lm(gaussians, plan->views, plan->count - plan->spared, &here, &both, why);
}
