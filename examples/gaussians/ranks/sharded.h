// SPDX-License-Identifier: MIT
// The gradient of a batch of views of a scene whose Gaussians lie on several ranks. Each rank has neighbouring
// Gaussians: rank 0 the first ones, rank 1 those that follow, and so on. The rows of tiles of all images of the batch,
// view after view, are cut into shares of equal cost; a rank renders its share. Splats go to the ranks that render them
// and their moments come back (distwar_gs_share.h).
//
// With DISTWAR_FIXED, gradients have the same bits on any number of ranks. All floats are then those of one GPU that
// takes view by view.
#pragma once

#include "distwar_gs_share.h"
#include "ranks.h"

C_LINKAGE_BEGIN

typedef struct sharded sharded; // memory of a rank, which grows on demand; a program that has none left ends

// Rows of a view's image, on the rank that renders them.
typedef struct sharded_image {
    int32_t view; // of the batch
    int32_t width, height;
    gs_rows rows; // of tiles
    const float
        *color; // [GS_CHANNELS][height][width]; defined: the rows, and GS_LOSS_HALO pixels above and below
    float *d_color; // to be written: d loss / d color of the rows, as gs_share_loss does
    // With depth: inverse depth, of the rows, [height][width]; others are scratch. d_depth: to be written, 0 in other rows.
    float *depth, *d_depth;
} sharded_image;

typedef struct sharded_batch {
    gs_gaussians gaussians; // this rank's
    int32_t sh_degree_used;
    float background[GS_CHANNELS];
    int32_t views;            // 1..GS_MAX_VIEWS, of one size and model
    const gs_camera *cameras; // host; the same on all ranks
    // Host, [views]: a number from 0 for each view of the scene. Its rows cost what they cost the last time, so that
    // ranks have equal work; results do not depend on it. NULL: all rows cost the same.
    const int32_t *pictures;
    distwar_policy policy;
    bool with_depth; // of sharded_backward; costs as abs_mean2d does
    // Queues the gradient of the loss by rows of an image, or returns false after ranks_fail.
    bool (*loss)(ranks *group, void *context, const sharded_image *image, gs_stream stream);
    void *context;
} sharded_batch;

// What a rank has done of the last batch.
typedef struct sharded_report {
    int64_t splats_sent, splats_received; // of all parts, those of this rank among them; 0 on one rank
    int64_t bytes_sent;                   // to other ranks: splats, pixels and moments
    int64_t rows;                         // of tiles that this rank rendered
} sharded_report;

sharded *sharded_open(ranks *group);
void sharded_close(sharded *s); // NULL is harmless

// A collective of all ranks. gradients: of the shape of the batch's Gaussians, the sum over the views, in their order.
// mean2d, abs_mean2d: as those of gs_gradient, [views][count][2]; or NULL. abs_mean2d costs 12 (`fixed`: 24) bytes more
// for each splat whose moments travel. Waits several times; the last work is queued. The memory
// of gaussians.sh holds other things until the gradient is written there.
typedef struct sharded_gradient {
    gs_gaussians gaussians;
    float *mean2d, *abs_mean2d;
    gs_camera_gradient
        *camera; // of one view; NULL: not computed. Its rows are this rank's: gs_share_camera_gradient
} sharded_gradient;
bool sharded_backward(sharded *s, const sharded_batch *batch, const sharded_gradient *gradient,
                      gs_stream stream);

// A collective of all ranks: the first half of sharded_backward. The batch's `loss` is called with each part's image,
// and d_color is NULL.
bool sharded_render(sharded *s, const sharded_batch *batch, gs_stream stream);

// After either: this rank's splats as the cameras of the batch see them, for gs_density_accumulate. Valid until the
// next batch, and as long as the batch's cameras.
gs_view sharded_home(const sharded *s);
// After sharded_backward: their moments, [views][count]. Valid until the next batch.
const gs_moments *sharded_moments(const sharded *s);

sharded_report sharded_last(const sharded *s);

// ---- which rank renders what ----

typedef struct shared_out {
    gs_part parts[GS_MAX_PARTS];  // rank after rank, and for each from the first view on
    int32_t begin[RANKS_MAX + 1]; // rank r has parts begin[r] .. begin[r + 1] - 1
    int32_t most;                 // parts of a rank
} shared_out;

// rows: of tiles of an image. costs: [views][rows], above 0, of all less than 2^56; NULL: rows cost the same. Shares
// are ranges of rows of nearly equal cost. views + ranks - 1 parts at most.
void share_out(int32_t ranks_number, int32_t views, int32_t rows, const int64_t *costs, shared_out *out);

C_LINKAGE_END
