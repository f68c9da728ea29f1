// SPDX-License-Identifier: MIT
// strategy.h in C.
#include <distwar/strategy.h>

int c_strategy_count(void) {
    return DISTWAR_STRATEGY_COUNT;
}

const char *c_strategy_name(int strategy) {
    return distwar_strategy_name((distwar_strategy)strategy);
}

int c_strategy_from_name(const char *name) {
    return distwar_strategy_from_name(name);
}

int c_strategy_has_threshold(int strategy) {
    return distwar_strategy_has_threshold((distwar_strategy)strategy);
}
