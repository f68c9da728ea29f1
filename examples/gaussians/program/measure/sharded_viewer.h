// SPDX-License-Identifier: MIT
// Pictures and quality of a scene whose Gaussians lie on several ranks. All calls are collectives of all ranks.
#pragma once

#include "measure/quality.h"
#include "sharded.h"
#include "frames/picture_cache.h"

C_LINKAGE_BEGIN

typedef struct sharded_viewer {
    ranks *group;
    sharded *shared;
    const gs_gaussians *gaussians; // this rank's
    picture_cache *pictures;       // of all views
    distwar_policy policy;         // with DISTWAR_FIXED pictures have the same bits on any number of ranks
    int64_t batch;                 // views at once, 1..GS_MAX_VIEWS
    float background[GS_CHANNELS];
} sharded_viewer;

// As quality_measure, of the views first .. first + count - 1. The ranks that render rows of a view measure these; all
// ranks get the results. each: [count], or NULL. False after ranks_fail. PSNR does not depend on the number of ranks,
// SSIM but for rounding of doubles.
bool sharded_quality_measure(const sharded_viewer *viewer, size_t first, size_t count, quality *mean,
                             quality *each);
// The picture of a view, on all ranks.
bool sharded_picture(const sharded_viewer *viewer, size_t index, image *out);

C_LINKAGE_END
