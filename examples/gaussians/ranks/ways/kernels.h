// SPDX-License-Identifier: MIT
// Kernels of a scene in parts: each rank has some of the Gaussians, and renders parts: rows of tiles of a view's image.
// They do not communicate; the rules of distwar_gs.h hold, but for arguments, which callers have checked. Arrays are
// on the device unless stated otherwise. A step:
//   gs_project                     at home, of all views
//   parts_count, parts_gather      the splats that each part needs, in the order of parts, then of Gaussians
//   (send the splats)              to a part, the splats from all homes one after another
//   gs_bin with gs_view.rows, gs_render, libgs_loss_rows, gs_render_backward
//   parts_pack                     (send the moments back) those that are not 0, home after home
//   parts_add_packed               at home, part after part
//   gs_project_backward
//
// The same bits on any number of ranks: with DISTWAR_FIXED, if homes have neighbouring Gaussians and send in their order
// (so that splats stand in the order of one GPU), and with
//   libgs_list_lengths, libgs_divide_lists    after gs_bin: the blend divides its work as for the whole image
//   parts_largest                  at home, then the larger of all ranks, for gs_gradient.largest
//   parts_row_sums, parts_bound    after the loss; the sums of all rows make gs_largest_values.d_color
//   parts_fixed_sums               after gs_render_backward: the integers that it summed are sent back in place of moments
//   parts_from_sums                after parts_add_packed
#pragma once

#include "distwar_gs_density.h"
#include "distwar_gs_split.h"
#include "ranks.h"
#include "rows.h"

C_LINKAGE_BEGIN

enum { MOST_PARTS = 128 };

// What one rank renders of one view's image.
typedef struct image_part {
    int32_t view;
    gs_rows rows; // of tiles
} image_part;

// The splats that parts need. A splat may be among those of several parts.
typedef struct part_entries {
    image_part parts[MOST_PARTS];
    int32_t count;
    void *workspace; // of parts_count_bytes
    int64_t *begin;  // [count + 1]: part p has entries begin[p] .. begin[p + 1] - 1
    // Entries. Written by parts_gather; those without room are not.
    uint32_t *index;  // [room]: of the splat among those of all views
    gs_splat *splats; // [room]: copies
    int64_t room;
} part_entries;
gs_status parts_count_bytes(const gs_view *view, int32_t parts, size_t *bytes);
// Writes begin and the workspace. A part's splats are those whose bounding box of pixels with alpha >= 1/255 (slightly
// enlarged) has pixels of the part's rows. Cost: reads all splats once, as does parts_gather.
gs_status parts_count(const gs_view *view, const part_entries *entries, gs_stream stream);
// The workspace and the rows are those of parts_count.
gs_status parts_gather(const gs_view *view, const part_entries *entries, gs_stream stream);

// Records of 12 values are gs_moments, or with `fixed` the int64 of parts_fixed_sums.
// Records of a part, without those whose values are all 0: splats that no pixel shows have such, and they are most of a large
// scene. A packed record has PACKED values: the record's first GS_MOMENTS, then its place in its segment, as an integer
// in the first 4 bytes of the last value. With `whole` it has PACKED_WHOLE: all values, for absolute gradients, then its
// place.
enum { PACKED = GS_MOMENTS + 1, PACKED_WHOLE = GS_MOMENTS_STRIDE + 1 };
typedef struct moment_packing {
    bool fixed, whole;
    int32_t segments;     // the records of each home
    const int64_t *begin; // host, [segments]: the first record of a segment
    const int64_t *count; // host, [segments]
    const void *records;
    void *packed;          // room for the records of all segments; segment after segment
    int64_t *packed_begin; // [segments + 1]: of each segment in `packed`, and the end
    void *workspace;       // of parts_pack_bytes, which reads segments and count
} moment_packing;
gs_status parts_pack_bytes(const moment_packing *packing, size_t *bytes);
gs_status parts_pack(const moment_packing *packing, gs_stream stream); // reads the records twice
// to[index[place]] += values, for each packed record of a segment. No index comes twice in a call, so that sums of several
// calls have the order of the calls.
gs_status parts_add_packed(const uint32_t *index, const void *packed, int64_t count, bool fixed, bool whole,
                           void *to, gs_stream stream);

// pairs: [rows of tiles]: the entries of the lists of each row.
gs_status parts_row_pairs(const gs_view *view, int64_t *pairs, gs_stream stream);

// largest: [views]: the colour; the rest becomes 0.
gs_status parts_largest(const gs_view *view, struct gs_largest_values *largest, gs_stream stream);
// sums: [rows of tiles of the image][GS_CHANNELS]. Writes those of `rows`: sums of |gradient|, by channel, in an order that
// depends on nothing but the width.
gs_status parts_row_sums(const gs_view *view, gs_rows rows, const float *gradient, double *sums,
                         gs_stream stream);
// largest->d_color becomes the sum over all rows, in their order.
gs_status parts_bound(const gs_view *view, const double *sums, struct gs_largest_values *largest,
                      gs_stream stream);

