// SPDX-License-Identifier: MIT
// Device memory in pieces that are given back all together, under a limit. Blocks are kept for the next
// round: Levenberg-Marquardt asks for the same pieces in every step.
#ifndef SPLAT_LM_ARENA_H
#define SPLAT_LM_ARENA_H

#include <stddef.h>

typedef struct lm_arena_block {
    char *memory;
    size_t bytes;
} lm_arena_block;

typedef struct lm_arena {
    size_t limit;                // bytes that all blocks together may have; 0: none
    size_t least;                // bytes of a block, at least; 0: 16 MiB
    size_t held;                 // that they have
    size_t count, current, used; // blocks; the one in use, and how far
    size_t taken, most;          // bytes since the last reset, and before it
    lm_arena_block *blocks;
    size_t room; // in that array
} lm_arena;

typedef struct lm_arena_mark {
    size_t current, used, taken;
} lm_arena_mark;

// NULL where the limit does not allow it, or the host has no memory for its books. Aligned to 256 bytes, not
// cleared.
void *lm_arena_take(lm_arena *arena, size_t bytes);
// Everything taken since the mark is given back.
lm_arena_mark lm_arena_now(const lm_arena *arena);
void lm_arena_return(lm_arena *arena, lm_arena_mark mark);
// Everything is given back, and the blocks become one, as large as what was taken at most.
void lm_arena_reset(lm_arena *arena);
void lm_arena_free(lm_arena *arena);

#endif
