// SPDX-License-Identifier: MIT
// Refines poses before training on small pictures first, where an error is a few pixels: a picture says where
// to go only as far as its details reach. Each size trains a scene of its own, so that what the scene has
// learned from wrong poses does not outlive them.
#pragma once

#include "trainer.h"

C_LINKAGE_BEGIN

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
