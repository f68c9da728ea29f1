// SPDX-License-Identifier: MIT
// cubemap train: finds the surroundings that a mesh mirrors, from pictures of the mesh.
#include "commands.h"
#include "device.h"
#include "face_file.h"
#include "strategies/kernel_counts.h"
#include "gpu/l1_loss.h"
#include "files/path.h"
#include "images/picture_row.h"
#include "cli/progress.h"
#include "strategies/strategy_tuner.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct train_options {
    view_options of;
    const char *folder;
    int64_t iterations, threshold;
    int reduce; // index into sum_strategies
    const char *names[STRATEGY_NAMES];
} train_options;

typedef struct training {
    const train_options *options;
    char picture_path[PATH_ROOM], faces_path[PATH_ROOM];
    mesh surface; // device
    cubemap_frame frame;
    size_t values, texel_values;                    // of a picture, of level 0
    float *gradient, *first_moment, *second_moment; // device, of level 0
    float *samples, *targets;       // device, of all views: frame.sample, [SCENE_VIEWS][values]
    void *loss;                     // device
    float *target, *start, *result; // host: view 0
    float *texel;                   // host: level 0
    strategy_tuner tuner;
    double seconds;
} training;

static bool training_open(training *t, const mesh *host, fault *why) {
    const view_options *of = &t->options->of;
    const pinhole_camera camera = scene_camera(0, (int)of->width, (int)of->height);
    const size_t pixels = (size_t)of->width * (size_t)of->height;
    t->values = 3 * pixels;
    t->texel_values = 18 * (size_t)of->size * (size_t)of->size;
    t->target = malloc((3 * t->values + t->texel_values) * sizeof *t->target);
    if (!t->target)
        return fail(why, "no memory for pictures of %d x %d and faces of %d texels", camera.width,
                    camera.height, (int)of->size);
    t->start = t->target + t->values;
    t->result = t->start + t->values;
    t->texel = t->result + t->values;
    t->surface = device_mesh_open(host);
    t->frame = cubemap_frame_open(&t->surface, &camera, (int)of->size, SCENE_BACKGROUND);
    float **const levels[] = {&t->gradient, &t->first_moment, &t->second_moment};
    for (int i = 0; i < 3; i++) {
        *levels[i] = device_allocate(t->texel_values * sizeof **levels[i]);
        device_clear(*levels[i], t->texel_values * sizeof **levels[i]);
    }
    t->samples = device_allocate(SCENE_VIEWS * 4 * pixels * sizeof *t->samples);
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
    device_free(t->samples);
    device_free(t->second_moment);
    device_free(t->first_moment);
    device_free(t->gradient);
    cubemap_frame_close(&t->frame);
    device_mesh_close(&t->surface);
    free(t->target);
}

static void copy(float *to, const float *from, size_t count) {
    DEVICE_CHECK(cudaMemcpy(to, from, count * sizeof *to, cudaMemcpyDeviceToDevice));
}

// The samples of a view do not change during training.
static void find_samples(training *t) {
    const size_t count = 4 * t->values / 3;
    for (int view = 0; view < SCENE_VIEWS; view++) {
        t->frame.camera = scene_camera(view, t->frame.camera.width, t->frame.camera.height);
        cubemap_project(&t->frame);
        cubemap_raster(&t->frame);
        copy(t->samples + (size_t)view * count, t->frame.sample, count);
    }
}

static void draw(training *t, int view) {
    const size_t count = 4 * t->values / 3;
    copy(t->frame.sample, t->samples + (size_t)view * count, count);
    cubemap_render(&t->frame);
}

static void draw_targets(training *t) {
    for (int view = 0; view < SCENE_VIEWS; view++) {
        draw(t, view);
        copy(t->targets + (size_t)view * t->values, t->frame.color, t->values);
    }
}

static void set_texels(training *t) {
    device_upload(t->frame.texel, t->texel, t->texel_values * sizeof *t->texel);
    cubemap_reduce_levels(&t->frame);
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
        const float rate = (float)(0.04 * pow(0.1, (double)step / (double)t->options->iterations));
        draw(t, view);
        l1_loss(t->frame.color, t->targets + (size_t)view * t->values, (int64_t)t->values, t->loss,
                t->frame.color_gradient, NULL);
        strategy_tuner_begin(&t->tuner);
        cubemap_render_backward(&t->frame, t->tuner.policy);
        strategy_tuner_end(&t->tuner, (double)t->values);
        cubemap_gather_levels(&t->frame, t->gradient);
        cubemap_adam(&t->frame, t->gradient, t->first_moment, t->second_moment, rate, step + 1);
        cubemap_reduce_levels(&t->frame);
        if (progress_due(&bar)) progress_show(&bar, step + 1, l1_loss_read(t->loss, (int64_t)t->values));
    }
    DEVICE_CHECK(cudaDeviceSynchronize());
    t->seconds = seconds_now() - began;
    progress_end(&bar);
}

