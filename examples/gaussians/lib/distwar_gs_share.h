// SPDX-License-Identifier: MIT
//
// libdistwar_gs: a scene shared out among several GPUs. The rules of distwar_gs.h hold. libdistwar_gs does not
// communicate: the caller brings data from one GPU to another (examples/gaussians/ranks).
//
// Each GPU has some of the Gaussians, and renders parts: rows of tiles of one camera's image. A step of training:
//   gs_project                  at home, of all cameras that some GPU renders
//   gs_share_count, gs_share_gather    the splats that each part needs, in the order of parts, then of Gaussians
//   (send the splats)           to a part, the splats from all homes one after another
//   gs_bin with gs_view.rows, gs_render, gs_share_loss, gs_render_backward
//   gs_share_pack               (send the moments back) those that are not 0, home after home
//   gs_share_add_packed         at home, part after part
//   gs_project_backward
//
// The same bits on any number of GPUs: with DISTWAR_FIXED, if homes have neighbouring Gaussians and send in their order
// (so that splats stand in the order of one GPU), and with
//   gs_share_lengths, gs_share_divide    after gs_bin: the blend divides its work as for the whole image
//   gs_largest                  at home, then the larger of all GPUs, for gs_gradient.largest
//   gs_share_row_sums, gs_share_bound    after the loss; the sums of all rows make gs_largest_values.d_color
//   gs_fixed_sums               after gs_render_backward: the integers that it summed are sent back in place of moments
//   gs_moments_from_sums        after gs_share_add_packed
#ifndef GS_SHARE_H
#define GS_SHARE_H

#include "distwar_gs_density.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GS_MAX_PARTS = 128, GS_MAX_GPUS = 64 };

// What one GPU renders of one camera's image.
typedef struct gs_part {
    int32_t view; // of gs_view.views; 0 for one camera
    gs_rows rows;
} gs_part;

// The splats that parts need. A splat may be among those of several parts.
typedef struct gs_share {
    const gs_part *parts; // host, [count]
    int32_t count;        // 0..GS_MAX_PARTS
    void *workspace;      // of gs_share_bytes
    size_t workspace_bytes;
    int64_t *part_begin; // [count + 1]: part p has entries part_begin[p] .. part_begin[p + 1] - 1
    // Entries. Read by gs_share_gather, which writes those of parts first .. end - 1:
    uint32_t *index;  // [room]: of the splat among those of all cameras
    gs_splat *splats; // [splats_room]: copies
    // Entries without room are not written; part_begin[count] tells how many entries there are.
    int64_t room, splats_room;
    int32_t first, end;
    int32_t skip, skip_end; // entries of parts skip .. skip_end - 1, before `first`, have no place in splats
} gs_share;

// Bytes of the workspace for `parts` parts. Reads gaussians.count and views.
gs_status gs_share_bytes(const gs_view *view, int32_t parts, size_t *bytes);

// Writes part_begin and the workspace.
// Reads:   splats, gaussians.count, the cameras' size.
// Result:  a part's splats are those whose bounding box of pixels with alpha >= 1/255 (slightly enlarged) has pixels
//          of the part's rows. A part without rows needs none.
// Cost:    reads the splats of cameras that have parts with rows once, as does gs_share_gather.
gs_status gs_share_count(const gs_view *view, const gs_share *share, gs_stream stream);

// Writes index and splats. The workspace and the rows are those of gs_share_count.
gs_status gs_share_gather(const gs_view *view, const gs_share *share, gs_stream stream);

// to[index[k]] += from[k] for k = 0 .. count - 1. Records of 12 values: of gs_moments, or of gs_fixed_sums. No index
// comes twice in a call, so that sums of several calls have the order of the calls.
gs_status gs_share_add_moments(const uint32_t *index, const gs_moments *from, int64_t count, gs_moments *to,
                               gs_stream stream);
gs_status gs_share_add_sums(const uint32_t *index, const int64_t *from, int64_t count, int64_t *to,
                            gs_stream stream);

