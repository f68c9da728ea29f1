// SPDX-License-Identifier: MIT
// Ranks with a GPU each, on NCCL. The communicator does not block. A rank that waits also looks whether the group has
// failed, and at the clock: then it aborts the communicator.
#include "nccl_library.h"
#include "transport.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// In the order of the members of nccl_library.
static const char *const functions[] = {
    "ncclGetVersion",        "ncclGetErrorString", "ncclGetUniqueId", "ncclCommInitRankConfig",
    "ncclCommGetAsyncError", "ncclCommFinalize",   "ncclCommDestroy", "ncclCommAbort",
    "ncclGroupStart",        "ncclGroupEnd",       "ncclSend",        "ncclRecv",
    "ncclAllReduce"};
enum { FUNCTIONS = sizeof functions / sizeof *functions };
_Static_assert(sizeof(nccl_library) == (1 + FUNCTIONS) * sizeof(void *), "each function has a name");

// path: as ranks_plan.nccl. The library stays loaded.
static bool nccl_load(nccl_library *out, const char *path, fault *why) {
    if (!path) path = "libnccl.so.2";
    *out = (nccl_library){.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!out->handle)
        return fail(
            why,
            "several GPUs need NCCL 2.18 or later: %s. Install it (the package libnccl2, or pip install "
            "nvidia-nccl-cu13) and name its libnccl.so.2 by --nccl",
            dlerror());
    for (int k = 0; k < FUNCTIONS; k++) {
        void *const found = dlsym(out->handle, functions[k]);
        if (!found)
            return fail(why, "%s has no %s: several GPUs need NCCL 2.18 or later", path, functions[k]);
        memcpy((char *)out + (size_t)(1 + k) * sizeof found, &found, sizeof found);
    }
    int version = 0;
    if (out->get_version(&version) != NCCL_SUCCESS || version < NCCL_OLDEST || version >= 30000)
        return fail(why, "%s is NCCL %d.%d.%d: several GPUs need NCCL 2.18 or later, below 3", path,
                    version / 10000, version / 100 % 100, version % 100);
    return true;
}

typedef struct nccl_rank {
    nccl_library nccl;
    nccl_comm *comm;       // NULL after an abort
    const char *attempted; // the last call, for the text of a timeout
    uint64_t collectives;  // that have been queued
} nccl_rank;

static bool stop(ranks *group) {
    nccl_rank *const state = group->state;
    ranks_stop(group);
    if (state->comm) state->nccl.comm_abort(state->comm); // its kernels would wait for ever
    state->comm = NULL;
    return false;
}

// When another rank has died NCCL may know it first, but not who: what a rank of this process tells has a moment to come.
static bool fail_nccl(ranks *group, nccl_result result, const char *attempted) {
    const nccl_rank *const state = group->state;
    const struct timespec pause = {0, 10 * 1000 * 1000};
    const bool by_another =
        group->shared->ranks > 1 && (result == NCCL_SYSTEM_ERROR || result == NCCL_REMOTE_ERROR);
    for (int k = 0; k < 200 && by_another && !atomic_load(&group->shared->failed); k++)
        nanosleep(&pause, NULL);
    const char *const text = state->nccl.get_error_string(result);
    size_t free_bytes = 0, all = 0;
    // NCCL does not say what it lacks: mostly memory.
    if (result == NCCL_CUDA_ERROR && cudaMemGetInfo(&free_bytes, &all) == cudaSuccess)
        ranks_fail(group, "%s: %s; %zu MB of the GPU's memory are free", attempted, text,
                   free_bytes / 1000000);
    else
        ranks_fail(group, "%s: %s", attempted, text);
    return stop(group);
}

// Between looks at NCCL. False: the group has failed.
static bool go_on(ranks *group, patience *since, const char *attempted) {
    if (!ranks_go_on(group, since, attempted)) return stop(group);
    if (since->waited > 20e-3) { // longer than a part of a step: it need not end within microseconds
        const struct timespec pause = {0, 50 * 1000};
        nanosleep(&pause, NULL);
    }
    return true;
}

// Waits until NCCL has taken up what was called, which gave `result`.
static bool settle(ranks *group, nccl_result result, const char *attempted) {
    nccl_rank *const state = group->state;
    patience since = {0};
    while (result == NCCL_IN_PROGRESS) {
        const nccl_result asked = state->nccl.comm_get_async_error(state->comm, &result);
        if (asked != NCCL_SUCCESS) result = asked;
        if (result == NCCL_IN_PROGRESS && !go_on(group, &since, attempted)) return false;
    }
    state->attempted = attempted;
    return result == NCCL_SUCCESS || fail_nccl(group, result, attempted);
}

static bool wait(ranks *group, gs_stream stream) {
    nccl_rank *const state = group->state;
    patience since = {0};
    for (;;) {
        const cudaError_t status = cudaStreamQuery(stream);
        if (status == cudaSuccess) {
            atomic_store(&group->unseen, 0);
            return true;
        }
        if (status != cudaErrorNotReady) return ranks_fail_cuda(group, status, state->attempted), stop(group);
        nccl_result result = NCCL_SUCCESS;
        if (state->comm) state->nccl.comm_get_async_error(state->comm, &result);
        if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS)
            return fail_nccl(group, result, state->attempted);
        if (!go_on(group, &since, state->attempted)) return false;
    }
}

