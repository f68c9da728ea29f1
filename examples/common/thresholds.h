// SPDX-License-Identifier: MIT
// The option --thresholds: from how many active lanes on a warp sums a group itself.
#ifndef COMMON_THRESHOLDS_H
#define COMMON_THRESHOLDS_H

#include "fault.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MAX_THRESHOLD = 33, // sums nothing in the warp
    MAX_THRESHOLDS = MAX_THRESHOLD + 1
};

// "0,8,16", each 0..MAX_THRESHOLD.
bool parse_thresholds(const char *text, int out[MAX_THRESHOLDS], size_t *count, fault *why);

#ifdef __cplusplus
}
#endif
#endif
