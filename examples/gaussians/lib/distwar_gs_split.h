// SPDX-License-Identifier: MIT
//
// libdistwar_gs: growth by splitting. Gaussians are drawn by their screen-space gradient and split along the longest
// axis. The rules of distwar_gs.h hold. Formulas: docs/developers/math.md, section 9.
#ifndef GS_SPLIT_H
#define GS_SPLIT_H

#include "distwar_gs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gs_split_rules {
    int64_t existing;     // 0..count: rows from here on are new and may hold anything
    float least_opacity;  // 0 to below 1: Gaussians with at most this, or NaN, are dead
    const float *density; // [count][row]: the first of a row is the weight; NULL: opacities are the weights
    uint64_t seed, iteration; // the random choice depends on these two alone
    int32_t row;      // floats of a row of density; 0 counts as 2: density is of gs_density_accumulate
    int32_t together; // not 0: the two stay in the place of the one, as gs_relocate leaves two
} gs_split_rules;

// Bytes of the workspace of gs_split.
gs_status gs_split_bytes(int64_t count, size_t *bytes);

// For each dead or new row draws a living Gaussian, with probability proportional to its weight, each at most once, and
// splits it: one half stays in its row, the other takes the row that was dead or new. Both
// halves have 1 / sqrt 2 of its longest axis, lie as far from its mean to either side along it, and stop about
// the light that it stopped. Their moments are 0. Weights that are 0, negative or not finite are not drawn. Where
// none is left to draw, dead rows stay as they are and new rows become dead.
// Result:  does not depend on the order in which threads run.
// Cost:    a sort and a prefix sum of count values. Does not wait.
gs_status gs_split(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                   const gs_gaussians *second_moment, const gs_split_rules *rules, void *workspace,
                   size_t workspace_bytes, gs_stream stream);

// ---- where several views agree on a split ----

// Writes gs_splat.tilt of the splats that gs_project has written, so that a colour that grows by 1 a deviation along the
// Gaussian's longest axis is tilt . e more at a pixel than at the mean. The axis has one direction in all views. Then
// gs_gradient.tilt, which excludes depth, abs_mean2d and other than GS_CHANNELS channels, is the gradient by that slope.
// Reads:   gaussians (not those of given covariances), camera, splats.
// Cost:    one thread a splat; reads 88 bytes, writes 8.
gs_status gs_project_tilt(const gs_view *view, gs_stream stream);

// Sums of gs_gradient.tilt by groups of views. Views that were taken one after another share errors: give them one
// group. docs/developers/math.md, section 9.
enum { GS_AGREEMENT_GROUPS = 8, GS_AGREEMENT_ROW = GS_AGREEMENT_GROUPS * GS_CHANNELS };

// sums[i][groups[v]] += tilt[v][i]. tilt: [views][count][GS_CHANNELS], as gs_gradient.tilt; groups: host, [views], each
// in 0..GS_AGREEMENT_GROUPS - 1; sums: [count][GS_AGREEMENT_ROW], zeros at the start.
gs_status gs_agreement_add(const float *tilt, int64_t count, const int32_t *groups, int32_t views,
                           float *sums, gs_stream stream);

typedef struct gs_agreement_rules {
    int64_t first;            // place of row 0 among all Gaussians
    int64_t existing;         // as in gs_split_rules
    float least_opacity;      // as in gs_split_rules
    float errors;             // >= 0: so many standard errors are taken off
    uint64_t seed, iteration; // the signs depend on these two alone
} gs_agreement_rules;

// Writes the weight of each Gaussian to the first of its row of sums: the root of what its groups agree on, or 0. That
// is A - errors E, A the sum of the products of the sums of every two groups, E its standard error: the deviation of A
// under random signs of the groups. counts: 2 numbers, which are added to: living Gaussians of weight above 0, and those
// that would have it by chance, under one draw of signs for each. Where the groups' sums are noise the two agree.
gs_status gs_agreement_weigh(const gs_gaussians *gaussians, const gs_agreement_rules *rules, float *sums,
                             int64_t *counts, gs_stream stream);

// ---- which Gaussians can give their rows away ----

// Adds a view to scores: score[i] becomes the larger of score[i] and what the Gaussian i contributes to the view, the
// sum over its pixels of alpha T. moments: what gs_render_backward leaves for an image gradient that is 1 in channel 0
// of every pixel; with another number than 1 scores are multiplied by it. score: [count], zeros at the start.
gs_status gs_score_add(const gs_moments *moments, int64_t count, float *score, gs_stream stream);

// Bytes of the workspace of gs_retire.
gs_status gs_retire_bytes(int64_t count, size_t *bytes);

// Makes the Gaussians dead whose score is at most `part` times the upper quartile of all scores, which a quarter of
// them exceed: the next gs_split takes their rows. Relative to what others contribute, `part` does for pictures of any
// size and any number of Gaussians. Those of score 0 always die. score: [count]; NaN and negative values count as 0.
// part: 0..1.
// Cost:    a sort of count values. Does not wait.
gs_status gs_retire(const gs_gaussians *gaussians, const float *score, float part, void *workspace,
                    size_t workspace_bytes, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
