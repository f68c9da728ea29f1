// SPDX-License-Identifier: MIT
// The start of ranks: a thread for each rank of this process. A rank that fails says so in what they share (transport.h);
// the others find it there when they wait next, and end. Processes of a launcher have one rank each, and NCCL tells them.
#define _GNU_SOURCE // pthread_timedjoin_np, program_invocation_short_name
#include "device.h"
#include "transport.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ---- threads without NCCL. A collective has three parts: every rank publishes its arguments and waits for the others; reads
// what it needs of theirs; and waits until all have read. So a call waits for the stream, and returns after its work is done

typedef struct thread_group {
    ranks_shared *shared;
    pthread_mutex_t mutex; // guards the rest
    pthread_cond_t changed;
    int count, arrived;
    uint64_t meetings;                // that all ranks have come to
    int reading;                      // ranks that may still read what others have published
    bool left[RANKS_MAX];             // has ended
    const void *published[RANKS_MAX]; // what each has published
} thread_group;

// A time from now.
static struct timespec after(clockid_t clock, long milliseconds) {
    struct timespec until;
    clock_gettime(clock, &until);
    until.tv_nsec += milliseconds * 1000 * 1000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    return until;
}

// Waits for a change for a moment at most: failures come without a signal.
static void wait_for_change(thread_group *threads) {
    const struct timespec until = after(CLOCK_MONOTONIC, 20);
    pthread_cond_timedwait(&threads->changed, &threads->mutex, &until);
}

// Waits for all ranks. Either all return true, or none does. reads: all ranks then read what others have published.
static bool meet(ranks *group, const char *attempted, bool reads) {
    thread_group *const threads = group->state;
    const double began = seconds_now();
    pthread_mutex_lock(&threads->mutex);
    const uint64_t meeting = threads->meetings;
    bool failed = ranks_has_failed(threads->shared);
    if (!failed && ++threads->arrived == threads->count) {
        threads->arrived = 0;
        threads->meetings++;
        if (reads) threads->reading = threads->count;
        pthread_cond_broadcast(&threads->changed);
    }
    while (!failed && threads->meetings == meeting) {
        wait_for_change(threads);
        if (threads->meetings != meeting) break;
        for (int r = 0; r < threads->count; r++)
            if (threads->left[r]) ranks_fail(group, "waits in %s for rank %d, which has ended", attempted, r);
        ranks_lose_patience(group, seconds_now() - began, attempted);
        failed = ranks_has_failed(threads->shared);
    }
    while (failed && threads->reading > 0) wait_for_change(threads); // what they read must stay
    pthread_mutex_unlock(&threads->mutex);
    return !failed || ranks_stop(group);
}

// Shows the others `published`. After true they may read it until end_reading has returned.
static bool publish(ranks *group, const char *attempted, const void *published) {
    thread_group *const threads = group->state;
    threads->published[group->own] = published; // the last meeting was after all had read
    return meet(group, attempted, true);
}

static bool end_reading(ranks *group, const char *attempted) {
    thread_group *const threads = group->state;
    pthread_mutex_lock(&threads->mutex);
    threads->reading--;
    pthread_cond_broadcast(&threads->changed);
    pthread_mutex_unlock(&threads->mutex);
    return meet(group, attempted, false);
}

// ---- the collectives ----

static bool cuda_done(ranks *group, const char *attempted, cudaError_t status) {
    return status == cudaSuccess || ranks_fail_cuda(group, status, attempted);
}

static bool all_to_all(ranks *group, const ranks_exchange *mine, gs_stream stream) {
    static const char name[] = "ranks_all_to_all";
    const thread_group *const threads = group->state;
    if (!ranks_wait_for_stream(group, stream) || !publish(group, name, mine)) return false;
    bool good = true;
    for (int r = 0; r < group->count && good; r++) {
        const ranks_exchange *const theirs = threads->published[r];
        const ranks_bytes sent = theirs->to[group->own], expected = mine->from[r];
        if (sent.count > 0 && r != group->own)
            good = cuda_done(group, "cudaMemcpyAsync",
                             cudaMemcpyAsync((char *)mine->receive + expected.begin,
                                             (const char *)theirs->send + sent.begin, (size_t)sent.count,
                                             cudaMemcpyDeviceToDevice, stream));
    }
    good = good && ranks_wait_for_stream(group, stream);
    return end_reading(group, name) && good;
}

