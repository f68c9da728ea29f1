// SPDX-License-Identifier: MIT
//
// libdistwar_gs: LPIPS 0.1 of a rendered image and its photograph (Zhang et al. 2018; metrics.md). Both go through
// the convolutions of a network that was trained to classify pictures. After five of them the activations of each
// pixel are divided by their norm over the channels, and the squared differences, weighted by channel, are averaged
// over the pixels. LPIPS is the sum of the five averages. The rules of distwar_gs.h hold.
#ifndef GS_LPIPS_H
#define GS_LPIPS_H

#include "distwar_gs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GS_LPIPS_LEVELS = 5,            // convolutions whose activations are compared
    GS_LPIPS_MAX_CONVOLUTIONS = 13, // of a network
    GS_LPIPS_MIN_SIZE = 32          // pixels, smallest width and height of an image
};

typedef enum gs_lpips_network { GS_LPIPS_ALEX, GS_LPIPS_VGG, GS_LPIPS_NETWORKS } gs_lpips_network;

// A convolution, the ReLU after it, and the max-pool before it.
typedef struct gs_lpips_convolution {
    int32_t index; // in torchvision's list `features`, which names the weights
    int32_t inputs, outputs;
    int32_t size, stride, padding; // of the window, pixels
    int32_t pool;                  // side of the max-pool's window, which moves by 2 pixels; 0: none
    int32_t level;                 // 1..GS_LPIPS_LEVELS: its activations are compared; 0: they are not
} gs_lpips_convolution;

typedef struct gs_lpips_architecture {
    const char *name;
    int32_t convolutions;
    gs_lpips_convolution convolution[GS_LPIPS_MAX_CONVOLUTIONS];
} gs_lpips_architecture;

// The architecture; constant memory. NULL: there is no such network.
const gs_lpips_architecture *gs_lpips_architecture_of(gs_lpips_network network);
// Floats of a network's weights; 0: there is no such network.
size_t gs_lpips_weight_count(gs_lpips_network network);

typedef struct gs_lpips_comparison {
    // The colours are clamped to 0..1 and rounded to 8 bits, as in a picture's file. Where the mask is 0, the image
    // gets the photograph's colour.
    gs_comparison images;
    gs_lpips_network network;
    // For each convolution its weight, [outputs][inputs][size][size], and bias, [outputs]; then for each level the
    // weights of its channels. Any alignment of 4 bytes.
    const float *weights;
    // For each level [2][outputs][height][width], the image's and the photograph's activations; NULL: not wanted.
    float *activations[GS_LPIPS_LEVELS];
} gs_lpips_comparison;

// Bytes of the workspace of gs_lpips. width, height: GS_LPIPS_MIN_SIZE or more.
gs_status gs_lpips_bytes(gs_lpips_network network, int32_t width, int32_t height, size_t *bytes);

// result: 1 + GS_LPIPS_LEVELS doubles on the device: LPIPS, and the levels' averages, whose sum it is.
// Result:    the same bits in every run. Undefined if activations overflow.
// Cost:      for a pixel of the images 28 thousand multiplications with AlexNet, 0.6 million with VGG-16.
// Workspace: for a pixel of the images 64 bytes with AlexNet, 1 kB with VGG-16.
gs_status gs_lpips(const gs_lpips_comparison *compared, void *workspace, size_t workspace_bytes,
                   double *result, gs_stream stream);

#ifdef __cplusplus
}
#endif

#endif
