// SPDX-License-Identifier: MIT
// The purposes of random numbers in training: the second argument of random_at.
#ifndef SPLAT_RANDOM_PURPOSE_H
#define SPLAT_RANDOM_PURPOSE_H

typedef enum random_purpose {
    RANDOM_VIEW_ORDER,
    RANDOM_BACKGROUND,
    RANDOM_DENSITY, // density control; libgs derives more purposes from it
    RANDOM_POSES
} random_purpose;

#endif
