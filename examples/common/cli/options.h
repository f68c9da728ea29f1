// SPDX-License-Identifier: MIT
// Parses command lines with a table of options: "--name value" and "-x value". Prints --help, refuses bad
// numbers.
#pragma once

#include "files/fault.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

typedef enum option_kind {
    OPTION_END,   // the last row of a table
    OPTION_FLAG,  // bool *: --name sets it, --no-name clears it
    OPTION_INT,   // int64_t *, minimum..maximum
    OPTION_REAL,  // double *, minimum..maximum, finite
    OPTION_TEXT,  // const char **
    OPTION_CHOICE // int *: index into `choices`, which ends with NULL
} option_kind;

typedef struct option_spec {
    option_kind kind;
    const char *name; // without the dashes
    char letter;      // a one-letter form, or 0
    void *value;      // where the value goes; its value before parsing is the default
    double minimum, maximum;
    const char *const *choices;
    const char *help;    // one clause; --help adds range and default, and wraps it
    bool free_on_resume; // a run that a program resumes may have another value; see that program
    bool automatic;      // a number: the word "auto" stands for the minimum
    const char *group;   // the heading above it in --help; NULL: that of the row before
} option_spec;

// A row in C. The type of `at` gives its kind. The rest are members by name:
//   OPTION("size", &size, .minimum = 1, .maximum = 64, .help = "of a picture")
#define OPTION(option, at, ...)                                                                              \
    { .name = (option), .value = (at), .kind = OPTION_KIND(at), __VA_ARGS__ }
#define OPTION_KIND(at)                                                                                      \
    _Generic((at),                                                                                           \
        bool *: OPTION_FLAG,                                                                                 \
        int64_t *: OPTION_INT,                                                                               \
        double *: OPTION_REAL,                                                                               \
        const char **: OPTION_TEXT,                                                                          \
        int *: OPTION_CHOICE)
#define OUTPUT_OPTION(at, ...) OPTION("output", at, .letter = 'o', __VA_ARGS__)
#define OPTIONS_END                                                                                          \
    { .kind = OPTION_END }

enum { OPTION_ROOM = 128 };

// A table that several functions add to. Starts as {0}; rows[count] is always its end.
typedef struct option_table {
    int count;
    option_spec rows[OPTION_ROOM + 1];
} option_table;

// rows: end with OPTIONS_END. At most OPTION_ROOM in all.
void option_table_add(option_table *table, const option_spec *rows);
// With a heading for --help.
void option_table_add_group(option_table *table, const char *heading, const option_spec *rows);

// The value of a flag ("yes", "no"), a choice or a text. NULL: the option has a number, or was not given.
const char *option_text(const option_spec *option);

typedef struct command_spec {
    const char *name;      // "dsplat train"
    const char *arguments; // "DATA -o OUT.ply [options]"
    const char *summary;
    const char *examples; // lines at the end of --help; NULL: none
    const option_spec *options;
    int positional, most_positional; // the least and the most arguments; most 0: as many as the least
    int groups; // --help prints the options of so many groups, --help all those of all; 0: --help prints all
} command_spec;

typedef enum options_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_USAGE_ERROR } options_result;

// argv[0] is not read. Positional arguments go to positional[0 .. *positional_count - 1]; it has room for
// the most. OPTIONS_HELP: --help or --help all was given and the help printed to stdout; exit with 0.
// OPTIONS_USAGE_ERROR: `why` holds the message; exit with 2.
options_result options_parse(const command_spec *command, int argc, char **argv, const char **positional,
                             int *positional_count, fault *why);

// Prints the help of a command, wrapped at the terminal's width, or at COLUMNS; describe.h puts another form in its place.
extern void (*options_help)(const command_spec *command, bool all);
// "no-" of a flag that is set, as --help and completions offer what changes it; else "".
const char *option_prefix(const option_spec *option);
// "-o, --output TEXT", with blanks where there is no letter. Returns the length.
int option_usage(const option_spec *option, char *text, size_t room);
// " (range or choices; default)", or "".
void option_note(const option_spec *option, char *text, size_t room);

C_LINKAGE_END
