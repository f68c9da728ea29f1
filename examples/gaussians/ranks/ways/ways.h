// SPDX-License-Identifier: MIT
// The ways of several GPUs to train one scene (training_state.h): the whole scene on each (data parallel), or a part on each (model
// parallel).
#pragma once

#include "trainer.h"

C_LINKAGE_BEGIN

// Each rank has the whole scene and renders some of the views of a step.
extern const training_way whole_way;
// Each rank has some of the Gaussians and renders rows of tiles. With DISTWAR_FIXED the result has the bits of one GPU.
extern const training_way parts_way;

// What is faster: the whole scene on each where a step has a view for each of them and the scene is small, but not with
// DISTWAR_FIXED; else parts. first: the Gaussians before the first step. NULL: one rank, the trainer's own way.
const training_way *way_of_ranks(const training_settings *settings, int64_t first, int ranks);

C_LINKAGE_END
