// SPDX-License-Identifier: MIT
// What compressed formats share: a file in memory, values in few bits.
#pragma once

#include "files/input_file.h"
#include "distwar_gs.h"
#include <math.h>

C_LINKAGE_BEGIN

// Reads the rest of the file, for the caller to free().
bool read_rest(input_file *file, uint8_t **bytes, size_t *count, fault *why);
// Fails if a file of `size` bytes says to hold more than 1024 times as many, `bytes`: that is an attack on memory, not
// a scene. Call it before allocating memory.
bool is_plausible(const char *path, uint64_t size, uint64_t bytes, fault *why);

// The nearest of 0..255.
static inline uint8_t to_byte(double value) {
    return (uint8_t)lrint(fmin(fmax(value, 0), 255));
}

static inline double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

// The logit of an opacity 0..255. 0 and 255, which have no finite one, stand for the middle of what is rounded to them.
static inline float byte_logit(uint8_t opacity) {
    const double a = fmin(fmax(opacity, 0.25), 254.75) / 255;
    return (float)log(a / (1 - a));
}

// Scales q (w, x, y, z) to length 1; a quaternion of length 0 becomes the identity.
void quaternion_unit(const float q[4], double unit[4]);
// The opacity 0..255 of a Gaussian; 0 if its quaternion has length 0, as such a Gaussian is not shown.
uint8_t opacity_byte(const gs_gaussians *g, int64_t i);
// The "smallest three": a unit quaternion without its component of largest magnitude, whose sign is made positive. The
// three others, in their order, are within +-sqrt(1/2). Returns the index of the largest.
int quaternion_to_three(const double q[4], double three[3]);
void quaternion_from_three(int largest, const double three[3], double q[4]);

C_LINKAGE_END
