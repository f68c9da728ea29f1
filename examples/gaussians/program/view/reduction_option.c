// SPDX-License-Identifier: MIT
#include "view/reduction_option.h"
#include <stddef.h>

static const char *const *names_and(const char *last, const char **names) {
    for (int i = 0; i < GS_REDUCTIONS; i++) names[i] = gs_reduction_name((gs_reduction)i);
    names[GS_REDUCTIONS] = last;
    return names;
}

const char *const *reduction_names_and_all(void) {
    static const char *names[GS_REDUCTIONS + 2];
    return names_and("all", names);
}

const char *const *reduction_names_and_auto(void) {
    static const char *names[GS_REDUCTIONS + 2];
    return names_and("auto", names);
}

bool reduction_has_threshold(gs_reduction reduction) {
    return reduction != GS_ATOMIC && reduction != GS_BLOCK && reduction != GS_FIXED;
}
