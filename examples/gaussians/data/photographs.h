// SPDX-License-Identifier: MIT
// The photographs in a folder, by the suffix of their names.
#pragma once

#include "files/fault.h"
#include <stddef.h>

C_LINKAGE_BEGIN

typedef struct photograph_list {
    char **names; // [count], sorted
    size_t count, room;
} photograph_list;

// .jpg, .jpeg and .png, in any case; not in folders of the folder. On failure *out is empty.
bool photographs_in(const char *folder, photograph_list *out, fault *why);
void photographs_close(photograph_list *list); // harmless on {0}

C_LINKAGE_END
