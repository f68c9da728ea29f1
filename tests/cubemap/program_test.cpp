// SPDX-License-Identifier: MIT
// The program as its users run it. CUBEMAP_PROGRAM is its path.
#include "cubemap.h"
#include "fit_program.h"

namespace {

class CubemapProgram : public FitProgram {
  protected:
    CubemapProgram() : FitProgram(CUBEMAP_PROGRAM, {"--size", "16"}) {}
};

TEST_F(CubemapProgram, TrainFindsTheSurroundingsAndWritesBothFiles) {
    expect_train(0.1, 10, "out/cubemap.png");
    // The mesh mirrors all that there is, so the texels are those of the surroundings.
    float *texel;
    int size;
    fault why;
    ASSERT_TRUE(face_file_read(at("out/faces.png").c_str(), &texel, &size, &why)) << why.text;
    ASSERT_EQ(size, 16);
    std::vector<float> truth(18 * 16 * 16);
    scene_surroundings(16, truth.data());
    double difference = 0;
    for (size_t k = 0; k < truth.size(); k++) difference += std::abs(double(texel[k] - truth[k]));
    free(texel);
    EXPECT_LT(difference / double(truth.size()), 0.03);
    expect_render("out/faces.png", "icosphere, 5120 triangles, faces of 16 texels, 32 x 24, view 5");
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
    expect_the_same_again({"--reduce", "fixed", "--mesh", "torus", "--iterations", "8"}, "out/faces.png",
                          500);
}

TEST_F(CubemapProgram, EveryReductionTrains) {
    expect_every_reduction_trains(0.6, {"--width", "32", "--height", "24"});
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
            run_with({"render", "-o", at("x.png"), "--mesh", row.mesh, "--width", "32", "--size", "8"});
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
    expect_bench_json({"--size", "16"},
                      {{"values", 3}, {"triangles", 5120}, {"size", 16}, {"texels", 6 * 341}});
}

TEST_F(CubemapProgram, BenchPrintsATable) {
    expect_bench_table();
}

TEST_F(CubemapProgram, HelpAndVersionAreThere) {
    expect_help_and_version();
}

TEST_F(CubemapProgram, WrongLinesAreRefused) {
    expect_wrong_lines_are_refused(
        "f.png", "FACES.png",
        {{{"train", "--size", "48"}, "--size must be a power of two, not 48"},
         {{"render", "-o", "x.png", "--size", "3"}, "--size must be a power of two, not 3"},
         {{"bench", "--size", "6"}, "--size must be a power of two, not 6"},
         {{"bench", "--size", "4096"}, "--size must be auto or 1..2048"}});
}

TEST_F(CubemapProgram, FilesThatCannotBeWrittenAreToldBeforeTheWork) {
    expect_unwritable_files_are_told();
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
        const outcome result = run_with(line);
        EXPECT_EQ(result.code, 1) << row.part;
        EXPECT_CONTAINS(result.err, row.part);
        EXPECT_FALSE(fs::is_regular_file(at("x.png")));
    }
}

} // namespace
