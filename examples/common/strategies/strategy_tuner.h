// SPDX-License-Identifier: MIT
// The policy of each launch: the only candidate, or the one that a tuner (distwar/tune.h) finds
// fastest while the program runs. On the CPU times say nothing about kernels; there the first candidate
// stays.
#pragma once

#include "strategy_options.h"
#include <distwar/tune.h>

C_LINKAGE_BEGIN

typedef struct strategy_tuner {
    bool tunes;
    distwar_policy policy; // of the next launch, or of the last
    tuner t;
    tune_events ring;
} strategy_tuner;

// What tuning has found so far.
typedef struct strategy_report {
    distwar_policy policy; // the best known
    bool tuned;            // false: the policy was given, and the members below are 0
    bool known;            // the first exploration has ended
    int64_t measured;      // launches
    int64_t examinations;  // races after the first exploration
    int64_t changes;       // of the best
    double cost;           // milliseconds, see tune_cost
} strategy_report;

// candidates: 1..TUNE_MAX_CANDIDATES, all different. The first is in use until more is known. With one
// candidate nothing is tuned. Here and below, a failure of the device ends the program.
void strategy_tuner_open(strategy_tuner *tuner, const candidate_list *candidates);
// Right before and right after the launch on the default stream, which uses tuner->policy. work: what the
// launch's time is about proportional to, such as pixels.
void strategy_tuner_begin(strategy_tuner *tuner);
void strategy_tuner_end(strategy_tuner *tuner, double work);
strategy_report strategy_tuner_report(const strategy_tuner *tuner);
// Where the policy comes from, to print after it: " by the tuner", " by a tuner that had too few iterations",
// or "" if nothing was tuned.
const char *strategy_report_source(const strategy_report *report);
void strategy_tuner_close(strategy_tuner *tuner); // harmless on {0}

C_LINKAGE_END
