// SPDX-License-Identifier: MIT
// The training loop, of one rank or of several. A step takes one random view or several: forward, loss, backward, Adam.
// Knows nothing of files.
#pragma once

#include "plan.h"
#include "strategies/strategies.h"
#include <signal.h>

C_LINKAGE_BEGIN

// The state of training so far.
typedef struct training_report {
    int64_t first_iteration; // of this run; above 1 if the state had been trained before
    int64_t iterations;      // the last one done
    int64_t step_views;      // views of the last step
    double *losses;          // of this run, from first_iteration to iterations; with the weighted depth
    int64_t loss_window;     // steps in each of the two means below: min(100, steps of this run / 10 + 1)
    double first_loss, last_loss;
    bool stopped;      // training ended because of training_observer.end
    bool validating;   // some views are, and the last step did not train on them yet
    double seconds;    // of this run, without the time of its observer
    double waited;     // seconds of these in which the host waited for the lists' lengths
    int64_t repeats;   // forward passes that were repeated because the lists had no room
    stage_clock clock; // sums of GPU time, up to two steps ago while training runs
    strategy_report strategy;
} training_report;

// Looks on while training runs, on all ranks alike.
typedef struct training_observer {
    // Called after every step that reaches or passes a multiple of `interval`, and after the last. The device may
    // still be at work on the default stream. May read the state, not change it, and call collectives. False ends
    // training as a failure.
    bool (*observe)(void *context, const training_state *state, const training_report *report, fault *why);
    void *context;
    int64_t interval; // >= 1; each call waits for the losses
    // NULL, or: 1 ends training after the current step; of several ranks on any one, after ten steps at most.
    const volatile sig_atomic_t *end;
    // NULL, or, on one rank: called after every step; true: observe is called too. Waits for nothing.
    bool (*wants)(void *context);
} training_observer;

// Training step by step. All calls are collectives of state->group, and fail after ranks_fail.
// pictures: NULL: the views are on the device; or the cache of these views, which are listed then. All must outlive the
// trainer. NULL: *why is set.
trainer *trainer_open(picture_cache *pictures, training_state *state, const target_view *views,
                      size_t view_count, const training_settings *settings, fault *why);
bool trainer_step(trainer *t); // unless t->over
// The report so far, with all losses; its losses are the trainer's. NULL: failed. Waits for the device.
const training_report *trainer_report(trainer *t);
void trainer_close(trainer *t); // NULL is harmless

// Trains from where the state is to the end on view_count >= 1 views, of which some are trained on. With DISTWAR_FIXED the
// number of ranks does not change the result. Fails if the loss stops being finite. observer: NULL, or as above. report: NULL,
// or for training_report_close.
bool train_on(picture_cache *pictures, training_state *state, const target_view *views, size_t view_count,
              const training_settings *settings, const training_observer *observer, training_report *report,
              fault *why);
void training_report_close(training_report *report); // harmless on {0}

// ---- poses are refined before training on small pictures, where an error is a few pixels: a picture says where to go only as
// far as its details reach. Each size trains a scene of its own, so that what it learns from wrong poses does not outlive them

enum { POSE_MAX_LEVELS = 12 };

typedef struct pose_levels {
    ranks *group;            // of one
    picture_cache *pictures; // of train_on
    int levels, finest;      // pictures are divided by 2^levels, ..., 2^finest, unless levels is 0
    int64_t steps;           // of training at each size; poses stay in the first third
    double rate;             // of poses at the first step of each size, in pixels of that size
    // Makes the first scene of a size: SH degree 0, at most `most` Gaussians. For scene_close.
    bool (*start)(void *context, size_t most, gs_gaussians *host, fault *why);
    // Sees the poses, [count], that pictures divided by 2^level led to. NULL: not called.
    void (*done)(void *context, int level, const refined_pose *poses);
    void *context;
} pose_levels;

// The most levels, up to `wanted`, at which every picture has 64 pixels each way.
int pose_levels_of(const target_view *views, size_t count, int wanted);
// Starts the poses of the views on a scene, of which this rank has all.
bool poses_start_in(refined_pose *poses, const target_view *views, size_t count, const training_state *state,
                    fault *why);
// Refines poses that have not moved yet, and measures them on the scene that it finds.
bool pose_levels_refine(refined_pose *poses, const target_view *views, size_t count,
                        const training_settings *settings, const pose_levels *levels, fault *why);

// Refines the poses of views on a scene whose Gaussians stay, by `steps` per view: the views' cameras take them. Other parts
// of the state change.
bool align_views(picture_cache *pictures, training_state *state, target_view *views, size_t count,
                 const training_settings *settings, int64_t steps, fault *why);

// ==== the state of a trainer, for this folder and for other ways to a step's gradient (ranks/ways)

