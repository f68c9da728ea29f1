// SPDX-License-Identifier: MIT
// A scene in parts. Each rank has neighbouring Gaussians: rank 0 the first ones, rank 1 those that follow, and so on. The rows of
// tiles of all images of a batch, view after view, are cut into shares of equal cost; a rank renders its share. Splats go to
// the ranks that render them and their moments come back (kernels.h). With DISTWAR_FIXED, gradients have the same bits on
// any number of ranks: those of one GPU that takes view by view.
//
// parts.c takes a batch from the parameters to the gradient, parts_way.c has what the trainer calls.
//
// Two streams: the caller's, and one for what goes from rank to rank, so that data travel while the GPU renders. All
// collectives of a batch are on the second, in one order on all ranks:
//   the sizes of the splats that parts need
//   the splats of the first part of each rank, of the second, ...
//   the largest colours and depths, with DISTWAR_FIXED
//   the pixels that the ranks of a view need of each other; with DISTWAR_FIXED then the sums of rows,
//   and how long the lists are
//   sizes and moments of the first part of each rank, of the second, ...
//   the units of the sums, with DISTWAR_FIXED
// "First" is in the order of part_at: parts that are rows of a view come before whole views.
#pragma once

#include "device.h"
#include "kernels.h"
#include "ways.h"

C_LINKAGE_BEGIN

typedef struct parts parts; // memory of a rank, which grows on demand; a program that has none left ends
typedef struct own_part own_part; // rows of a view's image, on the rank that renders them

typedef struct part_batch {
    gs_gaussians gaussians; // this rank's
    const step_views
        *of; // count, cameras of one size and model, degree and background; the same on all ranks
    // [of->count]: a number from 0 for each view of the scene. Its rows cost what they cost the last time, so that ranks
    // have equal work; results do not depend on it. NULL: all rows cost the same.
    const size_t *pictures;
    distwar_policy policy;
    // Queues the gradient of the loss by the part's rows of the image, or returns false after ranks_fail. The image has
    // LOSS_HALO rows of pixels above and below them. d_color: to be written, as libgs_loss_rows does.
    bool (*loss)(parts *s, const own_part *part, float *d_color);
    void *context;
} part_batch;

// Of training_way: a `parts` of two ranks or more.
void *parts_open(ranks *group);
void parts_close(void *s);

// A collective of all ranks. gradients: of the shape of the batch's Gaussians, the sum over the views, in their order.
// abs_mean2d: as that of gs_gradient, [views][count][2]; or NULL. It costs 12 (`fixed`: 24) bytes more for each splat
// whose moments travel. Waits several times; the last work is queued. The memory of gradients->sh holds other things until the
// gradient is written there.
bool parts_backward(parts *s, const part_batch *batch, const gs_gaussians *gradients, float *abs_mean2d);
// A collective of all ranks: the first half of parts_backward, of one view. The image has the bytes of one GPU: the kernel
// that projects for several cameras rounds some values otherwise than that for one. The batch's `loss` is called with the
// part, and d_color is NULL.
bool parts_render(parts *s, const part_batch *batch);

// rows: of tiles of an image. costs: [views][rows], above 0, of all less than 2^56; NULL: rows cost the same. Shares
// are ranges of rows of nearly equal cost. views + ranks - 1 parts at most.
void divide_tiles(int32_t ranks_number, int32_t views, int32_t rows, const int64_t *costs,
                  tile_partition *out);
int32_t tile_rows(const parts *s); // of an image of the batch

// ---- the state of parts.c

enum {
    MOST_OWN = GS_MAX_VIEWS + 1, // parts of one rank
    MOST_CUT = 2,                // those that are not a whole view
    PLACES = MOST_CUT + 1,       // to render in: whole views are rendered one after another in the last
    MOST_ROWS = GS_MAX_SIZE / GS_TILE_SIZE,
    // Memory that is needed in a step until the backward projection, of what is sent, of each part and of each place.
    SENT = 0,
    PART_SPLATS = 1,
    SPLAT_GRADS = PART_SPLATS + MOST_OWN,
    STEP_BUFFERS = SPLAT_GRADS + PLACES
};

// It lies in the memory of the projection's result as long as there is room, else in a buffer of its own.
typedef struct step_buffer {
    void *memory; // NULL: none yet in this step
    size_t bytes;
} step_buffer;

// What the rows of a picture cost the last time. The same on all ranks.
typedef struct picture_costs {
    int32_t rows; // 0: unknown
    int64_t *of;  // [rows]
} picture_costs;

// What this rank renders.
struct own_part {
    image_part part;
    int number;                             // among all parts
    bool whole;                             // the whole view: no other rank has a part of it
    int place;                              // where it is rendered
    int64_t from[RANKS_MAX], at[RANKS_MAX]; // splats of each rank, and where they begin
    void *packed;                           // moments of all splats that are not 0, home after home
    gs_view view;
    gs_gradient gradient;
    const int64_t *sums; // of DISTWAR_FIXED
    cudaEvent_t received;
};

// Memory that grows on demand; the struct has nothing else.
typedef struct part_buffers {
    device_buffer splats, begin, index, splat_grad, sums; // of this rank's own Gaussians
    device_buffer largest, units;                         // [views]
    device_buffer row_sums;                               // [views][rows of tiles][GS_CHANNELS]
    device_buffer pixels;
    device_buffer numbers; // where packed segments begin, pairs of rows
    device_buffer image[PLACES], d_color[PLACES], lengths[PLACES];
    device_buffer step[STEP_BUFFERS]; // of a step_buffer without room elsewhere
    device_buffer packed[MOST_OWN],
        returned[MOST_OWN]; // moments of own parts; of the k-th part of each rank, at home
    // A step of training:
    device_buffer mean2d;
    device_buffer gain_rows; // [views][rows of tiles][GS_EXPOSURE_SUMS], of libgs_loss_rows
    device_buffer gain_sums; // [GS_EXPOSURE_SUMS]
    // Density control:
    device_buffer density_workspace, given, taken;
} part_buffers;

struct parts {
    ranks *group;
    int count, rank;         // of the group
    gs_stream travel, watch; // of the collectives; waits for whatever of them the default stream waits for
    cudaEvent_t queued, arrived;
    part_buffers buffers;
    step_buffer step[STEP_BUFFERS];
    gs_view_memory lists[PLACES];
    gs_tile_ranges division[PLACES];           // of the last time: how the blend divided the work
    int64_t entries_room;                      // of those splats that parts need
    ranks_bytes returned[MOST_OWN][RANKS_MAX]; // packed moments of each rank, in the buffers of these
    const int64_t *told;                       // numbers of all ranks
    own_part own[MOST_OWN];                    // in the order of part_at
    int own_count;
    tile_partition out;
    picture_costs *costs; // [costs_room]
    size_t costs_room;
    int64_t asked[GS_MAX_VIEWS * MOST_ROWS];  // the costs of a batch
    int64_t begin[RANKS_MAX][MOST_PARTS + 1]; // of each rank's entries: of parts_count
    // The batch:
    const part_batch *batch;
    gs_view home;     // all cameras, this rank's splats
    float *absolute;  // of the batch's gradient; NULL: moments travel without their last values
    bool fixed;       // DISTWAR_FIXED
    bool any_cut;     // some view has several parts
    bool only_images; // parts_render
    char *scratch;    // room for step_buffer
    size_t scratch_bytes;
};

C_LINKAGE_END
