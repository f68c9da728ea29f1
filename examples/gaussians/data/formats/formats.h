// SPDX-License-Identifier: MIT
// The formats of scenes: a format is a file of this folder and a line of the list in scene_files.c. Call them through
// scene.h.
#pragma once

#include "files/input_file.h"
#include "reconstruction.h"
#include "scene.h"
#include <math.h>

C_LINKAGE_BEGIN

// A format reads a whole file, and writes it in pieces or as a whole, or not at all.
typedef struct scene_format {
    const char *suffix; // with its dot; the longest that a name ends with counts
    // A file that begins with one of the marks, and has `line` in the text that it begins with, is of the format, whatever
    // its suffix; of several formats the last in the list counts. Without marks the suffix decides.
    const char *marks[2];
    const char *line; // NULL: any
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

// ---- what compressed formats share: a file in memory, values in few bits

// Reads the rest of the file, for the caller to free(); `what` is for messages.
bool read_rest(input_file *file, const char *what, uint8_t **bytes, size_t *count, fault *why);
// Fails if a file of `size` bytes says to hold more than 1024 times as many, `bytes`: that is an attack on memory, not
// a scene. Call it before allocating memory.
bool is_plausible(const char *path, uint64_t size, uint64_t bytes, fault *why);

// The nearest of 0..255.
static inline uint8_t to_byte(double value) {
    return (uint8_t)lrint(fmin(fmax(value, 0), 255));
}

// The logit of an opacity 0..255. 0 and 255, which have no finite one, stand for the middle of what is rounded to them.
static inline float byte_logit(uint8_t opacity) {
    const double a = fmin(fmax(opacity, 0.25), 254.75) / 255;
    return (float)log(a / (1 - a));
}

// Values of a kind that .spz and .sog cannot hold.
enum { CLAMPED_SCALES, CLAMPED_COLORS, CLAMPED_HARMONICS, CLAMPED };
typedef struct clamped {
    int64_t count;
    double most; // how far one was moved
} clamped;
// What a byte of .spz counts in, of each kind.
extern const double clamped_steps[CLAMPED];
// Notes that a value is so far outside, unless that is half a step or less.
void clamped_note(clamped c[CLAMPED], int kind, double beyond);
void clamped_say(const clamped c[CLAMPED], const char *path, const char *suffix); // one line for each kind

// Scales q (w, x, y, z) to length 1; a quaternion of length 0 becomes the identity.
void quaternion_unit(const float q[4], double unit[4]);
// The opacity 0..255 of a Gaussian; 0 if its quaternion has length 0, as such a Gaussian is not shown.
uint8_t opacity_byte(const gs_gaussians *g, int64_t i);
// The "smallest three": a unit quaternion without its component of largest magnitude, whose sign is made positive. The
// three others, in their order, are within +-sqrt(1/2). Returns the index of the largest.
int quaternion_to_three(const double q[4], double three[3]);
void quaternion_from_three(int largest, const double three[3], float q[4]);
// The same of a Gaussian, from parts 0..1 of that range.
void quaternion_from_parts(int largest, const double part[3], float q[4]);

// ---- ZIP archives in memory (PKWARE's APPNOTE.TXT), of less than 4 GiB: not ZIP64, not encrypted, one part; zip.c

// An archive that is read; its bytes stay the caller's.
typedef struct zip_archive {
    const char *path; // for messages
    const uint8_t *bytes;
    size_t size;
    size_t directory, end; // bytes of the central directory
    int entries;
} zip_archive;

bool zip_open(zip_archive *zip, const char *path, const uint8_t *bytes, size_t size, fault *why);
// A file of the archive, stored or deflated, for the caller to free(). Fails if there is none of that name, if its
// checksum is wrong, or if it has more than `most` bytes.
bool zip_read(const zip_archive *zip, const char *name, size_t most, uint8_t **bytes, size_t *count,
              fault *why);

enum { ZIP_DIRECTORY = 1024 }; // bytes

// An archive that is written, without compression.
typedef struct zip_writer {
    FILE *stream;
    uint64_t at; // bytes written
    uint16_t files;
    size_t used; // of the directory
    uint8_t directory[ZIP_DIRECTORY];
} zip_writer;

// Write errors stay in the stream. False: the archive has 4 GiB or more, or its directory is full.
bool zip_put(zip_writer *zip, const char *name, const void *bytes, size_t count);
void zip_end(zip_writer *zip);

// ---- the formats

extern const scene_format ply_format;            // of the original program
extern const scene_format spz_format;            // of Niantic
extern const scene_format sog_format;            // of PlayCanvas
extern const scene_format compressed_ply_format; // of PlayCanvas
extern const scene_format splat_format;          // of antimatter15
extern const scene_format glb_format;            // of Khronos; gltf.c

C_LINKAGE_END
