// SPDX-License-Identifier: MIT
#include "fit/fit.h"
#include "cli/progress.h"
#include "device.h"
#include "files/json_writer.h"
#include "files/output_file.h"
#include "files/path.h"
#include "images/image.h"
#include <distwar/version.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 1000 };
enum { TARGET, START, RESULT, PICTURES };

typedef struct fitting {
    const fit_workload *work;
    // The options:
    const char *output; // a folder
    int64_t width, height, views, iterations, threshold, runs;
    int reduce; // index into sum_strategies; that of its last row: auto, or all
    const char *names[STRATEGY_NAMES], *thresholds, *json;
    // What is open:
    fit_scene scene;
    size_t values, parameters; // of a picture; of the scene
    float *host;               // room for either
    float *targets;            // device, [views][values]; of a bench one that is black
    void *loss;                // device
    image pictures[PICTURES];  // of view 0
    strategy_tuner tuner;
    // Of bench:
    candidate_list measured;
    bench_cost costs[MAX_CANDIDATES];           // of each
    double active_lanes[33], distinct_keys[33]; // of all views, as lane_histogram
} fitting;

static bool fitting_open(fitting *f, int targets, fault *why) {
    if (!f->work->open((int)f->width, (int)f->height, &f->scene, why)) return false;
    f->values = (size_t)f->scene.channels * (size_t)f->width * (size_t)f->height;
    for (int g = 0; g < FIT_GROUPS; g++) f->parameters += (size_t)f->scene.groups[g].count;
    const size_t room = f->parameters > f->values ? f->parameters : f->values;
    if (!(f->host = malloc(room * sizeof *f->host))) return fail(why, "no memory for %zu numbers", room);
    f->loss = device_allocate(L1_LOSS_BYTES);
    f->targets = device_allocate((size_t)targets * f->values * sizeof *f->targets);
    device_clear(f->targets, (size_t)targets * f->values * sizeof *f->targets);
    return true;
}

static void fitting_close(fitting *f) {
    strategy_tuner_close(&f->tuner);
    device_free(f->targets);
    device_free(f->loss);
    for (int i = 0; i < PICTURES; i++) image_close(&f->pictures[i]);
    free(f->host);
    f->work->close();
}

// Queues the loss against a target and its gradient; NULL: without gradient.
static void compare(const fitting *f, int target, float *gradient) {
    l1_loss(f->scene.color, f->targets + (size_t)target * f->values, (int64_t)f->values, f->loss, gradient);
}

static void print_head(const fitting *f, int views) {
    printf("%-10s %s, %d values of %lld keys\n", f->work->program, f->scene.text, f->scene.sums->values,
           (long long)f->scene.sums->keys);
    printf("views      %d of %d x %d, on %s\n", views, (int)f->width, (int)f->height, device_name());
}

// ---- train

// Takes the picture of view 0. *loss becomes the mean over all views.
static bool look(fitting *f, int picture, double *loss, fault *why) {
    *loss = 0;
    for (int view = FIT_VIEWS - 1; view >= 0; view--) {
        f->work->draw(view);
        compare(f, view, NULL);
        *loss += l1_loss_read(f->loss, (int64_t)f->values) / FIT_VIEWS;
    }
    device_download(f->host, f->scene.color, f->values * sizeof *f->host);
    return image_from_planes(f->host, (int)f->width, (int)f->height, &f->pictures[picture], why);
}

// Returns the seconds.
static double iterate(fitting *f) {
    const fit_scene *const scene = &f->scene;
    // The gradient and the two moments.
    float *const gradient = device_allocate(3 * f->parameters * sizeof *gradient);
    float *const moments = gradient + f->parameters;
    device_clear(moments, 2 * f->parameters * sizeof *moments);
    progress bar;
    const double began = seconds_now();
    progress_begin(&bar, "train", f->iterations);
    for (int64_t step = 0; step < f->iterations; step++) {
        const int view = (int)(step % FIT_VIEWS);
        f->work->draw(view);
        compare(f, view, scene->color_gradient);
        strategy_tuner_begin(&f->tuner);
        f->work->backward(f->tuner.policy, NULL);
        strategy_tuner_end(&f->tuner, (double)f->values);
        f->work->gather(gradient);
        adam_groups_step(scene->parameters, gradient, moments, scene->groups, FIT_GROUPS,
                         (float)pow(0.1, (double)step / (double)f->iterations), step + 1);
        if (progress_due(&bar)) progress_show(&bar, step + 1, l1_loss_read(f->loss, (int64_t)f->values));
    }
    DEVICE_CHECK(cudaDeviceSynchronize());
    progress_end(&bar);
    device_free(gradient);
    return seconds_now() - began;
}

