// SPDX-License-Identifier: MIT
// Triangles with a normal at every vertex.
#pragma once

#include "files/fault.h"
#include <stdint.h>

C_LINKAGE_BEGIN

typedef struct mesh {
    int vertices, triangles;
    float *position; // [vertices][3]
    float *normal;   // [vertices][3], of any length but 0
    int *corner;     // [triangles][3]: vertices
} mesh;

// In host memory, all 0. Fails if there is no memory.
bool mesh_open(mesh *out, int vertices, int triangles, fault *why);
void mesh_close(mesh *host); // harmless on {0}
// Writes normal: at each vertex the sum of the normals of its triangles, weighted by their areas.
void mesh_find_normals(mesh *host);

// A copy on the device.
mesh device_mesh_open(const mesh *host);
void device_mesh_close(mesh *device);

C_LINKAGE_END
