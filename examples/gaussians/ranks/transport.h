// SPDX-License-Identifier: MIT
// What the two transports implement. Internal to this folder.
#pragma once

#include "board.h"
#include "cli/progress.h"
#include "ranks.h"
#include <cuda_runtime.h>

// As the calls of ranks.h, with arguments that have been checked.
typedef struct transport {
    bool (*exchange_sizes)(ranks *group, int values, const int64_t *send, int64_t *receive, gs_stream stream);
    bool (*all_to_all)(ranks *group, const ranks_exchange *exchange, gs_stream stream);
    bool (*all_reduce)(ranks *group, const ranks_reduction *reduction, gs_stream stream);
    bool (*barrier)(ranks *group, gs_stream stream);
    bool (*wait)(ranks *group, gs_stream stream);
} transport;

struct ranks {
    const transport *transport;
    void *state; // of the transport
    board *board;
    int count, own;
    double timeout_s, silence_s;
    fault error;
};

// Returns false from the enclosing function, which has the ranks `group`, if a CUDA call fails.
#define RANKS_CUDA(call)                                                                                     \
    do {                                                                                                     \
        const cudaError_t ranks_status_ = (call);                                                            \
        if (ranks_status_ != cudaSuccess) return ranks_fail_cuda(group, ranks_status_, #call);               \
    } while (0)

// Takes the failure of the board over into group->error. Returns false.
bool ranks_stop(ranks *group);
// From the first failure until processes that have not ended are ended.
double ranks_grace(const ranks *group);
int64_t ranks_type_bytes(ranks_type type);

// The start of a rank: sets its device. local: its number among the ranks of its host; devices: as ranks_plan.devices.
bool ranks_set_device(ranks *group, int local, int devices);
bool ranks_run_body(ranks *group, ranks_body body, void *context);
bool ranks_run_launched(const ranks_plan *plan, const ranks *like, ranks_body body, void *context,
                        fault *why);

// ---- a process that is a rank ----

// The rank of this process, for failures of the device. end: tells the failure of the board and ends the process; does
// not return. NULL: there is none any more.
void ranks_own_process(ranks *group, void (*end)(void));

// ---- threads ----

typedef struct thread_group thread_group;

thread_group *thread_group_open(int count); // NULL: no memory
void thread_group_close(thread_group *threads);
board *thread_group_board(thread_group *threads);
// Makes *group a member; timeout_s is set.
void thread_group_join(thread_group *threads, ranks *group);
// The rank calls nothing any more: the others need not wait for it.
void thread_group_leave(ranks *group);

// ---- NCCL ----

// Makes *group a member, on the current device. The board is shared with the other ranks; count, own and timeout_s are
// set. False: the board has the failure. nccl: as ranks_plan.nccl.
bool nccl_join(ranks *group, const char *nccl);
void nccl_leave(ranks *group);
