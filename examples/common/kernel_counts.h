// SPDX-License-Identifier: MIT
// What kernels did, as simt counts it; a GPU does not.
#ifndef COMMON_KERNEL_COUNTS_H
#define COMMON_KERNEL_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kernel_counts {
    uint64_t shuffles, votes, atomic_instructions; // of warps
    uint64_t atomic_requests, atomic_bytes;        // of lanes
} kernel_counts;

// All kernels since the program began; waits for the device. False on a GPU.
bool kernel_counts_now(kernel_counts *out);
kernel_counts kernel_counts_between(const kernel_counts *before, const kernel_counts *after);
kernel_counts kernel_counts_mean(const kernel_counts *counts, size_t count); // rounded down; count >= 1

#endif
