// SPDX-License-Identifier: MIT
// Memory for many pictures. The first stay in the process's memory, those that exceed its limit go into a mapped file
// without a name: the system reads a picture where it is used.
#pragma once

#include "files/fault.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

typedef struct picture_store {
    size_t most;     // bytes that may stay in the process's memory; 0: a quarter of the machine's
    size_t kept;     // bytes that have stayed there so far
    uint8_t *mapped; // NULL: there is no file yet
    size_t used;     // bytes of the file
    int file;
} picture_store; // starts as {0} or with `most`

// Takes a malloc'ed array. Returns it, or frees it and returns a copy in a file in TMPDIR, or else /var/tmp. NULL if
// there is no room for it: the array is still the caller's then. Any thread.
void *picture_store_keep(picture_store *store, void *array, size_t bytes, fault *why);
// An array that picture_store_keep has returned, or any malloc'ed one. NULL is harmless. Any thread.
void picture_store_free(const picture_store *store, void *array);
// Arrays in the file go with it; others must have been freed.
void picture_store_close(picture_store *store);

C_LINKAGE_END
