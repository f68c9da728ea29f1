// SPDX-License-Identifier: MIT
#include "board_server.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const double linger_s = 5; // after a failure, for ranks that have still to come
static const double most_age_s = 5, most_age_in_crowd_s = 1; // of a stranger

void board_server_open(board_server *server, int count, int listening) {
    *server = (board_server){.count = count, .listening = listening, .over_tcp = listening >= 0};
    for (int s = 0; s < BOARD_MOST_STRANGERS; s++) server->strangers[s].socket = -1;
}

static void stop_listening(board_server *server) {
    if (server->listening >= 0) close(server->listening);
    server->listening = -1;
}

void board_server_close(board_server *server) {
    stop_listening(server);
    for (int s = 0; s < BOARD_MOST_STRANGERS; s++)
        if (server->strangers[s].socket >= 0) close(server->strangers[s].socket);
    for (int r = 0; r < server->count; r++)
        if (server->members[r].state == BOARD_PRESENT) close(server->members[r].socket);
}

void board_server_add(board_server *server, int rank, int socket) {
    server->members[rank] = (board_member){.state = BOARD_PRESENT, .socket = socket};
}

static int first_absent(const board_server *server) {
    for (int r = 0; r < server->count; r++)
        if (server->members[r].state == BOARD_ABSENT) return r;
    return -1;
}

bool board_server_is_done(const board_server *server) {
    for (int r = 0; r < server->count; r++)
        if (server->members[r].state == BOARD_PRESENT) return false;
    return first_absent(server) < 0 || server->failed_s > linger_s;
}

static board_message failure_of(const board_server *server) {
    return board_message_of_failure(server->board.rank, server->board.text);
}

// ---- who comes ----

// NULL, or why it cannot be that rank.
static const char *refusal(const board_server *server, const board_message *hello, char text[128]) {
    if (hello->count != server->count) {
        snprintf(text, 128, "was started as one of %d ranks, rank 0 as one of %d", (int)hello->count,
                 server->count);
        return text;
    }
    if (hello->arguments != server->arguments)
        return "was started with other arguments than rank 0, or is another version";
    if (server->members[hello->rank].state != BOARD_ABSENT) return "two processes have this rank";
    return NULL;
}

// Takes the stranger in as a rank, or fails. The socket is used up.
static void admit(board_server *server, int socket, const board_message *hello, const board_inbox *rest) {
    char text[128];
    if (hello->news != BOARD_HELLO || hello->rank < 0 || hello->rank >= RANKS_MAX) {
        close(socket);
        return;
    }
    const char *const wrong = hello->rank < server->count || hello->count != server->count
                                  ? refusal(server, hello, text)
                                  : "is none of the ranks";
    if (!wrong) {
        board_server_add(server, hello->rank, socket);
        server->members[hello->rank].inbox = *rest;
        const board_message failure = failure_of(server);
        if (server->told_failure) board_send(socket, &failure);
        return;
    }
    board_fail(&server->board, hello->rank, wrong);
    if (hello->rank < server->count && server->members[hello->rank].state == BOARD_ABSENT)
        server->members[hello->rank].state = BOARD_GONE;
    const board_message failure = failure_of(server);
    board_send(socket, &failure);
    close(socket);
}

static void meet(board_server *server, board_stranger *stranger, double step_s, bool room) {
    board_message hello;
    const board_received got = board_receive(stranger->socket, &stranger->inbox, &hello);
    const int socket = stranger->socket;
    stranger->age_s += step_s;
    if (got == BOARD_NOTHING && stranger->age_s <= (room ? most_age_s : most_age_in_crowd_s)) return;
    stranger->socket = -1;
    if (got == BOARD_MESSAGE) {
        admit(server, socket, &hello, &stranger->inbox);
        return;
    }
    const board_message beat = board_message_of(BOARD_BEAT, 0);
    if (got == BOARD_OTHER) board_send(socket, &beat); // it learns that versions differ
    close(socket);
}

static void let_in(board_server *server) {
    for (int s = 0; s < BOARD_MOST_STRANGERS; s++) {
        if (server->strangers[s].socket >= 0) continue;
        const int socket = accept(server->listening, NULL, NULL);
        if (socket < 0) return;
        fcntl(socket, F_SETFD, FD_CLOEXEC);
        server->strangers[s] = (board_stranger){.socket = socket};
    }
}

