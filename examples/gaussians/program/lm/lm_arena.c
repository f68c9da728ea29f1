// SPDX-License-Identifier: MIT
#include "lm/lm_arena.h"
#include "device.h"
#include "gpu/growing.h"

enum { ALIGNMENT = 256 };

void *lm_arena_take(lm_arena *arena, size_t bytes) {
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    for (; arena->current < arena->count; arena->current++, arena->used = 0)
        if (arena->blocks[arena->current].bytes - arena->used >= bytes) {
            void *memory = arena->blocks[arena->current].memory + arena->used;
            arena->used += bytes;
            arena->taken += bytes;
            return memory;
        }
    const size_t least = arena->least ? arena->least : (size_t)16 << 20;
    const size_t block = bytes > least ? bytes : least;
    lm_arena_block *blocks = growing(arena->blocks, arena->count, &arena->room, sizeof *blocks);
    if (!blocks) return NULL;
    arena->blocks = blocks;
    arena->blocks[arena->count].memory = device_allocate(block);
    arena->blocks[arena->count].bytes = block;
    arena->held += block;
    arena->current = arena->count++;
    arena->used = bytes;
    arena->taken += bytes;
    return arena->blocks[arena->current].memory;
}

static void free_blocks(lm_arena *arena) {
    for (size_t i = 0; i < arena->count; i++) device_free(arena->blocks[i].memory);
    arena->count = arena->current = arena->used = arena->taken = arena->held = 0;
}

void lm_arena_reset(lm_arena *arena) {
    if (arena->taken > arena->most) arena->most = arena->taken;
    if (arena->count > 1) {
        free_blocks(arena);
        lm_arena_take(arena, arena->most);
    }
    arena->current = arena->used = arena->taken = 0;
}

void lm_arena_close(lm_arena *arena) {
    free_blocks(arena);
    free(arena->blocks);
    arena->blocks = NULL;
    arena->room = 0;
}
