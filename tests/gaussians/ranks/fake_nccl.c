// SPDX-License-Identifier: MIT
// The functions of libnccl.so.2 that the ranks call, for ranks on simt, where device memory is host memory. Data go
// through a file that all ranks map. As in NCCL, calls return at once, a rank that is missing makes the others wait until
// they abort, and one whose process is gone, or that has aborted, is an error of theirs. What was called goes on while
// the rank asks for its end by ncclCommGetAsyncError, as ranks do after each call.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cuda_runtime.h>

enum { MOST_RANKS = 8, MOST_CALLS = 64, BOX_BYTES = 1 << 14 };
enum { SUCCESS = 0, CUDA_ERROR = 1, SYSTEM_ERROR = 2, REMOTE_ERROR = 6, IN_PROGRESS = 7 };
enum { SUM = 0, INT64 = 4, FLOAT = 7 };

typedef struct fake_id {
    char path[128];
} fake_id;

typedef struct box { // from one rank to another
    atomic_int full;
    char bytes[BOX_BYTES];
} box;

typedef struct meeting {
    atomic_int joined;
    atomic_int process[MOST_RANKS];  // -1: has aborted
    box box[MOST_RANKS][MOST_RANKS]; // [from][to]
} meeting;

typedef struct transfer {
    char *data;
    size_t bytes, moved;
    int peer;
    bool sends;
} transfer;

typedef struct fake_comm {
    meeting *shared;
    int count, rank;
    fake_id id; // empty where the file is gone
    transfer transfers[MOST_CALLS];
    int transfers_count;
    // Of an all-reduce, which ends after the transfers; else values is NULL. others: [rank][values_count]
    char *values, *others;
    size_t values_count;
    int type, operation;
} fake_comm;

// Of the static kind: for the other glibc allocates at a thread's first use, and ends the process where it cannot.
#define OF_THREAD static _Thread_local __attribute__((tls_model("initial-exec")))
OF_THREAD fake_comm *grouped; // the communicator of the calls since group_start

int ncclGetVersion(int *version) {
    const char *const wanted = getenv("FAKE_NCCL_VERSION");
    *version = wanted ? atoi(wanted) : 22809;
    return SUCCESS;
}

const char *ncclGetErrorString(int result) {
    return result == SUCCESS        ? "no error"
           : result == CUDA_ERROR   ? "unhandled cuda error"
           : result == REMOTE_ERROR ? "remote process exited or there was a network error"
                                    : "unhandled system error";
}

int ncclGetUniqueId(fake_id *id) {
    *id = (fake_id){"/tmp/fake_nccl_XXXXXX"};
    const int file = mkstemp(id->path);
    if (file < 0) return SYSTEM_ERROR;
    const bool sized = ftruncate(file, (off_t)sizeof(meeting)) == 0;
    close(file);
    return sized ? SUCCESS : SYSTEM_ERROR;
}

static bool move(fake_comm *comm, transfer *t) {
    box *const through =
        t->sends ? &comm->shared->box[comm->rank][t->peer] : &comm->shared->box[t->peer][comm->rank];
    if (t->moved == t->bytes || (atomic_load(&through->full) != 0) == t->sends) return false;
    const size_t rest = t->bytes - t->moved, now = rest < BOX_BYTES ? rest : BOX_BYTES;
    if (t->sends)
        memcpy(through->bytes, t->data + t->moved, now);
    else
        memcpy(t->data + t->moved, through->bytes, now);
    t->moved += now;
    atomic_store(&through->full, t->sends);
    return true;
}

#define COMBINE(TYPE)                                                                                        \
    for (size_t i = 0; i < comm->values_count; i++) {                                                        \
        TYPE total = ((TYPE *)comm->others)[i];                                                              \
        for (int r = 1; r < comm->count; r++) {                                                              \
            const TYPE next = ((TYPE *)comm->others)[(size_t)r * comm->values_count + i];                    \
            total = comm->operation == SUM ? (TYPE)(total + next) : total > next ? total : next;             \
        }                                                                                                    \
        ((TYPE *)comm->values)[i] = total;                                                                   \
    }

static void combine(const fake_comm *comm) {
    if (comm->type == INT64) {
        COMBINE(int64_t)
    } else if (comm->type == FLOAT) {
        COMBINE(float)
    } else {
        COMBINE(double)
    }
}

