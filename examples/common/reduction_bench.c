// SPDX-License-Identifier: MIT
#include "reduction_bench.h"
#include "device.h"
#include "gpu_timer.h"
#include "reduction_tuner.h"
#include <inttypes.h>
#include <stdlib.h>

enum { MAX_TUNED_LAUNCHES = 4000, NONE = -1 };

static bool add_row(reduction_bench *b, reduction which, int threshold) {
    bench_row *row = &b->rows[b->row_count++];
    *row = (bench_row){.which = which,
                       .threshold = threshold,
                       .times = calloc(b->view_count, sizeof *row->times),
                       .counts = calloc(b->view_count, sizeof *row->counts)};
    return row->times && row->counts;
}

static bool open_rows(const bench_settings *settings, reduction_bench *b, fault *why) {
    b->rows = calloc(REDUCTIONS * (settings->threshold_count + 1) + 1, sizeof *b->rows);
    bool done = b->rows;
    for (int which = 0; done && which < REDUCTIONS; which++) {
        if (settings->which != REDUCTIONS && (int)settings->which != which) continue;
        if (!reduction_has_threshold((reduction)which)) {
            done = add_row(b, (reduction)which, 0);
            continue;
        }
        for (size_t t = 0; done && t < settings->threshold_count; t++)
            done = add_row(b, (reduction)which, settings->thresholds[t]);
    }
    return done || fail(why, "no memory for the costs of the reductions in %zu views", b->view_count);
}

void reduction_bench_close(reduction_bench *b) {
    for (size_t r = 0; r < b->row_count; r++) {
        free(b->rows[r].times);
        free(b->rows[r].counts);
    }
    free(b->rows);
    *b = (reduction_bench){0};
}

// ---- measuring

static void time_row(const bench_subject *subject, bench_row *row, size_t view, gpu_timer *timer, int runs) {
    double times[MAX_RUNS];
    subject->run(subject->context, row->which, row->threshold);
    for (int i = 0; i < runs; i++) {
        gpu_timer_start(timer);
        subject->run(subject->context, row->which, row->threshold);
        times[i] = gpu_timer_stop(timer);
    }
    row->times[view] = timing_of_runs(times, (size_t)runs);
}

static void count_row(const bench_subject *subject, bench_row *row, size_t view) {
    kernel_counts before, after;
    kernel_counts_now(&before);
    subject->run(subject->context, row->which, row->threshold);
    kernel_counts_now(&after);
    row->counts[view] = kernel_counts_between(&before, &after);
}

static void measure_rows(const bench_subject *subject, int runs, gpu_timer *timer, reduction_bench *b,
                         size_t first) {
    for (size_t view = 0; view < b->view_count; view++) {
        subject->prepare(subject->context, view);
        for (size_t r = first; r < b->row_count; r++)
            if (b->counts)
                count_row(subject, &b->rows[r], view);
            else
                time_row(subject, &b->rows[r], view, timer, runs);
    }
}

static void count_lanes(const bench_subject *subject, reduction_bench *b) {
    lane_histogram *device = device_allocate(sizeof *device);
    device_clear(device, sizeof *device);
    for (size_t view = 0; view < b->view_count; view++) {
        subject->prepare(subject->context, view);
        subject->count_lanes(subject->context, device);
    }
    device_download(&b->lanes, device, sizeof b->lanes);
    device_free(device);
}

static int find_row(const reduction_bench *b, reduction which, int threshold) {
    for (size_t r = 0; r < b->row_count; r++)
        if (b->rows[r].which == which && b->rows[r].threshold == threshold) return (int)r;
    return NONE;
}

