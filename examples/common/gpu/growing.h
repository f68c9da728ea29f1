// SPDX-License-Identifier: MIT
// Arrays whose final length is unknown or not trusted until all items have been read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Appends a copy of *item, of `bytes` (>= 1), to an array of *count items. items: points to the array's pointer, which is
// malloc'ed or NULL. *room: the items for which it has room, doubled if needed. False: no memory, and the array is as before.
static inline bool append(void *items, size_t *count, size_t *room, const void *item, size_t bytes) {
    void *array;
    memcpy(&array, items, sizeof array); // a pointer of another type
    if (*count == *room) {
        const size_t wanted = *room ? 2 * *room : 16;
        void *const grown = wanted > SIZE_MAX / bytes ? NULL : realloc(array, wanted * bytes);
        if (!grown) return false;
        memcpy(items, &grown, sizeof grown);
        array = grown;
        *room = wanted;
    }
    memcpy((char *)array + (*count)++ * bytes, item, bytes);
    return true;
}
