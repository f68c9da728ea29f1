// SPDX-License-Identifier: MIT
// Starts ranks: the choice among the kinds, and threads.
#include "transport.h"
#include <pthread.h>
#include <stdlib.h>

static const double usual_timeout_s = 40, usual_silence_s = 15;

// ---- threads ----

typedef struct thread_rank {
    ranks group;
    const ranks_plan *plan;
    ranks_body body;
    void *context;
    pthread_t thread;
} thread_rank;

static void *thread_main(void *argument) {
    thread_rank *const self = argument;
    if (ranks_set_device(&self->group, self->group.own, self->plan->devices > 0 ? self->plan->devices : 1))
        ranks_run_body(&self->group, self->body, self->context);
    thread_group_leave(&self->group);
    return NULL;
}

static bool run_threads(const ranks_plan *plan, const ranks *like, thread_rank *members, fault *why) {
    thread_group *const threads = thread_group_open(plan->count);
    if (!threads) return fail(why, "no memory for %d ranks", plan->count);
    int started = 0;
    for (; started < plan->count; started++) {
        thread_rank *const member = &members[started];
        member->group = *like;
        member->group.own = started;
        thread_group_join(threads, &member->group);
        if (pthread_create(&member->thread, NULL, thread_main, member) == 0) continue;
        ranks_fail(&member->group, "no thread can be started for it");
        break;
    }
    for (int r = 0; r < started; r++) pthread_join(members[r].thread, NULL);
    const bool failed = board_has_failed(thread_group_board(threads));
    if (failed) board_describe(thread_group_board(threads), why);
    thread_group_close(threads);
    return !failed;
}

bool ranks_run(const ranks_plan *plan, ranks_body body, void *context, fault *why) {
    if (plan->count < 1 || plan->count > RANKS_MAX) return fail(why, "ranks must be in 1..%d", RANKS_MAX);
    if (!(plan->timeout_s >= 0) || !(plan->silence_s >= 0)) return fail(why, "times must not be negative");
    const ranks like = {.count = plan->count,
                        .timeout_s = plan->timeout_s > 0 ? plan->timeout_s : usual_timeout_s,
                        .silence_s = plan->silence_s > 0 ? plan->silence_s : usual_silence_s};
    if (plan->kind == RANKS_PROCESSES) return ranks_run_processes(plan, &like, body, context, why);
    if (plan->kind == RANKS_LAUNCHED) return ranks_run_launched(plan, &like, body, context, why);
    thread_rank *const members = calloc((size_t)plan->count, sizeof *members);
    if (!members) return fail(why, "no memory for %d ranks", plan->count);
    for (int r = 0; r < plan->count; r++)
        members[r].plan = plan, members[r].body = body, members[r].context = context;
    const bool good = run_threads(plan, &like, members, why);
    free(members);
    return good;
}
