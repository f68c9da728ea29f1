// SPDX-License-Identifier: MIT
// The programs spheres and cubemap, which are one loop, as their users run them. SPHERES_PROGRAM and CUBEMAP_PROGRAM are
// their paths.
#include "cubemap.h"
#include "images/image.h"
#include "run_program.h"
#include <jansson.h>

namespace {

using lines = std::vector<std::pair<std::string, const char *>>;

struct fit_program {
    std::string name, path;
    size_t parameters;        // which it fits
    double share, decibels;   // the loss falls below this share of the first, the PSNR rises by more
    double share_of_quick;    // of a shorter training
    std::string small, quick; // options of a training and of a shorter one,
    std::string fixed, bench; // of one that is the same again, of bench
    lines kinds, wrong;       // options, with a part of the output; lines, with a part of what stderr says
    std::map<const char *, int> numbers; // of bench's JSON
};

const lines spheres_kinds = {{"--kept 1", "302 spheres"}},
            cubemap_kinds = {{"--mesh torus", "torus, 9216 triangles"},
                             {"--mesh wavy", "wavy, 4096 triangles"}},
            no_spheres = {{"train --data huge", "--data must be one of small, large"},
                          {"train --channels 4", "--channels must be one of 3, 8, 16, 32"},
                          {"bench --kept 17", "--kept must be 1..16"}},
            no_cubemap = {{"train --size 6", "--size must be a power of two, not 6"},
                          {"bench --size 4096", "--size must be auto or 1..2048"},
                          {"train --mesh m.obj", "--mesh must be one of icosphere, torus, wavy"}};
const decltype(fit_program::numbers) of_spheres = {{"values", 21}, {"keys", 302}, {"kept", 8}},
                                     of_cubemap = {{"values", 3}, {"keys", 6 * 341}, {"size", 16}};
// Of a sphere: centre, radius, opacity, colour.
const fit_program programs[] = {
    {"spheres", SPHERES_PROGRAM, 302 * 8, 0.4, 5, 0.8, "", "", " --channels 8 --iterations 4",
     " --channels 16", spheres_kinds, no_spheres, of_spheres},
    {"cubemap", CUBEMAP_PROGRAM, 18 * 16 * 16, 0.1, 10, 0.6, " --size 16", " --width 32 --height 24",
     " --mesh torus --iterations 8", " --size 16", cubemap_kinds, no_cubemap, of_cubemap}};

class FitProgram : public ProgramTest, public testing::WithParamInterface<fit_program> {
  protected:
    const fit_program &p = GetParam();
    // What it prints.
    std::string done(const std::string &line) const {
        const outcome result = run(p.path.c_str(), words(line));
        EXPECT_EQ(result.code, 0) << line << ": " << result.err;
        return result.out;
    }
    std::string train(const std::string &more) const {
        return done("train -o @out --width 64 --height 48 --iterations 40" + p.small + more);
    }
    std::vector<float> parameters() const { // that train has written
        const std::string bytes = contents(at("out/fit.f32"));
        std::vector<float> values(bytes.size() / sizeof(float));
        memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
        return values;
    }
    // Of the row that train has written: target, start, result. Pixels of the target that are not dark.
    int lit(int width, int height) const {
        image picture;
        fault why;
        EXPECT_TRUE(image_read(at("out/fit.png").c_str(), &picture, &why)) << why.text;
        EXPECT_EQ(picture.width, 3 * width + 2 * 4);
        EXPECT_EQ(picture.height, height);
        int count = 0;
        for (int k = 0; k < width * height && picture.pixels; k++)
            count += picture.pixels[3 * (k / width * picture.width + k % width) + 2] > 40;
        image_close(&picture);
        return count;
    }
};

TEST_P(FitProgram, TrainsAndWritesItsPicture) {
    const std::string out = train("");
    const auto loss = change(out, "loss"), psnr = change(out, "PSNR");
    EXPECT_LT(loss[1], p.share * loss[0]) << out;
    EXPECT_GT(psnr[1], psnr[0] + p.decibels) << out;
    // Of several strategies the first is in use at first, and stays so on the CPU.
    EXPECT_EQ(out.find("tuning ") == out.npos, bool(ON_CPU)) << out;
    EXPECT_TRUE(!ON_CPU || out.find("tree at threshold 0") != out.npos) << out;
    EXPECT_GT(lit(64, 48), 50);
    const std::vector<float> found = parameters();
    ASSERT_EQ(found.size(), p.parameters);
    for (const float value : found) EXPECT_TRUE(std::isfinite(value));
    if (p.name != "cubemap") return;
    // The mesh mirrors all that there is, so the texels are those of the surroundings.
    std::vector<float> truth(found.size());
    scene_surroundings(16, truth.data());
    double difference = 0;
    for (size_t k = 0; k < truth.size(); k++)
        difference += std::abs(std::fmin(std::fmax(found[k], 0), 1) - truth[k]);
    EXPECT_LT(difference / double(truth.size()), 0.03);
}

TEST_P(FitProgram, DrawsEveryKind) {
    for (const auto &[options, says] : p.kinds) {
        EXPECT_CONTAINS(train(" --width 32 --height 24 --iterations 1 " + options), says);
        EXPECT_GT(lit(32, 24), 50) << options;
    }
}

TEST_P(FitProgram, WithFixedWritesTheSameFileAgain) {
    std::vector<float> found[2];
    for (std::vector<float> &one : found) train(p.fixed + " --reduce fixed"), one = parameters();
    EXPECT_EQ(found[1], found[0]);
    EXPECT_GT(found[0].size(), 500u);
}

TEST_P(FitProgram, TrainsByEveryReduction) {
    for (const std::string name : {"atomic", "vector", "serial", "bfly", "tree", "fixed"}) {
        const std::string out = train(" --threshold 8 --iterations 16 --reduce " + name + p.quick);
        const auto loss = change(out, "loss");
        EXPECT_LT(loss[1], p.share_of_quick * loss[0]) << name;
        EXPECT_CONTAINS(out, name + " at threshold 8");
        EXPECT_EQ(out.find("tuning "), out.npos) << name; // one is not tuned
    }
}

TEST_P(FitProgram, BenchWritesJson) {
    const std::string out =
        done("bench --width 40 --thresholds 0,33 --repeat 1 --views 2 --json -" + p.bench);
    json_error_t error;
    json_t *root = json_loads(out.c_str(), 0, &error);
    ASSERT_NE(root, nullptr) << error.text << out;
    EXPECT_EQ(json_string_value(json_object_get(root, "workload")), p.name);
    for (const auto &[key, value] : p.numbers)
        EXPECT_EQ(json_integer_value(json_object_get(root, key)), value) << key;
    for (const char *counts : {"active_lanes", "distinct_keys"})
        EXPECT_EQ(json_array_size(json_object_get(root, counts)), 33u);
    // Every strategy of the list, at each of both thresholds if it has one.
    const int thresholds[] = {0, 33};
    const candidate_list all = candidates_of(sum_strategies, DISTWAR_STRATEGY_COUNT, thresholds, 2);
    json_t *rows = json_object_get(root, "adjoint");
    ASSERT_EQ(json_array_size(rows), size_t(all.count));
    for (int i = 0; i < all.count; i++) {
        const json_t *row = json_array_get(rows, size_t(i)), *threshold = json_object_get(row, "threshold");
        EXPECT_GT(json_number_value(json_object_get(row, "mean_ms")), 0);
        EXPECT_STREQ(json_string_value(json_object_get(row, "reduction")),
                     distwar_strategy_name(all.rows[i].strategy));
        EXPECT_EQ(json_is_null(threshold) ? 0 : json_integer_value(threshold), all.rows[i].balance_threshold);
    }
    json_decref(root);
}

TEST_P(FitProgram, ExplainsItselfAndPrintsATable) {
    says(p.path.c_str(), {{"train --help", 0, {"usage: " + p.name + " train"}},
                          {"bench --help", 0, {"usage: " + p.name + " bench"}},
                          {"--version", 0, {p.name + " "}},
                          {"--help", 0, {"bench"}},
                          {"bench --width 32 --reduce tree --thresholds 8 --repeat 1",
                           0,
                           {"active lanes", "tree             8", "!serial"}}});
}

TEST_P(FitProgram, RefusesWrongLines) {
    std::vector<refusal> table = {{"", 2, "usage: " + p.name},
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
    refuses(p.path.c_str(), table);
}

INSTANTIATE_TEST_SUITE_P(, FitProgram, testing::ValuesIn(programs),
                         [](const auto &info) { return info.param.name; });

} // namespace
