// SPDX-License-Identifier: MIT
#pragma once

#include "trainer.h"

C_LINKAGE_BEGIN

// ---- whether MCMC runs away: it relocates ever more Gaussians, or its loss rises. Pure functions

// What one rank sees of its own Gaussians. Starts as {0}, then mcmc_watch_begin.
typedef struct mcmc_watch {
    double smooth, least; // the mean loss of the last views, and its least
    int64_t seen;         // losses since mcmc_watch_begin
    uint64_t dead;        // Gaussians since step `since`
    int64_t since;
    double part; // of the Gaussians, dead in the last 100 steps or more that are complete
} mcmc_watch;
void mcmc_watch_begin(mcmc_watch *watch); // pictures of another size follow
// Whether the mean loss of 100 views is above 1.5 times its least, with that of one more view.
bool mcmc_watch_loss(mcmc_watch *watch, double loss);
// Adds the dead Gaussians of the steps before `steps`. Whether more than a tenth of `count` died in the last 100.
bool mcmc_watch_dead(mcmc_watch *watch, int64_t steps, uint64_t dead, int64_t count);

// ---- the state of a trainer, for this folder and for other ways to a step's gradient (ranks/ways)

enum {
    WAITING = 100 // views whose losses stay on the device, so that a step does not wait for its own
};

// What a view leaves on the device. Of several ranks, this one's share.
typedef struct step_result {
    double color[3]; // of gs_loss
#define LOSS_MEMBER(name, results, ...) double name[results];
    LOSS_TERMS(LOSS_MEMBER)
#undef LOSS_MEMBER
} step_result;

// What the terms of a view weigh; 0: the view does not have one.
typedef struct step_weights {
#define LOSS_MEMBER(name, ...) double name;
    LOSS_TERMS(LOSS_MEMBER)
#undef LOSS_MEMBER
} step_weights;

// The views of a step.
struct step_views {
    int64_t first;                         // iteration of the first, less 1
    int32_t count;                         // >= 1
    size_t index[GS_MAX_VIEWS];            // among all views
    const target_view *view[GS_MAX_VIEWS]; // of the size in use; of several ranks without pixels
    gs_camera camera[GS_MAX_VIEWS];
    const float *exposure[GS_MAX_VIEWS]; // the gains; NULL: none
    float background[3];
    int sh_degree;
    int32_t before;            // views of the step before the first one here
    int64_t at;                // the step of the schedule
    screen_gradient screen;    // what density control sums
    bool taught[GS_MAX_VIEWS]; // in place of a photograph the view has the teachers' picture
    int64_t pose_step;         // how often the view has moved, with this step; < 1: it does not move
    const gs_adam_step *adam;  // NULL: the step wants the gradient itself
    bool only_loss;            // loss and gains are all that is wanted
};

// One rank: a frame of all views, or of one after another.
typedef struct frame_gradient {
    frame f;
    strategy_tuner tuner;
    device_buffer exposure_sums;
    bool one_by_one;
    gs_stream watch; // waits for what the device waits for of other ranks
    // Where views are projected together and rendered apart: all views of the step, their moments, their means' gradients.
    gs_view all;
    device_buffer splats, splat_grad, mean2d;
} frame_gradient;

enum { EXPOSURE_GROUPINGS = 2 };
typedef struct exposure_grouping {
    neighbours *of; // [views]; NULL: colours are not corrected
    int32_t *near;  // [views]: their order
} exposure_grouping;

struct trainer {
    training_state *state;
    ranks *group; // the state's, and so the way
    const training_way *way;
    view_source source;
    const training_settings *settings; // `fitted`
    training_settings fitted; // where settings points to: a budget and the last of several scenes change them
    struct pace pace;
    double before; // seconds of training before this run
    double clock;  // of several ranks under a budget: rank 0's, when all looked last
    density_control density;
    struct retirement retirement;
    mcmc_watch watch;
    device_buffer target, logits;
    step_result *results; // device, [WAITING + GS_MAX_VIEWS]: of the views since the last fetch
    step_weights weights[WAITING + GS_MAX_VIEWS]; // of the same
    int64_t waiting;                              // how many of them there are
    int64_t room;                                 // of report.losses
    picture_cache *pictures;                      // of the source
    int watched_phase;                            // of the last step; -1: none yet
    frame_gradient one;
    frame teacher_frame[TEACHERS_MOST]; // of the teachers' pictures
    device_buffer teacher_pixels;
    target_view taught[GS_MAX_VIEWS];
    exposure_grouping
        groupings[EXPOSURE_GROUPINGS];      // of corrected colours: by place, in the order of the data
    const exposure_grouping *grouping;      // the one in use
    int32_t *near_device;                   // its near
    float (*log_gains)[GS_EXPOSURE_VALUES]; // [views]: scratch
    double started;
    training_report report;
};

