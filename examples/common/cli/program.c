// SPDX-License-Identifier: MIT
#include "program.h"
#include "command_line.h"
#include "describe.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef DISTWAR_SIMT
static const char backend[] = "simt";
#else
static const char backend[] = "cuda";
#endif

static void print_usage(const program_spec *program, FILE *stream) {
    fprintf(stream, "usage: %s COMMAND [arguments]\n\nCommands:\n", program->name);
    for (const program_command *c = program->commands; c->name; c++)
        fprintf(stream, "  %-8s %s\n", c->name, c->summary);
    fprintf(stream,
            "\n'%s COMMAND --help' says more; '%s --version' names version and backend.\n\nExamples:\n%s",
            program->name, program->name, program->examples);
}

static int run_command(const program_spec *program, int argc, char **argv) {
    for (const program_command *c = program->commands; c->name; c++)
        if (strcmp(argv[0], c->name) == 0) return c->run(argc, argv);
    fprintf(stderr, "%s: there is no command '%s'\n\n", program->name, argv[0]);
    print_usage(program, stderr);
    return EXIT_USAGE;
}

static int run(const program_spec *program, int argc, char **argv) {
    if (argc < 2) {
        print_usage(program, stderr);
        return EXIT_USAGE;
    }
    bool help = strcmp(argv[1], "help") == 0;
    if (help && argc == 3) return run_command(program, 2, (char *[]){argv[2], "--help"});
    if (help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(program, stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("%s %s (%s)\n", program->name, program->version, backend);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--describe") == 0 && argc == 3 && describe_program(program, argv[2]))
        return EXIT_SUCCESS;
    return run_command(program, argc - 1, argv + 1);
}

// If a standard stream is closed, the next file to be opened would get its number, and messages would go into
// that file. This opens a file in its place to which writing fails.
static void keep_standard_streams(void) {
    int file = open("/dev/null", O_RDONLY);
    while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDONLY);
    if (file >= 0) close(file);
}

int program_run(const program_spec *program, int argc, char **argv) {
    keep_standard_streams();
    int code = run(program, argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    fprintf(stderr, "%s: cannot write to stdout: %s\n", program->name, strerror(errno));
    return code == EXIT_SUCCESS ? EXIT_FAILURE : code;
}
