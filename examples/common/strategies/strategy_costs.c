// SPDX-License-Identifier: MIT
#include "strategy_costs.h"
#include "cli/command_line.h"
#include "device.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static timing time_runs(const strategy_subject *subject, distwar_policy policy, int runs, gpu_timer *timer) {
    double times[MAX_RUNS];
    subject->run(subject->context, policy);
    for (int i = 0; i < runs; i++) {
        gpu_timer_start(timer);
        subject->run(subject->context, policy);
        times[i] = gpu_timer_stop(timer);
    }
    return timing_of_runs(times, (size_t)runs);
}

static kernel_counts count_run(const strategy_subject *subject, distwar_policy policy) {
    kernel_counts before, after;
    kernel_counts_now(&before);
    subject->run(subject->context, policy);
    kernel_counts_now(&after);
    return kernel_counts_between(&before, &after);
}

// times, counts: [count][view_count]; those that the backend has.
static void measure_views(const strategy_subject *subject, const strategy_costs *costs, int runs,
                          timing *times, kernel_counts *counts) {
    gpu_timer timer = {0};
    if (!costs->counted) gpu_timer_open(&timer);
    for (size_t view = 0; view < costs->view_count; view++) {
        subject->prepare(subject->context, view);
        for (int r = 0; r < costs->count; r++) {
            const distwar_policy policy = costs->rows[r].candidate.policy;
            const size_t at = (size_t)r * costs->view_count + view;
            if (costs->counted)
                counts[at] = count_run(subject, policy);
            else
                times[at] = time_runs(subject, policy, runs, &timer);
        }
    }
    gpu_timer_close(&timer);
}

static void count_lanes(const strategy_subject *subject, lane_histogram *out) {
    lane_histogram *const device = device_allocate(sizeof *device);
    device_clear(device, sizeof *device);
    for (size_t view = 0; view < subject->view_count; view++) {
        subject->prepare(subject->context, view);
        subject->count_lanes(subject->context, device);
    }
    device_download(out, device, sizeof *out);
    device_free(device);
}

bool strategy_costs_measure(const strategy_subject *subject, const candidate_list *candidates, int runs,
                            strategy_costs *out, fault *why) {
    const size_t views = subject->view_count, cells = (size_t)candidates->count * views;
    kernel_counts unused;
    *out = (strategy_costs){.counted = kernel_counts_now(&unused),
                            .has_lanes = subject->count_lanes,
                            .view_count = views,
                            .count = candidates->count,
                            .rows = calloc((size_t)candidates->count, sizeof *out->rows)};
    timing *const times = calloc(cells, sizeof *times);
    kernel_counts *const counts = calloc(cells, sizeof *counts);
    const bool done = out->rows && times && counts;
    if (done) {
        for (int r = 0; r < out->count; r++) out->rows[r].candidate = candidates->rows[r];
        if (out->has_lanes) count_lanes(subject, &out->lanes);
        measure_views(subject, out, runs, times, counts);
        for (int r = 0; r < out->count; r++) {
            if (out->counted)
                out->rows[r].counts = kernel_counts_mean(counts + (size_t)r * views, views);
            else
                out->rows[r].time = timing_over_views(times + (size_t)r * views, views);
        }
    }
    free(times);
    free(counts);
    return done || fail(why, "no memory for the strategies' costs in %zu views", views);
}

void strategy_costs_close(strategy_costs *costs) {
    free(costs->rows);
    *costs = (strategy_costs){0};
}

// atomic's time over the row's; 0 if atomic was not measured.
static double speedup_over_atomic(const strategy_costs *costs, const strategy_cost *row) {
    for (int r = 0; r < costs->count; r++)
        if (costs->rows[r].candidate.policy.strategy == DISTWAR_ATOMIC)
            return costs->rows[r].time.mean / row->time.mean;
    return 0;
}

// ---- as text

static void print_histogram(const char *title, const unsigned long long counts[33]) {
    unsigned long long total = 0;
    double mean = 0;
    for (int n = 1; n <= 32; n++) {
        total += counts[n];
        mean += n * (double)counts[n];
    }
    printf("%s", title);
    for (int n = 1; n <= 32 && total > 0; n++) {
        printf(" %5.1f", 100 * (double)counts[n] / (double)total);
        if (n % 8 == 0) printf("%s", n < 32 ? "\n                                      " : "");
    }
    if (total > 0) printf("   mean %.1f", mean / (double)total);
    printf("\n");
}

