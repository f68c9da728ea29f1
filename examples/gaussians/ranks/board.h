// SPDX-License-Identifier: MIT
// What ranks tell each other beside their data: the first failure, and NCCL's id. Lies in memory that all ranks share,
// of one process or of several. Zeros at the start.
#pragma once

#include "c_linkage.h"
#include "fault.h"
#include <stdatomic.h>
#include <stdbool.h>

enum { BOARD_ID_BYTES = 128 };

typedef struct board {
    atomic_int failure; // 0: none, 1: is being written, 2: written
    int rank;           // that failed
    char text[512];
    atomic_int has_id;
    char id[BOARD_ID_BYTES];
} board;

// The first call counts.
void board_fail(board *shared, int rank, const char *text);
bool board_has_failed(const board *shared);
// "rank 2: text". Waits a moment for a text that is being written.
void board_describe(const board *shared, fault *why);