static bool one_is_gone(const fake_comm *comm) {
    for (int r = 0; r < comm->count; r++) {
        const int process = atomic_load(&comm->shared->process[r]);
        if (process < 0 || (process > 0 && kill(process, 0) != 0 && errno == ESRCH)) return true;
    }
    return false;
}

int ncclCommGetAsyncError(fake_comm *comm, int *error) {
    bool all = atomic_load(&comm->shared->joined) == comm->count, moved = false;
    if (all && comm->id.path[0]) {
        unlink(comm->id.path); // all have it open; the last ones find nothing to remove
        comm->id.path[0] = '\0';
    }
    for (int k = 0; k < comm->transfers_count; k++) {
        moved |= move(comm, &comm->transfers[k]);
        all = all && comm->transfers[k].moved == comm->transfers[k].bytes;
    }
    *error = all ? SUCCESS : !moved && one_is_gone(comm) ? REMOTE_ERROR : IN_PROGRESS;
    if (all) {
        if (comm->values) combine(comm);
        comm->values = NULL;
        comm->transfers_count = 0;
    } else if (
        !moved) { // ranks are more than cores, and one may write a file for seconds: leaves the cores to others
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return SUCCESS;
}

int ncclCommInitRankConfig(fake_comm **out, int count, fake_id id, int rank, void *config) {
    (void)config;
    const char *const failing = getenv("FAKE_NCCL_FAILS"); // the number of a rank
    if (failing && atoi(failing) == rank) return CUDA_ERROR;
    fake_comm *const comm = calloc(1, sizeof *comm);
    const int file = open(id.path, O_RDWR);
    if (!comm || file < 0 || count > MOST_RANKS) return SYSTEM_ERROR;
    comm->shared = mmap(NULL, sizeof(meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (comm->shared == MAP_FAILED) return SYSTEM_ERROR;
    comm->count = count, comm->rank = rank, comm->id = id;
    atomic_store(&comm->shared->process[rank], getpid());
    atomic_fetch_add(&comm->shared->joined, 1);
    *out = comm;
    return IN_PROGRESS;
}

int ncclCommFinalize(fake_comm *comm) {
    (void)comm;
    return SUCCESS;
}

// process: 0: its work is done, and its process may end.
static int leave(fake_comm *comm, int process) {
    atomic_store(&comm->shared->process[comm->rank], process);
    if (comm->id.path[0]) unlink(comm->id.path);
    munmap(comm->shared, sizeof(meeting));
    free(comm->others);
    free(comm);
    return SUCCESS;
}

int ncclCommAbort(fake_comm *comm) {
    return leave(comm, -1);
}

int ncclCommDestroy(fake_comm *comm) {
    return leave(comm, 0);
}

int ncclGroupStart(void) {
    return SUCCESS;
}

int ncclGroupEnd(void) {
    const int result = grouped ? IN_PROGRESS : SUCCESS;
    grouped = NULL;
    return result;
}

static int add(fake_comm *comm, void *data, size_t bytes, int peer, bool sends) {
    if (comm->transfers_count == MOST_CALLS) return SYSTEM_ERROR;
    comm->transfers[comm->transfers_count++] = (transfer){data, bytes, 0, peer, sends};
    grouped = comm;
    return SUCCESS;
}

int ncclSend(const void *data, size_t count, int type, int to, fake_comm *comm, cudaStream_t stream) {
    (void)type, (void)stream;
    return add(comm, (void *)(uintptr_t)data, count, to, true);
}

int ncclRecv(void *data, size_t count, int type, int from, fake_comm *comm, cudaStream_t stream) {
    (void)type, (void)stream;
    return add(comm, data, count, from, false);
}

int ncclAllReduce(const void *send, void *receive, size_t count, int type, int operation, fake_comm *comm,
                  cudaStream_t stream) {
    (void)stream;
    const size_t bytes = count * (type == FLOAT ? 4 : 8);
    free(comm->others);
    comm->others = malloc(bytes * (size_t)comm->count);
    if (!comm->others) return SYSTEM_ERROR;
    memcpy(comm->others + bytes * (size_t)comm->rank, send, bytes);
    for (int r = 0; r < comm->count; r++) {
        if (r == comm->rank) continue;
        add(comm, (void *)(uintptr_t)send, bytes, r, true);
        add(comm, comm->others + bytes * (size_t)r, bytes, r, false);
    }
    comm->values = receive, comm->values_count = count, comm->type = type, comm->operation = operation;
    grouped = NULL;
    return IN_PROGRESS;
}
