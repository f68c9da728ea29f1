// SPDX-License-Identifier: MIT
#include "strategy_costs.h"
#include "device.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef DISTWAR_SIMT
#include "simt.h"
#endif

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void strategy_cost_add(strategy_cost *all, size_t view, size_t views, double *milliseconds, size_t count) {
    qsort(milliseconds, count, sizeof *milliseconds, compare);
    const double median = (milliseconds[(count - 1) / 2] + milliseconds[count / 2]) / 2;
    const double noise = median > 0 ? (milliseconds[count - 1] - milliseconds[0]) / median : 0;
    double *const value = all->value;
    value[COST_MEAN] += median / (double)views;
    value[COST_LEAST] = view == 0 ? median : fmin(value[COST_LEAST], median);
    value[COST_MOST] = fmax(value[COST_MOST], median);
    value[COST_NOISE] = fmax(value[COST_NOISE], noise);
}

#ifdef DISTWAR_SIMT
enum { COSTS = 5 };
static const char *const keys[COSTS] = {"atomic_adds", "atomic_bytes", "atomic_instructions", "shuffles",
                                        "votes"};

static void measure(const strategy_subject *subject, int runs, gpu_timer *timer, strategy_costs *out,
                    size_t view, int row) {
    (void)runs, (void)timer;
    DEVICE_CHECK(cudaDeviceSynchronize());
    const simt_counters before = simt_counters_read();
    subject->run(subject->context, out->candidates.rows[row].policy, NULL);
    DEVICE_CHECK(cudaDeviceSynchronize());
    const simt_counters after = simt_counters_read();
    const uint64_t done[COSTS] = {after.atomic_requests - before.atomic_requests,
                                  after.atomic_bytes - before.atomic_bytes,
                                  after.atomic_instructions - before.atomic_instructions,
                                  after.shuffles - before.shuffles, after.votes - before.votes};
    for (int k = 0; k < COSTS; k++) {
        double *const value = &out->costs[row].value[k];
        *value += (double)done[k];
        if (view + 1 == out->view_count) *value = floor(*value / (double)out->view_count);
    }
}
#else
enum { COSTS = 4 };
static const char *const keys[COSTS] = {"mean_ms", "least_ms", "most_ms", "noise"};

static void measure(const strategy_subject *subject, int runs, gpu_timer *timer, strategy_costs *out,
                    size_t view, int row) {
    const distwar_policy policy = out->candidates.rows[row].policy;
    double times[MAX_RUNS];
    subject->run(subject->context, policy, NULL);
    for (int i = 0; i < runs; i++) {
        gpu_timer_start(timer);
        subject->run(subject->context, policy, NULL);
        times[i] = gpu_timer_stop(timer);
    }
    strategy_cost_add(&out->costs[row], view, out->view_count, times, (size_t)runs);
}
#endif

void strategy_costs_measure(const strategy_subject *subject, const candidate_list *candidates, int runs,
                            strategy_costs *out) {
    *out = (strategy_costs){.view_count = subject->view_count, .candidates = *candidates};
    lane_histogram *const lanes = device_allocate(sizeof *lanes);
    device_clear(lanes, sizeof *lanes);
    gpu_timer timer = {0};
    if (!KERNELS_ARE_COUNTED) gpu_timer_open(&timer);
    for (size_t view = 0; view < out->view_count; view++) {
        subject->prepare(subject->context, view);
        subject->run(subject->context, candidates->rows[0].policy, lanes);
        for (int row = 0; row < candidates->count; row++) measure(subject, runs, &timer, out, view, row);
    }
    gpu_timer_close(&timer);
    device_download(&out->lanes, lanes, sizeof *lanes);
    device_free(lanes);
}

// atomic's time over the row's; 0 if atomic was not measured, or if nothing was timed.
static double speedup_over_atomic(const strategy_costs *costs, int row) {
    for (int r = 0; r < costs->candidates.count && !KERNELS_ARE_COUNTED; r++)
        if (costs->candidates.rows[r].policy.strategy == DISTWAR_ATOMIC)
            return costs->costs[r].value[COST_MEAN] / costs->costs[row].value[COST_MEAN];
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

static void print_row(const strategy_costs *costs, int row) {
    const strategy_candidate *const candidate = &costs->candidates.rows[row];
    const double *const value = costs->costs[row].value, speedup = speedup_over_atomic(costs, row);
    char threshold[16] = "-";
    if (candidate->has_threshold)
        snprintf(threshold, sizeof threshold, "%d", candidate->policy.balance_threshold);
    printf("%-8s %9s", distwar_strategy_name(candidate->policy.strategy), threshold);
    if (KERNELS_ARE_COUNTED)
        printf(" %12.0f %11.0f %13.0f %12.0f %12.0f", value[0], value[1], value[2], value[3], value[4]);
    else
        printf(" %8.4f %8.4f %8.4f %5.1f%%", value[COST_MEAN], value[COST_LEAST], value[COST_MOST],
               100 * value[COST_NOISE]);
    if (speedup > 0) printf(" %8.3f", speedup);
    printf("\n");
}

void strategy_costs_print(const strategy_costs *costs) {
    printf("Commits of a warp with at least one active lane, by the number n = 1..32, per cent:\n");
    print_histogram("  n active lanes                      ", costs->lanes.active_lanes);
    print_histogram("  n different keys                    ", costs->lanes.distinct_keys);
    if (KERNELS_ARE_COUNTED)
        printf("\nOne run, counted; instructions, shuffles and votes are of warps:\n"
               "strategy threshold  atomic adds   add bytes atomic instrs     shuffles        votes\n");
    else
        printf("\nOne run, ms: means over %zu views of the median run; least and most are over the views;\n"
               "noise is the largest (slowest - fastest) / median over the runs of a view:\n"
               "strategy threshold     mean    least     most  noise%s\n",
               costs->view_count, speedup_over_atomic(costs, 0) > 0 ? "  times as fast as atomic" : "");
    for (int row = 0; row < costs->candidates.count; row++) print_row(costs, row);
}

// ---- as JSON

static void describe_histogram(json_writer *json, const char *key, const unsigned long long counts[33]) {
    json_begin(json, key, '[');
    for (int n = 0; n <= 32; n++) json_put_integer(json, NULL, (int64_t)counts[n]);
    json_end(json, ']');
}

void strategy_costs_describe(json_writer *json, const strategy_costs *costs) {
    json_put_text(json, "device", device_name());
    json_put_integer(json, "views", (int64_t)costs->view_count);
    describe_histogram(json, "active_lanes", costs->lanes.active_lanes);
    describe_histogram(json, "distinct_keys", costs->lanes.distinct_keys);
    json_begin(json, "adjoint", '[');
    for (int row = 0; row < costs->candidates.count; row++) {
        const strategy_candidate *const candidate = &costs->candidates.rows[row];
        json_begin(json, NULL, '{');
        json_put_text(json, "reduction", distwar_strategy_name(candidate->policy.strategy));
        if (candidate->has_threshold)
            json_put_integer(json, "threshold", candidate->policy.balance_threshold);
        else
            json_put_text(json, "threshold", NULL);
        for (int k = 0; k < COSTS; k++) json_put_number(json, keys[k], costs->costs[row].value[k]);
        const double speedup = speedup_over_atomic(costs, row);
        if (speedup > 0) json_put_number(json, "speedup_over_atomic", speedup);
        json_end(json, '}');
    }
    json_end(json, ']');
}
