// SPDX-License-Identifier: MIT
#include "reduction_option.h"
#include <stddef.h>

const char *const *reduction_names(void) {
    static const char *names[GS_REDUCTIONS + 1];
    for (int i = 0; i < GS_REDUCTIONS; i++) names[i] = gs_reduction_name((gs_reduction)i);
    return names;
}

const char *const *reduction_names_and_all(void) {
    static const char *names[GS_REDUCTIONS + 2];
    for (int i = 0; i < GS_REDUCTIONS; i++) names[i] = gs_reduction_name((gs_reduction)i);
    names[GS_REDUCTIONS] = "all";
    return names;
}

bool reduction_has_threshold(gs_reduction reduction) {
    return reduction != GS_ATOMIC && reduction != GS_BLOCK;
}
