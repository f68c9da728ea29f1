// SPDX-License-Identifier: MIT
// The commands of `cubemap`, and the options that several commands share. A command takes argv from its own
// name on and returns the exit code of the program.
#pragma once

#include "cli/command_line.h"
#include "cubemap.h"
#include "scene.h"

int train_command(int argc, char **argv);
int render_command(int argc, char **argv);
int bench_command(int argc, char **argv);

// The picture: a mesh, the size of the cubemap that it mirrors, and the size of the picture.
typedef struct view_options {
    const char *mesh;            // the name of a shape, or of an OBJ file
    int64_t size, width, height; // 0: size and width by the device, height 3/4 of the width
} view_options;

view_options view_options_default(void);
// Replaces zeros by the defaults. Fails if the size is not a power of two.
bool view_options_complete(view_options *options, fault *why);
// Into host memory, to close with mesh_close.
bool view_options_mesh(const view_options *options, mesh *host, fault *why);

#define MESH_OPTION(options)                                                                                 \
    OPTION("mesh", &(options)->mesh,                                                                         \
           .help = "icosphere, torus, bumpy, or an OBJ file, which is scaled to the same size")
#define SIZE_OPTION(options)                                                                                 \
    OPTION("size", &(options)->size, .maximum = CUBEMAP_MAX_SIZE,                                            \
           .help = "the side of a face in texels, a power of two; 0: 256, on the CPU 64")
#define WIDTH_OPTION(options)                                                                                \
    OPTION("width", &(options)->width, .maximum = 4096,                                                      \
           .help = "the width of a picture in pixels; 0: 1024, on the CPU 192")
#define HEIGHT_OPTION(options)                                                                               \
    OPTION("height", &(options)->height, .maximum = 8192,                                                    \
           .help = "the height of a picture in pixels; 0: 3/4 of the width")
