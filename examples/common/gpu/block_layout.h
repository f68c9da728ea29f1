// SPDX-License-Identifier: MIT
// Divides a block of memory among arrays. Without a block it counts the bytes alone: one function serves for
// the size of a workspace and for the places in it.
#pragma once

#include <stddef.h>

struct block_layout {
    char *memory; // NULL: none
    size_t bytes; // of the arrays so far
};

// The next array; NULL without memory. Each begins at a multiple of 256 bytes.
inline void *layout_add(block_layout *layout, size_t bytes) {
    void *const at = layout->memory ? layout->memory + layout->bytes : NULL;
    layout->bytes += (bytes + 255) / 256 * 256;
    return at;
}

// *array becomes the next array, of `count` values.
template <typename T>
void layout_add(block_layout *layout, size_t count, T **array) {
    *array = static_cast<T *>(layout_add(layout, count * sizeof(T)));
}
