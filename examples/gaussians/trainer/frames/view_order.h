// SPDX-License-Identifier: MIT
// The order of views: a random permutation of all views, then another one. It is a function of the step, so
// a resumed run continues with the same views.
#pragma once

#include "files/fault.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

// The purposes of random numbers in training: the second argument of random_at.
typedef enum random_purpose {
    RANDOM_VIEW_ORDER,
    RANDOM_BACKGROUND,
    RANDOM_DENSITY, // density control; libdistwar_gs derives more purposes from it
    RANDOM_POSES,
    RANDOM_DEPTH_FIT,
    RANDOM_STEREO,
    RANDOM_LESSONS
} random_purpose;

typedef struct view_order {
    size_t count;
    uint64_t seed;
    int64_t round; // the round that `order` is for; -1: none yet
    size_t *order; // a permutation of 0..count-1
} view_order;

bool view_order_open(view_order *order, size_t count, uint64_t seed, fault *why); // count >= 1
// The view of step 0, 1, ... Cost: `count` random numbers when the round changes, otherwise constant.
size_t view_order_at(view_order *order, int64_t step);
void view_order_close(view_order *order);

C_LINKAGE_END
