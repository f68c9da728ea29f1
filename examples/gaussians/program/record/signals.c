// SPDX-License-Identifier: MIT
#include "record/signals.h"
#include <stddef.h>

static const int stop_signals[2] = {SIGINT, SIGTERM};
static struct sigaction stop_before[2];

static volatile sig_atomic_t stop_signal;

static void request_stop(int number) {
    stop_signal = number;
}

void stop_request_begin(void) {
    stop_signal = 0;
    struct sigaction action = {.sa_handler = request_stop, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 2; i++) sigaction(stop_signals[i], &action, &stop_before[i]);
}

int stop_request_end(void) {
    for (int i = 0; i < 2; i++) sigaction(stop_signals[i], &stop_before[i], NULL);
    return stop_signal;
}

const volatile sig_atomic_t *stop_request_flag(void) {
    return &stop_signal;
}

void stop_request_make(void) {
    request_stop(SIGINT);
}

static struct sigaction pipe_before;

void broken_pipes_begin(void) {
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, &pipe_before);
}

void broken_pipes_end(void) {
    sigaction(SIGPIPE, &pipe_before, NULL);
}
