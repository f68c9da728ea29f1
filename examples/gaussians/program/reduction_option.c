// SPDX-License-Identifier: MIT
#include "reduction_option.h"
#include "gs.h"
#include <stddef.h>

const char *const *reduction_names(void) {
    static const char *names[GS_REDUCTIONS + 1];
    for (int i = 0; i < GS_REDUCTIONS; i++) names[i] = gs_reduction_name((gs_reduction)i);
    return names;
}
