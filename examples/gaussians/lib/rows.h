// SPDX-License-Identifier: MIT
// Stages for some rows of an image, whose other rows other ranks render: the rows get the bits that they have in the whole
// image. Internal to libdistwar_gs and to programs that are linked with its static library.
#pragma once

#include "c_linkage.h"
#include "distwar_gs.h"

C_LINKAGE_BEGIN

// gs_loss of the colours of rows of tiles. Of of->images.color it reads these rows and LOSS_HALO rows of pixels above and
// below them.
// of->result:         the rows' share: the sums over all parts of an image are gs_loss's results, up to rounding.
// of->color_gradient: other rows are undefined. These have the bits that gs_loss gives them. NULL: not computed.
// gain_rows:          in place of of->gain_sums: [rows of tiles][GS_EXPOSURE_SUMS], written for the rows.
// Cost:               that of gs_loss for the rows that it reads; with a mask, all of the mask too.
enum { LOSS_HALO = 10 };
gs_status libgs_loss_rows(const gs_loss_image *of, gs_rows rows, double *gain_rows, gs_context *context);
// Writes gs_loss_image.gain_sums: adds gain_rows in the order of the rows of tiles, whichever ranks have written them.
gs_status libgs_gain_sums(const double *gain_rows, int32_t rows, float *sums, gs_stream stream);

// The bytes that gs_bin takes of a context; what it keeps in gs_view.memory is not among them.
size_t libgs_bin_bytes(const gs_view *view);

// How long the lists of some rows are.
enum { LIST_CLASSES = 264 };
typedef struct list_lengths {
    int64_t isects, longest;
    int32_t class_end[LIST_CLASSES]; // of gs_bin: tiles with lists of each class of lengths, or longer
} list_lengths;
// Writes the lengths of the lists that gs_bin has made. lengths: device.
gs_status libgs_list_lengths(const gs_view *view, list_lengths *lengths, gs_stream stream);
// Writes ranges.pixels_per_thread and split_tiles: what gs_bin chooses for the whole image. lengths: host, of the view's rows.
// intersections, longest: of the image. All GPUs are of one kind.
gs_status libgs_divide_lists(gs_view *view, const list_lengths *lengths, int64_t isects, int64_t longest);

// What gs_gradient.largest points to: bounds of the values of a whole image.
struct gs_largest_values {
    float color, depth; // the largest |color| of the splats, and their largest depth as image.depth sums it
    float d_color, d_depth; // at least the sums of |d loss / d color| and |d loss / d depth| over the image
};

C_LINKAGE_END
