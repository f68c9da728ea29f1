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
    int64_t existing;         // 0..count: rows from here on are new and may hold anything
    float least_opacity;      // 0 to below 1: Gaussians with at most this, or NaN, are dead
    const float *density;     // [count][2], of gs_density_accumulate; the number of views is not read
    uint64_t seed, iteration; // the random choice depends on these two alone
} gs_split_rules;

// Bytes of the workspace of gs_split.
gs_status gs_split_bytes(int64_t count, size_t *bytes);

// For each dead or new row draws a living Gaussian, with probability proportional to its sum in `density`, each
// at most once, and splits it: one half stays in its row, the other takes the row that was dead or new. Both
// halves have 1 / sqrt 2 of its longest axis, lie as far from its mean to either side along it, and stop about
// the light that it stopped. Their moments are 0. Sums that are 0, negative or not finite are not drawn. Where
// none is left to draw, dead rows stay as they are and new rows become dead.
// Result:  does not depend on the order in which threads run.
// Cost:    a sort and a prefix sum of count values. Does not wait.
gs_status gs_split(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                   const gs_gaussians *second_moment, const gs_split_rules *rules, void *workspace,
                   size_t workspace_bytes, gs_stream stream);

// ---- which Gaussians can give their rows away ----

// Adds a view to scores: score[i] becomes the larger of score[i] and what the Gaussian i contributes to the view, the
// sum over its pixels of alpha T. splat_grad: what gs_render_backward leaves for an image gradient that is 1 in channel 0
// of every pixel; with another number than 1 scores are multiplied by it. score: [count], zeros at the start.
gs_status gs_score_add(const gs_splat_grad *splat_grad, int64_t count, float *score, gs_stream stream);

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
