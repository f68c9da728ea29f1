// SPDX-License-Identifier: MIT
// An arena of device memory: pieces are taken one by one and returned together. Blocks stay
// allocated, for every step of Levenberg-Marquardt takes the same pieces.
#pragma once

#include "c_linkage.h"
#include <stddef.h>

C_LINKAGE_BEGIN

typedef struct lm_arena_block {
    char *memory;
    size_t bytes;
} lm_arena_block;

typedef struct lm_arena {
    size_t least;   // least bytes of a block; 0: 16 MiB
    size_t held;    // bytes of all blocks
    size_t count;   // blocks
    size_t current; // block in use
    size_t used;    // bytes of it that are taken
    size_t taken;   // bytes taken since the last reset
    size_t most;    // most bytes taken between two resets
    lm_arena_block *blocks;
    size_t room; // entries of that array
} lm_arena;

// NULL if the host has no memory for the array of blocks. Aligned to 256 bytes, not cleared.
void *lm_arena_take(lm_arena *arena, size_t bytes);
// Returns everything and merges the blocks into one of `most` bytes.
void lm_arena_reset(lm_arena *arena);
void lm_arena_close(lm_arena *arena);

C_LINKAGE_END
