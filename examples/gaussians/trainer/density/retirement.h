// SPDX-License-Identifier: MIT
// Gaussians that no view needs: those that contribute least to every view make room for splits and relocations.
#pragma once

#include "density/density_control.h"
#include "frames/frame.h"
#include "frames/target_view.h"

C_LINKAGE_BEGIN

typedef struct retirement {
    device_buffer score, workspace, splats;
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
// The cameras that are asked from `first` on, spread evenly, with their poses of the state if it refines them: at most
// by->batch, 1..GS_MAX_VIEWS. Returns their number.
int32_t retirement_cameras(const training_state *state, const scored_views *by, size_t first,
                           gs_camera *camera);
// Ranks with the whole scene take turns.
typedef struct scored_turn {
    int own, count;
} scored_turn;
// Renders these views and scores each Gaussian by the largest sum of alpha T over the pixels of a view. Views that are rendered
// together have cameras of one size and model. f: memory for the pictures, such as that of the steps, whose last picture is
// gone. policy: of the backward blend. Waits for the device. Cost: a forward and a backward blend of each.
void retirement_score(retirement *r, frame *f, const training_state *state, const scored_views *by,
                      const scored_turn *turn, distwar_policy policy, float *score);
// Makes those dead whose score is at most `part` times the upper quartile. score: of all Gaussians. A collective; false after
// ranks_fail. Cost: where this rank has not all Gaussians, also their opacities.
bool retirement_end(retirement *r, const training_state *state, const float *score, double part);

C_LINKAGE_END
