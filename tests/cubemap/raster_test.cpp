// SPDX-License-Identifier: MIT
// What every pixel sees, against all triangles in double precision.
#include "cubemap_reference.h"
#include "scenes.h"
#include <algorithm>
#include <cmath>
#include <random>

namespace {

struct answer {
    bool mesh;
    double direction[3], detail;
};

// All that rounding may make of a pixel; the first is the exact answer.
std::vector<answer> answers(const mesh &host, const pinhole_camera &camera, int size, int x, int y) {
    const double eps = 1e-5, near_limit = 1e-3;
    std::vector<std::pair<double, int>> met;    // depths and triangles
    double closest = INFINITY, sure = INFINITY; // depths; sure: the ray meets the triangle beyond doubt
    int exact = -1;
    for (int t = 0; t < host.triangles; t++) {
        reference_hit hit;
        if (!reference_meet(host, camera, t, x + 0.5, y + 0.5, &hit)) continue;
        const double inside = *std::min_element(hit.weight, hit.weight + 3);
        if (inside < -eps || !(hit.depth > near_limit * (1 - eps))) continue;
        met.emplace_back(hit.depth, t);
        if (inside > eps && hit.depth > near_limit * (1 + eps)) sure = std::min(sure, hit.depth);
        if (inside >= 0 && hit.depth > near_limit && hit.depth < closest) closest = hit.depth, exact = t;
    }
    std::vector<answer> out;
    const auto add = [&](int triangle) { // -1: none
        answer a = {triangle >= 0, {}, -1};
        if (a.mesh) {
            reference_mirror(host, camera, triangle, x + 0.5, y + 0.5, a.direction);
            a.detail = reference_detail(host, camera, triangle, x + 0.5, y + 0.5, size);
        }
        out.push_back(a);
    };
    add(exact);
    for (const auto &[depth, triangle] : met)
        if (depth <= sure * (1 + eps)) add(triangle);
    if (sure == INFINITY) add(-1);
    return out;
}

// The square of the distance of the directions.
double apart(const answer &a, const float *sample) {
    double square = 0;
    for (int i = 0; i < 3; i++) square += std::pow(a.direction[i] - sample[i], 2);
    return square;
}

bool fits(const answer &a, const float *sample) {
    if (!a.mesh) return sample[3] == -1;
    // Edge-on the barycentric coordinates lose digits.
    return apart(a, sample) < 4e-6 && std::abs(a.detail - sample[3]) < 0.05;
}

void expect_seen(const char *name, const mesh &host, const pinhole_camera &camera) {
    const int size = 32;
    const std::vector<float> sample = seen(host, camera, size).samples();
    int on_mesh = 0, otherwise = 0, wrong = 0;
    double square = 0;
    for (int p = 0; p < camera.width * camera.height && wrong <= 5; p++) {
        const int x = p % camera.width, y = p / camera.width;
        const float *at = &sample[4 * p];
        const std::vector<answer> possible = answers(host, camera, size, x, y);
        on_mesh += possible[0].mesh;
        if (fits(possible[0], at)) {
            square += possible[0].mesh ? apart(possible[0], at) : 0;
            continue;
        }
        otherwise++;
        const bool one =
            std::any_of(possible.begin(), possible.end(), [&](const answer &a) { return fits(a, at); });
        wrong += !one;
        EXPECT_TRUE(one) << name << ": pixel " << x << ", " << y << ": " << at[0] << " " << at[1] << " "
                         << at[2] << " " << at[3] << ", not at level " << possible[0].detail;
    }
    EXPECT_LE(otherwise, 1e-3 * on_mesh + 1) << name;
    EXPECT_GT(on_mesh, camera.width * camera.height / 20) << name;
    EXPECT_LT(std::sqrt(square / on_mesh), 5e-5) << name;
}

TEST(CubemapRaster, SeesWhatTheReferenceSees) {
    expect_seen("icosphere", icosphere(2).host, scene_camera(0, 8, 83, 61));
    expect_seen("icosahedron", icosphere(0).host, scene_camera(3, 8, 33, 48));
    expect_seen("finer torus", torus(40, 16).host, scene_camera(1, 8, 64, 48));
    expect_seen("torus", torus(24, 12).host, scene_camera(5, 8, 70, 50));
    // Thousands of triangles in a tile.
    const double eye[3] = {9, 3, 4}, origin[3] = {0, 0, 0}, up[3] = {0, 0, 1};
    expect_seen("far away", torus(64, 40).host, pinhole_look_at(16, 16, 0.25, eye, origin, up));
    // A floor around the camera, whose triangles reach behind it, and a wall behind it that nobody sees.
    const test_mesh floor(
        {-40, -40, -1, 40, -40, -1, 40, 40, -1, -40, 40, -1, -9, -9, 9, -9, -9, -9, -9, 9, 0}, {},
        {0, 1, 2, 0, 2, 3, 4, 5, 6});
    const double above[3] = {0, 0.3, 0.2}, ahead[3] = {3, 1, -0.5};
    expect_seen("floor", floor.host, pinhole_look_at(40, 34, 1.2, above, ahead, up));
}

// Candidates come to a tile in any order, and what is seen does not depend on it. Of two triangles at one place that is the
// first: each has a second one, 128 behind it, in another warp of the tile, which mirrors another way.
TEST(CubemapRaster, IsTheSameInEveryRun) {
    const test_mesh shape = torus(8, 8);
    const mesh &m = shape.host;
    std::vector<float> position(m.position, m.position + 3 * m.vertices),
        normal(m.normal, m.normal + 3 * m.vertices);
    std::vector<int> corner(m.corner, m.corner + 3 * m.triangles);
    position.insert(position.end(), m.position, m.position + 3 * m.vertices);
    normal.resize(position.size(), 1);
    for (int k = 0; k < 3 * m.triangles; k++) corner.push_back(corner[k] + m.vertices);
    const test_mesh twice(position, normal, corner);
    const pinhole_camera camera = scene_camera(2, 8, 40, 30);
    const std::vector<float> first = seen(shape.host, camera, 8).samples();
    for (unsigned run = 1; run <= 4; run++) {
        set_run(run);
        EXPECT_EQ(seen(twice.host, camera, 8).samples(), first) << run;
    }
    set_run(0);
}

// A grid whose edges go through pixel centres: each pixel sees one of the triangles.
TEST(CubemapRaster, SharedEdgesLeaveNoGaps) {
    std::vector<float> position;
    std::vector<int> corner;
    const int side = 16;
    for (int j = 0; j <= side; j++)
        for (int i = 0; i <= side; i++) {
            position.insert(position.end(), {float(i) + 0.5f, float(j) + 0.5f, 1});
            if (i == side || j == side) continue;
            const int a = j * (side + 1) + i, b = a + 1, c = a + side + 1, d = c + 1;
            corner.insert(corner.end(), {a, b, d, a, d, c});
        }
    const test_mesh grid(position, {}, corner);
    const pinhole_camera camera = {18, 18, 1, {0, 0}, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}};
    const std::vector<float> sample = seen(grid.host, camera, 8).samples();
    for (int p = 0; p < 18 * 18; p++)
        EXPECT_EQ(sample[4 * p + 3] >= 0, p % 18 <= side && p / 18 <= side) << p % 18 << ", " << p / 18;
}

