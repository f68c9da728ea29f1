// SPDX-License-Identifier: MIT
// The options of every bench of strategies.
#pragma once

#include "cli/command_line.h"
#include "strategy_bench.h"

C_LINKAGE_BEGIN

typedef struct bench_options {
    const char *thresholds;
    const char *json; // NULL: no --json
    int64_t runs;
    int reduce; // index into sum_strategies
    const char *names[STRATEGY_NAMES];
} bench_options;

bench_options bench_options_default(void);

#define BENCH_REDUCE_OPTION(options)                                                                         \
    REDUCE_OPTION(&(options)->reduce, strategy_names(sum_strategies, "all", (options)->names), REDUCE_HELP)
#define THRESHOLDS_OPTION(at) OPTION("thresholds", at, .help = "thresholds to measure, separated by commas")
#define REPEAT_OPTION(at)                                                                                    \
    OPTION("repeat", at, .minimum = 1, .maximum = MAX_RUNS,                                                  \
           .help = "timed runs of each measurement, after one to warm up; the median counts")

// Adds --thresholds, --repeat and --json, for programs in C++.
void bench_options_add(bench_options *options, option_table *table);

// What the options ask for: with "all", also the tuner. Fails if --thresholds is not a list of thresholds.
bool bench_options_read(const bench_options *options, bench_plan *out, fault *why);

C_LINKAGE_END