enum {
    WAITING = 100 // views whose losses stay on the device, so that a step does not wait for its own
};

// What a view leaves on the device. Of several ranks, this one's share.
typedef struct step_result {
    double color[3]; // of gs_loss
    double term[LOSS_TERM_COUNT];
} step_result;

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
    int64_t at;                // the step of the schedule
    screen_gradient screen;    // what density control sums
    bool taught[GS_MAX_VIEWS]; // in place of a photograph the view has the teachers' picture
    int64_t pose_step;         // how often the view has moved, with this step; < 1: it does not move
    const gs_adam_step *adam;  // NULL: the step wants the gradient itself
    bool only_loss;            // loss and gains are all that is wanted
};

struct trainer {
    training_state *state;
    ranks *group; // the state's, and so the way
    const training_way *way;
    view_source source;
    const training_settings *settings; // `fitted`
    training_settings fitted; // where settings points to: a budget and the last of several scenes change them
    struct pace pace;
    double before; // seconds of training before this run
    double clock;  // when it was looked at last; of several ranks under a budget rank 0's
    bool over; // no step is left, by the iterations or the budget; the average has replaced the parameters
    struct {
        device_buffer score, splats;
        device_buffer logits; // of all Gaussians, where this rank has not all
    } retirement;
    device_buffer target, logits;
    step_result *results; // device, [WAITING + GS_MAX_VIEWS]: of the views since the last fetch
    double weights[WAITING + GS_MAX_VIEWS][LOSS_TERM_COUNT]; // of the same; 0: of a view without the term
    int64_t waiting;                                         // how many of them there are
    size_t room;                                             // of report.losses
    float mean_rate;                                         // of this step
    frame rendered; // views are projected together, and rendered together or one after another
    bool one_by_one;
    strategy_tuner tuner;
    device_buffer exposure_sums;
    gs_stream watch;                    // waits for what the device waits for of other ranks
    frame teacher_frame[TEACHERS_MOST]; // of the teachers' pictures
    device_buffer teacher_pixels;
    target_view taught[GS_MAX_VIEWS];
    // Of corrected colours, [views]: neighbours by place and in the order of the data, of which `grouping` is in use.
    int grouping;
    neighbours *near_of[2];
    int32_t *near[2], *near_device;         // the orders of the groups, and the one in use
    float (*log_gains)[GS_EXPOSURE_VALUES]; // [views]: scratch
    double started;
    training_report report;
};

int64_t trainer_batch(const training_settings *settings, bool small); // views of a step

// ---- distillation.c

// Before the first step: keeps the start if training may end early. False after ranks_fail.
bool distillation_open(trainer *t);
void distillation_close(trainer *t);
// In a step that learns from others: says which views are taught, and moves their cameras; before the place moves.
void distillation_choose(trainer *t, step_views *of);
// Makes the pictures of the taught views, if there are any, with the step's background.
void distillation_render(trainer *t, step_views *of);
// After a step: keeps a scene that is complete, and begins the next. False after ranks_fail.
bool distillation_next(trainer *t);

// ---- gradient.c: without them all of this does nothing but for the last

bool exposures_open(trainer *t, fault *why);
// Before a step: once gains are known, says which are 1 in the mean, and gives up gains that deviate little, then and
// later. Then waits for the device.
void exposures_settle(trainer *t);
void exposures_close(trainer *t);
// Queues a step of the gains of the v-th view. sums: device, gs_loss_image.gain_sums.
gs_status exposures_step(trainer *t, const step_views *of, int32_t v, const float *sums);

// The Gaussians that a step renders: with dropout they have opacities of their own, in t->logits.
gs_gaussians trainer_gaussians(trainer *t, const step_views *of);
// Sets what the terms of the views weigh. Returns whether one has depth.
bool trainer_weigh(trainer *t, const step_views *of);
// The picture of a step's view number v before the step's background. view: with pixels. All views have one size.
const uint8_t *trainer_target(trainer *t, const step_views *of, int32_t v, const target_view *view);

// Of alone_way: renders the views of this rank's turn by the frame of the steps, whose last picture is gone; the score is of
// these. Waits for the device. Cost: a forward and a backward blend of each.
bool trainer_scores(trainer *t, const scored_views *by, float *score);
// The gradient of a step by t->rendered, as that of training_way, where this rank renders the views first .. first + count - 1.
// exchange: NULL, or brings all ranks the gain sums of all views, [count][GS_EXPOSURE_SUMS], and, unless of->only_loss, their
// moments (false after ranks_fail).
bool frame_gradient_of(trainer *t, const step_views *of, int32_t first, int32_t count,
                       bool (*exchange)(trainer *t, const step_views *of, float *gain_sums),
                       const gs_view **view, const float **mean2d);

C_LINKAGE_END
