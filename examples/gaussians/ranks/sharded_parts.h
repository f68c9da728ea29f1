// SPDX-License-Identifier: MIT
// The state of sharded.c and of the files that do its steps: sharded_splats.c, sharded_render.c, sharded_pixels.c and
// sharded_moments.c; sharded_parts.c has what the steps share. Internal to this folder.
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
#include "device_buffer.h"
#include "sharded.h"
#include "transport.h"

enum {
    MOST_OWN = GS_MAX_VIEWS + 1, // parts of one rank
    MOST_CUT = 2,                // those that are not a whole view
    MOST_ROWS = GS_MAX_SIZE / GS_TILE_SIZE,
    MOST_NUMBERS = GS_MAX_PARTS + 1 + MOST_ROWS // that a rank tells the others at once
};

// Memory that is needed in a step until the backward projection. It lies in that of the projection's result as long as
// there is room, else in a buffer of its own.
typedef struct step_buffer {
    void *memory; // NULL: none yet in this step
    size_t bytes;
    device_buffer own;
} step_buffer;

// Memory to render a part in. Whole views are rendered one after another in the same.
typedef struct rendering {
    step_buffer moments, workspace;
    device_buffer image, d_color;
    int64_t pair_capacity; // 0: unknown
    gs_lists division;     // of the last time: how the blend divided the work
    gs_bin_report *report; // pinned
    device_buffer lengths;
    gs_list_lengths *known_lengths; // pinned
} rendering;

// What this rank renders.
typedef struct own_part {
    gs_part part;
    int number;                             // among all parts
    bool whole;                             // the whole view: no other rank has a part of it
    int64_t from[RANKS_MAX], at[RANKS_MAX]; // splats of each rank, and where they begin
    step_buffer splats;
    device_buffer packed, packing;
    rendering *in;
    gs_view view;
    gs_gradient gradient;
    const int64_t *sums; // of DISTWAR_FIXED
    cudaEvent_t received;
} own_part;

// Moments that have come home from the k-th part of each rank.
typedef struct returned_moments {
    device_buffer memory;
    int64_t at[RANKS_MAX], count[RANKS_MAX]; // packed records of each rank
} returned_moments;

typedef struct row_costs row_costs;

struct sharded {
    ranks *group;
    sharded_report report;
    gs_stream travel, watch; // of the collectives; waits for whatever of them the caller's stream waits for
    cudaEvent_t queued, arrived;
    // This rank's own Gaussians:
    device_buffer splats, selection, index, moments, sums;
    step_buffer entries;
    int64_t index_room, entries_room; // of this rank's entries; of those that other ranks need
    returned_moments returned[MOST_OWN];
    device_buffer largest;  // [views]
    device_buffer row_sums; // [views][rows of tiles][GS_ROW_SUMS]
    device_buffer units;    // [views]
    device_buffer pixels_sent, pixels_received;
    device_buffer numbers, told; // of all ranks; of this one: where packed segments begin, pairs of rows
    int64_t *table;              // pinned, [RANKS_MAX][MOST_NUMBERS]: numbers of all ranks
    rendering renderings[MOST_CUT + 1];
    own_part own[MOST_OWN]; // in the order of part_at
    int own_count;
    shared_out out;
    row_costs *costs;
    int64_t begin[RANKS_MAX][GS_MAX_PARTS + 1]; // part_begin of each rank
    // The batch:
    const sharded_batch *batch;
    gs_stream stream;
    gs_view home; // all cameras, this rank's splats
    gs_share share;
    gs_part shared[GS_MAX_PARTS]; // share.parts: whole views of this rank have no rows
    float *absolute;              // of the batch's gradient, NULL: absolute gradients are not summed
    bool whole_records;           // moments travel with their last values: absolute gradients, depth
    bool fixed, alone;            // alone: the only rank
    bool any_cut;                 // some view has several parts
    bool only_images;             // sharded_render
    char *scratch;                // room for step_buffer
    size_t scratch_bytes;
};

int32_t tile_rows(const sharded *s);    // of an image
bool is_whole(const sharded *s, int p); // part p has all rows of its view
// The k-th part that a rank renders; -1: it has none.
int part_at(const sharded *s, int rank, int k);
static inline int64_t entries_of(const sharded *s, int rank, int p) {
    return s->begin[rank][p + 1] - s->begin[rank][p];
}

// The collectives wait for the caller's stream, or it waits for them.
bool begin_travel(sharded *s);
bool await_travel(sharded *s);
bool await_event(sharded *s, cudaEvent_t event);
// device_buffer_reserve, which may wait for the GPU: looks at the other ranks first. NULL: the group has failed.
void *reserve(sharded *s, device_buffer *buffer, size_t bytes);
void *reserve_for_step(sharded *s, step_buffer *buffer, size_t bytes);
// Queues s->table[rank][values] of own[values], device, of all ranks; ranks_wait(s->travel) before it is read.
bool share_numbers(sharded *s, const int64_t *own, int values);

// What rows cost the last time: row_costs.c. The same on all ranks.
row_costs *row_costs_open(void); // NULL: no memory
void row_costs_close(row_costs *costs);
// [views][rows] for share_out; NULL: unknown.
const int64_t *row_costs_of(row_costs *costs, const int32_t *pictures, int32_t views, int32_t rows);
// pairs: [rows]; tiles: of a row. No memory for it: forgets the picture.
void row_costs_learn(row_costs *costs, int32_t picture, gs_rows part, const int64_t *pairs, int32_t rows,
                     int32_t tiles);

bool project_home(sharded *s); // sharded_splats.c
bool send_splats(sharded *s);
bool find_largest(sharded *s);
bool queue_forward(sharded *s, own_part *part); // sharded_render.c
bool settle_lists(sharded *s, own_part *part);
bool divide_as_whole(sharded *s);
bool queue_loss(sharded *s, own_part *part);
bool queue_backward(sharded *s, own_part *part);
bool exchange_pixels(sharded *s);     // sharded_pixels.c
bool pack_moments(sharded *s, int k); // sharded_moments.c
bool send_moments(sharded *s, int k); // of pack_moments
bool gather_moments(sharded *s);
