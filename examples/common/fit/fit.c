// SPDX-License-Identifier: MIT
#include "fit/fit.h"
#include "cli/progress.h"
#include "device.h"
#include "files/path.h"
#include "images/image.h"
#include "strategies/strategy_costs.h"
#include <distwar/version.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    candidate_list measured; // by bench
    fit_scene scene;
    int width, height;
    size_t values, parameters; // of a picture; of the scene
    float *host;               // the parameters
    float *targets;            // device, [views][values]; of a bench one that is black
    void *loss;                // device
    float *picture[PICTURES];  // host: of view 0
    strategy_tuner tuner;
    strategy_costs result;
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
    float *const gradient = device_allocate(3 * f->parameters * sizeof *gradient), *const moments =
                                                                                       gradient +
                                                                                       f->parameters;
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
    printf("training   %lld iterations in %.1f s, %s at threshold %d%s\n", (long long)f->options.iterations,
           seconds, distwar_strategy_name(tuned.policy.strategy), tuned.policy.balance_threshold,
           strategy_report_source(&tuned));
    if (tuned.tuned)
        printf("tuning     %lld launches measured, cost %.1f ms\n", (long long)tuned.measured, tuned.cost);
    printf("loss       %.5f -> %.5f\n", before, after);
    printf("PSNR       %.2f dB -> %.2f dB\n", psnr(f, START), psnr(f, RESULT));
    printf("picture    %s: target, start, result\nfile       %s\n", picture, file);
    return true;
}

// ---- bench

static void prepare(void *context, size_t view) {
    const fitting *const f = context;
    f->work->draw((int)view);
    compare(f, 0, f->scene.color_gradient);
}

static void run(void *context, distwar_policy policy, lane_histogram *lanes) {
    ((const fitting *)context)->work->backward(policy, lanes);
}

static void describe(json_writer *json, const void *subject) {
    const fitting *const f = subject;
    json_put_text(json, "workload", f->work->program);
    f->work->describe(json);
    json_put_integer(json, "values", f->scene.sums->values);
    json_put_integer(json, "width", f->width);
    json_put_integer(json, "height", f->height);
    strategy_costs_describe(json, &f->result);
}

static bool bench(fitting *f, fault *why) {
    const fit_options *const o = &f->options;
    const strategy_subject subject = {f, (size_t)o->views, prepare, run};
    if (!json_is_possible(o->json, why) || !fitting_open(f, 1, why)) return false;
    strategy_costs_measure(&subject, &f->measured, (int)o->runs, &f->result);
    if (!json_is_stdout(o->json)) {
        print_head(f, (int)o->views);
        printf("\n");
        strategy_costs_print(&f->result);
    }
    return !o->json || json_save(o->json, describe, f, why);
}

// ---- the commands

#define BENCH_PROTOCOL                                                                                       \
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
        OPTIONS_END};
    const option_spec of_all[] = {
        OPTION("width", &o->width, .maximum = 4096, .automatic = true,
               .help = "width of a picture in pixels; auto: by the data, small on the CPU"),
        OPTION("height", &o->height, .maximum = 8192, .automatic = true,
               .help = "height of a picture in pixels; auto: 3/4 of the width"),
        OPTIONS_END};
    const option_spec of_costs[] = {
        REDUCE_OPTION(&o->reduce, o->names, REDUCE_HELP),
        OPTION("thresholds", &o->thresholds, .help = "thresholds to measure, separated by commas"),
        OPTION("repeat", &o->runs, .minimum = 1, .maximum = MAX_RUNS,
               .help = "timed runs of each measurement, after one to warm up; the median counts"),
        JSON_OPTION(&o->json), OPTIONS_END};
    const option_spec *const own[FIT_COMMANDS] = {of_train, of_bench};
    option_table_add(table, own[command]);
    work->list(command, table);
    option_table_add(table, of_all);
    if (command == FIT_BENCH) option_table_add(table, of_costs);
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
} rows[FIT_COMMANDS] = {
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
    snprintf(summary, sizeof summary, "%s%s", work->help[command].summary,
             command == FIT_BENCH ? "\n" BENCH_PROTOCOL : "");
    const command_spec spec = {.name = name,
                               .arguments = rows[command].arguments,
                               .summary = summary,
                               .examples = work->help[command].examples,
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
        const char *const each = work->help[c].examples;
        commands[c] = (program_command){rows[c].name, work->help[c].line, run_command};
        strncat(examples, each, strcspn(each, "\n") + 1); // the first
    }
    const program_spec program = {work->program, DISTWAR_VERSION, work->summary, commands, examples};
    of_program = work;
    return program_run(&program, argc, argv);
}
