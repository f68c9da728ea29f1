// SPDX-License-Identifier: MIT
// Shared by the commands of the example programs: reading a command line and reporting failures. A command
// takes argv from its own name on and returns the exit code of the program.
#pragma once

#include "files/fault.h"
#include "options.h"

C_LINKAGE_BEGIN

enum { EXIT_USAGE = 2 }; // beside EXIT_SUCCESS and EXIT_FAILURE

// True if the command should go on. False if --help was given or the line is wrong, which stderr reports; the
// command then returns *exit_code. positional: room for the most arguments of the command.
bool read_command_line(const command_spec *command, int argc, char **argv, const char **positional,
                       int *exit_code);

// Both print the message on stderr and return the exit code. report_failure: the program failed.
// report_misuse: the command refuses the command line.
int report_failure(const char *program, const fault *why);
int report_misuse(const command_spec *command, const fault *why);

// "R,G,B", each 0..1.
bool parse_color(const char *text, float color[3], fault *why);
// Fails if both paths name one file, which would overwrite one of the two. NULL: no path. a_is, b_is: names
// for the message.
bool are_two_files(const char *a_is, const char *a, const char *b_is, const char *b, fault *why);
// Fails unless a file can be written at `path`. Call it before long work whose result goes there. Removes
// temporary files that killed programs left for the path.
bool output_is_possible(const char *path, fault *why);

// The option --json: a path, "-" for stdout, or NULL.
#define JSON_OPTION(at)                                                                                      \
    OPTION("json", at, .help = "write the numbers to this file as JSON; -: to stdout, instead of the table")
bool json_is_stdout(const char *path);
bool json_is_possible(const char *path, fault *why); // as output_is_possible; NULL and "-" are

C_LINKAGE_END
