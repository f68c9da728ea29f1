// SPDX-License-Identifier: MIT
// spheres: a differentiable renderer of spheres, the second workload of the DISTWAR paper.
#include "commands.h"
#include "cli/program.h"
#include <stddef.h>

static const program_command commands[] = {
    {"train", "fit disturbed spheres to pictures of a data set", train_command},
    {"render", "one view of a data set or of trained spheres -> a picture", render_command},
    {"bench", "measure the adjoint with every strategy and threshold", bench_command},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv) {
    const program_spec program = {"spheres", "fits spheres to pictures", commands,
                                  "  spheres train -o out\n"
                                  "  spheres render out/spheres.txt -o view.png --view 3\n"
                                  "  spheres bench --data large --json spheres.json\n"};
    return program_run(&program, argc, argv);
}
