// SPDX-License-Identifier: MIT
// The program as its users run it. SPHERES_PROGRAM is its path.
#include "fit_program.h"

namespace {

class SpheresProgram : public FitProgram {
  protected:
    SpheresProgram() : FitProgram(SPHERES_PROGRAM, {}) {}
};

TEST_F(SpheresProgram, TrainBringsTheSpheresBackAndWritesBothFiles) {
    expect_train(0.4, 5, "out/spheres.png");
    const std::string file = contents(at("out/spheres.txt"));
    EXPECT_EQ(file.rfind("spheres 1\n302 3\n", 0), 0u) << file.substr(0, 40);
    std::istringstream numbers(file.substr(file.find("302 3") + 5));
    int count = 0;
    for (double value; numbers >> value; count++) EXPECT_TRUE(std::isfinite(value));
    EXPECT_EQ(count, 302 * 8); // centre, radius, opacity, colour
}

TEST_F(SpheresProgram, TrainWithFixedWritesTheSameFileAgain) {
    expect_the_same_again({"--reduce", "fixed", "--channels", "8", "--iterations", "4"}, "out/spheres.txt",
                          1000);
}

TEST_F(SpheresProgram, EveryReductionTrains) {
    expect_every_reduction_trains(0.8, {});
}

TEST_F(SpheresProgram, BenchWritesJson) {
    expect_bench_json({"--channels", "16"}, {{"values", 21}});
}

TEST_F(SpheresProgram, BenchPrintsATable) {
    expect_bench_table();
}

TEST_F(SpheresProgram, HelpAndVersionAreThere) {
    expect_help_and_version();
}

TEST_F(SpheresProgram, WrongLinesAreRefused) {
    expect_wrong_lines_are_refused({{{"train", "--data", "huge"}, "--data must be one of small, large"},
                                    {{"train", "--channels", "4"}, "--channels must be one of 3, 8, 16, 32"},
                                    {{"bench", "--kept", "17"}, "--kept must be 1..16"}});
}

TEST_F(SpheresProgram, FilesThatCannotBeWrittenAreToldBeforeTheWork) {
    expect_unwritable_files_are_told();
}

} // namespace
