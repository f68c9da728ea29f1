// SPDX-License-Identifier: MIT
#include "reduction.h"
#include <stddef.h>

static const char *const names[REDUCTIONS] = {
    [REDUCE_ATOMIC] = "atomic", [REDUCE_VECTOR] = "vector", [REDUCE_SERIAL] = "serial",
    [REDUCE_BFLY] = "bfly",     [REDUCE_TREE] = "tree",     [REDUCE_FIXED] = "fixed",
#ifndef DISTWAR_SIMT
    [REDUCE_CUB] = "cub",
#endif
};

const char *reduction_name(reduction which) {
    return (unsigned)which < REDUCTIONS ? names[which] : NULL;
}

bool reduction_has_threshold(reduction which) {
    return which >= REDUCE_SERIAL && which <= REDUCE_FIXED;
}

static const char *const *names_and(const char *last, const char **list) {
    for (int i = 0; i < REDUCTIONS; i++) list[i] = names[i];
    list[REDUCTIONS] = last;
    return list;
}

const char *const *reduction_names_and_all(void) {
    static const char *list[REDUCTIONS + 2];
    return names_and("all", list);
}

const char *const *reduction_names_and_auto(void) {
    static const char *list[REDUCTIONS + 2];
    return names_and("auto", list);
}
