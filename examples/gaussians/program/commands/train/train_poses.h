// SPDX-License-Identifier: MIT
// The poses of a training run: as the data has them, perturbed, refined, compared, written.
#pragma once

#include "dataset.h"
#include "record/run_log.h"
#include "training_state.h"
#include "views.h"

typedef struct train_poses {
    view_split *split; // not owned
    pose *given;       // of all its views, as the data has them
    pose *now;         // likewise; scratch
    double extent;     // of the scene
    run_poses record;
} train_poses; // starts as {0}

// Remembers the poses of the views, then perturbs those of the training views: by an angle and by a distance
// in extents.
bool train_poses_open(train_poses *p, view_split *split, double extent, double degrees, double distance,
                      uint64_t seed, fault *why);
void train_poses_close(train_poses *p);

// With refined poses in the state: the cameras of held-out views follow the scene, which has moved with the
// training poses. Each is moved by the similarity between the training poses as given and as refined. Those
// of training views stay: they are part of what a checkpoint belongs to.
void train_poses_place_held_out(train_poses *p, const training_state *state);
// After training: the cameras of training views take their refined poses too.
void train_poses_adopt(train_poses *p, const training_state *state);
// How far the training poses, NULL: the training views' cameras, are from those given, after their similarity;
// distances in extents.
pose_difference train_poses_difference(train_poses *p, const refined_pose *poses);
// Writes the poses of all cameras, with the lenses of their photographs, as transforms.json.
bool train_poses_write(const train_poses *p, const dataset *data, const char *path, fault *why);
