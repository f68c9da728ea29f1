// SPDX-License-Identifier: MIT
#include "train_points.h"
#include "plan.h"
#include "start.h"
#include "cli/progress.h"
#include <stdlib.h>
#include <string.h>

typedef struct drawn_points {
    stereo_result stereo;
    size_t count;
    float points[][3]; // [count], then colours
} drawn_points;

typedef uint8_t rgb8[3];

static rgb8 *colors_of(drawn_points *drawn) {
    return (rgb8 *)(drawn->points + drawn->count);
}

// At most `count` points.
static bool take_points(dataset *data, drawn_points *from, size_t count, fault *why) {
    free(data->points);
    free(data->colors);
    data->point_count = count;
    data->points = malloc(count * sizeof *data->points);
    data->colors = malloc(count * sizeof *data->colors);
    if (!data->points || !data->colors) return fail(why, "no memory for %zu points", count);
    memcpy(data->points, from->points, count * sizeof *data->points);
    memcpy(data->colors, colors_of(from), count * sizeof *data->colors);
    return true;
}

static bool find_points(train_run *run, const target_view *views, size_t count, drawn_points *drawn,
                        fault *why) {
    const train_options *o = run->options;
    const double began = seconds_now();
    if (o->random == 0 && !o->recipe.refine_poses) {
        if (!stereo_points(views, count, drawn->count, (uint64_t)o->recipe.seed, drawn->points,
                           colors_of(drawn), &drawn->stereo))
            return fail(why, "no memory to look for points by stereo in %zu views", count);
        run->stereo = drawn->stereo;
        run->stereo_seconds = seconds_now() - began;
    }
    run->at_random = drawn->stereo.points == 0;
    if (!run->at_random) return take_points(&run->data, drawn, drawn->stereo.points, why);
    if (o->resume) return true;
    random_points(views, count, run->data.cut_out, drawn->count, (uint64_t)o->recipe.seed, drawn->points,
                  colors_of(drawn));
    return take_points(&run->data, drawn, drawn->count, why);
}

bool train_points_find(train_run *run, fault *why) {
    const train_options *o = run->options;
    if (!run->at_random) return true;
    const int64_t most =
        density_settings_from(&o->recipe.density, &run->known, o->recipe.iterations).most_gaussians;
    const size_t wanted = (size_t)(o->random > 0 ? o->random : most < USUAL_RANDOM ? most : USUAL_RANDOM);
    const size_t bytes = sizeof(drawn_points) + wanted * (sizeof(float[3]) + sizeof(rgb8));
    target_view *const views = malloc(run->split.training * sizeof *views);
    drawn_points *const drawn = calloc(1, bytes);
    bool done = views && drawn;
    if (done) {
        size_t count = 0; // of the views that training sees from its first step on
        for (size_t i = 0; i < run->split.training; i++)
            if (!run->split.views[i].validates) views[count++] = run->split.views[i];
        drawn->count = wanted;
        done = find_points(run, views, count, drawn, why);
    } else {
        fail(why, "no memory for %zu points", wanted);
    }
    free(drawn);
    free(views);
    return done;
}
