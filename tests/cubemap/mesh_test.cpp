// SPDX-License-Identifier: MIT
// The generated meshes.
#include "scenes.h"
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace {

using point = std::array<float, 3>;

point corner_of(const mesh &m, const float *values, int triangle, int k) {
    const float *at = values + 3 * m.corner[3 * triangle + k];
    return {at[0], at[1], at[2]};
}

// Closed: every edge once in each direction. Outwards: a volume as it should be, and normals that agree.
void expect_closed(const char *name, const mesh &m, int triangles, int euler, double volume) {
    EXPECT_EQ(m.triangles, triangles) << name;
    std::map<std::pair<point, point>, int> edges;
    std::set<point> places;
    double six_volumes = 0, least = 1;
    for (int t = 0; t < m.triangles; t++) {
        point p[3];
        for (int k = 0; k < 3; k++) {
            ASSERT_TRUE(m.corner[3 * t + k] >= 0 && m.corner[3 * t + k] < m.vertices);
            places.insert(p[k] = corner_of(m, m.position, t, k));
        }
        for (int k = 0; k < 3; k++) edges[{p[k], p[(k + 1) % 3]}]++;
        double normal[3], square = 0;
        for (size_t i = 0; i < 3; i++) {
            const size_t j = (i + 1) % 3, l = (i + 2) % 3;
            normal[i] = double(p[1][j] - p[0][j]) * double(p[2][l] - p[0][l]) -
                        double(p[1][l] - p[0][l]) * double(p[2][j] - p[0][j]);
            square += normal[i] * normal[i];
            six_volumes += normal[i] * double(p[0][i]);
        }
        for (int k = 0; k < 3; k++) {
            const point n = corner_of(m, m.normal, t, k);
            double along = 0, length = 0;
            for (size_t i = 0; i < 3; i++) along += normal[i] * double(n[i]), length += double(n[i] * n[i]);
            least = std::min(least, along / std::sqrt(square * length));
        }
    }
    for (const auto &[edge, count] : edges) {
        ASSERT_EQ(count, 1) << name;
        ASSERT_EQ(edges.count({edge.second, edge.first}), 1u) << name;
    }
    EXPECT_EQ(int(places.size()) - int(edges.size()) / 2 + m.triangles, euler) << name;
    EXPECT_NEAR(six_volumes / 6, volume, 0.02 * volume) << name;
    EXPECT_GT(least, 0.75) << name;
    for (const point &p : places)
        EXPECT_LE(std::hypot(double(p[0]), double(p[1]), double(p[2])), 1 + 1e-6) << name;
}

TEST(CubemapMesh, ShapesAreClosedAndLookOutwards) {
    const double pi = 3.141592653589793;
    expect_closed("icosahedron", icosphere(0).host, 20, 2, 2.536);
    expect_closed("icosphere", icosphere(4).host, 20 * 256, 2, 4 * pi / 3);
    expect_closed("torus", torus(96, 48).host, 2 * 96 * 48, 0, 2 * pi * pi * 0.7 * 0.09);
    expect_closed("small torus", torus(12, 9).host, 2 * 12 * 9, 0, 2 * pi * pi * 0.7 * 0.09 * 0.87);
}

// The formulas' normals are about those of the triangles.
TEST(CubemapMesh, NormalsAreFoundFromTriangles) {
    test_mesh shape = torus(60, 40);
    const std::vector<float> given(shape.host.normal, shape.host.normal + 3 * shape.host.vertices);
    mesh_find_normals(&shape.host);
    for (size_t v = 0; v < given.size(); v += 3) {
        const float *n = shape.host.normal + v;
        const double along = double(n[0] * given[v] + n[1] * given[v + 1] + n[2] * given[v + 2]);
        EXPECT_GT(along / std::hypot(double(n[0]), double(n[1]), double(n[2])), 0.999);
    }
}

// Radii of 0.9 / 1.1 to 1; normals that go inwards; the volume of (4 pi / 3) / 1.1^3 and what the waves add.
TEST(CubemapMesh, AWavySphereIsAroundTheOrigin) {
    const test_mesh shape([](mesh *out, fault *why) { return shape_wavy(out, why); });
    const mesh &m = shape.host;
    EXPECT_EQ(m.triangles, 4096);
    double farthest = 0, nearest = 1, six_volumes = 0;
    for (int v = 0; v < m.vertices; v++) {
        const float *p = m.position + 3 * v, *n = m.normal + 3 * v;
        const double away = std::hypot(double(p[0]), double(p[1]), double(p[2]));
        farthest = std::max(farthest, away), nearest = std::min(nearest, away);
        const double along = double(p[0] * n[0] + p[1] * n[1] + p[2] * n[2]);
        EXPECT_LT(along / away / std::hypot(double(n[0]), double(n[1]), double(n[2])), -0.4) << v;
    }
    for (int t = 0; t < m.triangles; t++) {
        const point a = corner_of(m, m.position, t, 0), b = corner_of(m, m.position, t, 1),
                    c = corner_of(m, m.position, t, 2);
        for (size_t i = 0, j = 1, k = 2; i < 3; i++, j = (i + 1) % 3, k = (i + 2) % 3)
            six_volumes += double(a[i] * (b[j] * c[k] - b[k] * c[j]));
    }
    EXPECT_NEAR(farthest, 1, 1e-6);
    EXPECT_NEAR(nearest, 0.9 / 1.1, 1e-6);
    EXPECT_NEAR(six_volumes / 6, -3.17, 0.05);
}

} // namespace
