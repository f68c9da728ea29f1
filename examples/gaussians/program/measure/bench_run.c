// SPDX-License-Identifier: MIT
#include "measure/bench_run.h"
#include "device.h"
#include "frames/device_gaussians.h"
#include "gpu_timer.h"
#include "frames/gs_check.h"
#include "measure/bench_views.h"
#include <stdlib.h>

static void run_blend(void *context, distwar_policy policy) {
    frame_render_backward(context, policy);
}

strategy_runner blend_runner(frame *f) {
    return (strategy_runner){run_blend, f};
}

typedef struct bench {
    const gs_gaussians *gaussians;
    const bench_settings *settings;
    frame f;
    gs_gaussians gradients, first_moment, second_moment; // device
    float *color_gradient;                               // host, of the largest view
    uint8_t *target;                                     // device, of the largest view
    double *loss;                                        // device, [3]
    gs_splat *splats;                                    // host
} bench;

static bool bench_open(bench *b, const gs_camera *cameras, size_t view_count, fault *why) {
    size_t values, count = (size_t)b->gaussians->count;
    b->color_gradient = bench_color_gradient(cameras, view_count, &values);
    b->splats = aligned_alloc(_Alignof(gs_splat), count * sizeof *b->splats);
    if (!b->color_gradient || !b->splats)
        return fail(why, "no memory for %zu Gaussians and pictures of %zu values", count, values);
    gs_gaussians *const shaped[] = {&b->gradients, &b->first_moment, &b->second_moment};
    for (int i = 0; i < 3; i++)
        *shaped[i] = device_gaussians_open(b->gaussians->count, b->gaussians->sh_degree);
    b->f.screen = SCREEN_SIGNED; // a stage does what others' do
    b->target = device_allocate(values);
    device_clear(b->target, values);
    b->loss = device_allocate(3 * sizeof *b->loss);
    return true;
}

static void bench_close(bench *b) {
    device_free(b->loss);
    device_free(b->target);
    device_gaussians_close(&b->second_moment);
    device_gaussians_close(&b->first_moment);
    device_gaussians_close(&b->gradients);
    free(b->splats);
    free(b->color_gradient);
    frame_close(&b->f);
}

static void forward(bench *b, const gs_camera *camera) {
    frame_render(&b->f, b->gaussians, b->gaussians->sh_degree, camera, b->settings->background);
}

static void backward(bench *b, distwar_policy policy) {
    frame_render_backward(&b->f, policy);
    frame_project_backward(&b->f, &b->gradients, false);
}

static bench_view view_of(bench *b) {
    int64_t visible = 0, count = b->gaussians->count;
    device_download(b->splats, b->f.view.splats, (size_t)count * sizeof *b->splats);
    for (int64_t i = 0; i < count; i++) visible += b->splats[i].depth > 0;
    return (bench_view){visible, b->f.view.lists.pairs};
}

// The stages of one run; the loss, which needs a photograph, and Adam are timed apart.
static void time_stages(bench *b, const gs_camera *camera, distwar_policy policy, gpu_timer *timer,
                        double milliseconds[STAGES]) {
    stage_clock clock;
    stage_clock_open(&clock);
    gpu_timer_scrub(timer);
    b->f.clock = &clock;
    stage_clock_start(&clock);
    forward(b, camera);
    stage_clock_mark(&clock, STAGE_LOSS);
    backward(b, policy);
    stage_clock_mark(&clock, STAGE_ADAM);
    stage_clock_mark(&clock, STAGE_DENSITY);
    b->f.clock = NULL;
    stage_clock_close(&clock);
    for (int i = 0; i < STAGES; i++) milliseconds[i] = clock.milliseconds[i];
}

// A step that moves nothing.
static double time_adam(bench *b, gpu_timer *timer) {
    const gs_adam_rates none = {0};
    gpu_timer_start(timer);
    GS_CHECK(gs_adam(b->gaussians, &b->gradients, &b->first_moment, &b->second_moment, &none, 1, NULL));
    return gpu_timer_stop(timer);
}

