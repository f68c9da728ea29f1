// SPDX-License-Identifier: MIT
// What a rank knows beside its data: the first failure of the group, that all have come, and NCCL's id. Lies in the
// memory of one process; the ranks that are its threads share it. Zeros at the start. Boards of several processes
// exchange news by board_link.h and board_server.h.
#pragma once

#include "board_message.h"
#include "files/fault.h"
#include <stdatomic.h>

typedef struct board {
    atomic_int failure; // 0: none, 1: is being written, 2: written
    int rank;           // that failed
    char text[BOARD_TEXT_BYTES];
    bool alone; // the only rank: failures do not name it
    atomic_int all_here; // no process of the group has still to come
    atomic_int has_id;
    char id[BOARD_ID_BYTES];
} board;

// The first call counts.
void board_fail(board *shared, int rank, const char *text);
bool board_has_failed(const board *shared);
// "rank 2: text". Waits a moment for a text that is being written.
void board_describe(const board *shared, fault *why);
void board_set_id(board *shared, const void *id);
