// SPDX-License-Identifier: MIT
// Ranks as threads of one process. A collective has three parts: every rank publishes its arguments and waits for the
// others; reads what it needs of theirs; and waits until all have read. So a call waits for the stream, and returns
// after its work is done.
#include "transport.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct thread_group {
    ranks_shared *shared;
    pthread_mutex_t mutex; // guards the rest
    pthread_cond_t changed;
    int count, arrived;
    uint64_t meetings;                // that all ranks have come to
    int reading;                      // ranks that may still read what others have published
    bool left[RANKS_MAX];             // has ended
    const void *published[RANKS_MAX]; // what each has published
};

thread_group *thread_group_open(ranks_shared *shared, int count) {
    thread_group *threads = calloc(1, sizeof *threads);
    if (!threads) return NULL;
    threads->shared = shared;
    threads->count = count;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&threads->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&threads->mutex, NULL);
    return threads;
}

void thread_group_close(thread_group *threads) {
    pthread_cond_destroy(&threads->changed);
    pthread_mutex_destroy(&threads->mutex);
    free(threads);
}

// Waits for a change for a tenth of a second at most: failures come without a signal.
static void wait_for_change(thread_group *threads) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 20 * 1000 * 1000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&threads->changed, &threads->mutex, &until);
}

// Fails if a rank that this one waits for has ended. The mutex is held.
static void fail_if_one_left(ranks *group, const char *attempted) {
    thread_group *const threads = group->state;
    for (int r = 0; r < threads->count; r++)
        if (threads->left[r]) ranks_fail(group, "waits in %s for rank %d, which has ended", attempted, r);
}

// Waits for all ranks. Either all return true, or none does. reads: all ranks then read what others have published.
static bool meet(ranks *group, const char *attempted, bool reads) {
    thread_group *const threads = group->state;
    const double until = seconds_now() + group->timeout_s;
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
        fail_if_one_left(group, attempted);
        if (seconds_now() > until)
            ranks_fail(group, "has waited %g s for the others in %s", group->timeout_s, attempted);
        failed = ranks_has_failed(threads->shared);
    }
    while (failed && threads->reading > 0) wait_for_change(threads); // what they read must stay
    pthread_mutex_unlock(&threads->mutex);
    return !failed || ranks_stop(group);
}

static void stop_reading(ranks *group) {
    thread_group *const threads = group->state;
    pthread_mutex_lock(&threads->mutex);
    threads->reading--;
    pthread_cond_broadcast(&threads->changed);
    pthread_mutex_unlock(&threads->mutex);
}

// Runs `read` between two meetings. published: what other ranks' `read` see of this one.
static bool collect(ranks *group, const char *attempted, const void *published,
                    bool (*read)(ranks *group, void *context), void *context) {
    thread_group *const threads = group->state;
    threads->published[group->own] = published; // the last meeting was after all had read
    if (!meet(group, attempted, true)) return false;
    const bool good = read(group, context);
    stop_reading(group);
    return meet(group, attempted, false) && good;
}

static bool wait(ranks *group, gs_stream stream) {
    CUDA_OR_FAIL(group, cudaStreamSynchronize(stream));
    return true;
}

// ---- the collectives ----

typedef struct sizes_call {
    int values;
    int64_t *receive;
} sizes_call;

static bool read_sizes(ranks *group, void *context) {
    const sizes_call *const call = context;
    const thread_group *const threads = group->state;
    const size_t row = (size_t)call->values;
    for (int r = 0; r < group->count; r++)
        memcpy(call->receive + row * (size_t)r,
               (const int64_t *)threads->published[r] + row * (size_t)group->own, row * sizeof(int64_t));
    return true;
}

static bool exchange_sizes(ranks *group, int values, const int64_t *send, int64_t *receive,
                           gs_stream stream) {
    (void)stream;
    sizes_call call = {values, receive};
    return collect(group, "ranks_exchange_sizes", send, read_sizes, &call);
}