// ---- the collectives ----

static void count_collective(ranks *group) {
    nccl_rank *const state = group->state;
    state->collectives++;
    if (atomic_load(&group->unseen) == 0) atomic_store(&group->unseen, state->collectives);
}

static bool all_to_all(ranks *group, const ranks_exchange *x, gs_stream stream) {
    nccl_rank *const state = group->state;
    count_collective(group);
    nccl_result result = state->nccl.group_start(), each = NCCL_SUCCESS;
    const int own = group->own;
    for (int k = 1; k < group->count && result == NCCL_SUCCESS; k++) {
        const int to = (own + k) % group->count, from = (own + group->count - k) % group->count;
        if (x->to[to].count > 0)
            each = state->nccl.send((const char *)x->send + x->to[to].begin, (size_t)x->to[to].count,
                                    NCCL_INT8, to, state->comm, stream);
        if (each != NCCL_SUCCESS && each != NCCL_IN_PROGRESS) result = each;
        if (x->from[from].count > 0)
            each = state->nccl.recv((char *)x->receive + x->from[from].begin, (size_t)x->from[from].count,
                                    NCCL_INT8, from, state->comm, stream);
        if (each != NCCL_SUCCESS && each != NCCL_IN_PROGRESS) result = each;
    }
    const nccl_result end = state->nccl.group_end();
    return settle(group, result == NCCL_SUCCESS ? end : result, "ranks_all_to_all");
}

static bool all_reduce(ranks *group, const ranks_reduction *reduction, gs_stream stream) {
    static const nccl_type types[] = {NCCL_INT64, NCCL_FLOAT, NCCL_DOUBLE};
    nccl_rank *const state = group->state;
    if (reduction->count == 0) return true;
    count_collective(group);
    return settle(group,
                  state->nccl.all_reduce(
                      reduction->values, reduction->values, (size_t)reduction->count, types[reduction->type],
                      reduction->operation == RANKS_SUM ? NCCL_SUM : NCCL_MAX, state->comm, stream),
                  "ranks_all_reduce");
}

// ---- membership ----

// Rank 0 makes the id, the others wait for it.
static bool share_id(ranks *group, nccl_id *id) {
    nccl_rank *const state = group->state;
    ranks_shared *const shared = group->shared;
    if (group->own == 0) {
        const nccl_result result = state->nccl.get_unique_id(id);
        if (result != NCCL_SUCCESS) return fail_nccl(group, result, "ncclGetUniqueId");
    }
    if (group->plan->kind == RANKS_LAUNCHED) return ranks_exchange_id(group, id->bytes);
    if (group->own == 0) {
        memcpy(shared->id, id->bytes, RANKS_ID_BYTES);
        ranks_set(shared, &shared->has_id, 1);
    }
    if (!ranks_await(group, &shared->has_id, 1, "the start of NCCL")) return false;
    memcpy(id->bytes, shared->id, RANKS_ID_BYTES);
    return true;
}

bool nccl_join(ranks *group) {
    static const transport calls = {all_to_all, all_reduce, wait};
    _Static_assert(sizeof(nccl_id) == RANKS_ID_BYTES, "there is room for NCCL's id");
    nccl_rank *const state = calloc(1, sizeof *state);
    group->transport = &calls;
    group->state = state;
    if (!state) return ranks_fail(group, "no memory for NCCL's state");
    fault why;
    if (!nccl_load(&state->nccl, group->plan->nccl, &why)) return ranks_fail_with(group, &why);
    nccl_id id;
    if (!share_id(group, &id)) return false;
    nccl_config config = {.size = sizeof config,
                          .magic = 0xcafebeef,
                          .version = NCCL_OLDEST, // as NCCL_CONFIG_INITIALIZER
                          .blocking =
                              0, // calls return NCCL_IN_PROGRESS, and comm_get_async_error tells the end
                          .cga_cluster_size = INT_MIN,
                          .min_ctas = INT_MIN,
                          .max_ctas = INT_MIN,
                          .split_share = INT_MIN};
    const nccl_result result =
        state->nccl.comm_init_rank_config(&state->comm, group->count, id, group->own, &config);
    if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS)
        return fail_nccl(group, result, "ncclCommInitRankConfig");
    return settle(group, NCCL_IN_PROGRESS, "the start of NCCL");
}

void nccl_leave(ranks *group) {
    nccl_rank *const state = group->state;
    if (!state) return;
    if (state->comm && !atomic_load(&group->shared->failed)) {
        if (settle(group, state->nccl.comm_finalize(state->comm), "the end of NCCL")) // it sends what is left
            state->nccl.comm_destroy(state->comm);
    } else {
        stop(group);
    }
    free(state);
    group->state = NULL;
}
