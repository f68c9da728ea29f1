// SPDX-License-Identifier: MIT
// Starts ranks and sees them end.
#include "transport.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double usual_timeout_s = 40;
static const double most_grace_s =
    15; // from the first failure until the ranks that have not ended are killed

static bool set_device(ranks *group, int devices) {
    int present = 0;
    RANKS_CUDA(cudaGetDeviceCount(&present));
    const int device = devices > 0 ? group->own % devices : group->own;
    if (device >= present)
        return ranks_fail(group, "%d ranks need %d GPUs, this host has %d", group->count,
                          devices > 0 ? devices : group->count, present);
    RANKS_CUDA(cudaSetDevice(device));
    return true;
}

static bool run_body(ranks *group, ranks_body body, void *context) {
    const bool good = body(group, context);
    if (good) return true;
    if (!board_has_failed(group->board)) ranks_fail(group, "its work has failed");
    return false;
}

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
    if (set_device(&self->group, self->plan->devices > 0 ? self->plan->devices : 1))
        run_body(&self->group, self->body, self->context);
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

// ---- processes ----

static void process_main(ranks *group, const ranks_plan *plan, ranks_body body, void *context) {
    const bool good =
        set_device(group, plan->devices) && nccl_join(group, plan->nccl) && run_body(group, body, context);
    if (good) nccl_leave(group);
    fflush(NULL);
    _exit(good && !board_has_failed(group->board) ? EXIT_SUCCESS
                                                  : EXIT_FAILURE); // not the caller's exit handlers
}

// Tells the board how a process has ended, unless it ended well.
static void tell_end(board *shared, int rank, int status) {
    char text[128];
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        snprintf(text, sizeof text, "has ended with exit code %d", WEXITSTATUS(status));
    else
        return;
    board_fail(shared, rank, text);
}

// Until all have ended. pid: 0 for those that have.
static void watch(board *shared, pid_t *pid, const ranks *like) {
    const int count = like->count;
    const double grace_s = like->timeout_s < most_grace_s ? like->timeout_s : most_grace_s;
    const struct timespec pause = {0, 2000000};
    double failed_at = 0;
    for (int running = count; running > 0;) {
        running = 0;
        for (int r = 0; r < count; r++) {
            int status = 0;
            if (pid[r] == 0) continue;
            const pid_t ended = waitpid(pid[r], &status, WNOHANG);
            if (ended == 0 || (ended < 0 && errno == EINTR)) {
                running++;
                continue;
            }
            if (ended > 0) tell_end(shared, r, status);
            pid[r] = 0;
        }
        if (board_has_failed(shared)) {
            if (failed_at == 0) failed_at = ranks_seconds();
            for (int r = 0; r < count && ranks_seconds() > failed_at + grace_s; r++)
                if (pid[r] > 0) kill(pid[r], SIGKILL);
        }
        if (running > 0) nanosleep(&pause, NULL);
    }
}

static bool run_processes(const ranks_plan *plan, const ranks *like, ranks_body body, void *context,
                          fault *why) {
    board *const shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return fail(why, "no memory that %d ranks share: %s", plan->count, strerror(errno));
    pid_t pid[RANKS_MAX] = {0};
    const pid_t parent = getpid();
    fflush(NULL); // else each rank would write what is left in the buffers
    for (int r = 0; r < plan->count; r++) {
        pid[r] = fork();
        if (pid[r] == 0) {
            ranks group = *like;
            group.own = r;
            group.board = shared;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _exit(EXIT_FAILURE);
            process_main(&group, plan, body, context);
        }
        if (pid[r] > 0) continue;
        char text[128];
        snprintf(text, sizeof text, "no process can be started for it: %s", strerror(errno));
        pid[r] = 0;
        board_fail(shared, r, text);
        break;
    }
    watch(shared, pid, like);
    const bool failed = board_has_failed(shared);
    if (failed) board_describe(shared, why);
    munmap(shared, sizeof *shared);
    return !failed;
}

bool ranks_run(const ranks_plan *plan, ranks_body body, void *context, fault *why) {
    if (plan->count < 1 || plan->count > RANKS_MAX) return fail(why, "ranks must be in 1..%d", RANKS_MAX);
    if (!(plan->timeout_s >= 0)) return fail(why, "the timeout must not be negative");
    const ranks like = {.count = plan->count,
                        .timeout_s = plan->timeout_s > 0 ? plan->timeout_s : usual_timeout_s};
    if (plan->kind == RANKS_PROCESSES) return run_processes(plan, &like, body, context, why);
    thread_rank *const members = calloc((size_t)plan->count, sizeof *members);
    if (!members) return fail(why, "no memory for %d ranks", plan->count);
    for (int r = 0; r < plan->count; r++)
        members[r].plan = plan, members[r].body = body, members[r].context = context;
    const bool good = run_threads(plan, &like, members, why);
    free(members);
    return good;
}
