// SPDX-License-Identifier: MIT
// What waiting costs, and what a batch saves. Times a training step a view in four ways:
//   waits    gs_bin waits for the stream, as without a report
//   settled  as dsplat train: the report is read after the loss is queued
//   queued   nothing is read
//   graph    a CUDA graph a view
// and forward and backward of all views as one call a view, as one call in all (gs_views), and as a graph of
// that. GPU only.
#include "measure/bench_views.h"
#include "commands/command.h"
#include "device.h"
#include "device_buffer.h"
#include "gpu_timer.h"
#include "files/json_writer.h"
#include "cli/progress.h"
#include "scene.h"
#include "timing.h"
#include "frames/device_gaussians.h"
#include "frames/gs_check.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 101 };

typedef enum way {
    WAITS,
    SETTLED,
    QUEUED,
    GRAPH,
    SINGLE_WAITS,
    SINGLE_QUEUED,
    BATCH_WAITS,
    BATCH_QUEUED,
    BATCH_GRAPH,
    WAYS
} way;
static const char *const way_names[WAYS] = {"waits",        "settled",       "queued",
                                            "graph",        "single, waits", "single, queued",
                                            "batch, waits", "batch, queued", "batch, graph"};

static bool is_step(way w) {
    return w <= GRAPH;
}
static bool is_batch(way w) {
    return w >= BATCH_WAITS;
}
static bool has_report(way w) {
    return w != WAITS && w != SINGLE_WAITS && w != BATCH_WAITS;
}

typedef struct mode_options {
    const char *scene, *json;
    int64_t runs;
    bench_view_options views;
} mode_options;

// A view, or all of them, with memory of its own.
typedef struct placed {
    gs_view view;
    gs_gradient gradient;
    device_buffer block;
    cudaGraphExec_t graph[2]; // a step; forward and backward
    size_t nodes[2];
} placed;

typedef struct result {
    timing gpu, host, wall; // milliseconds of all views; host: until the last call has returned
    double wait;            // of the host's time, in frame_settle's place; the mean
} result;

typedef struct modes {
    const mode_options *options;
    const bench_views *views;
    const gs_gaussians *gaussians; // device
    gs_gaussians gradients, first_moment, second_moment;
    placed *single; // [views->count]
    placed batch;
    float *color_gradient; // device, of all views
    uint8_t *target;
    void *loss_workspace;
    size_t loss_bytes;
    double *loss; // device
    gs_bin_report *report, *pinned;
    cudaStream_t stream;
    distwar_policy policy;
    int64_t pairs;
    result results[WAYS];
    size_t launches[WAYS]; // with memsets and copies; of all views; 0: not known
} modes;

static size_t pixels_of(const modes *m) {
    return (size_t)m->views->cameras[0].width * (size_t)m->views->cameras[0].height;
}

static void forward(modes *m, placed *p) {
    GS_CHECK(gs_forward(&p->view, m->stream));
}

static void backward(modes *m, placed *p) {
    GS_CHECK(gs_backward(&p->view, &p->gradient, m->policy, m->stream));
}

static void loss(modes *m, placed *p) {
    const gs_comparison images = {p->view.camera.width, p->view.camera.height, p->view.image.color, m->target,
                                  NULL};
    GS_CHECK(gs_loss(&images, m->loss_workspace, m->loss_bytes, m->loss, m->color_gradient, m->stream));
}

static void adam(modes *m) {
    const gs_adam_rates none = {0};
    GS_CHECK(gs_adam(m->gaussians, &m->gradients, &m->first_moment, &m->second_moment, &none, 1, m->stream));
}

