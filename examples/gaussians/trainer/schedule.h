// SPDX-License-Identifier: MIT
// The settings of a training run, and what they make of each of its steps: rates, degrees, weights. Pure functions.
#pragma once

#include "density/density_control.h"
#include "loss_terms.h"
#include "plan/resolutions.h"

C_LINKAGE_BEGIN

typedef struct pose_schedule {
    double rate;  // the learning rate of poses at the first step, pixels
    double end;   // part of it at the last step; exponential between
    int64_t from; // steps in which poses stay and the scene takes shape, rounded up to a round of the views
} pose_schedule;

typedef struct training_settings training_settings;

// A time to train in. The schedules are fitted to it while training runs (pace.h): the step of a schedule is not the
// number of the iteration, but moves with the time that is used.
typedef struct training_budget {
    double seconds; // > 0; of training, as training_report.seconds
    // Called after a few steps, or at once if the state had been trained under a budget, and again in the first half of
    // the time if steps become much faster or slower: sets what depends on the length of the schedule,
    // settings->iterations among it. steps: how many the whole time is worth.
    void (*fit)(void *context, double steps, training_settings *settings);
    double (*now)(void *context); // the clock, in seconds; NULL: seconds_now
    void *context;
} training_budget;

// Plain numbers, but for the name and the budget. Two runs with equal settings, views and start are equal, without one.
struct training_settings {
    const char *name;              // of the progress bar; NULL: none
    int64_t iterations;            // >= 1; learning rates follow it
    double seconds;                // stop after the step during which this time has passed; 0: never
    const training_budget *budget; // NULL: `iterations` are done, one step of the schedule each
    double set_aside_until;        // 0..1, of the schedule: from there on views that are set aside are used
    int64_t validate_every;        // steps between looks at whether they say that training is over; 0: none
    int64_t teachers;              // at most TEACHERS_MOST, see scheduled_teachers; below 2: none
    uint64_t seed;                 // of all random choices
    bool tune;                     // a tuner chooses the policy while training runs
    distwar_policy policy;         // of gs_render_backward, unless there is a tuner
    float background[3];           // of the pictures
    bool check_finite; // each step looks at all that it made, and fails where a number is not finite; slow
    bool random_background; // another for each step; views without alpha keep their picture
    gs_adam_rates rates;    // rates.mean at the first step, in world units
    float final_mean_rate;  // at the last step; exponential between
    float final_sh_rest;    // rates.sh_rest at the last step; exponential between; 0: it is constant
    // The part of the iterations, at the end, whose parameters are averaged; 0: the last step counts.
    double average_part;
    // The share of the Gaussians that the last step leaves out, drawn for each step; it grows from 0 with the steps.
    double dropout;
    pose_schedule pose; // of the poses, if they are refined
    loss_weights weights;
    float exposure_rate; // of the gains that correct colours, if there are any; a hundredth of it at the end
    int sh_interval; // steps before the SH degree in use rises by one; 0: all degrees from the first step on
    density_settings density;
    // Views of a step, 1..GS_MAX_VIEWS; 0 counts as 1. `iterations` counts views. Learning rates are multiplied by the
    // square root.
    int64_t batch;
    resolution_schedule resolutions;
};

// All views that training sees from its start to its end, as far as is known.
int64_t scheduled_views(const training_settings *settings, const training_state *state);
// The views that a scene sees whose training ends early, as place->ended > 0 says.
int64_t scheduled_early_views(const schedule_place *place);
// Where training ends so early that the views left suffice, or the time of a budget: how many scenes are trained until
// there, one after another, to teach a last one that has at least twice as many views, or twice the time (lessons.c).
// 0: the first is all.
int64_t scheduled_teachers(const training_settings *settings, const schedule_place *place);
// Where the end of the schedule begins, 0..1, that follows once place->ended is known.
double scheduled_end(const training_settings *settings);
// Whether the step that ended at `iteration` and had `views` views reached or passed a multiple of `every` >= 1.
bool training_passed(int64_t iteration, int64_t views, int64_t every);
// 0 at the first step, 1 at the last.
double progress_at(const training_settings *settings, int64_t step);
// The SH degree in use at a step = 1, 2, ... and that step's learning rate of means.
int scheduled_sh_degree(const training_settings *settings, int sh_degree, int64_t step);
float scheduled_mean_rate(const training_settings *settings, int64_t step);
// The step's learning rate of SH above the constant.
float scheduled_sh_rate(const training_settings *settings, int64_t step);
// All rates of a step of `views` views, whose square root multiplies them. degree: of SH in use.
gs_adam_rates scheduled_rates(const training_settings *settings, int64_t step, int degree, int64_t views);
typedef struct dropout_place {
    int64_t step, iteration; // of the schedule; done before
    int64_t first;           // the index of the first Gaussian among all
} dropout_place;
// What a step renders: the Gaussians, with settings->dropout opacities of their own, which lie in `logits`.
gs_gaussians gaussians_of_step(const training_settings *settings, const gs_gaussians *all,
                               const dropout_place *place, device_buffer *logits);
// The last step before those whose parameters are averaged. Rows must keep their Gaussians from then on, so it is not
// before the end of density control.
int64_t average_from(const training_settings *settings);
// Whether the step that takes the schedule from `before` to `at` gives a sample of the average.
bool average_is_due(const training_settings *settings, int64_t before, int64_t at);
// A weight at that step: its logarithm is linear in the step.
double scheduled_weight(const training_settings *settings, const loss_weight *weight, int64_t step);

// The rate of the gains that correct colours at that step.
float scheduled_exposure_rate(const training_settings *settings, int64_t step);

C_LINKAGE_END
