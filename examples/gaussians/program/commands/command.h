// SPDX-License-Identifier: MIT
// The commands of `dsplat`, and what several of them share. A command takes argv from its own name on and returns the
// program's exit code.
#pragma once

#include "cli/command_line.h"
#include "dataset.h"
#include "ranks.h"

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

// Removes the files of an earlier run in a folder, whose names have one number, from `first` on up to the first that is
// missing. format: such as "frame_%05lld.png".
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

// ---- commands that work on several GPUs: as ranks that they start on this host (--gpus), or as one of the ranks that a
// launcher has started

typedef struct rank_options {
    int64_t gpus; // 0: one
    const char *nccl;
    // After rank_options_check:
    bool launched;
    ranks_place place;
    uint64_t arguments; // their hash
} rank_options;

// what: what --gpus does, for --help.
#define GPUS_OPTION(at, what)                                                                                \
    OPTION("gpus", at, .maximum = RANKS_MAX, .free_on_resume = true, .automatic = true,                      \
           .help = what " across N GPUs of this host; auto: one, or as mpirun, srun or torchrun says")
#define NCCL_OPTION(at)                                                                                      \
    OPTION("nccl", at, .free_on_resume = true,                                                               \
           .help = "the path of libnccl.so.2, if the loader does not find it")

// After parsing: looks for a launcher, which sets gpus. argv: the command line, the same for all ranks.
bool rank_options_check(rank_options *options, int argc, char **argv, fault *why);

typedef struct rank_work {
    // Does what needs no device, such as reading files. Called once while ranks are started, which share it, or in
    // each rank that a launcher has started. own: the rank's number; 0 if they share it.
    bool (*load)(void *context, int own, fault *why);
    ranks_body body;
    void *context;
    // The data and scene that `load` reads. Ranks that a launcher has started must have as many views of the same names
    // and sizes, and as many points and Gaussians.
    const dataset *data;
    const gs_gaussians *scene;
} rank_work;

// ranks_run. On a CPU ranks are threads, unless a stand-in for NCCL is named.
bool run_on_ranks(const rank_options *options, rank_work *work, fault *why);