TEST(CubemapRaster, NothingIsMirroredByNothing) {
    const pinhole_camera camera = {20, 20, 20, {10, 10}, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}};
    const std::vector<float> in_front = {-9, -9, 4, 9, -9, 4, 0, 20, 4},
                             behind = {-9, -9, -4, 9, -9, -4, 0, 20, -4},
                             line = {-9, -9, 4, 0, 0, 4, 9, 9, 4}, point = {0, 0, 4, 0, 0, 4, 0, 0, 4},
                             normal = {0, 0, -1, 0, 0, -1, 0, 0, -1}, canceling = {0, 0, 0, 0, 0, 0, 0, 0, 0},
                             nan(9, NAN);
    const struct {
        const char *name;
        std::vector<float> position, normal;
    } rows[] = {{"behind", behind, normal},
                {"a line", line, normal},
                {"a point", point, normal},
                {"no normals", in_front, canceling},
                {"normals that are not numbers", in_front, nan},
                {"places that are not numbers", nan, normal}};
    for (const auto &row : rows) {
        const test_mesh one(row.position, row.normal, {0, 1, 2});
        seen s(one.host, camera, 4);
        const std::vector<float> sample = s.samples();
        for (size_t p = 0; p < s.pixels(); p++) ASSERT_EQ(sample[4 * p + 3], -1) << row.name;
        cubemap_render(&s.frame);
        for (const float value : downloaded(s.frame.color, 3 * s.pixels()))
            ASSERT_EQ(value, SCENE_BACKGROUND);
    }
    const test_mesh one(in_front, normal, {0, 1, 2});
    EXPECT_GE(seen(one.host, camera, 4).samples()[4 * 210 + 3], 0);
}

// A wall, and before and behind it triangles without an area as seen from here: rounding alone says how deep
// they are. The wall is seen as if there were nothing else.
TEST(CubemapRaster, TrianglesThatAreSeenEdgeOnHideNothing) {
    const pinhole_camera camera = {32, 32, 19, {16, 16}, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}};
    std::vector<float> position = {-20, -20, 4, 20, -20, 4, 0, 30, 4.5f};
    std::vector<int> corner = {0, 1, 2};
    const test_mesh wall(position, {}, corner);
    const auto add = [&](double x, double y, double depth) {
        corner.push_back(int(position.size() / 3));
        for (const double value : {(x - 16) / 19, (y - 16) / 19, 1.0})
            position.push_back(float(depth * value));
    };
    std::mt19937 random(1);
    for (int n = 0; n < 1500; n++) { // corners on three pixels' rays, which are in one plane
        const double x = random() % 28 + 0.5, y = random() % 28 + 0.5, dx = random() % 2 + 1,
                     dy = random() % 2;
        for (const int k : {0, 1, 2}) add(x + k * dx, y + k * dy, 6 + 3 * (random() / 4294967296.0));
    }
    for (int k = 0; k < 3; k++) add(9.5, 9.5, 2);
    for (int k = 0; k < 3; k++) add(40, 40, k - 1.0);
    std::vector<float> normal(position.size());
    std::copy(wall.host.normal, wall.host.normal + 9, normal.begin());
    for (size_t k = 11; k < normal.size(); k += 3) normal[k] = -1;
    const test_mesh all(position, normal, corner);
    EXPECT_EQ(seen(all.host, camera, 8).samples(), seen(wall.host, camera, 8).samples());
}

} // namespace