static void open_placed(modes *m, placed *p, size_t first, int32_t count) {
    const gs_view_parts parts = {.image = 1, .moments = 1, .strategy = m->policy.strategy};
    p->view = (gs_view){.gaussians = *m->gaussians,
                        .camera = m->views->cameras[first],
                        .sh_degree_used = m->gaussians->sh_degree,
                        .pair_capacity = p->view.pair_capacity};
    if (count > 1) p->view.views = (gs_views){count, m->views->cameras + first};
    p->gradient = (gs_gradient){.color = m->color_gradient, .gaussians = m->gradients};
    gs_status status = GS_OK;
    do {
        if (status == GS_PAIRS_DO_NOT_FIT)
            p->view.pair_capacity = p->view.pairs_needed + p->view.pairs_needed / 4;
        size_t bytes;
        GS_CHECK(gs_view_bytes(&p->view, &parts, &bytes));
        void *block = device_buffer_reserve(&p->block, bytes);
        GS_CHECK(gs_view_place(&p->view, &p->gradient, &parts, block, bytes));
        status = gs_forward(&p->view, m->stream);
    } while (status == GS_PAIRS_DO_NOT_FIT);
    GS_CHECK(status);
}

// Returns the time that the host waited.
static double step(modes *m, placed *p, way w) {
    double waited = 0;
    forward(m, p);
    loss(m, p);
    if (w == SETTLED) {
        const double began = seconds_now();
        GS_CHECK(gs_bin_wait(&p->view, m->stream));
        waited = seconds_now() - began;
    }
    backward(m, p);
    adam(m);
    return waited;
}

static void capture(modes *m, placed *p, bool is_whole_step) {
    cudaGraph_t graph;
    const int which = !is_whole_step;
    DEVICE_CHECK(cudaStreamBeginCapture(m->stream, cudaStreamCaptureModeThreadLocal));
    if (is_whole_step) {
        step(m, p, QUEUED);
    } else {
        forward(m, p);
        backward(m, p);
    }
    DEVICE_CHECK(cudaStreamEndCapture(m->stream, &graph));
    DEVICE_CHECK(cudaGraphGetNodes(graph, NULL, &p->nodes[which]));
    DEVICE_CHECK(cudaGraphInstantiateWithFlags(&p->graph[which], graph, 0));
    DEVICE_CHECK(cudaGraphDestroy(graph));
}

static double run_one(modes *m, placed *p, way w) {
    p->view.report = w == SETTLED ? m->pinned : has_report(w) ? m->report : NULL;
    if (w == GRAPH || w == BATCH_GRAPH) {
        DEVICE_CHECK(cudaGraphLaunch(p->graph[w == BATCH_GRAPH], m->stream));
        return 0;
    }
    if (is_step(w)) return step(m, p, w);
    forward(m, p);
    backward(m, p);
    return 0;
}

static double run_all(modes *m, way w) {
    double waited = 0;
    if (is_batch(w)) return run_one(m, &m->batch, w);
    for (size_t v = 0; v < m->views->count; v++) waited += run_one(m, &m->single[v], w);
    return waited;
}

static void measure(modes *m, way w, gpu_timer *timer) {
    double gpu[MOST_RUNS], host[MOST_RUNS], wall[MOST_RUNS], waited = 0;
    const int runs = (int)m->options->runs;
    run_all(m, w); // warms up
    for (int r = 0; r < runs; r++) {
        gpu_timer_start(timer);
        run_all(m, w);
        gpu[r] = gpu_timer_stop(timer);
        DEVICE_CHECK(cudaDeviceSynchronize());
        const double began = seconds_now();
        waited += run_all(m, w) / runs;
        host[r] = 1000 * (seconds_now() - began);
        DEVICE_CHECK(cudaDeviceSynchronize());
        wall[r] = 1000 * (seconds_now() - began);
    }
    m->results[w] = (result){timing_of_runs(gpu, (size_t)runs), timing_of_runs(host, (size_t)runs),
                             timing_of_runs(wall, (size_t)runs), 1000 * waited};
}

