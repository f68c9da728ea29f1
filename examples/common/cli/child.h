// SPDX-License-Identifier: MIT
// Runs another program, without a shell.
#pragma once

#include "files/fault.h"
#include <signal.h>

C_LINKAGE_BEGIN

typedef struct child_program {
    const char *const *argv; // ends with NULL; argv[0] is looked up on PATH
    const char *install;     // where the program comes from, for the message where it is missing
    // Each line of its stdout and stderr, without the end, cut to fit; NULL: nobody looks at them.
    void (*line)(void *context, const char *line);
    void *context;
    // A value other than 0 kills the program and all that it has started. NULL: nothing does.
    const volatile sig_atomic_t *stop;
} child_program;

// Runs the program with an empty stdin, and waits for its end. Fails if it is missing, ends with a code other than 0, or is
// killed. The message says which, with the last line of the output that has an error; without one, with the last line.
bool child_run(const child_program *program, fault *why);

C_LINKAGE_END
