// SPDX-License-Identifier: MIT
// The commands of `splat`. A command takes argv from its own name on and returns the program's exit code.
#ifndef SPLAT_COMMAND_H
#define SPLAT_COMMAND_H

#include "command_line.h"
#include "gs.h"

int train_command(int argc, char **argv);
int render_command(int argc, char **argv);
int demo_command(int argc, char **argv);
int eval_command(int argc, char **argv);
int bench_command(int argc, char **argv);
int info_command(int argc, char **argv);
int finish_command(int argc, char **argv);
int generate_command(int argc, char **argv);

// ply_read that also refuses a scene without Gaussians.
bool read_scene_to_measure(const char *path, gs_gaussians *out, fault *why);

#endif
