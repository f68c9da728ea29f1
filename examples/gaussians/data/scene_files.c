// SPDX-License-Identifier: MIT
// The files of scenes, by the suffix of their names.
#include "cli/command_line.h"
#include "ply.h"
#include "scene.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct scene_format {
    const char *suffix;
    bool (*read)(const char *path, scene_values values, gs_gaussians *out, fault *why);
    bool (*write)(const char *path, const gs_gaussians *scene, fault *why);
    // The same in pieces, as ply_begin and ply_put.
    void (*begin)(FILE *stream, const gs_gaussians *shape, const scene_notes *notes);
    bool (*put)(FILE *stream, const char *path, const gs_gaussians *piece, int64_t before, fault *why);
    scene_notes (*notes)(const char *path);
} scene_format;

static const scene_format formats[] = {
    {.suffix = ".ply",
     .read = ply_read,
     .write = ply_write,
     .begin = ply_begin,
     .put = ply_put,
     .notes = ply_notes},
};

enum { FORMATS = sizeof formats / sizeof *formats };

// NULL, and why, if no format has the suffix of the path.
static const scene_format *format_of(const char *path, fault *why) {
    char known[128] = "";
    const size_t length = strlen(path);
    for (int i = 0; i < FORMATS; i++) {
        const size_t suffix = strlen(formats[i].suffix), used = strlen(known);
        if (length > suffix && strcasecmp(path + length - suffix, formats[i].suffix) == 0) return &formats[i];
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", formats[i].suffix);
    }
    fail(why, "%s: not a known format of scenes; the suffix must be one of %s", path, known);
    return NULL;
}

bool scene_read(const char *path, scene_values values, gs_gaussians *out, fault *why) {
    *out = (gs_gaussians){0};
    const scene_format *format = format_of(path, why);
    return format && format->read(path, values, out, why);
}

scene_notes scene_read_notes(const char *path) {
    fault ignored;
    const scene_format *format = format_of(path, &ignored);
    return format ? format->notes(path) : (scene_notes){0};
}

bool scene_write(const char *path, const gs_gaussians *scene, fault *why) {
    const scene_format *format = format_of(path, why);
    return format && format->write(path, scene, why);
}

bool scene_stream_open(scene_stream *s, const char *path, const gs_gaussians *shape, const scene_notes *notes,
                       fault *why) {
    *s = (scene_stream){.format = format_of(path, why), .count = shape->count};
    if (!s->format || !output_file_open(&s->file, path, why)) return false;
    s->format->begin(s->file.stream, shape, notes);
    return true;
}

bool scene_stream_put(scene_stream *s, const gs_gaussians *piece, fault *why) {
    if (!s->format->put(s->file.stream, s->file.path, piece, s->put, why)) return false;
    s->put += piece->count;
    return true;
}

bool scene_stream_commit(scene_stream *s, fault *why) {
    if (s->put == s->count) return output_file_commit(&s->file, why);
    fail(why, "%s: not written: %" PRId64 " Gaussians, not %" PRId64, s->file.path, s->put, s->count);
    output_file_discard(&s->file);
    return false;
}

void scene_stream_discard(scene_stream *s) {
    output_file_discard(&s->file);
}

bool scene_is_possible(const char *path, fault *why) {
    return format_of(path, why) && output_is_possible(path, why);
}
