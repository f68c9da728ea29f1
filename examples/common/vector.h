// SPDX-License-Identifier: MIT
// Vectors of three doubles.
#pragma once

#include <math.h>

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
