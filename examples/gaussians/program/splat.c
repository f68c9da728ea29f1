// SPDX-License-Identifier: MIT
// splat: trains, renders and measures scenes of 3D Gaussians.
#include "command.h"
#include "gs.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"train", "photographs with cameras -> a scene of Gaussians", train_command},
    {"render", "one view of a scene -> a picture", render_command},
    {"eval", "how close a scene comes to photographs: PSNR, SSIM", eval_command},
    {"bench", "what each stage costs on a scene, with every strategy", bench_command},
    {"info", "what is in a scene's file", info_command},
    {"generate", "pictures of a built-in scene, as data to train on", generate_command},
    {"demo", "train a built-in scene; needs no files", demo_command},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *stream) {
    fprintf(stream, "usage: splat COMMAND [arguments]\n\nCommands:\n");
    for (int i = 0; i < COMMANDS; i++) fprintf(stream, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fprintf(stream, "\n'splat COMMAND --help' says more; 'splat --version' names version and backend.\n"
                    "\nExamples:\n"
                    "  splat demo -o demo\n"
                    "  splat train data/fern -o fern.ply --downscale 4\n"
                    "  splat render fern.ply -o fern.png --cameras data/fern --view 0 --photo\n"
                    "  splat eval fern.ply --cameras data/fern --downscale 4\n"
                    "  splat bench fern.ply --cameras data/fern --downscale 4 --json fern-bench.json\n"
                    "  splat info fern.ply\n");
}

static int run_command(int argc, char **argv) {
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(argv[0], commands[i].name) == 0) return commands[i].run(argc, argv);
    fprintf(stderr, "splat: there is no command '%s'\n\n", argv[0]);
    print_usage(stderr);
    return EXIT_USAGE;
}

// What was printed and did not reach its end, on a full disk say, is a failure.
static int with_stdout_written(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    fprintf(stderr, "splat: cannot write to stdout: %s\n", strerror(errno));
    return code == EXIT_SUCCESS ? EXIT_FAILURE : code;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    bool help = strcmp(argv[1], "help") == 0;
    if (help && argc == 3) return run_command(2, (char *[]){argv[2], "--help"});
    if (help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("splat %s (%s)\n", gs_version(), gs_backend());
        return EXIT_SUCCESS;
    }
    return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    return with_stdout_written(run(argc, argv));
}
