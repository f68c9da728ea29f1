// SPDX-License-Identifier: MIT
// Zeroed memory or the end: the reference has no other failure.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline void *allocate(int64_t count, size_t size) {
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    if (!memory) {
        fprintf(stderr, "reference: out of memory for %lld values of %zu bytes\n", (long long)count, size);
        abort();
    }
    return memory;
}