// The units that turn integer sums into moments. An image's units are the largest of its parts' values.
typedef struct fixed_units {
    float scale[GS_MOMENTS_STRIDE]; // units per 1.0; 0: nothing was drawn
    float invalid;                  // not 0: all moments are NaN
    float summed;                   // values of a record that are summed, the first ones
} fixed_units;
// After gs_render_backward of one view with DISTWAR_FIXED. *sums, host: becomes their place in the memory of
// gradient->moments, [count][12].
gs_status parts_fixed_sums(const gs_view *view, const gs_gradient *gradient, const int64_t **sums,
                           fixed_units *units, gs_stream stream);
// sums: [views][count][12], units: [views], moments: [views][count].
gs_status parts_from_sums(const int64_t *sums, const fixed_units *units, int64_t count, int32_t views,
                          gs_moments *moments, gs_stream stream);

// ---- density control, with the bits of one GPU: Gaussians of ranks follow one another ----

typedef struct part_vectors {
    gs_gaussians gaussians, first_moment, second_moment; // of one shape
} part_vectors;
int32_t parts_record(const gs_gaussians *gaussians); // floats of a Gaussian's parameters

// gs_relocate. On each rank:
//   parts_weigh                    the sum of the weights of its living Gaussians
//   (all ranks learn all sums)
//   parts_count_draws, parts_draw  for its dead and new rows, where the Gaussians that they copy lie
//   (send `at` to the ranks that have those)
//   parts_answer                   shares out what others take, and gives its parameters
//   (send the values back)
//   parts_take
typedef struct part_relocation {
    gs_relocation rules; // existing: of this rank's rows
    int64_t first;       // place of this rank's first Gaussian among all
    int32_t ranks;
    void *workspace; // of parts_relocate_bytes; kept from parts_weigh to parts_take
    // Read by the calls after parts_weigh: the sums of the ranks before: 0, sum 0, ...
    int64_t weight_begin[RANKS_MAX + 1];
} part_relocation;
// Rows that take the place of others, in the order of the ranks that have those, then of rows.
typedef struct part_draws {
    int64_t count;
    uint32_t *row; // that takes a place
    int64_t *at;   // place in the weights of a rank; parts_answer makes rows of them
    float *values; // [count][parts_record]
} part_draws;
gs_status parts_relocate_bytes(int64_t count, int32_t ranks, size_t *bytes);
gs_status parts_weigh(const gs_gaussians *gaussians, const part_relocation *relocation, int64_t *total,
                      gs_stream stream);
// begin: [ranks + 1]: draws from rank r are begin[r] .. begin[r + 1] - 1.
gs_status parts_count_draws(const gs_gaussians *gaussians, const part_relocation *relocation, int64_t *begin,
                            gs_stream stream);
// Writes row and at; count is begin[ranks].
gs_status parts_draw(const gs_gaussians *gaussians, const part_relocation *relocation,
                     const part_draws *draws, gs_stream stream);
// draws: those of all ranks that take Gaussians of this one, in any order. Reads at; writes at and values.
gs_status parts_answer(const part_vectors *vectors, const part_relocation *relocation,
                       const part_draws *draws, gs_stream stream);
// Reads row and values.
gs_status parts_take(const part_vectors *vectors, const part_relocation *relocation, const part_draws *draws,
                     gs_stream stream);

// gs_split. On each rank:
//   parts_split_draw               gives each of its Gaussians a key, and sorts by it
//   parts_split_count              (all ranks learn how many come before given places) those with the least keys of all
//                                  ranks are drawn, and the free rows of a rank take the ones from a place to another
//   parts_split_give               splits those of this rank that are drawn, and copies them before
//   (send the copies to the ranks that have rows for them)
//   parts_split_take
typedef struct part_split {
    gs_split_rules rules; // existing and density: of this rank's rows
    int64_t first;        // place of this rank's first Gaussian among all
    void *workspace;      // of parts_split_bytes; kept from parts_split_draw to parts_split_take
} part_split;
// Copies of Gaussians that are split.
typedef struct split_copies {
    int64_t count;
    float *values; // [count][1 + parts_record]: the key's bits, then the parameters
} split_copies;
gs_status parts_split_bytes(int64_t count, size_t *bytes);
// *free_rows, device: how many are dead or new.
gs_status parts_split_draw(const gs_gaussians *gaussians, const part_split *split, int64_t *free_rows,
                           gs_stream stream);
// The order of all Gaussians: key * 2^32 + place among all. below[k] becomes the number of this rank's that come before
// bounds[k], k = 0 .. n - 1. A Gaussian that cannot be drawn has the key UINT32_MAX.
gs_status parts_split_count(const gs_gaussians *gaussians, const part_split *split, const uint64_t *bounds,
                            int32_t n, int64_t *below, gs_stream stream);
// Writes copies of the copies->count Gaussians with the least keys, in the order of keys, then of rows; makes first halves of
// them, and clears their moments.
gs_status parts_split_give(const part_vectors *vectors, const part_split *split, const split_copies *copies,
                           gs_stream stream);
// Puts second halves into this rank's free rows, the one with the least key first; where no copy is left, new rows become
// dead. copies: those that all ranks give to this one, rank after rank, each in its order; at most one a free row.
gs_status parts_split_take(const part_vectors *vectors, const part_split *split, const split_copies *copies,
                           gs_stream stream);

C_LINKAGE_END
