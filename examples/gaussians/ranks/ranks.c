// SPDX-License-Identifier: MIT
// The calls of ranks.h but for their start: failures, waiting, collectives, of which a transport does the work. A rank that
// fails says so in what they share (transport.h); the others find it there when they wait next, and end. Processes of a
// launcher have one rank each, and NCCL tells them.
#include "device.h"
#include "transport.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int ranks_count(const ranks *group) {
    return group->count;
}

int ranks_own(const ranks *group) {
    return group->own;
}

const char *ranks_error(const ranks *group) {
    return group->error.text;
}

// ---- failures ----

bool ranks_stop(ranks *group) {
    const ranks_shared *const shared = group->shared;
    return shared->alone ? fail(&group->error, "%s", shared->text)
                         : fail(&group->error, "rank %d: %s", shared->rank, shared->text);
}

bool ranks_fail_as(ranks *group, int rank, const char *text) {
    ranks_shared *const shared = group->shared;
    pthread_mutex_lock(&shared->mutex);
    if (!atomic_load(&shared->failed)) {
        shared->rank = rank;
        snprintf(shared->text, sizeof shared->text, "%s", text);
        atomic_store(&shared->failed, true);
        pthread_cond_broadcast(&shared->changed);
    }
    pthread_mutex_unlock(&shared->mutex);
    return ranks_stop(group);
}

