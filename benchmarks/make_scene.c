// SPDX-License-Identifier: MIT
// Writes a scene to measure on (scenes.h), made from a trained one.
#include "commands/command.h"
#include "dataset.h"
#include "scene.h"
#include "scenes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int64_t count = 0, seed = 1;
    int kind = SCENE_MANY;
    const char *scene, *cameras = NULL, *output = NULL;
    static const char *const kinds[] = {"many", "huge", "sh3", NULL};
    const option_spec table[] = {
        OPTION(
            "kind", &kind, .choices = kinds,
            .help =
                "copies at a third of the size, copies each over a quarter of a picture, or the scene with SH of degree 3"),
        OPTION("count", &count, .minimum = 1, .maximum = INT32_MAX,
               .help = "number of Gaussians; required for many and huge"),
        OPTION("seed", &seed, .maximum = INFINITY, .help = "seed of all random numbers"),
        OPTION(
            "cameras", &cameras,
            .help =
                "the folder with the cameras, the first of which gives the size of huge; required for huge"),
        OUTPUT_OPTION(&output, .help = "the PLY file to write; required"),
        OPTIONS_END};
    const command_spec command = {
        "make_scene",
        "SCENE.ply --kind KIND --count N -o OUT.ply [options]",
        "Makes a scene to measure on from a trained one.",
        "  make_scene fox.ply --kind many --count 3000000 -o many.ply\n"
        "  make_scene fox.ply --kind huge --count 300 --cameras data/fox -o huge.ply\n",
        table,
        1,
        1,
        0};
    int code;
    if (!read_command_line(&command, argc, argv, &scene, &code)) return code;
    fault why;
    if (!output || (kind != SCENE_SH3 && count < 1) || (kind == SCENE_HUGE && !cameras)) {
        fail(&why, "-o is missing, or --count (for many and huge), or --cameras (for huge)");
        return report_misuse(&command, &why);
    }

    gs_gaussians from = {0}, out = {0};
    dataset views = {0};
    const dataset_options loading = {.downscale = 1, .wanted = dataset_no_picture};
    bool done = scene_is_possible(output, &why) && read_scene_to_measure(scene, &from, &why);
    if (kind == SCENE_SH3) count = from.count;
    if (kind == SCENE_HUGE) done = done && dataset_load(cameras, &loading, &views, &why);
    done = done &&
           scene_to_measure((scene_kind)kind, &from, count,
                            kind == SCENE_HUGE ? &views.views[0].camera : NULL, (uint64_t)seed, &out, &why);
    done = done && scene_write(output, &out, &why);
    scene_close(&out);
    dataset_close(&views);
    scene_close(&from);
    return done ? EXIT_SUCCESS : report_failure("make_scene", &why);
}
