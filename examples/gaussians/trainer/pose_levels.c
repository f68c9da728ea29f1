// SPDX-License-Identifier: MIT
#include "trainer.h"
#include "scene.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Pixels of all views together for each Gaussian: the pictures must decide more numbers than there are.
enum { PIXELS_A_GAUSSIAN = 20 };

int pose_levels_of(const target_view *views, size_t count, int wanted) {
    const int side = view_sizes_of(views, count).least_side;
    while (wanted > 0 && side >> wanted < RESOLUTIONS_LEAST_SIDE) wanted--;
    return wanted;
}

// ---- where a scene is

static void points_close(weighted_points *p) {
    free((void *)p->points);
    free((void *)p->weights);
    *p = (weighted_points){0};
}

// The means on the host, weighted by opacity.
static bool points_open(weighted_points *p, const training_state *state, fault *why) {
    const gs_gaussians *const g = &state->gaussians;
    const size_t count = (size_t)g->count;
    float(*const points)[3] = malloc((count + 1) * sizeof *points);
    float *const weights = malloc((count + 1) * sizeof *weights);
    *p = (weighted_points){count, (const float(*)[3])points, weights};
    if (!points || !weights) return fail(why, "no memory for the means of %zu Gaussians", count);
    device_download(points, g->mean, count * sizeof *points);
    device_download(weights, g->opacity_logit, count * sizeof *weights);
    for (size_t i = 0; i < count; i++) weights[i] = 1 / (1 + expf(-weights[i]));
    return true;
}

bool poses_start_in(refined_pose *poses, const target_view *views, size_t count, const training_state *state,
                    fault *why) {
    weighted_points at;
    const bool done = points_open(&at, state, why);
    refined_poses_start(poses, views, count);
    if (done) refined_poses_measure(poses, views, count, &at);
    points_close(&at);
    return done;
}

// ---- levels

static training_settings settings_without_density(const training_settings *settings, int64_t iterations) {
    training_settings plain = *settings;
    plain.iterations = iterations;
    plain.average_part = plain.dropout = 0;
    plain.sh_interval = 0;
    plain.random_background = false;
    plain.batch = 1;
    plain.resolutions = (resolution_schedule){0};
    plain.density.kind = DENSITY_NONE;
    plain.density.retired = 0; // the scene of align_views stays
    return plain;
}

bool pose_levels_refine(refined_pose *poses, const target_view *views, size_t count,
                        const training_settings *settings, const pose_levels *levels, fault *why) {
    target_view *const small = calloc(count, sizeof *small); // the cameras of a size, with `poses`
    bool done = small || fail(why, "no memory for %zu views", count);
    weighted_points at = {0}; // where the scene of the size before is
    const int last = levels->levels > 0 ? levels->finest : 1;
    training_settings here = settings_without_density(settings, levels->steps);
    here.pose = (pose_schedule){.rate = levels->rate, .end = 0.1, .from = levels->steps / 3};
    memset(here.weights, 0, sizeof here.weights);
    // Gaussians are relocated, as poses follow what a scene leaves over. Their number stays.
    here.density = settings->density;
    here.density.kind = DENSITY_MCMC;
    here.density.from = levels->steps / 5, here.density.until = levels->steps * 5 / 6;
    here.density.every = 100;
    for (int level = levels->levels; level >= last && done; level--) {
        gs_gaussians host = {0};
        training_state state;
        for (size_t i = 0; i < count; i++) {
            small[i].camera = views[i].camera;
            dataset_downscale_camera(&small[i].camera, 1 << level);
            pose_to_camera(&poses[i].now, &small[i].camera);
        }
        const double pixels = (double)count * small->camera.width * small->camera.height;
        done = levels->start(levels->context, (size_t)fmax(1, pixels / PIXELS_A_GAUSSIAN), &host, why);
        if (!done) break;
        here.resolutions = (resolution_schedule){.factor = 1 << level, .percent = 100};
        here.density.most_gaussians = host.count;
        training_state_open(&state, levels->group, &host);
        scene_close(&host);
        done = training_state_open_poses(&state, (int64_t)count, why) &&
               (at.count > 0 || points_open(&at, &state, why));
        if (done) {
            refined_poses_start(state.pose, small, count);
            refined_poses_measure(state.pose, small, count, &at);
            points_close(&at);
            done = train_on(levels->pictures, &state, views, count, &here, NULL, NULL, why) &&
                   points_open(&at, &state, why);
        }
        for (size_t i = 0; i < count && done; i++) poses[i].now = state.pose[i].now;
        training_state_close(&state);
        if (done && levels->done) levels->done(levels->context, level, poses);
    }
    if (done && at.count > 0) refined_poses_measure(poses, views, count, &at);
    points_close(&at);
    free(small);
    return done;
}

bool align_views(picture_cache *pictures, training_state *state, target_view *views, size_t count,
                 const training_settings *settings, int64_t steps, fault *why) {
    training_settings still = settings_without_density(settings, steps * (int64_t)count);
    still.name = settings->name ? "aligning views" : NULL;
    still.rates = (gs_adam_rates){0};
    still.pose = (pose_schedule){.rate = 0.25, .end = 0.01};
    training_state frozen = *state;
    frozen.place.views = frozen.place.steps = frozen.exposures = frozen.poses = 0;
    frozen.pose = NULL;
    bool done = training_state_open_poses(&frozen, (int64_t)count, why) &&
                poses_start_in(frozen.pose, views, count, &frozen, why) &&
                train_on(pictures, &frozen, views, count, &still, NULL, NULL, why);
    for (size_t i = 0; i < count && done; i++) pose_to_camera(&frozen.pose[i].now, &views[i].camera);
    free(frozen.pose);
    return done;
}
