// SPDX-License-Identifier: MIT
// spheres render: writes a picture of one view.
#include "commands.h"
#include "device.h"
#include "images/picture_row.h"
#include "sphere_file.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct render_options {
    view_options of;
    const char *file, *output;
    int64_t view;
} render_options;

static bool render(const render_options *options, const sphere_set *host, fault *why) {
    const int width = (int)options->of.width, height = (int)options->of.height;
    const size_t values = (size_t)host->channels * (size_t)width * (size_t)height;
    float *color = malloc(values * sizeof *color);
    if (!color) return fail(why, "no memory for a picture of %d x %d", width, height);
    sphere_set set = device_sphere_set_open(host->count, host->channels);
    sphere_set_upload(&set, host);
    const pinhole_camera camera = scene_camera((int)options->view, width, height);
    const sphere_blend blend = scene_blend((int)options->of.kept);
    sphere_frame frame = sphere_frame_open(&set, &camera, &blend);
    spheres_project(&frame);
    spheres_candidates(&frame);
    spheres_render(&frame);
    device_download(color, frame.color, values * sizeof *color);
    bool done = picture_row_write(options->output, (const float *const[]){color}, 1, width, height, why);
    sphere_frame_close(&frame);
    device_sphere_set_close(&set);
    free(color);
    if (done)
        printf("%s: %lld spheres, %d x %d, view %lld\n", options->output, (long long)host->count, width,
               height, (long long)options->view);
    return done;
}

int render_command(int argc, char **argv) {
    render_options options = {.of = view_options_default()};
    const option_spec table[] = {
        OUTPUT_OPTION(&options.output, .help = "the PNG file to write; required"),
        DATA_OPTION(&options.of),
        OPTION("view", &options.view, .maximum = SCENE_VIEWS - 1, .help = "which of the cameras"),
        WIDTH_OPTION(&options.of),
        HEIGHT_OPTION(&options.of),
        KEPT_OPTION(&options.of),
        OPTIONS_END};
    const command_spec command = {"spheres render",
                                  "[SPHERES.txt] -o OUT.png [options]",
                                  "Renders one view of a data set, or of the spheres in a file that 'spheres "
                                  "train' wrote:\nthe first three channels of their features.",
                                  "  spheres render -o small.png\n"
                                  "  spheres render out/spheres.txt -o view.png --view 3 --width 640\n",
                                  table,
                                  0,
                                  1, 0};
    int code;
    if (!read_command_line(&command, argc, argv, &options.file, &code)) return code;
    fault why;
    if (!options.output) {
        fail(&why, "-o is missing, the picture to write");
        return report_misuse(&command, &why);
    }
    if (!are_two_files("-o", options.output, "SPHERES.txt", options.file, &why))
        return report_misuse(&command, &why);
    view_options_complete(&options.of);
    sphere_set host = {0};
    bool done = output_is_possible(options.output, &why) &&
                (options.file ? sphere_file_read(options.file, &host, &why)
                              : scene_generate((data_set)options.of.data, 3, &host, &why)) &&
                render(&options, &host, &why);
    sphere_set_close(&host);
    return done ? EXIT_SUCCESS : report_failure("spheres", &why);
}
