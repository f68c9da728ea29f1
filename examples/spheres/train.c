// SPDX-License-Identifier: MIT
// spheres train: fits disturbed spheres to pictures of the data set they came from.
#include "commands.h"
#include "device.h"
#include "strategies/kernel_counts.h"
#include "gpu/l1_loss.h"
#include "files/path.h"
#include "images/picture_row.h"
#include "cli/progress.h"
#include "strategies/strategy_tuner.h"
#include "sphere_file.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct train_options {
    view_options of;
    const char *folder;
    int64_t iterations, seed, threshold;
    int reduce; // index into sum_strategies
    const char *names[STRATEGY_NAMES];
} train_options;

typedef struct training {
    const train_options *options;
    char picture_path[PATH_ROOM], spheres_path[PATH_ROOM];
    sphere_set set, gradient, first_moment, second_moment; // device
    sphere_frame frame;
    size_t values;                  // of a picture
    float *targets;                 // device, [SCENE_VIEWS][values]
    void *loss;                     // device
    float *target, *start, *result; // host: view 0
    strategy_tuner tuner;
    double seconds;
} training;

static bool training_open(training *t, const sphere_set *host, fault *why) {
    const view_options *of = &t->options->of;
    const pinhole_camera camera = scene_camera(0, (int)of->width, (int)of->height);
    const sphere_blend blend = scene_blend((int)of->kept);
    t->values = (size_t)host->channels * (size_t)of->width * (size_t)of->height;
    t->target = malloc(3 * t->values * sizeof *t->target);
    if (!t->target) return fail(why, "no memory for pictures of %d x %d", camera.width, camera.height);
    t->start = t->target + t->values;
    t->result = t->start + t->values;
    sphere_set *const sets[] = {&t->set, &t->gradient, &t->first_moment, &t->second_moment};
    for (int i = 0; i < 4; i++) *sets[i] = device_sphere_set_open(host->count, host->channels);
    t->frame = sphere_frame_open(&t->set, &camera, &blend);
    t->targets = device_allocate(SCENE_VIEWS * t->values * sizeof *t->targets);
    t->loss = device_allocate(L1_LOSS_BYTES);
    const distwar_strategy which = sum_strategies[t->options->reduce].strategy;
    const candidate_list candidates =
        which == DISTWAR_STRATEGY_COUNT
            ? sum_candidates()
            : candidate_alone((distwar_policy){which, (int)t->options->threshold});
    strategy_tuner_open(&t->tuner, &candidates);
    return true;
}

static void training_close(training *t) {
    strategy_tuner_close(&t->tuner);
    device_free(t->loss);
    device_free(t->targets);
    sphere_frame_close(&t->frame);
    sphere_set *const sets[] = {&t->set, &t->gradient, &t->first_moment, &t->second_moment};
    for (int i = 0; i < 4; i++) device_sphere_set_close(sets[i]);
    free(t->target);
}

static void draw(training *t, int view) {
    t->frame.camera = scene_camera(view, t->frame.camera.width, t->frame.camera.height);
    spheres_project(&t->frame);
    spheres_candidates(&t->frame);
    spheres_render(&t->frame);
}

static void draw_targets(training *t) {
    for (int view = 0; view < SCENE_VIEWS; view++) {
        draw(t, view);
        DEVICE_CHECK(cudaMemcpy(t->targets + (size_t)view * t->values, t->frame.color,
                                t->values * sizeof *t->targets, cudaMemcpyDeviceToDevice));
    }
}

// Downloads the picture of view 0. Returns the mean loss over all views.
static double look(training *t, float *picture) {
    double sum = 0;
    for (int view = SCENE_VIEWS - 1; view >= 0; view--) {
        draw(t, view);
        l1_loss(t->frame.color, t->targets + (size_t)view * t->values, (int64_t)t->values, t->loss, NULL,
                NULL);
        sum += l1_loss_read(t->loss, (int64_t)t->values);
    }
    device_download(picture, t->frame.color, t->values * sizeof *picture);
    return sum / SCENE_VIEWS;
}

static void train(training *t) {
    progress bar;
    const double began = seconds_now();
    progress_begin(&bar, "train", t->options->iterations);
    for (int64_t step = 0; step < t->options->iterations; step++) {
        const int view = (int)(step % SCENE_VIEWS);
        // Falls to a tenth at the end.
        const float rate = (float)pow(0.1, (double)step / (double)t->options->iterations);
        const sphere_rates rates = {.center = 0.02f * rate,
                                    .log_radius = 0.04f * rate,
                                    .opacity_logit = 0.1f * rate,
                                    .feature = 0.04f * rate};
        draw(t, view);
        l1_loss(t->frame.color, t->targets + (size_t)view * t->values, (int64_t)t->values, t->loss,
                t->frame.color_gradient, NULL);
        strategy_tuner_begin(&t->tuner);
        spheres_render_backward(&t->frame, t->tuner.policy);
        strategy_tuner_end(&t->tuner, (double)t->values);
        spheres_project_backward(&t->frame, &t->gradient);
        spheres_adam(&t->set, &t->gradient, &t->first_moment, &t->second_moment, &rates, step + 1);
        if (progress_due(&bar)) progress_show(&bar, step + 1, l1_loss_read(t->loss, (int64_t)t->values));
    }
    DEVICE_CHECK(cudaDeviceSynchronize());
    t->seconds = seconds_now() - began;
    progress_end(&bar);
}

