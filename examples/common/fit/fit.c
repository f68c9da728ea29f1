// SPDX-License-Identifier: MIT
#include "fit/fit.h"
#include "cli/progress.h"
#include "device.h"
#include "files/path.h"
#include "images/image.h"
#include <distwar/version.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef DISTWAR_SIMT
#include "simt.h"
#endif

enum { MAX_RUNS = 1000 };

typedef struct fit_options {
    const char *output; // a folder
    int64_t width, height, views, iterations, threshold, runs;
    int reduce; // index into sum_strategies; that of its last row: auto, or all
    const char *names[STRATEGY_NAMES], *thresholds, *json;
} fit_options;

enum { TARGET, START, RESULT, PICTURES };

typedef struct fitting {
    const fit_workload *work;
    fit_options options;
    fit_scene scene;
    int width, height;
    size_t values, parameters; // of a picture; of the scene
    float *host;               // the parameters
    float *targets;            // device, [views][values]; of a bench one that is black
    void *loss;                // device
    float *picture[PICTURES];  // host: of view 0
    strategy_tuner tuner;
    // Of bench:
    candidate_list measured;
    bench_cost costs[MAX_CANDIDATES]; // of each
    lane_histogram lanes;             // of all views
} fitting;

static bool fitting_open(fitting *f, int targets, fault *why) {
    f->width = (int)f->options.width, f->height = (int)f->options.height;
    if (!f->work->open(f->width, f->height, &f->scene, why)) return false;
    f->values = (size_t)f->scene.channels * (size_t)f->width * (size_t)f->height;
    for (int g = 0; g < FIT_GROUPS; g++) f->parameters += (size_t)f->scene.groups[g].count;
    if (!(f->host = malloc(f->parameters * sizeof *f->host)))
        return fail(why, "no memory for %zu parameters", f->parameters);
    for (int i = 0; i < PICTURES; i++)
        if (!(f->picture[i] = malloc(f->values * sizeof(float))))
            return fail(why, "no memory for pictures of %d x %d", f->width, f->height);
    f->loss = device_allocate(L1_LOSS_BYTES);
    f->targets = device_allocate((size_t)targets * f->values * sizeof *f->targets);
    device_clear(f->targets, (size_t)targets * f->values * sizeof *f->targets);
    return true;
}

static void fitting_close(fitting *f) {
    strategy_tuner_close(&f->tuner);
    device_free(f->targets);
    device_free(f->loss);
    for (int i = 0; i < PICTURES; i++) free(f->picture[i]);
    free(f->host);
    f->work->close();
}

// Writes the pictures side by side.
static bool write_pictures(const fitting *f, const char *path, fault *why) {
    image pictures[PICTURES] = {{0}};
    const image *row[PICTURES];
    bool done = true;
    for (int i = 0; done && i < PICTURES; i++) {
        row[i] = &pictures[i];
        done = image_from_planes(f->picture[i], f->width, f->height, &pictures[i], why);
    }
    done = done && image_write_beside(path, row, PICTURES, 4, why);
    for (int i = 0; i < PICTURES; i++) image_close(&pictures[i]);
    return done;
}

// Queues the loss against a target and its gradient; NULL: without gradient.
static void compare(const fitting *f, int target, float *gradient) {
    l1_loss(f->scene.color, f->targets + (size_t)target * f->values, (int64_t)f->values, f->loss, gradient);
}

static void print_head(const fitting *f, int views) {
    const sum_memory *const sums = f->scene.sums;
    printf("%-10s %s, %d values of %lld keys\n", f->work->program, f->scene.text, sums->values,
           (long long)sums->keys);
    printf("views      %d of %d x %d, on %s\n", views, f->width, f->height, device_name());
}

// ---- train

// Downloads the picture of view 0. Returns the mean loss over all views.
static double look(const fitting *f, int picture) {
    double sum = 0;
    for (int view = FIT_VIEWS - 1; view >= 0; view--) {
        f->work->draw(view);
        compare(f, view, NULL);
        sum += l1_loss_read(f->loss, (int64_t)f->values);
    }
    device_download(f->picture[picture], f->scene.color, f->values * sizeof(float));
    return sum / FIT_VIEWS;
}

