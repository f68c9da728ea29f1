// SPDX-License-Identifier: MIT
// Gaussians that no view needs: those that contribute least to every view make room for splits and relocations.
#pragma once

#include "density/density_control.h"
#include "sharded.h"
#include "frames/frame.h"
#include "frames/target_view.h"

C_LINKAGE_BEGIN

typedef struct retirement {
    device_buffer score, workspace, splats;
    device_buffer scores, logits; // of all ranks
    ranks *peers;    // of the caller: ranks with the whole scene each, which score some views each; or NULL
    bool one_by_one; // of the caller: steps render their views apart
} retirement;        // starts as {0}

void retirement_close(retirement *r);
// Whether density control begins an action with a retirement, after a step as of density_is_due.
bool retirement_is_due(const density_settings *settings, int64_t before, int64_t at);
// How many are due after the step `at` of the schedule.
int64_t retirements_left(const density_settings *settings, int64_t at);
// How many of the views are asked: all below 100, every second one from there, up to every fourth from 200 on.
// Neighbours see the same.
size_t retirement_views(size_t count);
// Renders these views, spread evenly, `batch` at a time, 1..GS_MAX_VIEWS, with their poses of the state if it refines
// them; scores each Gaussian by the largest sum of alpha T over the pixels of a view; and makes those dead whose score
// is at most settings->retired times the upper quartile. Views that are rendered together have cameras of one size and
// model. f: memory for the pictures, such as that of the steps, whose last picture is gone. policy: of the backward blend.
// Waits for the device. Cost: a forward and a backward blend of each. False after ranks_fail.
bool retire_least(retirement *r, frame *f, const training_state *state, const target_view *views,
                  size_t count, int64_t batch, const density_settings *settings, distwar_policy policy);

// retire_least on several ranks, whose number does not change what dies with DISTWAR_FIXED. A collective; false after
// ranks_fail. Cost: also the scores and opacities of all Gaussians on each rank.
typedef struct retirement_place {
    sharded *shared;
    distwar_policy policy;
} retirement_place;
bool retire_least_of_ranks(retirement *r, const retirement_place *place, const training_state *state,
                           const target_view *views, size_t count, int64_t batch,
                           const density_settings *settings);

C_LINKAGE_END
