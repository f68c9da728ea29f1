// SPDX-License-Identifier: MIT
#include "measure/bench_run.h"
#include "device.h"
#include <inttypes.h>
#include <stdio.h>

static const char *time_name(int which) {
    return which == BENCH_SUM          ? "sum of stages"
           : which == BENCH_END_TO_END ? "end to end"
                                       : stage_name((stage)which);
}

// "13.0"; empty on the CPU.
typedef struct cuda_versions {
    char runtime[16], driver[16];
} cuda_versions;

static cuda_versions find_versions(void) {
    cuda_versions out = {"", ""};
#ifndef DISTWAR_SIMT
    int runtime, driver;
    DEVICE_CHECK(cudaRuntimeGetVersion(&runtime));
    DEVICE_CHECK(cudaDriverGetVersion(&driver));
    snprintf(out.runtime, sizeof out.runtime, "%d.%d", runtime / 1000, runtime % 1000 / 10);
    snprintf(out.driver, sizeof out.driver, "%d.%d", driver / 1000, driver % 1000 / 10);
#endif
    return out;
}

typedef struct range {
    double mean;
    int64_t least, most;
} range;

static void extend(range *r, int64_t value, size_t count, bool first) {
    r->mean += (double)value / (double)count;
    if (first || value < r->least) r->least = value;
    if (first || value > r->most) r->most = value;
}

static void ranges(const bench_result *result, range *visible, range *pairs) {
    *visible = *pairs = (range){0};
    for (size_t v = 0; v < result->view_count; v++) {
        extend(visible, result->views[v].visible, result->view_count, v == 0);
        extend(pairs, result->views[v].pairs, result->view_count, v == 0);
    }
}

static void print_setting(const bench_report *report) {
    const bench_result *result = report->result;
    const bench_views *const views = report->views;
    cuda_versions versions = find_versions();
    range visible, pairs;
    ranges(result, &visible, &pairs);
    bool one_size = true;
    for (size_t v = 1; v < result->view_count; v++)
        one_size = one_size && views->cameras[v].width == views->cameras[0].width &&
                   views->cameras[v].height == views->cameras[0].height;
    printf("scene      %s: %" PRId64 " Gaussians, SH degree %d\n", report->path, report->scene->count,
           report->scene->sh_degree);
    printf("views      %zu of the %zu of %s: every %dth by name, %s to %s, ", result->view_count,
           views->data.view_count, report->options->cameras, BENCH_VIEW_STEP, views->names[0],
           views->names[result->view_count - 1]);
    printf("%d x %d%s%s\n", views->cameras[0].width, views->cameras[0].height,
           one_size ? "" : " and other sizes",
           report->options->center_principal ? ", principal point in the middle" : "");
    printf("splats     %.0f visible (%" PRId64 " to %" PRId64 "), %.0f in the tiles' lists (%" PRId64
           " to %" PRId64 ")\n",
           visible.mean, visible.least, visible.most, pairs.mean, pairs.least, pairs.most);
    printf("device     %s, dsplat %s (%s)", device_name(), gs_version(), gs_backend());
    if (versions.runtime[0]) printf(", CUDA %s, driver for %s", versions.runtime, versions.driver);
    printf("\n\n");
}

static void print_row(const char *name, const timing *times, size_t view_count, const size_t *bytes) {
    printf("%-16s", name);
    if (times) {
        timing_summary time = timing_over_views(times, view_count);
        printf(" %8.4f %8.4f %8.4f %5.1f%%", time.mean, time.minimum, time.maximum, 100 * time.spread);
    }
    if (bytes) printf(" %12zu", *bytes);
    printf("\n");
}

static void print_stages(const bench_result *result) {
    bool timed = !result->table.counts;
    if (timed) {
        const strategy_candidate *fastest = &result->table.rows[result->fastest].candidate;
        printf("A step with the fastest strategy below (%s", distwar_strategy_name(fastest->policy.strategy));
        if (fastest->has_threshold) printf(" at threshold %d", fastest->policy.balance_threshold);
        printf("), ms, and device memory:\n"
               "stage                mean    least     most  noise        bytes\n");
    } else {
        printf("Device memory:\nstage                   bytes\n");
    }
    for (int i = 0; i < BENCH_TIMES; i++)
        if (i != STAGE_LOSS && !stage_is_of_training(i) && (timed || i < STAGES))
            print_row(time_name(i), result->times[i], result->view_count,
                      i < STAGES ? &result->bytes[i] : NULL);
    print_row("(loss, apart)", result->times[STAGE_LOSS], result->view_count, &result->bytes[STAGE_LOSS]);
    print_row("(Adam, apart)", result->times[STAGE_ADAM], result->view_count, &result->bytes[STAGE_ADAM]);
    printf("%-*s %12zu\n\n", timed ? 50 : 16, "(parameters)", result->parameter_bytes);
}

