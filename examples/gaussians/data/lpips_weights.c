// SPDX-License-Identifier: MIT
#include "lpips_weights.h"
#include "safetensors.h"
#include <stdio.h>
#include <stdlib.h>

// Reads features.INDEX.weight and .bias of a convolution to *at and moves *at behind them.
static bool read_convolution(safetensors *from, const gs_lpips_convolution *c, float **at, fault *why) {
    const tensor_shape weight = {4, {c->outputs, c->inputs, c->size, c->size}}, bias = {1, {c->outputs}};
    char name[40];
    snprintf(name, sizeof name, "features.%d.weight", c->index);
    if (!safetensors_read(from, name, &weight, *at, why)) return false;
    *at += c->outputs * c->inputs * c->size * c->size;
    snprintf(name, sizeof name, "features.%d.bias", c->index);
    if (!safetensors_read(from, name, &bias, *at, why)) return false;
    *at += c->outputs;
    return true;
}

static bool read_level(safetensors *from, const gs_lpips_convolution *c, float **at, fault *why) {
    const tensor_shape shape = {4, {1, c->outputs, 1, 1}};
    char name[40];
    snprintf(name, sizeof name, "lin%d.model.1.weight", c->level - 1);
    if (!safetensors_read(from, name, &shape, *at, why)) return false;
    *at += c->outputs;
    return true;
}

static bool read_all(safetensors *from, lpips_weights *out, fault *why) {
    out->network = safetensors_has(from, "features.28.weight") ? GS_LPIPS_VGG : GS_LPIPS_ALEX;
    const gs_lpips_architecture *const network = gs_lpips_architecture_of(out->network);
    float *at = out->values = malloc(gs_lpips_weight_count(out->network) * sizeof *out->values);
    if (!at) return fail(why, "no memory for the weights of %s", network->name);
    for (int i = 0; i < network->convolutions; i++)
        if (!read_convolution(from, &network->convolution[i], &at, why)) return false;
    for (int i = 0; i < network->convolutions; i++)
        if (network->convolution[i].level > 0 && !read_level(from, &network->convolution[i], &at, why))
            return false;
    return true;
}

bool lpips_weights_read(const char *path, lpips_weights *out, fault *why) {
    *out = (lpips_weights){.values = NULL};
    safetensors from = {.header = NULL};
    const bool done = safetensors_open(&from, path, why) && read_all(&from, out, why);
    safetensors_close(&from);
    if (!done) lpips_weights_close(out);
    return done;
}

void lpips_weights_close(lpips_weights *of) {
    free(of->values);
    *of = (lpips_weights){.values = NULL};
}
