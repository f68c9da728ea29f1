// SPDX-License-Identifier: MIT
#include "sum_memory.h"
#include "device.h"

sum_memory sum_memory_open(int64_t keys, int values) {
    const int stride = (values + 3) / 4 * 4;
    const size_t count = (size_t)keys * (size_t)stride;
    sum_memory out = {.keys = keys,
                      .values = values,
                      .stride = stride,
                      .sums = device_allocate(count * sizeof *out.sums),
                      .fixed = device_allocate(count * sizeof *out.fixed),
                      .flag = device_allocate(sizeof *out.flag)};
    device_clear(out.sums, count * sizeof *out.sums);
    device_clear(out.flag, sizeof *out.flag);
    return out;
}

void sum_memory_close(sum_memory *memory) {
    device_free(memory->flag);
    device_free(memory->fixed);
    device_free(memory->sums);
    *memory = (sum_memory){0};
}

bool sum_memory_is_exact(const sum_memory *memory, fault *why) {
    unsigned flag;
    device_download(&flag, memory->flag, sizeof flag);
    return flag == 0 || fail(why, "a gradient was NaN or too large for its fixed-point sum");
}
