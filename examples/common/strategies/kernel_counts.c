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
                           .atomic_requests = counters.atomic_requests,
                           .atomic_bytes = counters.atomic_bytes};
    return true;
}
#else
bool kernel_counts_now(kernel_counts *out) {
    *out = (kernel_counts){0};
    return false;
}
#endif

kernel_counts kernel_counts_between(const kernel_counts *before, const kernel_counts *after) {
    return (kernel_counts){.shuffles = after->shuffles - before->shuffles,
                           .votes = after->votes - before->votes,
                           .atomic_instructions = after->atomic_instructions - before->atomic_instructions,
                           .atomic_requests = after->atomic_requests - before->atomic_requests,
                           .atomic_bytes = after->atomic_bytes - before->atomic_bytes};
}

kernel_counts kernel_counts_mean(const kernel_counts *counts, size_t count) {
    kernel_counts sum = {0};
    for (size_t i = 0; i < count; i++) {
        sum.shuffles += counts[i].shuffles;
        sum.votes += counts[i].votes;
        sum.atomic_instructions += counts[i].atomic_instructions;
        sum.atomic_requests += counts[i].atomic_requests;
        sum.atomic_bytes += counts[i].atomic_bytes;
    }
    return (kernel_counts){.shuffles = sum.shuffles / count,
                           .votes = sum.votes / count,
                           .atomic_instructions = sum.atomic_instructions / count,
                           .atomic_requests = sum.atomic_requests / count,
                           .atomic_bytes = sum.atomic_bytes / count};
}