static void await_ranks(board_server *server, double step_s) {
    const int absent = first_absent(server);
    if (absent < 0) stop_listening(server);
    if (absent < 0 || board_has_failed(&server->board)) return;
    server->waited_s += step_s;
    if (server->waited_s <= server->timeout_s) return;
    char text[128];
    snprintf(text, sizeof text, "has not come within %g s", server->timeout_s);
    board_fail(&server->board, absent, text);
    server->failed_s = linger_s; // it has had its time
}

// ---- the ranks ----

static void lose(board_server *server, int rank, const char *text) {
    board_member *const member = &server->members[rank];
    if (text) {
        board_fail(&server->board, rank, text);
        const board_message failure = failure_of(server);
        board_send(member->socket, &failure); // it may wake up
    }
    close(member->socket);
    member->state = BOARD_GONE;
}

static void hear(board_server *server, int rank) {
    board_member *const member = &server->members[rank];
    board_message message;
    while (member->state == BOARD_PRESENT) {
        switch (board_receive(member->socket, &member->inbox, &message)) {
        case BOARD_NOTHING:
            return;
        case BOARD_CLOSED:
            lose(server, rank,
                 server->over_tcp ? "its connection has closed: it or its host has ended" : NULL);
            return;
        case BOARD_GARBAGE:
        case BOARD_OTHER:
            lose(server, rank, "has sent what is no message");
            return;
        case BOARD_MESSAGE:
            break;
        }
        member->silent_s = 0;
        if (message.news == BOARD_FAILED && message.rank >= 0 && message.rank < server->count)
            board_fail(&server->board, message.rank, message.text);
        if (message.news == BOARD_ID && rank == 0 && !atomic_load(&server->board.has_id))
            board_set_id(&server->board, message.text);
        if (message.news == BOARD_ENDED) {
            close(member->socket);
            member->state = BOARD_DONE;
        }
    }
}

static void tell_all(board_server *server, const board_message *message) {
    for (int r = 0; r < server->count; r++)
        if (server->members[r].state == BOARD_PRESENT) board_send(server->members[r].socket, message);
}

static void tell_news(board_server *server) {
    if (!server->told_failure && board_has_failed(&server->board)) {
        const board_message message = failure_of(server);
        tell_all(server, &message);
        server->told_failure = true;
    }
    if (server->since_beat_s >= BOARD_BEAT_S) {
        const board_message message = board_message_of(BOARD_BEAT, 0);
        tell_all(server, &message);
        server->since_beat_s = 0;
    }
    if (first_absent(server) >= 0) return; // it would miss the rest
    if (!server->told_all) {
        const board_message message = board_message_of(BOARD_ALL, 0);
        tell_all(server, &message);
        server->told_all = true;
    }
    if (!server->told_id && atomic_load(&server->board.has_id)) {
        board_message message = board_message_of(BOARD_ID, 0);
        memcpy(message.text, server->board.id, BOARD_ID_BYTES);
        tell_all(server, &message);
        server->told_id = true;
    }
}

void board_server_step(board_server *server, int wait_ms) {
    struct pollfd wanted[RANKS_MAX + BOARD_MOST_STRANGERS + 1];
    nfds_t count = 0;
    bool room = false;
    for (int s = 0; s < BOARD_MOST_STRANGERS; s++) {
        if (server->strangers[s].socket >= 0)
            wanted[count++] = (struct pollfd){.fd = server->strangers[s].socket, .events = POLLIN};
        else
            room = true;
    }
    if (server->listening >= 0 && room)
        wanted[count++] = (struct pollfd){.fd = server->listening, .events = POLLIN};
    for (int r = 0; r < server->count; r++)
        if (server->members[r].state == BOARD_PRESENT)
            wanted[count++] = (struct pollfd){.fd = server->members[r].socket, .events = POLLIN};
    poll(wanted, count, wait_ms);
    const double step_s = board_clock_step(&server->clock);
    server->since_beat_s += step_s;
    if (board_has_failed(&server->board)) server->failed_s += step_s;
    if (server->listening >= 0) let_in(server);
    for (int s = 0; s < BOARD_MOST_STRANGERS; s++)
        if (server->strangers[s].socket >= 0) meet(server, &server->strangers[s], step_s, room);
    for (int r = 0; r < server->count; r++) {
        board_member *const member = &server->members[r];
        if (member->state != BOARD_PRESENT) continue;
        member->silent_s += step_s;
        hear(server, r);
        if (member->state != BOARD_PRESENT || member->silent_s <= server->silence_s) continue;
        char text[128];
        snprintf(text, sizeof text, "has been silent for %g s: it is stopped, or its host is out of reach",
                 server->silence_s);
        lose(server, r, text);
    }
    await_ranks(server, step_s);
    tell_news(server);
}
