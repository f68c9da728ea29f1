// SPDX-License-Identifier: MIT
// The commands of `dsplat`, and what several of them share. A command takes argv from its own name on and returns the
// program's exit code.
#pragma once

#include "cli/command_line.h"
#include "dataset.h"
#include "live/page.h"
#include "views.h"

C_LINKAGE_BEGIN

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

// ---- pictures of a scene and of errors

// Renders the scene (device) with harmonics up to sh_degree, or with all if it has fewer.
bool map_picture(const gs_gaussians *device, int sh_degree, const gs_camera *camera,
                 const float background[GS_CHANNELS], image *out, fault *why);

enum { FULL_ERROR = 64 }; // of 255: the brightest error

// Perceptually increasing brightness: black, purple, red, orange, pale yellow. part: clamped to 0..1.
void map_color(double part, uint8_t color[GS_CHANNELS]);
// The mean of the channels' absolute differences of two pictures of one size, at 1/divisor of the size, in these colours.
bool map_errors(const image *a, const image *b, int divisor, image *out, fault *why);

// ---- what a page shows of a scene and its data: of export, view and train (export.c)

enum { PAGE_VIEWS = 16, PAGE_MOST = 1000000 }; // by default: views, and Gaussians

typedef struct page_source {
    page_content content; // of what is below
    gs_gaussians scene;
    dataset data;
    size_t room; // of content.views
} page_source;   // starts as {0}

// Opens a source without a scene: some views of a run, evenly spread, which must outlive the source. A view that is no
// pinhole has no photograph there.
bool page_source_of_run(page_source *source, const view_split *split, const char *title,
                        const float background[GS_CHANNELS], fault *why);
// Takes source->scene, which is not empty: the page shows `most` of its Gaussians.
bool page_source_take_scene(page_source *source, int64_t most, fault *why);
void page_source_close(page_source *source);

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

C_LINKAGE_END