bool ranks_fail(ranks *group, const char *format, ...) {
    char text[RANKS_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return ranks_fail_as(group, group->own, text);
}

bool ranks_fail_cuda(ranks *group, int cuda_error, const char *attempted) {
    return ranks_fail(group, "%s: %s%s", attempted, cudaGetErrorString((cudaError_t)cuda_error),
                      device_stage_text());
}

bool ranks_fail_with(ranks *group, const fault *why) {
    return ranks_fail(group, "%s", why->text);
}

// ---- waiting ----

struct timespec ranks_after(clockid_t clock, long milliseconds) {
    struct timespec until;
    clock_gettime(clock, &until);
    until.tv_nsec += milliseconds * 1000 * 1000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    return until;
}

bool ranks_go_on(ranks *group, patience *since, const char *attempted) {
    const double now = seconds_now();
    if (since->last > 0) since->waited += now - since->last < 1 ? now - since->last : 1;
    since->last = now;
    const int number = group->plan->end ? *group->plan->end : 0;
    if (number != 0 && since->waited > group->timeout_s / 2)
        ranks_fail(
            group,
            "was asked to end by signal %d while it waited for the others in %s: one of them has ended or "
            "does not answer",
            number, attempted);
    else if (since->waited > group->timeout_s)
        ranks_fail(group, "has waited %g s for the others in %s", group->timeout_s, attempted);
    return !atomic_load(&group->shared->failed) || ranks_stop(group);
}

bool ranks_await(ranks *group, const int64_t *number, int64_t least, const char *attempted) {
    ranks_shared *const shared = group->shared;
    patience since = {0};
    pthread_mutex_lock(&shared->mutex);
    while (*number < least && !atomic_load(&shared->failed)) {
        const struct timespec until = ranks_after(CLOCK_MONOTONIC, 20);
        const int left = (int)shared->left;
        pthread_mutex_unlock(&shared->mutex); // a failure takes it
        if (attempted && left > 0)
            ranks_fail(group, "waits in %s for rank %d, which has ended", attempted, left - 1);
        if (attempted) ranks_go_on(group, &since, attempted);
        pthread_mutex_lock(&shared->mutex);
        if (*number < least) pthread_cond_timedwait(&shared->changed, &shared->mutex, &until);
    }
    const bool there = *number >= least;
    pthread_mutex_unlock(&shared->mutex);
    return there || ranks_stop(group);
}

void ranks_set(ranks_shared *shared, int64_t *number, int64_t value) {
    pthread_mutex_lock(&shared->mutex);
    *number = value;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
}

// ---- the collectives ----

bool ranks_all_to_all(ranks *group, const ranks_exchange *exchange, gs_stream stream) {
    const int own = group->own;
    if (atomic_load(&group->shared->failed)) return ranks_stop(group);
    if (group->count > 1 && !group->transport->all_to_all(group, exchange, stream)) return false;
    if (exchange->to[own].count > 0)
        CUDA_OR_FAIL(group,
                     cudaMemcpyAsync((char *)exchange->receive + exchange->from[own].begin,
                                     (const char *)exchange->send + exchange->to[own].begin,
                                     (size_t)exchange->to[own].count, cudaMemcpyDeviceToDevice, stream));
    return true;
}

bool ranks_all_reduce(ranks *group, const ranks_reduction *reduction, gs_stream stream) {
    if (atomic_load(&group->shared->failed)) return ranks_stop(group);
    return group->count == 1 || group->transport->all_reduce(group, reduction, stream);
}

bool ranks_wait(ranks *group, gs_stream stream) {
    if (atomic_load(&group->shared->failed)) return ranks_stop(group);
    if (group->transport && group->transport->wait) return group->transport->wait(group, stream);
    CUDA_OR_FAIL(group, cudaStreamSynchronize(stream));
    return true;
}

// ---- numbers ----

// Room for as many numbers of all ranks, and then the own ones.
static bool reserve_numbers(ranks *group, int of_rank, gs_stream stream) {
    const int64_t values = (1 + group->count) * (int64_t)of_rank;
    const size_t bytes = (size_t)values * sizeof(int64_t);
    if (values <= group->room) return true;
    if (!ranks_wait(group, stream)) return false; // cudaFree would wait for ever
    group->room = 0;
    CUDA_OR_FAIL(group, cudaFreeHost(group->host));
    CUDA_OR_FAIL(group, cudaFree(group->device));
    group->host = NULL, group->device = NULL;
    CUDA_OR_FAIL(group, cudaMallocHost((void **)&group->host, bytes));
    CUDA_OR_FAIL(group, cudaMalloc((void **)&group->device, bytes));
    group->room = values;
    return true;
}

const int64_t *ranks_gather_numbers(ranks *group, int values, const int64_t *own, gs_stream stream) {
    const int64_t bytes = values * (int64_t)sizeof *own, all = group->count * (int64_t)values;
    if (!reserve_numbers(group, values, stream)) return NULL;
    ranks_exchange exchange = {.send = own, .receive = group->device};
    for (int r = 0; r < group->count; r++)
        exchange.to[r].count = bytes, exchange.from[r] = (ranks_bytes){r * bytes, bytes};
    if (!ranks_all_to_all(group, &exchange, stream)) return NULL;
    const cudaError_t status = cudaMemcpyAsync(group->host, group->device, (size_t)all * sizeof *own,
                                               cudaMemcpyDeviceToHost, stream);
    if (status == cudaSuccess) return group->host;
    ranks_fail_cuda(group, status, "ranks_gather_numbers");
    return NULL;
}

bool ranks_tell_numbers(ranks *group, int values, const int64_t *own, int64_t *of_all, gs_stream stream) {
    const size_t bytes = (size_t)values * sizeof *own;
    if (group->count == 1) {
        memcpy(of_all, own, bytes);
        return true;
    }
    if (!reserve_numbers(group, values, stream)) return false;
    const int64_t all = group->count * (int64_t)values;
    memcpy(group->host + all, own, bytes);
    CUDA_OR_FAIL(group, cudaMemcpyAsync(group->device + all, group->host + all, bytes, cudaMemcpyHostToDevice,
                                        stream));
    if (!ranks_gather_numbers(group, values, group->device + all, stream) || !ranks_wait(group, stream))
        return false;
    memcpy(of_all, group->host, bytes * (size_t)group->count);
    return true;
}

bool ranks_tell_all(ranks *group, int64_t own, int64_t of_all[RANKS_MAX], gs_stream stream) {
    return ranks_tell_numbers(group, 1, &own, of_all, stream);
}

bool ranks_barrier(ranks *group, gs_stream stream) {
    int64_t of_all[RANKS_MAX];
    return group->count == 1 ? ranks_wait(group, stream) : ranks_tell_all(group, 0, of_all, stream);
}

// ---- a group of one ----

typedef struct lone_rank {
    ranks group;
    ranks_shared shared;
} lone_rank;

ranks *ranks_alone_open(void) {
    lone_rank *const self = malloc(sizeof *self);
    if (!self) return NULL;
    *self = (lone_rank){
        .group = {.shared = &self->shared, .count = 1},
        .shared = {.alone = true, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}};
    return &self->group;
}

void ranks_alone_close(ranks *group) {
    free(group); // the first member
}
