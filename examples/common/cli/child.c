// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // pipe2, strcasestr
#include "child.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 512, LOOK_EVERY = 100 }; // bytes; ms

typedef struct reading {
    const child_program *program;
    char line[LINE], last[LINE];
    size_t length;
    bool has_error; // the last line kept has
} reading;

static void end_line(reading *r) {
    r->line[r->length] = '\0';
    if (r->length == 0) return;
    r->length = 0;
    if (r->program->line) r->program->line(r->program->context, r->line);
    // "Check failed" is of glog, before a trace of the stack.
    const bool error = strcasestr(r->line, "error") || strstr(r->line, "Check failed");
    if (r->has_error && !error) return;
    r->has_error = error;
    memcpy(r->last, r->line, LINE);
}

// Until the output ends, or a stop. The child is the leader of a group of processes.
static void read_output(reading *r, int from, pid_t child) {
    char bytes[4096];
    struct pollfd wait = {.fd = from, .events = POLLIN};
    for (;;) {
        if (r->program->stop && *r->program->stop) {
            kill(-child, SIGKILL);
            return;
        }
        if (poll(&wait, 1, LOOK_EVERY) <= 0) continue;
        const ssize_t got = read(from, bytes, sizeof bytes);
        if (got == 0 || (got < 0 && errno != EINTR)) break;
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] == '\n' || bytes[i] == '\r') // progress bars end a line by a carriage return
                end_line(r);
            else if (r->length < LINE - 1)
                r->line[r->length++] = bytes[i];
        }
    }
    end_line(r);
}

enum { CANNOT_START = 126, NOT_INSTALLED = 127 }; // codes as a shell has them

// In the child.
static void become(const child_program *program, int output) {
    const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // where a signal ends this program without a chance to stop the child
    if (input >= 0 && dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
        dup2(output, STDERR_FILENO) >= 0)
        execvp(program->argv[0], (char *const *)(uintptr_t)program->argv);
    if (errno == ENOENT) _exit(NOT_INSTALLED);
    dprintf(output, "cannot start: %s\n", strerror(errno));
    _exit(CANNOT_START);
}

bool child_run(const child_program *program, fault *why) {
    const char *const *const argv = program->argv, *const name = argv[0],
                             *const what = argv[1] && argv[1][0] != '-' ? argv[1] : "";
    reading r = {.program = program};
    int output[2], status = 0;
    if (pipe2(output, O_CLOEXEC) != 0) return fail(why, "%s: no pipe: %s", name, strerror(errno));
    const pid_t child = fork();
    if (child == 0) become(program, output[1]);
    if (child < 0) fail(why, "%s: cannot start: %s", name, strerror(errno));
    close(output[1]);
    if (child > 0) {
        setpgid(child, child); // the first of both that comes to it does it
        read_output(&r, output[0], child);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    }
    close(output[0]);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (child < 0 || code == 0) return child > 0;
    if (program->stop && *program->stop) return fail(why, "%s is stopped by a signal", name);
    if (code < 0) return fail(why, "%s %s was killed by signal %d: %s", name, what, WTERMSIG(status), r.last);
    if (code == NOT_INSTALLED && !*r.last)
        return fail(why, "%s is not installed: %s", name, program->install);
    return fail(why, "%s %s ended with code %d: %s", name, what, code, r.last);
}