#define COMBINE(TYPE)                                                                                        \
    for (int64_t i = 0; i < count; i++) {                                                                    \
        TYPE *const to = (TYPE *)result + i;                                                                 \
        const TYPE value = ((const TYPE *)next)[i];                                                          \
        *to = operation == RANKS_SUM ? (TYPE)(*to + value) : *to > value ? *to : value;                      \
    }                                                                                                        \
    break

static void combine(ranks_type type, ranks_operation operation, int64_t count, void *result,
                    const void *next) {
    switch (type) {
    case RANKS_INT64:
        COMBINE(int64_t);
    case RANKS_FLOAT:
        COMBINE(float);
    case RANKS_DOUBLE:
        COMBINE(double);
    }
}

static size_t bytes_of(const ranks_reduction *reduction) {
    return (size_t)reduction->count * (reduction->type == RANKS_FLOAT ? 4 : 8);
}

// Combines the values in the order of ranks, so that all have the same bits.
static bool all_reduce(ranks *group, const ranks_reduction *reduction, gs_stream stream) {
    static const char name[] = "ranks_all_reduce";
    const thread_group *const threads = group->state;
    const size_t bytes = bytes_of(reduction);
    char *const result = malloc(2 * bytes + 1), *const next = result + bytes; // of a rank
    if (!result) return ranks_fail(group, "ranks_all_reduce: no memory for %zu bytes", bytes);
    bool good = ranks_wait_for_stream(group, stream) && publish(group, name, reduction);
    if (good) {
        for (int r = 0; r < group->count && bytes > 0 && good; r++) {
            const ranks_reduction *const theirs = threads->published[r];
            good =
                cuda_done(group, "cudaMemcpy",
                          cudaMemcpy(r == 0 ? result : next, theirs->values, bytes, cudaMemcpyDeviceToHost));
            if (good && r > 0) combine(reduction->type, reduction->operation, reduction->count, result, next);
        }
        good = end_reading(group, name) && good;
    }
    if (good && bytes > 0)
        good = cuda_done(group, "cudaMemcpyAsync",
                         cudaMemcpyAsync(reduction->values, result, bytes, cudaMemcpyHostToDevice, stream)) &&
               ranks_wait_for_stream(group, stream);
    free(result);
    return good;
}

// ---- start ----

