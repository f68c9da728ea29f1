// SPDX-License-Identifier: MIT
#include "bench_options.h"

bool bench_options_read(const bench_options *options, bench_settings *out, fault *why) {
    *out = (bench_settings){.which = (reduction)options->which, .runs = (int)options->runs};
    return parse_thresholds(options->thresholds, out->thresholds, &out->threshold_count, why);
}