typedef struct exchange_call {
    const ranks_exchange *exchange;
    gs_stream stream;
} exchange_call;

static bool read_parts(ranks *group, void *context) {
    const exchange_call *const call = context;
    const ranks_exchange *const mine = call->exchange;
    const thread_group *const threads = group->state;
    for (int r = 0; r < group->count; r++) {
        const ranks_exchange *const theirs = threads->published[r];
        const ranks_bytes sent = theirs->to[group->own], expected = mine->from[r];
        if (sent.count != expected.count)
            return ranks_fail(group, "ranks_all_to_all: rank %d sends %lld bytes, %lld are expected", r,
                              (long long)sent.count, (long long)expected.count);
        if (sent.count == 0) continue;
        CUDA_OR_FAIL(group, cudaMemcpyAsync((char *)mine->receive + expected.begin,
                                            (const char *)theirs->send + sent.begin, (size_t)sent.count,
                                            cudaMemcpyDeviceToDevice, call->stream));
    }
    return wait(group, call->stream);
}

static bool all_to_all(ranks *group, const ranks_exchange *exchange, gs_stream stream) {
    exchange_call call = {exchange, stream};
    return wait(group, stream) && collect(group, "ranks_all_to_all", exchange, read_parts, &call);
}

typedef struct reduce_call {
    const ranks_reduction *reduction;
    void *result, *next; // host
} reduce_call;

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

static int64_t bytes_of(ranks_type type) {
    return type == RANKS_FLOAT ? 4 : 8;
}

// In the order of ranks, so that all have the same bits.
static bool read_values(ranks *group, void *context) {
    const reduce_call *const call = context;
    const ranks_reduction *const mine = call->reduction;
    const thread_group *const threads = group->state;
    const size_t bytes = (size_t)(mine->count * bytes_of(mine->type));
    for (int r = 0; r < group->count; r++) {
        const ranks_reduction *const theirs = threads->published[r];
        if (theirs->count != mine->count || theirs->type != mine->type ||
            theirs->operation != mine->operation)
            return ranks_fail(group, "ranks_all_reduce: rank %d reduces something else", r);
        if (bytes == 0) continue;
        CUDA_OR_FAIL(group, cudaMemcpy(r == 0 ? call->result : call->next, theirs->values, bytes,
                                       cudaMemcpyDeviceToHost));
        if (r > 0) combine(mine->type, mine->operation, mine->count, call->result, call->next);
    }
    return true;
}

static bool all_reduce(ranks *group, const ranks_reduction *reduction, gs_stream stream) {
    const size_t bytes = (size_t)(reduction->count * bytes_of(reduction->type));
    reduce_call call = {reduction, malloc(bytes + 1), malloc(bytes + 1)};
    bool good = wait(group, stream);
    if (good && !(call.result && call.next))
        good = ranks_fail(group, "ranks_all_reduce: no memory for %zu bytes", bytes);
    good = good && collect(group, "ranks_all_reduce", reduction, read_values, &call);
    if (good && bytes > 0) {
        const cudaError_t status =
            cudaMemcpyAsync(reduction->values, call.result, bytes, cudaMemcpyHostToDevice, stream);
        good =
            status == cudaSuccess ? wait(group, stream) : ranks_fail_cuda(group, status, "ranks_all_reduce");
    }
    free(call.result);
    free(call.next);
    return good;
}

static bool barrier(ranks *group, gs_stream stream) {
    return wait(group, stream) && meet(group, "ranks_barrier", false);
}

// ---- membership ----

void thread_group_join(thread_group *threads, ranks *group) {
    static const transport calls = {exchange_sizes, all_to_all, all_reduce, barrier, wait};
    group->transport = &calls;
    group->state = threads;
}

void thread_group_leave(ranks *group) {
    thread_group *const threads = group->state;
    pthread_mutex_lock(&threads->mutex);
    threads->left[group->own] = true;
    pthread_cond_broadcast(&threads->changed);
    pthread_mutex_unlock(&threads->mutex);
}
