// SPDX-License-Identifier: MIT
// A run of `dsplat train`: train_options.c has its options, train_start.c its data and first Gaussians, train.c what each
// rank does.
#pragma once

#include "checkpoint.h"
#include "commands/command.h"
#include "plan.h"
#include "ranks.h"
#include "live/live_page.h"
#include "start.h"

C_LINKAGE_BEGIN

typedef struct train_options {
    const char *data, *output, *background, *log, *report, *checkpoint, *resume, *perturb_poses,
        *write_cameras, *listen, *depth, *budget, *resolutions, *schedule, *from,
        *validate; // checkpoint: of -o
    int64_t downscale, holdout, random, eval_every, checkpoint_every, align_steps;
    int64_t gpus; // 0: one
    const char *nccl;
    bool launched; // this is one of several ranks that mpirun, srun or torchrun has started
    ranks_place place;
    uint64_t arguments; // a hash of the command line, the same on all ranks
    const char *title;  // of pages
    double memory;
    training_settings recipe;                   // iterations: under a budget, of which they follow, 0
    int reduce;                                 // index into blend_strategies
    const char *strategy_names[STRATEGY_NAMES]; // choices of --reduce
    double perturb_degrees, perturb_extents;    // of --perturb-poses
    bool view, undistort, mask_from_alpha;
} train_options;

train_options train_options_default(void);
enum { TRAIN_GROUPS = 4 }; // that --help prints
// Adds the rows of all options, which point to `options`. A row is free_on_resume if the result of the iterations does not
// depend on the option. A checkpoint does not record such an option, so --resume accepts another value.
void train_options_list(train_options *options, option_table *table);
// After parsing: fails if the options contradict each other. Completes options->recipe; --reproducible sets
// options->reduce, a launcher sets options->gpus.
bool train_options_check(train_options *options, int argc, char **argv, fault *why);
// FNV-1a, from TRAIN_HASH_START on.
#define TRAIN_HASH_START 0xcbf29ce484222325u
uint64_t train_hash(uint64_t hash, const void *bytes, size_t count);

// Depth maps, each fitted to the points that its view sees.
typedef struct train_depth {
    size_t maps, fitted;
    double mean_points, mean_error; // of the fitted (start.h)
} train_depth;

typedef struct train_run {
    const train_options *options;
    const option_spec *table; // of the options, for the checkpoint, the log and the report
    const option_spec *usual; // the same with all defaults
    dataset data;
    view_split split;
    bool random_start;    // the start, because of --random or because there are no points
    stereo_result stereo; // of data without points; 0 views: it was not tried
    double stereo_seconds;
    validation_views validation; // of its training views: --validate
    training_data known;         // of the split
    pose *given, *now;           // of all its views: as the data has them; scratch
    run_poses poses;             // how those of the training views changed
    train_depth depth;
    char *key, *default_key; // the checkpoint's settings
    training_settings settings;
    gs_gaussians first;      // host: before the first step, unless it resumes
    const training_way *way; // of several ranks; NULL: of one
    training_memory memory;  // of a GPU
    training_state state;
    training_report report;
    run_log log;
    saver checkpoint;
    int stopped_by; // the signal that ended training, whose scene and checkpoint are written; or 0
    // Of a rank, train.c:
    ranks *group;
    bool cached;            // pictures come when they are needed
    picture_cache pictures; // to train on, likewise
    picture_cache cache;    // of all views, whole, to measure
    shown_views shown;
    page_source source; // of the page
    live_page *page;    // --view; else NULL
} train_run;

// Reads the data, whose views are then on the host only, prepares the run and makes the first Gaussians, unless it resumes.
// writes: fails also if the outputs cannot be written. Closed also after a failure.
bool train_prepare(train_run *run, bool writes, fault *why);
void train_close(train_run *run);
// Seconds of an iteration from `first` Gaussians on a CPU, within a factor of two; *pixels: of these for pixels.
double train_cpu_seconds(const train_run *run, int64_t first, double *pixels);
// Makes at most `most` Gaussians of SH degree 0, for pose_levels; context: the run.
bool train_start_small(void *context, size_t most, gs_gaussians *host, fault *why);

// With refined poses in the state: the cameras of held-out views follow the scene, which has moved with the
// training poses. Each is moved by the similarity between the training poses as given and as refined. Those
// of training views stay: they are part of what a checkpoint belongs to.
void train_poses_place_held_out(train_run *run);
// After training: the cameras of training views take their refined poses too.
void train_poses_adopt(train_run *run);
// How far the training poses, NULL: the training views' cameras, are from those given, after their similarity;
// distances in extents.
pose_difference train_poses_difference(train_run *run, const refined_pose *poses);
// Writes the poses of all cameras, with the lenses of their photographs, as transforms.json.
bool train_poses_write(const train_run *run, fault *why);

C_LINKAGE_END
