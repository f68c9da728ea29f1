// SPDX-License-Identifier: MIT
// The program as its users run it. SPHERES_PROGRAM is its path.
#include "fit_program.h"
#include "spheres.h"

namespace {

class SpheresProgram : public FitProgram {
  protected:
    SpheresProgram() : FitProgram(SPHERES_PROGRAM, {}) {}
};

TEST_F(SpheresProgram, TrainBringsTheSpheresBackAndWritesBothFiles) {
    expect_train(0.4, 5, "out/spheres.png");
    sphere_set set;
    fault why;
    ASSERT_TRUE(sphere_file_read(at("out/spheres.txt").c_str(), &set, &why)) << why.text;
    EXPECT_EQ(set.count, 302);
    EXPECT_EQ(set.channels, 3);
    sphere_set_close(&set);
    expect_render("out/spheres.txt", "302 spheres, 32 x 24, view 5");
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
    expect_wrong_lines_are_refused("s.txt", "SPHERES.txt",
                                   {{{"train", "--data", "huge"}, "--data must be one of small, large"},
                                    {{"train", "--channels", "4"}, "--channels must be one of 3, 8, 16, 32"},
                                    {{"bench", "--kept", "17"}, "--kept must be 1..16"}});
}

TEST_F(SpheresProgram, FilesThatCannotBeWrittenAreToldBeforeTheWork) {
    expect_unwritable_files_are_told();
}

TEST_F(SpheresProgram, BadFilesAreRefusedByNameAndLine) {
    const std::string good = "spheres 1\n2 3\n0 0 0 -1 0 1 1 1\n0 0 1 -1 0 1 1 1\n";
    const auto with = [&](const std::string &from, const std::string &to) {
        std::string out = good;
        out.replace(out.find(from), from.size(), to);
        return out;
    };
    const struct {
        std::string text;
        const char *part;
    } rows[] = {
        {"", "truncated at byte 0: the first line is missing"},
        {"spheres 2\n", "line 1: is not 'spheres 1'"},
        {"spheres 1\n", "truncated at byte 10: the line with count"},
        {good.substr(0, good.size() - 2), "line 4: has fewer numbers"},
        {good.substr(0, 14 + 17), "truncated"},
        {with("2 3", "0 3"), "line 2: is not a count"},
        {with("2 3", "-2 3"), "line 2: is not a count"},
        {with("2 3", "2 4"), "line 2: announces features"},
        {with("2 3", "2"), "line 2: "},
        {with("2 3", "2147483000 3"), "truncated or damaged: 2147483000 spheres"},
        {with("2 3", "99999999999999999999 3"), "line 2: is not a count"},
        {with("0 0 1", "0 1"), "line 4: has fewer numbers"},
        {with("0 0 1", "0 0 1 1"), "line 4: has more numbers"},
        {with("0 0 1", "0 nan 1"), "line 4: has a number that is not finite"},
        {with("0 0 1", "0 1e99 1"), "line 4: has a number that is not finite"},
        {with("0 0 1", "0 x 1"), "line 4: has fewer numbers"},
        {good + "0\n", "line 5: comes after the last sphere"},
    };
    const auto render = [&](const std::string &text) {
        std::ofstream(at("set.txt"), std::ios::binary) << text;
        return run_with({"render", at("set.txt"), "-o", at("x.png"), "--width", "16"});
    };
    for (const auto &row : rows) {
        const outcome result = render(row.text);
        EXPECT_EQ(result.code, 1) << row.text;
        EXPECT_CONTAINS(result.err, "set.txt: ");
        EXPECT_CONTAINS(result.err, row.part);
        EXPECT_FALSE(fs::exists(at("x.png")));
    }
    EXPECT_EQ(run_with({"render", at("none.txt"), "-o", at("x.png")}).code, 1);
    EXPECT_EQ(render(good).code, 0);
}

} // namespace
