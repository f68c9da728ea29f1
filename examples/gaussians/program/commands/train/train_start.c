// SPDX-License-Identifier: MIT
#include "train_start.h"
#include "plan/defaults.h"
#include "start/random_points.h"
#include "start/start.h"
#include "scene.h"
#include <stdlib.h>
#include <string.h>

static bool start_at_random(const train_run *run, size_t count, const start_settings *settings,
                            gs_gaussians *host, fault *why) {
    float(*points)[3] = calloc(count, sizeof *points);
    uint8_t(*colors)[3] = calloc(count, sizeof *colors);
    target_view *const views = malloc(run->split.training * sizeof *views);
    size_t used = 0;
    bool done = points && colors && views;
    for (size_t i = 0; done && i < run->split.training; i++)
        if (!run->split.views[i].set_aside) views[used++] = run->split.views[i];
    if (done) {
        random_points(views, used, run->data.cut_out, count, (uint64_t)run->options->recipe.seed, points,
                      colors);
        done = gaussians_from_points((const float(*)[3])points, (const uint8_t(*)[3])colors, count, settings,
                                     host, why);
    } else {
        fail(why, "no memory for %zu random points", count);
    }
    free(views);
    free(points);
    free(colors);
    return done;
}

// At most `most` of the data's points, evenly from all of them.
static bool start_at_points(const dataset *data, size_t most, const start_settings *settings,
                            gs_gaussians *host, fault *why) {
    const size_t stride = (data->point_count + most - 1) / most, count = (data->point_count - 1) / stride + 1;
    float(*points)[3] = calloc(count, sizeof *points);
    uint8_t(*colors)[3] = calloc(count, sizeof *colors);
    bool done = points && colors;
    for (size_t i = 0; i < count && done; i++) {
        memcpy(points[i], data->points[i * stride], sizeof *points);
        memcpy(colors[i], data->colors[i * stride], sizeof *colors);
    }
    done = done ? gaussians_from_points((const float(*)[3])points, (const uint8_t(*)[3])colors, count,
                                        settings, host, why)
                : fail(why, "no memory for %zu points", count);
    free(points);
    free(colors);
    return done;
}

size_t train_start_random(const train_run *run) {
    const int64_t chosen = run->options->random, most = run->settings.density.most_gaussians;
    if (!run->at_random) return 0;
    return (size_t)(chosen > 0 ? chosen : most > 0 && most < USUAL_RANDOM ? most : USUAL_RANDOM);
}

bool train_start(const train_run *run, gs_gaussians *host, fault *why) {
    const train_options *o = run->options;
    const dataset *data = &run->data;
    const density_data density = training_density_data(&run->known, run->settings.iterations);
    start_settings settings = {.sh_degree = (int)o->sh_degree, .extent = run->known.extent};
    if (o->from)
        return scene_read(o->from, SCENE_FINITE, host, why) &&
               (host->sh_degree == o->sh_degree || fail(why, "%s has SH degree %d: add --sh-degree %d",
                                                        o->from, host->sh_degree, host->sh_degree));
    density_start(&o->recipe.density, &density, &settings.opacity, &settings.size);
    const size_t random = train_start_random(run);
    if (random > 0) return start_at_random(run, random, &settings, host, why);
    return gaussians_from_points((const float(*)[3])data->points, (const uint8_t(*)[3])data->colors,
                                 data->point_count, &settings, host, why);
}

bool train_start_small(void *context, size_t most, gs_gaussians *host, fault *why) {
    const train_run *run = context;
    const size_t wanted = train_start_random(run);
    const start_settings settings = {.extent = run->known.extent, .opacity = 0.1, .size = 1};
    const bool started = wanted > 0
                             ? start_at_random(run, wanted < most ? wanted : most, &settings, host, why)
                             : start_at_points(&run->data, most, &settings, host, why);
    if (started) host->antialias = run->options->antialias;
    return started;
}
