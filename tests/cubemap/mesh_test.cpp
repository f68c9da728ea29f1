// SPDX-License-Identifier: MIT
// The generated meshes, and those of OBJ files.
#include "run_program.h"
#include "scenes.h"
#include <map>
#include <random>
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

class CubemapObj : public ProgramTest {
  protected:
    fault why = {};
    // The text's mesh; empty if it is refused.
    mesh parse(const std::string &text) {
        std::ofstream(at("m.obj"), std::ios::binary) << text;
        mesh out;
        const bool done = obj_file_read(at("m.obj").c_str(), &out, &why);
        EXPECT_EQ(done, out.position != nullptr);
        return out;
    }
};

const char cube[] = "# a cube, from 2 to 4\n"
                    "mtllib none.mtl\n"
                    "o cube\r\n"
                    "v 2 2 2\nv 4 2 2\nv 2 4 2 1.0\nv 4 4 2\n"
                    "v 2 2 4 0.5 0.5 0.5\n  v  4\t2 4\nv 2 4 4\nv 4 4 4\n"
                    "vt 0 0\nvn 0 0 1\n\n"
                    "usemtl gold\ns 1\n"
                    "f 1 3 4 2\nf 5/1/1 6/1/1 8/1/1 7/1/1\n"
                    "f 1//1 2//1 6//1\nf 1 6 5\n"
                    "f -6 -2 -1 -5 \n" // 3 7 8 4
                    "f 1 5 7 3\nf\t2 4 8/1 6\n";

TEST_F(CubemapObj, OfACubeIsRead) {
    mesh m = parse(cube);
    ASSERT_NE(m.position, nullptr) << why.text;
    EXPECT_EQ(m.vertices, 8);
    ASSERT_EQ(m.triangles, 12);
    const int first[] = {0, 2, 3, 0, 3, 1};
    for (int k = 0; k < 6; k++) EXPECT_EQ(m.corner[k], first[k]);
    // Centred, the corners at 1; edge normals of a cube's corners need no be exact, but go outwards.
    const float side = 1 / std::sqrt(3.0f);
    double volume = 0;
    for (int v = 0; v < 8; v++)
        for (int i = 0; i < 3; i++) {
            const float sign = v >> i & 1 ? 1.0f : -1.0f;
            EXPECT_NEAR(m.position[3 * v + i], sign * side, 1e-6);
            EXPECT_GT(sign * m.normal[3 * v + i], 0.1) << v;
        }
    for (int t = 0; t < m.triangles; t++) {
        const point a = corner_of(m, m.position, t, 0), b = corner_of(m, m.position, t, 1),
                    c = corner_of(m, m.position, t, 2);
        for (size_t i = 0; i < 3; i++)
            volume += double(a[i] * (b[(i + 1) % 3] * c[(i + 2) % 3] - b[(i + 2) % 3] * c[(i + 1) % 3])) / 6;
    }
    EXPECT_NEAR(volume, 8 * std::pow(double(side), 3), 1e-5);
    mesh_close(&m);
}

TEST_F(CubemapObj, VerticesWithoutTrianglesHaveANormal) {
    mesh m = parse("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 5 5 5\nv 1 1 1\nf 1 2 3\nf 5 5 5\n");
    ASSERT_NE(m.position, nullptr) << why.text;
    for (int v = 0; v < 5; v++) EXPECT_GT(m.normal[3 * v + 2], 0.0f);
    mesh_close(&m);
}

