// SPDX-License-Identifier: MIT
// dsplat finish as its users run it.
#include "program_run.h"
#include "json_value.h"
#include <jansson.h>

namespace {

std::vector<json> events_of(const fs::path &log, const std::string &event) {
    std::vector<json> found;
    std::istringstream lines(contents(log));
    for (std::string line; std::getline(lines, line);)
        if (const json value(line); value["event"].text() == event) found.push_back(value);
    return found;
}

TEST_F(Program, FinishesASceneByLevenbergMarquardt) {
    write_colmap(folder / "data", 40);
    const std::string data = (folder / "data").string(), scene = (folder / "scene.ply").string(),
                      finished = (folder / "finished.ply").string(),
                      json_file = (folder / "lm.json").string();
    const outcome trained = splat({"train", data, "-o", scene, "--iterations", "20", "--sh-degree", "0"});
    ASSERT_EQ(trained.code, 0) << trained.err;

    const outcome run = splat({"finish", scene, "--cameras", data, "-o", finished, "--lm-steps", "2",
                               "--json", json_file, "--log", at("log")});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "LM step    1");
    EXPECT_CONTAINS(run.out, "held out");
    EXPECT_TRUE(fs::exists(finished));
    json_t *record = json_load_file(json_file.c_str(), 0, NULL);
    ASSERT_TRUE(record);
    const json_t *steps = json_object_get(record, "steps");
    ASSERT_EQ(json_array_size(steps), 2u);
    for (size_t i = 0; i < 2; i++) {
        const json_t *step = json_array_get(steps, i);
        const double before = json_number_value(json_object_get(step, "before"));
        const double after = json_number_value(json_object_get(step, "after"));
        EXPECT_GT(before, 0);
        EXPECT_TRUE(after < before || !json_is_true(json_object_get(step, "kept")));
        EXPECT_GT(json_integer_value(json_object_get(step, "bytes")), 0);
    }
    const std::vector<json> logged = events_of(at("log"), "lm"),
                            measured = events_of(at("log"), "evaluation");
    ASSERT_EQ(logged.size(), 2u);
    for (size_t i = 0; i < 2; i++)
        for (const char *name : {"before", "after", "gain", "gamma", "damping", "seconds", "psnr", "ssim"})
            EXPECT_EQ(logged[i][name].number(),
                      json_number_value(json_object_get(json_array_get(steps, i), name)))
                << name;
    for (size_t i = 0; i < 2; i++) {
        EXPECT_EQ(logged[i]["step"].number(), double(i + 1));
        EXPECT_EQ(logged[i]["views"].number(), 4);
    }
    EXPECT_GT(logged[1]["seconds"].number(), logged[0]["seconds"].number());
    ASSERT_EQ(measured.size(), 2u); // before and after
    EXPECT_EQ(measured[0]["psnr"].number(), json_number_value(json_object_get(record, "psnr")));
    EXPECT_EQ(measured[1]["psnr"].number(), logged[1]["psnr"].number());
    EXPECT_EQ(events_of(at("log"), "start").at(0)["settings"]["scene"].text(), scene);
    EXPECT_EQ(events_of(at("log"), "end").at(0)["seconds"].number(), logged[1]["seconds"].number());
    json_decref(record);
}

// The options of 3DGS-LM as a user gives them, in any order, with others that change them.
TEST_F(Program, FinishesASceneAsPublished) {
    write_colmap(at("data"), 40);
    write_scene(at("scene.ply"), 30, 0, 0, 3);
    const outcome run = splat({"finish", at("scene.ply"), "--cameras", at("data"), "-o", at("out.ply"),
                               "--lm-batch", "2", "--lm-published", "--lm-batches", "2", "--lm-steps", "1",
                               "--lm-pcg", "2", "--json", at("json"), "--log", at("log")});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "on 4 views in 2 batches");
    EXPECT_CONTAINS(run.out, "objective");
    const json record(contents(at("json")));
    EXPECT_EQ(record["steps"].at(0)["images"].number(), 4);
    EXPECT_EQ(record["steps"].at(0)["batches"].number(), 2);
    EXPECT_TRUE(record["steps"].at(0)["gpu_ms"].has("build cache"));
    EXPECT_EQ(events_of(at("log"), "lm").at(0)["batches"].number(), 2);
    const json settings = events_of(at("log"), "start").at(0)["settings"];
    EXPECT_EQ(settings["lm-form"].text(), "cached");
    EXPECT_EQ(settings["lm-ssim"].text(), "centre");
    EXPECT_EQ(settings["lm-preconditioner"].text(), "diagonal");
    EXPECT_EQ(settings["lm-pcg-start"].text(), "preconditioned");
    EXPECT_EQ(settings["lm-choice"].text(), "strided");
    EXPECT_EQ(settings["lm-rule"].text(), "gain");
    const std::pair<const char *, double> numbers[] = {
        {"lm-batch", 2},          {"lm-batches", 2},      {"lm-pcg", 2},
        {"lm-search", 0.3},       {"lm-units", 1},        {"lm-radius", 0},
        {"lm-damping-min", 1e-4}, {"lm-damping-max", 1e4}};
    for (const auto &[name, value] : numbers) EXPECT_EQ(settings[name].number(), value) << name;
    const outcome l2 = splat({"finish", at("scene.ply"), "--cameras", at("data"), "-o", at("out.ply"),
                              "--lm-steps", "1", "--lm-pcg", "1", "--lm-objective", "l2", "--json", "-"});
    ASSERT_EQ(l2.code, 0) << l2.err;
    EXPECT_FALSE(json(l2.out)["steps"].at(0)["gpu_ms"].has("build cache"));
}

