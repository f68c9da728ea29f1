// SPDX-License-Identifier: MIT
#include "scene.h"
#include "arrays.h"
#include "cli/command_line.h"
#include "ply.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <math.h>

typedef struct scene_format {
    const char *suffix;
    bool (*read)(const char *path, scene_values values, gs_gaussians *out, fault *why);
    bool (*write)(const char *path, const gs_gaussians *scene, fault *why);
    // The same in pieces, as ply_begin and ply_put.
    void (*begin)(FILE *stream, const gs_gaussians *shape);
    bool (*put)(FILE *stream, const char *path, const gs_gaussians *piece, int64_t before, fault *why);
} scene_format;

static const scene_format formats[] = {
    {.suffix = ".ply", .read = ply_read, .write = ply_write, .begin = ply_begin, .put = ply_put},
};

enum { FORMATS = sizeof formats / sizeof *formats };

size_t gaussians_place(gs_gaussians *gaussians, void *memory, size_t alignment) {
    float **const arrays[GS_ARRAYS] = {&gaussians->mean, &gaussians->log_scale, &gaussians->quaternion,
                                       &gaussians->opacity_logit, &gaussians->sh};
    const gs_arrays list = gs_arrays_of(gaussians);
    size_t end = 0;
    for (int i = 0; i < GS_ARRAYS; i++) {
        const size_t bytes = (size_t)gaussians->count * (size_t)list.width[i] * sizeof(float);
        if (memory) *arrays[i] = (float *)(void *)((char *)memory + end);
        end += (bytes + alignment - 1) / alignment * alignment;
    }
    return end;
}

bool scene_open(gs_gaussians *out, int64_t count, int sh_degree, fault *why) {
    *out = (gs_gaussians){0};
    if (count < 0 || count > INT32_MAX || sh_degree < 0 || sh_degree > GS_MAX_SH_DEGREE)
        return fail(why, "%" PRId64 " Gaussians of SH degree %d are out of range", count, sh_degree);
    gs_gaussians shape = {.count = count, .sh_degree = sh_degree};
    const size_t bytes = gaussians_place(&shape, NULL, 16);
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) return fail(why, "no memory for %" PRId64 " Gaussians", count);
    gaussians_place(&shape, memory, 16); // distwar_gs.h wants this alignment
    *out = shape;
    return true;
}

void scene_close(gs_gaussians *scene) {
    free(scene->mean);
    *scene = (gs_gaussians){0};
}

int64_t gaussians_keep_finite(gs_gaussians *gaussians) {
    const gs_arrays arrays = gs_arrays_of(gaussians);
    int64_t kept = 0;
    for (int64_t i = 0; i < gaussians->count; i++) {
        bool finite = true;
        for (int a = 0; a < GS_ARRAYS; a++) {
            const int width = arrays.width[a];
            const float *row = arrays.of[a] + i * width;
            for (int k = 0; k < width; k++) finite = finite && isfinite(row[k]);
            if (kept < i) memcpy(arrays.of[a] + kept * width, row, (size_t)width * sizeof *row);
        }
        kept += finite; // otherwise the next one overwrites it
    }
    int64_t dropped = gaussians->count - kept;
    gaussians->count = kept;
    return dropped;
}

double scene_sh_constant(double color) {
    return (color - 0.5) / 0.28209479177387814;
}

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

bool scene_write(const char *path, const gs_gaussians *scene, fault *why) {
    const scene_format *format = format_of(path, why);
    return format && format->write(path, scene, why);
}

bool scene_stream_open(scene_stream *s, const char *path, const gs_gaussians *shape, fault *why) {
    *s = (scene_stream){.format = format_of(path, why), .count = shape->count};
    if (!s->format || !output_file_open(&s->file, path, why)) return false;
    s->format->begin(s->file.stream, shape);
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
