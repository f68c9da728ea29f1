// SPDX-License-Identifier: MIT
// Arrays whose final length is unknown or not trusted until all items have been read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

// Appends a copy of *item to *items, such an array by its address. False if there is no memory.
static inline bool append(void *items, size_t *count, size_t *room, const void *item, size_t bytes) {
    void *array;
    memcpy(&array, items, sizeof array); // a pointer of another type
    array = growing(array, *count, room, bytes);
    if (!array) return false;
    memcpy(items, &array, sizeof array);
    memcpy((char *)array + (*count)++ * bytes, item, bytes);
    return true;
}
