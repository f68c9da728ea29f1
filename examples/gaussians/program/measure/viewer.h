// SPDX-License-Identifier: MIT
// Pictures and quality of a scene while it is trained. All calls are collectives of the state's group.
#pragma once

#include "training_state.h"

C_LINKAGE_BEGIN

typedef struct viewer {
    const training_state *state;
    shown_views shown;
} viewer;

// As quality_measure, of the views first .. first + count - 1. All ranks get the results. each: [count], or NULL.
bool viewer_measure(const viewer *v, size_t first, size_t count, quality *mean, quality *each, fault *why);
// The picture of a view, on all ranks.
bool viewer_picture(const viewer *v, size_t index, image *out, fault *why);

C_LINKAGE_END
