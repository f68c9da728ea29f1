// SPDX-License-Identifier: MIT
// Gaussians as a PLY file with the usual property names: x y z, nx ny nz, f_dc_*, f_rest_* (channel by
// channel), opacity (logit), scale_* (logarithm), rot_* (w x y z).
#ifndef GAUSSIANS_PLY_H
#define GAUSSIANS_PLY_H

#include "fault.h"
#include "gs.h"

#ifdef __cplusplus
extern "C" {
#endif

// Host memory in the shape of gs_gaussians, each array aligned to 16 bytes; one malloc, at `mean`. Freed by
// gaussians_free. All zeros.
bool gaussians_allocate(gs_gaussians *out, int64_t count, int sh_degree, fault *why);
void gaussians_free(gs_gaussians *gaussians); // harmless twice

// Binary little-endian, vertex element first; float properties in any order, others skipped by their size. SH
// degree 0..3 from the number of f_rest_* (0, 9, 24, 45). Non-finite values are refused. On failure *out is
// empty. antialias comes from a line "comment splat antialiased" in the header, which others skip.
bool ply_read(const char *path, gs_gaussians *out, fault *why);
// The same with non-finite values as they are: for looking into a file, not for rendering it.
bool ply_read_any(const char *path, gs_gaussians *out, fault *why);
// Normals are written as 0. Refuses non-finite values, so that what was written can be read.
bool ply_write(const char *path, const gs_gaussians *gaussians, fault *why);

#ifdef __cplusplus
}
#endif
#endif
