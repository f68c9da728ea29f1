// SPDX-License-Identifier: MIT
// Counts of what kernels did, from simt. A GPU has none.
#pragma once

#include "c_linkage.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

typedef struct kernel_counts {
    uint64_t shuffles, votes, atomic_instructions; // of warps
    uint64_t atomic_requests, atomic_bytes;        // of lanes
} kernel_counts;

// The counts of all kernels since the program began. Waits for the device. False on a GPU: there are none.
bool kernel_counts_now(kernel_counts *out);
kernel_counts kernel_counts_between(const kernel_counts *before, const kernel_counts *after);
kernel_counts kernel_counts_mean(const kernel_counts *counts, size_t count); // rounded down; count >= 1

C_LINKAGE_END
