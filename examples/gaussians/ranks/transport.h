// SPDX-License-Identifier: MIT
// What the transports share. Internal to this folder.
#pragma once

#include "cli/progress.h"
#include "ranks.h"
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { RANKS_TEXT_BYTES = 512, RANKS_ID_BYTES = 128 };

// What the ranks of one process share. Numbers only grow, so that ranks_await can wait for them.
typedef struct ranks_shared {
    int ranks;              // of this process
    bool alone;             // the only rank: failures do not name it
    atomic_bool failed;     // then rank and text stay as they are
    pthread_mutex_t mutex;  // guards the rest
    pthread_cond_t changed; // after each change but those of arrived, published and text
    int rank;               // that failed first
    char text[RANKS_TEXT_BYTES];
    int64_t left;     // 1 + the number of a rank that has ended; 0: none has
    int64_t prepared; // 1: bodies may begin
    int64_t has_id;   // 1: id is NCCL's
    char id[RANKS_ID_BYTES];
    // Of threads without NCCL:
    int arrived;                                // at the next meeting
    int64_t meetings;                           // that all ranks have come to
    int reading;                                // ranks that may still read what others have published
    const ranks_exchange *published[RANKS_MAX]; // by each
} ranks_shared;

// As the calls of ranks.h, of two ranks or more. What a rank sends to itself is not the transport's.
typedef struct transport {
    bool (*all_to_all)(ranks *group, const ranks_exchange *exchange, gs_stream stream);
    bool (*all_reduce)(ranks *group, const ranks_reduction *reduction, gs_stream stream);
    bool (*wait)(ranks *group, gs_stream stream); // NULL: cudaStreamSynchronize
} transport;

struct ranks {
    const transport *transport; // NULL: a group of one
    void *state;                // of NCCL
    ranks_shared *shared;
    const ranks_plan *plan; // NULL: a group of one
    int count, own;
    double timeout_s;
    fault error;
    // The number of the first collective that has been queued since a wait last ended; 0: none. This rank writes it.
    atomic_ullong unseen;
    // For numbers that ranks tell each other: those of all, then the own ones.
    int64_t *host, *device; // pinned; the same
    int64_t room;           // values in each of them
};

// Takes the first failure over into group->error. Returns false.
bool ranks_stop(ranks *group);
// ranks_fail for another rank.
bool ranks_fail_as(ranks *group, int rank, const char *text);

struct timespec ranks_after(clockid_t clock, long milliseconds); // a time from now
// How long a rank has waited for others. Starts as {0}.
typedef struct patience {
    double last, waited; // a look at the clock; seconds, without those in which this process was stopped
} patience;
// Looks at the clock, and fails where the rank has waited too long; attempted: in which call. False: the group has failed.
bool ranks_go_on(ranks *group, patience *since, const char *attempted);
// Waits until a number of group->shared is at least `least`. attempted: NULL: however long. False: the group has failed before.
bool ranks_await(ranks *group, const int64_t *number, int64_t least, const char *attempted);
void ranks_set(ranks_shared *shared, int64_t *number, int64_t value);

// ---- NCCL ----

// Makes *group a member, on the current device; shared, plan, count, own and timeout_s are set. False: it has failed.
bool nccl_join(ranks *group);
void nccl_leave(ranks *group); // harmless without nccl_join

// id: NCCL's, an input on rank 0, an output on the others. Waits timeout_s at most. False: the group has failed.
bool ranks_exchange_id(ranks *group, char id[RANKS_ID_BYTES]);
