// SPDX-License-Identifier: MIT
#include "commands/command.h"
#include "files/path.h"
#include "scene.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool numbered_path(char path[PATH_ROOM], const char *folder, const char *format, int64_t number, fault *why) {
    char name[64];
    snprintf(name, sizeof name, format, (long long)number);
    return path_join(path, folder, name, why);
}

bool numbered_may_be_written(const dataset *data, const char *folder, const char *format, int64_t count,
                             fault *why) {
    char path[PATH_ROOM];
    file_id ignored;
    bool more = true;
    for (int64_t i = 0; more; i++) {
        if (!numbered_path(path, folder, format, i, why) || !dataset_may_write(data, path, why)) return false;
        more = i < count || file_id_of(path, &ignored);
    }
    return true;
}

bool remove_numbered(const char *folder, const char *format, int64_t first, fault *why) {
    char path[PATH_ROOM];
    bool more = true;
    for (int64_t i = first; more; i++)
        if (!numbered_path(path, folder, format, i, why) || !file_remove(path, &more, why)) return false;
    return true;
}

bool parse_numbers(const char *text, double *out, int count) {
    for (int k = 0; k < count; k++) {
        char *end;
        out[k] = strtod(text, &end);
        if (end == text || !isfinite(out[k]) || *end != (k < count - 1 ? ',' : '\0')) return false;
        text = end + 1;
    }
    return true;
}

bool read_scene_to_measure(const char *path, gs_gaussians *out, fault *why) {
    if (!scene_read(path, SCENE_FINITE, out, why)) return false;
    if (out->count > 0) return true;
    scene_close(out);
    return fail(why, "%s: holds no Gaussians, so there is nothing to measure", path);
}
