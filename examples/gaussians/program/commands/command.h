// SPDX-License-Identifier: MIT
// The commands of `dsplat`, and what several of them share. A command takes argv from its own name on and returns the
// program's exit code.
#pragma once

#include "cli/command_line.h"
#include "dataset.h"

int train_command(int argc, char **argv);
int render_command(int argc, char **argv);
int convert_command(int argc, char **argv);
int eval_command(int argc, char **argv);
int info_command(int argc, char **argv);
int finish_command(int argc, char **argv);
int generate_command(int argc, char **argv);
int poses_command(int argc, char **argv);
int export_command(int argc, char **argv);
int view_command(int argc, char **argv);

// Files in a folder whose names have a number. format: such as "frame_%05lld.png".
bool numbered_path(char path[PATH_ROOM], const char *folder, const char *format, int64_t number, fault *why);
// Fails if a file of the data is where the first `count` are written, or where those of an earlier run are that had more.
bool numbered_may_be_written(const dataset *data, const char *folder, const char *format, int64_t count,
                             fault *why);
// Removes those of an earlier run, from `first` on up to the first that is missing.
bool remove_numbered(const char *folder, const char *format, int64_t first, fault *why);
// "A,B,...": `count` finite numbers. False: the text is not that.
bool parse_numbers(const char *text, double *out, int count);
// As scene_read; also refuses a scene without Gaussians.
bool read_scene_to_measure(const char *path, gs_gaussians *out, fault *why);

// ---- rows of options that several commands have

#define SCENE_BACKGROUND_OPTION(at)                                                                          \
    OPTION("background", at,                                                                                 \
           .help = "R,G,B behind the scene, each 0..1; default: that of the scene's file, or black")
#define CAMERAS_OPTION(at)                                                                                   \
    OPTION("cameras", at,                                                                                    \
           .help = "the folder with the photographs and their cameras, as for 'dsplat train'; required")
// of: what is scaled, for example "pictures".
#define DOWNSCALE_OPTION(at, of)                                                                             \
    OPTION("downscale", at, .minimum = 1, .maximum = 64,                                                     \
           .help = "divide the width and height of " of " by this")
#define UNDISTORT_OPTION(at) OPTION("undistort", at, .help = "undistort fisheyes too, as any other lens")
#define MASK_FROM_ALPHA_OPTION(at) OPTION("mask-from-alpha", at, .help = "ignore pixels whose alpha is 0")