// The results of the first `count` waiting views, summed over ranks. A collective; waits for the device.
bool trainer_take_results(trainer *t, int64_t count, step_result *results);

int64_t trainer_batch(const training_settings *settings, int phase); // views of a step in a phase
// Adds the view to those of a step.
void trainer_add_view(trainer *t, int phase, size_t index, step_views *of);

// ---- validation.c

// Whether the validation views are to be measured after this step.
bool validation_is_due(const trainer *t);
// Measures them, and ends training where they gain no more. No losses wait. phase: of the step. False after ranks_fail.
bool validation_look(trainer *t, int phase);

// ---- distillation.c: where training ends early, more scenes are trained up to there from the same start, and then a last
// one, on photographs and on these scenes' pictures of places between the photographs'

// Before the first step: keeps the start if training may end early. False after ranks_fail.
bool distillation_open(trainer *t);
void distillation_close(trainer *t);
// In a step that learns from others: says which views are taught, and moves their cameras; before the place moves.
void distillation_choose(trainer *t, step_views *of);
// Makes the pictures of the taught views, if there are any, with the step's background.
void distillation_render(trainer *t, step_views *of);
// After a step: keeps a scene that is complete, and begins the next. False after ranks_fail.
bool distillation_next(trainer *t);

// ---- gains.c: without them all of this does nothing but for the last

bool exposures_open(trainer *t, fault *why);
// Before a step: once gains are known, says which are 1 in the mean, and gives up gains that deviate little, then and
// later. Then waits for the device.
void exposures_settle(trainer *t);
void exposures_close(trainer *t);
// Queues a step of the gains of the v-th view. sums: device, of gs_exposure_backward.
gs_status exposures_step(trainer *t, const step_views *of, int32_t v, const float *sums);

// The Gaussians that a step renders.
gs_gaussians trainer_gaussians(trainer *t, const step_views *of);
// Sets what the terms of the views weigh. Returns whether one has depth.
bool trainer_weigh(trainer *t, const step_views *of);
double trainer_loss(const step_result *result, const step_weights *weights);
// The picture of a step's view number v before the step's background. view: with pixels. All views have one size.
const uint8_t *trainer_target(trainer *t, const step_views *of, int32_t v, const target_view *view);

// Of alone_way. trainer_scores takes the views of this rank's turn, and each rank's score is of these.
bool trainer_scores(trainer *t, const scored_views *by, float *score);
// The parts of a gradient, each of the views: queue the forward pass and the loss (false after ranks_fail); the
// sums of gs_exposure_backward, [count][GS_EXPOSURE_SUMS]; a step by those of all views; the backward blend.
bool frame_queue_loss(trainer *t, const step_views *of, const gs_gaussians *gaussians);
float *frame_exposure_sums(trainer *t); // memory for GS_MAX_VIEWS
void frame_expose_views(trainer *t, const step_views *of, float *sums);
void frame_step_exposures(trainer *t, const step_views *of, const float *sums);
void frame_queue_backward(trainer *t, const step_views *of);
// For views that are projected together and rendered apart, into t->one: views first .. end - 1 of a step; the projection of
// all, and its adjoint, from the moments of all.
step_views step_views_of(const step_views *of, int32_t first, int32_t end);
void frame_project_all(trainer *t, const step_views *of, const gs_gaussians *gaussians);
void frame_project_all_backward(trainer *t, const step_views *of, const gs_view **view, const float **mean2d);
void frame_gradient_open(trainer *t);
void frame_gradient_close(trainer *t); // but for the clock's sums

C_LINKAGE_END
