// SPDX-License-Identifier: MIT
// dsplat: trains, renders and measures scenes of 3D Gaussians.
#include "commands/command.h"
#include "cli/command_line.h"
#include "device.h"
#include "distwar_gs.h"
#include <jansson.h>
#include <stdlib.h>

static const program_command commands[] = {
    {"poses", "photographs -> photographs with cameras, by COLMAP", poses_command},
    {"train", "photographs with cameras -> a scene of Gaussians", train_command},
    {"finish", "experimental: a few steps of Levenberg-Marquardt on a trained scene", finish_command},
    {"render", "a scene -> a picture of one view, or a flight through it", render_command},
    {"export", "a scene -> a page that shows it in a browser", export_command},
    {"view", "a scene -> that page from a server on this machine", view_command},
    {"convert", "scenes -> one scene, in another format, pruned, cropped or moved", convert_command},
    {"eval", "the quality of a scene against photographs: PSNR, SSIM", eval_command},
    {"info", "what a scene file holds", info_command},
    {"generate", "pictures of a built-in scene, as training data", generate_command},
    {NULL, NULL, NULL},
};

// jansson's parser ends the process by an assertion where it gets no memory.
static void *json_memory(size_t bytes) {
    void *const memory = malloc(bytes);
    if (!memory) device_give_up("no memory for %zu bytes of JSON", bytes);
    return memory;
}

int main(int argc, char **argv) {
    json_set_alloc_funcs(json_memory, free);
    const program_spec program = {
        "dsplat", gs_version(), "trains, renders and measures scenes of 3D Gaussians", commands,
        "  dsplat poses photos -o data/garden\n"
        "  dsplat train data/fern -o fern.ply --downscale 4\n"
        "  dsplat render fern.ply -o fern.png --cameras data/fern --view 0 --photo\n"
        "  dsplat export fern.ply -o fern.html --cameras data/fern\n"
        "  dsplat convert fern.ply fern.spz --check\n"
        "  dsplat eval fern.ply --cameras data/fern --downscale 4\n"
        "  dsplat info fern.ply\n"
        "  dsplat generate data/knot\n"};
    return program_run(&program, argc, argv);
}
