// SPDX-License-Identifier: MIT
// Pictures and quality of a scene while it is trained, on one rank or on several. All calls are collectives of all ranks.
#pragma once

#include "frames/quality.h"
#include "sharded.h"
#include "frames/picture_cache.h"

C_LINKAGE_BEGIN

typedef struct viewer {
    ranks *group;
    const target_view *views;      // all; on the device unless there are `pictures`
    const gs_gaussians *gaussians; // this rank's
    picture_cache *pictures;       // of all views; NULL: one rank has them on the device
    // With several ranks:
    sharded *shared;
    distwar_policy policy; // with DISTWAR_FIXED pictures have the same bits on any number of ranks
    int64_t batch;         // views at once, 1..GS_MAX_VIEWS
    int sh_degree;         // of SH to use, at most
    float background[3];
} viewer;

// As quality_measure, of the views first .. first + count - 1. The ranks that render rows of a view measure these; all
// ranks get the results. each: [count], or NULL. PSNR does not depend on the number of ranks, SSIM but for rounding of
// doubles.
bool viewer_measure(const viewer *v, size_t first, size_t count, quality *mean, quality *each, fault *why);
// The picture of a view, on all ranks.
bool viewer_picture(const viewer *v, size_t index, image *out, fault *why);

// The number of views that viewer_pictures renders best: one per rank.
int viewer_at_once(const ranks *group);
// The number of cameras[count], from the first on, at most `most`, that can be rendered at once: of one size and model.
int viewer_alike(const gs_camera *cameras, size_t count, int64_t most);
// Renders the first `wanted` of these views, 1..GS_MAX_VIEWS of one size and model, on all ranks of a shared viewer,
// which all get the pictures. Where there are as many views as ranks, each is rendered by one and has the bytes of
// frame_picture: fill up with copies.
bool viewer_pictures(const viewer *v, const gs_camera *cameras, int views, int wanted, image *out,
                     fault *why);

C_LINKAGE_END
