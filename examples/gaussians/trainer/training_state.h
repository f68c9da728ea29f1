// SPDX-License-Identifier: MIT
#pragma once

#include "distwar_gs.h"
#include "frame.h"
#include "ranks.h"
#include "camera.h"

C_LINKAGE_BEGIN

// ---- the average: the mean of the parameters over the last steps, which replaces them at the end. Rates that still learn
// fast leave noise in the parameters; the mean has less of it than slower rates would leave

typedef struct parameter_average {
    int64_t samples;      // sets of parameters in the mean
    gs_gaussians average; // device; without memory while samples is 0
} parameter_average;      // starts as {0}

// Copies the mean, if there is one, to `to`, and closes it.
void parameter_average_take(parameter_average *a, const gs_gaussians *to);
void parameter_average_close(parameter_average *a); // harmless on {0}

// ---- whether training still learns what validation views confirm, or only their noise: pure functions of trainer.c

enum { LEARNING_MOST = 32 };

// The losses on views that training sees and on validation views, measured now and then on pictures of one size.
typedef struct learning_curve {
    double sum;           // of the losses of the training views since the last measurement
    int64_t seen;         // how many they are
    int32_t count, small; // measurements; whether of small pictures
    float trained[LEARNING_MOST], validation[LEARNING_MOST]; // natural logarithms of mean losses
} learning_curve;                                            // starts as {0}

// Adds a measurement: the mean of the losses seen, which are forgotten, and of the validation views. Pictures of another size
// begin anew. A full curve keeps every second measurement.
void learning_note(learning_curve *curve, bool small, double validation);
// Whether the validation views have a loss that is higher by a fifth, and the training views' loss has fallen by a ninth
// since some measurement, while the lowest loss of the validation views since then is 0.15 of that lower: the rest of what
// is learned is noise.
bool learning_is_over(const learning_curve *curve);
bool learning_curve_is_possible(const learning_curve *curve); // of one that was read from a file

// ---- the way: how a scene is trained, by one GPU, which is the trainer's own way, or by several (ranks/ways). The trainer and
// the program do not ask which it is. All calls but `range`, `few` and `close` are collectives of the state's group; what
// returns bool is false after ranks_fail

typedef struct trainer trainer;
typedef struct training_state training_state;
typedef struct training_settings training_settings;
typedef struct step_views step_views;

// Rows first .. first + count - 1 of all Gaussians.
typedef struct row_range {
    int64_t first, count;
} row_range;

// The views by which Gaussians are scored: retirement_cameras chooses them.
typedef struct scored_views {
    const target_view *views; // their cameras are read
    const size_t *index;      // [count]: of which these; NULL: the first ones
    size_t count;
    int64_t batch; // views at once; they have cameras of one size and model
} scored_views;

// What is looked at while a scene is trained.
typedef struct shown_views {
    const target_view *views; // all; on the device unless there are `pictures`
    picture_cache *pictures;  // of all views, or NULL
    const float *background;  // [GS_CHANNELS]
} shown_views;

typedef struct training_way {
    const char *about; // for the start of a run; NULL: nothing
    // Steps render whole views by the trainer's frame: these have times of stages, a tuner, and Adam in the backward
    // projection. Without it a step fetches the pictures that it needs from the cache itself.
    bool frames;
    // What a rank keeps between calls: training_state.kept. NULL after ranks_fail. The function NULL: nothing is kept.
    void *(*open)(ranks *group);
    void (*close)(void *kept);
    // Why one GPU may be faster than so many, or NULL.
    const char *(*few)(const training_settings *settings, int ranks);

    // Queues the loss of all views into the trainer's results and its gradient into state->gradients, or with of->adam the
    // step by it, and steps the views' exposures. Undefined with of->only_loss: *view: this rank's Gaussians as the step's
    // cameras see them, and *mean2d: their screen-space gradients of->screen, [views][count][2]; NULL: nothing to sum.
    bool (*gradient)(trainer *t, const step_views *of, const gs_view **view, const float **mean2d);
    // score: device, zeros, of all Gaussians: becomes the largest sum of alpha T over the pixels of a view.
    bool (*scores)(trainer *t, const scored_views *by, float *score);
    // Fails if ranks that should have the same scene have not. NULL: they need not.
    bool (*agree)(trainer *t);

    // Where Gaussians lie. The functions NULL: each rank has all.
    row_range (*range)(const ranks *group, int64_t all); // this rank's rows
    // Brings rows of an array, with `bytes` bytes each, to rank 0 or to all ranks. own: this rank's. to: device.
    bool (*gather)(const training_state *state, const void *own, int64_t bytes, row_range rows, bool to_all,
                   void *to);
    // Shares `all` rows out anew, new ones among them.
    bool (*grow)(training_state *state, int64_t all);
    // gs_refill over all Gaussians; `existing` is of all.
    bool (*refill)(training_state *state, const gs_refill_rules *rules);

    // As training_state_render. NULL: each rank can do so by itself.
    bool (*render)(const training_state *state, const shown_views *shown, size_t index, frame *f);
} training_way;

extern const training_way alone_way; // one GPU

// ---- the state: everything that the rest of a run depends on, apart from its settings and its views, so that it continues
// from a saved one. A random number is a function of the seed, its purpose, the iteration and an index (random_at). Each rank
// has all Gaussians, or neighbouring ones, with all that belongs to them: that is the way's choice

enum { SCHEDULE_MOST = 1000000000 }; // views and seconds of a place

