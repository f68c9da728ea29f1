// SPDX-License-Identifier: MIT
// Meshes in memory, made by formulas and from OBJ files.
#include "cubemap.h"
#include "device.h"
#include "files/input_file.h"
#include "gpu/growing.h"
#include "gpu/vector.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- memory: one block, which begins at `position`

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

mesh device_mesh_open(const mesh *host) {
    const size_t bytes = bytes_of(host->vertices, host->triangles);
    float *const block = device_allocate(bytes);
    device_upload(block, host->position, bytes);
    return over(block, host->vertices, host->triangles);
}

void device_mesh_close(mesh *device) {
    device_free(device->position);
    *device = (mesh){0};
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

// ---- shapes

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

bool shape_torus(int rings, int sides, mesh *out, fault *why) {
    const double ring_radius = 0.7, tube_radius = 0.3;
    if (!mesh_open(out, rings * sides, 2 * rings * sides, why)) return false;
    int triangles = 0;
    for (int r = 0; r < rings; r++)
        for (int s = 0; s < sides; s++) {
            const double a = 2 * pi * r / rings, b = 2 * pi * s / sides;
            const double normal[3] = {cos(b) * cos(a), cos(b) * sin(a), sin(b)};
            const double middle[3] = {ring_radius * cos(a), ring_radius * sin(a), 0};
            const int vertex = r * sides + s, beside = r * sides + (s + 1) % sides;
            const int ahead = (r + 1) % rings * sides + s, across = (r + 1) % rings * sides + (s + 1) % sides;
            for (int i = 0; i < 3; i++) {
                out->position[3 * (size_t)vertex + (size_t)i] = (float)(middle[i] + tube_radius * normal[i]);
                out->normal[3 * (size_t)vertex + (size_t)i] = (float)normal[i];
            }
            put_triangle(out, &triangles, vertex, ahead, across);
            put_triangle(out, &triangles, vertex, across, beside);
        }
    return true;
}

// ---- OBJ

enum { MAX_ITEMS = 1 << 26 }; // vertices; triangles

typedef struct reader {
    input_file text;
    float (*position)[3];
    int (*corner)[3];
    size_t vertices, triangles, vertex_room, triangle_room;
} reader;

static bool read_vertex(reader *r, const char *rest, fault *why) {
    float point[3];
    for (int i = 0; i < 3; i++) {
        char *end;
        point[i] = strtof(rest, &end);
        if (end == rest || (*end != '\0' && !strchr(" \t", *end)))
            return input_file_fail_at_line(&r->text, "a vertex needs three numbers", why);
        if (!isfinite(point[i])) return input_file_fail_at_line(&r->text, "a number is not finite", why);
        rest = end;
    }
    if (r->vertices == MAX_ITEMS) return input_file_fail_at_line(&r->text, "more than 2^26 vertices", why);
    return append(&r->position, &r->vertices, &r->vertex_room, point, sizeof point) ||
           input_file_fail_at_line(&r->text, "no memory for so many vertices", why);
}

// One corner, "7", "7/1", "7//3" or "-1": the number of its vertex from 0.
static bool read_corner(reader *r, const char **rest, int *vertex, fault *why) {
    char *end;
    errno = 0;
    const long number = strtol(*rest, &end, 10);
    const long from_zero = number > 0 ? number - 1 : (long)r->vertices + number;
    if (end == *rest || (*end != '\0' && !strchr("/ \t", *end)))
        return input_file_fail_at_line(&r->text, "a corner of a face is not the number of a vertex", why);
    if (errno || number == 0 || from_zero < 0 || from_zero >= (long)r->vertices)
        return input_file_fail_at_line(&r->text, "a face names a vertex that is not there", why);
    *vertex = (int)from_zero;
    *rest = end + strcspn(end, " \t");
    return true;
}

static bool read_face(reader *r, const char *rest, fault *why) {
    int corner[3] = {0}, count = 0; // a triangle of the fan
    for (rest += strspn(rest, " \t"); *rest != '\0'; rest += strspn(rest, " \t"), count++) {
        corner[1] = corner[2];
        if (!read_corner(r, &rest, &corner[2], why)) return false;
        if (count == 0) corner[0] = corner[2];
        if (count < 2) continue;
        if (r->triangles == MAX_ITEMS)
            return input_file_fail_at_line(&r->text, "more than 2^26 triangles", why);
        if (!append(&r->corner, &r->triangles, &r->triangle_room, corner, sizeof corner))
            return input_file_fail_at_line(&r->text, "no memory for so many faces", why);
    }
    return count >= 3 || input_file_fail_at_line(&r->text, "a face needs three corners", why);
}

static bool read_lines(reader *r, fault *why) {
    bool done;
    while ((done = input_file_next_line(&r->text, why)) && r->text.line) {
        const char *const line = r->text.line + strspn(r->text.line, " \t");
        if (line[0] == '\0' || (line[1] != ' ' && line[1] != '\t')) continue;
        if (line[0] == 'v' && !read_vertex(r, line + 1, why)) return false;
        if (line[0] == 'f' && !read_face(r, line + 1, why)) return false;
    }
    return done;
}

// Moves and scales the mesh. False: it has no extent.
static bool shape_fit(mesh *host) {
    const size_t values = 3 * (size_t)host->vertices;
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY}, farthest = 0;
    for (size_t k = 0; k < values; k++) {
        low[k % 3] = fmin(low[k % 3], host->position[k]);
        high[k % 3] = fmax(high[k % 3], host->position[k]);
    }
    for (size_t k = 0; k < values; k += 3) {
        double away[3];
        for (size_t i = 0; i < 3; i++) away[i] = host->position[k + i] - (low[i] + high[i]) / 2;
        farthest = fmax(farthest, sqrt(dot(away, away)));
    }
    if (!(farthest > 0) || !isfinite(farthest)) return false;
    for (size_t k = 0; k < values; k++)
        host->position[k] = (float)((host->position[k] - (low[k % 3] + high[k % 3]) / 2) / farthest);
    return true;
}

bool obj_file_read(const char *path, mesh *out, fault *why) {
    reader r = {0};
    *out = (mesh){0};
    if (!input_file_open(&r.text, path, why)) return false;
    bool done = read_lines(&r, why) && (r.triangles > 0 || fail(why, "%s: holds no faces", path)) &&
                mesh_open(out, (int)r.vertices, (int)r.triangles, why);
    if (done) {
        memcpy(out->position, r.position, r.vertices * sizeof *r.position);
        memcpy(out->corner, r.corner, r.triangles * sizeof *r.corner);
        done = shape_fit(out) || fail(why, "%s: the mesh has no extent, or a boundless one", path);
        mesh_find_normals(out);
    }
    for (int v = 0; v < out->vertices; v++) {
        float *n = out->normal + 3 * (size_t)v;
        if (!(n[0] * n[0] + n[1] * n[1] + n[2] * n[2] > 0)) n[0] = n[1] = 0, n[2] = 1;
    }
    if (!done) mesh_close(out);
    input_file_close(&r.text);
    free(r.position);
    free(r.corner);
    return done;
}
