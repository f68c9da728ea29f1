// SPDX-License-Identifier: MIT
// What kernels did, as simt counts it; a GPU does not.
#ifndef SPLAT_KERNEL_COUNTS_H
#define SPLAT_KERNEL_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct kernel_counts {
    uint64_t shuffles, votes, atomic_instructions; // of warps
    uint64_t atomic_requests;                      // of lanes
} kernel_counts;

// All kernels since the program began; waits for the device. False on a GPU.
bool kernel_counts_now(kernel_counts *out);

#endif
