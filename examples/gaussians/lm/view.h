// SPDX-License-Identifier: MIT
// The normal equations of one view: what is kept of its rendering while they are solved, and products with its
// Jacobian. Also the GPU times of the parts of a step. A failure of the device ends the program.
#pragma once

#include "c_linkage.h"
#include "device.h"
#include "gs_lm.h"
#include "views.h"
#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>

C_LINKAGE_BEGIN

// ---- times ----

// GPU time of the parts of a step, by events between them. Measures nothing on the CPU.
typedef enum lm_part {
    LM_PICTURES,   // project, bin, render, residuals: of steps and of line searches
    LM_DIAGONAL,   // diag(J^T J)
    LM_FORWARD,    // J p: through the projection and the blend
    LM_BACKWARD,   // J^T u: from pixels to splats
    LM_PROJECTION, // J^T u: from splats to parameters and over the images
    LM_SOLVER,     // conjugate gradients
    LM_BUILD,      // the cache: the pass down the rays that writes it
    LM_SORT,       // the cache: the pass that counts, and the prefix sum
    LM_PARTS
} lm_part;

enum { LM_CLOCK_MARKS = 4096 };

typedef struct lm_clock {
    bool measures;
    int marks;
    cudaEvent_t at[LM_CLOCK_MARKS];
    lm_part part[LM_CLOCK_MARKS]; // that ended here
    double milliseconds[LM_PARTS];
} lm_clock;

const char *lm_part_name(lm_part part);
void lm_clock_open(lm_clock *clock);
void lm_clock_close(lm_clock *clock); // the sums stay
// The work queued since the last mark belongs to this part; the first mark begins to count.
void lm_clock_mark(lm_clock *clock, lm_part part);
// Waits, and adds the times to the sums.
void lm_clock_stop(lm_clock *clock);

// ---- views ----

typedef enum lm_form {
    LM_FREE,  // every product blends along the rays again
    LM_CACHED // products read a cache of all pairs of a pixel and a splat
} lm_form;

// Buffers. A view and the scene both have the first five; every view in turn overwrites those of the scene. Then follow
// those that only a view has, then those that only the scene has.
enum { LM_SPLATS, LM_COLOR, LM_TRANSMITTANCE, LM_N_CONTRIB, LM_CACHE_BEGIN, LM_OF_BOTH };
enum { LM_METRIC = LM_OF_BOTH, LM_TILE_BEGIN, LM_SPLAT_INDEX, LM_TILE_ORDER, LM_CACHE_PAIRS, LM_KEPT };
enum { LM_CHANGE = LM_OF_BOTH, LM_RECORDS, LM_RESULT, LM_LOSS, LM_BUFFERS };

// What all views share. Starts as {0}; the caller sets the members before `memory`.
typedef struct lm_scene {
    const gs_gaussians *gaussians; // device
    float background[GS_CHANNELS];
    float epsilon;
    gs_lm_objective objective;
    bool centre_only; // the slope of SSIM is by the pixel's own colour alone
    lm_form form;
    distwar_policy policy;
    lm_clock *clock;
    gs_view_memory memory; // of one view after the other
    size_t scratch;        // bytes that gs_bin took of this thread's context
    device_buffer buffers[LM_BUFFERS];
} lm_scene;

// Starts as {0}.
typedef struct lm_view {
    const target_view *target;
    gs_view view;                // image.color is NULL without split tiles
    gs_lm_metric metric;         // coupling: NULL unless it is that of the whole loss
    gs_lm_cache cache;           // begin: NULL without a cache
    device_buffer kept[LM_KEPT]; // what view and metric point to
} lm_view;

void lm_scene_close(lm_scene *scene);
size_t lm_scene_bytes(const lm_scene *scene); // of its memory

// The sum of squared residuals at the present values of the Gaussians. Waits.
double lm_picture_objective(lm_scene *scene, const target_view *target);

// Renders the view and keeps what products need: 32 bytes per pixel (44 with split tiles; 12 less without a coupling), its
// splats and its lists, and with LM_CACHED 20 bytes per pair and 8 per splat. Returns the sum of squared residuals.
// Unless gradient is NULL, builds the cache and adds half of the sum's gradient to *gradient. An open view may be
// opened again:
// steps need about the same memory.
double lm_view_open(lm_view *view, lm_scene *scene, const target_view *target, const gs_gaussians *gradient);
void lm_view_close(lm_view *view);
size_t lm_view_bytes(const lm_view *view); // of its memory
// The bytes of a view after lm_view_open with a gradient. Renders the view and allocates what the scene needs for it.
size_t lm_view_needs(lm_scene *scene, const target_view *target);
// The size of the next part, where `left` things are divided into the fewest parts of at most `most`, all about equal.
size_t lm_equal_part(size_t left, size_t most);
// diagonal += diag(J^T J); blocks (or NULL) += those of gs_lm_blocks_bytes
void lm_view_add_diagonal(const lm_view *view, lm_scene *scene, const gs_gaussians *diagonal, float *blocks);
// product (or NULL) = the sum of J^T J direction over the views; *square (or NULL; on the device) += |J direction|^2 of all.
// Not both.
void lm_views_product(const lm_view *views, size_t count, lm_scene *scene, const gs_gaussians *direction,
                      const gs_gaussians *product, double *square);

C_LINKAGE_END
