// SPDX-License-Identifier: MIT
// The options that every bench of reductions has, and what reduction_bench makes of them.
#ifndef COMMON_BENCH_OPTIONS_H
#define COMMON_BENCH_OPTIONS_H

#include "command_line.h"
#include "reduction_bench.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_options {
    const char *thresholds, *json; // json: NULL, or where --json says
    int64_t runs;
    int which; // reduction; REDUCTIONS: all of them
} bench_options;

#define BENCH_OPTIONS_DEFAULT                                                                                \
    { "0,4,8,16,24", NULL, 11, REDUCTIONS }

#define REDUCE_OPTION(options)                                                                               \
    { OPTION_CHOICE, "reduce", 0, &(options)->which, 0, 0, reduction_names_and_all(), REDUCE_HELP }
#define THRESHOLDS_OPTION(options)                                                                           \
    { OPTION_TEXT, "thresholds", 0, &(options)->thresholds, 0, 0, NULL, THRESHOLD_HELP }
#define REPEAT_OPTION(options)                                                                               \
    {                                                                                                        \
        OPTION_INT, "repeat", 0, &(options)->runs, 1, MAX_RUNS, NULL,                                        \
            "runs of everything that is timed, for the median, after one to warm up"                         \
    }
#define JSON_OPTION(options)                                                                                 \
    { OPTION_TEXT, "json", 0, &(options)->json, 0, 0, NULL, JSON_HELP }

// Fails if --thresholds is no list of thresholds.
bool bench_options_read(const bench_options *options, bench_settings *out, fault *why);

#ifdef __cplusplus
}
#endif
#endif
