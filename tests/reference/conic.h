// SPDX-License-Identifier: MIT
//
// The inverse of a splat's 2D covariance, and the splat's exponent at a pixel.
#ifndef REFERENCE_CONIC_H
#define REFERENCE_CONIC_H

#include "reference.h"

#include <math.h>

typedef struct conic {
    double xx, xy, yy;
} conic;

static inline double determinant_of(const reference_splat *splat) {
    const double a = splat->covariance[0], b = splat->covariance[1], c = splat->covariance[2];
    const double square = b * b; // ac - b^2 with the rounding of b^2 put back (Kahan)
    return fma(a, c, -square) - fma(b, b, -square);
}

static inline conic conic_of(const reference_splat *splat) {
    const double determinant = determinant_of(splat);
    const conic k = {splat->covariance[2] / determinant, -splat->covariance[1] / determinant,
                     splat->covariance[0] / determinant};
    return k;
}

// Half the square of the Mahalanobis distance of the offset (dx, dy).
static inline double half_square(const conic *k, double dx, double dy) {
    return 0.5 * (k->xx * dx * dx + 2 * k->xy * dx * dy + k->yy * dy * dy);
}

#endif
