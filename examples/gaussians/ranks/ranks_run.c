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
#include <time.h>
#include <unistd.h>

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
    if (self->plan->kind == RANKS_THREADS)
        thread_group_leave(&self->group);
    else
        nccl_leave(&self->group);
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
        if (threads) thread_group_close(threads);
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
    if (threads) thread_group_close(threads);
    free(members);
    return !failed;
}