// Where a run is: the one clock, saved whole, the same on all ranks. place_advance moves it; trainer.c sets `ended`,
// distillation.c the scenes. All schedules go by `at`: without a budget a step of theirs is a view.
typedef struct run_place {
    int64_t views;      // seen by all ranks together, of all scenes
    int64_t steps;      // of Adam, on the Gaussians that are trained now
    int64_t at, before; // the step of training that runs, or the last one, goes from `before` to `at`
    double length; // the views that the whole budget was worth when that was known; 0: not yet, or no budget
    double progress; // 0..1: at = 1 + progress times the schedule's length less 1; 0 without a budget
    double seconds;  // of training so far; 0 without a budget
    // Where the validation views said that training learned only noise: a third as many views then do the rest of the
    // schedule, from the end of density control on. 0: not yet.
    int64_t ended;
    int32_t scene,
        scenes; // teachers that are complete, and in all (distillation.c); 0 in all: not known, or none
    // Of a budget that is worth several runs of the usual length, else 0: the views of such a run, which is the first; and
    // when that is complete its seconds and the mean loss of the validation views in it.
    int64_t first_run;
    double first_seconds, validation_loss;
    int64_t began; // views before the scene that is trained
} run_place;

// Which gains are 1 in the mean: at first those of all views. Where gains of neighbours are alike, by place or in the order of
// the data, the scene shows what they have in common, and then those of each group are.
typedef enum exposure_rule {
    EXPOSURE_FIRST,
    EXPOSURE_TOGETHER,
    EXPOSURE_NEIGHBOURS,
    EXPOSURE_IN_ORDER
} exposure_rule;

enum { TEACHERS_MOST = 4 };

// What distillation.c keeps, whole on every rank; count 0 where there is none.
typedef struct teacher_scenes {
    gs_gaussians start;                  // the Gaussians before the first step, in host memory
    gs_gaussians teacher[TEACHERS_MOST]; // on the device
} teacher_scenes;

struct training_state {
    ranks *group; // NULL: of a state that only describes Gaussians
    const training_way *way;
    void *kept; // of the way
    run_place place;
    learning_curve learning; // the same on all ranks
    int64_t first, all;      // the place of this rank's first Gaussian among all, and their number
    int64_t capacity;        // rows that every array has memory for; >= gaussians.count
    // Device: this rank's Gaussians. All have the same count and sh_degree.
    gs_gaussians gaussians, first_moment, second_moment;
    parameter_average average; // of the last steps
    float *density; // [count][2], since the last density step: sum of |mean2d_gradient|, number of views
    // Device: for each view the logarithms of the gains that correct its colours (gs_loss_image),
    // [exposures][GS_EXPOSURE_VALUES]; the same on all ranks. 0 and NULL if colours are not corrected.
    int64_t exposures;
    exposure_rule exposed;
    float *exposure;
    // Host: the pose of each view, [poses]; the same on all ranks. 0 and NULL if poses are not refined.
    int64_t poses;
    refined_pose *pose;
    teacher_scenes distillation;
    // Scratch. The only part that is not saved: no step reads what an earlier one left here.
    gs_gaussians gradients;
};

// Where a scene is trained.
typedef struct training_place {
    ranks *group;
    const training_way *way; // NULL: alone_way, of a group of one
} training_place;

// Failures of the device end the program, in all functions here.

// The state before the first step: by one GPU, by several (false after ranks_fail), with Gaussians that are zeros. host: all
// Gaussians; the same on all ranks, each of which takes its rows.
void training_state_open(training_state *state, ranks *group, const gs_gaussians *host);
bool training_state_open_on(training_state *state, const training_place *place, const gs_gaussians *host);
bool training_state_open_empty(training_state *state, const training_place *place, int64_t count,
                               int sh_degree);
// All Gaussians as they are, whole on the device. A collective. False after ranks_fail, with *out {0}.
bool training_state_copy(const training_state *state, gs_gaussians *out);
// Replaces the Gaussians by others (whole, in any memory): all that belongs to Gaussians is as before the first step.
void training_state_restart(training_state *state, const gs_gaussians *start);
// Gives each of `views` views gains of 1.
void training_state_open_exposures(training_state *state, int64_t views);
// Gives each of `views` views a pose, zeros. Fails if there is no memory.
bool training_state_open_poses(training_state *state, int64_t views, fault *why);
// Sets whether all scenes of the state are antialiased, which files do not keep.
void training_state_antialias(training_state *state, bool antialias);
int64_t training_state_count(const training_state *state); // of all Gaussians
// A collective: renders a view as its camera is now; the frame's picture is of it, on all ranks.
bool training_state_render(const training_state *state, const shown_views *shown, size_t index, frame *f,
                           fault *why);
// A collective: renders `count` >= 1 views, those of `index` or from `first` on, and compares each with its picture. mean: over
// them; each: [count], or NULL; the same on all ranks.
bool quality_measure(const training_state *state, const shown_views *shown, const size_t *index, size_t first,
                     size_t count, quality *mean, quality *each, fault *why);
// Rows of an array of all Gaussians, with `bytes` bytes each, for rank 0: in the array, or in `block` where they come from
// other ranks. own: this rank's. NULL after ranks_fail. A collective.
const void *training_state_rows(const training_state *state, const void *own, int64_t bytes, row_range rows,
                                device_buffer *block);
// A collective: sets the number of all Gaussians, at least those that there are. New rows are the last, with anything in
// them. The memory of one rank doubles, but not for over `most` rows, which no later call will need. False after ranks_fail.
bool training_state_grow(training_state *state, int64_t count, int64_t most);
// Sets the number of Gaussians; rows must have been reserved, and are not cleared.
void training_state_set_count(training_state *state, int64_t all);
size_t training_state_density_bytes(int64_t rows); // of `density`
void training_state_close(training_state *state);  // harmless on {0}
// The step of the schedule that decides the rates of this step of training.
int64_t schedule_step(const run_place *place);
// Whether training can continue from a place that was read from a file, under a budget of time.
bool place_is_possible(const run_place *place);

C_LINKAGE_END
