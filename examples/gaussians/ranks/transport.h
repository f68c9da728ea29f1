// SPDX-License-Identifier: MIT
// What the two transports implement. Internal to this folder.
#pragma once

#include "cli/progress.h"
#include "ranks.h"
#include <cuda_runtime.h>
#include <stdatomic.h>

enum { RANKS_TEXT_BYTES = 512, RANKS_ID_BYTES = 128 };

// What the ranks of one process share. Zeros at the start, but for `ranks`.
typedef struct ranks_shared {
    int ranks;          // of this process
    atomic_int failure; // the first of the group; 0: none, 1: is being written, 2: written
    int rank;           // that failed
    char text[RANKS_TEXT_BYTES];
    bool alone;           // the only rank: failures do not name it
    atomic_bool prepared; // bodies may begin
    atomic_bool has_id;
    char id[RANKS_ID_BYTES]; // NCCL's
} ranks_shared;

bool ranks_has_failed(const ranks_shared *shared);
// "rank 2: text". Waits a moment for a text that is being written.
void ranks_describe(const ranks_shared *shared, fault *why);

// As the calls of ranks.h, of two ranks or more. What a rank sends to itself is not the transport's.
typedef struct transport {
    bool (*all_to_all)(ranks *group, const ranks_exchange *exchange, gs_stream stream);
    bool (*all_reduce)(ranks *group, const ranks_reduction *reduction, gs_stream stream);
    bool (*wait)(ranks *group, gs_stream stream);
} transport;

struct ranks {
    const transport *transport; // NULL: a group of one
    void *state;                // of the transport
    ranks_shared *shared;
    int count, own;
    double timeout_s;
    const volatile sig_atomic_t *end; // of the plan; or NULL
    fault error;
    // The number of the first collective that has been queued since a wait last ended; 0: none. This rank writes it.
    atomic_uint unseen;
    // For numbers that ranks tell each other: those of all, then the own ones.
    int64_t *host, *device; // pinned; the same
    int64_t room;           // values in each of them
};

// Frees the memory for numbers.
void ranks_close_numbers(ranks *group);
// cudaStreamSynchronize.
bool ranks_wait_for_stream(ranks *group, gs_stream stream);

// Takes the first failure over into group->error. Returns false.
bool ranks_stop(ranks *group);
// ranks_fail for another rank.
bool ranks_fail_as(ranks *group, int rank, const char *text);
// Fails where the rank has waited too long for the others; `attempted`: in which call.
void ranks_lose_patience(ranks *group, double waited, const char *attempted);

// ---- NCCL ----

// Makes *group a member, on the current device; shared, count, own and timeout_s are set. False: it has failed.
bool nccl_join(ranks *group, const ranks_plan *plan);
void nccl_leave(ranks *group);

// id: NCCL's, an input on rank 0, an output on the others. Waits timeout_s at most. False: the group has failed.
bool ranks_exchange_id(ranks *group, const ranks_plan *plan, char id[RANKS_ID_BYTES]);