static bool train(fitting *f, fault *why) {
    // What a tuner chooses from. They are closer together at the low end: a warp whose lanes hold several keys has
    // small groups.
    static const int thresholds[] = {0, 2, 4, 6, 8, 12, 16, 24};
    const distwar_strategy which = sum_strategies[f->reduce].strategy;
    const candidate_list list =
        which == DISTWAR_STRATEGY_COUNT
            ? tuner_candidates(sum_strategies, thresholds, sizeof thresholds / sizeof *thresholds)
            : (candidate_list){.count = 1, .rows = {{which, (int)f->threshold}}};
    char picture[PATH_ROOM], file[PATH_ROOM];
    if (!folder_make(f->output, why) || !path_join(picture, f->output, "fit.png", why) ||
        !path_join(file, f->output, "fit.f32", why) || !output_is_possible(picture, why) ||
        !output_is_possible(file, why) || !fitting_open(f, FIT_VIEWS, why))
        return false;
    strategy_tuner_open(&f->tuner, &list);
    for (int view = 0; view < FIT_VIEWS; view++) {
        f->work->draw(view);
        DEVICE_CHECK(cudaMemcpy(f->targets + (size_t)view * f->values, f->scene.color,
                                f->values * sizeof *f->targets, cudaMemcpyDeviceToDevice));
    }
    double none, before, after;
    if (!look(f, TARGET, &none, why)) return false;
    const size_t bytes = f->parameters * sizeof *f->host;
    device_download(f->host, f->scene.parameters, bytes);
    f->work->start(f->host);
    device_upload(f->scene.parameters, f->host, bytes);
    if (!look(f, START, &before, why)) return false;
    const double seconds = iterate(f);
    const image *const row[PICTURES] = {&f->pictures[TARGET], &f->pictures[START], &f->pictures[RESULT]};
    if (!look(f, RESULT, &after, why) || !sum_memory_is_exact(f->scene.sums, why) ||
        !image_write_beside(picture, row, PICTURES, 4, why))
        return false;
    device_download(f->host, f->scene.parameters, bytes);
    output_file out;
    if (!output_file_open(&out, file, why)) return false;
    fwrite(f->host, 1, bytes, out.stream); // errors stay in the stream
    if (!output_file_commit(&out, why)) return false;
    const strategy_report tuned = strategy_tuner_report(&f->tuner);
    print_head(f, FIT_VIEWS);
    printf("training   %lld iterations in %.1f s, %s at threshold %d\n", (long long)f->iterations, seconds,
           distwar_strategy_name(tuned.policy.strategy), tuned.policy.balance_threshold);
    if (tuned.tuned)
        printf("tuning     %lld launches measured, cost %.1f ms%s\n", (long long)tuned.by.measured,
               tuned.by.cost, tuned.by.known ? "" : ": too few iterations to choose");
    printf("loss       %.5f -> %.5f\n", before, after);
    printf("PSNR       %.2f dB -> %.2f dB\n", image_psnr(row[TARGET], row[START], NULL),
           image_psnr(row[TARGET], row[RESULT], NULL));
    printf("picture    %s: target, start, result\nparameters %s: float32\n", picture, file);
    return true;
}

// ---- bench

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_cost_add(bench_cost *all, int views, double *milliseconds, size_t count) {
    qsort(milliseconds, count, sizeof *milliseconds, by_size);
    const double median = (milliseconds[(count - 1) / 2] + milliseconds[count / 2]) / 2;
    all->milliseconds += median / views;
    if (median > 0) all->noise = fmax(all->noise, (milliseconds[count - 1] - milliseconds[0]) / median);
}

