// SPDX-License-Identifier: MIT
// Cells that `aggregate` measures beside its axes; chunks.cuh and pairs.cuh list them.
#ifndef BENCHMARKS_CELLS_CUH
#define BENCHMARKS_CELLS_CUH

#include "aggregate.cuh"
#include "device.h"
#include "launch.cuh"
#include <algorithm>
#include <functional>
#include <string.h>
#include <string>
#include <type_traits>
#include <vector>

enum { CHECKED_WARPS = 256, CHECKED_CALLS = 16, CHECKED_TARGETS = 1 << 16 };

using cell_launch = std::function<void(int calls, int warps)>; // queues one launch
struct cell {
    std::string name;
    double values; // that a lane adds in a call
    cell_launch run;
    std::function<bool()> is_right; // whether the sums of CHECKED_WARPS are exact
};

#endif
