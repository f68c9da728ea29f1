// SPDX-License-Identifier: MIT
// Density control: when Gaussians are added, moved, removed and retired while training runs, and how the result reaches the
// training state. A method is a row of the table in density.c; the kernels are libdistwar_gs's.
#pragma once

#include "training_state.h"

C_LINKAGE_BEGIN

typedef enum density_kind {
    DENSITY_NONE,     // the number of Gaussians is constant
    DENSITY_ADAPTIVE, // by the screen-space gradient (Kerbl et al. 2023)
    DENSITY_MCMC,     // relocates, adds noise (Kheradmand et al. 2024)
    DENSITY_SPLIT,    // along the longest axis, drawn by the absolute gradient
    DENSITY_KINDS,
    DENSITY_AUTO = DENSITY_KINDS // of options: the data decides
} density_kind;

// Settings of one method each.
typedef struct density_adaptive_settings {
    double gradient_threshold; // see gs_density_rules
    double split_size;         // in scene extents
    int64_t reset_every;       // steps; only before `until`; 0: never
    double most_size;          // in scene extents; applied after the first reset; 0: never
    double reset_opacity;
    double split_factor; // see gs_density_rules
} density_adaptive_settings;

typedef struct density_mcmc_settings {
    double noise; // times the learning rate of means; an inverse area
    // Of the penalties, which free Gaussians to relocate, in steps before `until`. scale_weight is an inverse length.
    double opacity_weight, scale_weight;
} density_mcmc_settings;

typedef struct density_settings {
    int kind;                   // density_kind
    int64_t from, until, every; // acts after steps that are multiples of `every`, from < step < until
    int64_t most_gaussians;     // >= 1; a larger number at the start is kept
    double extent;              // of the scene, world units
    double least_opacity;       // below it a Gaussian is pruned or, by methods with a limit, moved
    double retired;             // of methods with a limit: gs_retire's part; 0: nothing is retired
    int64_t retire_every;       // in actions after steps that pass a multiple of this
    density_adaptive_settings adaptive;
    density_mcmc_settings mcmc;
} density_settings;

// What a method is given after a step, on each rank.
typedef struct density_step {
    const density_settings *settings;
    uint64_t seed;
    float mean_rate; // the learning rate of means in this step
    bool due;        // whether the schedule lets it act after this step
    // This rank's Gaussians as the cameras of the step see them, after the backward pass through the projection, and
    // their screen-space gradients, as the method sums them, [views][count][2]; NULL: nothing to sum.
    const gs_view *view;
    const float *mean2d;
    training_state *state;
} density_step;

typedef struct density_method {
    const char *name;   // of --density
    int until_share[2]; // the default of `until`: iterations * until_share[0] / until_share[1]
    bool starts_small;  // its published start is small and half opaque, see density_start
    bool has_limit;     // it fills up to most_gaussians, dead rows too
    // What density_step.mean2d has, summed in state->density in steps before `until`.
    screen_gradient sums;
    // In steps before `until`, between the backward pass and Adam, on all ranks alike. The gradient is a sum over `views` views.
    // NULL: nothing. False after ranks_fail.
    bool (*before_adam)(const density_settings *settings, training_state *state, int views);
    // After Adam, on all ranks alike. NULL: nothing. May call collectives; false after ranks_fail.
    bool (*act)(const density_step *step);
} density_method;

const density_method *density_method_of(int kind);
// What a step after `at` will take on average, in times of a step with the `existing` Gaussians.
double density_time_ahead(const density_settings *settings, int64_t iterations, int64_t existing, int64_t at);

// Whether density control acts between schedule steps `before` and `at`.
bool density_is_due(const density_settings *settings, int64_t before, int64_t at);
// The screen-space gradient that density_sum needs at a step of the schedule.
screen_gradient density_sums_at(const density_settings *settings, int64_t at);
// Whether density_before_adam changes the gradient in a step.
bool density_adds_to_gradient(const density_settings *settings, int64_t at);
// The trainer calls the next three in every step, after the backward pass, then after Adam. density_sum adds the step's
// gradients, if it has some. False after ranks_fail. after_adam: `due` is set here.
bool density_before_adam(const density_settings *settings, training_state *state, int views);
bool density_sum(const density_step *step);
bool density_after_adam(const density_step *step);

// ---- retirement: Gaussians that contribute least to every view make room for splits and relocations

typedef struct retirement {
    device_buffer score, splats;
    device_buffer logits; // of all Gaussians, where this rank has not all
    bool one_by_one;      // of the caller: steps render their views apart
} retirement;             // starts as {0}

void retirement_close(retirement *r);
// Whether density control begins an action with a retirement, after a step as of density_is_due.
bool retirement_is_due(const density_settings *settings, int64_t before, int64_t at);
// How many are due after the step `at` of the schedule.
int64_t retirements_left(const density_settings *settings, int64_t at);
// How many of the views are asked: all below 100, every second one from there, up to every fourth from 200 on.
// Neighbours see the same.
size_t retirement_views(size_t count);
// The cameras that are asked from `first` on, spread evenly, with their poses: at most by->batch. Returns their number.
int32_t retirement_cameras(const training_state *state, const scored_views *by, size_t first,
                           gs_camera *camera);
// Renders these views and scores each Gaussian by the largest sum of alpha T over the pixels of a view. f: memory for the
// pictures, such as that of the steps, whose last picture is gone. Waits for the device. Ranks take turns: the score is of
// this one's views. Cost: a forward and a backward blend of each.
void retirement_score(retirement *r, frame *f, const training_state *state, const scored_views *by,
                      distwar_policy policy, float *score);
// Makes those dead whose score is at most `part` times the upper quartile. score: of all Gaussians. A collective; false after
// ranks_fail.
bool retirement_end(retirement *r, const training_state *state, const float *score, double part);

C_LINKAGE_END
