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
    point out = {at[0], at[1], at[2]};
    for (float &value : out)
        value = std::abs(value) < 1e-12f ? 0 : value; // a pole's sine of pi is not quite 0
    return out;
}

// Closed: every edge once in each direction. Its normals agree with its triangles, by a cosine of at least `least`, and its
// volume is as it should be: negative where it looks inwards.
void expect_closed(const char *name, const test_mesh &shape, int triangles, int euler, double volume,
                   double least, double nearest) {
    const mesh &m = shape.host;
    EXPECT_EQ(m.triangles, triangles) << name;
    std::map<std::pair<point, point>, int> edges;
    std::set<point> places;
    double six_volumes = 0;
    for (int t = 0; t < m.triangles; t++) {
        point p[3];
        for (int k = 0; k < 3; k++) {
            ASSERT_TRUE(m.corner[3 * t + k] >= 0 && m.corner[3 * t + k] < m.vertices);
            places.insert(p[k] = corner_of(m, m.position, t, k));
        }
        if (p[0] == p[1] || p[1] == p[2] || p[2] == p[0]) continue; // at a pole
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
            EXPECT_GT(along / std::sqrt(square * length), least) << name << t;
        }
    }
    for (const auto &[edge, count] : edges) {
        ASSERT_EQ(count, 1) << name;
        ASSERT_EQ(edges.count({edge.second, edge.first}), 1u) << name;
    }
    EXPECT_EQ(int(places.size()) - int(edges.size()) / 2 + int(edges.size()) / 3, euler) << name;
    EXPECT_NEAR(six_volumes / 6, volume, 0.02 * std::abs(volume)) << name;
    double low = 1, high = 0;
    for (const point &p : places) {
        const double away = std::hypot(double(p[0]), double(p[1]), double(p[2]));
        low = std::min(low, away), high = std::max(high, away);
    }
    EXPECT_NEAR(high, 1, 1e-6) << name;
    EXPECT_NEAR(low, nearest, 1e-6) << name;
}

// The wavy sphere has radii of 0.9 / 1.1 to 1, and the volume of (4 pi / 3) / 1.1^3 and what the waves add.
TEST(CubemapMesh, ShapesAreClosed) {
    const double pi = 3.141592653589793;
    const test_mesh wavy([](mesh *out, fault *why) { return shape_wavy(out, why); });
    expect_closed("icosahedron", icosphere(0), 20, 2, 2.536, 0.75, 1);
    expect_closed("icosphere", icosphere(4), 20 * 256, 2, 4 * pi / 3, 0.99, 1);
    expect_closed("torus", torus(96, 48), 2 * 96 * 48, 0, 2 * pi * pi * 0.7 * 0.09, 0.99, 0.4);
    expect_closed("small torus", torus(12, 8), 2 * 12 * 8, 0, 2 * pi * pi * 0.7 * 0.09 * 0.86, 0.75, 0.4);
    expect_closed("wavy", wavy, 4096, 2, -3.17, 0.75, 0.9 / 1.1);
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

} // namespace
