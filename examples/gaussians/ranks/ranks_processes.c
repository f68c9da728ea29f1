// SPDX-License-Identifier: MIT
// Ranks as processes of this host: forks them, passes their news on, and sees them end.
#include "board_link.h"
#include "board_server.h"
#include "transport.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- in a rank ----

static board own_board;
static board_link *own_link;

_Noreturn static void end_rank(void) {
    board_link_close(own_link);
    fflush(NULL);
    _exit(board_has_failed(&own_board) ? EXIT_FAILURE : EXIT_SUCCESS); // not the caller's exit handlers
}

static void end_late(void *context) {
    (void)context;
    _exit(EXIT_FAILURE);
}

_Noreturn static void be_rank(ranks *group, const ranks_plan *plan, int socket, ranks_body body,
                              void *context) {
    fault why;
    own_board = (board){0};
    group->board = &own_board;
    const board_link_plan link = {.board = &own_board,
                                  .rank = group->own,
                                  .socket = socket,
                                  .silence_s = group->silence_s,
                                  .grace_s = ranks_grace(group),
                                  .late = end_late};
    own_link = board_link_open(&link, &why);
    if (!own_link) _exit(EXIT_FAILURE);
    ranks_own_process(group, end_rank);
    if (ranks_set_device(group, group->own, plan->devices) && nccl_join(group, plan->nccl) &&
        ranks_run_body(group, body, context))
        nccl_leave(group);
    end_rank();
}

// ---- in the process that has started them ----

typedef struct started {
    board_server server;
    pid_t pid[RANKS_MAX]; // 0: has ended
} started;

static bool start_rank(started *all, ranks *group, const ranks_plan *plan, ranks_body body, void *context) {
    const pid_t parent = getpid();
    int ends[2];
    char text[128];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
        const pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _exit(EXIT_FAILURE);
            close(ends[0]);
            board_server_close(&all->server); // its connections to the ranks before
            be_rank(group, plan, ends[1], body, context);
        }
        close(ends[1]);
        if (pid > 0) {
            all->pid[group->own] = pid;
            board_server_add(&all->server, group->own, ends[0]);
            return true;
        }
        close(ends[0]);
    }
    snprintf(text, sizeof text, "no process can be started for it: %s", strerror(errno));
    board_fail(&all->server.board, group->own, text);
    return false;
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

// Until all have ended.
static void watch(started *all, const ranks *like) {
    board_server *const server = &all->server;
    const double grace_s = ranks_grace(like);
    double failed_at = 0;
    for (int running = like->count; running > 0;) {
        board_server_step(server, 2);
        running = 0;
        for (int r = 0; r < like->count; r++) {
            int status = 0;
            if (all->pid[r] == 0) continue;
            const pid_t ended = waitpid(all->pid[r], &status, WNOHANG);
            if (ended == 0 || (ended < 0 && errno == EINTR)) {
                running++;
                continue;
            }
            all->pid[r] = 0;
            if (ended < 0) continue;
            board_server_step(server, 0); // what it has told last
            tell_end(&server->board, r, status);
        }
        if (!board_has_failed(&server->board)) continue;
        if (failed_at == 0) failed_at = seconds_now();
        const bool over = seconds_now() > failed_at + grace_s;
        for (int r = 0; r < like->count; r++) // one that is silent does not end by itself
            if (all->pid[r] > 0 && (over || server->members[r].silent_s > server->silence_s))
                kill(all->pid[r], SIGKILL);
    }
}

bool ranks_run_processes(const ranks_plan *plan, const ranks *like, ranks_body body, void *context,
                         fault *why) {
    started *const all = calloc(1, sizeof *all);
    if (!all) return fail(why, "no memory for %d ranks", plan->count);
    board_server_open(&all->server, plan->count, -1);
    all->server.timeout_s = like->timeout_s, all->server.silence_s = like->silence_s;
    fflush(NULL); // else each rank would write what is left in the buffers
    ranks group = *like;
    for (group.own = 0; group.own < plan->count; group.own++)
        if (!start_rank(all, &group, plan, body, context)) break;
    watch(all, like);
    const bool failed = board_has_failed(&all->server.board);
    if (failed) board_describe(&all->server.board, why);
    board_server_close(&all->server);
    free(all);
    return !failed;
}
