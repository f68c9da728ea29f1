// SPDX-License-Identifier: MIT
// Kernels of a scene in parts: each rank has some of the Gaussians, and renders parts: rows of tiles of a view's image.
// They do not communicate: parts.h says what ranks send each other. The rules of distwar_gs.h hold, but for arguments, which
// callers have checked. Arrays are on the device unless stated otherwise, and work is queued on the default stream.
//
// The same bits on any number of ranks: with DISTWAR_FIXED, if homes have neighbouring Gaussians and send in their order
// (so that splats stand in the order of one GPU), and with
//   libgs_list_lengths, libgs_divide_lists    after gs_bin: the blend divides its work as for the whole image
//   parts_largest                  at home, then the larger of all ranks, for gs_gradient.largest
//   parts_row_sums, parts_bound    after the loss; the sums of all rows make gs_largest_values.d_color
//   parts_fixed_sums               after gs_render_backward: the integers that it summed are sent back in place of moments
//   parts_from_sums                after parts_add_packed
#pragma once

#include "distwar_gs.h"
#include "ranks.h"
#include "rows.h"

C_LINKAGE_BEGIN

enum { MOST_PARTS = 128 };

// What one rank renders of one view's image.
typedef struct image_part {
    int32_t view;
    gs_rows rows; // of tiles
} image_part;

// Which rank renders what.
typedef struct tile_partition {
    image_part parts[MOST_PARTS]; // rank after rank, and for each from the first view on
    int32_t count;                // of all ranks
    int32_t begin[RANKS_MAX + 1]; // rank r has parts begin[r] .. begin[r + 1] - 1
    int32_t most;                 // parts of a rank
} tile_partition;

// The splats that parts need; a splat may be among those of several. A part's are those whose bounding box of pixels with
// alpha >= 1/255 (slightly enlarged) has pixels of the part's rows. begin: [of->count + 1]: part p has entries begin[p] ..
// begin[p + 1] - 1. Cost: reads all splats once, as does parts_gather.
gs_status parts_count(const gs_view *view, const tile_partition *of, int64_t *begin);
// After parts_count, and before parts_pack. index: [room]: of an entry's splat among those of all views; splats: [room]: copies.
// Entries without room are not written.
gs_status parts_gather(const gs_view *view, const tile_partition *of, uint32_t *index, gs_splat *splats,
                       int64_t room);

// Records of 12 values are gs_splat_grad, or with `fixed` the int64 of parts_fixed_sums. Those of a part come in segments, one
// of each home: begin[s] .. begin[s] + count[s] - 1 (host). They are packed without those whose values are all 0: splats that
// no pixel shows have such, and they are most of a large scene. A packed record has PACKED values: the record's first
// GS_SPLAT_GRAD_SUMS, then its place in its segment, as an integer in the first 4 bytes of the last value. With `whole` it has
// PACKED_WHOLE: all values, for absolute gradients, then its place.
enum { PACKED = GS_SPLAT_GRAD_SUMS + 1, PACKED_WHOLE = GS_SPLAT_GRAD_STRIDE + 1 };
// packed: room for all records. packed_begin: [segments + 1]: of each segment there, and the end. Reads the records twice.
gs_status parts_pack(const void *records, bool fixed, bool whole, int32_t segments, const int64_t *begin,
                     const int64_t *count, void *packed, int64_t *packed_begin);
// to[index[place]] += values, for each packed record of a segment. No index comes twice in a call, so that sums of several
// calls have the order of the calls.
gs_status parts_add_packed(const uint32_t *index, const void *packed, int64_t count, bool fixed, bool whole,
                           void *to);

// pairs: [rows of tiles]: the entries of the lists of each row.
gs_status parts_row_isects(const gs_view *view, int64_t *pairs);

// largest: [views]: the colour; the rest becomes 0.
gs_status parts_largest(const gs_view *view, struct gs_largest_values *largest);
// sums: [rows of tiles of the image][GS_CHANNELS]. Writes those of `rows`: sums of |gradient|, by channel, in an order that
// depends on nothing but the width.
gs_status parts_row_sums(const gs_view *view, gs_rows rows, const float *gradient, double *sums);
// largest->d_color becomes the sum over all rows, in their order.
gs_status parts_bound(const gs_view *view, const double *sums, struct gs_largest_values *largest);

// The units that turn integer sums into moments. An image's units are the largest of its parts' values.
typedef struct fixed_units {
    float scale[GS_SPLAT_GRAD_STRIDE]; // units per 1.0; 0: nothing was drawn
    float invalid;                     // not 0: all moments are NaN
    float summed;                      // values of a record that are summed, the first ones
} fixed_units;
// After gs_render_backward of one view with DISTWAR_FIXED. *sums, host: becomes their place, [count][12], in the scratch of this
// thread's context.
gs_status parts_fixed_sums(const gs_view *view, const gs_gradient *gradient, const int64_t **sums,
                           fixed_units *units);
// sums: [views][count][12], units: [views], moments: [views][count].
gs_status parts_from_sums(const int64_t *sums, const fixed_units *units, int64_t count, int32_t views,
                          gs_splat_grad *splat_grad);

// ---- density control, with the bits of one GPU: Gaussians of ranks follow one another. All ranks choose alike, from an
// integer of each row, which rows become copies of which: gs_refill over all rows. On each rank:
//   parts_move_keys      (all ranks get the keys of all rows)
//   parts_choose         what rows become; how many copies go where
//   parts_give           copies of this rank's rows
//   (send the copies to the ranks that have rows for them)
//   parts_take

typedef struct part_vectors {
    gs_gaussians gaussians, first_moment, second_moment; // of one shape
} part_vectors;
int32_t parts_record(const gs_gaussians *gaussians); // floats of a Gaussian's parameters

typedef struct row_moves {
    // Members of gs_refill_rules; `splits`: whether it has `density`. existing: of all rows; density: of this rank's;
    // dead: counts those of this rank.
    bool splits;
    int64_t existing;
    float least_opacity;
    const float *density;
    uint64_t seed, iteration, *dead;
    int32_t ranks, own;
    int64_t begin[RANKS_MAX + 1]; // rank r has rows begin[r] .. begin[r + 1] - 1
    void *workspace;              // of parts_moves_bytes; kept from parts_choose to parts_take
} row_moves;
gs_status parts_moves_bytes(const row_moves *moves, size_t *bytes);
// keys: of this rank's rows: those of splits, or the weights of relocation.
gs_status parts_move_keys(const gs_gaussians *gaussians, const row_moves *moves, uint32_t *keys);
// of_all: keys of all rows. Shares out what other rows take of this rank's (relocation). begin: [2][ranks + 1]: copies for
// rank r are begin[0][r] .. begin[0][r + 1] - 1, those from it are begin[1][r] .. begin[1][r + 1] - 1.
// Cost: that of gs_refill over all rows, but for the copies; memory 16 or 28 bytes per row.
gs_status parts_choose(const part_vectors *vectors, const row_moves *moves, const uint32_t *of_all,
                       int64_t *begin);
// copies: [begin[0][ranks]][parts_record]. Makes first halves of what is split.
gs_status parts_give(const part_vectors *vectors, const row_moves *moves, float *copies);
// copies: [begin[1][ranks]][parts_record]. Where there is none for a new row, it becomes dead.
gs_status parts_take(const part_vectors *vectors, const row_moves *moves, float *copies);

C_LINKAGE_END
