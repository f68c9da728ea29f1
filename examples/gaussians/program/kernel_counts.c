// SPDX-License-Identifier: MIT
#include "kernel_counts.h"

#ifdef DISTWAR_SIMT
#include "device.h"
#include "simt.h"

bool kernel_counts_now(kernel_counts *out) {
    DEVICE_CHECK(cudaDeviceSynchronize());
    simt_counters counters = simt_counters_read();
    *out = (kernel_counts){.shuffles = counters.shuffles,
                           .votes = counters.votes,
                           .atomic_instructions = counters.atomic_instructions,
                           .atomic_requests = counters.atomic_requests};
    return true;
}
#else
bool kernel_counts_now(kernel_counts *out) {
    *out = (kernel_counts){0};
    return false;
}
#endif
