// SPDX-License-Identifier: MIT
// strategy.h in C. Gives what it says of a strategy, and returns the number of strategies.
#include <distwar/strategy.h>

int c_strategy(int strategy, const char **name, int *has_threshold) {
    *name = distwar_strategy_name((distwar_strategy)strategy);
    *has_threshold = distwar_strategy_has_threshold((distwar_strategy)strategy);
    return DISTWAR_STRATEGY_COUNT;
}