// Times each candidate, and counts how many lanes of the adjoint's warps are active, and how many keys they hold.
static void measure(fitting *f) {
    lane_histogram *const lanes = device_allocate(sizeof *lanes), counts;
    double times[MAX_RUNS];
    gpu_timer timer;
    device_clear(lanes, sizeof *lanes);
    gpu_timer_open(&timer);
    for (int view = 0; view < f->views; view++) {
        f->work->draw(view);
        compare(f, 0, f->scene.color_gradient);
        f->work->backward(f->measured.rows[0], lanes);
        for (int row = 0; row < f->measured.count; row++) {
            f->work->backward(f->measured.rows[row], NULL);
            for (int i = 0; i < f->runs; i++) {
                gpu_timer_start(&timer);
                f->work->backward(f->measured.rows[row], NULL);
                times[i] = gpu_timer_stop(&timer);
            }
            bench_cost_add(&f->costs[row], (int)f->views, times, (size_t)f->runs);
        }
    }
    gpu_timer_close(&timer);
    device_download(&counts, lanes, sizeof counts);
    device_free(lanes);
    for (int n = 0; n <= 32; n++) {
        f->active_lanes[n] = (double)counts.active_lanes[n];
        f->distinct_keys[n] = (double)counts.distinct_keys[n];
    }
}

// Of the commits of warps with at least one active lane.
static double mean_of(const double counts[33]) {
    double total = 0, sum = 0;
    for (int n = 1; n <= 32; n++) total += counts[n], sum += n * counts[n];
    return sum / total;
}

static void print_costs(const fitting *f) {
    print_head(f, (int)f->views);
    printf(
        "commits    of %.1f active lanes with %.1f different keys, in the mean of those with one\n\n"
        "Means over the views of the median run; noise is the largest (slowest - fastest) / median over the\n"
        "runs of a view:\nstrategy threshold    mean_ms      noise\n",
        mean_of(f->active_lanes), mean_of(f->distinct_keys));
    for (int row = 0; row < f->measured.count; row++) {
        const distwar_policy policy = f->measured.rows[row];
        char at[12] = "-";
        if (offered_has_threshold(sum_strategies, policy.strategy))
            snprintf(at, sizeof at, "%d", policy.balance_threshold);
        const char *const name = distwar_strategy_name(policy.strategy);
        printf("%-8s %9s %10.4f %10.4f\n", name ? name : "", at, f->costs[row].milliseconds,
               f->costs[row].noise);
    }
}

