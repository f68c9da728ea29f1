// SPDX-License-Identifier: MIT
// This process as one rank of several that a launcher has started. Rank 0 has the server of the news in a thread, and
// is a client of it as the others are.
#include "board_link.h"
#include "board_server.h"
#include "rendezvous.h"
#include "transport.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// The state of this process.
static struct launched {
    const ranks_plan *plan;
    board board;
    board_link *link;
    bool was_lost;  // of the link
    double grace_s; // from a failure until the process ends, whatever it does
    // On rank 0:
    board_server server;
    pthread_t server_thread;
    bool serves;
    atomic_bool is_ending;
} own;

// ---- the server of rank 0 ----

// Until all ranks have ended, or, after a failure, for a while.
static void *serve(void *argument) {
    (void)argument;
    while (!board_server_is_done(&own.server) && own.server.failed_s <= own.grace_s)
        board_server_step(&own.server, 20);
    return NULL;
}

// Its socket; -1: *why is set.
static int start_server(const ranks *group, fault *why) {
    const ranks_place *const place = own.plan->place;
    int ends[2];
    const int listening = rendezvous_listen(place->address, place->port, why);
    if (listening < 0) return -1;
    board_server_open(&own.server, place->count, listening);
    own.server.timeout_s = group->timeout_s, own.server.silence_s = group->silence_s;
    own.server.arguments = own.plan->arguments;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
        board_server_add(&own.server, 0, ends[0]);
        own.serves = pthread_create(&own.server_thread, NULL, serve, NULL) == 0;
        if (own.serves) return ends[1];
        close(ends[1]);
    }
    board_server_close(&own.server);
    fail(why, "no thread for the news of other ranks can be started");
    return -1;
}

// ---- the end ----

// On rank 0 of what all ranks have told, else of what this one knows.
static bool has_failed(fault *why) {
    const board *const truth = own.serves ? &own.server.board : &own.board;
    if (!board_has_failed(truth)) return false;
    board_describe(truth, why);
    return true;
}

static void tell(const fault *why) {
    fprintf(stderr, "%s: %s\n", own.plan->program, why->text);
}

// Tells on one rank alone, or on one per host if rank 0 is gone.
static void tell_failure_if_first(void) {
    const ranks_place *const place = own.plan->place;
    fault why;
    if (has_failed(&why) && (own.serves || (own.was_lost && (place->own == 1 || place->local == 0))))
        tell(&why);
}

// Closes the link and, on rank 0, waits for the others.
static void leave(void) {
    own.was_lost = board_link_is_lost(own.link);
    board_link_close(own.link);
    if (own.serves) pthread_join(own.server_thread, NULL);
}

_Noreturn static void end_failed(void) {
    fflush(NULL);
    _exit(EXIT_FAILURE);
}

static void end_rank(void) {
    if (atomic_exchange(&own.is_ending, true))
        for (;;) pause(); // another thread ends the process
    leave();
    tell_failure_if_first();
    end_failed();
}

// From the link's thread: the rank is busy elsewhere, or stuck.
static void end_late(void *context) {
    (void)context;
    if (atomic_exchange(&own.is_ending, true)) return;
    own.was_lost = board_link_is_lost(own.link);
    tell_failure_if_first();
    _exit(EXIT_FAILURE);
}

// The server waits for them no longer than timeout_s.
static bool await_others(ranks *group) {
    const struct timespec pause = {0, 1000 * 1000};
    while (!atomic_load(&own.board.all_here)) {
        if (board_has_failed(&own.board)) return ranks_stop(group);
        nanosleep(&pause, NULL);
    }
    return true;
}

// A launcher may show each process its own device alone.
static int local_of(const ranks_place *place) {
    int present = 0;
    if (cudaGetDeviceCount(&present) != cudaSuccess || present <= 1)
        return 0; // a failure is told by what follows
    return place->local < 0 ? place->own % present : place->local;
}

bool ranks_run_launched(const ranks_plan *plan, const ranks *like, ranks_body body, void *context,
                        fault *why) {
    const ranks_place *const place = plan->place;
    ranks group = *like;
    fault reason;
    own = (struct launched){.plan = plan, .grace_s = ranks_grace(like)};
    group.own = place->own;
    group.board = &own.board;
    const int socket = place->own == 0
                           ? start_server(&group, &reason)
                           : rendezvous_connect(place->address, place->port, group.timeout_s, &reason);
    if (socket < 0) return fail(why, "rank %d: %s", place->own, reason.text);
    if (place->own > 0) {
        board_message hello = board_message_of(BOARD_HELLO, place->own);
        hello.count = place->count, hello.arguments = plan->arguments;
        board_send(socket, &hello); // if it fails, so does what follows
    }
    const board_link_plan link = {.board = &own.board,
                                  .rank = place->own,
                                  .socket = socket,
                                  .silence_s = group.silence_s,
                                  .grace_s = own.grace_s,
                                  .late = end_late};
    own.link = board_link_open(&link, why);
    if (!own.link) return false; // a rank that has come and gone ends the others
    ranks_own_process(&group, end_rank);
    if (!await_others(&group) || !ranks_set_device(&group, local_of(place), plan->devices) ||
        !nccl_join(&group, plan->nccl) || !ranks_run_body(&group, body, context))
        end_rank();
    nccl_leave(&group);
    if (atomic_exchange(&own.is_ending, true))
        for (;;) pause();
    leave();
    if (has_failed(why)) {
        tell_failure_if_first();
        end_failed();
    }
    ranks_own_process(NULL, NULL);
    return true;
}
