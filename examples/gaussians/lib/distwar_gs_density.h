// SPDX-License-Identifier: MIT
//
// libdistwar_gs: density control, which decides which Gaussians there are, and dropout. The rules of distwar_gs.h hold.
//
// gs_density_accumulate, after each step, sums what the other calls use. Then, every n-th step, one of:
// - gs_density_plan_step, gs_density_move of the parameters and of each moment of Adam into other memory
//   (Kerbl et al. 2023: prune, clone, split), and gs_opacity_reset
// - gs_relocate, in place; gs_density_penalty before and gs_density_noise after every step (Kheradmand et al.
//   2024: MCMC)
// Results do not depend on the order in which threads run. docs/developers/math.md, section 9.
#ifndef GS_DENSITY_H
#define GS_DENSITY_H

#include "distwar_gs.h"

#ifdef __cplusplus
extern "C" {
#endif

// Adds to density, [count][2] floats, zeros at the start: the sum of |mean2d| over the views that saw a
// Gaussian (radius > 0, see gs_radii), and the number of these views. mean2d: [count][2], mean2d or abs_mean2d
// of gs_project_backward; several cameras: [cameras][count][2], added in their order.
// Reads:   view->splats, gaussians.count, the camera's size, views.
gs_status gs_density_accumulate(const gs_view *view, const float *mean2d, float *density, gs_stream stream);

// The size of a Gaussian is exp(log_scale) of its largest axis.
typedef struct gs_density_rules {
    float gradient_threshold; // a Gaussian grows if its mean |mean2d| over the views is at least this
    float split_size;         // a growing Gaussian larger than this is split in two, others are cloned
    float split_factor;       // >= 1: divides the sizes of the two
    float least_opacity;      // less opaque Gaussians are pruned
    float most_size;          // larger ones (after a split) are pruned; 0: no limit
    int64_t most_gaussians;   // growth stops here, the largest gradients first; 0: no limit
    uint64_t seed, iteration; // random positions of split Gaussians depend on these two alone
} gs_density_rules;

// The fate of each Gaussian. Arrays lie in the workspace, which must not change.
typedef struct gs_density_plan {
    // The rows that gs_density_move moves, and where they begin before and after: all. The caller may name a part of
    // them, which lies by itself on one of several GPUs, first_after and count_after by `begin`.
    int64_t count, count_after, first, first_after;
    uint8_t *action;  // of all: [count]
    uint32_t *source; // of all: [count_after]: row of the Gaussian that this one comes from; top bit: new
    int64_t *begin;   // of all: [count + 1]: the row that the first one becomes, and the end
} gs_density_plan;

// Bytes of the workspace of gs_density_plan_step.
gs_status gs_density_bytes(int64_t count, size_t *bytes);

// Reads log_scale, opacity_logit and density: of a scene on several GPUs those of all Gaussians. Gaussians keep their order; a clone follows its original, and
// the two of a split are neighbours. Waits for the stream.
gs_status gs_density_plan_step(const gs_gaussians *gaussians, const float *density,
                               const gs_density_rules *rules, void *workspace, size_t workspace_bytes,
                               gs_density_plan *plan, gs_stream stream);

// Writes to[plan->count_after] from from[plan->count]; the two do not overlap. moments 0: `from` has
// parameters: a clone is a copy; the two of a split have random positions inside the original and scales
// divided by split_factor. moments not 0: `from` has a moment of Adam, which is 0 for new Gaussians.
gs_status gs_density_move(const gs_density_plan *plan, const gs_density_rules *rules, int moments,
                          const gs_gaussians *from, const gs_gaussians *to, gs_stream stream);

// Cuts all opacities at `most` (0..1, exclusive) and sets their moments to 0.
gs_status gs_opacity_reset(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                           const gs_gaussians *second_moment, float most, gs_stream stream);

typedef struct gs_relocation {
    int64_t existing;         // 0..count: rows from here on are new and may hold anything
    float least_opacity;      // 0 to below 1: Gaussians with at most this, or NaN, are dead
    uint64_t seed, iteration; // the random choice depends on these two alone
    uint64_t *dead;           // NULL, or device: grows by the number of dead Gaussians below `existing`
} gs_relocation;

// Bytes of the workspace of gs_relocate.
gs_status gs_relocate_bytes(int64_t count, size_t *bytes);

// Moves each dead or new Gaussian to the position of a live one, drawn with probability proportional to
// opacity. All Gaussians that then share a position get opacity and scales that keep the image there about as
// it was, and moments of 0. If no Gaussian is alive, new rows become dead and nothing else changes.
gs_status gs_relocate(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                      const gs_gaussians *second_moment, const gs_relocation *relocation, void *workspace,
                      size_t workspace_bytes, gs_stream stream);

// Adds S(opacity) scale C n to each mean: scale finite, >= 0; C the covariance; n standard normal; S = 1 /
// (1 + exp(100 (opacity - 0.005))), and 0 where that is below 1e-8. Along an axis of size s > 1 / scale the deviation is
// S s in place of S scale s^2: without that bound, which the paper has not, large Gaussians fly ever farther.
// first: the index of the first Gaussian among all of the scene; 0 for a whole scene.
gs_status gs_density_noise(const gs_gaussians *gaussians, int64_t first, float scale, uint64_t seed,
                           uint64_t iteration, gs_stream stream);

// Adds to the gradients those of opacity_weight mean(opacity) + scale_weight mean(exp(log_scale)); both
// weights finite, >= 0. all: the Gaussians of the scene, over which the means are; gaussians->count for a whole scene.
gs_status gs_density_penalty(const gs_gaussians *gaussians, int64_t all, float opacity_weight,
                             float scale_weight, const gs_gaussians *gradients, gs_stream stream);

// Opacities for a step without a random share of the Gaussians, which teaches the others to do without any one of them.
// logits[count]: of each Gaussian, with probability `share` (0..0.9) that of one that is never seen; of the others that
// of its opacity divided by 1 - share, at most 0.9999, so that pictures keep their brightness. Render with them in
// place of gaussians->opacity_logit. The choice is a function of seed, iteration and index among all Gaussians. first:
// that of row 0, where the rows are a part of a scene.
gs_status gs_dropout(const gs_gaussians *gaussians, int64_t first, float share, uint64_t seed,
                     uint64_t iteration, float *logits, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