static void describe(json_writer *json, const void *subject) {
    const fitting *const f = subject;
    json_put_text(json, "workload", f->work->program);
    for (const option_spec *o = f->work->options; o->kind != OPTION_END; o++)
        if (o->kind == OPTION_INT)
            json_put_integer(json, o->name, *(const int64_t *)o->value);
        else
            json_put_text(json, o->name, option_text(o));
    json_put_integer(json, "values", f->scene.sums->values);
    json_put_integer(json, "keys", f->scene.sums->keys);
    json_put_integer(json, "width", f->width);
    json_put_integer(json, "height", f->height);
    json_put_text(json, "device", device_name());
    json_put_integer(json, "views", f->views);
    json_put_numbers(json, "active_lanes", f->active_lanes, 33);
    json_put_numbers(json, "distinct_keys", f->distinct_keys, 33);
    json_begin(json, "adjoint", '[');
    for (int row = 0; row < f->measured.count; row++) {
        const distwar_policy policy = f->measured.rows[row];
        json_begin(json, NULL, '{');
        json_put_text(json, "reduction", distwar_strategy_name(policy.strategy));
        if (offered_has_threshold(sum_strategies, policy.strategy))
            json_put_integer(json, "threshold", policy.balance_threshold);
        else
            json_put_text(json, "threshold", NULL);
        json_put_number(json, "mean_ms", f->costs[row].milliseconds);
        json_put_number(json, "noise", f->costs[row].noise);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static bool bench(fitting *f, fault *why) {
    if (!json_is_possible(f->json, why) || !fitting_open(f, 1, why)) return false;
    measure(f);
    if (!json_is_stdout(f->json)) print_costs(f);
    return !f->json || json_save(f->json, describe, f, why);
}

// ---- the commands

#define BENCH_SUMMARY                                                                                        \
    "Measures the adjoint with every strategy and threshold. Counts the active lanes and the keys of its\n"  \
    "warps. The gradient is that of the L1 loss against a black picture. Times are by CUDA events, the\n"    \
    "median over the runs of a view, then the mean over the views; before each run the L2 cache is\n"        \
    "overwritten. Those on the CPU say nothing about a GPU."
#define REDUCE_HELP "strategy by which the adjoint adds gradients"

static const fit_workload *of_program;

// Of both commands.
static int run_command(int argc, char **argv) {
    const fit_workload *const work = of_program;
    const bool trains = strcmp(argv[0], "train") == 0;
    char name[32], folder[32];
    snprintf(name, sizeof name, "%s %s", work->program, argv[0]);
    snprintf(folder, sizeof folder, "%s-out", work->program);
    fitting f = {.work = work,
                 .output = folder,
                 .views = 1,
                 .runs = 11,
                 .thresholds = "0,4,8,16,24",
                 .reduce = offered_index(sum_strategies, DISTWAR_STRATEGY_COUNT)};
    strategy_names(sum_strategies, trains ? "auto" : "all", f.names);
    const option_spec of_train[] = {
        OUTPUT_OPTION(&f.output, .help = "the folder to write to, created if it is missing"),
        OPTION("iterations", &f.iterations, .maximum = 10000000, .automatic = true,
               .help = "iterations to train for, each a step on one view; auto: by the data, few on the CPU"),
        AUTO_REDUCE_OPTION(&f.reduce, f.names, REDUCE_HELP),
        THRESHOLD_OPTION(&f.threshold, THRESHOLD_HELP "; ignored by auto"), OPTIONS_END};
    const option_spec of_bench[] = {
        OPTION("views", &f.views, .minimum = 1, .maximum = FIT_VIEWS, .help = "number of cameras"),
        REDUCE_OPTION(&f.reduce, f.names, REDUCE_HELP),
        OPTION("thresholds", &f.thresholds, .help = "thresholds to measure, separated by commas"),
        OPTION("repeat", &f.runs, .minimum = 1, .maximum = MAX_RUNS,
               .help = "timed runs of each measurement, after one to warm up; the median counts"),
        JSON_OPTION(&f.json),
        OPTIONS_END};
    const option_spec of_both[] = {
        OPTION("width", &f.width, .maximum = 4096, .automatic = true,
               .help = "width of a picture in pixels; auto: by the data, small on the CPU"),
        OPTION("height", &f.height, .maximum = 8192, .automatic = true,
               .help = "height of a picture in pixels; auto: 3/4 of the width"),
        OPTIONS_END};
    option_table table = {0};
    option_table_add(&table, trains ? of_train : of_bench);
    option_table_add(&table, work->options);
    option_table_add(&table, of_both);
    const command_spec spec = {.name = name,
                               .arguments = trains ? "[-o DIR] [options]" : "[options]",
                               .summary = trains ? work->training : BENCH_SUMMARY,
                               .examples = work->examples,
                               .options = table.rows};
    int code, thresholds[MAX_THRESHOLDS];
    if (!read_command_line(&spec, argc, argv, NULL, &code)) return code;
    fault why;
    size_t count;
    int64_t iterations;
    if (!parse_thresholds(f.thresholds, thresholds, &count, &why) ||
        !work->complete(&f.width, &iterations, &why))
        return report_misuse(&spec, &why);
    f.measured = candidates_of(sum_strategies, sum_strategies[f.reduce].strategy, thresholds, count);
    if (f.iterations == 0) f.iterations = iterations;
    if (f.height == 0) f.height = (f.width * 3 + 3) / 4;
    const bool done = (trains ? train : bench)(&f, &why);
    fitting_close(&f);
    return done ? EXIT_SUCCESS : report_failure(work->program, &why);
}

int fit_main(const fit_workload *work, int argc, char **argv) {
    const program_command commands[] = {
        {"train", work->summary, run_command},
        {"bench", "measure the adjoint with every strategy and threshold", run_command},
        {0}};
    const program_spec program = {work->program, DISTWAR_VERSION, work->summary, commands, work->examples};
    of_program = work;
    return program_run(&program, argc, argv);
}
