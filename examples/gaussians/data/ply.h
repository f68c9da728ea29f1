// SPDX-License-Identifier: MIT
// Scenes as PLY files with the usual property names: x y z, nx ny nz, f_dc_*, f_rest_* (all of red, then
// green, then blue), opacity (logit), scale_* (logarithm), rot_* (w x y z). Call them through scene.h.
#pragma once

#include "reconstruction.h"
#include "scene.h"
#include <stdio.h>

C_LINKAGE_BEGIN

// As scene_read. The file must be binary little-endian with the vertex element first. The properties above
// must be float, in any order; other properties are skipped. The number of f_rest_* gives the SH degree: 0,
// 9, 24 or 45 of them for degree 0..3. The header line "comment splat antialiased" sets antialias, "comment
// dsplat_holdout N" and "comment dsplat_background R,G,B" are scene_notes; other programs skip them.
bool ply_read(const char *path, scene_values values, gs_gaussians *out, fault *why);
// Appends the vertices of a file, binary little-endian or ASCII with the vertex element first, to the points: x y z and
// red green blue (0..255; 128 where there are none), of any number type. Other properties are skipped. Refused: a file
// without x, y, z, a list, values that are not finite, positions farther than 1e18, a file that ends early.
bool ply_read_points(const char *path, reconstruction *out, fault *why);
// As scene_write. Normals are 0.
bool ply_write(const char *path, const gs_gaussians *gaussians, fault *why);
// The same in pieces: the header, of which count, sh_degree and antialias are read; then all Gaussians, piece after
// piece. before: Gaussians put before. Write errors stay in the stream.
void ply_begin(FILE *stream, const gs_gaussians *gaussians, const scene_notes *notes);
scene_notes ply_notes(const char *path); // as scene_read_notes
bool ply_put(FILE *stream, const char *path, const gs_gaussians *gaussians, int64_t before, fault *why);

C_LINKAGE_END
