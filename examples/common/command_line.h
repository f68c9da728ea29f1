// SPDX-License-Identifier: MIT
// What the commands of the example programs share: how a command line is read, how failures are told. A
// command takes argv from its own name on and returns the program's exit code.
#ifndef COMMON_COMMAND_LINE_H
#define COMMON_COMMAND_LINE_H

#include "fault.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EXIT_USAGE = 2 }; // beside EXIT_SUCCESS and EXIT_FAILURE

// True if the command is to go on; else (help was asked for, or the line is wrong and stderr says how)
// *exit_code is what it returns. positional: room for command->max_positional, which no command needs
// counted.
bool read_command_line(const command_spec *command, int argc, char **argv, const char **positional,
                       int *exit_code);

// Print what went wrong on stderr and return the exit code: of a failure of the program of that name, and of
// a command line that the command refused after it was read.
int report_failure(const char *program, const fault *why);
int report_misuse(const command_spec *command, const fault *why);

// "R,G,B", each 0..1.
bool parse_color(const char *text, float color[3], fault *why);
// Fails if both paths (NULL: there is none) name one file: one would take the other's place. a_is, b_is: what
// they are called.
bool are_two_files(const char *a_is, const char *a, const char *b_is, const char *b, fault *why);
// Fails unless a file could be put at `path`: asked before long work, so that its result is not lost. Removes
// what programs that were killed left beside it.
bool output_is_possible(const char *path, fault *why);

// The option --json: a path, "-" for stdout, or NULL.
#define JSON_HELP "write the numbers to this file as JSON; -: to stdout, instead of the table"
bool json_is_stdout(const char *path);
bool json_is_possible(const char *path, fault *why); // as output_is_possible; NULL and "-" are

#ifdef __cplusplus
}
#endif
#endif
