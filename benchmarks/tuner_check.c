// SPDX-License-Identifier: MIT
// Checks the tuner on a scene. Launches the backward blend over changing views as a training run does, then
// measures every candidate. Fails if the tuner's choice, after its first exploration or at the end, is more
// than 3 % slower than the fastest candidate. GPU only.
#include "measure/bench_views.h"
#include "commands/command.h"
#include "device.h"
#include "frames/device_gaussians.h"
#include "frames/frame.h"
#include "gpu_timer.h"
#include "files/json_writer.h"
#include "scene.h"
#include "random.h"
#include "strategies/strategy_tuner.h"
#include "frames/blend_strategies.h"
#include "timing.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 15 };
static const double bound = 1.03;
static const float black[3] = {0, 0, 0};

typedef struct check_options {
    const char *scene, *json;
    int64_t launches, seed;
    bench_view_options views;
} check_options;

// The time of a candidate.
typedef struct candidate_time {
    double milliseconds; // the mean over the views of the median run; of one run if it is not close
    bool close;          // within twice the fastest in the first view
} candidate_time;

typedef struct check {
    const check_options *options;
    const gs_gaussians *gaussians; // device
    const bench_views *views;
    strategy_tuner tuner;
    frame f;
    int64_t explored; // launches until the first exploration ended
    strategy_report first, last;
    double pairs; // mean over the views
    candidate_time times[TUNE_MAX_CANDIDATES];
    int best;
} check;

static void set_gradient(check *c) {
    size_t values;
    float *gradient = bench_color_gradient(c->views->cameras, c->views->count, &values);
    if (!gradient) device_give_up("tuner_check: no memory for %zu values", values);
    for (size_t v = 0; v < c->views->count; v++) { // the buffer grows to the largest view
        c->f.view.camera = c->views->cameras[v];
        frame_set_gradient(&c->f, gradient);
    }
    free(gradient);
}

static void render(check *c, size_t view) {
    frame_render(&c->f, c->gaussians, c->gaussians->sh_degree, &c->views->cameras[view], black);
}

static void launch(check *c) {
    random_stream random = {(uint64_t)c->options->seed};
    c->first.known = false;
    for (int64_t i = 0; i < c->options->launches; i++) {
        render(c, random_below(&random, c->views->count));
        strategy_tuner_begin(&c->tuner);
        frame_render_backward(&c->f, c->tuner.policy);
        strategy_tuner_end(&c->tuner, (double)c->f.view.lists.pairs);
        if (c->first.known) continue;
        c->first = strategy_tuner_report(&c->tuner);
        c->explored = i + 1;
    }
    DEVICE_CHECK(cudaDeviceSynchronize());
    c->last = strategy_tuner_report(&c->tuner);
}

static double time_once(check *c, int candidate, gpu_timer *timer) {
    const tune_candidate *t = &c->tuner.t.candidates[candidate];
    gpu_timer_start(timer);
    frame_render_backward(&c->f, (distwar_policy){(distwar_strategy)t->strategy, t->threshold});
    return gpu_timer_stop(timer);
}

static void measure(check *c) {
    gpu_timer timer;
    gpu_timer_open(&timer);
    const int count = c->tuner.t.count;
    const double views = (double)c->views->count;
    for (size_t v = 0; v < c->views->count; v++) {
        render(c, v);
        double fastest = INFINITY;
        for (int i = 0; v == 0 && i < count; i++) { // the first run of each warms up
            time_once(c, i, &timer);
            c->times[i].milliseconds = time_once(c, i, &timer);
            fastest = fmin(fastest, c->times[i].milliseconds);
        }
        for (int i = 0; v == 0 && i < count; i++) {
            c->times[i].close = c->times[i].milliseconds < 2 * fastest;
            if (c->times[i].close) c->times[i].milliseconds = 0;
        }
        for (int i = 0; i < count; i++) {
            if (!c->times[i].close) continue;
            double runs[RUNS];
            for (int r = 0; r < RUNS; r++) runs[r] = time_once(c, i, &timer);
            c->times[i].milliseconds += timing_of_runs(runs, RUNS).median / views;
        }
        c->pairs += (double)c->f.view.lists.pairs / views;
    }
    gpu_timer_close(&timer);
    c->best = 0;
    for (int i = 0; i < count; i++)
        if (c->times[i].milliseconds < c->times[c->best].milliseconds) c->best = i;
}

// How many times the fastest candidate's time the choice takes.
static double ratio_of(const check *c, const strategy_report *report) {
    const int chosen = tune_find(&c->tuner.t, (int)report->policy.strategy, report->policy.balance_threshold);
    return c->times[chosen].milliseconds / c->times[c->best].milliseconds;
}

static bool is_within_bound(const check *c) {
    return c->first.known && ratio_of(c, &c->first) <= bound && ratio_of(c, &c->last) <= bound;
}

