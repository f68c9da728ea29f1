// SPDX-License-Identifier: MIT
// The calls of ranks.h: arguments are checked here, the work is the transport's. The start of ranks that are threads.
#define _GNU_SOURCE // pthread_timedjoin_np, program_invocation_short_name
#include "device.h"
#include "transport.h"
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int ranks_count(const ranks *group) {
    return group->count;
}

int ranks_own(const ranks *group) {
    return group->own;
}

const char *ranks_error(const ranks *group) {
    return group->error.text;
}

int64_t ranks_type_bytes(ranks_type type) {
    return type == RANKS_FLOAT ? 4 : 8;
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
    return ranks_fail(group, "%s: %s", attempted, cudaGetErrorString((cudaError_t)cuda_error));
}

bool ranks_fail_with(ranks *group, const fault *why) {
    return ranks_fail(group, "%s", why->text);
}

// False after an earlier failure.
static bool check(ranks *group, bool right, const char *text) {
    if (ranks_has_failed(group->shared)) return ranks_stop(group);
    return right || ranks_fail(group, "%s", text);
}

bool ranks_exchange_sizes(ranks *group, int values, const int64_t *send, int64_t *receive, gs_stream stream) {
    return check(group, values >= 1 && send && receive,
                 "ranks_exchange_sizes: values must be positive, send and receive given") &&
           group->transport->exchange_sizes(group, values, send, receive, stream);
}

bool ranks_tell_all(ranks *group, int64_t own, int64_t of_all[RANKS_MAX], gs_stream stream) {
    int64_t to_all[RANKS_MAX];
    for (int r = 0; r < group->count; r++) to_all[r] = own;
    return ranks_exchange_sizes(group, 1, to_all, of_all, stream);
}

static bool check_parts(const ranks *group, const void *memory, const int64_t *begin, const int64_t *bytes) {
    if (!begin || !bytes) return false;
    for (int r = 0; r < group->count; r++)
        if (begin[r] < 0 || bytes[r] < 0 || (bytes[r] > 0 && !memory)) return false;
    return true;
}

bool ranks_all_to_all(ranks *group, const ranks_exchange *exchange, gs_stream stream) {
    const bool right =
        exchange && check_parts(group, exchange->send, exchange->send_begin, exchange->send_bytes) &&
        check_parts(group, exchange->receive, exchange->receive_begin, exchange->receive_bytes) &&
        exchange->send_bytes[group->own] == exchange->receive_bytes[group->own];
    return check(group, right,
                 "ranks_all_to_all: arrays must be given, their numbers must not be negative, and a "
                 "rank receives from itself what it sends") &&
           group->transport->all_to_all(group, exchange, stream);
}

bool ranks_all_reduce(ranks *group, const ranks_reduction *reduction, gs_stream stream) {
    const bool right = reduction && reduction->count >= 0 && (reduction->values || reduction->count == 0) &&
                       (unsigned)reduction->type <= RANKS_DOUBLE &&
                       (unsigned)reduction->operation <= RANKS_MAX_OF;
    return check(group, right,
                 "ranks_all_reduce: values must be given, with a type, an operation and a count >= 0") &&
           group->transport->all_reduce(group, reduction, stream);
}

bool ranks_sum(ranks *group, double *values, size_t count) {
    if (group->count == 1) return true;
    double *const memory = device_allocate(count * sizeof *values);
    device_upload(memory, values, count * sizeof *values);
    const ranks_reduction sum = {memory, (int64_t)count, RANKS_DOUBLE, RANKS_SUM};
    const bool done = ranks_all_reduce(group, &sum, NULL) && ranks_wait(group, NULL);
    if (done) device_download(values, memory, count * sizeof *values);
    device_free(memory);
    return done;
}

bool ranks_barrier(ranks *group, gs_stream stream) {
    return check(group, true, "") && group->transport->barrier(group, stream);
}

bool ranks_wait(ranks *group, gs_stream stream) {
    return check(group, true, "") && group->transport->wait(group, stream);
}

// ---- a group of one: collectives have nobody to wait for ----

static bool wait_alone(ranks *group, gs_stream stream) {
    RANKS_CUDA(cudaStreamSynchronize(stream));
    return true;
}

static bool exchange_alone(ranks *group, int values, const int64_t *send, int64_t *receive,
                           gs_stream stream) {
    (void)group, (void)stream;
    memcpy(receive, send, (size_t)values * sizeof *send);
    return true;
}

static bool all_to_all_alone(ranks *group, const ranks_exchange *exchange, gs_stream stream) {
    const size_t bytes = (size_t)exchange->send_bytes[0];
    if (bytes > 0)
        RANKS_CUDA(cudaMemcpyAsync((char *)exchange->receive + exchange->receive_begin[0],
                                   (const char *)exchange->send + exchange->send_begin[0], bytes,
                                   cudaMemcpyDeviceToDevice, stream));
    return true;
}

