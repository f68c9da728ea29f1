// SPDX-License-Identifier: MIT
// cubemap render: writes a picture of one view.
#include "commands.h"
#include "device.h"
#include "face_file.h"
#include "images/picture_row.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct render_options {
    view_options of;
    const char *file, *output;
    int64_t view;
} render_options;

static bool render(const render_options *options, const mesh *host, const float *texel, int size,
                   fault *why) {
    const int width = (int)options->of.width, height = (int)options->of.height;
    const size_t values = 3 * (size_t)width * (size_t)height;
    float *color = malloc(values * sizeof *color);
    if (!color) return fail(why, "no memory for a picture of %d x %d", width, height);
    mesh surface = device_mesh_open(host);
    const pinhole_camera camera = scene_camera((int)options->view, width, height);
    cubemap_frame frame = cubemap_frame_open(&surface, &camera, size, SCENE_BACKGROUND);
    device_upload(frame.texel, texel, 18 * (size_t)size * (size_t)size * sizeof *texel);
    cubemap_reduce_levels(&frame);
    cubemap_project(&frame);
    cubemap_raster(&frame);
    cubemap_render(&frame);
    device_download(color, frame.color, values * sizeof *color);
    const bool done =
        picture_row_write(options->output, (const float *const[]){color}, 1, width, height, why);
    cubemap_frame_close(&frame);
    device_mesh_close(&surface);
    free(color);
    if (done)
        printf("%s: %s, %d triangles, faces of %d texels, %d x %d, view %lld\n", options->output,
               options->of.mesh, host->triangles, size, width, height, (long long)options->view);
    return done;
}

// Reads the file, or makes the surroundings. texel: for the caller to free().
static bool read_texels(const render_options *options, float **texel, int *size, fault *why) {
    if (options->file) return face_file_read(options->file, texel, size, why);
    *size = (int)options->of.size;
    *texel = malloc(18 * (size_t)*size * (size_t)*size * sizeof **texel);
    if (!*texel) return fail(why, "no memory for faces of %d texels", *size);
    scene_surroundings(*size, *texel);
    return true;
}

int render_command(int argc, char **argv) {
    render_options options = {.of = view_options_default()};
    const option_spec table[] = {
        OUTPUT_OPTION(&options.output, .help = "the PNG file to write; required"),
        MESH_OPTION(&options.of),
        OPTION("view", &options.view, .maximum = SCENE_VIEWS - 1, .help = "which of the cameras"),
        SIZE_OPTION(&options.of),
        WIDTH_OPTION(&options.of),
        HEIGHT_OPTION(&options.of),
        OPTIONS_END};
    const command_spec command = {
        "cubemap render",
        "[FACES.png] -o OUT.png [options]",
        "Renders one view of a mesh that mirrors the generated surroundings, or the cubemap in a file that\n"
        "'cubemap train' wrote, whose size is its own.",
        "  cubemap render -o mirror.png --mesh bumpy\n"
        "  cubemap render out/faces.png -o view.png --view 3 --width 640\n",
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
    if (!view_options_complete(&options.of, &why) ||
        !are_two_files("-o", options.output, "FACES.png", options.file, &why))
        return report_misuse(&command, &why);
    mesh host = {0};
    float *texel = NULL;
    int size;
    const bool done =
        output_is_possible(options.output, &why) && read_texels(&options, &texel, &size, &why) &&
        view_options_mesh(&options.of, &host, &why) && render(&options, &host, texel, size, &why);
    mesh_close(&host);
    free(texel);
    return done ? EXIT_SUCCESS : report_failure("cubemap", &why);
}
