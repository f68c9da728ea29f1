// SPDX-License-Identifier: MIT
//
// libdistwar_gs: gs_split (distwar_gs_split.h) over the Gaussians of several GPUs, which follow one another: those of
// GPU 0, of GPU 1, ... The result has the bits of gs_split over all of them. On each GPU:
//   gs_share_split_draw     gives each of its Gaussians a key, and sorts by it
//   (all GPUs learn how many rows are free and how many Gaussians can be drawn, on each)
//   gs_share_split_count    how many keys are below given ones: the n least keys of all GPUs are drawn, and the free
//                           rows of GPU g take those from one place of this order to another
//   gs_share_split_give     splits those of this GPU that are drawn, and copies them before
//   (send the copies to the GPUs that have rows for them)
//   gs_share_split_take
#ifndef GS_SHARE_SPLIT_H
#define GS_SHARE_SPLIT_H

#include "distwar_gs_share.h"
#include "distwar_gs_split.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gs_shared_split {
    gs_split_rules rules; // existing and density: of this GPU's rows
    int64_t first;        // place of this GPU's first Gaussian among all
    void *workspace;      // of gs_share_split_bytes; kept from gs_share_split_draw to gs_share_split_take
    size_t workspace_bytes;
} gs_shared_split;

// Copies of Gaussians that are split.
typedef struct gs_split_copies {
    int64_t count;
    uint32_t *keys;
    float *values; // [count][gs_share_record]: parameters
} gs_split_copies;

// Bytes of the workspace for `count` rows.
gs_status gs_share_split_bytes(int64_t count, size_t *bytes);

// totals: 2 numbers: rows that are free (dead or new), Gaussians that can be drawn.
// Cost: a sort and a prefix sum of count values.
gs_status gs_share_split_draw(const gs_gaussians *gaussians, const gs_shared_split *split, int64_t *totals,
                              gs_stream stream);

// below[k] becomes the number of this GPU's keys that are less than bounds[k], k = 0 .. n - 1. A Gaussian that cannot
// be drawn has the key UINT32_MAX.
gs_status gs_share_split_count(const gs_gaussians *gaussians, const gs_shared_split *split,
                               const uint32_t *bounds, int32_t n, int64_t *below, gs_stream stream);

// Writes copies of the copies->count Gaussians with the least keys, in the order of keys, then of rows; makes first
// halves of them, and clears their moments.
gs_status gs_share_split_give(const gs_shared_vectors *vectors, const gs_shared_split *split,
                              const gs_split_copies *copies, gs_stream stream);

// Puts second halves into this GPU's free rows, the one with the least key first; where no copy is left, new rows
// become dead. copies: those that all GPUs give to this one, GPU after GPU, each in its order; at most one a free row.
gs_status gs_share_split_take(const gs_shared_vectors *vectors, const gs_shared_split *split,
                              const gs_split_copies *copies, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
