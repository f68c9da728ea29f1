// SPDX-License-Identifier: MIT
// Meshes from Wavefront OBJ files.
#pragma once

#include "mesh.h"

C_LINKAGE_BEGIN

// Reads vertices and faces. Polygons become fans of triangles; indices may be negative. Other lines are
// ignored, also the file's own normals: normals are computed from the triangles. The mesh is in host memory,
// moved and scaled by shape_fit. A vertex gets the normal (0, 0, 1) if no triangle with an area larger than 0
// uses it.
bool obj_file_read(const char *path, mesh *out, fault *why);

C_LINKAGE_END
