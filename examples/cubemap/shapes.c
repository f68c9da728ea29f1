// SPDX-License-Identifier: MIT
#include "shapes.h"
#include "gpu/vector.h"
#include <math.h>
#include <stddef.h>

static void put(mesh *out, int vertex, const double point[3]) {
    for (int i = 0; i < 3; i++) out->position[3 * (size_t)vertex + (size_t)i] = (float)point[i];
}

static void put_triangle(mesh *out, int *count, int a, int b, int c) {
    int *corner = out->corner + 3 * (size_t)(*count)++;
    corner[0] = a, corner[1] = b, corner[2] = c;
}

// The point on the sphere at row r and column c of an icosahedron's face whose sides are cut into n parts.
static void on_face(double corner[3][3], int n, int r, int c, double point[3]) {
    for (int i = 0; i < 3; i++)
        point[i] = ((n - r) * corner[0][i] + (r - c) * corner[1][i] + c * corner[2][i]) / n;
    normalize(point);
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
        double corner[3][3];
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 3; i++) corner[k][i] = vertices[faces[face][k]][i];
        for (int r = 0; r <= n; r++) {
            const int row = face * on_each + r * (r + 1) / 2, next = row + r + 1;
            for (int c = 0; c <= r; c++) {
                double point[3];
                on_face(corner, n, r, c, point);
                put(out, row + c, point);
                if (r == n) continue;
                put_triangle(out, &triangles, row + c, next + c, next + c + 1);
                if (c < r) put_triangle(out, &triangles, row + c, next + c + 1, row + c + 1);
            }
        }
    }
    for (int i = 0; i < 3 * out->vertices; i++) out->normal[i] = out->position[i];
    return true;
}

// The waves: the point in direction d is at radius 0.85 + 0.05 (the sum of sin 7 d[i]).
bool shape_bumpy(int level, mesh *out, fault *why) {
    if (!shape_icosphere(level, out, why)) return false;
    for (int v = 0; v < out->vertices; v++) {
        float *p = out->position + 3 * (size_t)v, *normal = out->normal + 3 * (size_t)v;
        double radius = 0.85, slope[3], along = 0;
        const double d[3] = {p[0], p[1], p[2]};
        for (int i = 0; i < 3; i++) radius += 0.05 * sin(7 * d[i]), slope[i] = 0.35 * cos(7 * d[i]);
        along = dot(slope, d);
        // The normal of |x| = radius(x / |x|): radius d minus the slope along the sphere.
        for (int i = 0; i < 3; i++) {
            normal[i] = (float)(radius * d[i] - (slope[i] - along * d[i]));
            p[i] = (float)(radius * d[i]);
        }
    }
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

bool shape_fit(mesh *host) {
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY}, farthest = 0;
    for (int v = 0; v < host->vertices; v++)
        for (int i = 0; i < 3; i++) {
            const double x = host->position[3 * (size_t)v + (size_t)i];
            low[i] = fmin(low[i], x), high[i] = fmax(high[i], x);
        }
    for (int v = 0; v < host->vertices; v++) {
        double away[3];
        for (int i = 0; i < 3; i++)
            away[i] = host->position[3 * (size_t)v + (size_t)i] - (low[i] + high[i]) / 2;
        farthest = fmax(farthest, sqrt(dot(away, away)));
    }
    if (!(farthest > 0) || !isfinite(farthest)) return false;
    for (int v = 0; v < host->vertices; v++)
        for (int i = 0; i < 3; i++) {
            float *x = &host->position[3 * (size_t)v + (size_t)i];
            *x = (float)((*x - (low[i] + high[i]) / 2) / farthest);
        }
    return true;
}
