// SPDX-License-Identifier: MIT
// The formats of scenes: a format is a file of this folder and a line of the list in scene_files.c. Call them through
// scene.h.
#pragma once

#include "files/input_file.h"
#include "scene.h"

C_LINKAGE_BEGIN

// A format reads a whole file, and writes it in pieces or as a whole, or not at all.
typedef struct scene_format {
    const char *suffix;  // with its dot; the longest that a name ends with counts
    const char *missing; // the library that this program was built without; NULL: none
    // True if a file that begins with these bytes is of the format, whatever its suffix. NULL: the suffix decides.
    bool (*claims)(const char *head, size_t bytes);
    // *out is empty, and the caller closes it after a failure. Values may come back that are not finite.
    bool (*read)(input_file *file, gs_gaussians *out, fault *why);
    // In pieces: the header, for which count, sh_degree and antialias of `shape` are read, then all Gaussians. Write
    // errors stay in the stream.
    void (*begin)(FILE *stream, const gs_gaussians *shape, const scene_notes *notes);
    void (*put)(FILE *stream, const gs_gaussians *piece);
    // As a whole. variant: scene_stream.variant. Values are finite.
    bool (*write)(const output_file *file, const gs_gaussians *scene, int variant, fault *why);
    bool (*notes)(const char *path, scene_notes *out, fault *why); // NULL: the format has none
} scene_format;

static inline int coefficients(int sh_degree) {
    return (sh_degree + 1) * (sh_degree + 1);
}
// The SH degree with `rest` coefficients after the first, over all channels; -1: none.
static inline int degree_of_rest(int rest) {
    for (int degree = 0; degree <= GS_MAX_SH_DEGREE; degree++)
        if (rest == GS_CHANNELS * (coefficients(degree) - 1)) return degree;
    return -1;
}

enum { PLY_MAX_LINE = 1024 }; // bytes of a header line
// A header line without its end; *at is the offset of its first byte.
bool ply_read_line(input_file *file, char line[PLY_MAX_LINE], uint64_t *at, fault *why);

extern const scene_format ply_format;              // of the original program
extern const scene_format spz_format;              // of Niantic
extern const scene_format sog_format;              // of PlayCanvas; without libwebp it is missing
extern const scene_format compressed_ply_format;   // of PlayCanvas
extern const scene_format splat_format;            // of antimatter15
extern const scene_format glb_format, gltf_format; // of Khronos; gltf.c

C_LINKAGE_END
