// SPDX-License-Identifier: MIT
// Vectors of three doubles, and 3 x 3 matrices, row-major.
#pragma once

#include <math.h>

static const double pi = 3.141592653589793;

static inline double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline void cross(const double a[3], const double b[3], double out[3]) { // out: not a or b
    for (int i = 0; i < 3; i++) out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

static inline void normalize(double v[3]) { // NaN if the length is 0
    const double length = sqrt(dot(v, v));
    for (int i = 0; i < 3; i++) v[i] /= length;
}

// The determinant. The inverse is the transpose of the cofactors, over the determinant.
static inline double determinant_and_cofactors(const double m[9], double cofactors[9]) {
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            const int r1 = (r + 1) % 3, r2 = (r + 2) % 3, c1 = (c + 1) % 3, c2 = (c + 2) % 3;
            cofactors[3 * r + c] = m[3 * r1 + c1] * m[3 * r2 + c2] - m[3 * r1 + c2] * m[3 * r2 + c1];
        }
    return dot(m, cofactors);
}

// The nearest rotation to a matrix that is not far from one: the polar factor by Newton's iteration,
// M <- (M + M^-T) / 2.
static inline void nearest_rotation(double m[9]) {
    for (int step = 0; step < 12; step++) {
        double cofactors[9];
        const double determinant = determinant_and_cofactors(m, cofactors);
        for (int k = 0; k < 9; k++) m[k] = 0.5 * (m[k] + cofactors[k] / determinant);
    }
}
