// SPDX-License-Identifier: MIT
// cubemap: fits the surroundings that a mesh mirrors, the third workload of the DISTWAR paper.
#include "commands.h"
#include "cli/program.h"
#include <stddef.h>

static const program_command commands[] = {
    {"train", "fit a cubemap to pictures of a mesh that mirrors it", train_command},
    {"render", "one view of the mesh in the surroundings or in a trained cubemap -> a picture",
     render_command},
    {"bench", "measure the adjoint with every strategy and threshold", bench_command},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv) {
    const program_spec program = {"cubemap", "fits the surroundings that a mesh mirrors", commands,
                                  "  cubemap train -o out\n"
                                  "  cubemap render out/faces.png -o view.png --mesh torus\n"
                                  "  cubemap bench --mesh bumpy --size 1024 --json cubemap.json\n"};
    return program_run(&program, argc, argv);
}
