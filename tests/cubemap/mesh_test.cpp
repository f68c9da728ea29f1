// SPDX-License-Identifier: MIT
// The generated meshes.
#include "scenes.h"
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace {

using point = std::array<double, 3>;

point corner_of(const mesh &m, const float *values, int triangle, int k) {
    point out;
    for (int i = 0; i < 3; i++) out[i] = values[3 * m.corner[3 * triangle + k] + i];
    for (double &value : out)
        value = std::abs(value) < 1e-12 ? 0 : value; // a pole's sine of pi is not quite 0
    return out;
}

double cosine(const double *a, const double *b) {
    return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
}

// Closed: every edge once in each direction. Its normals agree with its triangles, by a cosine of at least `least`, and its
// volume is as it should be: negative where it looks inwards.
void expect_closed(const char *name, const test_mesh &shape, int triangles, int euler, double volume,
                   double least, double nearest) {
    const mesh &m = shape.host;
    EXPECT_EQ(m.triangles, triangles) << name;
    std::map<std::pair<point, point>, int> edges;
    std::set<point> places;
    double volumes = 0, low = 1, high = 0;
    for (int t = 0; t < m.triangles; t++) {
        point p[3];
        for (int k = 0; k < 3; k++) {
            ASSERT_TRUE(m.corner[3 * t + k] >= 0 && m.corner[3 * t + k] < m.vertices);
            places.insert(p[k] = corner_of(m, m.position, t, k));
        }
        if (p[0] == p[1] || p[1] == p[2] || p[2] == p[0]) continue; // at a pole
        double a[3], b[3], normal[3];
        for (int i = 0; i < 3; i++) a[i] = p[1][i] - p[0][i], b[i] = p[2][i] - p[0][i];
        cross(a, b, normal);
        volumes += dot(normal, p[0].data()) / 6;
        for (int k = 0; k < 3; k++) {
            edges[{p[k], p[(k + 1) % 3]}]++;
            EXPECT_GT(cosine(normal, corner_of(m, m.normal, t, k).data()), least) << name << t;
        }
    }
    for (const auto &[edge, count] : edges) {
        ASSERT_EQ(count, 1) << name;
        ASSERT_EQ(edges.count({edge.second, edge.first}), 1u) << name;
    }
    EXPECT_EQ(int(places.size()) - int(edges.size()) / 2 + int(edges.size()) / 3, euler) << name;
    EXPECT_NEAR(volumes, volume, 0.02 * std::abs(volume)) << name;
    for (const point &p : places) {
        const double away = std::sqrt(dot(p.data(), p.data()));
        low = std::min(low, away), high = std::max(high, away);
    }
    EXPECT_NEAR(high, 1, 1e-6) << name;
    EXPECT_NEAR(low, nearest, 1e-6) << name;
}

// The wavy sphere has radii of 0.9 / 1.1 to 1, and the volume of (4 pi / 3) / 1.1^3 and what the waves add.
TEST(CubemapMesh, ShapesAreClosed) {
    const test_mesh wavy([](mesh *out, fault *why) { return shape_wavy(out, why); });
    expect_closed("icosahedron", icosphere(0), 20, 2, 2.536, 0.75, 1);
    expect_closed("icosphere", icosphere(4), 20 * 256, 2, 4 * pi / 3, 0.99, 1);
    expect_closed("torus", torus(96, 48), 2 * 96 * 48, 0, 2 * pi * pi * 0.7 * 0.09, 0.99, 0.4);
    expect_closed("small torus", torus(12, 8), 2 * 12 * 8, 0, 2 * pi * pi * 0.7 * 0.09 * 0.86, 0.75, 0.4);
    expect_closed("wavy", wavy, 4096, 2, -3.17, 0.75, 0.9 / 1.1);
}

// The formulas' normals are about those of the triangles.
TEST(CubemapMesh, NormalsAreFoundFromTriangles) {
    const test_mesh given = torus(60, 40);
    test_mesh found = torus(60, 40);
    mesh_find_normals(&found.host);
    for (int t = 0; t < given.host.triangles; t++)
        EXPECT_GT(cosine(corner_of(given.host, given.host.normal, t, 0).data(),
                         corner_of(found.host, found.host.normal, t, 0).data()),
                  0.999);
}

} // namespace
