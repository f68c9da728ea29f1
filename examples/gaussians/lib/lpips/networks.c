// SPDX-License-Identifier: MIT
// The convolutions of the networks that LPIPS is computed with: AlexNet (Krizhevsky 2014, as torchvision has it)
// and VGG-16 (Simonyan and Zisserman 2015), without the layers after the last one compared. A window's last
// position is inside the picture: sizes are rounded down.
#include "distwar_gs_lpips.h"

static const gs_lpips_architecture networks[GS_LPIPS_NETWORKS] = {
    [GS_LPIPS_ALEX] = {"AlexNet",
                       5,
                       {{0, 3, 64, 11, 4, 2, 0, 1},
                        {3, 64, 192, 5, 1, 2, 3, 2},
                        {6, 192, 384, 3, 1, 1, 3, 3},
                        {8, 384, 256, 3, 1, 1, 0, 4},
                        {10, 256, 256, 3, 1, 1, 0, 5}}},
    [GS_LPIPS_VGG] = {"VGG-16",
                      13,
                      {{0, 3, 64, 3, 1, 1, 0, 0},
                       {2, 64, 64, 3, 1, 1, 0, 1},
                       {5, 64, 128, 3, 1, 1, 2, 0},
                       {7, 128, 128, 3, 1, 1, 0, 2},
                       {10, 128, 256, 3, 1, 1, 2, 0},
                       {12, 256, 256, 3, 1, 1, 0, 0},
                       {14, 256, 256, 3, 1, 1, 0, 3},
                       {17, 256, 512, 3, 1, 1, 2, 0},
                       {19, 512, 512, 3, 1, 1, 0, 0},
                       {21, 512, 512, 3, 1, 1, 0, 4},
                       {24, 512, 512, 3, 1, 1, 2, 0},
                       {26, 512, 512, 3, 1, 1, 0, 0},
                       {28, 512, 512, 3, 1, 1, 0, 5}}},
};

const gs_lpips_architecture *gs_lpips_architecture_of(gs_lpips_network network) {
    return (unsigned)network < GS_LPIPS_NETWORKS ? &networks[network] : NULL;
}

size_t gs_lpips_weight_count(gs_lpips_network network) {
    const gs_lpips_architecture *const of = gs_lpips_architecture_of(network);
    size_t count = 0;
    for (int i = 0; of && i < of->convolutions; i++) {
        const gs_lpips_convolution *c = &of->convolution[i];
        const size_t of_level = c->level > 0 ? 1 : 0; // a weight for each of its channels
        count += (size_t)c->outputs * ((size_t)(c->inputs * c->size * c->size) + 1 + of_level);
    }
    return count;
}
