// SPDX-License-Identifier: MIT
// The program as its users run it. CUBEMAP_PROGRAM is its path.
#include "run_program.h"
#include "cubemap.h"
#include "images/image.h"
#include <jansson.h>

namespace {

class CubemapProgram : public ProgramTest {
  protected:
    outcome cubemap(const std::vector<std::string> &arguments) const {
        return run(CUBEMAP_PROGRAM, arguments);
    }
    outcome train(const std::vector<std::string> &more) const {
        std::vector<std::string> arguments = {"train", "-o",     at("out"), "--width",      "64", "--height",
                                              "48",    "--size", "16",      "--iterations", "40"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return cubemap(arguments);
    }
};

TEST_F(CubemapProgram, TrainFindsTheSurroundingsAndWritesBothFiles) {
    const outcome result = train({});
    ASSERT_EQ(result.code, 0) << result.err;
    const auto loss = change(result.out, "loss"), psnr = change(result.out, "PSNR");
    EXPECT_LT(loss[1], 0.1 * loss[0]) << result.out;
    EXPECT_GT(psnr[1], psnr[0] + 10) << result.out;
    image picture;
    fault why;
    ASSERT_TRUE(image_read(at("out/cubemap.png").c_str(), &picture, &why)) << why.text;
    EXPECT_EQ(picture.width, 3 * 64 + 2 * 4);
    EXPECT_EQ(picture.height, 48);
    image_close(&picture);
    // The mesh mirrors all that there is, so the texels are those of the surroundings.
    float *texel;
    int size;
    ASSERT_TRUE(face_file_read(at("out/faces.png").c_str(), &texel, &size, &why)) << why.text;
    ASSERT_EQ(size, 16);
    std::vector<float> truth(18 * 16 * 16);
    scene_surroundings(16, truth.data());
    double difference = 0;
    for (size_t k = 0; k < truth.size(); k++) difference += std::abs(double(texel[k] - truth[k]));
    free(texel);
    EXPECT_LT(difference / double(truth.size()), 0.03);
    const outcome render =
        cubemap({"render", at("out/faces.png"), "-o", at("view.png"), "--view", "5", "--width", "32"});
    EXPECT_EQ(render.code, 0) << render.err;
    EXPECT_CONTAINS(render.out, "icosphere, 5120 triangles, faces of 16 texels, 32 x 24, view 5");
    EXPECT_TRUE(fs::exists(at("view.png")));
}

TEST_F(CubemapProgram, FacesAreWrittenAndRead) {
    std::vector<float> texel(18 * 4 * 4);
    for (size_t k = 0; k < texel.size(); k++) texel[k] = float(k) / float(texel.size());
    texel[0] = -1, texel[1] = 2, texel[2] = NAN;
    fault why;
    ASSERT_TRUE(face_file_write(at("f.png").c_str(), texel.data(), 4, &why)) << why.text;
    float *back;
    int size;
    ASSERT_TRUE(face_file_read(at("f.png").c_str(), &back, &size, &why)) << why.text;
    ASSERT_EQ(size, 4);
    EXPECT_EQ(back[0], 0);
    EXPECT_EQ(back[1], 1);
    EXPECT_EQ(back[2], 0);
    for (size_t k = 3; k < texel.size(); k++) EXPECT_NEAR(back[k], texel[k], 0.5001 / 255);
    free(back);
}

TEST_F(CubemapProgram, TrainWithFixedWritesTheSameFileAgain) {
    const std::vector<std::string> options = {"--reduce", "fixed", "--mesh", "torus", "--iterations", "8"};
    ASSERT_EQ(train(options).code, 0);
    const std::string first = contents(at("out/faces.png"));
    ASSERT_EQ(train(options).code, 0);
    EXPECT_EQ(contents(at("out/faces.png")), first);
    EXPECT_GT(first.size(), 500u);
}

TEST_F(CubemapProgram, EveryReductionTrains) {
    for (const char *name : {"atomic", "vector", "serial", "bfly", "tree", "fixed"}) {
        const outcome result = train(
            {"--reduce", name, "--threshold", "8", "--iterations", "16", "--width", "32", "--height", "24"});
        ASSERT_EQ(result.code, 0) << name << ": " << result.err;
        const auto loss = change(result.out, "loss");
        EXPECT_LT(loss[1], 0.6 * loss[0]) << name;
        EXPECT_CONTAINS(result.out, std::string(name) + " at threshold 8");
    }
}

TEST_F(CubemapProgram, EveryMeshIsDrawn) {
    std::ofstream(at("m.obj")) << "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n";
    const struct {
        std::string mesh;
        const char *part;
    } rows[] = {{"torus", "torus, 9216 triangles"},
                {"bumpy", "bumpy, 20480 triangles"},
                {at("m.obj"), "m.obj, 4 triangles"}};
    for (const auto &row : rows) {
        const outcome result =
            cubemap({"render", "-o", at("x.png"), "--mesh", row.mesh, "--width", "32", "--size", "8"});
        EXPECT_EQ(result.code, 0) << result.err;
        EXPECT_CONTAINS(result.out, row.part);
        image picture;
        fault why;
        ASSERT_TRUE(image_read(at("x.png").c_str(), &picture, &why)) << why.text;
        int lit = 0;
        for (int k = 0; k < 32 * 24; k++) lit += picture.pixels[3 * k + 2] > 40;
        EXPECT_GT(lit, 50) << row.mesh;
        image_close(&picture);
    }
}

TEST_F(CubemapProgram, BenchWritesJson) {
    const outcome result = cubemap({"bench", "--width", "40", "--size", "16", "--thresholds", "0,33",
                                    "--repeat", "3", "--views", "2", "--json", "-"});
    ASSERT_EQ(result.code, 0) << result.err;
    json_error_t error;
    json_t *root = json_loads(result.out.c_str(), 0, &error);
    ASSERT_NE(root, nullptr) << error.text << result.out;
    EXPECT_STREQ(json_string_value(json_object_get(root, "workload")), "cubemap");
    EXPECT_STREQ(json_string_value(json_object_get(root, "mesh")), "icosphere");
    EXPECT_EQ(json_integer_value(json_object_get(root, "values")), 3);
    EXPECT_EQ(json_integer_value(json_object_get(root, "size")), 16);
    EXPECT_EQ(json_integer_value(json_object_get(root, "texels")), 6 * 341);
    EXPECT_EQ(json_array_size(json_object_get(root, "active_lanes")), 33u);
    EXPECT_EQ(json_array_size(json_object_get(root, "distinct_keys")), 33u);
    json_t *rows = json_object_get(root, "adjoint");
    EXPECT_GE(json_array_size(rows), 10u); // a GPU's tuner may add one
    EXPECT_STREQ(json_string_value(json_object_get(json_array_get(rows, 0), "reduction")), "atomic");
    json_decref(root);
}

TEST_F(CubemapProgram, BenchPrintsATable) {
    const outcome result = cubemap(
        {"bench", "--width", "32", "--size", "4", "--reduce", "tree", "--thresholds", "8", "--repeat", "1"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_CONTAINS(result.out, "active lanes");
    EXPECT_CONTAINS(result.out, "tree             8");
    EXPECT_EQ(result.out.find("serial"), std::string::npos);
}

TEST_F(CubemapProgram, HelpAndVersionAreThere) {
    for (const char *command : {"train", "render", "bench"}) {
        const outcome help = cubemap({command, "--help"});
        EXPECT_EQ(help.code, 0);
        EXPECT_CONTAINS(help.out, std::string("usage: cubemap ") + command);
    }
    EXPECT_CONTAINS(cubemap({"--version"}).out, "cubemap ");
    EXPECT_CONTAINS(cubemap({"--help"}).out, "bench");
}

TEST_F(CubemapProgram, WrongLinesAreRefused) {
    expect_refused(CUBEMAP_PROGRAM,
                   {{{}, "usage: cubemap"},
                    {{"paint"}, "there is no command 'paint'"},
                    {{"train", "--size", "48"}, "--size must be a power of two, not 48"},
                    {{"render", "-o", "x.png", "--size", "3"}, "--size must be a power of two, not 3"},
                    {{"bench", "--size", "6"}, "--size must be a power of two, not 6"},
                    {{"bench", "--size", "4096"}, "--size must be auto or 1..2048"},
                    {{"train", "--iterations", "-1"}, "--iterations must be auto or 1..10000000"},
                    {{"train", "--reduce", "all"}, "--reduce must be one of"},
                    {{"train", "--threshold", "34"}, "--threshold must be 0..33"},
                    {{"train", "faces.png"}, "unexpected argument"},
                    {{"render"}, "-o is missing"},
                    {{"render", "f.png", "-o", "f.png"}, "-o and FACES.png name one file"},
                    {{"render", "-o", "x.png", "--view", "8"}, "--view must be 0..7"},
                    {{"render", "-o", "x.png", "--width", "99999"}, "--width must be auto or 1..4096"},
                    {{"bench", "--thresholds", "0,34"}, "--thresholds needs numbers from 0 to 33"},
                    {{"bench", "--reduce", "auto"}, "--reduce must be one of"}},
                   2);
}

TEST_F(CubemapProgram, FilesThatCannotBeWrittenAreToldBeforeTheWork) {
    expect_told_before_the_work(CUBEMAP_PROGRAM);
}

TEST_F(CubemapProgram, BadFilesAreRefused) {
    std::ofstream(at("text.png")) << "no picture at all";
    std::ofstream(at("open.obj")) << "v 1 2 3\nf 1 1\n";
    fault why;
    const struct {
        const char *name;
        int width, height, channels;
    } pictures[] = {{"wide.png", 4, 25, 3}, {"odd.png", 3, 18, 3}, {"alpha.png", 4, 24, 4}};
    for (const auto &p : pictures) {
        image picture;
        ASSERT_TRUE(image_open(&picture, p.width, p.height, p.channels, &why));
        ASSERT_TRUE(image_write_png(at(p.name).c_str(), &picture, &why)) << why.text;
        image_close(&picture);
    }
    const struct {
        std::vector<std::string> line;
        const char *part;
    } rows[] = {
        {{"render", at("none.png")}, "none.png: cannot open"},
        {{"render", at("text.png")}, "text.png: neither PNG nor JPEG"},
        {{"render", at("wide.png")}, "wide.png: 4 x 25 pixels with 3 channels are not six square faces"},
        {{"render", at("odd.png")}, "odd.png: 3 x 18 pixels"},
        {{"render", at("alpha.png")}, "alpha.png: 4 x 24 pixels with 4 channels"},
        {{"render", "--mesh", at("open.obj")}, "open.obj: at line 2: a face needs three corners"},
        {{"render", "--mesh", "sphere"}, "sphere: cannot open"},
        {{"train", "--mesh", at("none.obj")}, "none.obj: cannot open"},
        {{"bench", "--mesh", at("open.obj")}, "open.obj: at line 2"},
    };
    for (const auto &row : rows) {
        std::vector<std::string> line = row.line;
        if (line[0] != "bench") line.insert(line.end(), {"-o", at("x.png")});
        const outcome result = cubemap(line);
        EXPECT_EQ(result.code, 1) << row.part;
        EXPECT_CONTAINS(result.err, row.part);
        EXPECT_FALSE(fs::is_regular_file(at("x.png")));
    }
}

} // namespace
