// SPDX-License-Identifier: MIT
// The training loop: one random view a step, forward, loss, backward, Adam. Knows nothing of files.
#ifndef SPLAT_TRAINER_H
#define SPLAT_TRAINER_H

#include "training/density_control.h"
#include "strategy_tuner.h"
#include "view/stage_clock.h"
#include "view/target_view.h"
#include "training/training_state.h"
#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

// Plain numbers: two runs with equal settings, views and start do the same.
typedef struct training_settings {
    int64_t iterations;     // >= 1; learning rates follow it
    double seconds;         // stop after the step during which so many have passed; 0: never
    uint64_t seed;          // of all that is random
    bool tune;              // a tuner chooses the policy while training runs
    distwar_policy policy;  // of gs_render_backward, unless there is a tuner
    float background[3];    // that the pictures were put on
    bool random_background; // another for each step; views without alpha keep their picture
    gs_adam_rates rates;    // rates.mean at the first step, in world units
    float final_mean_rate;  // at the last step; exponential between
    int64_t warm_up;     // steps over which the means' rate rises to that, from a hundredth of it, by a sine
    float exposure_rate; // of the matrices that correct views' colours, if there are any; a tenth at the end
    int sh_interval; // steps before the SH degree in use rises by one; 0: all degrees from the first step on
    density_settings density;
} training_settings;

// How training went so far.
typedef struct training_report {
    int64_t first_iteration; // of this run; 1, or more if the state had steps behind it
    int64_t iterations;      // the last that is done
    double *losses;          // of this run, from first_iteration to iterations
    int64_t loss_window;     // steps in each of the two means below: min(100, steps of this run / 10 + 1)
    double first_loss, last_loss;
    double seconds;    // of this run, without its observer's
    stage_clock clock; // sums of GPU time, up to two steps ago while training runs
    strategy_report strategy;
} training_report;

// Someone who looks on.
typedef struct training_observer {
    // Called after every step whose number `interval` divides, and after the last. The device may still be at
    // work on the default stream. The state may be read, not changed. False ends training as a failure.
    bool (*observe)(void *context, const training_state *state, const training_report *report, fault *why);
    void *context;
    int64_t interval;                 // >= 1; more often costs: each call first waits for the losses
    const volatile sig_atomic_t *end; // NULL, or what ends training after the step during which it became 1
} training_observer;

// The SH degree in use at a step = 1, 2, ... and that step's learning rate of means.
int scheduled_sh_degree(const training_settings *settings, int sh_degree, int64_t step);
float scheduled_mean_rate(const training_settings *settings, int64_t step);

// Trains from where the state is (state->iteration <= settings->iterations) on view_count >= 1 views. Fails
// if the loss stops being finite. observer: NULL, or as above. *report, whose losses are the trainer's until
// training_report_free, is written on success.
bool train(training_state *state, const target_view *views, size_t view_count,
           const training_settings *settings, const training_observer *observer, training_report *report,
           fault *why);
void training_report_free(training_report *report); // harmless on {0}

#ifdef __cplusplus
}
#endif
#endif
