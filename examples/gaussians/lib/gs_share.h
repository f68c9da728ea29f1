// SPDX-License-Identifier: MIT
//
// libgs: a scene shared out among several GPUs. The rules of gs.h hold. libgs does not communicate: the caller brings
// data from one GPU to another (examples/gaussians/ranks).
//
// Each GPU has some of the Gaussians, and renders parts: rows of tiles of one camera's image. A step of training:
//   gs_project                  at home, of all cameras that some GPU renders
//   gs_share_count, gs_share_gather    the splats that each part needs, in the order of parts, then of Gaussians
//   (send the splats)           to a part, the splats from all homes one after another
//   gs_bin with gs_view.rows, gs_render, gs_loss of the whole image, gs_render_backward
//   (send the moments back)     in the same order
//   gs_share_add                at home, part after part
//   gs_project_backward
//
// The same bits on any number of GPUs: with DISTWAR_FIXED, if homes have neighbouring Gaussians and send in their order
// (so that splats stand in the order of one GPU), and if gs_lists.pixels_per_thread and split_tiles are the same.
//   gs_largest                  at home, then the larger of all GPUs, for gs_gradient.largest
//   gs_fixed_sums               after gs_render_backward: the integers that it summed are sent back in place of moments
//   gs_moments_from_sums        after gs_share_add
#ifndef GS_SHARE_H
#define GS_SHARE_H

#include "gs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GS_MAX_PARTS = 128 };

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
    // Entries:
    uint32_t *index;  // of the splat among those of all cameras; or NULL
    gs_splat *splats; // copies
} gs_share;

// Bytes of the workspace for `parts` parts. Reads gaussians.count and views.
gs_status gs_share_bytes(const gs_view *view, int32_t parts, size_t *bytes);

// Writes part_begin and the workspace.
// Reads:   splats, gaussians.count, the cameras' size.
// Result:  a part's splats are those whose bounding box of pixels with alpha >= 1/255 (slightly enlarged) has pixels
//          of the part's rows.
// Cost:    reads the splats once, as does gs_share_gather.
gs_status gs_share_count(const gs_view *view, const gs_share *share, gs_stream stream);

// Writes index and splats; both have room for part_begin[count] entries. The workspace is that of gs_share_count.
gs_status gs_share_gather(const gs_view *view, const gs_share *share, gs_stream stream);

// to[index[k]] += from[k] for k = 0 .. count - 1. Records of 12 values: of gs_moments, or of gs_fixed_sums. No index
// comes twice in a call, so that sums of several calls have the order of the calls.
gs_status gs_share_add_moments(const uint32_t *index, const gs_moments *from, int64_t count, gs_moments *to,
                               gs_stream stream);
gs_status gs_share_add_sums(const uint32_t *index, const int64_t *from, int64_t count, int64_t *to,
                            gs_stream stream);

// largest: 2 floats a camera: the largest |color| of its splats, and their largest depth as image.depth sums it.
gs_status gs_largest(const gs_view *view, float *largest, gs_stream stream);

// What turns integer sums into moments. The largest of each value over all parts of an image is that of the image.
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

#ifdef __cplusplus
}
#endif
#endif
