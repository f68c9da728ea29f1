// SPDX-License-Identifier: MIT
// Pictures of a scene and of errors.
#pragma once

#include "distwar_gs.h"
#include "images/image.h"

C_LINKAGE_BEGIN

// Renders the scene (device) with harmonics up to sh_degree, or with all if it has fewer.
bool map_picture(const gs_gaussians *device, int sh_degree, const gs_camera *camera,
                 const float background[GS_CHANNELS], image *out, fault *why);

enum { FULL_ERROR = 64 }; // of 255: the brightest error

// Perceptually increasing brightness: black, purple, red, orange, pale yellow. part: clamped to 0..1.
void map_color(double part, uint8_t color[GS_CHANNELS]);
// The mean of the channels' absolute differences of two pictures of one size, at 1/divisor of the size, in these colours.
bool map_errors(const image *a, const image *b, int divisor, image *out, fault *why);

C_LINKAGE_END