static void print(const check *c) {
    const double fastest = c->times[c->best].milliseconds;
    printf("%s, %" PRId64 " Gaussians, %zu views, %d x %d, %.0f pairs\n", c->options->scene,
           c->gaussians->count, c->views->count, c->views->cameras[0].width, c->views->cameras[0].height,
           c->pairs);
    printf("explored %s %" PRId64 " launches: %s at %d, %.2f %% over the fastest\n",
           c->first.known ? "in" : "NOT to the end in", c->explored,
           distwar_strategy_name(c->first.policy.strategy), c->first.policy.balance_threshold,
           100 * (ratio_of(c, &c->first) - 1));
    printf("exploration cost %.2f ms, %.1f launches of the fastest\n", c->first.cost,
           c->first.cost / fastest);
    printf("after %" PRId64 " launches: %s at %d, %.2f %% over the fastest; looked again %" PRId64
           " times; cost in all %.2f ms, %.2f %% of the blend's time\n",
           c->options->launches, distwar_strategy_name(c->last.policy.strategy),
           c->last.policy.balance_threshold, 100 * (ratio_of(c, &c->last) - 1), c->last.examinations,
           c->last.cost, 100 * c->last.cost / (fastest * (double)c->options->launches));
    printf("%s\n", is_within_bound(c) ? "within 3 %" : "MORE THAN 3 %");
}

static void describe_report(json_writer *json, const char *key, const check *c,
                            const strategy_report *report) {
    json_begin(json, key, '{');
    json_put_text(json, "reduction", distwar_strategy_name(report->policy.strategy));
    json_put_integer(json, "threshold", report->policy.balance_threshold);
    json_put_number(json, "by_fastest", ratio_of(c, report));
    json_put_number(json, "cost_ms", report->cost);
    json_end(json, '}');
}

static void describe(json_writer *json, const void *subject) {
    const check *c = subject;
    json_begin(json, NULL, '{');
    json_put_text(json, "device", device_name());
    json_put_text(json, "scene", c->options->scene);
    json_put_integer(json, "gaussians", c->gaussians->count);
    json_put_integer(json, "views", (int64_t)c->views->count);
    json_put_integer(json, "width", c->views->cameras[0].width);
    json_put_integer(json, "height", c->views->cameras[0].height);
    json_put_number(json, "pairs", c->pairs);
    json_put_integer(json, "launches", c->options->launches);
    json_put_integer(json, "explored_in", c->explored);
    describe_report(json, "after_exploration", c, &c->first);
    describe_report(json, "at_the_end", c, &c->last);
    json_put_boolean(json, "within_bound", is_within_bound(c));
    json_begin(json, "candidates", '[');
    for (int i = 0; i < c->tuner.t.count; i++) {
        const tune_candidate *t = &c->tuner.t.candidates[i];
        json_begin(json, NULL, '{');
        json_put_text(json, "reduction", distwar_strategy_name((distwar_strategy)t->strategy));
        json_put_integer(json, "threshold", t->threshold);
        json_put_number(json, "ms", c->times[i].milliseconds);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_end(json, '}');
}

static bool run(const check_options *options, const gs_gaussians *scene, const bench_views *views,
                bool *passed, fault *why) {
    gs_gaussians gaussians = device_gaussians_from(scene);
    static check c; // the tuner is too large for a stack
    c = (check){.options = options, .gaussians = &gaussians, .views = views};
    set_gradient(&c);
    const candidate_list candidates = blend_candidates();
    strategy_tuner_open(&c.tuner, &candidates);
    bool done = c.tuner.tunes || fail(why, "a tuner needs a GPU");
    if (done) {
        launch(&c);
        measure(&c);
        print(&c);
        *passed = is_within_bound(&c);
        if (options->json) done = json_save(options->json, describe, &c, why);
    }
    strategy_tuner_close(&c.tuner);
    frame_close(&c.f);
    device_gaussians_close(&gaussians);
    return done;
}

int main(int argc, char **argv) {
    check_options options = {.launches = 4000, .seed = 1};
    const option_spec rows[] = {
        OPTION("launches", &options.launches, .minimum = 1, .maximum = INFINITY,
               .help = "launches of the backward blend, each of a random view"),
        OPTION("seed", &options.seed, .maximum = INFINITY, .help = "of the order of the views"),
        OPTION("json", &options.json, .help = "write the numbers to this file as JSON"), OPTIONS_END};
    option_table table = {0};
    bench_view_options_list(&options.views, &table);
    option_table_add(&table, rows);
    const command_spec command = {
        "tuner_check",
        "SCENE.ply --cameras DATA [options]",
        "Compares what the tuner chooses with every fixed choice; exits 1 if it is over 3 % slower than the "
        "best.",
        "  tuner_check fox.ply --cameras data/fox --center-principal --json tuner-fox.json\n",
        table.rows,
        1,
        1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    if (!bench_view_options_check(&options.views, &why)) return report_misuse(&command, &why);
    gs_gaussians scene = {0};
    bench_views views = {0};
    bool passed = false;
    bool done = read_scene_to_measure(options.scene, &scene, &why) &&
                bench_views_open(&views, &options.views, &why) &&
                run(&options, &scene, &views, &passed, &why);
    bench_views_close(&views);
    scene_close(&scene);
    if (!done) return report_failure("tuner_check", &why);
    return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}
