// SPDX-License-Identifier: MIT
// What a cubemap is found from: meshes and surroundings made by formulas, cameras, frames.
#include "cubemap.h"
#include "device.h"
#include "gpu/vector.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- meshes: one block, which begins at `position`

static size_t bytes_of(int vertices, int triangles) {
    return ((size_t)vertices * 6 + (size_t)triangles * 3) * sizeof(float); // an int is as large
}

static mesh over(float *block, int vertices, int triangles) {
    float *const normal = block + 3 * (size_t)vertices;
    return (mesh){vertices, triangles, block, normal, (int *)(normal + 3 * (size_t)vertices)};
}

bool mesh_open(mesh *out, int vertices, int triangles, fault *why) {
    float *const block = calloc(bytes_of(vertices, triangles), 1);
    *out = (mesh){0};
    if (!block) return fail(why, "no memory for a mesh of %d vertices and %d triangles", vertices, triangles);
    *out = over(block, vertices, triangles);
    return true;
}

void mesh_close(mesh *host) {
    free(host->position);
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

static void put_triangle(mesh *out, int *count, int a, int b, int c) {
    int *corner = out->corner + 3 * (size_t)(*count)++;
    corner[0] = a, corner[1] = b, corner[2] = c;
}

// Faces do not share vertices. Vertices on common edges have equal positions and normals.
bool shape_icosphere(int level, mesh *out, fault *why) {
    static const int faces[20][3] = {{0, 11, 5}, {0, 5, 1},  {0, 1, 7},   {0, 7, 10}, {0, 10, 11},
                                     {1, 5, 9},  {5, 11, 4}, {11, 10, 2}, {10, 7, 6}, {7, 1, 8},
                                     {3, 9, 4},  {3, 4, 2},  {3, 2, 6},   {3, 6, 8},  {3, 8, 9},
                                     {4, 9, 5},  {2, 4, 11}, {6, 2, 10},  {8, 6, 7},  {9, 8, 1}};
    const double g = (1 + sqrt(5)) / 2;
    const double vertices[12][3] = {{-1, g, 0}, {1, g, 0}, {-1, -g, 0}, {1, -g, 0},
                                    {0, -1, g}, {0, 1, g}, {0, -1, -g}, {0, 1, -g},
                                    {g, 0, -1}, {g, 0, 1}, {-g, 0, -1}, {-g, 0, 1}};
    const int n = 1 << level, on_each = (n + 1) * (n + 2) / 2;
    if (!mesh_open(out, 20 * on_each, 20 * n * n, why)) return false;
    int triangles = 0;
    for (int face = 0; face < 20; face++) {
        const double *const top = vertices[faces[face][0]], *const left = vertices[faces[face][1]],
                            *const right = vertices[faces[face][2]];
        for (int r = 0; r <= n; r++) { // rows of the face, whose sides are cut into n parts
            const int row = face * on_each + r * (r + 1) / 2, next = row + r + 1;
            for (int c = 0; c <= r; c++) {
                double point[3];
                for (int i = 0; i < 3; i++)
                    point[i] = ((n - r) * top[i] + (r - c) * left[i] + c * right[i]) / n;
                normalize(point);
                for (int i = 0; i < 3; i++) out->position[3 * (row + c) + i] = (float)point[i];
                if (r == n) continue;
                put_triangle(out, &triangles, row + c, next + c, next + c + 1);
                if (c < r) put_triangle(out, &triangles, row + c, next + c + 1, row + c + 1);
            }
        }
    }
    memcpy(out->normal, out->position, 3 * (size_t)out->vertices * sizeof *out->normal);
    return true;
}

// Triangles between neighbours of a grid of vertices, [vertex_rows][columns], whose columns close to a ring; its rows too
// where there are as many strips as rows.
static void put_grid(mesh *out, int vertex_rows, int strips, int columns) {
    int triangles = 0;
    for (int r = 0; r < strips; r++)
        for (int c = 0; c < columns; c++) {
            const int row = r * columns, next = (r + 1) % vertex_rows * columns, beside = (c + 1) % columns;
            put_triangle(out, &triangles, row + c, next + c, next + beside);
            put_triangle(out, &triangles, row + c, next + beside, row + beside);
        }
}

bool shape_torus(int rings, int sides, mesh *out, fault *why) {
    const double ring_radius = 0.7, tube_radius = 0.3;
    if (!mesh_open(out, rings * sides, 2 * rings * sides, why)) return false;
    for (int vertex = 0; vertex < out->vertices; vertex++) {
        const double a = 2 * pi * (vertex / sides) / rings, b = 2 * pi * (vertex % sides) / sides;
        const double normal[3] = {cos(b) * cos(a), cos(b) * sin(a), sin(b)};
        const double middle[3] = {ring_radius * cos(a), ring_radius * sin(a), 0};
        for (int i = 0; i < 3; i++) {
            out->position[3 * (size_t)vertex + (size_t)i] = (float)(middle[i] + tube_radius * normal[i]);
            out->normal[3 * (size_t)vertex + (size_t)i] = (float)normal[i];
        }
    }
    put_grid(out, rings, rings, sides);
    return true;
}

bool shape_wavy(mesh *out, fault *why) {
    enum { STRIPS = 32, COLUMNS = 64 };
    if (!mesh_open(out, (STRIPS + 1) * COLUMNS, 2 * STRIPS * COLUMNS, why)) return false;
    for (int vertex = 0; vertex < out->vertices; vertex++) {
        const double a = pi * (vertex / COLUMNS) / STRIPS, b = 2 * pi * (vertex % COLUMNS) / COLUMNS;
        const double radius = (1 + 0.1 * sin(5 * a) * cos(4 * b)) / 1.1;
        const double direction[3] = {sin(a) * cos(b), cos(a), sin(a) * sin(b)};
        for (int i = 0; i < 3; i++) out->position[3 * vertex + i] = (float)(radius * direction[i]);
    }
    put_grid(out, STRIPS + 1, STRIPS, COLUMNS);
    mesh_find_normals(out);
    return true;
}

// ---- frames

cubemap_frame cubemap_frame_open(const mesh *host, const pinhole_camera *camera, int size, float background) {
    const size_t pixels = (size_t)camera->width * (size_t)camera->height;
    const size_t bytes = bytes_of(host->vertices, host->triangles);
    cubemap_frame out = {.camera = *camera, .size = size, .background = background};
    out.surface = over(device_allocate(bytes), host->vertices, host->triangles);
    device_upload(out.surface.position, host->position, bytes);
    for (int s = size; s > 0; s /= 2, out.levels++) out.texels += 6 * s * s;
    out.corner = device_allocate((size_t)host->triangles * 9 * sizeof *out.corner);
    out.texel = device_allocate((size_t)out.texels * 3 * sizeof *out.texel);
    out.color = device_allocate(pixels * 3 * sizeof *out.color);
    out.color_gradient = device_allocate(pixels * 3 * sizeof *out.color_gradient);
    out.sums = sum_memory_open(out.texels, 3);
    return out;
}

void cubemap_frame_close(cubemap_frame *frame) {
    device_free(frame->surface.position);
    device_free(frame->corner);
    device_free(frame->texel);
    device_free(frame->color);
    device_free(frame->color_gradient);
    sum_memory_close(&frame->sums);
    *frame = (cubemap_frame){0};
}

// ---- cameras, surroundings

pinhole_camera scene_camera(int view, int views, int width, int height) {
    const double around = 2 * pi * view / views + 0.4, up = view % 2 ? 1.9 : -0.9;
    return pinhole_look_at(width, height, 0.72, (const double[3]){2.8 * cos(around), 2.8 * sin(around), up},
                           (const double[3]){0, 0, 0}, (const double[3]){0, 0, 1});
}

// Light from a unit direction, z upwards.
static void light_from(const double d[3], double color[3]) {
    static const double sun[3] = {0.48, 0.6, 0.64};
    const double around = atan2(d[1], d[0]) / (2 * pi) + 0.5, height = d[2];
    if (height < -0.45) {
        const double x = d[0] / -height, y = d[1] / -height;
        const double shade = ((int)floor(3 * x + 100) + (int)floor(3 * y + 100)) % 2 ? 0.75 : 0.2;
        color[0] = shade, color[1] = 0.9 * shade, color[2] = 0.75 * shade;
    } else if (height < 0.35) {
        const double stripe = 0.5 + 0.5 * sin(2 * pi * 12 * around);
        for (int i = 0; i < 3; i++)
            color[i] = 0.25 + 0.6 * stripe * (0.5 + 0.5 * cos(2 * pi * (around + i / 3.0)));
        const double across = fmod(8 * around, 1) - 0.5, over = (height + 0.05) * 3;
        if (across * across + over * over < 0.05)
            for (int i = 0; i < 3; i++) color[i] = 1;
    } else {
        const double haze = exp(-4 * (height - 0.35));
        color[0] = 0.25 + 0.6 * haze, color[1] = 0.45 + 0.45 * haze, color[2] = 0.85;
        if (dot(d, sun) > 0.985) color[0] = 1, color[1] = 0.95, color[2] = 0.7;
    }
}

void scene_surroundings(int size, float *texel) {
    for (int face = 0; face < 6; face++)
        for (int j = 0; j < size; j++)
            for (int i = 0; i < size; i++) {
                const int axis = face / 2;
                double d[3], color[3];
                d[axis] = face % 2 ? -1 : 1;
                d[(axis + 1) % 3] = (2 * i + 1.0) / size - 1;
                d[(axis + 2) % 3] = (2 * j + 1.0) / size - 1;
                normalize(d);
                light_from(d, color);
                float *out =
                    texel + 3 * (((size_t)face * (size_t)size + (size_t)j) * (size_t)size + (size_t)i);
                for (int k = 0; k < 3; k++) out[k] = (float)color[k];
            }
}
