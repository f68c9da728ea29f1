// SPDX-License-Identifier: MIT
#include "plan/memory.h"
#include "distwar_gs_ssim.h"
#include "frames/gs_check.h"

// Above the pairs of the trained scenes of docs/benchmarks/rasteriser.md with the quarter of room that lists get.
static double pairs_of(double splats, double pixels) {
    return 1.5 * splats + 0.75 * pixels;
}

static double scene_bytes(const training_settings *s, double most, int sh_degree) {
    const double floats = 11 + 3.0 * (sh_degree + 1) * (sh_degree + 1);
    return 4 * most * ((s->average_part > 0 ? 5 : 4) * floats + 2);
}

// What a rendering of `views` cameras writes.
static double image_bytes(const gs_camera *camera, double most, double views) {
    const double splats = views * most, pixels = views * camera->width * camera->height;
    const gs_view view = {.gaussians = {.count = (int64_t)splats},
                          .camera = *camera,
                          .pair_capacity = (int64_t)pairs_of(splats, pixels)};
    size_t lists;
    GS_CHECK(gs_bin_bytes(&view, &lists));
    return (double)lists + splats * sizeof(gs_splat) +
           pixels * (GS_CHANNELS + 2) * sizeof(float); // colour, transmittance, n_contrib
}

// The step, and the viewer, which measures one view.
static double step_bytes(const training_settings *s, const target_view *view, double most, double views) {
    const gs_camera *const camera = &view->camera;
    const double splats = views * most, pixels = (double)camera->width * camera->height;
    size_t loss, moments, depth_loss = 0;
    GS_CHECK(gs_losses_bytes(camera->width, camera->height, (int32_t)views, &loss));
    GS_CHECK(gs_moments_bytes((int64_t)splats, 0, s->policy.strategy, &moments));
    if (view->depth_on_host) GS_CHECK(gs_depth_loss_bytes(camera->width, camera->height, &depth_loss));
    const double planes = GS_CHANNELS + (view->depth_on_host ? 2 : 0); // gradients, and depth
    const double blend = image_bytes(camera, most, views) + (double)moments;
    return blend + image_bytes(camera, most, 1) + (double)loss + (double)depth_loss +
           views * pixels * planes * sizeof(float) + splats * 2 * sizeof(float);
}

training_memory training_memory_of(const training_settings *settings, const training_data *data,
                                   int64_t start, int sh_degree, int ranks) {
    const double most = (double)settings->density.most_gaussians;
    const double largest = most > (double)start ? most : (double)start;
    const double views = (double)resolution_most_views(&settings->resolutions, settings->batch);
    training_memory memory = {.scene = scene_bytes(settings, largest / ranks, sh_degree)};
    for (size_t i = 0; i < data->count; i++) {
        const target_view *const view = &data->views[i];
        const double step = step_bytes(settings, view, largest / ranks, views);
        if (step > memory.step) memory.step = step;
        const double bytes = GS_CHANNELS + (view->mask_on_host != NULL) +
                             (settings->random_background && view->outline) +
                             (view->depth_on_host ? sizeof(float) : 0);
        memory.pictures += bytes * view->camera.width * view->camera.height;
    }
    return memory;
}

int64_t training_gaussians_that_fit(const training_settings *settings, const training_data *data,
                                    int64_t start, int sh_degree, int ranks, double bytes) {
    training_settings tried = *settings;
    int64_t fits = 0, above = settings->density.most_gaussians;
    while (above - fits > 1 + fits / 100) {
        tried.density.most_gaussians = fits + (above - fits) / 2;
        const training_memory of = training_memory_of(&tried, data, start, sh_degree, ranks);
        if (of.scene + of.step <= bytes)
            fits = tried.density.most_gaussians;
        else
            above = tried.density.most_gaussians;
    }
    return fits;
}