static void time_view(bench *b, const gs_camera *camera, distwar_policy policy, gpu_timer *timer,
                      bench_result *out, size_t view) {
    double times[BENCH_TIMES][MAX_RUNS], one[STAGES];
    const int runs = b->settings->runs;
    forward(b, camera); // this and the next line also warm up
    frame_set_gradient(&b->f, b->color_gradient);
    backward(b, policy);
    for (int r = 0; r < runs; r++) {
        time_stages(b, camera, policy, timer, one);
        times[BENCH_SUM][r] = 0;
        for (int i = 0; i < STAGES; i++) {
            times[i][r] = one[i];
            if (i != STAGE_LOSS && !stage_is_of_training(i)) times[BENCH_SUM][r] += one[i];
        }
        gpu_timer_start(timer);
        forward(b, camera);
        backward(b, policy);
        times[BENCH_END_TO_END][r] = gpu_timer_stop(timer);
    }
    for (int r = 0; r < runs; r++) {
        gpu_timer_start(timer);
        frame_loss(&b->f, &(frame_target){b->target, NULL, b->loss}, true);
        times[STAGE_LOSS][r] = gpu_timer_stop(timer);
        times[STAGE_ADAM][r] = time_adam(b, timer);
    }
    for (int i = 0; i < BENCH_TIMES; i++)
        if (out->times[i]) out->times[i][view] = timing_of_runs(times[i], (size_t)runs);
}

static size_t fastest_row(const cost_table *table) {
    size_t best = 0;
    for (size_t r = 1; r < table->row_count; r++)
        if (cost_row_time(table, r).mean < cost_row_time(table, best).mean) best = r;
    return best;
}

static bool result_open(bench_result *out, size_t view_count, const bench_settings *settings, fault *why) {
    *out = (bench_result){.view_count = view_count};
    if (!cost_table_open(&out->table, settings->candidates, view_count, settings->runs, why)) return false;
    out->views = calloc(view_count, sizeof *out->views);
    bool done = out->views;
    for (int i = 0; i < BENCH_TIMES && !out->table.counts; i++) {
        if (i == STAGE_DENSITY) continue;
        out->times[i] = calloc(view_count, sizeof *out->times[i]);
        done = done && out->times[i];
    }
    return done || fail(why, "no memory for the results of %zu views", view_count);
}

void bench_result_close(bench_result *result) {
    for (int i = 0; i < BENCH_TIMES; i++) free(result->times[i]);
    free(result->views);
    cost_table_close(&result->table);
    *result = (bench_result){0};
}

// Every strategy's backward blend, then the stages with the fastest.
static void run_views(bench *b, const gs_camera *cameras, size_t view_count, bench_result *out) {
    const strategy_runner runner = blend_runner(&b->f);
    for (size_t v = 0; v < view_count; v++) {
        forward(b, &cameras[v]);
        frame_set_gradient(&b->f, b->color_gradient);
        out->views[v] = view_of(b);
        cost_table_measure(&out->table, 0, v, &runner);
        frame_project_backward(&b->f, &b->gradients, false);
        frame_loss(&b->f, &(frame_target){b->target, NULL, b->loss}, true);
    }
    for (int i = 0; i < STAGES; i++) out->bytes[i] = frame_bytes(&b->f, (stage)i);
    out->parameter_bytes = device_gaussians_bytes(b->gaussians->count, b->gaussians->sh_degree);
    out->bytes[STAGE_PROJECT_BACKWARD] += out->parameter_bytes;
    out->bytes[STAGE_ADAM] = 2 * out->parameter_bytes;
    if (out->table.counts) return;
    out->fastest = fastest_row(&out->table);
    gpu_timer timer;
    gpu_timer_open(&timer);
    for (size_t v = 0; v < view_count; v++)
        time_view(b, &cameras[v], out->table.rows[out->fastest].candidate.policy, &timer, out, v);
    gpu_timer_close(&timer);
}

bool bench_run(const gs_gaussians *gaussians, const gs_camera *cameras, size_t view_count,
               const bench_settings *settings, bench_result *out, fault *why) {
    bench b = {.gaussians = gaussians, .settings = settings};
    bool done = result_open(out, view_count, settings, why) && bench_open(&b, cameras, view_count, why);
    if (done) run_views(&b, cameras, view_count, out);
    bench_close(&b);
    return done;
}
