// SPDX-License-Identifier: MIT
// Parses command lines with a table of options: "--name value" and "-x value". Prints --help, refuses bad
// numbers.
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include "fault.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum option_kind {
    OPTION_FLAG,   // bool *
    OPTION_INT,    // int64_t *, minimum..maximum
    OPTION_REAL,   // double *, minimum..maximum, finite
    OPTION_TEXT,   // const char **
    OPTION_CHOICE, // int *: index into `choices`, which ends with NULL
    OPTION_END     // the last row of the table
} option_kind;

typedef struct option_spec {
    option_kind kind;
    const char *name; // without the dashes
    char letter;      // a one-letter form, or 0
    void *value;      // where the value goes; its value before parsing is the default
    double minimum, maximum;
    const char *const *choices;
    const char *help; // one line; --help adds the default
} option_spec;

typedef struct command_spec {
    const char *name;      // "splat train"
    const char *arguments; // "DATA -o OUT.ply [options]"
    const char *summary;
    const char *examples; // lines at the end of --help; NULL: none
    const option_spec *options;
    int min_positional, max_positional;
} command_spec;

typedef enum options_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_USAGE_ERROR } options_result;

// argv[0] is not read. Positional arguments go to positional[0 .. *positional_count - 1]; it has room for
// max_positional. OPTIONS_HELP: --help was given and the help printed to stdout; exit with 0.
// OPTIONS_USAGE_ERROR: `why` holds the message; exit with 2.
options_result options_parse(const command_spec *command, int argc, char **argv, const char **positional,
                             int *positional_count, fault *why);

#ifdef __cplusplus
}
#endif
#endif
