// SPDX-License-Identifier: MIT
// Density control in place (MCMC, splits) of a scene whose Gaussians lie on several ranks, each with neighbouring ones.
// All results have the bits of one GPU with all Gaussians.
#pragma once

#include "device_buffer.h"
#include "distwar_gs_share_split.h"
#include "ranks.h"

C_LINKAGE_BEGIN

// Where each rank's Gaussians begin among `count`, and the end: [ranks_count + 1]. Equal shares.
void shard_begin(const ranks *group, int64_t count, int64_t *begin);

// How the Gaussians lie: host, [ranks_count + 1] each.
typedef struct shard_move {
    const int64_t *from_begin, *to_begin;
    gs_shared_vectors from, to; // this rank's; they do not overlap
    const float *from_density;  // [count][2], see gs_density_accumulate; NULL: none
    float *to_density;          // NULL if that is
} shard_move;

// Brings the Gaussians and their moments to other ranks, for shares that have become unequal, or to make room for new
// ones: rows of `to` beyond the last of all are not written.
bool shard_rebalance(ranks *group, const shard_move *move, gs_stream stream);

// Brings this rank's items of `bytes` bytes to all ranks. begin: host, [ranks_count + 1], where those of each begin
// among all. to: [begin[ranks_count]].
bool shard_gather(ranks *group, const int64_t *begin, int64_t bytes, const void *own, void *to,
                  gs_stream stream);

typedef struct shard_relocation {
    gs_shared_vectors vectors; // this rank's, new ones among them
    int64_t first;             // place of this rank's first Gaussian among all
    gs_relocation relocation;  // existing: of all
} shard_relocation;

typedef struct shard_workspace { // grows on demand; starts as {0}
    device_buffer relocation, own, others, numbers;
} shard_workspace;

// gs_relocate of all Gaussians.
bool shard_relocate(ranks *group, const shard_relocation *what, shard_workspace *workspace, gs_stream stream);

typedef struct shard_split_rules {
    gs_shared_vectors vectors; // this rank's, new ones among them
    int64_t first;             // place of this rank's first Gaussian among all
    gs_split_rules rules;      // existing: of all; density: of this rank's rows
} shard_split_rules;

// gs_split of all Gaussians. Cost: that of gs_split on each rank, a record of the parameters for each split whose
// halves lie on two ranks, and about ten small reductions.
bool shard_split(ranks *group, const shard_split_rules *what, shard_workspace *workspace, gs_stream stream);
void shard_workspace_close(shard_workspace *workspace);

C_LINKAGE_END
