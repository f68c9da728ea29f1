// SPDX-License-Identifier: MIT
//
// libdistwar_gs: the losses of several images at once; SSIM of two images of any number of channels, and its gradient.
// The rules of distwar_gs.h hold.
// Formulas: docs/developers/math.md, section 5.
#ifndef GS_SSIM_H
#define GS_SSIM_H

#include "distwar_gs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GS_SSIM_WINDOW = 11,       // pixels, width and height of the window
    GS_SSIM_MAX_PLANES = 65535 // images times their channels
};

// An image of gs_losses: what gs_loss reads and writes.
typedef struct gs_loss_image {
    gs_comparison images;
    double *result;        // 3 doubles on the device
    float *color_gradient; // NULL: not computed
} gs_loss_image;

// Bytes of the workspace of gs_losses for up to `count` images, 1..GS_MAX_VIEWS.
gs_status gs_losses_bytes(int32_t width, int32_t height, int32_t count, size_t *bytes);

// gs_loss of several images of one size, with the bits that it has for each. of: host, [count]. Images may have masks and
// gradients or not; those beside each other that are alike go through each stage in one launch, up to 2 million pixels.
gs_status gs_losses(const gs_loss_image *of, int32_t count, void *workspace, size_t workspace_bytes,
                    gs_stream stream);

typedef struct gs_ssim_pair {
    int32_t width, height; // 1..GS_MAX_SIZE; with `valid` at least GS_SSIM_WINDOW
    int32_t planes;        // 1..GS_SSIM_MAX_PLANES
    // Not 0: the mean is over the pixels whose window lies inside the image. 0: over all; outside are zeros.
    int32_t valid;
    const float *first, *second; // [planes][height][width], values from 0 to 1, aligned to 4 bytes
} gs_ssim_pair;

// Bytes of the workspace of gs_ssim. Reads the sizes.
gs_status gs_ssim_bytes(const gs_ssim_pair *pair, size_t *bytes);

// result: 3 doubles on the device, the first is the mean of SSIM; the others are scratch. gradient: d mean / d first,
// [planes][height][width]; NULL: not computed. The gradient by the second is that of the pair in the other order.
// Result:  the same bits in every run.
// Cost:    three small kernels; reads 8 bytes per value twice, writes and reads 12, writes 4.
gs_status gs_ssim(const gs_ssim_pair *pair, void *workspace, size_t workspace_bytes, double *result,
                  float *gradient, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