// Returns the seconds.
static double iterate(fitting *f) {
    const fit_scene *const scene = &f->scene;
    // The gradient and the two moments.
    float *const gradient = device_allocate(3 * f->parameters * sizeof *gradient);
    float *const moments = gradient + f->parameters;
    device_clear(moments, 2 * f->parameters * sizeof *moments);
    const int64_t iterations = f->options.iterations;
    progress bar;
    const double began = seconds_now();
    progress_begin(&bar, "train", iterations);
    for (int64_t step = 0; step < iterations; step++) {
        const int view = (int)(step % FIT_VIEWS);
        f->work->draw(view);
        compare(f, view, scene->color_gradient);
        strategy_tuner_begin(&f->tuner);
        f->work->backward(f->tuner.policy, NULL);
        strategy_tuner_end(&f->tuner, (double)f->values);
        f->work->gather(gradient);
        adam_groups_step(scene->parameters, gradient, moments, scene->groups, FIT_GROUPS,
                         (float)pow(0.1, (double)step / (double)iterations), step + 1);
        if (progress_due(&bar)) progress_show(&bar, step + 1, l1_loss_read(f->loss, (int64_t)f->values));
    }
    DEVICE_CHECK(cudaDeviceSynchronize());
    progress_end(&bar);
    device_free(gradient);
    return seconds_now() - began;
}

// 10 log10(1 / mean square difference) from the target; infinite if equal.
static double psnr(const fitting *f, int picture) {
    double square = 0;
    for (size_t i = 0; i < f->values; i++) {
        const double difference = (double)f->picture[TARGET][i] - f->picture[picture][i];
        square += difference * difference;
    }
    return -10 * log10(square / (double)f->values);
}

// What a tuner chooses from. Thresholds are closer together at the low end: a warp whose lanes hold several keys has
// small groups.
static candidate_list candidates(const fit_options *options) {
    static const int thresholds[] = {0, 2, 4, 6, 8, 12, 16, 24};
    const distwar_strategy which = sum_strategies[options->reduce].strategy;
    return which == DISTWAR_STRATEGY_COUNT
               ? tuner_candidates(sum_strategies, thresholds, sizeof thresholds / sizeof *thresholds)
               : candidate_alone((distwar_policy){which, (int)options->threshold});
}

static bool train(fitting *f, fault *why) {
    const char *const folder = f->options.output;
    char name[32], picture[PATH_ROOM], file[PATH_ROOM];
    snprintf(name, sizeof name, "%s.png", f->work->program);
    if (!folder_make(folder, why) || !path_join(picture, folder, name, why) ||
        !path_join(file, folder, f->work->file, why) || !output_is_possible(picture, why) ||
        !output_is_possible(file, why) || !fitting_open(f, FIT_VIEWS, why))
        return false;
    const candidate_list list = candidates(&f->options);
    strategy_tuner_open(&f->tuner, &list);
    for (int view = 0; view < FIT_VIEWS; view++) {
        f->work->draw(view);
        DEVICE_CHECK(cudaMemcpy(f->targets + (size_t)view * f->values, f->scene.color,
                                f->values * sizeof *f->targets, cudaMemcpyDeviceToDevice));
    }
    look(f, TARGET);
    const size_t bytes = f->parameters * sizeof *f->host;
    device_download(f->host, f->scene.parameters, bytes);
    f->work->start(f->host);
    device_upload(f->scene.parameters, f->host, bytes);
    const double before = look(f, START), seconds = iterate(f), after = look(f, RESULT);
    device_download(f->host, f->scene.parameters, bytes);
    if (!sum_memory_is_exact(f->scene.sums, why) || !write_pictures(f, picture, why) ||
        !f->work->write(file, f->host, why))
        return false;
    const strategy_report tuned = strategy_tuner_report(&f->tuner);
    print_head(f, FIT_VIEWS);
    printf("training   %lld iterations in %.1f s, %s at threshold %d\n", (long long)f->options.iterations,
           seconds, distwar_strategy_name(tuned.policy.strategy), tuned.policy.balance_threshold);
    if (tuned.tuned)
        printf("tuning     %lld launches measured, cost %.1f ms%s\n", (long long)tuned.measured, tuned.cost,
               tuned.known ? "" : ": too few iterations to choose");
    printf("loss       %.5f -> %.5f\n", before, after);
    printf("PSNR       %.2f dB -> %.2f dB\n", psnr(f, START), psnr(f, RESULT));
    printf("picture    %s: target, start, result\nfile       %s\n", picture, file);
    return true;
}

