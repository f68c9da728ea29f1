// SPDX-License-Identifier: MIT
// Programs of several commands, `NAME COMMAND [arguments]`, with help and version, and their command lines: a table of
// options, "--name value" and "-x value", from which --help, man page and completions follow.
#pragma once

#include "files/path.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

// ---- options

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
// Whether the same option has another value in another table.
bool option_differs(const option_spec *option, const option_spec *other);
// Sets an option that is no flag.
bool option_set(const option_spec *option, const char *text, fault *why);

// ---- a command: it takes argv from its own name on and returns the exit code of the program

enum { EXIT_USAGE = 2 }; // beside EXIT_SUCCESS and EXIT_FAILURE

typedef struct command_spec {
    const char *name;      // "dsplat train"
    const char *arguments; // "DATA -o OUT.ply [options]"
    const char *summary;
    const char *examples; // lines at the end of --help; NULL: none
    const option_spec *options;
    int positional, most_positional; // the least and the most arguments; most 0: as many as the least
    int groups; // --help prints the options of so many groups, --help all those of all; 0: --help prints all
} command_spec;

// Reads the options behind argv[0]. Positional arguments go to positional[0], ..., which has room for the most. True: the
// command goes on. False: the command returns *exit_code. stdout then has the help that --help asks for, or stderr says
// what is wrong with the line.
bool read_command_line(const command_spec *command, int argc, char **argv, const char **positional,
                       int *exit_code);

// Both print the message on stderr and return the exit code. report_failure: the program failed.
// report_misuse: the command refuses the command line.
int report_failure(const char *program, const fault *why);
int report_misuse(const command_spec *command, const fault *why);

// "R,G,B", each 0..1.
bool parse_color(const char *text, float color[3], fault *why);
// Fails unless a file can be written at `path`: call it before long work whose result goes there. Removes temporary files
// that killed programs left for the path.
bool output_is_possible(const char *path, fault *why);

// The option --json: a path, "-" for stdout, or NULL.
#define JSON_OPTION(at)                                                                                      \
    OPTION("json", at, .help = "write the numbers to this file as JSON; -: to stdout, instead of the table")
bool json_is_stdout(const char *path);
bool json_is_possible(const char *path, fault *why); // as output_is_possible; NULL and "-" are

// ---- a program

typedef struct program_command {
    const char *name, *summary;
    int (*run)(int argc, char **argv); // argv[0] is the command's name; returns the exit code
} program_command;

typedef struct program_spec {
    const char *name, *version, *summary;
    const program_command *commands; // ends with a row without a name
    const char *examples;            // lines
} program_spec;

// Returns the exit code of main. Also checks that stdout was written without an error. `NAME --describe FORM`, for the
// build, prints the commands and options in the form "man" or "bash": a man page, or completions.
int program_run(const program_spec *program, int argc, char **argv);

C_LINKAGE_END