// The views in turn, as in training, until the tuner has looked at every candidate.
static bool tune(const bench_subject *subject, int runs, gpu_timer *timer, reduction_bench *b, fault *why) {
    reduction_tuner *tuner = calloc(1, sizeof *tuner);
    if (!tuner) return fail(why, "no memory for the tuner");
    reduction_tuner_open(tuner, REDUCTIONS, 0);
    while (b->tuner_launches < MAX_TUNED_LAUNCHES && !tuner->t.known) {
        double work = subject->prepare(subject->context, (size_t)b->tuner_launches++ % b->view_count);
        gpu_timer_scrub(timer);
        reduction_tuner_begin(tuner);
        subject->run(subject->context, tuner->which, tuner->threshold);
        reduction_tuner_end(tuner, work);
    }
    reduction_tuner_settle(tuner);
    b->tuner_cost = tune_cost(&tuner->t);
    int row = find_row(b, tuner->which, tuner->threshold);
    bool done = row != NONE || add_row(b, tuner->which, tuner->threshold);
    if (done && row == NONE) measure_rows(subject, runs, timer, b, b->row_count - 1);
    b->tuner_row = row != NONE ? (size_t)row : b->row_count - 1;
    b->tuned = done;
    reduction_tuner_close(tuner);
    free(tuner);
    return done || fail(why, "no memory for the tuner's choice");
}

bool reduction_bench_run(const bench_subject *subject, const bench_settings *settings, reduction_bench *out,
                         fault *why) {
    kernel_counts unused;
    *out = (reduction_bench){.counts = kernel_counts_now(&unused), .view_count = subject->view_count};
    if (!open_rows(settings, out, why)) return false;
    count_lanes(subject, out);
    if (out->counts) {
        measure_rows(subject, settings->runs, NULL, out, 0);
        return true;
    }
    gpu_timer timer;
    gpu_timer_open(&timer);
    measure_rows(subject, settings->runs, &timer, out, 0);
    bool done = settings->which != REDUCTIONS || tune(subject, settings->runs, &timer, out, why);
    gpu_timer_close(&timer);
    return done;
}

// ---- the report

static double row_mean(const reduction_bench *b, size_t row) {
    return timing_over_views(b->rows[row].times, b->view_count).mean;
}

// The fastest of what a tuner has to choose from.
static size_t fastest_row(const reduction_bench *b) {
    size_t best = 0;
    for (size_t r = 1; r < b->row_count; r++)
        if (b->rows[r].which < REDUCE_FIXED && row_mean(b, r) < row_mean(b, best)) best = r;
    return best;
}

static void print_name(const bench_row *row) {
    char threshold[8] = "-";
    if (reduction_has_threshold(row->which)) snprintf(threshold, sizeof threshold, "%d", row->threshold);
    printf("%-8s %9s", reduction_name(row->which), threshold);
}

static void print_counts(const reduction_bench *b) {
    printf("One run, counted; instructions, shuffles and votes are of warps:\n"
           "strategy threshold  atomic adds   add bytes atomic instrs     shuffles        votes\n");
    for (size_t r = 0; r < b->row_count; r++) {
        kernel_counts counts = kernel_counts_mean(b->rows[r].counts, b->view_count);
        print_name(&b->rows[r]);
        printf(" %12" PRIu64 " %11" PRIu64 " %13" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n",
               counts.atomic_requests, counts.atomic_bytes, counts.atomic_instructions, counts.shuffles,
               counts.votes);
    }
}

