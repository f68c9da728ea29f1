// SPDX-License-Identifier: MIT
// What each strategy of the backward blend costs on a scene: median time on a GPU, counts of instructions on
// the CPU.
#ifndef SPLAT_STRATEGY_TABLE_H
#define SPLAT_STRATEGY_TABLE_H

#include "target_view.h"
#include <stddef.h>

// Prints the table on stdout. gaussians: device; count >= 1 views. Times are over all views; counts, which do
// not vary as times do, are of the first.
void strategy_table_print(const gs_gaussians *gaussians, const target_view *views, size_t count,
                          const float background[3]);

#endif
