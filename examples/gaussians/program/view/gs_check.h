// SPDX-License-Identifier: MIT
// libgs for this program: a call that fails ends it, with the call, its place and libgs's reason.
#pragma once

#include "gs.h"
#include <stdio.h>
#include <stdlib.h>

#define GS_CHECK(call) gs_check((call), #call, __FILE__, __LINE__)

static inline void gs_check(gs_status status, const char *attempted, const char *file, int line) {
    if (status == GS_OK) return;
    fprintf(stderr, "splat: %s\n  %s:%d: %s\n", gs_last_error(), file, line, attempted);
    exit(EXIT_FAILURE);
}
