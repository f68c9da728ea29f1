// SPDX-License-Identifier: MIT
// The weights of a network for LPIPS, in host memory.
#pragma once

#include "files/fault.h"
#include "distwar_gs_lpips.h"

C_LINKAGE_BEGIN

typedef struct lpips_weights {
    gs_lpips_network network;
    float *values; // [gs_lpips_weight_count], as gs_lpips_comparison has them; owned
} lpips_weights;

// Reads a safetensors file with the names of torchvision and of the published weights of LPIPS: of each convolution
// features.N.weight, [outputs, inputs, size, size], and features.N.bias, [outputs], and of each level
// linN.model.1.weight, [1, channels, 1, 1], N from 0. A file that has features.28.weight is of VGG-16, any other of
// AlexNet. Other tensors are not read.
bool lpips_weights_read(const char *path, lpips_weights *out, fault *why);
void lpips_weights_close(lpips_weights *of); // harmless on {0}

C_LINKAGE_END
