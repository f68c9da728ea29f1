// SPDX-License-Identifier: MIT
// What training starts from where structure from motion left no points: random ones, coloured by the
// photographs.
#ifndef SPLAT_RANDOM_POINTS_H
#define SPLAT_RANDOM_POINTS_H

#include "view/target_view.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Writes `wanted` points and their colours; the same for the same seed. count >= 1.
// An object (cut_out) is in the cube around the cameras' focus that every picture could show: points are
// uniform in the part of it that some picture shows and no view's outline leaves empty; after 300 refusals
// the last is taken. Anything else is wherever the cameras look: a point is a random pixel of a random
// picture, at a random depth, log-uniform between 1/4 and 4 times the depth of the focus, and stays if at
// least 3 cameras (or all, if fewer) see it; after 20 refusals the last is taken. The colour is that of the
// picture it was drawn from; of an object's points, that of a random picture they are in (grey if in none).
void random_points(const target_view *views, size_t count, bool cut_out, size_t wanted, uint64_t seed,
                   float (*points)[3], uint8_t (*colors)[3]);

#ifdef __cplusplus
}
#endif
#endif
