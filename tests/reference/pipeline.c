// SPDX-License-Identifier: MIT
// All stages in a row, forward and back.
#include "reference.h"

#include "memory.h"

void reference_decisions_destroy(reference_decisions *decisions) {
    free(decisions->splats);
    reference_lists_destroy(&decisions->ranges);
    free(decisions->blend);
    free(decisions->sign);
    *decisions = (reference_decisions){0};
}

void reference_pipeline(const reference_problem *problem, const reference_decisions *held,
                        reference_decisions *taken, reference_outputs *outputs) {
    const reference_gaussians *gaussians = problem->gaussians;
    const reference_camera *camera = problem->camera;
    const int width = camera->width, height = camera->height, degree = problem->sh_degree_used;
    const int64_t count = gaussians->count, pixels = (int64_t)width * height;

    reference_decisions made = {.splats = allocate(count, sizeof(reference_splat_decisions))};
    reference_splat *splats = allocate(count, sizeof(reference_splat));
    for (int64_t i = 0; i < count; i++) {
        reference_project(gaussians, i, degree, camera, held ? &held->splats[i] : NULL, &splats[i]);
        made.splats[i] = splats[i].decisions;
    }
    if (!held) made.ranges = reference_bin(splats, count, width, height);
    const gs_tile_ranges *ranges = held ? &held->ranges : &made.ranges;
    made.blend = allocate(ranges->isects * REFERENCE_TILE_PIXELS, 1);
    const int image_is_wanted = outputs->image.color != NULL;
    reference_image image = image_is_wanted ? outputs->image : reference_image_create(width, height);
    reference_blend blend = {.splats = splats,
                             .count = count,
                             .ranges = ranges,
                             .width = width,
                             .height = height,
                             .background = problem->background,
                             .held = held ? held->blend : NULL,
                             .normalize_depth = problem->normalize_depth,
                             .inverse_depth = problem->inverse_depth};
    reference_render(&blend, made.blend, &image);
    made.sign = allocate(3 * pixels, 1);
    const int backward = outputs->gradients.mean || outputs->mean2d_gradient ||
                         outputs->abs_mean2d_gradient || outputs->camera_gradient;
    double *color_gradient = backward ? allocate(3 * pixels, sizeof(double)) : NULL;
    reference_loss(image.color, problem->target, NULL, width, height, held ? held->sign : NULL, made.sign,
                   &outputs->value, color_gradient);
    outputs->objective = outputs->value.loss;
    for (int64_t i = 0; problem->alpha_weight && i < pixels; i++)
        outputs->objective += problem->alpha_weight[i] * (1 - image.transmittance[i]);
    for (int64_t i = 0; problem->depth_weight && i < pixels; i++)
        outputs->objective += problem->depth_weight[i] * image.depth[i];

    if (backward) {
        reference_splat_gradient *splat_gradients = allocate(count, sizeof(reference_splat_gradient));
        const reference_image_gradient d_image = {color_gradient, problem->alpha_weight,
                                                  problem->depth_weight};
        blend.held = made.blend;
        reference_render_backward(&blend, &d_image, splat_gradients, NULL);
        if (outputs->camera_gradient) *outputs->camera_gradient = (reference_camera_gradient){0};
        for (int64_t i = 0; i < count; i++) {
            if (outputs->camera_gradient)
                reference_project_by_camera(gaussians, i, degree, camera, &made.splats[i],
                                            &splat_gradients[i], outputs->camera_gradient);
            if (outputs->gradients.mean)
                reference_project_backward(gaussians, i, degree, camera, &made.splats[i], &splat_gradients[i],
                                           &outputs->gradients);
            const double half[2] = {width / 2.0, height / 2.0};
            for (int k = 0; k < 2; k++) {
                if (outputs->mean2d_gradient)
                    outputs->mean2d_gradient[2 * i + k] = splat_gradients[i].mean[k] * half[k];
                if (outputs->abs_mean2d_gradient)
                    outputs->abs_mean2d_gradient[2 * i + k] = splat_gradients[i].abs_mean[k] * half[k];
            }
        }
        free(splat_gradients);
        free(color_gradient);
    }
    free(splats);
    if (!image_is_wanted) reference_image_destroy(&image);
    if (taken)
        *taken = made;
    else
        reference_decisions_destroy(&made);
}
