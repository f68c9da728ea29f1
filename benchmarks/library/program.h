// SPDX-License-Identifier: MIT
// What flush and threshold share as programs: their arguments, a failure's text, the file of their numbers.
#ifndef BENCHMARKS_PROGRAM_H
#define BENCHMARKS_PROGRAM_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>

struct fault {
    char text[256];
};

// Writes the text and returns false.
__attribute__((format(printf, 2, 3))) inline bool fail(fault *why, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(why->text, sizeof why->text, format, values);
    va_end(values);
    return false;
}

struct arguments {
    int runs;
    std::string path; // of the JSON
    FILE *json;       // path.tmp, open; NULL without --json
};

// [--repeat N] [--json FILE]; `runs` is the N without --repeat. Ends the program with 2 on anything else, with 1 if
// the file cannot be written.
inline arguments read_arguments(int argc, char **argv, int runs) {
    arguments given = {runs, {}, nullptr};
    bool known = argc % 2 == 1;
    for (int i = 1; known && i < argc; i += 2) {
        char *end = argv[i + 1] + strlen(argv[i + 1]);
        if (strcmp(argv[i], "--json") == 0)
            given.path = argv[i + 1];
        else if (strcmp(argv[i], "--repeat") == 0)
            given.runs = int(strtol(argv[i + 1], &end, 10));
        else
            known = false;
        known = known && *argv[i + 1] && !*end;
    }
    if (!known || given.runs < 1 || given.runs > 10000) {
        fprintf(stderr, "usage: %s [--repeat N] [--json FILE], N from 1 to 10000\n", argv[0]);
        exit(2);
    }
    if (given.path.empty()) return given;
    given.json = fopen((given.path + ".tmp").c_str(), "w");
    if (!given.json) {
        perror(given.path.c_str());
        exit(EXIT_FAILURE);
    }
    return given;
}

// Gives the file its name, or removes it if the program failed, and returns the exit code.
inline int end_program(const arguments &given, bool done, fault *why) {
    const std::string temporary = given.path + ".tmp";
    if (given.json) {
        const bool written = !ferror(given.json);
        if (fclose(given.json) != 0 || !written ||
            (done && rename(temporary.c_str(), given.path.c_str()) != 0))
            done = fail(why, "%s: cannot write", given.path.c_str());
        if (!done) remove(temporary.c_str());
    }
    if (!done) fprintf(stderr, "%s\n", why->text);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
