// SPDX-License-Identifier: MIT
// The start of ranks: a thread for each rank of this process; and collectives of such threads without NCCL.
#define _GNU_SOURCE // pthread_timedjoin_np, program_invocation_short_name
#include "device.h"
#include "transport.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

// ---- threads without NCCL. A call waits for the stream, and returns after its work is done

// Waits for all ranks. Either all return true, or none does. reads: all ranks then read what others have published.
static bool meet(ranks *group, const char *attempted, bool reads) {
    ranks_shared *const shared = group->shared;
    pthread_mutex_lock(&shared->mutex);
    const int64_t next = shared->meetings + 1;
    if (!atomic_load(&shared->failed) && ++shared->arrived == shared->ranks) {
        shared->arrived = 0;
        shared->meetings = next;
        if (reads) shared->reading = shared->ranks;
        pthread_cond_broadcast(&shared->changed);
    }
    pthread_mutex_unlock(&shared->mutex);
    const bool met = ranks_await(group, &shared->meetings, next, attempted);
    pthread_mutex_lock(&shared->mutex);
    while (!met && shared->reading > 0) // what they read must stay
        pthread_cond_wait(&shared->changed, &shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
    return met;
}

// Every rank publishes its arguments and waits for the others; reads what it needs of theirs; and waits until all have read.
static bool exchange(ranks *group, const ranks_exchange *mine, gs_stream stream, const char *attempted) {
    ranks_shared *const shared = group->shared;
    if (!ranks_wait(group, stream)) return false;
    shared->published[group->own] = mine; // the last meeting was after all had read
    if (!meet(group, attempted, true)) return false;
    cudaError_t status = cudaSuccess;
    for (int r = 0; r < group->count && status == cudaSuccess; r++) {
        const ranks_exchange *const theirs = shared->published[r];
        const ranks_bytes sent = theirs->to[group->own];
        if (sent.count > 0 && r != group->own) // to the device, or of all_reduce to the host
            status = cudaMemcpyAsync((char *)mine->receive + mine->from[r].begin,
                                     (const char *)theirs->send + sent.begin, (size_t)sent.count,
                                     cudaMemcpyDefault, stream);
    }
    if (status == cudaSuccess) status = cudaStreamSynchronize(stream);
    const bool good = status == cudaSuccess || ranks_fail_cuda(group, status, attempted);
    pthread_mutex_lock(&shared->mutex);
    shared->reading--;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
    return meet(group, attempted, false) && good;
}

static bool all_to_all(ranks *group, const ranks_exchange *mine, gs_stream stream) {
    return exchange(group, mine, stream, "ranks_all_to_all");
}

#define COMBINE(TYPE)                                                                                        \
    for (int64_t i = 0; i < of->count; i++) {                                                                \
        TYPE *const to = (TYPE *)result + i;                                                                 \
        const TYPE value = ((const TYPE *)next)[i];                                                          \
        *to = of->operation == RANKS_SUM ? (TYPE)(*to + value) : *to > value ? *to : value;                  \
    }                                                                                                        \
    break

static void combine(const ranks_reduction *of, void *result, const void *next) {
    switch (of->type) {
    case RANKS_INT64:
        COMBINE(int64_t);
    case RANKS_FLOAT:
        COMBINE(float);
    case RANKS_DOUBLE:
        COMBINE(double);
    }
}

// Each rank gets all values and combines them in the order of ranks, so that all have the same bits.
static bool all_reduce(ranks *group, const ranks_reduction *of, gs_stream stream) {
    const size_t bytes = (size_t)of->count * (of->type == RANKS_FLOAT ? 4 : 8);
    char *const values = malloc((size_t)group->count * bytes + 1);
    if (!values) return ranks_fail(group, "ranks_all_reduce: no memory for %zu bytes of each rank", bytes);
    ranks_exchange mine = {.send = of->values, .receive = values};
    for (int64_t r = 0; r < group->count; r++) {
        mine.to[r].count = (int64_t)bytes;
        mine.from[r] = (ranks_bytes){r * (int64_t)bytes, (int64_t)bytes};
    }
    bool good = exchange(group, &mine, stream, "ranks_all_reduce");
    if (good && bytes > 0) {
        device_download(values + (size_t)group->own * bytes, of->values, bytes);
        for (int r = 1; r < group->count; r++) combine(of, values, values + (size_t)r * bytes);
        device_upload(of->values, values, bytes);
    }
    free(values);
    return good;
}

// ---- start ----

typedef struct thread_rank {
    ranks group;
    ranks_body body;
    void *context;
    pthread_t thread;
} thread_rank;

static _Thread_local ranks *of_thread;

// For failures of the device: the rank's thread ends, and with it the rank: leave_thread tells the others.
static void tell_and_end(const char *text) {
    ranks *const group = of_thread;
    if (group) {
        ranks_fail(group, "%s", text);
        pthread_exit(NULL);
    }
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, text); // in a thread that is none of the ranks
}

