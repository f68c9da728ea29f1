// SPDX-License-Identifier: MIT
#include "trainer.h"
#include "device.h"
#include "scene.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_SIDE = 64,
    // Pixels of all views together for each Gaussian: the pictures must decide more numbers than there are.
    PIXELS_A_GAUSSIAN = 20
};

int pose_levels_of(const target_view *views, size_t count, int wanted) {
    for (size_t i = 0; i < count; i++)
        while (wanted > 0 && (views[i].camera.width >> wanted < LEAST_SIDE ||
                              views[i].camera.height >> wanted < LEAST_SIDE))
            wanted--;
    return wanted;
}

// ---- small views

typedef struct small_views {
    size_t count;
    target_view *views; // [count]
    image *pictures;    // likewise
    uint8_t **masks;    // likewise; NULL: all pixels count
} small_views;

static void small_views_close(small_views *small) {
    for (size_t i = 0; i < small->count; i++) {
        target_view_close(&small->views[i]);
        image_close(&small->pictures[i]);
        free(small->masks[i]);
    }
    free(small->views);
    free(small->pictures);
    free(small->masks);
}

// A pixel counts if `least` pixels of its block or more do.
static size_t shrink_mask(const uint8_t *mask, int width, int factor, int least, const image *small,
                          uint8_t *out) {
    size_t counted = 0;
    for (int y = 0; y < small->height; y++)
        for (int x = 0; x < small->width; x++) {
            int count = 0;
            for (int k = 0; k < factor * factor; k++)
                count += mask[(size_t)(factor * y + k / factor) * (size_t)width +
                              (size_t)(factor * x + k % factor)] != 0;
            const bool counts = count >= least;
            out[(size_t)y * (size_t)small->width + (size_t)x] = counts ? 255 : 0;
            counted += counts;
        }
    return counted;
}

// Pixels whose whole block counts, or if there are none, those of which any part does.
static bool add_mask(small_views *small, size_t i, const target_view *view, int factor, fault *why) {
    const image *picture = &small->pictures[i];
    if (!view->mask_on_host) return true;
    uint8_t *mask = malloc((size_t)picture->width * (size_t)picture->height);
    if (!mask) return fail(why, "no memory for a mask of %d x %d", picture->width, picture->height);
    small->masks[i] = mask;
    if (shrink_mask(view->mask_on_host, view->camera.width, factor, factor * factor, picture, mask) == 0)
        shrink_mask(view->mask_on_host, view->camera.width, factor, 1, picture, mask);
    target_view_set_mask(&small->views[i], mask);
    return true;
}

static bool small_views_open(small_views *small, const target_view *views, const refined_pose *poses,
                             size_t count, int factor, fault *why) {
    *small = (small_views){.views = calloc(count, sizeof *small->views),
                           .pictures = calloc(count, sizeof *small->pictures),
                           .masks = calloc(count, sizeof *small->masks)};
    if (!small->views || !small->pictures || !small->masks)
        return fail(why, "no memory for %zu views", count);
    small->count = count; // of what small_views_close closes
    for (size_t i = 0; i < count; i++) {
        gs_camera camera = views[i].camera;
        dataset_downscale_camera(&camera, factor);
        pose_to_camera(&poses[i].now, &camera);
        if (!image_downscale(views[i].picture, factor, &small->pictures[i], why) ||
            !target_view_open(&small->views[i], &camera, &small->pictures[i], why) ||
            !add_mask(small, i, &views[i], factor, why))
            return false;
    }
    return true;
}

// ---- where a scene is

// The means on the host, weighted by opacity.
typedef struct scene_points {
    size_t count;
    float (*points)[3], *weights;
} scene_points;

static void scene_points_close(scene_points *p) {
    free(p->points);
    free(p->weights);
    *p = (scene_points){0};
}

static bool scene_points_open(scene_points *p, const training_state *state, fault *why) {
    const gs_gaussians *const g = &state->gaussians;
    const size_t count = (size_t)g->count;
    *p = (scene_points){.count = count,
                        .points = malloc((count + 1) * sizeof *p->points),
                        .weights = malloc((count + 1) * sizeof *p->weights)};
    if (!p->points || !p->weights) return fail(why, "no memory for the means of %zu Gaussians", count);
    device_download(p->points, g->mean, count * sizeof *p->points);
    device_download(p->weights, g->opacity_logit, count * sizeof *p->weights);
    for (size_t i = 0; i < count; i++) p->weights[i] = 1 / (1 + expf(-p->weights[i]));
    return true;
}