void bench_report_print(const bench_report *report) {
    const bench_result *result = report->result;
    double others = 0; // kernels that are not the backward blend
    print_setting(report);
    print_stages(result);
    for (int i = 0; i < STAGES && !result->table.counts; i++)
        if (i != STAGE_LOSS && !stage_is_of_training(i) && i != STAGE_RENDER_BACKWARD)
            others += timing_over_views(result->times[i], result->view_count).mean;
    cost_table_print(&result->table, BLEND_TITLE, others);
}

static void describe_timing(json_writer *json, const char *key, const timing *time) {
    json_begin(json, key, '{');
    json_put_number(json, "median", time->median);
    json_put_number(json, "least", time->minimum);
    json_put_number(json, "most", time->maximum);
    json_end(json, '}');
}

void bench_subject_describe(json_writer *json, const char *path, const gs_gaussians *scene,
                            const char *cameras) {
    json_put_text(json, "device", device_name());
    json_put_text(json, "version", gs_version());
    json_put_text(json, "backend", gs_backend());
    json_put_text(json, "scene", path);
    json_put_integer(json, "gaussians", scene->count);
    json_put_integer(json, "sh_degree", scene->sh_degree);
    json_put_text(json, "cameras", cameras);
}

static void describe_setting(json_writer *json, const bench_report *report) {
    const bench_view_options *const options = report->options;
    cuda_versions versions = find_versions();
    bench_subject_describe(json, report->path, report->scene, options->cameras);
    json_put_text(json, "cuda_runtime", versions.runtime[0] ? versions.runtime : NULL);
    json_put_text(json, "cuda_driver", versions.driver[0] ? versions.driver : NULL);
    json_put_integer(json, "views_in_all", (int64_t)report->views->data.view_count);
    json_put_integer(json, "view_step", BENCH_VIEW_STEP);
    json_put_boolean(json, "center_principal", options->center_principal);
    json_put_integer(json, "downscale", options->downscale);
    json_put_text(json, "size", options->size);
    json_put_floats(json, "background", report->settings->background, GS_CHANNELS);
    json_put_integer(json, "runs", report->settings->runs);
}

static void describe_views(json_writer *json, const bench_report *report) {
    const bench_result *result = report->result;
    json_begin(json, "views", '[');
    for (size_t v = 0; v < result->view_count; v++) {
        json_begin(json, NULL, '{');
        json_put_text(json, "name", report->views->names[v]);
        json_put_integer(json, "width", report->views->cameras[v].width);
        json_put_integer(json, "height", report->views->cameras[v].height);
        json_put_integer(json, "visible", result->views[v].visible);
        json_put_integer(json, "pairs", result->views[v].pairs);
        if (!result->table.counts) {
            json_begin(json, "ms", '{');
            for (int i = 0; i < BENCH_TIMES; i++)
                if (result->times[i]) describe_timing(json, time_name(i), &result->times[i][v]);
            json_end(json, '}');
        }
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void describe_stages(json_writer *json, const bench_result *result) {
    json_put_integer(json, "parameter_bytes", (int64_t)result->parameter_bytes);
    if (!result->table.counts) {
        json_begin(json, "stages_with", '{');
        candidate_describe(json, &result->table.rows[result->fastest].candidate);
        json_end(json, '}');
    }
    json_begin(json, "stages", '{');
    for (int i = 0; i < BENCH_TIMES; i++) {
        if (i == STAGE_DENSITY || (result->table.counts && i >= STAGES)) continue;
        json_begin(json, time_name(i), '{');
        if (result->times[i]) {
            timing_summary time = timing_over_views(result->times[i], result->view_count);
            timing_summary_describe(json, &time);
        }
        if (i < STAGES) json_put_integer(json, "bytes", (int64_t)result->bytes[i]);
        json_end(json, '}');
    }
    json_end(json, '}');
}

static void describe_strategies(json_writer *json, const cost_table *table) {
    json_begin(json, "render backward", '[');
    for (size_t r = 0; r < table->row_count; r++) {
        json_begin(json, NULL, '{');
        cost_row_describe(json, table, r);
        json_begin(json, "views", '[');
        for (size_t v = 0; v < table->view_count; v++) {
            if (!table->counts) {
                describe_timing(json, NULL, &table->rows[r].times[v]);
                continue;
            }
            json_begin(json, NULL, '{');
            kernel_counts_describe(json, &table->rows[r].counts[v]);
            json_end(json, '}');
        }
        json_end(json, ']');
        json_end(json, '}');
    }
    json_end(json, ']');
}

void bench_report_describe(json_writer *json, const void *subject) {
    const bench_report *report = subject;
    describe_setting(json, report);
    describe_stages(json, report->result);
    describe_strategies(json, &report->result->table);
    describe_views(json, report);
}
