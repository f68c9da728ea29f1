// SPDX-License-Identifier: MIT
#include "measure/bench_ranks.h"
#include "device.h"
#include "device_buffer.h"
#include "sharded_density.h"
#include "strategies/strategy_costs.h"
#include "frames/device_gaussians.h"
#include "measure/bench_views.h"
#include "measure/viewer.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct rank_bench {
    ranks *group;
    const rank_bench_settings *settings;
    sharded *shared;
    gs_gaussians gaussians, gradients; // this rank's
    device_buffer color_gradient;      // of the largest view
    double *values;                    // device, [RANK_BENCH_TIMES]
} rank_bench;

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

// For sharded_batch: the gradient of every image is the same noise.
static bool put_gradient(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    const rank_bench *const b = context;
    const size_t bytes = GS_CHANNELS * (size_t)image->width * (size_t)image->height * sizeof(float);
    const cudaError_t status =
        cudaMemcpyAsync(image->d_color, b->color_gradient.memory, bytes, cudaMemcpyDeviceToDevice, stream);
    return status == cudaSuccess || ranks_fail_cuda(group, status, "copying the gradient of an image");
}

static bool fill_gradient(rank_bench *b, const gs_camera *cameras, size_t count) {
    size_t values;
    float *const host = bench_color_gradient(cameras, count, &values);
    if (!host) return ranks_fail(b->group, "no memory for pictures of %zu values", values);
    device_upload(device_buffer_reserve(&b->color_gradient, values * sizeof *host), host,
                  values * sizeof *host);
    free(host);
    return true;
}

static bool open(rank_bench *b, const gs_gaussians *host, const gs_camera *cameras, size_t view_count) {
    int64_t begin[RANKS_MAX + 1];
    const int own = ranks_own(b->group);
    shard_begin(b->group, host->count, begin);
    b->gaussians = device_gaussians_from_rows(host, begin[own], begin[own + 1] - begin[own]);
    b->gradients = device_gaussians_open(b->gaussians.count, host->sh_degree);
    b->values = device_allocate(RANK_BENCH_TIMES * sizeof *b->values);
    b->shared = sharded_open(b->group);
    return b->shared && fill_gradient(b, cameras, view_count);
}

static void close(rank_bench *b) {
    sharded_close(b->shared);
    device_gaussians_close(&b->gaussians);
    device_gaussians_close(&b->gradients);
    device_buffer_close(&b->color_gradient);
    device_free(b->values);
}

// Combines values[count] of all ranks.
static bool combine(const rank_bench *b, double *values, int count, ranks_operation operation) {
    const size_t bytes = (size_t)count * sizeof *values;
    device_upload(b->values, values, bytes);
    const ranks_reduction take = {b->values, count, RANKS_DOUBLE, operation};
    if (!ranks_all_reduce(b->group, &take, NULL) || !ranks_wait(b->group, NULL)) return false;
    device_download(values, b->values, bytes);
    return true;
}

// times: of this rank.
static bool run_once(rank_bench *b, sharded_batch *batch, double times[RANK_BENCH_TIMES]) {
    const sharded_gradient gradient = {.gaussians = b->gradients};
    batch->timed = true;
    if (!sharded_backward(b->shared, batch, &gradient, NULL) || !ranks_barrier(b->group, NULL)) return false;
    const sharded_report report = sharded_last(b->shared);
    for (int i = 0; i < SHARDED_STAGES; i++) times[i] = report.ms[i];
    batch->timed = false;
    const double since = milliseconds();
    if (!sharded_backward(b->shared, batch, &gradient, NULL) || !ranks_wait(b->group, NULL)) return false;
    times[RANK_BENCH_STEP] = milliseconds() - since;
    return true;
}

static bool time_step(rank_bench *b, const gs_camera *cameras, rank_bench_step *step) {
    double all[RANK_BENCH_TIMES][MAX_RUNS], one[RANK_BENCH_TIMES];
    int32_t pictures[GS_MAX_VIEWS];
    for (int v = 0; v < step->views; v++) pictures[v] = (int32_t)step->first + v;
    sharded_batch batch = {.gaussians = b->gaussians,
                           .sh_degree_used = b->gaussians.sh_degree,
                           .views = step->views,
                           .cameras = cameras,
                           .pictures = pictures,
                           .policy = b->settings->policy,
                           .loss = put_gradient,
                           .context = b};
    memcpy(batch.background, b->settings->background, sizeof batch.background);
    for (int r = -1; r < b->settings->runs; r++) { // the first warms up, and tells what rows cost
        if (!run_once(b, &batch, one) || !combine(b, one, RANK_BENCH_TIMES, RANKS_MAX_OF)) return false;
        for (int i = 0; i < RANK_BENCH_TIMES && r >= 0; i++) all[i][r] = one[i];
    }
    for (int i = 0; i < RANK_BENCH_TIMES; i++)
        step->times[i] = timing_of_runs(all[i], (size_t)b->settings->runs);
    const sharded_report report = sharded_last(b->shared);
    double sums[2] = {(double)report.bytes_sent, (double)report.pairs};
    if (!combine(b, sums, 2, RANKS_SUM)) return false;
    step->bytes_sent = (int64_t)sums[0], step->pairs = (int64_t)sums[1];
    return true;
}

bool rank_bench_run(ranks *group, const gs_gaussians *host, const gs_camera *cameras, size_t view_count,
                    const rank_bench_settings *settings, rank_bench_result *out) {
    rank_bench b = {.group = group, .settings = settings};
    *out = (rank_bench_result){.steps = calloc(view_count, sizeof *out->steps)};
    if (!out->steps) return ranks_fail(group, "no memory for the results of %zu views", view_count);
    const int views = settings->views > 0 ? settings->views : viewer_at_once(group);
    bool done = open(&b, host, cameras, view_count);
    for (size_t at = 0; at < view_count && done;) {
        rank_bench_step *const step = &out->steps[out->step_count++];
        step->first = at;
        step->views = viewer_alike(cameras + at, view_count - at, views);
        done = time_step(&b, cameras + at, step);
        at += (size_t)step->views;
    }
    close(&b);
    return done;
}

void rank_bench_result_close(rank_bench_result *result) {
    free(result->steps);
    *result = (rank_bench_result){0};
}

const char *rank_bench_name(int time) {
    static const char *const names[RANK_BENCH_TIMES] = {"project",  "exchange", "render", "pixels",
                                                        "backward", "return",   "home",   "step"};
    return names[time];
}

timing_summary rank_bench_summary(const rank_bench_result *result, int time) {
    timing_summary out = {0};
    timing *const each = calloc(result->step_count + 1, sizeof *each);
    for (size_t i = 0; each && i < result->step_count; i++) each[i] = result->steps[i].times[time];
    if (each) out = timing_over_views(each, result->step_count);
    free(each);
    return out;
}