typedef struct thread_rank {
    ranks group;
    const ranks_plan *plan;
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

static bool set_device(ranks *group, const ranks_plan *plan) {
    int present = 0, number = group->own, devices = plan->devices;
    CUDA_OR_FAIL(group, cudaGetDeviceCount(&present));
    if (plan->kind == RANKS_THREADS && devices == 0) devices = 1;
    if (plan->kind == RANKS_LAUNCHED && plan->place->local >= 0) number = plan->place->local;
    // A launcher may show each process its own device alone, and hosts of a launcher have as many as they have.
    if (plan->kind == RANKS_LAUNCHED && (present == 1 || plan->place->local < 0)) devices = present;
    const int device = devices > 0 ? number % devices : number;
    if (device >= present)
        return ranks_fail(group, "%d ranks need %d GPUs, this host has %d", group->count,
                          devices > 0 ? devices : group->count, present);
    CUDA_OR_FAIL(group, cudaSetDevice(device));
    return true;
}

// Also where a failure of the device ends the thread.
static void leave_thread(void *argument) {
    thread_rank *const self = argument;
    of_thread = NULL;
    thread_group *const threads = self->plan->kind == RANKS_THREADS ? self->group.state : NULL;
    if (threads) { // the others need not wait for it
        pthread_mutex_lock(&threads->mutex);
        threads->left[self->group.own] = true;
        pthread_cond_broadcast(&threads->changed);
        pthread_mutex_unlock(&threads->mutex);
    } else {
        nccl_leave(&self->group);
    }
    ranks_close_numbers(&self->group);
}

// It has no limit of time: files may be slow.
static bool wait_until_prepared(ranks *group) {
    const struct timespec pause = {0, 500 * 1000};
    while (!atomic_load(&group->shared->prepared)) {
        if (ranks_has_failed(group->shared)) return ranks_stop(group);
        nanosleep(&pause, NULL);
    }
    return true;
}

static void *thread_main(void *argument) {
    thread_rank *const self = argument;
    ranks *const group = &self->group;
    of_thread = group;
    pthread_cleanup_push(leave_thread, self);
    if (set_device(group, self->plan) &&
        (self->plan->kind == RANKS_THREADS || nccl_join(group, self->plan)) && wait_until_prepared(group) &&
        !self->body(group, self->context) && !ranks_has_failed(group->shared))
        ranks_fail(group, "its work has failed");
    pthread_cleanup_pop(1);
    return NULL;
}

// A rank may stand in a call of CUDA that waits for the device, which waits for a rank that has died: then its own clock
// stands too, and this thread's tells. After a failure a thread that hangs cannot be ended alone: then the process ends.
static void join_or_end(const thread_rank *member, double *failed_at) {
    ranks_shared *const shared = member->group.shared;
    const double most = 8, grace = member->group.timeout_s < most ? member->group.timeout_s : most;
    double last = seconds_now(),
           waited = 0; // as in nccl_ranks.c, without seconds in which this process was stopped
    unsigned number = 0;
    for (;;) {
        const struct timespec until = after(CLOCK_REALTIME, 100);
        if (pthread_timedjoin_np(member->thread, NULL, &until) == 0) return;
        const unsigned unseen = atomic_load(&member->group.unseen);
        const double now = seconds_now();
        waited = unseen > 0 && unseen == number ? waited + (now - last < 1 ? now - last : 1) : 0;
        last = now, number = unseen;
        ranks teller = {.shared = shared,
                        .own = member->group.own,
                        .timeout_s = member->group.timeout_s,
                        .end = member->group.end};
        ranks_lose_patience(&teller, waited, "a call of CUDA");
        if (!ranks_has_failed(shared)) continue;
        if (*failed_at == 0) *failed_at = seconds_now();
        if (seconds_now() < *failed_at + grace) continue;
        fault why;
        ranks_describe(shared, &why);
        fprintf(stderr, "%s: %s\n", member->plan->program, why.text);
        fflush(NULL);
        _exit(EXIT_FAILURE);
    }
}

bool ranks_run(const ranks_plan *plan, ranks_body body, void *context, fault *why) {
    const double default_timeout_s = 30;
    if (plan->count < 1 || plan->count > RANKS_MAX) return fail(why, "ranks must be in 1..%d", RANKS_MAX);
    if (!(plan->timeout_s >= 0)) return fail(why, "a time must not be negative");
    const int first = plan->kind == RANKS_LAUNCHED ? plan->place->own : 0;
    const int count = plan->kind == RANKS_LAUNCHED ? 1 : plan->count;
    ranks_shared shared = {.ranks = count};
    thread_rank *const members = calloc((size_t)count, sizeof *members);
    if (!members) return fail(why, "no memory for %d ranks", plan->count);
    thread_group group = {.shared = &shared, .mutex = PTHREAD_MUTEX_INITIALIZER, .count = plan->count};
    thread_group *const threads = plan->kind == RANKS_THREADS ? &group : NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&group.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    // NVLink multicast, unless the user asks for it. Before there are threads: they may read the environment.
    if (plan->kind != RANKS_THREADS) setenv("NCCL_NVLS_ENABLE", "0", 0);
    device_on_failure(tell_and_end);
    static const transport calls = {all_to_all, all_reduce, ranks_wait_for_stream};
    int started = 0;
    for (; started < count; started++) {
        thread_rank *const member = &members[started];
        *member =
            (thread_rank){.group = {.transport = threads ? &calls : NULL,
                                    .state = threads,
                                    .shared = &shared,
                                    .count = plan->count,
                                    .own = first + started,
                                    .timeout_s = plan->timeout_s > 0 ? plan->timeout_s : default_timeout_s,
                                    .end = plan->end},
                          .plan = plan,
                          .body = body,
                          .context = context};
        if (pthread_create(&member->thread, NULL, thread_main, member) == 0) continue;
        ranks_fail(&member->group, "no thread can be started for it");
        break;
    }
    // In the meantime the ranks come together, which takes NCCL a while.
    const bool prepared = !plan->prepare || plan->prepare(context, why);
    if (prepared)
        atomic_store(&shared.prepared, true);
    else
        ranks_fail(&members[0].group, "%s", why->text);
    double failed_at = 0;
    for (int k = 0; k < started; k++) join_or_end(&members[k], &failed_at);
    device_on_failure(NULL);
    const bool failed = ranks_has_failed(&shared);
    if (failed && prepared) ranks_describe(&shared, why);
    pthread_cond_destroy(&group.changed);
    free(members);
    return !failed;
}
