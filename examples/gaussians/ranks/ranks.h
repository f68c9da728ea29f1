// SPDX-License-Identifier: MIT
// Ranks: the members of a group that train one scene together, each with Gaussians and images of its own.
//
// ranks_run starts the group and calls a body in every rank:
//   RANKS_THREADS    threads of this process that share its devices: under simt, and for several ranks on one GPU
//   RANKS_GPUS       threads of this process, each with a GPU of its own; data go through NCCL
//   RANKS_LAUNCHED   this process is one rank of several that mpirun, srun or torchrun has started, on one host or on
//                    several; data go through NCCL
//
// Rules for every collective (ranks_tell_numbers to ranks_barrier):
// - All ranks call it, in one order, with matching sizes. A rank calls from one thread at a time.
// - Arrays are device pointers unless stated otherwise. Work is queued on `stream`. Before the host reads a result,
//   and before any other call that waits for the stream, call ranks_wait: it returns also if a rank has died, where
//   cudaStreamSynchronize would wait forever.
// - False: the group has failed, on all ranks. ranks_error says why, and names the rank that failed first. Outputs are
//   undefined. The body should return false.
// - A rank waits for the others for timeout_s at most, and half of it once a signal has asked it to end, as launchers do
//   when another rank has died; then it ends the group.
#pragma once

#include "c_linkage.h"
#include "files/fault.h"
#include "distwar_gs.h"
#include <signal.h>

C_LINKAGE_BEGIN

enum { RANKS_MAX = 64 };

typedef struct ranks ranks; // the membership of one rank

int ranks_count(const ranks *group);
int ranks_own(const ranks *group); // 0..ranks_count - 1
// Host. The text of the failure; "" before one.
const char *ranks_error(const ranks *group);
// Ends the group, with a text that every rank gets. Returns false. The first failure of a group counts.
bool ranks_fail(ranks *group, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The same for a CUDA call that failed, as `attempted`, and for a failure that has a text.
bool ranks_fail_cuda(ranks *group, int cuda_error, const char *attempted);
bool ranks_fail_with(ranks *group, const fault *why);
// Returns false from the enclosing function, after ranks_fail, if a call of CUDA fails.
#define CUDA_OR_FAIL(group, call)                                                                            \
    do {                                                                                                     \
        const cudaError_t cuda_or_fail_ = (call);                                                            \
        if (cuda_or_fail_ != cudaSuccess) return ranks_fail_cuda(group, cuda_or_fail_, #call);               \
    } while (0)

// Each rank gives all ranks `values` numbers. own: host, [values]; of_all: host, [ranks_count][values]. Waits.
bool ranks_tell_numbers(ranks *group, int values, const int64_t *own, int64_t *of_all, gs_stream stream);
// The same of numbers on the device, own: [values]. Does not wait: the result, host, [ranks_count][values], is there after
// ranks_wait, until the next call that tells numbers. NULL: the group has failed.
const int64_t *ranks_gather_numbers(ranks *group, int values, const int64_t *own, gs_stream stream);
// ranks_tell_numbers of one number.
bool ranks_tell_all(ranks *group, int64_t own, int64_t of_all[RANKS_MAX], gs_stream stream);

// Bytes from each rank to each rank. What rank a sends to b is what b receives from a. A rank also sends to itself. `send`
// and `receive` do not overlap.
typedef struct ranks_bytes {
    int64_t begin, count;
} ranks_bytes;
typedef struct ranks_exchange {
    const void *send;
    void *receive;
    ranks_bytes to[RANKS_MAX], from[RANKS_MAX]; // for each rank: places in `send` and in `receive`
} ranks_exchange;
bool ranks_all_to_all(ranks *group, const ranks_exchange *exchange, gs_stream stream);

typedef enum ranks_type { RANKS_INT64, RANKS_FLOAT, RANKS_DOUBLE } ranks_type;
typedef enum ranks_operation { RANKS_SUM, RANKS_MAX_OF } ranks_operation;

// values[count] of all ranks are combined, in place, to the same result on all ranks. Sums of int64 do not depend on
// anything; those of floats are rounded in an order that depends on the number of ranks. RANKS_MAX_OF: no value is NaN.
typedef struct ranks_reduction {
    void *values;
    int64_t count;
    ranks_type type;
    ranks_operation operation;
} ranks_reduction;
bool ranks_all_reduce(ranks *group, const ranks_reduction *reduction, gs_stream stream);

// Waits until the streams of all ranks have done their work.
bool ranks_barrier(ranks *group, gs_stream stream);

// Waits for this rank's stream.
bool ranks_wait(ranks *group, gs_stream stream);

// ---- start ----

// A group of one: this thread, on its current device. Collectives do nothing but what a rank sends to itself. NULL: no
// memory.
ranks *ranks_alone_open(void);
void ranks_alone_close(ranks *group); // NULL is harmless

typedef enum ranks_kind { RANKS_THREADS, RANKS_GPUS, RANKS_LAUNCHED } ranks_kind;

// What a launcher has made of this process.
typedef struct ranks_place {
    int count, own;
    int local;         // number among the ranks of its host; -1: not known
    char address[256]; // of rank 0: a name or an address
    int port;
} ranks_place;

typedef enum ranks_found { RANKS_NONE, RANKS_FOUND, RANKS_WRONG } ranks_found;

// Reads the environment: RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE (torchrun), OMPI_COMM_WORLD_... (Open MPI),
// PMI_... and MPI_LOCAL... (MPICH, Intel MPI) or SLURM_... of a job step (srun); MASTER_ADDR and MASTER_PORT. A group
// of one is none. RANKS_WRONG: *why says what is missing or malformed.
ranks_found ranks_find_place(ranks_place *place, fault *why);

typedef struct ranks_plan {
    int count; // 1..RANKS_MAX
    ranks_kind kind;
    double timeout_s; // 0: 30
    // NULL, or: the number of a signal that has asked this process to end; 0: none has.
    const volatile sig_atomic_t *end;
    // Path of libnccl.so.2; NULL: what the loader finds.
    const char *nccl;
    const char *program; // its name, for messages
    int devices;         // 1: all ranks share the first device; 0: each has one of its own, but threads
    // For RANKS_LAUNCHED:
    const ranks_place *place; // count is the plan's
    uint64_t arguments;       // a hash of what must be the same on all ranks
    // What needs no rank, such as reading files: ranks_run calls it itself, while the ranks of this process come together,
    // and no body begins before it has returned true. NULL: nothing.
    bool (*prepare)(void *context, fault *why);
} ranks_plan;

// In each rank. Returns false after a failure; one that ranks_fail has not told is told then.
typedef bool (*ranks_body)(ranks *group, void *context);

// Runs the body in all ranks of this process, in a thread each, and returns when all have ended. False: the failure that
// ranks_error or plan->prepare gave. All ranks of a process share `context`. min(8 s, timeout_s) after the first failure a rank
// that has not ended ends the process without exit handlers: stderr gets "PROGRAM: rank N: text", the exit code is 1.
// RANKS_LAUNCHED: rank 0 listens at place->port until all ranks have come; a rank whose process
// ends makes NCCL fail on the others, or they wait for it in vain.
// A failure of the device that would end the program (device.h) is a failure of the rank whose thread it happens in.
bool ranks_run(const ranks_plan *plan, ranks_body body, void *context, fault *why);

C_LINKAGE_END
