// SPDX-License-Identifier: MIT
// The commands of `spheres`, and the options that several commands share. A command takes argv from its own
// name on and returns the exit code of the program.
#pragma once

#include "cli/command_line.h"
#include "scene.h"

int train_command(int argc, char **argv);
int render_command(int argc, char **argv);
int bench_command(int argc, char **argv);

// The picture: a data set, the channels of its features, and the size.
typedef struct view_options {
    int data;                    // data_set
    int channels;                // index into channel_names
    int64_t width, height, kept; // width 0: by data set and device; height 0: 3/4 of width
} view_options;

extern const char *const channel_names[5];
view_options view_options_default(void);
int view_options_channels(const view_options *options);
// Replaces zeros by the defaults.
void view_options_complete(view_options *options);

#define DATA_OPTION(options)                                                                                 \
    OPTION("data", &(options)->data, .choices = data_set_names, .help = "the generated data set")
#define CHANNELS_OPTION(options)                                                                             \
    OPTION("channels", &(options)->channels, .choices = channel_names,                                       \
           .help = "the channels of a sphere's feature; 3: a colour")
#define WIDTH_OPTION(options)                                                                                \
    OPTION("width", &(options)->width, .maximum = 4096,                                                      \
           .help = "the width of a picture in pixels; 0: by the data set, small on the CPU")
#define HEIGHT_OPTION(options)                                                                               \
    OPTION("height", &(options)->height, .maximum = 8192,                                                    \
           .help = "the height of a picture in pixels; 0: 3/4 of the width")
#define KEPT_OPTION(options)                                                                                 \
    OPTION("kept", &(options)->kept, .minimum = 1, .maximum = SPHERES_MAX_KEPT,                              \
           .help = "a pixel blends at most this many spheres, the closest ones")
