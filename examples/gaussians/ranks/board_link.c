// SPDX-License-Identifier: MIT
#include "board_link.h"
#include "board_message.h"
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_EVERY_MS = 20 };

struct board_link {
    board_link_plan plan;
    pthread_t thread;
    atomic_bool closing;
    atomic_bool lost; // before anything was told of a failure
    // Used by the thread alone:
    bool is_cut;
    board_inbox inbox;
    board_clock clock;
    double silent_s, since_beat_s, failed_s;
    bool was_told, told_failure, told_id;
};

static void lose(board_link *link, const char *text) {
    if (!link->is_cut && !link->was_told) {
        atomic_store(&link->lost, true);
        board_fail(link->plan.board, 0, text);
    }
    link->is_cut = true;
}

static void receive(board_link *link) {
    board *const own = link->plan.board;
    board_message message;
    for (;;) {
        switch (board_receive(link->plan.socket, &link->inbox, &message)) {
        case BOARD_NOTHING:
            return;
        case BOARD_CLOSED:
            lose(link, "its connection has closed: it or its host has ended");
            return;
        case BOARD_GARBAGE:
        case BOARD_OTHER:
            lose(link, "what answers at its address is another program, or another version of this one");
            return;
        case BOARD_MESSAGE:
            break;
        }
        link->silent_s = 0;
        if (message.news == BOARD_FAILED) {
            link->was_told = link->told_failure = true;
            board_fail(own, message.rank, message.text);
        } else if (message.news == BOARD_ALL) {
            atomic_store(&own->all_here, 1);
        } else if (message.news == BOARD_ID && !atomic_load(&own->has_id)) {
            link->told_id = true;
            board_set_id(own, message.text);
        }
    }
}

static void tell(board_link *link, const board_message *message) {
    if (!board_send(link->plan.socket, message)) receive(link); // what was told last, or that it is closed
}

static void tell_news(board_link *link) {
    board *const own = link->plan.board;
    board_message message = board_message_of(BOARD_BEAT, link->plan.rank);
    if (!link->told_failure && atomic_load(&own->failure) == 2) {
        link->told_failure = true;
        message = board_message_of_failure(own->rank, own->text);
    } else if (!link->told_id && atomic_load(&own->has_id)) {
        link->told_id = true;
        message.news = BOARD_ID;
        memcpy(message.text, own->id, BOARD_ID_BYTES);
    } else if (link->since_beat_s < BOARD_BEAT_S) {
        return;
    }
    link->since_beat_s = 0;
    tell(link, &message);
}

static void *work(void *argument) {
    board_link *const link = argument;
    const board_link_plan *const plan = &link->plan;
    for (;;) {
        const bool closing = atomic_load(&link->closing);
        struct pollfd wanted = {.fd = link->is_cut ? -1 : plan->socket, .events = POLLIN};
        if (!closing) poll(&wanted, 1, LOOK_EVERY_MS);
        const double step_s = board_clock_step(&link->clock);
        link->silent_s += step_s, link->since_beat_s += step_s;
        if (!link->is_cut) receive(link);
        if (!link->is_cut) tell_news(link);
        if (link->silent_s > plan->silence_s && !link->is_cut) {
            char text[128];
            snprintf(text, sizeof text,
                     "has been silent for %g s: it is stopped, or its host is out of reach", plan->silence_s);
            lose(link, text);
        }
        if (closing) break;
        if (board_has_failed(plan->board)) link->failed_s += step_s;
        if (link->failed_s > plan->grace_s) plan->late(plan->context);
    }
    if (!board_has_failed(plan->board) && !link->is_cut) {
        const board_message message = board_message_of(BOARD_ENDED, plan->rank);
        board_send(plan->socket, &message);
    }
    return NULL;
}

board_link *board_link_open(const board_link_plan *plan, fault *why) {
    board_link *const link = calloc(1, sizeof *link);
    if (link) {
        link->plan = *plan;
        if (pthread_create(&link->thread, NULL, work, link) == 0) return link;
    }
    fail(why, "no thread for the news of other ranks can be started");
    close(plan->socket);
    free(link);
    return NULL;
}

bool board_link_is_lost(const board_link *link) {
    return atomic_load(&link->lost);
}

void board_link_close(board_link *link) {
    if (!link) return;
    atomic_store(&link->closing, true);
    pthread_join(link->thread, NULL);
    close(link->plan.socket);
    free(link);
}
