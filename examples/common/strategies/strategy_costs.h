// SPDX-License-Identifier: MIT
// A table of what each candidate costs on each view: times of runs on a GPU; on the CPU, where times say
// nothing about kernels, counts of instructions.
#pragma once

#include "gpu_timer.h"
#include "files/json_writer.h"
#include "kernel_counts.h"
#include "strategy_options.h"
#include "timing.h"

C_LINKAGE_BEGIN

enum { MAX_RUNS = 1000 };

// What is measured. Queues its work on the default stream, and may run any number of times.
typedef struct strategy_runner {
    void (*run)(void *context, distwar_policy policy);
    void *context;
} strategy_runner;

typedef struct cost_row {
    strategy_candidate candidate;
    timing *times;         // [view_count], on a GPU
    kernel_counts *counts; // [view_count], on the CPU
} cost_row;

typedef struct cost_table {
    bool counts; // on the CPU; else times
    size_t row_count, view_count;
    int runs;
    cost_row *rows; // [row_count]
    gpu_timer timer;
} cost_table;

// A row for each candidate, still empty. runs: timed runs of a candidate and view, 1..MAX_RUNS. Close it also
// after a failure.
bool cost_table_open(cost_table *table, const candidate_list *candidates, size_t view_count, int runs,
                     fault *why);
void cost_table_close(cost_table *table);
// Adds an empty row to the end of the table.
bool cost_table_add(cost_table *table, const strategy_candidate *candidate, fault *why);
// The row with this policy; -1: none.
int cost_table_find(const cost_table *table, distwar_policy policy);
// Fills rows first_row .. row_count - 1 for one view. On a GPU: the median of the runs, after one run to warm
// up; before each run the L2 cache is overwritten. On the CPU: one run.
void cost_table_measure(cost_table *table, size_t first_row, size_t view, const strategy_runner *runner);

// Over all views, which have been measured.
timing_summary cost_row_time(const cost_table *table, size_t row); // on a GPU
// atomic's mean time divided by `milliseconds`; 0 if the table has no row of atomic. On a GPU.
double cost_table_speedup(const cost_table *table, double milliseconds);

// Prints the table on stdout. title: what was measured, such as "One run". others: milliseconds of the other
// kernels, for a column with the sum; 0: a column with the speedup over atomic instead.
void cost_table_print(const cost_table *table, const char *title, double others);
void candidate_print(const strategy_candidate *candidate); // "tree             8"

// Add members to the open JSON object.
void candidate_describe(json_writer *json, const strategy_candidate *candidate);
void cost_row_describe(json_writer *json, const cost_table *table, size_t row); // over all views
void timing_summary_describe(json_writer *json, const timing_summary *time);
void kernel_counts_describe(json_writer *json, const kernel_counts *counts);

C_LINKAGE_END
