// SPDX-License-Identifier: MIT
// Every way in which the backward blend sums and divides its work.
#pragma once

#include "distwar_gs.h"
#include <ostream>

struct blend_case {
    distwar_strategy strategy;
    int balance_threshold;
    int pixels_per_thread;
    bool split; // every tile
};
inline const blend_case blend_cases[] = {
    {DISTWAR_ATOMIC, 0, 1, false}, {DISTWAR_ATOMIC, 0, 2, false}, {DISTWAR_ATOMIC, 0, 4, false},
    {DISTWAR_SERIAL, 0, 1, false}, {DISTWAR_SERIAL, 9, 2, false}, {DISTWAR_SERIAL, 33, 4, false},
    {DISTWAR_BFLY, 0, 4, false},   {DISTWAR_BFLY, 17, 1, false},  {DISTWAR_BFLY, 17, 2, false},
    {DISTWAR_TREE, 0, 1, false},   {DISTWAR_TREE, 0, 2, false},   {DISTWAR_TREE, 0, 4, false},
    {DISTWAR_TREE, 17, 2, false},  {DISTWAR_BLOCK, 0, 1, false},  {DISTWAR_BLOCK, 0, 2, false},
    {DISTWAR_BLOCK, 0, 4, false},  {DISTWAR_FIXED, 0, 1, false},  {DISTWAR_FIXED, 0, 2, false},
    {DISTWAR_FIXED, 0, 4, false},  {DISTWAR_TREE, 0, 1, true},    {DISTWAR_TREE, 9, 2, true},
    {DISTWAR_TREE, 0, 4, true},    {DISTWAR_ATOMIC, 0, 4, true},  {DISTWAR_SERIAL, 0, 2, true},
    {DISTWAR_BFLY, 0, 2, true},    {DISTWAR_BLOCK, 0, 4, true},   {DISTWAR_FIXED, 0, 2, true}};

inline std::ostream &operator<<(std::ostream &out, const blend_case &w) {
    return out << distwar_strategy_name(w.strategy) << ", threshold " << w.balance_threshold << ", "
               << w.pixels_per_thread << " pixels a thread" << (w.split ? ", split" : "");
}

// Divides the work of the blend as the case says.
inline void divide(gs_tile_ranges *ranges, const blend_case &w) {
    ranges->pixels_per_thread = w.pixels_per_thread;
    ranges->split_tiles = w.split ? ranges->tiles_x * ranges->tiles_y : 0;
}
