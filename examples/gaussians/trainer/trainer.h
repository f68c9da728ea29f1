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
    char warning[160]; // "" or what seems to go wrong, of one rank's Gaussians; it stays
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
    // NULL, or: called once, as soon as training_report.warning is known.
    void (*warn)(void *context, const char *text);
} training_observer;

// Training step by step. All calls are collectives of state->group, and fail after ranks_fail.
// pictures: NULL: all are on the device; or the cache from which they come when a step needs them, of the views to train on;
// their form changes while these are trained on. views: on the device, or with `pictures` as target_view_list leaves them.
// All must outlive the trainer. NULL: *why is set.
trainer *trainer_open(picture_cache *pictures, training_state *state, const target_view *views,
                      size_t view_count, const training_settings *settings, fault *why);
// Whether no step is left: by the iterations, or by the budget.
bool trainer_is_over(const trainer *t);
bool trainer_step(trainer *t);
// The report so far, with all losses; its losses are the trainer's. NULL: failed. Waits for the device.
const training_report *trainer_report(trainer *t);
void trainer_close(trainer *t); // NULL is harmless

// Trains from where the state is (state->place.views <= settings->iterations, without a budget) on view_count >= 1
// views, which are not all set aside. A collective of state->group; with DISTWAR_FIXED the number of ranks
// does not change the result. A step on B views has sqrt(B) times the learning rates, and the sum of the views' gradients.
// views, pictures: as of trainer_open. Fails if the loss
// stops being finite. observer: NULL, or as above. *report, whose losses are the trainer's until training_report_close, is
// written on success.
bool train_on(picture_cache *pictures, training_state *state, const target_view *views, size_t view_count,
              const training_settings *settings, const training_observer *observer, training_report *report,
              fault *why);
// train_on with all pictures on the device.
bool train(training_state *state, const target_view *views, size_t view_count,
           const training_settings *settings, const training_observer *observer, training_report *report,
           fault *why);
void training_report_close(training_report *report); // harmless on {0}

// ---- poses: refined before training on small pictures first, where an error is a few pixels: a picture says where
// to go only as far as its details reach. Each size trains a scene of its own, so that what the scene has
// learned from wrong poses does not outlive them.

enum { POSE_MAX_LEVELS = 12 };

typedef struct pose_levels {
    ranks *group;       // of one
    int levels, finest; // pictures are divided by 2^levels, ..., 2^finest, unless levels is 0
    int64_t steps;      // of training at each size; poses stay in the first third
    double rate;        // of poses at the first step of each size, in pixels of that size
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
// Refines poses that have not moved yet, and measures them on the scene that it finds. Of `settings` everything but
// numbers of steps, density control, a random background and the poses' rate is used.
bool pose_levels_refine(refined_pose *poses, const target_view *views, size_t count,
                        const training_settings *settings, const pose_levels *levels, fault *why);

// Refines the poses of views on a scene that stays: the views' cameras take them. `steps` per view. The scene's
// Gaussians do not change; other parts of the state do. pictures: as of trainer_open, of these views.
bool align_views(picture_cache *pictures, training_state *state, target_view *views, size_t count,
                 const training_settings *settings, int64_t steps, fault *why);

C_LINKAGE_END
