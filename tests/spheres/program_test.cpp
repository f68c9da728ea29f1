// SPDX-License-Identifier: MIT
// The program as its users run it. SPHERES_PROGRAM is its path.
#include "run_program.h"
#include "images/image.h"
#include "sphere_file.h"
#include <functional>
#include <jansson.h>

namespace {

class SpheresProgram : public ProgramTest {
  protected:
    outcome spheres(const std::vector<std::string> &arguments) const {
        return run(SPHERES_PROGRAM, arguments);
    }
    outcome train(const std::vector<std::string> &more) const {
        std::vector<std::string> arguments = {"train",    "-o", at("out"),      "--width", "64",
                                              "--height", "48", "--iterations", "40"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return spheres(arguments);
    }
};

TEST_F(SpheresProgram, TrainBringsTheSpheresBackAndWritesBothFiles) {
    const outcome result = train({});
    ASSERT_EQ(result.code, 0) << result.err;
    const auto loss = change(result.out, "loss"), psnr = change(result.out, "PSNR");
    EXPECT_LT(loss[1], 0.4 * loss[0]) << result.out;
    EXPECT_GT(psnr[1], psnr[0] + 5) << result.out;
    image picture;
    fault why;
    ASSERT_TRUE(image_read(at("out/spheres.png").c_str(), &picture, &why)) << why.text;
    EXPECT_EQ(picture.width, 3 * 64 + 2 * 4);
    EXPECT_EQ(picture.height, 48);
    image_close(&picture);
    sphere_set set;
    ASSERT_TRUE(sphere_file_read(at("out/spheres.txt").c_str(), &set, &why)) << why.text;
    EXPECT_EQ(set.count, 302);
    EXPECT_EQ(set.channels, 3);
    sphere_set_close(&set);
    const outcome render =
        spheres({"render", at("out/spheres.txt"), "-o", at("view.png"), "--view", "5", "--width", "32"});
    EXPECT_EQ(render.code, 0) << render.err;
    EXPECT_CONTAINS(render.out, "302 spheres, 32 x 24, view 5");
    EXPECT_TRUE(fs::exists(at("view.png")));
}

TEST_F(SpheresProgram, TrainWithFixedWritesTheSameFileAgain) {
    const std::vector<std::string> options = {"--reduce", "fixed", "--channels", "8", "--iterations", "4"};
    ASSERT_EQ(train(options).code, 0);
    const std::string first = contents(at("out/spheres.txt"));
    ASSERT_EQ(train(options).code, 0);
    EXPECT_EQ(contents(at("out/spheres.txt")), first);
    EXPECT_GT(first.size(), 1000u);
}

TEST_F(SpheresProgram, EveryReductionTrains) {
    for (const char *name : {"atomic", "vector", "serial", "bfly", "tree", "fixed"}) {
        const outcome result = train({"--reduce", name, "--threshold", "8", "--iterations", "16"});
        ASSERT_EQ(result.code, 0) << name << ": " << result.err;
        const auto loss = change(result.out, "loss");
        EXPECT_LT(loss[1], 0.8 * loss[0]) << name;
        EXPECT_CONTAINS(result.out, std::string(name) + " at threshold 8");
    }
}

TEST_F(SpheresProgram, BenchWritesJson) {
    const outcome result = spheres({"bench", "--width", "40", "--channels", "16", "--thresholds", "0,33",
                                    "--repeat", "3", "--views", "2", "--json", "-"});
    ASSERT_EQ(result.code, 0) << result.err;
    json_error_t error;
    json_t *root = json_loads(result.out.c_str(), 0, &error);
    ASSERT_NE(root, nullptr) << error.text << result.out;
    EXPECT_EQ(json_integer_value(json_object_get(root, "values")), 21);
    EXPECT_EQ(json_array_size(json_object_get(root, "active_lanes")), 33u);
    EXPECT_EQ(json_array_size(json_object_get(root, "distinct_keys")), 33u);
    json_t *rows = json_object_get(root, "adjoint");
    EXPECT_GE(json_array_size(rows), 10u); // a GPU's tuner may add one
    EXPECT_STREQ(json_string_value(json_object_get(json_array_get(rows, 0), "reduction")), "atomic");
    json_decref(root);
}

TEST_F(SpheresProgram, BenchPrintsATable) {
    const outcome result =
        spheres({"bench", "--width", "32", "--reduce", "tree", "--thresholds", "8", "--repeat", "1"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_CONTAINS(result.out, "active lanes");
    EXPECT_CONTAINS(result.out, "tree             8");
    EXPECT_EQ(result.out.find("serial"), std::string::npos);
}

TEST_F(SpheresProgram, HelpAndVersionAreThere) {
    for (const char *command : {"train", "render", "bench"}) {
        const outcome help = spheres({command, "--help"});
        EXPECT_EQ(help.code, 0);
        EXPECT_CONTAINS(help.out, std::string("usage: spheres ") + command);
    }
    EXPECT_CONTAINS(spheres({"--version"}).out, "spheres ");
    EXPECT_CONTAINS(spheres({"--help"}).out, "bench");
}

TEST_F(SpheresProgram, WrongLinesAreRefused) {
    expect_refused(SPHERES_PROGRAM,
                   {{{}, "usage: spheres"},
                    {{"paint"}, "there is no command 'paint'"},
                    {{"train", "--data", "huge"}, "--data must be one of small, large"},
                    {{"train", "--iterations", "-1"}, "--iterations must be auto or 1..10000000"},
                    {{"train", "--reduce", "all"}, "--reduce must be one of"},
                    {{"train", "--threshold", "34"}, "--threshold must be 0..33"},
                    {{"train", "--channels", "4"}, "--channels must be one of 3, 8, 16, 32"},
                    {{"train", "scene.txt"}, "unexpected argument"},
                    {{"render"}, "-o is missing"},
                    {{"render", "s.txt", "-o", "./s.txt"}, "-o and SPHERES.txt name one file"},
                    {{"render", "-o", "x.png", "--view", "8"}, "--view must be 0..7"},
                    {{"render", "-o", "x.png", "--width", "99999"}, "--width must be auto or 1..4096"},
                    {{"bench", "--thresholds", "0,34"}, "--thresholds needs numbers from 0 to 33"},
                    {{"bench", "--kept", "17"}, "--kept must be 1..16"},
                    {{"bench", "--reduce", "auto"}, "--reduce must be one of"}},
                   2);
}

TEST_F(SpheresProgram, FilesThatCannotBeWrittenAreToldBeforeTheWork) {
    expect_told_before_the_work(SPHERES_PROGRAM);
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
        return spheres({"render", at("set.txt"), "-o", at("x.png"), "--width", "16"});
    };
    for (const auto &row : rows) {
        const outcome result = render(row.text);
        EXPECT_EQ(result.code, 1) << row.text;
        EXPECT_CONTAINS(result.err, "set.txt: ");
        EXPECT_CONTAINS(result.err, row.part);
        EXPECT_FALSE(fs::exists(at("x.png")));
    }
    EXPECT_EQ(spheres({"render", at("none.txt"), "-o", at("x.png")}).code, 1);
    EXPECT_EQ(render(good).code, 0);
}

} // namespace
