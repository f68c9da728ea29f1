// SPDX-License-Identifier: MIT
// What the boards of several processes tell each other, over a stream socket: messages of one size. Internal to this
// folder.
#pragma once

#include "c_linkage.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

enum {
    BOARD_ID_BYTES = 128, // of NCCL's id
    BOARD_TEXT_BYTES = 512,
    BOARD_MAGIC = 0x44575242, // other byte orders are refused by it
    BOARD_VERSION = 1
};

typedef enum board_news {
    BOARD_HELLO,  // the first message of a rank: rank, count, arguments
    BOARD_BEAT,   // nothing but that the sender lives
    BOARD_ALL,    // all ranks have come
    BOARD_FAILED, // rank, text
    BOARD_ID,     // text: NCCL's id
    BOARD_ENDED,  // the sender has done its work
    BOARD_NEWS
} board_news;

typedef struct board_message {
    uint32_t magic;
    uint16_t version, news;
    int32_t rank, count;
    uint64_t arguments; // a hash of what all ranks must be started with
    char text[BOARD_TEXT_BYTES];
} board_message;

board_message board_message_of(board_news news, int rank);
board_message board_message_of_failure(int rank, const char text[BOARD_TEXT_BYTES]);

// Never waits: the peer is given up long before a socket is full. False: the connection is lost.
bool board_send(int socket, const board_message *message);

// The bytes of a message that have come.
typedef struct board_inbox {
    char bytes[sizeof(board_message)];
    size_t filled;
} board_inbox;

typedef enum board_received {
    BOARD_NOTHING,
    BOARD_MESSAGE,
    BOARD_CLOSED,
    BOARD_GARBAGE, // no message
    BOARD_OTHER    // a message of another version
} board_received;

// Never waits. text ends in 0 unless it is an id.
board_received board_receive(int socket, board_inbox *inbox, board_message *out);

// ---- time ----

#define BOARD_BEAT_S 0.5 // between the signs of life of a process

// Seconds of a process that may have been stopped: each step counts BOARD_BEAT_S at most, so that it finds what came
// meanwhile before it thinks of its peers as silent.
typedef struct board_clock {
    double last;
} board_clock;
double board_clock_step(board_clock *clock);

C_LINKAGE_END
