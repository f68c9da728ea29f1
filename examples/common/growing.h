// SPDX-License-Identifier: MIT
// Arrays whose final length is unknown or not trusted until all items have been read.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// `items` (malloc'ed or NULL) holds `count` items of `bytes_each` (>= 1) and has room for *room. Returns them
// with room for at least one more item; doubles the room if needed. NULL if there is no memory; `items` is
// then still valid.
static inline void *growing(void *items, size_t count, size_t *room, size_t bytes_each) {
    if (count < *room) return items;
    const size_t wanted = *room ? 2 * *room : 16;
    if (wanted > SIZE_MAX / bytes_each) return NULL;
    void *grown = realloc(items, wanted * bytes_each);
    if (grown) *room = wanted;
    return grown;
}