static bool all_reduce_alone(ranks *group, const ranks_reduction *reduction, gs_stream stream) {
    (void)group, (void)reduction, (void)stream;
    return true;
}

typedef struct lone_rank {
    ranks group;
    ranks_shared shared;
} lone_rank;

ranks *ranks_alone_open(void) {
    static const transport calls = {exchange_alone, all_to_all_alone, all_reduce_alone, wait_alone,
                                    wait_alone};
    lone_rank *const self = calloc(1, sizeof *self);
    if (!self) return NULL;
    self->shared.alone = true;
    self->group = (ranks){.transport = &calls, .shared = &self->shared, .count = 1};
    return &self->group;
}

void ranks_alone_close(ranks *group) {
    free(group); // the first member
}

// ---- ranks as threads: all, or the one of a process that a launcher has started ----

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
    RANKS_CUDA(cudaGetDeviceCount(&present));
    if (plan->kind == RANKS_THREADS && devices == 0) devices = 1;
    if (plan->kind == RANKS_LAUNCHED && plan->place->local >= 0) number = plan->place->local;
    // A launcher may show each process its own device alone, and hosts of a launcher have as many as they have.
    if (plan->kind == RANKS_LAUNCHED && (present == 1 || plan->place->local < 0)) devices = present;
    const int device = devices > 0 ? number % devices : number;
    if (device >= present)
        return ranks_fail(group, "%d ranks need %d GPUs, this host has %d", group->count,
                          devices > 0 ? devices : group->count, present);
    RANKS_CUDA(cudaSetDevice(device));
    return true;
}

// Also where a failure of the device ends the thread.
static void leave_thread(void *argument) {
    thread_rank *const self = argument;
    of_thread = NULL;
    if (self->plan->kind == RANKS_THREADS)
        thread_group_leave(&self->group);
    else
        nccl_leave(&self->group);
}

static void *thread_main(void *argument) {
    thread_rank *const self = argument;
    ranks *const group = &self->group;
    of_thread = group;
    pthread_cleanup_push(leave_thread, self);
    if (set_device(group, self->plan) &&
        (self->plan->kind == RANKS_THREADS || nccl_join(group, self->plan)) &&
        !self->body(group, self->context) && !ranks_has_failed(group->shared))
        ranks_fail(group, "its work has failed");
    pthread_cleanup_pop(1);
    return NULL;
}

// After a failure a thread that hangs cannot be ended alone: then the process ends.
static void join_or_end(const thread_rank *member, double *failed_at) {
    const ranks_shared *const shared = member->group.shared;
    const double most = 8, grace = member->group.timeout_s < most ? member->group.timeout_s : most;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100 * 1000 * 1000;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        if (pthread_timedjoin_np(member->thread, NULL, &until) == 0) return;
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
    const double usual_timeout_s = 30;
    if (plan->count < 1 || plan->count > RANKS_MAX) return fail(why, "ranks must be in 1..%d", RANKS_MAX);
    if (!(plan->timeout_s >= 0)) return fail(why, "a time must not be negative");
    const int first = plan->kind == RANKS_LAUNCHED ? plan->place->own : 0;
    const int count = plan->kind == RANKS_LAUNCHED ? 1 : plan->count;
    ranks_shared shared = {.ranks = count};
    thread_rank *const members = calloc((size_t)count, sizeof *members);
    thread_group *const threads =
        plan->kind == RANKS_THREADS ? thread_group_open(&shared, plan->count) : NULL;
    if (!members || (plan->kind == RANKS_THREADS && !threads)) {
        free(members);
        return fail(why, "no memory for %d ranks", plan->count);
    }
    // NVLink multicast, unless the user asks for it. Before there are threads: they may read the environment.
    if (plan->kind != RANKS_THREADS) setenv("NCCL_NVLS_ENABLE", "0", 0);
    device_on_failure(tell_and_end);
    int started = 0;
    for (; started < count; started++) {
        thread_rank *const member = &members[started];
        *member =
            (thread_rank){.group = {.shared = &shared,
                                    .count = plan->count,
                                    .own = first + started,
                                    .timeout_s = plan->timeout_s > 0 ? plan->timeout_s : usual_timeout_s},
                          .plan = plan,
                          .body = body,
                          .context = context};
        if (threads) thread_group_join(threads, &member->group);
        if (pthread_create(&member->thread, NULL, thread_main, member) == 0) continue;
        ranks_fail(&member->group, "no thread can be started for it");
        break;
    }
    double failed_at = 0;
    for (int k = 0; k < started; k++) join_or_end(&members[k], &failed_at);
    device_on_failure(NULL);
    const bool failed = ranks_has_failed(&shared);
    if (failed) ranks_describe(&shared, why);
    if (threads) thread_group_close(threads);
    free(members);
    return !failed;
}
