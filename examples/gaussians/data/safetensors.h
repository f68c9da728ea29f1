// SPDX-License-Identifier: MIT
// Reads arrays of floats from a file of tensors (safetensors): 8 bytes, the length of the header; the header, a JSON
// object that gives each tensor's type, shape and place; the arrays. All is little-endian.
#pragma once

#include "files/input_file.h"
#include <jansson.h>

C_LINKAGE_BEGIN

typedef struct safetensors {
    input_file file;
    json_t *header;
    uint64_t begin; // byte of the file at which the arrays begin
} safetensors;      // starts as {0}

typedef struct tensor_shape {
    int dimensions; // 1..4
    int64_t size[4];
} tensor_shape;

// Reads the header. Refuses one of more than a MiB, and places of tensors that do not lie within the file or do not
// fill it to its end. The file is closed also after a failure.
bool safetensors_open(safetensors *of, const char *path, fault *why);
void safetensors_close(safetensors *of); // harmless on {0}
bool safetensors_has(const safetensors *of, const char *name);
// Reads a tensor of type F32, whose shape must be `shape` and whose values must be finite, to `out`.
bool safetensors_read(safetensors *of, const char *name, const tensor_shape *shape, float *out, fault *why);

C_LINKAGE_END