TEST_F(Program, FinishingSaysNothingBesideItsJson) {
    write_colmap(at("data"), 20);
    write_scene(at("scene.ply"), 3, 0, 0, 3);
    const outcome run = splat({"finish", at("scene.ply"), "--cameras", at("data"), "-o", at("out.ply"),
                               "--lm-steps", "1", "--lm-pcg", "1", "--json", "-"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(json(run.out)["steps"].size(), 1u);
}

TEST_F(Program, FinishingSaysWhatItLacks) {
    write_colmap(folder / "data", 40);
    const std::string data = (folder / "data").string(), scene = (folder / "scene.ply").string();
    const std::string smooth = (folder / "smooth.ply").string();
    const outcome trained = splat({"train", data, "-o", scene, "--iterations", "1", "--sh-degree", "0"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    ASSERT_EQ(splat({"train", data, "-o", smooth, "--iterations", "1", "--antialias"}).code, 0);
    const std::string before = contents(scene);
    const struct {
        std::vector<std::string> arguments;
        int code;
        const char *text;
    } cases[] = {
        {{"finish", scene, "-o", scene}, 2, "--cameras"},
        {{"finish", scene, "--cameras", data}, 2, "-o"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--reduce", "block"}, 2, "block"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--lm-steps", "0"}, 2, "lm-steps"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--lm-form", "kept"},
         2,
         "--lm-form must be one of free, cached, not 'kept'"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--lm-preconditioner", "nonsense"},
         2,
         "--lm-preconditioner must be one of blocks, diagonal, not 'nonsense'"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--lm-objective", "l2", "--lm-ssim", "centre"},
         2,
         "--lm-objective l2 excludes --lm-ssim centre: it has no SSIM"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--lm-published", "--lm-objective", "l2"},
         2,
         "--lm-objective l2 excludes --lm-ssim centre: it has no SSIM"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--lm-damping-min", "2", "--lm-damping-max", "1"},
         2,
         "--lm-damping-min must not be above --lm-damping-max"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--lm-memory", "0.00001"},
         1,
         "raise --lm-memory or --downscale, or take --lm-form free"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--holdout", "1"}, 1, "no view is left"},
        {{"finish", data + "/none.ply", "--cameras", data, "-o", scene}, 1, "none.ply"},
        {{"finish", scene, "--cameras", data, "-o", scene, "--log", data + "/no/log"}, 1, "no/log"},
        {{"finish", scene, "--cameras", data, "-o", data + "/o.ply", "--log", scene},
         2,
         "--log and the scene name one file"},
        {{"finish", scene, "--cameras", data, "-o", data + "/o.ply", "--json", scene},
         2,
         "--json and the scene name one file"},
        {{"finish", scene, "--cameras", data, "-o", data + "/o.ply", "--json", data + "/o.ply"},
         2,
         "--json and -o name one file"},
        {{"finish", smooth, "--cameras", data, "-o", scene}, 1, "antialiased"},
    };
    for (const auto &c : cases) {
        const outcome run = splat(c.arguments);
        EXPECT_EQ(run.code, c.code) << c.text;
        EXPECT_NE(run.err.find(c.text), std::string::npos) << c.text << ": " << run.err;
        EXPECT_TRUE(contents(scene) == before) << c.text;
    }
}

} // namespace
