// SPDX-License-Identifier: MIT
// A rank's side of the news: a thread that tells the server what happens on the rank's board, and writes there what the
// server tells. Internal to this folder.
#pragma once

#include "board.h"

typedef struct board_link board_link;

typedef struct board_link_plan {
    board *board;
    int rank, socket; // the socket becomes the link's
    double silence_s; // a server that is silent for this long is gone
    double grace_s;   // after a failure, until `late` is called unless the link has been closed
    // Ends the process, from the link's thread.
    void (*late)(void *context);
    void *context;
} board_link_plan;

// NULL: *why is set, and the socket is closed.
board_link *board_link_open(const board_link_plan *plan, fault *why);
// True: the server has gone without a word, so that nobody else tells what has happened.
bool board_link_is_lost(const board_link *link);
// Tells the failure, or else that the rank has done its work, and ends the thread. The board stays.
void board_link_close(board_link *link);