TEST_F(CubemapObj, BadFilesAreRefusedByNameAndLine) {
    const std::string three = "v 0 0 0\nv 1 0 0\nv 0 1 0\n";
    const struct {
        std::string text;
        const char *part;
    } rows[] = {
        {"", "holds no faces"},
        {three, "holds no faces"},
        {three + "f 1 2", "at line 4: a face needs three corners"},
        {three + "f 1 2\n", "at line 4: a face needs three corners"},
        {three + "f \n", "at line 4: a face needs three corners"},
        {three + "f 1 2 4\n", "at line 4: a face names a vertex that is not there"},
        {three + "f 1 2 0\n", "at line 4: a face names a vertex that is not there"},
        {three + "f 1 2 -4\n", "at line 4: a face names a vertex that is not there"},
        {three + "f 1 2 99999999999999999999\n", "at line 4: a face names a vertex that is not there"},
        {three + "f 1 2 -99999999999999999999\n", "at line 4: a face names a vertex that is not there"},
        {three + "f 1 2 4294967297\n", "at line 4: a face names a vertex that is not there"},
        {three + "f 1 2 x\n", "at line 4: a corner of a face is not the number"},
        {three + "f 1 2 3x\n", "at line 4: a corner of a face is not the number"},
        {three + "f 1 2 /3\n", "at line 4: a corner of a face is not the number"},
        {three + "f 1 2 3.5\n", "at line 4: a corner of a face is not the number"},
        {"f 1 2 3\n" + three, "at line 1: a face names a vertex that is not there"},
        {three + "v 1 2\nf 1 2 3\n", "at line 4: a vertex needs three numbers"},
        {three + "v\t1 2 x\nf 1 2 3\n", "at line 4: a vertex needs three numbers"},
        {three + "v 1 2 3x\nf 1 2 3\n", "at line 4: a vertex needs three numbers"},
        {three + "v 1 nan 3\nf 1 2 3\n", "at line 4: a number is not finite"},
        {three + "v 1 inf 3\nf 1 2 3\n", "at line 4: a number is not finite"},
        {three + "v 1 1e99 3\nf 1 2 3\n", "at line 4: a number is not finite"},
        {three + std::string("f 1 2 3\0\n", 9), "at line 4: holds a zero byte"},
        {"v 1 1 1\nv 1 1 1\nf 1 2 2\n", "the mesh has no extent"},
    };
    for (const auto &row : rows) {
        mesh m = parse(row.text);
        EXPECT_EQ(m.position, nullptr) << row.text;
        EXPECT_CONTAINS(std::string(why.text), "m.obj: ");
        EXPECT_CONTAINS(std::string(why.text), row.part);
        mesh_close(&m);
    }
    mesh m;
    EXPECT_FALSE(obj_file_read(at("none.obj").c_str(), &m, &why));
    EXPECT_CONTAINS(std::string(why.text), "none.obj: cannot open");
}

void expect_sound(const mesh &m) {
    for (int k = 0; k < 3 * m.triangles; k++) ASSERT_TRUE(m.corner[k] >= 0 && m.corner[k] < m.vertices);
    for (int k = 0; k < 3 * m.vertices; k++) ASSERT_TRUE(std::abs(m.position[k]) <= 1 + 1e-6f);
    for (int v = 0; v < m.vertices; v++) {
        const float *n = m.normal + 3 * v;
        ASSERT_GT(n[0] * n[0] + n[1] * n[1] + n[2] * n[2], 0);
    }
}

TEST_F(CubemapObj, CutOrDamagedIsSoundOrRefused) {
    const std::string good = cube;
    std::mt19937 random(1);
    int read = 0, refused = 0;
    for (size_t n = 0; n < good.size() + 300; n++) {
        std::string text = good.substr(0, std::min(n, good.size()));
        for (size_t k = 0; n >= good.size() && k < 1 + n % 3; k++)
            text[random() % text.size()] = "0123456789-./ \tvf\nxe"[random() % 20];
        mesh m = parse(text);
        if (m.position) {
            read++;
            expect_sound(m);
        } else {
            refused++;
            EXPECT_CONTAINS(std::string(why.text), "m.obj: ");
        }
        mesh_close(&m);
    }
    EXPECT_GT(read, 50);
    EXPECT_GT(refused, 200);
}

} // namespace
