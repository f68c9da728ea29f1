// SPDX-License-Identifier: MIT
#include "record/signals.h"
#include <stddef.h>
#include <sys/mman.h>

static const int stop_signals[2] = {SIGINT, SIGTERM};
static struct sigaction stop_before[2];

typedef struct stop_request {
    volatile sig_atomic_t signal, followed;
} stop_request;
static stop_request of_process;
static stop_request *stop = &of_process;

static void request_stop(int number) {
    stop->signal = number;
}

bool stop_request_share(void) {
    stop_request *const shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return false;
    stop = shared;
    return true;
}

void stop_request_begin(void) {
    stop->signal = stop->followed = 0;
    struct sigaction action = {.sa_handler = request_stop, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 2; i++) sigaction(stop_signals[i], &action, &stop_before[i]);
}

int stop_request_end(void) {
    for (int i = 0; i < 2; i++) sigaction(stop_signals[i], &stop_before[i], NULL);
    const int number = stop->signal;
    if (stop != &of_process) munmap(stop, sizeof *stop);
    stop = &of_process;
    return number;
}

const volatile sig_atomic_t *stop_request_flag(void) {
    return &stop->signal;
}

void stop_request_make(void) {
    request_stop(SIGINT);
}

void stop_request_follow(void) {
    stop->followed = 1;
}

bool stop_request_was_followed(void) {
    return stop->followed != 0;
}

static struct sigaction pipe_before;
static int pipe_depth;

void broken_pipes_begin(void) {
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (pipe_depth++ == 0) sigaction(SIGPIPE, &ignore, &pipe_before);
}

void broken_pipes_end(void) {
    if (--pipe_depth == 0) sigaction(SIGPIPE, &pipe_before, NULL);
}