// Records of a part, without those whose values are all 0: splats that no pixel shows have such, and they are most of a
// large scene. A packed record has GS_PACKED values: the record's first GS_MOMENTS, then its place in its segment, as an
// integer in the first 4 bytes of the last value. With `whole` it has GS_PACKED_WHOLE: all values of the record, for
// depth and absolute gradients, then its place.
enum { GS_PACKED = GS_MOMENTS + 1, GS_PACKED_WHOLE = GS_MOMENTS_STRIDE + 1 };
typedef struct gs_packing {
    int32_t fixed;        // 0: floats, gs_moments; 1: int64, sums of gs_fixed_sums
    int32_t whole;        // 0 or 1
    int32_t segments;     // 1..GS_MAX_GPUS: the records of each home
    const int64_t *begin; // host, [segments]: the first record of a segment
    const int64_t *count; // host, [segments]; all together below 2^31
    const void *records;
    void *packed;          // room for the records of all segments; segment after segment
    int64_t *packed_begin; // [segments + 1]: of each segment in `packed`, and the end
    void *workspace;       // of gs_share_pack_bytes
    size_t workspace_bytes;
} gs_packing;
// Reads segments and count.
gs_status gs_share_pack_bytes(const gs_packing *packing, size_t *bytes);
// Cost: reads the records twice.
gs_status gs_share_pack(const gs_packing *packing, gs_stream stream);
// to[index[place]] += values, for each packed record of a segment. As gs_share_add_moments, or with `fixed`
// gs_share_add_sums.
gs_status gs_share_add_packed(const uint32_t *index, const void *packed, int64_t count, int32_t fixed,
                              int32_t whole, void *to, gs_stream stream);

// pairs: [rows of tiles]: the entries of the lists of each row.
gs_status gs_share_row_pairs(const gs_view *view, int64_t *pairs, gs_stream stream);

// How long the lists of a part are.
enum { GS_LIST_CLASSES = 264 };
typedef struct gs_list_lengths {
    int64_t pairs, longest;
    int32_t class_end[GS_LIST_CLASSES]; // of gs_bin: tiles with lists of each class of lengths, or longer
} gs_list_lengths;
// lengths: device. Of the lists that gs_bin has made.
gs_status gs_share_lengths(const gs_view *view, gs_list_lengths *lengths, gs_stream stream);
// Writes lists.pixels_per_thread and split_tiles: what gs_bin chooses for the whole image, so that gs_render_backward
// rounds as there. lengths: host, of the part. pairs, longest: of the image: the sum and the largest of those of its
// parts. All GPUs are of one kind.
gs_status gs_share_divide(gs_view *view, const gs_list_lengths *lengths, int64_t pairs, int64_t longest);

// gs_loss of rows of tiles of an image, for a part of it. Of images->color it reads these rows and GS_LOSS_HALO rows of
// pixels above and below them.
// result:         the part's share: the sums over all parts of an image are gs_loss's results, up to rounding.
// color_gradient: rows that are not the part's are undefined. The part's have the bits that gs_loss gives them.
// Cost:           that of gs_loss for the rows that it reads; with a mask, all of the mask too.
enum { GS_LOSS_HALO = 10 };
gs_status gs_share_loss(const gs_comparison *images, gs_rows rows, void *workspace, size_t workspace_bytes,
                        double *result, float *color_gradient, gs_stream stream);

// gs_exposure_backward of rows of tiles. row_sums: [rows of tiles][GS_EXPOSURE_SUMS], written for the rows; those of
// all parts of an image give the sums of it, in the order of rows, whichever GPU has which.
gs_status gs_share_exposure_backward(const gs_exposed *image, gs_rows rows, float *gradient, double *row_sums,
                                     gs_stream stream);
// rows: of tiles, all of an image. sums: [GS_EXPOSURE_SUMS].
gs_status gs_share_exposure_sum(const double *row_sums, int32_t rows, float *sums, gs_stream stream);

// What gs_gradient.largest points to.
typedef struct gs_largest_values {
    float color, depth; // the largest |color| of the splats, and their largest depth as image.depth sums it
    float d_color, d_depth; // at least the sums of |d loss / d color| and |d loss / d depth| over the image
} gs_largest_values;

// largest: one per camera: color and depth; the rest becomes 0.
gs_status gs_largest(const gs_view *view, gs_largest_values *largest, gs_stream stream);

// sums: [rows of tiles of the image][GS_ROW_SUMS]. Writes those of `rows`: sums of |gradient->color|, by channel, and of
// |gradient->depth|, in an order that depends on nothing but the width.
enum { GS_ROW_SUMS = GS_CHANNELS + 1 };
gs_status gs_share_row_sums(const gs_view *view, gs_rows rows, const gs_gradient *gradient, double *sums,
                            gs_stream stream);
