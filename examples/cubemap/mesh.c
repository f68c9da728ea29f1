// SPDX-License-Identifier: MIT
#include "mesh.h"
#include "device.h"
#include <stdlib.h>

bool mesh_open(mesh *out, int vertices, int triangles, fault *why) {
    *out = (mesh){.vertices = vertices, .triangles = triangles};
    out->position = calloc((size_t)vertices, 3 * sizeof *out->position);
    out->normal = calloc((size_t)vertices, 3 * sizeof *out->normal);
    out->corner = calloc((size_t)triangles, 3 * sizeof *out->corner);
    if (out->position && out->normal && out->corner) return true;
    mesh_close(out);
    return fail(why, "no memory for a mesh of %d vertices and %d triangles", vertices, triangles);
}

void mesh_close(mesh *host) {
    free(host->position);
    free(host->normal);
    free(host->corner);
    *host = (mesh){0};
}

void mesh_find_normals(mesh *host) {
    for (int i = 0; i < 3 * host->vertices; i++) host->normal[i] = 0;
    for (int t = 0; t < host->triangles; t++) {
        const int *corner = host->corner + 3 * (size_t)t;
        const float *a = host->position + 3 * (size_t)corner[0], *b = host->position + 3 * (size_t)corner[1],
                    *c = host->position + 3 * (size_t)corner[2];
        float along[3], other[3];
        for (int i = 0; i < 3; i++) along[i] = b[i] - a[i], other[i] = c[i] - a[i];
        for (int i = 0; i < 3; i++) {
            const int j = (i + 1) % 3, k = (i + 2) % 3;
            const float part = along[j] * other[k] - along[k] * other[j];
            for (int n = 0; n < 3; n++) host->normal[3 * (size_t)corner[n] + (size_t)i] += part;
        }
    }
}

static void *copy_of(const void *host, size_t bytes) {
    void *device = device_allocate(bytes);
    device_upload(device, host, bytes);
    return device;
}

mesh device_mesh_open(const mesh *host) {
    const size_t vertices = (size_t)host->vertices, triangles = (size_t)host->triangles;
    return (mesh){.vertices = host->vertices,
                  .triangles = host->triangles,
                  .position = copy_of(host->position, 3 * vertices * sizeof *host->position),
                  .normal = copy_of(host->normal, 3 * vertices * sizeof *host->normal),
                  .corner = copy_of(host->corner, 3 * triangles * sizeof *host->corner)};
}

void device_mesh_close(mesh *device) {
    device_free(device->position);
    device_free(device->normal);
    device_free(device->corner);
    *device = (mesh){0};
}
