// SPDX-License-Identifier: MIT
// What the tests of spheres and cubemap share, which are one loop: their commands as users run them.
#ifndef TESTS_FIT_PROGRAM_H
#define TESTS_FIT_PROGRAM_H

#include "images/image.h"
#include "run_program.h"
#include <jansson.h>

class FitProgram : public ProgramTest {
  protected:
    const char *program;
    std::vector<std::string> small; // options of a short training

    FitProgram(const char *its, const std::vector<std::string> &options) : program(its), small(options) {}

    outcome run_with(const std::vector<std::string> &arguments) const { return run(program, arguments); }
    outcome train(const std::vector<std::string> &more) const {
        std::vector<std::string> arguments = {"train",    "-o", at("out"),      "--width", "64",
                                              "--height", "48", "--iterations", "40"};
        arguments.insert(arguments.end(), small.begin(), small.end());
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_with(arguments);
    }

    // The loss falls below `share` of the first, the PSNR rises by `decibels`.
    void expect_train(double share, double decibels, const char *picture_file) const {
        const outcome result = train({});
        ASSERT_EQ(result.code, 0) << result.err;
        const auto loss = change(result.out, "loss"), psnr = change(result.out, "PSNR");
        EXPECT_LT(loss[1], share * loss[0]) << result.out;
        EXPECT_GT(psnr[1], psnr[0] + decibels) << result.out;
        image picture;
        fault why;
        ASSERT_TRUE(image_read(at(picture_file).c_str(), &picture, &why)) << why.text;
        EXPECT_EQ(picture.width, 3 * 64 + 2 * 4);
        EXPECT_EQ(picture.height, 48);
        image_close(&picture);
    }

    void expect_the_same_again(const std::vector<std::string> &options, const char *file,
                               size_t least) const {
        ASSERT_EQ(train(options).code, 0);
        const std::string first = contents(at(file));
        ASSERT_EQ(train(options).code, 0);
        EXPECT_EQ(contents(at(file)), first);
        EXPECT_GT(first.size(), least);
    }

    void expect_every_reduction_trains(double share, const std::vector<std::string> &options) const {
        for (const char *name : {"atomic", "vector", "serial", "bfly", "tree", "fixed"}) {
            std::vector<std::string> all = {"--reduce", name, "--threshold", "8", "--iterations", "16"};
            all.insert(all.end(), options.begin(), options.end());
            const outcome result = train(all);
            ASSERT_EQ(result.code, 0) << name << ": " << result.err;
            const auto loss = change(result.out, "loss");
            EXPECT_LT(loss[1], share * loss[0]) << name;
            EXPECT_CONTAINS(result.out, std::string(name) + " at threshold 8");
        }
    }

    // A small bench with `options`, whose JSON has these numbers.
    void expect_bench_json(const std::vector<std::string> &options,
                           const std::vector<std::pair<const char *, int>> &numbers) const {
        std::vector<std::string> all = {"bench", "--width", "40", "--thresholds", "0,33", "--repeat",
                                        "3",     "--views", "2",  "--json",       "-"};
        all.insert(all.end(), options.begin(), options.end());
        const outcome result = run_with(all);
        ASSERT_EQ(result.code, 0) << result.err;
        json_error_t error;
        json_t *root = json_loads(result.out.c_str(), 0, &error);
        ASSERT_NE(root, nullptr) << error.text << result.out;
        EXPECT_EQ(json_string_value(json_object_get(root, "workload")), fs::path(program).filename());
        for (const auto &[key, value] : numbers)
            EXPECT_EQ(json_integer_value(json_object_get(root, key)), value) << key;
        EXPECT_EQ(json_array_size(json_object_get(root, "active_lanes")), 33u);
        EXPECT_EQ(json_array_size(json_object_get(root, "distinct_keys")), 33u);
        json_t *rows = json_object_get(root, "adjoint");
        EXPECT_GE(json_array_size(rows), 10u); // a GPU's tuner may add one
        EXPECT_STREQ(json_string_value(json_object_get(json_array_get(rows, 0), "reduction")), "atomic");
        json_decref(root);
    }

    void expect_bench_table() const {
        const outcome result =
            run_with({"bench", "--width", "32", "--reduce", "tree", "--thresholds", "8", "--repeat", "1"});
        ASSERT_EQ(result.code, 0) << result.err;
        EXPECT_CONTAINS(result.out, "active lanes");
        EXPECT_CONTAINS(result.out, "tree             8");
        EXPECT_EQ(result.out.find("serial"), std::string::npos);
    }

    void expect_help_and_version() const {
        const std::string name = fs::path(program).filename();
        for (const char *command : {"train", "bench"}) {
            const outcome help = run_with({command, "--help"});
            EXPECT_EQ(help.code, 0);
            EXPECT_CONTAINS(help.out, "usage: " + name + " " + command);
        }
        EXPECT_CONTAINS(run_with({"--version"}).out, name + " ");
        EXPECT_CONTAINS(run_with({"--help"}).out, "bench");
    }

    void expect_wrong_lines_are_refused(std::vector<refused_line> lines) const {
        const std::string usage = "usage: " + fs::path(program).filename().string();
        const std::vector<refused_line> all = {
            {{}, usage.c_str()},
            {{"paint"}, "there is no command 'paint'"},
            {{"train", "--iterations", "-1"}, "--iterations must be auto or 1..10000000"},
            {{"train", "--reduce", "all"}, "--reduce must be one of"},
            {{"train", "--threshold", "34"}, "--threshold must be 0..33"},
            {{"train", "file"}, "unexpected argument"},
            {{"train", "--width", "99999"}, "--width must be auto or 1..4096"},
            {{"bench", "--thresholds", "0,34"}, "--thresholds needs numbers from 0 to 33"},
            {{"bench", "--reduce", "auto"}, "--reduce must be one of"}};
        lines.insert(lines.end(), all.begin(), all.end());
        expect_refused(program, lines, 2);
    }

    // Before the work.
    void expect_unwritable_files_are_told() const {
        std::ofstream(at("file")) << "x";
        expect_refused(program,
                       {{{"train", "-o", at("file/out")}, "cannot make the folder"},
                        {{"train", "-o", at("file")}, "cannot make the folder"},
                        {{"bench", "--json", at("none/x.json")}, "none/x.json: cannot write"}},
                       1);
    }
};

#endif
