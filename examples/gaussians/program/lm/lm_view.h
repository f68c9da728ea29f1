// SPDX-License-Identifier: MIT
// One camera's part of the normal equations: what stays of its picture while they are solved, and products
// with its Jacobian. A failure of the device ends the program.
#pragma once

#include "c_linkage.h"
#include "device_buffer.h"
#include "distwar_gs_lm.h"
#include "lm/lm_arena.h"
#include "lm/lm_clock.h"
#include "frames/target_view.h"

C_LINKAGE_BEGIN

// What all views share, and memory that one view after the other uses. Starts as {0}; the caller sets the
// members before pair_capacity.
typedef struct lm_scene {
    const gs_gaussians *gaussians; // device
    float background[GS_CHANNELS];
    float epsilon;
    distwar_policy policy;
    lm_clock *clock;
    int64_t pair_capacity;
    device_buffer bin, color, change, records, splats, transmittance, n_contrib, result, loss;
} lm_scene;

typedef struct lm_view {
    const target_view *target;
    gs_view view; // its arrays lie in the arena; image.color is NULL without split tiles
    gs_lm_metric metric;
} lm_view;

void lm_scene_close(lm_scene *scene);
size_t lm_scene_bytes(const lm_scene *scene); // of its memory

// The sum of squared residuals at the present values of the Gaussians. Waits.
double lm_picture_objective(lm_scene *scene, const target_view *target);

// Renders the view and keeps in the arena what products need: 32 bytes per pixel (44 with split tiles), its
// splats and its lists. False if lm_arena_take fails. *objective: the sum of squared residuals. Adds half of
// its gradient to *gradient unless that is NULL.
bool lm_view_open(lm_view *view, lm_scene *scene, const target_view *target, lm_arena *arena,
                  double *objective, const gs_gaussians *gradient);
// diagonal += diag(J^T J); blocks (or NULL) += the blocks of gs_lm_add_blocks
void lm_view_add_diagonal(const lm_view *view, lm_scene *scene, const gs_gaussians *diagonal, float *blocks);
// product = the sum of J^T J direction over the views
void lm_views_product(const lm_view *views, size_t count, lm_scene *scene, const gs_gaussians *direction,
                      const gs_gaussians *product);
// *sum += |J direction|^2 of all views; on the device.
void lm_views_add_curvature(const lm_view *views, size_t count, lm_scene *scene,
                            const gs_gaussians *direction, double *sum);

C_LINKAGE_END
