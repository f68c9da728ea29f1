// SPDX-License-Identifier: MIT
#include "train_start.h"
#include "start.h"
#include "scene.h"
#include <stdlib.h>
#include <string.h>

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

bool train_start(const train_run *run, gs_gaussians *host, fault *why) {
    const train_options *o = run->options;
    const dataset *data = &run->data;
    start_settings settings = {.sh_degree = (int)o->sh_degree, .extent = run->known.extent};
    if (o->from)
        return scene_read(o->from, SCENE_FINITE, host, why) &&
               (host->sh_degree == o->sh_degree || fail(why, "%s has SH degree %d: add --sh-degree %d",
                                                        o->from, host->sh_degree, host->sh_degree));
    density_start(&o->recipe.density, &run->known, run->settings.iterations, &settings.opacity,
                  &settings.size);
    return gaussians_from_points((const float(*)[3])data->points, (const uint8_t(*)[3])data->colors,
                                 data->point_count, &settings, host, why);
}

bool train_start_small(void *context, size_t most, gs_gaussians *host, fault *why) {
    const train_run *run = context;
    const start_settings settings = {.extent = run->known.extent, .opacity = 0.1, .size = 1};
    if (!start_at_points(&run->data, most, &settings, host, why)) return false;
    host->antialias = run->options->antialias;
    return true;
}