static void print_row(const strategy_costs *costs, const strategy_cost *row) {
    char threshold[16] = "-";
    if (row->candidate.has_threshold)
        snprintf(threshold, sizeof threshold, "%d", row->candidate.policy.balance_threshold);
    printf("%-8s %9s", distwar_strategy_name(row->candidate.policy.strategy), threshold);
    if (costs->counted) {
        const kernel_counts *const n = &row->counts;
        printf(" %12" PRIu64 " %11" PRIu64 " %13" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", n->atomic_requests,
               n->atomic_bytes, n->atomic_instructions, n->shuffles, n->votes);
        return;
    }
    const timing_summary *const time = &row->time;
    printf(" %8.4f %8.4f %8.4f %5.1f%%", time->mean, time->minimum, time->maximum, 100 * time->spread);
    const double speedup = speedup_over_atomic(costs, row);
    if (speedup > 0) printf(" %8.3f", speedup);
    printf("\n");
}

void strategy_costs_print(const strategy_costs *costs, const char *title) {
    if (costs->has_lanes) {
        printf("Commits of a warp with at least one active lane, by the number n = 1..32, per cent:\n");
        print_histogram("  n active lanes                      ", costs->lanes.active_lanes);
        print_histogram("  n different keys                    ", costs->lanes.distinct_keys);
        printf("\n");
    }
    if (costs->counted)
        printf("%s, counted; instructions, shuffles and votes are of warps:\n"
               "strategy threshold  atomic adds   add bytes atomic instrs     shuffles        votes\n",
               title);
    else
        printf("%s, ms: means over %zu views of the median run; least and most are over the views;\n"
               "noise is the largest (slowest - fastest) / median over the runs of a view:\n"
               "strategy threshold     mean    least     most  noise%s\n",
               title, costs->view_count,
               speedup_over_atomic(costs, &costs->rows[0]) > 0 ? "  times as fast as atomic" : "");
    for (int r = 0; r < costs->count; r++) print_row(costs, &costs->rows[r]);
}

// ---- as JSON

static void describe_histogram(json_writer *json, const char *key, const unsigned long long counts[33]) {
    json_begin(json, key, '[');
    for (int n = 0; n <= 32; n++) json_put_integer(json, NULL, (int64_t)counts[n]);
    json_end(json, ']');
}

static void describe_row(json_writer *json, const strategy_costs *costs, const strategy_cost *row) {
    json_put_text(json, "reduction", distwar_strategy_name(row->candidate.policy.strategy));
    if (row->candidate.has_threshold)
        json_put_integer(json, "threshold", row->candidate.policy.balance_threshold);
    else
        json_put_text(json, "threshold", NULL);
    if (costs->counted) {
        json_put_integer(json, "atomic_adds", (int64_t)row->counts.atomic_requests);
        json_put_integer(json, "atomic_bytes", (int64_t)row->counts.atomic_bytes);
        json_put_integer(json, "atomic_instructions", (int64_t)row->counts.atomic_instructions);
        json_put_integer(json, "shuffles", (int64_t)row->counts.shuffles);
        json_put_integer(json, "votes", (int64_t)row->counts.votes);
        return;
    }
    json_put_number(json, "mean_ms", row->time.mean);
    json_put_number(json, "least_ms", row->time.minimum);
    json_put_number(json, "most_ms", row->time.maximum);
    json_put_number(json, "noise", row->time.spread);
    const double speedup = speedup_over_atomic(costs, row);
    if (speedup > 0) json_put_number(json, "speedup_over_atomic", speedup);
}

void strategy_costs_describe(json_writer *json, const strategy_costs *costs) {
    json_put_text(json, "device", device_name());
    json_put_integer(json, "views", (int64_t)costs->view_count);
    if (costs->has_lanes) {
        describe_histogram(json, "active_lanes", costs->lanes.active_lanes);
        describe_histogram(json, "distinct_keys", costs->lanes.distinct_keys);
    }
    json_begin(json, "adjoint", '[');
    for (int r = 0; r < costs->count; r++) {
        json_begin(json, NULL, '{');
        describe_row(json, costs, &costs->rows[r]);
        json_end(json, '}');
    }
    json_end(json, ']');
}

// ---- options

cost_options cost_options_default(void) {
    return (cost_options){.thresholds = "0,4,8,16,24",
                          .runs = 11,
                          .reduce = offered_index(sum_strategies, DISTWAR_STRATEGY_COUNT)};
}

void cost_options_add(cost_options *options, option_table *table) {
    const option_spec rows[] = {
        REDUCE_OPTION(&options->reduce, strategy_names(sum_strategies, "all", options->names), REDUCE_HELP),
        OPTION("thresholds", &options->thresholds, .help = "thresholds to measure, separated by commas"),
        OPTION("repeat", &options->runs, .minimum = 1, .maximum = MAX_RUNS,
               .help = "timed runs of each measurement, after one to warm up; the median counts"),
        JSON_OPTION(&options->json), OPTIONS_END};
    option_table_add(table, rows);
}

bool cost_options_read(const cost_options *options, candidate_list *out, fault *why) {
    int thresholds[MAX_THRESHOLDS];
    size_t count;
    if (!parse_thresholds(options->thresholds, thresholds, &count, why)) return false;
    *out = candidates_of(sum_strategies, sum_strategies[options->reduce].strategy, thresholds, count);
    return true;
}
