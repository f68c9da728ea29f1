// SPDX-License-Identifier: MIT
#include "sum_memory.h"
#include "device.h"

const offered_strategy sum_strategies[] = {DISTWAR_STRATEGIES(OFFERED_ROW) // of reduce<>
                                           {.strategy = DISTWAR_VECTOR},
                                           {.strategy = DISTWAR_FIXED},
#ifndef DISTWAR_SIMT
                                           {.strategy = DISTWAR_CUB},
#endif
                                           {.strategy = DISTWAR_STRATEGY_COUNT}};

candidate_list sum_candidates(void) {
    // Closer together at the low end: a warp whose lanes hold several keys has small groups.
    static const int thresholds[] = {0, 2, 4, 6, 8, 12, 16, 24};
    return tuner_candidates(sum_strategies, thresholds, sizeof thresholds / sizeof *thresholds);
}

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
    return flag == 0 ||
           fail(why, "a gradient was NaN or too large for its fixed-point sum; --reduce tree has no limit");
}