// largest->d_color and d_depth become the sums over all rows, in their order.
gs_status gs_share_bound(const gs_view *view, const double *sums, gs_largest_values *largest,
                         gs_stream stream);

// The units that turn integer sums into moments. An image's units are the largest of its parts' values.
typedef struct gs_fixed_units {
    float scale[sizeof(gs_moments) / sizeof(float)]; // units per 1.0; 0: nothing was drawn
    float invalid;                                   // not 0: all moments are NaN
    float summed;                                    // values of a record that are summed, the first ones
    float reserved[2];                               // 0
} gs_fixed_units;

// After gs_render_backward of one camera with DISTWAR_FIXED. *sums, host: becomes their place in the memory of
// gradient->moments, [count][12]. units: device.
gs_status gs_fixed_sums(const gs_view *view, const gs_gradient *gradient, const int64_t **sums,
                        gs_fixed_units *units, gs_stream stream);

// sums: [views][count][12], units: device, [views], moments: [views][count].
gs_status gs_moments_from_sums(const int64_t *sums, const gs_fixed_units *units, int64_t count, int32_t views,
                               gs_moments *moments, gs_stream stream);

// ---- density control ----

// gs_relocate over the Gaussians of several GPUs, which follow one another: those of GPU 0, of GPU 1, ... The result
// has the bits of gs_relocate over all of them. On each GPU:
//   gs_share_weigh                        the sum of the weights of its living Gaussians
//   (all GPUs learn all sums)
//   gs_share_count_draws, gs_share_draw   for its dead and new rows, where the Gaussians that they copy lie
//   (send `at` to the GPUs that have those)
//   gs_share_answer                       shares out what others take, and gives its parameters
//   (send the values back)
//   gs_share_take
typedef struct gs_shared_relocation {
    gs_relocation relocation; // existing: of this GPU's rows
    int64_t first;            // place of this GPU's first Gaussian among all
    int32_t gpus;             // 1..GS_MAX_GPUS
    void *workspace;          // of gs_share_relocate_bytes; kept from gs_share_weigh to gs_share_take
    size_t workspace_bytes;
    // Read by the calls after gs_share_weigh: host, [gpus + 1], the sums of the GPUs before: 0, sum 0, ...
    const int64_t *weight_begin;
} gs_shared_relocation;

typedef struct gs_shared_vectors {
    gs_gaussians gaussians, first_moment, second_moment; // of one shape
} gs_shared_vectors;

// Rows that take the place of others, in the order of the GPUs that have those, then of rows.
typedef struct gs_draws {
    int64_t count;
    uint32_t *row; // that takes a place
    int64_t *at;   // place in the weights of a GPU; gs_share_answer makes rows of them
    float *values; // [count][gs_share_record]: parameters
} gs_draws;

gs_status gs_share_relocate_bytes(int64_t count, int32_t gpus, size_t *bytes);
// Floats of a Gaussian's parameters.
int32_t gs_share_record(const gs_gaussians *gaussians);
// total: 1 number.
gs_status gs_share_weigh(const gs_gaussians *gaussians, const gs_shared_relocation *relocation,
                         int64_t *total, gs_stream stream);
// begin: [gpus + 1]: draws from GPU g are begin[g] .. begin[g + 1] - 1.
gs_status gs_share_count_draws(const gs_gaussians *gaussians, const gs_shared_relocation *relocation,
                               int64_t *begin, gs_stream stream);
// Writes row and at; count is begin[gpus].
gs_status gs_share_draw(const gs_gaussians *gaussians, const gs_shared_relocation *relocation,
                        const gs_draws *draws, gs_stream stream);
// draws: those of all GPUs that take Gaussians of this one, in any order. Reads at; writes at and values.
gs_status gs_share_answer(const gs_shared_vectors *vectors, const gs_shared_relocation *relocation,
                          const gs_draws *draws, gs_stream stream);
// Reads row and values.
gs_status gs_share_take(const gs_shared_vectors *vectors, const gs_shared_relocation *relocation,
                        const gs_draws *draws, gs_stream stream);

// gs_density_noise of Gaussians whose first one has the place `first` among all.
gs_status gs_share_noise(const gs_gaussians *gaussians, int64_t first, float scale, uint64_t seed,
                         uint64_t iteration, gs_stream stream);
// gs_density_penalty of a part of `all` Gaussians.
gs_status gs_share_penalty(const gs_gaussians *gaussians, int64_t all, float opacity_weight,
                           float scale_weight, const gs_gaussians *gradients, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