static void measure(refined_pose *poses, const target_view *views, size_t count, const scene_points *at) {
    const weighted_points points = {at->count, (const float(*)[3])at->points, at->weights};
    refined_poses_measure(poses, views, count, &points);
}

bool poses_start_in(refined_pose *poses, const target_view *views, size_t count, const training_state *state,
                    fault *why) {
    scene_points at;
    const bool done = scene_points_open(&at, state, why);
    refined_poses_start(poses, views, count);
    if (done) measure(poses, views, count, &at);
    scene_points_close(&at);
    return done;
}

// ---- levels

static training_settings settings_without_density(const training_settings *settings, int64_t iterations) {
    training_settings plain = *settings;
    plain.iterations = iterations;
    plain.seconds = 0;
    plain.average_part = plain.dropout = 0;
    plain.sh_interval = 0;
    plain.random_background = false;
    plain.batch = 1;
    plain.resolutions = (resolution_schedule){0};
    plain.density.kind = DENSITY_NONE;
    plain.density.retired = 0; // the scene of align_views stays
    return plain;
}

static bool train_once(picture_cache *pictures, training_state *state, const target_view *views, size_t count,
                       const training_settings *settings, fault *why) {
    training_report report = {0};
    const bool done = train_on(pictures, state, views, count, settings, NULL, &report, why);
    training_report_close(&report);
    return done;
}

// Gaussians are relocated, as poses follow what a scene leaves over. Their number stays.
static density_settings level_density(const training_settings *settings, int64_t steps, int64_t count) {
    density_settings density = settings->density;
    density.kind = DENSITY_MCMC;
    density.most_gaussians = count;
    density.from = steps / 5;
    density.until = steps * 5 / 6;
    density.every = 100;
    return density;
}

// at: where the scene of the size before is, empty at first; becomes that of this size.
static bool refine_level(refined_pose *poses, const small_views *small, const training_settings *settings,
                         const pose_levels *levels, scene_points *at, fault *why) {
    const gs_camera *first = &small->views[0].camera;
    gs_gaussians host = {0};
    training_settings here = settings_without_density(settings, levels->steps);
    here.pose = (pose_schedule){.rate = levels->rate, .end = 0.1, .from = levels->steps / 3};
    const double pixels = (double)small->count * first->width * first->height;
    if (!levels->start(levels->context, (size_t)fmax(1, pixels / PIXELS_A_GAUSSIAN), &host, why))
        return false;
    here.density = level_density(settings, levels->steps, host.count);
    training_state state;
    training_state_open(&state, levels->group, &host);
    scene_close(&host);
    bool done = training_state_open_poses(&state, (int64_t)small->count, why) &&
                (at->count > 0 || scene_points_open(at, &state, why));
    if (done) {
        refined_poses_start(state.pose, small->views, small->count);
        measure(state.pose, small->views, small->count, at);
        scene_points_close(at);
        done = train_once(NULL, &state, small->views, small->count, &here, why) &&
               scene_points_open(at, &state, why);
    }
    for (size_t i = 0; i < small->count && done; i++) poses[i].now = state.pose[i].now;
    training_state_close(&state);
    return done;
}

bool pose_levels_refine(refined_pose *poses, const target_view *views, size_t count,
                        const training_settings *settings, const pose_levels *levels, fault *why) {
    bool done = true;
    scene_points at = {0};
    const int last = levels->levels > 0 ? levels->finest : 1;
    for (int level = levels->levels; level >= last && done; level--) {
        small_views small;
        done = small_views_open(&small, views, poses, count, 1 << level, why) &&
               refine_level(poses, &small, settings, levels, &at, why);
        small_views_close(&small);
        if (done && levels->done) levels->done(levels->context, level, poses);
    }
    if (done && at.count > 0) measure(poses, views, count, &at);
    scene_points_close(&at);
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
                train_once(pictures, &frozen, views, count, &still, why);
    for (size_t i = 0; i < count && done; i++) pose_to_camera(&frozen.pose[i].now, &views[i].camera);
    free(frozen.pose);
    return done;
}
