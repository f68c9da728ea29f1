// SPDX-License-Identifier: MIT
// Rows of options that several commands have.
#pragma once

#include "cli/command_line.h"

#define BACKGROUND_OPTION(at) OPTION("background", at, .help = "R,G,B behind the scene, each 0..1")
#define CAMERAS_OPTION(at)                                                                                   \
    OPTION("cameras", at,                                                                                    \
           .help = "the folder with the photographs and their cameras, as for 'dsplat train'; required")
// of: what is scaled, for example "pictures".
#define DOWNSCALE_OPTION(at, of)                                                                             \
    OPTION("downscale", at, .minimum = 1, .maximum = 64,                                                     \
           .help = "divide the width and height of " of " by this")
#define UNDISTORT_OPTION(at)                                                                                 \
    OPTION("undistort", at, .help = "make pinhole pictures of fisheyes too, as of every other lens")
#define MASK_FROM_ALPHA_OPTION(at)                                                                           \
    OPTION("mask-from-alpha", at, .help = "ignore pixels whose alpha is 0 in place of blending them")
