// SPDX-License-Identifier: MIT
// The greatest common divisor of two intervals of steps. 0: no interval.
#ifndef COMMON_DIVISOR_H
#define COMMON_DIVISOR_H

#include <stdint.h>

static inline int64_t common_divisor(int64_t a, int64_t b) {
    return b == 0 ? a : common_divisor(b, a % b);
}

#endif
