// SPDX-License-Identifier: MIT
#include "command_line.h"
#include "files/output_file.h"
#include "files/path.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int report_failure(const char *program, const fault *why) {
    fprintf(stderr, "%s: %s\n", program, why->text);
    return EXIT_FAILURE;
}

bool read_command_line(const command_spec *command, int argc, char **argv, const char **positional,
                       int *exit_code) {
    fault why;
    int count;
    switch (options_parse(command, argc, argv, positional, &count, &why)) {
    case OPTIONS_OK:
        return true;
    case OPTIONS_HELP:
        *exit_code = EXIT_SUCCESS;
        break;
    case OPTIONS_USAGE_ERROR:
        fprintf(stderr, "%s\n", why.text);
        *exit_code = EXIT_USAGE;
        break;
    }
    return false;
}

int report_misuse(const command_spec *command, const fault *why) {
    fprintf(stderr, "%s: %s; see '%s --help'\n", command->name, why->text, command->name);
    return EXIT_USAGE;
}

bool parse_color(const char *text, float color[3], fault *why) {
    const char *rest = text;
    for (int channel = 0; channel < 3; channel++) {
        char *end;
        double value = strtod(rest, &end);
        char expected = channel < 2 ? ',' : '\0';
        if (end == rest || *end != expected || !(value >= 0 && value <= 1))
            return fail(why, "'%s' is not a colour; write R,G,B with each from 0 to 1", text);
        color[channel] = (float)value;
        rest = end + 1;
    }
    return true;
}

bool are_two_files(const char *a_is, const char *a, const char *b_is, const char *b, fault *why) {
    if (!a || !b || !path_is_one_file(a, b)) return true;
    return fail(why, "%s and %s name one file, %s", a_is, b_is, a);
}

bool output_is_possible(const char *path, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    output_file_remove_stale(&file);
    output_file_discard(&file);
    return true;
}

bool json_is_stdout(const char *path) {
    return path && strcmp(path, "-") == 0;
}

bool json_is_possible(const char *path, fault *why) {
    return !path || json_is_stdout(path) || output_is_possible(path, why);
}
