// SPDX-License-Identifier: MIT
#include "bench_options.h"

bench_options bench_options_default(void) {
    return (bench_options){.thresholds = "0,4,8,16,24",
                           .runs = 11,
                           .reduce = offered_index(sum_strategies, DISTWAR_STRATEGY_COUNT)};
}

void bench_options_add(bench_options *options, option_table *table) {
    option_table_add(table,
                     (option_spec[]){THRESHOLDS_OPTION(&options->thresholds), REPEAT_OPTION(&options->runs),
                                     JSON_OPTION(&options->json), OPTIONS_END});
}

bool bench_options_read(const bench_options *options, bench_plan *out, fault *why) {
    int thresholds[MAX_THRESHOLDS];
    size_t count;
    const distwar_strategy which = sum_strategies[options->reduce].strategy;
    *out = (bench_plan){.runs = (int)options->runs};
    if (!parse_thresholds(options->thresholds, thresholds, &count, why)) return false;
    out->measured = candidates_of(sum_strategies, which, thresholds, count);
    if (which == DISTWAR_STRATEGY_COUNT) out->tuned = sum_candidates();
    return true;
}