// ---- bench: times on a GPU; counts of instructions on the CPU, where times say nothing about kernels

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_cost_add(bench_cost *all, int view, int views, double *milliseconds, size_t count) {
    qsort(milliseconds, count, sizeof *milliseconds, by_size);
    const double median = (milliseconds[(count - 1) / 2] + milliseconds[count / 2]) / 2;
    const double noise = median > 0 ? (milliseconds[count - 1] - milliseconds[0]) / median : 0;
    double *const value = all->value;
    value[COST_MEAN] += median / views;
    value[COST_LEAST] = view == 0 ? median : fmin(value[COST_LEAST], median);
    value[COST_MOST] = fmax(value[COST_MOST], median);
    value[COST_NOISE] = fmax(value[COST_NOISE], noise);
}

#ifdef DISTWAR_SIMT
static const char *const cost_keys[] = {"atomic_adds", "atomic_bytes", "atomic_instructions",
                                        "shuffles",    "votes",        NULL};

static void measure_row(fitting *f, gpu_timer *timer, int view, int row) {
    (void)timer;
    DEVICE_CHECK(cudaDeviceSynchronize());
    const simt_counters before = simt_counters_read();
    f->work->backward(f->measured.rows[row].policy, NULL);
    DEVICE_CHECK(cudaDeviceSynchronize());
    const simt_counters after = simt_counters_read();
    const uint64_t done[] = {after.atomic_requests - before.atomic_requests,
                             after.atomic_bytes - before.atomic_bytes,
                             after.atomic_instructions - before.atomic_instructions,
                             after.shuffles - before.shuffles, after.votes - before.votes};
    for (int k = 0; cost_keys[k]; k++) {
        double *const value = &f->costs[row].value[k];
        *value += (double)done[k];
        if (view + 1 == f->options.views) *value = floor(*value / (double)f->options.views);
    }
}
#else
static const char *const cost_keys[] = {"mean_ms", "least_ms", "most_ms", "noise", NULL};

static void measure_row(fitting *f, gpu_timer *timer, int view, int row) {
    const distwar_policy policy = f->measured.rows[row].policy;
    double times[MAX_RUNS];
    f->work->backward(policy, NULL);
    for (int i = 0; i < f->options.runs; i++) {
        gpu_timer_start(timer);
        f->work->backward(policy, NULL);
        times[i] = gpu_timer_stop(timer);
    }
    bench_cost_add(&f->costs[row], view, (int)f->options.views, times, (size_t)f->options.runs);
}
#endif

// A row for each candidate, and how many lanes of the adjoint's warps are active, and how many keys they hold.
static void measure(fitting *f) {
    lane_histogram *const lanes = device_allocate(sizeof *lanes);
    device_clear(lanes, sizeof *lanes);
    gpu_timer timer = {0};
    if (!KERNELS_ARE_COUNTED) gpu_timer_open(&timer);
    for (int view = 0; view < f->options.views; view++) {
        f->work->draw(view);
        compare(f, 0, f->scene.color_gradient);
        f->work->backward(f->measured.rows[0].policy, lanes);
        for (int row = 0; row < f->measured.count; row++) measure_row(f, &timer, view, row);
    }
    gpu_timer_close(&timer);
    device_download(&f->lanes, lanes, sizeof *lanes);
    device_free(lanes);
}

// atomic's time over the row's; 0 if atomic was not measured, or if nothing was timed.
static double speedup_over_atomic(const fitting *f, int row) {
    for (int r = 0; r < f->measured.count && !KERNELS_ARE_COUNTED; r++)
        if (f->measured.rows[r].policy.strategy == DISTWAR_ATOMIC)
            return f->costs[r].value[COST_MEAN] / f->costs[row].value[COST_MEAN];
    return 0;
}

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

