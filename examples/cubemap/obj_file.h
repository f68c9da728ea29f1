// SPDX-License-Identifier: MIT
// Meshes from Wavefront OBJ files.
#ifndef CUBEMAP_OBJ_FILE_H
#define CUBEMAP_OBJ_FILE_H

#include "mesh.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reads vertices and faces (polygons of any number of corners become fans of triangles; indices may be
// negative); other lines, the file's own normals among them, are passed over: normals are found from the
// triangles. The mesh, in host memory, is moved and scaled as by shape_fit. Vertices that no triangle with an
// area uses get the normal (0, 0, 1).
bool obj_file_read(const char *path, mesh *out, fault *why);

#ifdef __cplusplus
}
#endif
#endif
