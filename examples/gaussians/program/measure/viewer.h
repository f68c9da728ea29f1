// SPDX-License-Identifier: MIT
// Pictures and quality of a scene while it is trained, on one rank or on several. All calls are collectives of all ranks.
#pragma once

#include "measure/quality.h"
#include "sharded.h"
#include "frames/picture_cache.h"

C_LINKAGE_BEGIN

typedef struct viewer {
    ranks *group;
    const target_view *views;      // all; on the device unless there are `pictures`
    const gs_gaussians *gaussians; // this rank's
    picture_cache *pictures;       // of all views; NULL: one rank has them on the device
    // Of several ranks:
    sharded *shared;
    distwar_policy policy; // with DISTWAR_FIXED pictures have the same bits on any number of ranks
    int64_t batch;         // views at once, 1..GS_MAX_VIEWS
    float background[3];
} viewer;

// As quality_measure, of the views first .. first + count - 1. The ranks that render rows of a view measure these; all
// ranks get the results. each: [count], or NULL. PSNR does not depend on the number of ranks, SSIM but for rounding of
// doubles.
bool viewer_measure(const viewer *v, size_t first, size_t count, quality *mean, quality *each, fault *why);
// The picture of a view, on all ranks.
bool viewer_picture(const viewer *v, size_t index, image *out, fault *why);

C_LINKAGE_END
