// SPDX-License-Identifier: MIT
// A program of several commands: `NAME COMMAND [arguments]`, with help and version; `NAME --describe FORM` is for
// the build (describe.h).
#pragma once

#include "c_linkage.h"

C_LINKAGE_BEGIN

typedef struct program_command {
    const char *name, *summary;
    int (*run)(int argc, char **argv); // argv[0] is the command's name; returns the exit code
} program_command;

typedef struct program_spec {
    const char *name, *version, *summary;
    const program_command *commands; // ends with a row without a name
    const char *examples;            // lines
} program_spec;

// Returns the exit code of main. Also checks that stdout was written without an error.
int program_run(const program_spec *program, int argc, char **argv);

C_LINKAGE_END
