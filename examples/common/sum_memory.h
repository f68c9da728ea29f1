// SPDX-License-Identifier: MIT
// Device memory for sums of K values a key, as commit.cuh fills it; and for the counts of what warps meet.
#ifndef COMMON_SUM_MEMORY_H
#define COMMON_SUM_MEMORY_H

#include "fault.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sum_memory {
    int64_t keys;
    int values;       // K
    int stride;       // from one key to the next: K rounded up to a multiple of 4
    float *sums;      // [keys][stride], 16-byte aligned; what is beyond K is 0
    long long *fixed; // [keys][stride], for REDUCE_FIXED
    unsigned *flag;   // bits of distwar::fixed_flag, from REDUCE_FIXED; never cleared
} sum_memory;

sum_memory sum_memory_open(int64_t keys, int values);
void sum_memory_close(sum_memory *memory);
// Fails if a value that was to be added as an integer was NaN or too large since the memory was opened.
// Waits for the device.
bool sum_memory_is_exact(const sum_memory *memory, fault *why);

// How many commits of a warp had 0..32 active lanes, and 0..32 different keys among them.
typedef struct lane_histogram {
    unsigned long long active_lanes[33], distinct_keys[33];
} lane_histogram;

#ifdef __cplusplus
}
#endif
#endif
