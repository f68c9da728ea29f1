// SPDX-License-Identifier: MIT
// Arrays whose final length is unknown or not trusted until all items have been read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Makes room for `wanted` items of `bytes` (>= 1) each. items: points to the array's pointer, which is malloc'ed or NULL.
// *room: the items for which it has room, at least doubled if needed. False: no memory, and the array is as before.
static inline bool make_room(void *items, size_t *room, size_t wanted, size_t bytes) {
    if (wanted <= *room) return true;
    if (wanted < 2 * *room) wanted = 2 * *room;
    if (wanted < 16) wanted = 16;
    void *array;
    memcpy(&array, items, sizeof array); // a pointer of another type
    array = wanted > SIZE_MAX / bytes ? NULL : realloc(array, wanted * bytes);
    if (!array) return false;
    memcpy(items, &array, sizeof array);
    *room = wanted;
    return true;
}

// Appends a copy of *item to an array of *count items.
static inline bool append(void *items, size_t *count, size_t *room, const void *item, size_t bytes) {
    char *array;
    if (!make_room(items, room, *count + 1, bytes)) return false;
    memcpy(&array, items, sizeof array);
    memcpy(array + (*count)++ * bytes, item, bytes);
    return true;
}
