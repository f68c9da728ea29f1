// SPDX-License-Identifier: MIT
#include "commands/command.h"
#include "scene.h"
#include "frame.h"
#include <stdio.h>

bool read_scene_to_measure(const char *path, gs_gaussians *out, fault *why) {
    if (!scene_read(path, SCENE_FINITE, out, why)) return false;
    if (out->count > 0) return true;
    scene_close(out);
    return fail(why, "%s: holds no Gaussians, so there is nothing to measure", path);
}

static bool save_finite(const char *path, gs_gaussians *host, fault *why) {
    const int64_t dropped = gaussians_keep_finite(host);
    if (dropped > 0)
        fprintf(stderr, "dsplat: dropped %lld Gaussians whose parameters overflowed\n", (long long)dropped);
    return scene_write(path, host, why);
}

bool save_trained(const char *path, const gs_gaussians *device, gs_gaussians *host, fault *why) {
    if (!scene_open(host, device->count, device->sh_degree, why)) return false;
    host->antialias = device->antialias;
    device_gaussians_download(host, device);
    return save_finite(path, host, why);
}
