// SPDX-License-Identifier: MIT
// One camera's share of the normal equations: what stays of its picture while they are solved, and products
// by its Jacobian, without a cache or from one. Failures of the device end the program.
#ifndef SPLAT_LM_VIEW_H
#define SPLAT_LM_VIEW_H

#include "device_buffer.h"
#include "gs_lm.h"
#include "lm/lm_arena.h"
#include "lm/lm_clock.h"
#include "view/target_view.h"

typedef enum lm_form {
    LM_FREE,  // every product walks down the rays again
    LM_CACHED // products read what one walk left of every pixel and splat
} lm_form;

// What all views have in common, and memory that each uses after the other. Zeros but for what the caller
// sets.
typedef struct lm_scene {
    const gs_gaussians *gaussians; // device
    float background[3];
    gs_lm_objective objective;
    float epsilon;
    bool centre_only; // SSIM's slope is by the pixel's own colour alone
    gs_reduction reduction;
    int threshold;
    lm_form form;
    lm_clock *clock;
    int64_t pair_capacity;
    device_buffer bin, color, change, records, cache, splats, transmittance, consumed, result, loss;
} lm_scene;

typedef struct lm_view {
    const target_view *target;
    gs_splat *splats;
    gs_lists lists;
    gs_image image;
    gs_lm_metric metric; // coupling: NULL unless it is that of the whole loss
    gs_lm_cache cached;
} lm_view;

void lm_scene_close(lm_scene *scene);
// Takes the memory that views of this size need; what is left to grow is binning, by its pairs.
void lm_scene_reserve(lm_scene *scene, const gs_camera *camera);
size_t lm_scene_bytes(const lm_scene *scene); // of its memory

// The sum of squared residuals at the Gaussians' present values. Waits.
double lm_picture_objective(lm_scene *scene, const target_view *target);

// Renders the view and keeps in the arena what products need: 32 bytes a pixel (44 with split tiles), its
// splats and its lists, and the cache where there is one. False if the arena has no room for it: then it is
// as before. *objective: the sum of squared residuals. To *gradient, unless NULL, half of its gradient is
// added.
bool lm_view_open(lm_view *view, lm_scene *scene, const target_view *target, lm_arena *arena,
                  double *objective, const gs_gaussians *gradient);
// diagonal += diag(J^T J), blocks (or NULL) += those of gs_lm_add_blocks
void lm_view_add_diagonal(const lm_view *view, lm_scene *scene, const gs_gaussians *diagonal, float *blocks);
// product = the sum of J^T J direction over the views
void lm_views_product(const lm_view *views, size_t count, lm_scene *scene, const gs_gaussians *direction,
                      const gs_gaussians *product);
// *sum += |J direction|^2 of all views; on the device.
void lm_views_add_curvature(const lm_view *views, size_t count, lm_scene *scene,
                            const gs_gaussians *direction, double *sum);

#endif
