// SPDX-License-Identifier: MIT
// A scene: Gaussians in host memory, what moves them, and their files. The suffix of a file's name decides its format; the
// list of formats is in formats/scene_files.c.
#pragma once

#include "files/fault.h"
#include "distwar_gs.h"
#include "files/output_file.h"
#include <stddef.h>

C_LINKAGE_BEGIN

// Places the arrays of `gaussians`, whose count and sh_degree are set, one after another in a block of memory
// that is aligned; NULL: nowhere. Returns the bytes of the block.
size_t gaussians_place(gs_gaussians *gaussians, void *memory, size_t alignment);
// Allocates host memory in the shape of gs_gaussians, all zeros. Each array is aligned to 16 bytes. It is one
// malloc, at `mean`. count: 0..2^31 - 1. sh_degree: 0..GS_MAX_SH_DEGREE. On failure *out is empty.
bool scene_open(gs_gaussians *out, int64_t count, int sh_degree, fault *why);
void scene_close(gs_gaussians *scene); // harmless on {0} and twice

// The SH coefficient of degree 0 that shows a colour 0..1 (docs/developers/math.md, section 2).
double scene_sh_constant(double color);
// The real spherical harmonics of a unit vector, those of degree 0 first (docs/developers/math.md, section 2).
enum { SCENE_SH_COEFFICIENTS = (GS_MAX_SH_DEGREE + 1) * (GS_MAX_SH_DEGREE + 1) };
void scene_sh_basis(const double r[3], double out[SCENE_SH_COEFFICIENTS]);

// How a scene was trained, as its file says it to `dsplat eval`.
typedef struct scene_notes {
    bool known;      // the file says it
    int64_t holdout; // every Nth view, by name, was not trained on; 0: none
    float background[3];
    double offset[3]; // of the data's coordinates over the scene's, where those were too large for floats
} scene_notes;
// Whether notes (NULL: none) have an offset.
bool scene_notes_move(const scene_notes *notes);
// The notes of a file that scene_read takes; zeros if it has none. Fails if the file cannot be read, or has a name that
// scene_read refuses.
bool scene_read_notes(const char *path, scene_notes *out, fault *why);

// What a reader does with values that are not finite. An infinite opacity and a logarithm of a scale of -inf are opacity
// 1 or 0 and scale 0: SCENE_FINITE and SCENE_DROP replace them by the finite numbers that stand for these in all formats.
typedef enum scene_values {
    SCENE_FINITE, // refuses the file
    SCENE_DROP,   // leaves those Gaussians out, and says on stderr how many
    SCENE_ANY     // keeps them as they are: for looking into a file, not for rendering it
} scene_values;

// Reads a scene. Its first bytes decide which of the known formats it is, where the formats have marks. Fails, naming
// the file, if its suffix is unknown or its format's reader refuses it. On failure *out is empty.
bool scene_read(const char *path, scene_values values, gs_gaussians *out, fault *why);
// Writes a scene. The file appears whole or not at all. Refuses values that are not finite, so that the
// file can be read again. What the format cannot hold is said on stderr. A quaternion of length 0, whose Gaussian is not
// shown, becomes opacity 0 where a format has unit quaternions only.
bool scene_write(const char *path, const gs_gaussians *scene, fault *why);
// A scene file that is written in pieces. Only PLY needs no memory for the whole scene.
typedef struct scene_stream {
    output_file file;
    const struct scene_format *format;
    gs_gaussians shape; // of the whole; its arrays are not read
    int64_t put;        // Gaussians so far
    gs_gaussians all;   // those, where the format is not written in pieces
    int variant; // of the caller, before the first piece: the version of .spz, 2..4; 0: the usual one, 3
} scene_stream;
// shape: count, sh_degree and antialias are read. notes: NULL, or as above. Nothing has to be closed after a failure.
bool scene_stream_open(scene_stream *s, const char *path, const gs_gaussians *shape, const scene_notes *notes,
                       fault *why);
bool scene_stream_put(scene_stream *s, const gs_gaussians *piece, fault *why); // after a failure, discard it
bool scene_stream_commit(scene_stream *s, fault *why); // fails if Gaussians are missing
void scene_stream_discard(scene_stream *s);            // removes what was written; harmless after a commit

// Fails if no scene can be written to `path`: the suffix is unknown, or no file can be put there. Call it
// before long work.
bool scene_is_possible(const char *path, fault *why);

// Whether Gaussian i stays. Called once for each, in their order.
typedef bool (*gaussian_filter)(const gs_gaussians *gaussians, int64_t i, const void *context);
// Removes the others; those that stay keep their order. Host memory; its size is unchanged. Returns how many were
// removed.
int64_t gaussians_keep(gs_gaussians *gaussians, gaussian_filter keeps, const void *context);
int64_t gaussians_keep_finite(gs_gaussians *gaussians); // without those that have a value that is not finite

// ---- moves

// x' = scale rotation x + translation
typedef struct similarity {
    double rotation[9]; // row-major
    double scale;       // > 0
    double translation[3];
} similarity;

// Of a rotation, row-major: w, x, y, z, of length 1.
void quaternion_of_rotation(const double m[9], double q[4]);
// Of w, x, y, z, of length 1.
void rotation_of_quaternion(const double q[4], double m[9]);
// From the rows of a 3x4 matrix. False: its left part is not a rotation times a scale, to 1e-3.
bool similarity_of(const double rows[12], similarity *out);
// Means, scales, rotations and the colours' dependence on the direction. Host memory. A camera that is moved with the
// Gaussians, its near plane with the scale, sees the same picture.
void gaussians_move(gs_gaussians *gaussians, const similarity *by);

C_LINKAGE_END
