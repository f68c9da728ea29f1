// SPDX-License-Identifier: MIT
// Finds a model and chooses its reader.
#include "colmap.h"
#include "colmap_model.h"
#include "files/path.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool has(const char *folder, const char *name) {
    char path[PATH_ROOM];
    fault ignored;
    return path_join(path, folder, name, &ignored) && access(path, F_OK) == 0;
}

bool colmap_find(const char *folder, char model_folder[PATH_ROOM]) {
    static const char *const places[] = {"/sparse/0", "/sparse", ""};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int length = snprintf(model_folder, PATH_ROOM, "%s%s", folder, places[i]);
        if (length < PATH_ROOM && (has(model_folder, "cameras.bin") || has(model_folder, "cameras.txt")))
            return true;
    }
    return false;
}

static bool load_model(const char *model_folder, bool with_tracks, reconstruction *out, fault *why) {
    *out = (reconstruction){0};
    colmap_model model = {.scene = out, .with_tracks = with_tracks};
    const bool text = !has(model_folder, "cameras.bin") && has(model_folder, "cameras.txt");
    const colmap_parts parts = {true, has(model_folder, text ? "points3D.txt" : "points3D.bin")};
    const bool read = (text ? colmap_read_text : colmap_read_binary)(model_folder, parts, &model, why);
    free(model.cameras);
    free(model.views);
    if (!read) reconstruction_close(out);
    return read;
}

bool colmap_load(const char *model_folder, reconstruction *out, fault *why) {
    return load_model(model_folder, false, out, why);
}

bool colmap_load_tracks(const char *folder, reconstruction *out, fault *why) {
    char model_folder[PATH_ROOM];
    *out = (reconstruction){0};
    return !colmap_find(folder, model_folder) || load_model(model_folder, true, out, why);
}

bool colmap_load_points(const char *folder, reconstruction *out, fault *why) {
    colmap_model model = {.scene = out};
    const colmap_parts parts = {false, true};
    if (has(folder, "points3D.bin")) return colmap_read_binary(folder, parts, &model, why);
    return !has(folder, "points3D.txt") || colmap_read_text(folder, parts, &model, why);
}
