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
    image faces;
    fault why;
    ASSERT_TRUE(image_read(at("out/faces.png").c_str(), &faces, &why)) << why.text;
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

TEST_F(CubemapProgram, TrainWithFixedWritesTheSameFileAgain) {
    expect_the_same_again({"--reduce", "fixed", "--mesh", "torus", "--iterations", "8"}, "out/faces.png",
                          500);
}

TEST_F(CubemapProgram, EveryReductionTrains) {
    expect_every_reduction_trains(0.6, {"--width", "32", "--height", "24"});
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
    expect_wrong_lines_are_refused({{{"train", "--size", "48"}, "--size must be a power of two, not 48"},
                                    {{"bench", "--size", "6"}, "--size must be a power of two, not 6"},
                                    {{"bench", "--size", "4096"}, "--size must be auto or 1..2048"}});
}

TEST_F(CubemapProgram, FilesThatCannotBeWrittenAreToldBeforeTheWork) {
    expect_unwritable_files_are_told();
}

TEST_F(CubemapProgram, BadFilesAreRefused) {
    std::ofstream(at("open.obj")) << "v 1 2 3\nf 1 1\n";
    expect_refused(program,
                   {{{"train", "-o", at("out"), "--mesh", at("open.obj")},
                     "open.obj: at line 2: a face needs three corners"},
                    {{"train", "-o", at("out"), "--mesh", at("none.obj")}, "none.obj: cannot open"},
                    {{"bench", "--mesh", "sphere"}, "sphere: cannot open"}},
                   1);
    EXPECT_TRUE(fs::is_empty(at("out"))) << "something was left behind";
}

} // namespace
