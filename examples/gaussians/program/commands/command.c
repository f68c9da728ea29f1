// SPDX-License-Identifier: MIT
#include "commands/command.h"
#include "ply.h"

bool read_scene_to_measure(const char *path, gs_gaussians *out, fault *why) {
    if (!ply_read(path, out, why)) return false;
    if (out->count > 0) return true;
    gaussians_free(out);
    return fail(why, "%s: holds no Gaussians, so there is nothing to measure", path);
}
