// SPDX-License-Identifier: MIT
// Random points to start training from, with colours of the photographs, for data without points.
#pragma once

#include "frames/target_view.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

// Writes `wanted` points and their colours. The same seed gives the same points. count >= 1.
//
// An object (cut_out): points are uniform in the cube around the focus of the cameras that every picture
// contains. A point is refused if no picture shows it, or if the outline of a view is transparent there;
// after 300 refusals the last point is used. Its colour is that of a random picture that shows it, or gray.
//
// Any other scene: a point is at a random pixel of a random picture. Its depth is log-uniform between 1/4
// and 4 times the depth of the focus. A point is refused unless at least 3 cameras (or all, if fewer) see
// it, or if its pixel does not count; after 20 refusals the last point is used. Its colour is that of the
// last pixel that counts, or gray.
void random_points(const target_view *views, size_t count, bool cut_out, size_t wanted, uint64_t seed,
                   float (*points)[3], uint8_t (*colors)[3]);

C_LINKAGE_END
