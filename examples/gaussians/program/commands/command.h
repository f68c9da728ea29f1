// SPDX-License-Identifier: MIT
// The commands of `dsplat`. A command takes argv from its own name on and returns the program's exit code.
#pragma once

#include "cli/command_line.h"
#include "distwar_gs.h"

int train_command(int argc, char **argv);
int render_command(int argc, char **argv);
int convert_command(int argc, char **argv);
int demo_command(int argc, char **argv);
int eval_command(int argc, char **argv);
int info_command(int argc, char **argv);
int finish_command(int argc, char **argv);
int generate_command(int argc, char **argv);
int poses_command(int argc, char **argv);
int export_command(int argc, char **argv);
int view_command(int argc, char **argv);

// As scene_read; also refuses a scene without Gaussians.
bool read_scene_to_measure(const char *path, gs_gaussians *out, fault *why);
// Writes trained Gaussians (device) to a scene file, without those whose values overflowed; stderr says how
// many those are. *host: what was written, to be closed by scene_close also after a failure.
bool save_trained(const char *path, const gs_gaussians *device, gs_gaussians *host, fault *why);