static void print_times(const reduction_bench *b) {
    const int atomic = find_row(b, REDUCE_ATOMIC, 0);
    printf("One run, ms: means over %zu views of the median run; least and most are of "
           "views,\nnoise is how far the runs of a view lie apart, at worst:\n"
           "strategy threshold     mean    least     most  noise%s\n",
           b->view_count, atomic == NONE ? "" : "  times as fast as atomic");
    for (size_t r = 0; r < b->row_count; r++) {
        timing_summary time = timing_over_views(b->rows[r].times, b->view_count);
        print_name(&b->rows[r]);
        printf(" %8.4f %8.4f %8.4f %5.1f%%", time.mean, time.minimum, time.maximum, 100 * time.spread);
        if (atomic != NONE) printf(" %8.3f", row_mean(b, (size_t)atomic) / time.mean);
        printf("\n");
    }
    if (!b->tuned) return;
    const size_t best = fastest_row(b);
    const double chosen = row_mean(b, b->tuner_row);
    printf("\nThe tuner, after %" PRId64 " launches: ", b->tuner_launches);
    print_name(&b->rows[b->tuner_row]);
    printf(", %+.1f %% of the time of the fastest ", 100 * (chosen / row_mean(b, best) - 1));
    print_name(&b->rows[best]);
    if (atomic != NONE) printf(", %.3f times as fast as atomic", row_mean(b, (size_t)atomic) / chosen);
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

void reduction_bench_print(const reduction_bench *b) {
    printf("Of all commits of a warp with a lane active, per cent, with 1..32 of them:\n");
    print_histogram("  active lanes                        ", b->lanes.active_lanes);
    print_histogram("  different keys among them           ", b->lanes.distinct_keys);
    printf("\n");
    if (b->counts)
        print_counts(b);
    else
        print_times(b);
}

static void describe_name(json_writer *json, const bench_row *row) {
    json_put_text(json, "reduction", reduction_name(row->which));
    if (reduction_has_threshold(row->which))
        json_put_integer(json, "threshold", row->threshold);
    else
        json_put_text(json, "threshold", NULL);
}

static void describe_row(json_writer *json, const reduction_bench *b, size_t r) {
    const bench_row *row = &b->rows[r];
    json_begin(json, NULL, '{');
    describe_name(json, row);
    if (b->counts) {
        kernel_counts counts = kernel_counts_mean(row->counts, b->view_count);
        json_put_integer(json, "atomic_adds", (int64_t)counts.atomic_requests);
        json_put_integer(json, "atomic_bytes", (int64_t)counts.atomic_bytes);
        json_put_integer(json, "atomic_instructions", (int64_t)counts.atomic_instructions);
        json_put_integer(json, "shuffles", (int64_t)counts.shuffles);
        json_put_integer(json, "votes", (int64_t)counts.votes);
    } else {
        const int atomic = find_row(b, REDUCE_ATOMIC, 0);
        timing_summary time = timing_over_views(row->times, b->view_count);
        json_put_number(json, "mean_ms", time.mean);
        json_put_number(json, "least_ms", time.minimum);
        json_put_number(json, "most_ms", time.maximum);
        json_put_number(json, "noise", time.spread);
        if (atomic != NONE)
            json_put_number(json, "speedup_over_atomic", row_mean(b, (size_t)atomic) / time.mean);
    }
    json_end(json, '}');
}

static void describe_histogram(json_writer *json, const char *key, const unsigned long long counts[33]) {
    json_begin(json, key, '[');
    for (int n = 0; n <= 32; n++) json_put_integer(json, NULL, (int64_t)counts[n]);
    json_end(json, ']');
}

void reduction_bench_describe(json_writer *json, const reduction_bench *b) {
    json_put_text(json, "device", device_name());
    json_put_integer(json, "views", (int64_t)b->view_count);
    describe_histogram(json, "active_lanes", b->lanes.active_lanes);
    describe_histogram(json, "distinct_keys", b->lanes.distinct_keys);
    json_begin(json, "adjoint", '[');
    for (size_t r = 0; r < b->row_count; r++) describe_row(json, b, r);
    json_end(json, ']');
    if (!b->tuned) return;
    const size_t best = fastest_row(b);
    json_begin(json, "tuner", '{');
    describe_name(json, &b->rows[b->tuner_row]);
    json_put_integer(json, "launches", b->tuner_launches);
    json_put_number(json, "cost_ms", b->tuner_cost);
    json_put_number(json, "mean_ms", row_mean(b, b->tuner_row));
    json_put_number(json, "over_fastest", row_mean(b, b->tuner_row) / row_mean(b, best) - 1);
    json_begin(json, "fastest", '{');
    describe_name(json, &b->rows[best]);
    json_end(json, '}');
    json_end(json, '}');
}
