// SPDX-License-Identifier: MIT
// Device memory for sums of K values for each key, which commit.cuh fills; the strategies that can fill it;
// and counts of what warps meet.
#pragma once

#include "files/fault.h"
#include "strategy_options.h"
#include <stdint.h>

C_LINKAGE_BEGIN

// The strategies of sum_values (commit.cuh). cub: on a GPU only.
extern const offered_strategy sum_strategies[];
// What a tuner chooses from: those strategies at thresholds 0, 2, 4, 6, 8, 12, 16 and 24.
candidate_list sum_candidates(void);

typedef struct sum_memory {
    int64_t keys;
    int values;       // K
    int stride;       // from one key to the next: K rounded up to a multiple of 4
    float *sums;      // [keys][stride], 16-byte aligned; the padding is 0
    long long *fixed; // [keys][stride], for DISTWAR_FIXED
    unsigned *flag;   // bits of distwar::fixed_flag, from DISTWAR_FIXED; never cleared
} sum_memory;

sum_memory sum_memory_open(int64_t keys, int values);
void sum_memory_close(sum_memory *memory);
// Fails if DISTWAR_FIXED has met a value that was NaN or too large since the memory was opened. Waits for the
// device.
bool sum_memory_is_exact(const sum_memory *memory, fault *why);

// [n]: the number of commits of a warp that had n active lanes, or n different keys among its active lanes.
typedef struct lane_histogram {
    unsigned long long active_lanes[33], distinct_keys[33];
} lane_histogram;

C_LINKAGE_END
