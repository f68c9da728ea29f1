// SPDX-License-Identifier: MIT
// The programs spheres and cubemap, which are one loop, as their users run them. SPHERES_PROGRAM and CUBEMAP_PROGRAM are
// their paths.
#include "cubemap.h"
#include "images/image.h"
#include "run_program.h"
#include <jansson.h>

namespace {

using options = std::vector<std::string>;

struct fit_program {
    const char *name, *path;
    const char *picture, *file; // that train writes
    options small;              // of a short training
    // The loss falls below this share of the first, the PSNR rises by so many decibels.
    double share, decibels;
    options fixed;         // a run that is the same again
    options quick;         // of one by every reduction,
    double share_of_every; // whose loss falls below this share
    options bench;         // and numbers of its JSON
    std::vector<std::pair<const char *, int>> numbers;
    std::vector<std::pair<options, const char *>> wrong; // lines, with parts of what stderr says
};

const fit_program programs[] = {{"spheres",
                                 SPHERES_PROGRAM,
                                 "out/spheres.png",
                                 "out/spheres.txt",
                                 {},
                                 0.4,
                                 5,
                                 {"--channels", "8", "--iterations", "4"},
                                 {},
                                 0.8,
                                 {"--channels", "16"},
                                 {{"values", 21}},
                                 {{{"train", "--data", "huge"}, "--data must be one of small, large"},
                                  {{"train", "--channels", "4"}, "--channels must be one of 3, 8, 16, 32"},
                                  {{"bench", "--kept", "17"}, "--kept must be 1..16"}}},
                                {"cubemap",
                                 CUBEMAP_PROGRAM,
                                 "out/cubemap.png",
                                 "out/faces.png",
                                 {"--size", "16"},
                                 0.1,
                                 10,
                                 {"--mesh", "torus", "--iterations", "8"},
                                 {"--width", "32", "--height", "24"},
                                 0.6,
                                 {"--size", "16"},
                                 {{"values", 3}, {"triangles", 5120}, {"size", 16}, {"texels", 6 * 341}},
                                 {{{"train", "--size", "6"}, "--size must be a power of two, not 6"},
                                  {{"bench", "--size", "4096"}, "--size must be auto or 1..2048"}}}};

class FitProgram : public ProgramTest, public testing::WithParamInterface<fit_program> {
  protected:
    const fit_program &p = programs[0];
    explicit FitProgram(const fit_program &its = GetParam()) : p(its) {}
    static options joined(options all, const options &more) {
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    outcome train(const options &more) const {
        return run(p.path, joined(joined({"train", "-o", at("out"), "--width", "64", "--height", "48",
                                          "--iterations", "40"},
                                         p.small),
                                  more));
    }
};

TEST_P(FitProgram, TrainsAndWritesItsPicture) {
    const outcome result = train({});
    ASSERT_EQ(result.code, 0) << result.err;
    const auto loss = change(result.out, "loss"), psnr = change(result.out, "PSNR");
    EXPECT_LT(loss[1], p.share * loss[0]) << result.out;
    EXPECT_GT(psnr[1], psnr[0] + p.decibels) << result.out;
    image picture;
    fault why;
    ASSERT_TRUE(image_read(at(p.picture).c_str(), &picture, &why)) << why.text;
    EXPECT_EQ(picture.width, 3 * 64 + 2 * 4);
    EXPECT_EQ(picture.height, 48);
    image_close(&picture);
}

TEST_P(FitProgram, WithFixedWritesTheSameFileAgain) {
    const options same = joined(p.fixed, {"--reduce", "fixed"});
    ASSERT_EQ(train(same).code, 0);
    const std::string first = contents(at(p.file));
    ASSERT_EQ(train(same).code, 0);
    EXPECT_EQ(contents(at(p.file)), first);
    EXPECT_GT(first.size(), 500u);
}

TEST_P(FitProgram, TrainsByEveryReduction) {
    for (const char *name : {"atomic", "vector", "serial", "bfly", "tree", "fixed"}) {
        const outcome result =
            train(joined({"--reduce", name, "--threshold", "8", "--iterations", "16"}, p.quick));
        ASSERT_EQ(result.code, 0) << name << ": " << result.err;
        const auto loss = change(result.out, "loss");
        EXPECT_LT(loss[1], p.share_of_every * loss[0]) << name;
        EXPECT_CONTAINS(result.out, std::string(name) + " at threshold 8");
    }
}

TEST_P(FitProgram, BenchWritesJson) {
    const outcome result = run(p.path, joined({"bench", "--width", "40", "--thresholds", "0,33", "--repeat",
                                               "3", "--views", "2", "--json", "-"},
                                              p.bench));
    ASSERT_EQ(result.code, 0) << result.err;
    json_error_t error;
    json_t *root = json_loads(result.out.c_str(), 0, &error);
    ASSERT_NE(root, nullptr) << error.text << result.out;
    EXPECT_STREQ(json_string_value(json_object_get(root, "workload")), p.name);
    for (const auto &[key, value] : p.numbers)
        EXPECT_EQ(json_integer_value(json_object_get(root, key)), value) << key;
    EXPECT_EQ(json_array_size(json_object_get(root, "active_lanes")), 33u);
    EXPECT_EQ(json_array_size(json_object_get(root, "distinct_keys")), 33u);
    json_t *rows = json_object_get(root, "adjoint");
    EXPECT_GE(json_array_size(rows), 10u); // a GPU's tuner may add one
    EXPECT_STREQ(json_string_value(json_object_get(json_array_get(rows, 0), "reduction")), "atomic");
    json_decref(root);
}

TEST_P(FitProgram, BenchPrintsATable) {
    const outcome result =
        run(p.path, {"bench", "--width", "32", "--reduce", "tree", "--thresholds", "8", "--repeat", "1"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_CONTAINS(result.out, "active lanes");
    EXPECT_CONTAINS(result.out, "tree             8");
    EXPECT_EQ(result.out.find("serial"), std::string::npos);
}

TEST_P(FitProgram, ExplainsItself) {
    for (const std::string command : {"train", "bench"}) {
        const outcome help = run(p.path, {command, "--help"});
        EXPECT_EQ(help.code, 0);
        EXPECT_CONTAINS(help.out, "usage: " + std::string(p.name) + " " + command);
    }
    EXPECT_CONTAINS(run(p.path, {"--version"}).out, std::string(p.name) + " ");
    EXPECT_CONTAINS(run(p.path, {"--help"}).out, "bench");
}

TEST_P(FitProgram, RefusesWrongLines) {
    const std::string usage = "usage: " + std::string(p.name);
    std::vector<refused_line> lines = {
        {{}, usage.c_str()},
        {{"paint"}, "there is no command 'paint'"},
        {{"train", "--iterations", "-1"}, "--iterations must be auto or 1..10000000"},
        {{"train", "--reduce", "all"}, "--reduce must be one of"},
        {{"train", "--threshold", "34"}, "--threshold must be 0..33"},
        {{"train", "file"}, "unexpected argument"},
        {{"train", "--width", "99999"}, "--width must be auto or 1..4096"},
        {{"bench", "--thresholds", "0,34"}, "--thresholds needs numbers from 0 to 33"},
        {{"bench", "--reduce", "auto"}, "--reduce must be one of"}};
    for (const auto &[line, part] : p.wrong) lines.push_back({line, part});
    expect_refused(p.path, lines, 2);
    // Before the work.
    std::ofstream(at("file")) << "x";
    expect_refused(p.path,
                   {{{"train", "-o", at("file/out")}, "cannot make the folder"},
                    {{"train", "-o", at("file")}, "cannot make the folder"},
                    {{"bench", "--json", at("none/x.json")}, "none/x.json: cannot write"}},
                   1);
}

INSTANTIATE_TEST_SUITE_P(, FitProgram, testing::ValuesIn(programs),
                         [](const auto &info) { return std::string(info.param.name); });

class SpheresProgram : public FitProgram {
  protected:
    SpheresProgram() : FitProgram(programs[0]) {}
};
class CubemapProgram : public FitProgram {
  protected:
    CubemapProgram() : FitProgram(programs[1]) {}
};

TEST_F(SpheresProgram, WritesTheSpheres) {
    ASSERT_EQ(train({"--iterations", "1"}).code, 0);
    const std::string file = contents(at(p.file));
    EXPECT_EQ(file.rfind("spheres 1\n302 3\n", 0), 0u) << file.substr(0, 40);
    std::istringstream numbers(file.substr(file.find("302 3") + 5));
    int count = 0;
    for (double value; numbers >> value; count++) EXPECT_TRUE(std::isfinite(value));
    EXPECT_EQ(count, 302 * 8); // centre, radius, opacity, colour
}

// The mesh mirrors all that there is, so the texels are those of the surroundings.
TEST_F(CubemapProgram, FindsTheSurroundings) {
    ASSERT_EQ(train({}).code, 0);
    image faces;
    fault why;
    ASSERT_TRUE(image_read(at(p.file).c_str(), &faces, &why)) << why.text;
    ASSERT_EQ(faces.width, 16);
    ASSERT_EQ(faces.height, 6 * 16);
    std::vector<float> truth(18 * 16 * 16);
    scene_surroundings(16, truth.data());
    double difference = 0;
    for (size_t k = 0; k < truth.size(); k++)
        difference += std::abs(faces.pixels[k] / 255.0 - double(truth[k]));
    image_close(&faces);
    EXPECT_LT(difference / double(truth.size()), 0.03);
}

TEST_F(CubemapProgram, FacesAreWritten) {
    std::vector<float> texel(18 * 4 * 4);
    for (size_t k = 0; k < texel.size(); k++) texel[k] = float(k) / float(texel.size());
    texel[0] = -1, texel[1] = 2, texel[2] = NAN;
    fault why;
    ASSERT_TRUE(face_file_write(at("f.png").c_str(), texel.data(), 4, &why)) << why.text;
    image faces;
    ASSERT_TRUE(image_read(at("f.png").c_str(), &faces, &why)) << why.text;
    ASSERT_EQ(faces.width, 4);
    EXPECT_EQ(faces.pixels[0], 0);
    EXPECT_EQ(faces.pixels[1], 255);
    EXPECT_EQ(faces.pixels[2], 0);
    for (size_t k = 3; k < texel.size(); k++) EXPECT_NEAR(faces.pixels[k], 255 * texel[k], 0.5001);
    image_close(&faces);
}

TEST_F(CubemapProgram, EveryMeshIsDrawn) {
    std::ofstream(at("m.obj")) << "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n";
    const std::pair<std::string, const char *> rows[] = {{"torus", "torus, 9216 triangles"},
                                                         {at("m.obj"), "m.obj, 4 triangles"}};
    for (const auto &[mesh, part] : rows) {
        const outcome result =
            train({"--mesh", mesh, "--width", "32", "--height", "24", "--iterations", "1"});
        EXPECT_EQ(result.code, 0) << result.err;
        EXPECT_CONTAINS(result.out, part);
        image picture; // target, start, result
        fault why;
        ASSERT_TRUE(image_read(at("out/cubemap.png").c_str(), &picture, &why)) << why.text;
        int lit = 0;
        for (int k = 0; k < 32 * 24; k++)
            lit += picture.pixels[3 * (k / 32 * picture.width + k % 32) + 2] > 40;
        EXPECT_GT(lit, 50) << mesh;
        image_close(&picture);
    }
}

TEST_F(CubemapProgram, BadFilesAreRefused) {
    std::ofstream(at("open.obj")) << "v 1 2 3\nf 1 1\n";
    expect_refused(p.path,
                   {{{"train", "-o", at("out"), "--mesh", at("open.obj")},
                     "open.obj: at line 2: a face needs three corners"},
                    {{"train", "-o", at("out"), "--mesh", at("none.obj")}, "none.obj: cannot open"},
                    {{"bench", "--mesh", "sphere"}, "sphere: cannot open"}},
                   1);
    EXPECT_TRUE(fs::is_empty(at("out"))) << "something was left behind";
}

} // namespace
