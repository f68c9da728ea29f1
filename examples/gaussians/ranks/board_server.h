// SPDX-License-Identifier: MIT
// The place where the news of all ranks meets: the process that has started them, or rank 0. It passes the first
// failure and NCCL's id on to all, and finds ranks that are silent. Not for several threads. Internal to this folder.
#pragma once

#include "board.h"
#include "ranks.h"

enum { BOARD_MOST_STRANGERS = 16 };

typedef struct board_member {
    enum { BOARD_ABSENT, BOARD_PRESENT, BOARD_DONE, BOARD_GONE } state;
    int socket; // while present
    board_inbox inbox;
    double silent_s;
} board_member;

// A connection that has not said which rank it is.
typedef struct board_stranger {
    int socket; // -1: none
    board_inbox inbox;
    double age_s;
} board_stranger;

typedef struct board_server {
    board board; // the first failure of all
    int count;
    uint64_t arguments;
    double timeout_s, silence_s; // until all have come; of one of them
    int listening;               // -1: nobody else comes, and a closed connection is told by another
    board_member members[RANKS_MAX];
    board_stranger strangers[BOARD_MOST_STRANGERS];
    bool over_tcp; // a closed connection is a failure
    double waited_s, failed_s, since_beat_s;
    bool told_failure, told_all, told_id;
    board_clock clock;
} board_server;

// listening: a socket where ranks come, which becomes the server's; -1: all are added.
void board_server_open(board_server *server, int count, int listening);
void board_server_close(board_server *server);
// A rank that is there from the start. The socket becomes the server's.
void board_server_add(board_server *server, int rank, int socket);
// Receives and tells what there is, after a wait of wait_ms at most.
void board_server_step(board_server *server, int wait_ms);
// No rank is there any more, and none is waited for.
bool board_server_is_done(const board_server *server);
