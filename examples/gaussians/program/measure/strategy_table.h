// SPDX-License-Identifier: MIT
// What each strategy of the backward blend costs: median time on a GPU, counts of instructions on the CPU.
#ifndef SPLAT_STRATEGY_TABLE_H
#define SPLAT_STRATEGY_TABLE_H

#include "view/frame.h"
#include "kernel_counts.h"
#include "timing.h"
#include <stddef.h>

enum { MAX_RUNS = 1000 };

typedef struct strategy {
    distwar_strategy reduction;
    int threshold; // 0 if it has none
} strategy;

// Every value is of one backward blend of one view.
typedef struct strategy_row {
    strategy strategy;
    timing *times;         // [views], on a GPU
    kernel_counts *counts; // [views], on the CPU
} strategy_row;

typedef struct strategy_table {
    bool counts; // as on the CPU; else times
    size_t row_count, view_count, view_room;
    strategy_row *rows;
} strategy_table;

// Rows for one reduction, or for all of them if it is DISTWAR_STRATEGY_COUNT, and each threshold (0..33); one for
// those that have no threshold. Closed also after a failure.
bool strategy_table_open(strategy_table *table, distwar_strategy reduction, const int *thresholds,
                         size_t threshold_count, size_t view_room, fault *why);
void strategy_table_close(strategy_table *table);
// Runs the backward blend of every row on the view that `f` has rendered, with the gradient it has; on a GPU
// once to warm up and `runs` times (1..MAX_RUNS) for the median.
void strategy_table_measure(strategy_table *table, frame *f, int runs);
// Over the views measured, of which there is at least one. On a GPU; counts are exact.
timing_summary strategy_row_time(const strategy_table *table, size_t row);
// The mean over views, on the CPU.
kernel_counts strategy_row_counts(const strategy_table *table, size_t row);
// On stdout. other_kernels: time of all that is not the backward blend, for a column with the sum; none if 0.
void strategy_table_print(const strategy_table *table, double other_kernels);

#endif
