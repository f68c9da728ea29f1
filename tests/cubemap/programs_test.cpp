// SPDX-License-Identifier: MIT
// The programs spheres and cubemap, which are one loop, as their users run them. SPHERES_PROGRAM and CUBEMAP_PROGRAM are
// their paths.
#include "cubemap.h"
#include "images/image.h"
#include "run_program.h"
#include <jansson.h>

namespace {

struct fit_program {
    const char *name, *path;
    size_t parameters;
    std::string small; // options of a short training
    // The loss falls below this share of the first, the PSNR rises by so many decibels.
    double share, decibels;
    std::string fixed;     // a run that is the same again
    std::string quick;     // of one by every reduction,
    double share_of_every; // whose loss falls below this share
    std::string bench;     // and numbers of its JSON
    std::vector<std::pair<const char *, int>> numbers;
    std::vector<std::pair<const char *, const char *>> wrong; // lines, with parts of what stderr says
};

const decltype(fit_program::numbers) of_spheres = {{"values", 21}, {"keys", 302}, {"kept", 8}},
                                     of_cubemap = {{"values", 3}, {"keys", 6 * 341}, {"size", 16}};
const decltype(fit_program::wrong) no_spheres = {{"train --data huge", "--data must be one of small, large"},
                                                 {"train --channels 4",
                                                  "--channels must be one of 3, 8, 16, 32"},
                                                 {"bench --kept 17", "--kept must be 1..16"}},
                                   no_cubemap = {{"train --size 6", "--size must be a power of two, not 6"},
                                                 {"bench --size 4096", "--size must be auto or 1..2048"},
                                                 {"train --mesh m.obj",
                                                  "--mesh must be one of icosphere, torus, wavy"}};
const fit_program programs[] = {
    // Of a sphere: centre, radius, opacity, colour.
    {"spheres", SPHERES_PROGRAM, 302 * 8, "", 0.4, 5, " --channels 8 --iterations 4", "", 0.8,
     " --channels 16", of_spheres, no_spheres},
    {"cubemap", CUBEMAP_PROGRAM, 18 * 16 * 16, " --size 16", 0.1, 10, " --mesh torus --iterations 8",
     " --width 32 --height 24", 0.6, " --size 16", of_cubemap, no_cubemap}};

class FitProgram : public ProgramTest, public testing::WithParamInterface<fit_program> {
  protected:
    const fit_program &p = programs[0];
    explicit FitProgram(const fit_program &its = GetParam()) : p(its) {}
    outcome started_as(const std::string &line) const { return run(p.path, words(line)); }
    outcome train(const std::string &more) const {
        return started_as("train -o @out --width 64 --height 48 --iterations 40" + p.small + more);
    }
    std::vector<float> parameters() const { // that train has written
        const std::string bytes = contents(at("out/fit.f32"));
        std::vector<float> values(bytes.size() / sizeof(float));
        memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
        return values;
    }
};

TEST_P(FitProgram, TrainsAndWritesItsPicture) {
    const outcome result = train("");
    ASSERT_EQ(result.code, 0) << result.err;
    const auto loss = change(result.out, "loss"), psnr = change(result.out, "PSNR");
    EXPECT_LT(loss[1], p.share * loss[0]) << result.out;
    EXPECT_GT(psnr[1], psnr[0] + p.decibels) << result.out;
    image picture;
    fault why;
    ASSERT_TRUE(image_read(at("out/fit.png").c_str(), &picture, &why)) << why.text;
    EXPECT_EQ(picture.width, 3 * 64 + 2 * 4);
    EXPECT_EQ(picture.height, 48);
    image_close(&picture);
    const std::vector<float> found = parameters();
    EXPECT_EQ(found.size(), p.parameters);
    for (const float value : found) EXPECT_TRUE(std::isfinite(value));
    if (p.name != std::string("cubemap")) return;
    // The mesh mirrors all that there is, so the texels are those of the surroundings.
    std::vector<float> truth(found.size());
    scene_surroundings(16, truth.data());
    double difference = 0;
    for (size_t k = 0; k < truth.size(); k++)
        difference += std::abs(std::fmin(std::fmax(found[k], 0), 1) - truth[k]);
    EXPECT_LT(difference / double(truth.size()), 0.03);
}

TEST_P(FitProgram, WithFixedWritesTheSameFileAgain) {
    const std::string same = p.fixed + " --reduce fixed";
    ASSERT_EQ(train(same).code, 0);
    const std::vector<float> first = parameters();
    ASSERT_EQ(train(same).code, 0);
    EXPECT_EQ(parameters(), first);
    EXPECT_GT(first.size(), 500u);
}

TEST_P(FitProgram, TrainsByEveryReduction) {
    for (const std::string name : {"atomic", "vector", "serial", "bfly", "tree", "fixed"}) {
        const outcome result = train(" --threshold 8 --iterations 16 --reduce " + name + p.quick);
        ASSERT_EQ(result.code, 0) << name << ": " << result.err;
        const auto loss = change(result.out, "loss");
        EXPECT_LT(loss[1], p.share_of_every * loss[0]) << name;
        EXPECT_CONTAINS(result.out, name + " at threshold 8");
    }
}

TEST_P(FitProgram, BenchWritesJson) {
    const outcome result =
        started_as("bench --width 40 --thresholds 0,33 --repeat 1 --views 2 --json -" + p.bench);
    ASSERT_EQ(result.code, 0) << result.err;
    json_error_t error;
    json_t *root = json_loads(result.out.c_str(), 0, &error);
    ASSERT_NE(root, nullptr) << error.text << result.out;
    EXPECT_STREQ(json_string_value(json_object_get(root, "workload")), p.name);
    for (const auto &[key, value] : p.numbers)
        EXPECT_EQ(json_integer_value(json_object_get(root, key)), value) << key;
    EXPECT_EQ(json_array_size(json_object_get(root, "active_lanes")), 33u);
    EXPECT_EQ(json_array_size(json_object_get(root, "distinct_keys")), 33u);
    // Every strategy of the list, at each of both thresholds if it has one.
    const int thresholds[] = {0, 33};
    const candidate_list all = candidates_of(sum_strategies, DISTWAR_STRATEGY_COUNT, thresholds, 2);
    json_t *rows = json_object_get(root, "adjoint");
    ASSERT_EQ(json_array_size(rows), size_t(all.count));
    for (int i = 0; i < all.count; i++) {
        json_t *const row = json_array_get(rows, size_t(i)), *const threshold =
                                                                 json_object_get(row, "threshold");
        EXPECT_GT(json_number_value(json_object_get(row, "mean_ms")), 0);
        EXPECT_STREQ(json_string_value(json_object_get(row, "reduction")),
                     distwar_strategy_name(all.rows[i].strategy));
        EXPECT_EQ(json_is_null(threshold) ? 0 : json_integer_value(threshold), all.rows[i].balance_threshold);
    }
    json_decref(root);
}

TEST_P(FitProgram, BenchPrintsATable) {
    const outcome result = started_as("bench --width 32 --reduce tree --thresholds 8 --repeat 1");
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_CONTAINS(result.out, "active lanes");
    EXPECT_CONTAINS(result.out, "tree             8");
    EXPECT_EQ(result.out.find("serial"), std::string::npos);
}

TEST_P(FitProgram, ExplainsItself) {
    for (const std::string command : {"train", "bench"}) {
        const outcome help = started_as(command + " --help");
        EXPECT_EQ(help.code, 0);
        EXPECT_CONTAINS(help.out, "usage: " + std::string(p.name) + " " + command);
    }
    EXPECT_CONTAINS(started_as("--version").out, std::string(p.name) + " ");
    EXPECT_CONTAINS(started_as("--help").out, "bench");
}

TEST_P(FitProgram, RefusesWrongLines) {
    std::vector<refusal> table = {{"", 2, "usage: " + std::string(p.name)},
                                  {"paint", 2, "there is no command 'paint'"},
                                  {"train --iterations -1", 2, "--iterations must be auto or 1..10000000"},
                                  {"train --reduce all", 2, "--reduce must be one of"},
                                  {"train --threshold 34", 2, "--threshold must be 0..33"},
                                  {"train file", 2, "unexpected argument"},
                                  {"train --width 99999", 2, "--width must be auto or 1..4096"},
                                  {"bench --thresholds 0,34", 2, "--thresholds needs numbers from 0 to 33"},
                                  {"bench --reduce auto", 2, "--reduce must be one of"},
                                  // Before the work:
                                  {"train -o @file/out", 1, "cannot make the folder"},
                                  {"train -o @file", 1, "cannot make the folder"},
                                  {"bench --json @none/x.json", 1, "none/x.json: cannot write"}};
    for (const auto &[line, part] : p.wrong) table.push_back({line, 2, part});
    std::ofstream(at("file")) << "x";
    refuses(p.path, table);
}

INSTANTIATE_TEST_SUITE_P(, FitProgram, testing::ValuesIn(programs),
                         [](const auto &info) { return std::string(info.param.name); });

class CubemapProgram : public FitProgram {
  protected:
    CubemapProgram() : FitProgram(programs[1]) {}
};

TEST_F(CubemapProgram, EveryMeshIsDrawn) {
    const std::pair<std::string, const char *> rows[] = {{"torus", "torus, 9216 triangles"},
                                                         {"wavy", "wavy, 4096 triangles"}};
    for (const auto &[mesh, part] : rows) {
        const outcome result = train(" --width 32 --height 24 --iterations 1 --mesh " + mesh);
        EXPECT_EQ(result.code, 0) << result.err;
        EXPECT_CONTAINS(result.out, part);
        image picture; // target, start, result
        fault why;
        ASSERT_TRUE(image_read(at("out/fit.png").c_str(), &picture, &why)) << why.text;
        int lit = 0;
        for (int k = 0; k < 32 * 24; k++)
            lit += picture.pixels[3 * (k / 32 * picture.width + k % 32) + 2] > 40;
        EXPECT_GT(lit, 50) << mesh;
        image_close(&picture);
    }
}

} // namespace
