// SPDX-License-Identifier: MIT
#include "train_points.h"
#include "plan/defaults.h"
#include "start/random_points.h"
#include "cli/progress.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// Memory that processes share.
typedef struct drawn_points {
    stereo_result stereo;
    bool failed;
    size_t count;
    float points[][3]; // [count], then colours
} drawn_points;

typedef uint8_t rgb8[3];

static rgb8 *colors_of(drawn_points *drawn) {
    return (rgb8 *)(drawn->points + drawn->count);
}

// In a process of its own where ranks are forked from this one, which makes no call to a device before.
static bool try_stereo(const train_run *run, const target_view *views, size_t count, drawn_points *to,
                       fault *why) {
    const rank_options *const ranks = &run->options->ranks;
    const bool apart = (ranks->gpus > 1 || ranks->nccl) && !ranks->launched;
    const pid_t child = apart ? fork() : 0;
    int status = 0;
    if (child == 0)
        to->failed = !stereo_points(views, count, to->count, (uint64_t)run->options->recipe.seed, to->points,
                                    colors_of(to), &to->stereo);
    if (apart && child == 0) _exit(0);
    if (child < 0 || (apart && waitpid(child, &status, 0) != child) || status != 0)
        return fail(why, "the process that looks for points by stereo failed; --random N starts without it");
    return !to->failed || fail(why, "no memory to look for points by stereo in %zu views", count);
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
        if (!try_stereo(run, views, count, drawn, why)) return false;
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
    const density_data data = training_density_data(&run->known, o->recipe.iterations);
    const int64_t most = density_settings_from(&o->recipe.density, &data).most_gaussians;
    const size_t wanted = (size_t)(o->random > 0 ? o->random : most < USUAL_RANDOM ? most : USUAL_RANDOM);
    const size_t bytes = sizeof(drawn_points) + wanted * (sizeof(float[3]) + sizeof(rgb8));
    target_view *const views = malloc(run->split.training * sizeof *views);
    drawn_points *const drawn = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool done = views && drawn != MAP_FAILED;
    if (done) {
        size_t count = 0; // of the views that training sees from its first step on
        for (size_t i = 0; i < run->split.training; i++)
            if (!run->split.views[i].set_aside) views[count++] = run->split.views[i];
        drawn->count = wanted;
        done = find_points(run, views, count, drawn, why);
    } else {
        fail(why, "no memory for %zu points", wanted);
    }
    if (drawn != MAP_FAILED) munmap(drawn, bytes);
    free(views);
    return done;
}
