// SPDX-License-Identifier: MIT
// The calls of ranks.h: the work is the transport's.
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

bool ranks_has_failed(const ranks_shared *shared) {
    return atomic_load(&shared->failure) != 0;
}

void ranks_describe(const ranks_shared *shared, fault *why) {
    const struct timespec pause = {0, 1000000};
    for (int k = 0; k < 200 && atomic_load(&shared->failure) == 1; k++) nanosleep(&pause, NULL);
    if (shared->alone)
        fail(why, "%s", shared->text);
    else if (atomic_load(&shared->failure) == 2)
        fail(why, "rank %d: %s", shared->rank, shared->text);
    else
        fail(why, "a rank has failed");
}

bool ranks_stop(ranks *group) {
    ranks_describe(group->shared, &group->error);
    return false;
}

bool ranks_fail_as(ranks *group, int rank, const char *text) {
    ranks_shared *const shared = group->shared;
    int none = 0;
    if (atomic_compare_exchange_strong(&shared->failure, &none, 1)) {
        shared->rank = rank;
        snprintf(shared->text, sizeof shared->text, "%s", text);
        atomic_store(&shared->failure, 2);
    }
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

void ranks_lose_patience(ranks *group, double waited, const char *attempted) {
    const int number = group->end ? *group->end : 0;
    if (number != 0 && waited > group->timeout_s / 2)
        ranks_fail(
            group,
            "was asked to end by signal %d while it waited for the others in %s: one of them has ended or "
            "does not answer",
            number, attempted);
    else if (waited > group->timeout_s)
        ranks_fail(group, "has waited %g s for the others in %s", group->timeout_s, attempted);
}

bool ranks_all_to_all(ranks *group, const ranks_exchange *exchange, gs_stream stream) {
    const int own = group->own;
    if (ranks_has_failed(group->shared)) return ranks_stop(group);
    if (group->count > 1 && !group->transport->all_to_all(group, exchange, stream)) return false;
    if (exchange->to[own].count > 0)
        CUDA_OR_FAIL(group,
                     cudaMemcpyAsync((char *)exchange->receive + exchange->from[own].begin,
                                     (const char *)exchange->send + exchange->to[own].begin,
                                     (size_t)exchange->to[own].count, cudaMemcpyDeviceToDevice, stream));
    return true;
}

bool ranks_all_reduce(ranks *group, const ranks_reduction *reduction, gs_stream stream) {
    if (ranks_has_failed(group->shared)) return ranks_stop(group);
    return group->count == 1 || group->transport->all_reduce(group, reduction, stream);
}

bool ranks_wait_for_stream(ranks *group, gs_stream stream) {
    CUDA_OR_FAIL(group, cudaStreamSynchronize(stream));
    return true;
}

bool ranks_wait(ranks *group, gs_stream stream) {
    if (ranks_has_failed(group->shared)) return ranks_stop(group);
    return (group->transport ? group->transport->wait : ranks_wait_for_stream)(group, stream);
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

void ranks_close_numbers(ranks *group) {
    cudaFreeHost(group->host); // the rank ends: errors have been told
    cudaFree(group->device);
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
    lone_rank *const self = calloc(1, sizeof *self);
    if (!self) return NULL;
    self->shared.alone = true;
    self->group = (ranks){.shared = &self->shared, .count = 1};
    return &self->group;
}

void ranks_alone_close(ranks *group) {
    free(group); // the first member
}