static void modes_open(modes *m) {
    const size_t pixels = pixels_of(m), count = m->views->count;
    const gs_camera *camera = &m->views->cameras[0];
    DEVICE_CHECK(cudaStreamCreate(&m->stream));
    gs_gaussians *const shaped[] = {&m->gradients, &m->first_moment, &m->second_moment};
    for (int i = 0; i < 3; i++)
        *shaped[i] = device_gaussians_open(m->gaussians->count, m->gaussians->sh_degree);
    m->color_gradient = device_allocate(3 * pixels * count * sizeof(float));
    m->target = device_allocate(3 * pixels);
    device_clear(m->target, 3 * pixels);
    GS_CHECK(gs_loss_bytes(camera->width, camera->height, &m->loss_bytes));
    m->loss_workspace = device_allocate(m->loss_bytes);
    m->loss = device_allocate(3 * sizeof *m->loss);
    m->report = device_allocate(sizeof *m->report);
    device_clear(m->report, sizeof *m->report);
    DEVICE_CHECK(cudaMallocHost((void **)&m->pinned, sizeof *m->pinned));
    for (size_t v = 0; v < count; v++) {
        open_placed(m, &m->single[v], v, 1);
        m->pairs += m->single[v].view.lists.pairs;
    }
    if (count > 1) open_placed(m, &m->batch, 0, (int32_t)count);
    // The gradient of the loss, the same in all views.
    for (size_t v = count; v-- > 0;) {
        loss(m, &m->single[v]);
        if (v > 0)
            DEVICE_CHECK(cudaMemcpyAsync(m->color_gradient + 3 * pixels * v, m->color_gradient,
                                         3 * pixels * sizeof(float), cudaMemcpyDeviceToDevice, m->stream));
    }
}

static void capture_all(modes *m) {
    // Kernels that are loaded late are not loaded during a capture.
    m->single[0].view.report = m->batch.view.report = m->report;
    step(m, &m->single[0], QUEUED);
    if (m->views->count > 1) run_one(m, &m->batch, BATCH_QUEUED);
    for (size_t v = 0; v < m->views->count; v++) {
        m->single[v].view.report = m->report;
        capture(m, &m->single[v], true);
        capture(m, &m->single[v], false);
        m->launches[GRAPH] += m->single[v].nodes[0];
        m->launches[SINGLE_QUEUED] += m->single[v].nodes[1];
    }
    m->launches[QUEUED] = m->launches[SETTLED] = m->launches[GRAPH];
    // gs_bin reads its number by a copy, and gs_render has no kernel for the overflow.
    m->launches[WAITS] = m->launches[QUEUED];
    m->launches[SINGLE_WAITS] = m->launches[SINGLE_QUEUED];
    if (m->views->count < 2) return;
    m->batch.view.report = m->report;
    capture(m, &m->batch, false);
    m->launches[BATCH_WAITS] = m->launches[BATCH_QUEUED] = m->launches[BATCH_GRAPH] = m->batch.nodes[1];
}

static void print(const modes *m) {
    const double views = (double)m->views->count;
    printf("%s, %" PRId64 " Gaussians, %zu views of %d x %d, %" PRId64 " pairs\n\n", m->options->scene,
           m->gaussians->count, m->views->count, m->views->cameras[0].width, m->views->cameras[0].height,
           m->pairs);
    printf("ms a view             gpu     host     wall     wait  launches\n");
    for (int w = 0; w < WAYS; w++) {
        const result *r = &m->results[w];
        if (is_batch((way)w) && m->views->count < 2) continue;
        printf("%-15s %8.4f %8.4f %8.4f %8.4f %9.1f\n", way_names[w], r->gpu.median / views,
               r->host.median / views, r->wall.median / views, r->wait / views,
               (double)m->launches[w] / views);
    }
    if (m->views->count > 1)
        printf("\nbatch by single calls: gpu %.3f, wall %.3f\n",
               m->results[BATCH_WAITS].gpu.median / m->results[SINGLE_WAITS].gpu.median,
               m->results[BATCH_WAITS].wall.median / m->results[SINGLE_WAITS].wall.median);
}

static void describe_timing(json_writer *json, const char *key, const timing *t) {
    json_begin(json, key, '{');
    json_put_number(json, "median", t->median);
    json_put_number(json, "least", t->minimum);
    json_put_number(json, "most", t->maximum);
    json_end(json, '}');
}