static bool run(training *t, fault *why) {
    const pinhole_camera *camera = &t->frame.camera;
    find_samples(t);
    scene_surroundings(t->frame.size, t->texel);
    set_texels(t);
    draw_targets(t);
    look(t, t->target);
    for (size_t k = 0; k < t->texel_values; k++) t->texel[k] = 0.5f;
    set_texels(t);
    const double before = look(t, t->start);
    train(t);
    const double after = look(t, t->result);
    device_download(t->texel, t->frame.texel, t->texel_values * sizeof *t->texel);
    const float *const pictures[] = {t->target, t->start, t->result};
    if (!sum_memory_is_exact(&t->frame.sums, why) ||
        !picture_row_write(t->picture_path, pictures, 3, camera->width, camera->height, why) ||
        !face_file_write(t->faces_path, t->texel, t->frame.size, why))
        return false;
    const strategy_report tuned = strategy_tuner_report(&t->tuner);
    printf("mesh       %s: %d triangles, %d views of %d x %d, on %s\n", t->options->of.mesh,
           t->surface.triangles, SCENE_VIEWS, camera->width, camera->height, device_name());
    printf("cubemap    faces of %d x %d texels, %d levels\n", t->frame.size, t->frame.size, t->frame.levels);
    printf("training   %lld iterations in %.1f s, %s at threshold %d%s\n", (long long)t->options->iterations,
           t->seconds, distwar_strategy_name(tuned.policy.strategy), tuned.policy.balance_threshold,
           strategy_report_source(&tuned));
    printf("loss       %.5f -> %.5f\n", before, after);
    printf("PSNR       %.2f dB -> %.2f dB\n", picture_psnr(t->target, t->start, (long long)t->values),
           picture_psnr(t->target, t->result, (long long)t->values));
    printf("picture    %s: target, start, result\n", t->picture_path);
    printf("faces      %s\n", t->faces_path);
    return true;
}

static bool train_in_folder(training *t, fault *why) {
    const char *folder = t->options->folder;
    mesh host = {0};
    const bool done = folder_make(folder, why) && path_join(t->picture_path, folder, "cubemap.png", why) &&
                      path_join(t->faces_path, folder, "faces.png", why) &&
                      output_is_possible(t->picture_path, why) && output_is_possible(t->faces_path, why) &&
                      view_options_mesh(&t->options->of, &host, why) && training_open(t, &host, why) &&
                      run(t, why);
    training_close(t);
    mesh_close(&host);
    return done;
}

int train_command(int argc, char **argv) {
    train_options options = {.of = view_options_default(),
                             .folder = "cubemap-out",
                             .reduce = offered_index(sum_strategies, DISTWAR_STRATEGY_COUNT)};
    const option_spec table[] = {
        OUTPUT_OPTION(&options.folder, .help = "the folder to write to; made if it is missing"),
        MESH_OPTION(&options.of),
        SIZE_OPTION(&options.of),
        OPTION("iterations", &options.iterations, .maximum = 10000000,
               .help = "training steps, one view each; 0: 2000, on the CPU 80"),
        WIDTH_OPTION(&options.of),
        HEIGHT_OPTION(&options.of),
        AUTO_REDUCE_OPTION(&options.reduce, strategy_names(sum_strategies, "auto", options.names),
                           REDUCE_HELP),
        THRESHOLD_OPTION(&options.threshold, THRESHOLD_HELP "; not for auto"),
        OPTIONS_END};
    const command_spec command = {
        "cubemap train",
        "[-o DIR] [options]",
        "Renders a mesh that mirrors generated surroundings from eight sides, then finds the surroundings,\n"
        "a cubemap, from these pictures. Writes DIR/cubemap.png (target, start, result) and DIR/faces.png\n"
        "(the cubemap).",
        "  cubemap train\n"
        "  cubemap train -o out --mesh bumpy --size 128\n"
        "  cubemap train -o out --mesh bunny.obj --reduce fixed\n",
        table,
        0,
        0, 0};
    int code;
    if (!read_command_line(&command, argc, argv, NULL, &code)) return code;
    fault why;
    if (!view_options_complete(&options.of, &why)) return report_misuse(&command, &why);
    kernel_counts unused;
    if (options.iterations == 0) options.iterations = kernel_counts_now(&unused) ? 80 : 2000;
    training *t = calloc(1, sizeof *t);
    if (!t) {
        fail(&why, "no memory");
        return report_failure("cubemap", &why);
    }
    t->options = &options;
    const bool done = train_in_folder(t, &why);
    free(t);
    return done ? EXIT_SUCCESS : report_failure("cubemap", &why);
}
