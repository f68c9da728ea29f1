// SPDX-License-Identifier: MIT
//
// All stages in a row, forward and back.
#include "reference.h"

#include "memory.h"

void reference_decisions_destroy(reference_decisions *decisions) {
    free(decisions->splats);
    reference_lists_destroy(&decisions->lists);
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
    if (!held) made.lists = reference_bin(splats, count, width, height);
    const gs_lists *lists = held ? &held->lists : &made.lists;
    made.blend = allocate(lists->pairs * REFERENCE_TILE_PIXELS, 1);
    const int image_is_wanted = outputs->image.color != NULL;
    reference_image image = image_is_wanted ? outputs->image : reference_image_create(width, height);
    reference_render(splats, lists, width, height, problem->background, held ? held->blend : NULL, made.blend,
                     &image);
    made.sign = allocate(3 * pixels, 1);
    const int backward = outputs->gradients.mean || outputs->mean2d_gradient || outputs->camera_gradient;
    double *color_gradient = backward ? allocate(3 * pixels, sizeof(double)) : NULL;
    reference_loss(image.color, problem->target, width, height, held ? held->sign : NULL, made.sign,
                   &outputs->value, color_gradient);
    outputs->objective = outputs->value.loss;
    for (int64_t i = 0; problem->alpha_weight && i < pixels; i++)
        outputs->objective += problem->alpha_weight[i] * (1 - image.transmittance[i]);

    if (backward) {
        reference_splat_gradient *splat_gradients = allocate(count, sizeof(reference_splat_gradient));
        reference_render_backward(splats, count, lists, width, height, problem->background, made.blend,
                                  color_gradient, problem->alpha_weight, splat_gradients);
        if (outputs->camera_gradient) *outputs->camera_gradient = (reference_camera_gradient){0};
        for (int64_t i = 0; i < count; i++) {
            if (outputs->camera_gradient)
                reference_project_by_camera(gaussians, i, degree, camera, &made.splats[i],
                                            &splat_gradients[i], outputs->camera_gradient);
            if (outputs->gradients.mean)
                reference_project_backward(gaussians, i, degree, camera, &made.splats[i], &splat_gradients[i],
                                           &outputs->gradients);
            if (outputs->mean2d_gradient) {
                outputs->mean2d_gradient[2 * i] = splat_gradients[i].mean[0] * width / 2;
                outputs->mean2d_gradient[2 * i + 1] = splat_gradients[i].mean[1] * height / 2;
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
