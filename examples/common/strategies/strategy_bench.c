// SPDX-License-Identifier: MIT
#include "strategy_bench.h"
#include "device.h"
#include "strategy_tuner.h"
#include <inttypes.h>
#include <stdlib.h>

enum { MAX_TUNED_LAUNCHES = 4000 };

void strategy_bench_close(strategy_bench *b) {
    cost_table_close(&b->table);
    *b = (strategy_bench){.tuned = false};
}

// ---- measuring

static void measure_rows(const bench_subject *subject, cost_table *table, size_t first_row) {
    const strategy_runner runner = {subject->run, subject->context};
    for (size_t view = 0; view < table->view_count; view++) {
        subject->prepare(subject->context, view);
        cost_table_measure(table, first_row, view, &runner);
    }
}

static void count_lanes(const bench_subject *subject, lane_histogram *out) {
    lane_histogram *device = device_allocate(sizeof *device);
    device_clear(device, sizeof *device);
    for (size_t view = 0; view < subject->view_count; view++) {
        subject->prepare(subject->context, view);
        subject->count_lanes(subject->context, device);
    }
    device_download(out, device, sizeof *out);
    device_free(device);
}

// The row of the policy; measures a new one if the table has none.
static bool find_or_measure(const bench_subject *subject, distwar_policy policy, const candidate_list *from,
                            cost_table *table, size_t *row, fault *why) {
    const int found = cost_table_find(table, policy);
    *row = found >= 0 ? (size_t)found : table->row_count;
    if (found >= 0) return true;
    for (int i = 0; i < from->count; i++) {
        const strategy_candidate *c = &from->rows[i];
        if (c->policy.strategy != policy.strategy || c->policy.balance_threshold != policy.balance_threshold)
            continue;
        if (!cost_table_add(table, c, why)) return false;
    }
    measure_rows(subject, table, *row);
    return true;
}

static bool is_strategy_of(const candidate_list *list, distwar_strategy strategy) {
    for (int i = 0; i < list->count; i++)
        if (list->rows[i].policy.strategy == strategy) return true;
    return false;
}

static size_t find_fastest(const cost_table *table, const candidate_list *among) {
    size_t best = table->row_count;
    for (size_t r = 0; r < table->row_count; r++)
        if (is_strategy_of(among, table->rows[r].candidate.policy.strategy) &&
            (best == table->row_count || cost_row_time(table, r).mean < cost_row_time(table, best).mean))
            best = r;
    return best;
}

// Takes the views in turn, as training does, until the tuner's first exploration ends.
static bool tune(const bench_subject *subject, const candidate_list *candidates, strategy_bench *b,
                 fault *why) {
    strategy_tuner *tuner = calloc(1, sizeof *tuner);
    if (!tuner) return fail(why, "no memory for the tuner");
    strategy_tuner_open(tuner, candidates);
    while (b->tuner_launches < MAX_TUNED_LAUNCHES && !tuner->t.known) {
        const size_t view = (size_t)b->tuner_launches++ % subject->view_count;
        const double work = subject->prepare(subject->context, view);
        gpu_timer_scrub(&b->table.timer);
        strategy_tuner_begin(tuner);
        subject->run(subject->context, tuner->policy);
        strategy_tuner_end(tuner, work);
    }
    const strategy_report report = strategy_tuner_report(tuner);
    strategy_tuner_close(tuner);
    free(tuner);
    b->tuner_cost = report.cost;
    b->tuned = find_or_measure(subject, report.policy, candidates, &b->table, &b->tuner_row, why);
    if (b->tuned) b->fastest_row = find_fastest(&b->table, candidates);
    return b->tuned;
}

bool strategy_bench_run(const bench_subject *subject, const bench_plan *plan, strategy_bench *out,
                        fault *why) {
    *out = (strategy_bench){.tuned = false};
    if (!cost_table_open(&out->table, &plan->measured, subject->view_count, plan->runs, why)) return false;
    count_lanes(subject, &out->lanes);
    measure_rows(subject, &out->table, 0);
    return out->table.counts || plan->tuned.count == 0 || tune(subject, &plan->tuned, out, why);
}

// ---- the report

// Relative to the fastest.
static double tuner_loss(const strategy_bench *b) {
    return cost_row_time(&b->table, b->tuner_row).mean / cost_row_time(&b->table, b->fastest_row).mean - 1;
}

static void print_tuner(const strategy_bench *b) {
    const double speedup = cost_table_speedup(&b->table, cost_row_time(&b->table, b->tuner_row).mean);
    printf("\nThe tuner, after %" PRId64 " launches: ", b->tuner_launches);
    candidate_print(&b->table.rows[b->tuner_row].candidate);
    printf(", %+.1f %% of the time of the fastest ", 100 * tuner_loss(b));
    candidate_print(&b->table.rows[b->fastest_row].candidate);
    if (speedup > 0) printf(", %.3f times as fast as atomic", speedup);
    printf("; finding it cost %.1f ms\n", b->tuner_cost);
}

static void print_histogram(const char *title, const unsigned long long *counts) {
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

void strategy_bench_print(const strategy_bench *b) {
    printf("Commits of a warp with at least one active lane, by the number n = 1..32, per cent:\n");
    print_histogram("  n active lanes                      ", b->lanes.active_lanes);
    print_histogram("  n different keys                    ", b->lanes.distinct_keys);
    printf("\n");
    cost_table_print(&b->table, "One run", 0);
    if (b->tuned) print_tuner(b);
}

static void describe_histogram(json_writer *json, const char *key, const unsigned long long counts[33]) {
    json_begin(json, key, '[');
    for (int n = 0; n <= 32; n++) json_put_integer(json, NULL, (int64_t)counts[n]);
    json_end(json, ']');
}

static void describe_tuner(json_writer *json, const strategy_bench *b) {
    json_begin(json, "tuner", '{');
    candidate_describe(json, &b->table.rows[b->tuner_row].candidate);
    json_put_integer(json, "launches", b->tuner_launches);
    json_put_number(json, "cost_ms", b->tuner_cost);
    json_put_number(json, "mean_ms", cost_row_time(&b->table, b->tuner_row).mean);
    json_put_number(json, "over_fastest", tuner_loss(b));
    json_begin(json, "fastest", '{');
    candidate_describe(json, &b->table.rows[b->fastest_row].candidate);
    json_end(json, '}');
    json_end(json, '}');
}

void strategy_bench_describe(json_writer *json, const strategy_bench *b) {
    json_put_text(json, "device", device_name());
    json_put_integer(json, "views", (int64_t)b->table.view_count);
    describe_histogram(json, "active_lanes", b->lanes.active_lanes);
    describe_histogram(json, "distinct_keys", b->lanes.distinct_keys);
    json_begin(json, "adjoint", '[');
    for (size_t r = 0; r < b->table.row_count; r++) {
        json_begin(json, NULL, '{');
        cost_row_describe(json, &b->table, r);
        if (!b->table.counts) {
            const double speedup = cost_table_speedup(&b->table, cost_row_time(&b->table, r).mean);
            if (speedup > 0) json_put_number(json, "speedup_over_atomic", speedup);
        }
        json_end(json, '}');
    }
    json_end(json, ']');
    if (b->tuned) describe_tuner(json, b);
}
