// SPDX-License-Identifier: MIT
// What training draws random numbers for: the second argument of random_at.
#ifndef SPLAT_RANDOM_PURPOSE_H
#define SPLAT_RANDOM_PURPOSE_H

typedef enum random_purpose {
    RANDOM_VIEW_ORDER,
    RANDOM_BACKGROUND,
    RANDOM_DENSITY // of density control; libgs draws more purposes from it
} random_purpose;

#endif
