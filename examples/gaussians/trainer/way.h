// SPDX-License-Identifier: MIT
// How a scene is trained: by one GPU, which is the trainer's own way, or by several (ranks/ways). The trainer and the
// program call these functions and do not ask which way it is.
//
// All calls but `range`, `few` and `close` are collectives of the state's group. What returns bool is false after ranks_fail.
#pragma once

#include "distwar_gs_density.h"
#include "distwar_gs_split.h"
#include "frames/picture_cache.h"
#include "frames/quality.h"
#include "ranks.h"

C_LINKAGE_BEGIN

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
    size_t count;
    int64_t batch; // views at once; they have cameras of one size and model
} scored_views;

// What is looked at while a scene is trained.
typedef struct shown_views {
    const target_view *views; // all; on the device unless there are `pictures`
    picture_cache *pictures;  // of all views, or NULL
    distwar_policy policy;
    int64_t batch; // views at once, 1..GS_MAX_VIEWS
    float background[GS_CHANNELS];
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
    // step by it, and steps the views' exposures. *view, *mean2d: as those of density_step, undefined with of->only_loss.
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
    // gs_relocate and gs_split over all Gaussians; `existing` is of all.
    bool (*relocate)(training_state *state, const gs_relocation *relocation);
    bool (*split)(training_state *state, const gs_split_rules *rules);

    // As quality_measure, and the picture of a view, on all ranks. NULL: each rank can do so by itself.
    bool (*measure)(const training_state *state, const shown_views *shown, size_t first, size_t count,
                    quality *mean, quality *each);
    bool (*picture)(const training_state *state, const shown_views *shown, size_t index, image *out);
} training_way;

extern const training_way alone_way; // one GPU

C_LINKAGE_END