static void describe(json_writer *json, const void *subject) {
    const modes *m = subject;
    json_begin(json, NULL, '{');
    json_put_text(json, "device", device_name());
    json_put_text(json, "scene", m->options->scene);
    json_put_integer(json, "gaussians", m->gaussians->count);
    json_put_integer(json, "views", (int64_t)m->views->count);
    json_put_integer(json, "width", m->views->cameras[0].width);
    json_put_integer(json, "height", m->views->cameras[0].height);
    json_put_integer(json, "pairs", m->pairs);
    json_put_integer(json, "runs", m->options->runs);
    json_begin(json, "ms_of_all_views", '{');
    for (int w = 0; w < WAYS; w++) {
        if (is_batch((way)w) && m->views->count < 2) continue;
        json_begin(json, way_names[w], '{');
        describe_timing(json, "gpu", &m->results[w].gpu);
        describe_timing(json, "host", &m->results[w].host);
        describe_timing(json, "wall", &m->results[w].wall);
        json_put_number(json, "wait", m->results[w].wait);
        json_put_integer(json, "launches", (int64_t)m->launches[w]);
        json_end(json, '}');
    }
    json_end(json, '}');
    json_end(json, '}');
}

static bool run(const mode_options *options, const gs_gaussians *scene, const bench_views *views,
                fault *why) {
    if (strcmp(gs_backend(), "cuda") != 0) return fail(why, "times need a GPU");
    if (views->count > GS_MAX_VIEWS) return fail(why, "--views may be at most %d", GS_MAX_VIEWS);
    for (size_t v = 1; v < views->count; v++)
        if (views->cameras[v].width != views->cameras[0].width ||
            views->cameras[v].height != views->cameras[0].height)
            return fail(why, "the views differ in size; --size makes them equal");
    gs_gaussians gaussians = device_gaussians_from(scene);
    // Lives until the program ends, as its memory does.
    modes m = {.options = options, .views = views, .gaussians = &gaussians, .policy = {DISTWAR_TREE, 12}};
    m.single = calloc(views->count, sizeof *m.single);
    if (!m.single) return fail(why, "no memory for %zu views", views->count);
    modes_open(&m);
    capture_all(&m);
    gpu_timer timer;
    gpu_timer_open(&timer);
    for (int w = 0; w < WAYS; w++)
        if (!is_batch((way)w) || views->count > 1) measure(&m, (way)w, &timer);
    gpu_timer_close(&timer);
    print(&m);
    free(m.single);
    return !options->json || json_save(options->json, describe, &m, why);
}

int main(int argc, char **argv) {
    mode_options options = {.runs = 21};
    const option_spec rows[] = {
        OPTION("repeat", &options.runs, .minimum = 1, .maximum = MOST_RUNS,
               .help = "runs; the median counts"),
        OPTION("json", &options.json, .help = "write the numbers to this file as JSON"), OPTIONS_END};
    option_table table = {0};
    bench_view_options_list(&options.views, &table);
    option_table_add(&table, rows);
    const command_spec command = {
        "frame_modes",
        "SCENE.ply --cameras DATA [options]",
        "Times training steps whose gs_bin waits, is read later, is not read, or is in a CUDA graph; and views\n"
        "one by one and in one call. Without the time to allocate or capture.",
        "  frame_modes fox.ply --cameras data/fox --center-principal --views 8 --size 256x256 --json m.json\n",
        table.rows,
        1,
        1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    if (!bench_view_options_check(&options.views, &why)) return report_misuse(&command, &why);
    gs_gaussians scene = {0};
    bench_views views = {0};
    const bool done = read_scene_to_measure(options.scene, &scene, &why) &&
                      bench_views_open(&views, &options.views, &why) && run(&options, &scene, &views, &why);
    bench_views_close(&views);
    scene_close(&scene);
    return done ? EXIT_SUCCESS : report_failure("frame_modes", &why);
}