static bool set_device(ranks *group) {
    const ranks_plan *const plan = group->plan;
    const bool launched = plan->kind == RANKS_LAUNCHED,
               one = plan->kind == RANKS_THREADS || plan->devices == 1;
    int present = 0, device = launched && plan->place->local >= 0 ? plan->place->local : group->own;
    CUDA_OR_FAIL(group, cudaGetDeviceCount(&present));
    // A launcher may show each process its own device alone, and hosts of a launcher have as many as they have.
    if (launched && present > 0 && (present == 1 || plan->place->local < 0)) device %= present;
    if (one) device = 0;
    if (device >= present)
        return ranks_fail(group, "%d ranks need %d GPUs, this host has %d", group->count,
                          one ? 1 : group->count, present);
    CUDA_OR_FAIL(group, cudaSetDevice(device));
    return true;
}

// Also where a failure of the device ends the thread.
static void leave_thread(void *argument) {
    ranks *const group = argument;
    ranks_shared *const shared = group->shared;
    of_thread = NULL;
    ranks_set(shared, &shared->left, 1 + group->own); // the others need not wait for it
    nccl_leave(group);
    cudaFreeHost(group->host); // the rank ends: errors have been told
    cudaFree(group->device);
}

static void *thread_main(void *argument) {
    thread_rank *const self = argument;
    ranks *const group = &self->group;
    of_thread = group;
    pthread_cleanup_push(leave_thread, group);
    if (set_device(group) && (group->plan->kind == RANKS_THREADS || nccl_join(group)) &&
        ranks_await(group, &group->shared->prepared, 1, NULL) && // however long: files may be slow
        !self->body(group, self->context) && !atomic_load(&group->shared->failed))
        ranks_fail(group, "its work has failed");
    pthread_cleanup_pop(1);
    return NULL;
}

// A rank may stand in a call of CUDA that waits for the device, which waits for a rank that has died: then its own clock
// stands too, and this thread's tells. After a failure a thread that hangs cannot be ended alone: then the process ends.
static void join_or_end(const thread_rank *member, double *failed_at) {
    const ranks *const group = &member->group;
    const double most = 8, grace = group->timeout_s < most ? group->timeout_s : most;
    ranks teller = {
        .shared = group->shared, .plan = group->plan, .own = group->own, .timeout_s = group->timeout_s};
    patience since = {0};
    unsigned long long number = 0;
    for (;;) {
        const struct timespec until = ranks_after(CLOCK_REALTIME, 100);
        if (pthread_timedjoin_np(member->thread, NULL, &until) == 0) return;
        const unsigned long long unseen = atomic_load(&group->unseen);
        if (unseen == 0 || unseen != number) since = (patience){0};
        number = unseen;
        if (ranks_go_on(&teller, &since, "a call of CUDA")) continue;
        if (*failed_at == 0) *failed_at = seconds_now();
        if (seconds_now() < *failed_at + grace) continue;
        fprintf(stderr, "%s: %s\n", group->plan->program, teller.error.text);
        fflush(NULL);
        _exit(EXIT_FAILURE);
    }
}

bool ranks_run(const ranks_plan *plan, ranks_body body, void *context, fault *why) {
    static const transport calls = {.all_to_all = all_to_all, .all_reduce = all_reduce};
    const double default_timeout_s = 30;
    if (plan->count < 1 || plan->count > RANKS_MAX) return fail(why, "ranks must be in 1..%d", RANKS_MAX);
    const bool launched = plan->kind == RANKS_LAUNCHED;
    const int first = launched ? plan->place->own : 0, count = launched ? 1 : plan->count;
    thread_rank *const members = calloc((size_t)count, sizeof *members);
    if (!members) return fail(why, "no memory for %d ranks", plan->count);
    ranks_shared shared = {.ranks = count, .mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&shared.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    // NVLink multicast, unless the user asks for it. Before there are threads: they may read the environment.
    if (plan->kind != RANKS_THREADS) setenv("NCCL_NVLS_ENABLE", "0", 0);
    device_on_failure(tell_and_end);
    int started = 0;
    for (; started < count; started++) {
        thread_rank *const member = &members[started];
        *member =
            (thread_rank){.group = {.transport = plan->kind == RANKS_THREADS ? &calls : NULL,
                                    .shared = &shared,
                                    .plan = plan,
                                    .count = plan->count,
                                    .own = first + started,
                                    .timeout_s = plan->timeout_s > 0 ? plan->timeout_s : default_timeout_s},
                          .body = body,
                          .context = context};
        if (pthread_create(&member->thread, NULL, thread_main, member) == 0) continue;
        ranks_fail(&member->group, "no thread can be started for it");
        break;
    }
    // In the meantime the ranks come together, which takes NCCL a while.
    const bool prepared = !plan->prepare || plan->prepare(context, why);
    if (prepared)
        ranks_set(&shared, &shared.prepared, 1);
    else
        ranks_fail_as(&(ranks){.shared = &shared}, first, why->text);
    double failed_at = 0;
    for (int k = 0; k < started; k++) join_or_end(&members[k], &failed_at);
    device_on_failure(NULL);
    const bool failed = atomic_load(&shared.failed);
    if (failed && prepared) ranks_stop(&members[0].group), *why = members[0].group.error;
    pthread_cond_destroy(&shared.changed);
    free(members);
    return !failed;
}