static void print_row(const fitting *f, int row) {
    const strategy_candidate *const candidate = &f->measured.rows[row];
    const double *const value = f->costs[row].value, speedup = speedup_over_atomic(f, row);
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

static void print_costs(const fitting *f) {
    print_head(f, (int)f->options.views);
    printf("\nCommits of a warp with at least one active lane, by the number n = 1..32, per cent:\n");
    print_histogram("  n active lanes                      ", f->lanes.active_lanes);
    print_histogram("  n different keys                    ", f->lanes.distinct_keys);
    if (KERNELS_ARE_COUNTED)
        printf("\nOne run, counted; instructions, shuffles and votes are of warps:\n"
               "strategy threshold  atomic adds   add bytes atomic instrs     shuffles        votes\n");
    else
        printf("\nOne run, ms: means over %lld views of the median run; least and most are over the views;\n"
               "noise is the largest (slowest - fastest) / median over the runs of a view:\n"
               "strategy threshold     mean    least     most  noise%s\n",
               (long long)f->options.views, speedup_over_atomic(f, 0) > 0 ? "  times as fast as atomic" : "");
    for (int row = 0; row < f->measured.count; row++) print_row(f, row);
}

static void describe_histogram(json_writer *json, const char *key, const unsigned long long counts[33]) {
    json_begin(json, key, '[');
    for (int n = 0; n <= 32; n++) json_put_integer(json, NULL, (int64_t)counts[n]);
    json_end(json, ']');
}

static void describe(json_writer *json, const void *subject) {
    const fitting *const f = subject;
    json_put_text(json, "workload", f->work->program);
    f->work->describe(json);
    json_put_integer(json, "values", f->scene.sums->values);
    json_put_integer(json, "width", f->width);
    json_put_integer(json, "height", f->height);
    json_put_text(json, "device", device_name());
    json_put_integer(json, "views", f->options.views);
    describe_histogram(json, "active_lanes", f->lanes.active_lanes);
    describe_histogram(json, "distinct_keys", f->lanes.distinct_keys);
    json_begin(json, "adjoint", '[');
    for (int row = 0; row < f->measured.count; row++) {
        const strategy_candidate *const candidate = &f->measured.rows[row];
        const double speedup = speedup_over_atomic(f, row);
        json_begin(json, NULL, '{');
        json_put_text(json, "reduction", distwar_strategy_name(candidate->policy.strategy));
        if (candidate->has_threshold)
            json_put_integer(json, "threshold", candidate->policy.balance_threshold);
        else
            json_put_text(json, "threshold", NULL);
        for (int k = 0; cost_keys[k]; k++) json_put_number(json, cost_keys[k], f->costs[row].value[k]);
        if (speedup > 0) json_put_number(json, "speedup_over_atomic", speedup);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static bool bench(fitting *f, fault *why) {
    const char *const json = f->options.json;
    if (!json_is_possible(json, why) || !fitting_open(f, 1, why)) return false;
    measure(f);
    if (!json_is_stdout(json)) print_costs(f);
    return !json || json_save(json, describe, f, why);
}

// ---- the commands

#define BENCH_LINE "measure the adjoint with every strategy and threshold"
#define BENCH_SUMMARY                                                                                        \
    "Measures the adjoint of the %s with every strategy and threshold.\n"                                    \
    "Counts the active lanes and the keys of its warps. The gradient is that of the L1 loss against a\n"     \
    "black picture. On a GPU: times by CUDA events, the median over the runs of a view, then the mean\n"     \
    "over the views; before each run the L2 cache is overwritten. On the CPU, where times say nothing\n"     \
    "about a GPU, instructions are counted instead."

#define REDUCE_HELP "strategy by which the adjoint adds gradients"

static void list_options(const fit_workload *work, fit_command command, fit_options *o, option_table *table) {
    strategy_names(sum_strategies, command == FIT_TRAIN ? "auto" : "all", o->names);
    const option_spec of_train[] = {
        OUTPUT_OPTION(&o->output, .help = "the folder to write to, created if it is missing"),
        OPTION("iterations", &o->iterations, .maximum = 10000000, .automatic = true,
               .help = "iterations to train for, each a step on one view; auto: by the data, few on the CPU"),
        AUTO_REDUCE_OPTION(&o->reduce, o->names, REDUCE_HELP),
        THRESHOLD_OPTION(&o->threshold, THRESHOLD_HELP "; ignored by auto"), OPTIONS_END};
    const option_spec of_bench[] = {
        OPTION("views", &o->views, .minimum = 1, .maximum = FIT_VIEWS, .help = "number of cameras"),
        REDUCE_OPTION(&o->reduce, o->names, REDUCE_HELP),
        OPTION("thresholds", &o->thresholds, .help = "thresholds to measure, separated by commas"),
        OPTION("repeat", &o->runs, .minimum = 1, .maximum = MAX_RUNS,
               .help = "timed runs of each measurement, after one to warm up; the median counts"),
        JSON_OPTION(&o->json),
        OPTIONS_END};
    const option_spec of_both[] = {
        OPTION("width", &o->width, .maximum = 4096, .automatic = true,
               .help = "width of a picture in pixels; auto: by the data, small on the CPU"),
        OPTION("height", &o->height, .maximum = 8192, .automatic = true,
               .help = "height of a picture in pixels; auto: 3/4 of the width"),
        OPTIONS_END};
    option_table_add(table, command == FIT_TRAIN ? of_train : of_bench);
    work->list(table);
    option_table_add(table, of_both);
}

static bool check(fitting *f, fault *why) {
    fit_options *const o = &f->options;
    int64_t iterations;
    int thresholds[MAX_THRESHOLDS];
    size_t count;
    if (!parse_thresholds(o->thresholds, thresholds, &count, why) ||
        !f->work->complete(&o->width, &iterations, why))
        return false;
    f->measured = candidates_of(sum_strategies, sum_strategies[o->reduce].strategy, thresholds, count);
    if (o->iterations == 0) o->iterations = iterations;
    if (o->height == 0) o->height = (o->width * 3 + 3) / 4;
    return true;
}

static const struct {
    const char *name, *arguments;
    bool (*run)(fitting *f, fault *why);
} rows[] = {
    [FIT_TRAIN] = {"train", "[-o DIR] [options]", train}, [FIT_BENCH] = {"bench", "[options]", bench}};
static const fit_workload *of_program;

static int run_command(int argc, char **argv) {
    const fit_workload *const work = of_program;
    fit_command command = FIT_TRAIN;
    while (strcmp(argv[0], rows[command].name) != 0) command++;
    fitting f = {.work = work,
                 .options = {.views = 1,
                             .runs = 11,
                             .thresholds = "0,4,8,16,24",
                             .reduce = offered_index(sum_strategies, DISTWAR_STRATEGY_COUNT)}};
    char name[32], folder[32], summary[1024];
    option_table table = {0};
    snprintf(folder, sizeof folder, "%s-out", work->program);
    f.options.output = folder;
    list_options(work, command, &f.options, &table);
    snprintf(name, sizeof name, "%s %s", work->program, rows[command].name);
    if (command == FIT_TRAIN)
        snprintf(summary, sizeof summary, "%s", work->training);
    else
        snprintf(summary, sizeof summary, BENCH_SUMMARY, work->stage);
    const command_spec spec = {.name = name,
                               .arguments = rows[command].arguments,
                               .summary = summary,
                               .examples = work->examples[command],
                               .options = table.rows};
    int code;
    if (!read_command_line(&spec, argc, argv, NULL, &code)) return code;
    fault why;
    if (!check(&f, &why)) return report_misuse(&spec, &why);
    const bool done = rows[command].run(&f, &why);
    fitting_close(&f);
    return done ? EXIT_SUCCESS : report_failure(work->program, &why);
}

int fit_main(const fit_workload *work, int argc, char **argv) {
    char examples[1024] = "";
    program_command commands[FIT_COMMANDS + 1] = {{0}};
    for (int c = 0; c < FIT_COMMANDS; c++) {
        const char *const each = work->examples[c];
        commands[c] = (program_command){rows[c].name, c == FIT_TRAIN ? work->line : BENCH_LINE, run_command};
        strncat(examples, each, strcspn(each, "\n") + 1); // the first
    }
    const program_spec program = {work->program, DISTWAR_VERSION, work->summary, commands, examples};
    of_program = work;
    return program_run(&program, argc, argv);
}
