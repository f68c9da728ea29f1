// SPDX-License-Identifier: MIT
#include "strategy_costs.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool row_open(cost_row *row, const strategy_candidate *candidate, size_t views, fault *why) {
    *row = (cost_row){.candidate = *candidate,
                      .times = calloc(views, sizeof *row->times),
                      .counts = calloc(views, sizeof *row->counts)};
    return (row->times && row->counts) ||
           fail(why, "no memory for the strategies' costs in %zu views", views);
}

bool cost_table_open(cost_table *table, const candidate_list *candidates, size_t view_count, int runs,
                     fault *why) {
    kernel_counts unused;
    *table = (cost_table){.counts = kernel_counts_now(&unused), .view_count = view_count, .runs = runs};
    if (!table->counts) gpu_timer_open(&table->timer);
    for (int i = 0; i < candidates->count; i++)
        if (!cost_table_add(table, &candidates->rows[i], why)) return false;
    return true;
}

void cost_table_close(cost_table *table) {
    for (size_t r = 0; r < table->row_count; r++) {
        free(table->rows[r].times);
        free(table->rows[r].counts);
    }
    free(table->rows);
    gpu_timer_close(&table->timer);
    *table = (cost_table){0};
}

bool cost_table_add(cost_table *table, const strategy_candidate *candidate, fault *why) {
    cost_row *rows = realloc(table->rows, (table->row_count + 1) * sizeof *rows);
    if (!rows) return fail(why, "no memory for the costs of another strategy");
    table->rows = rows;
    return row_open(&rows[table->row_count++], candidate, table->view_count, why);
}

int cost_table_find(const cost_table *table, distwar_policy policy) {
    for (size_t r = 0; r < table->row_count; r++) {
        const distwar_policy *of_row = &table->rows[r].candidate.policy;
        if (of_row->strategy == policy.strategy && of_row->balance_threshold == policy.balance_threshold)
            return (int)r;
    }
    return -1;
}

static timing time_runs(cost_table *table, distwar_policy policy, const strategy_runner *runner) {
    double times[MAX_RUNS];
    runner->run(runner->context, policy);
    for (int i = 0; i < table->runs; i++) {
        gpu_timer_start(&table->timer);
        runner->run(runner->context, policy);
        times[i] = gpu_timer_stop(&table->timer);
    }
    return timing_of_runs(times, (size_t)table->runs);
}

static kernel_counts count_run(distwar_policy policy, const strategy_runner *runner) {
    kernel_counts before, after;
    kernel_counts_now(&before);
    runner->run(runner->context, policy);
    kernel_counts_now(&after);
    return kernel_counts_between(&before, &after);
}

void cost_table_measure(cost_table *table, size_t first_row, size_t view, const strategy_runner *runner) {
    for (size_t r = first_row; r < table->row_count; r++) {
        cost_row *row = &table->rows[r];
        if (table->counts)
            row->counts[view] = count_run(row->candidate.policy, runner);
        else
            row->times[view] = time_runs(table, row->candidate.policy, runner);
    }
}

timing_summary cost_row_time(const cost_table *table, size_t row) {
    return timing_over_views(table->rows[row].times, table->view_count);
}

static kernel_counts cost_row_counts(const cost_table *table, size_t row) {
    return kernel_counts_mean(table->rows[row].counts, table->view_count);
}

double cost_table_speedup(const cost_table *table, double milliseconds) {
    const int atomic = cost_table_find(table, (distwar_policy){DISTWAR_ATOMIC, 0});
    return atomic < 0 ? 0 : cost_row_time(table, (size_t)atomic).mean / milliseconds;
}

// ---- as text

void candidate_print(const strategy_candidate *candidate) {
    char threshold[16] = "-";
    if (candidate->has_threshold)
        snprintf(threshold, sizeof threshold, "%d", candidate->policy.balance_threshold);
    printf("%-8s %9s", distwar_strategy_name(candidate->policy.strategy), threshold);
}

static void print_counts(const cost_table *table, const char *title) {
    printf("%s, counted; instructions, shuffles and votes are of warps:\n"
           "strategy threshold  atomic adds   add bytes atomic instrs     shuffles        votes\n",
           title);
    for (size_t r = 0; r < table->row_count; r++) {
        const kernel_counts counts = cost_row_counts(table, r);
        candidate_print(&table->rows[r].candidate);
        printf(" %12" PRIu64 " %11" PRIu64 " %13" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n",
               counts.atomic_requests, counts.atomic_bytes, counts.atomic_instructions, counts.shuffles,
               counts.votes);
    }
}

static void print_times(const cost_table *table, const char *title, double others) {
    const bool speedups = others <= 0 && cost_table_speedup(table, 1) > 0;
    printf("%s, ms: means over %zu views of the median run; least and most are over the views;\n"
           "noise is the largest (slowest - fastest) / median over the runs of a view:\n"
           "strategy threshold     mean    least     most  noise%s\n",
           title, table->view_count,
           others > 0 ? "  all kernels"
           : speedups ? "  times as fast as atomic"
                      : "");
    for (size_t r = 0; r < table->row_count; r++) {
        const timing_summary time = cost_row_time(table, r);
        candidate_print(&table->rows[r].candidate);
        printf(" %8.4f %8.4f %8.4f %5.1f%%", time.mean, time.minimum, time.maximum, 100 * time.spread);
        if (others > 0) printf(" %12.4f", others + time.mean);
        if (speedups) printf(" %8.3f", cost_table_speedup(table, time.mean));
        printf("\n");
    }
}

void cost_table_print(const cost_table *table, const char *title, double others) {
    if (table->counts)
        print_counts(table, title);
    else
        print_times(table, title, others);
}

// ---- as JSON

void candidate_describe(json_writer *json, const strategy_candidate *candidate) {
    json_put_text(json, "reduction", distwar_strategy_name(candidate->policy.strategy));
    if (candidate->has_threshold)
        json_put_integer(json, "threshold", candidate->policy.balance_threshold);
    else
        json_put_text(json, "threshold", NULL);
}

void timing_summary_describe(json_writer *json, const timing_summary *time) {
    json_put_number(json, "mean_ms", time->mean);
    json_put_number(json, "least_ms", time->minimum);
    json_put_number(json, "most_ms", time->maximum);
    json_put_number(json, "noise", time->spread);
}

void kernel_counts_describe(json_writer *json, const kernel_counts *counts) {
    json_put_integer(json, "atomic_adds", (int64_t)counts->atomic_requests);
    json_put_integer(json, "atomic_bytes", (int64_t)counts->atomic_bytes);
    json_put_integer(json, "atomic_instructions", (int64_t)counts->atomic_instructions);
    json_put_integer(json, "shuffles", (int64_t)counts->shuffles);
    json_put_integer(json, "votes", (int64_t)counts->votes);
}

void cost_row_describe(json_writer *json, const cost_table *table, size_t row) {
    candidate_describe(json, &table->rows[row].candidate);
    if (table->counts) {
        const kernel_counts counts = cost_row_counts(table, row);
        kernel_counts_describe(json, &counts);
    } else {
        const timing_summary time = cost_row_time(table, row);
        timing_summary_describe(json, &time);
    }
}