static bool run(training *t, sphere_set *host, fault *why) {
    const pinhole_camera *camera = &t->frame.camera;
    sphere_set_upload(&t->set, host);
    draw_targets(t);
    look(t, t->target);
    scene_disturb(host, (uint64_t)t->options->seed);
    sphere_set_upload(&t->set, host);
    const double before = look(t, t->start);
    train(t);
    const double after = look(t, t->result);
    sphere_set_download(host, &t->set);
    const float *const pictures[] = {t->target, t->start, t->result};
    if (!sum_memory_is_exact(&t->frame.moments, why) ||
        !picture_row_write(t->picture_path, pictures, 3, camera->width, camera->height, why) ||
        !sphere_file_write(t->spheres_path, host, why))
        return false;
    const strategy_report tuned = strategy_tuner_report(&t->tuner);
    printf("data       %s: %lld spheres, %d channels, %d views of %d x %d, on %s\n",
           data_set_names[t->options->of.data], (long long)host->count, host->channels, SCENE_VIEWS,
           camera->width, camera->height, device_name());
    printf("training   %lld iterations in %.1f s, %s at threshold %d%s, seed %lld\n",
           (long long)t->options->iterations, t->seconds, distwar_strategy_name(tuned.policy.strategy),
           tuned.policy.balance_threshold, strategy_report_source(&tuned), (long long)t->options->seed);
    printf("loss       %.5f -> %.5f\n", before, after);
    printf("PSNR       %.2f dB -> %.2f dB\n", picture_psnr(t->target, t->start, (long long)t->values),
           picture_psnr(t->target, t->result, (long long)t->values));
    printf("picture    %s: target, start, result\n", t->picture_path);
    printf("spheres    %s\n", t->spheres_path);
    return true;
}

static bool train_in_folder(training *t, fault *why) {
    const view_options *of = &t->options->of;
    const char *folder = t->options->folder;
    if (!folder_make(folder, why)) return false;
    sphere_set host = {0};
    bool done = path_join(t->picture_path, folder, "spheres.png", why) &&
                path_join(t->spheres_path, folder, "spheres.txt", why) &&
                output_is_possible(t->picture_path, why) && output_is_possible(t->spheres_path, why) &&
                scene_generate((data_set)of->data, view_options_channels(of), &host, why) &&
                training_open(t, &host, why) && run(t, &host, why);
    training_close(t);
    sphere_set_close(&host);
    return done;
}

static int64_t default_iterations(data_set data) {
    static const int iterations[2][DATA_SETS] = {{2000, 2000}, {200, 16}}; // on a GPU, on the CPU
    kernel_counts unused;
    return iterations[kernel_counts_now(&unused)][data];
}

int train_command(int argc, char **argv) {
    train_options options = {.of = view_options_default(),
                             .folder = "spheres-out",
                             .seed = 1,
                             .reduce = offered_index(sum_strategies, DISTWAR_STRATEGY_COUNT)};
    const option_spec table[] = {
        OUTPUT_OPTION(&options.folder, .help = "the folder to write to; made if it is missing"),
        DATA_OPTION(&options.of),
        CHANNELS_OPTION(&options.of),
        OPTION("iterations", &options.iterations, .maximum = 10000000,
               .help = "training steps, one view each; 0: by the data set, few on the CPU"),
        WIDTH_OPTION(&options.of),
        HEIGHT_OPTION(&options.of),
        KEPT_OPTION(&options.of),
        OPTION("seed", &options.seed, .maximum = INFINITY, .help = "of the disturbed start"),
        AUTO_REDUCE_OPTION(&options.reduce, strategy_names(sum_strategies, "auto", options.names),
                           REDUCE_HELP),
        THRESHOLD_OPTION(&options.threshold, THRESHOLD_HELP "; not for auto"),
        OPTIONS_END};
    const command_spec command = {
        "spheres train",
        "[-o DIR] [options]",
        "Disturbs the spheres of a generated data set, then fits them to pictures of the data set. Writes\n"
        "DIR/spheres.png (target, start, result) and DIR/spheres.txt.",
        "  spheres train\n"
        "  spheres train -o out --data large --iterations 2000\n"
        "  spheres train -o out --channels 8 --reduce fixed\n",
        table,
        0,
        0, 0};
    int code;
    if (!read_command_line(&command, argc, argv, NULL, &code)) return code;
    fault why;
    training *t = calloc(1, sizeof *t);
    if (!t) {
        fail(&why, "no memory");
        return report_failure("spheres", &why);
    }
    view_options_complete(&options.of);
    if (options.iterations == 0) options.iterations = default_iterations((data_set)options.of.data);
    t->options = &options;
    bool done = train_in_folder(t, &why);
    free(t);
    return done ? EXIT_SUCCESS : report_failure("spheres", &why);
}
