// SPDX-License-Identifier: MIT
#include "view/reduction_option.h"
#include <stddef.h>

distwar_strategy reduction_at(int index) {
    for (int s = 0; s < DISTWAR_STRATEGY_COUNT; s++)
        if (gs_has_strategy((distwar_strategy)s) && index-- == 0) return (distwar_strategy)s;
    return DISTWAR_STRATEGY_COUNT;
}

int reduction_index(distwar_strategy strategy) {
    int index = 0;
    while (reduction_at(index) != strategy && reduction_at(index) != DISTWAR_STRATEGY_COUNT) index++;
    return index;
}

static const char *const *names_and(const char *last, const char **names) {
    int count = 0;
    for (; reduction_at(count) != DISTWAR_STRATEGY_COUNT; count++)
        names[count] = distwar_strategy_name(reduction_at(count));
    names[count] = last;
    return names;
}

const char *const *reduction_names_and_all(void) {
    static const char *names[DISTWAR_STRATEGY_COUNT + 2];
    return names_and("all", names);
}

const char *const *reduction_names_and_auto(void) {
    static const char *names[DISTWAR_STRATEGY_COUNT + 2];
    return names_and("auto", names);
}

bool reduction_has_threshold(distwar_strategy strategy) {
    return distwar_strategy_has_threshold(strategy) && strategy != DISTWAR_FIXED;
}
