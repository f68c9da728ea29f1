// SPDX-License-Identifier: MIT
// dsplat finish, and dsplat train --finish, as their users run them.
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
    const outcome trained =
        splat({"train", data, "-o", scene, "--iterations", "20", "--sh-degree", "0", "--finish", "1"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_NE(trained.out.find("LM step    1"), std::string::npos) << trained.out;

    const outcome run = splat({"finish", scene, "--cameras", data, "-o", finished, "--lm-steps", "2",
                               "--json", json_file, "--log", at("log")});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find("held out"), std::string::npos) << run.out;
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
    ASSERT_EQ(measured.size(), 2u); // before and after
    EXPECT_EQ(measured[0]["psnr"].number(), json_number_value(json_object_get(record, "psnr")));
    EXPECT_EQ(measured[1]["psnr"].number(), logged[1]["psnr"].number());
    EXPECT_EQ(events_of(at("log"), "start").at(0)["settings"]["scene"].text(), scene);
    EXPECT_EQ(events_of(at("log"), "end").at(0)["seconds"].number(), logged[1]["seconds"].number());
    json_decref(record);
}

TEST_F(Program, FinishingSaysNothingBesideItsJson) {
    write_colmap(at("data"), 20);
    write_scene(at("scene.ply"), 3, 0, 0, 3);
    const outcome run = splat({"finish", at("scene.ply"), "--cameras", at("data"), "-o", at("out.ply"),
                               "--lm-steps", "1", "--lm-pcg", "1", "--json", "-"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(json(run.out)["steps"].size(), 1u);
}

TEST_F(Program, FinishingIsInTheLogAndTheReport) {
    write_colmap(folder / "data", 30);
    const std::vector<std::string> train = {
        "train", at("data"),    "-o", at("scene.ply"), "--iterations", "10", "--finish", "2", "--holdout",
        "4",     "--sh-degree", "0",  "--log",         at("log")};
    std::vector<std::string> measured = train;
    measured.insert(measured.end(), {"--eval-every", "10", "--report", at("report")});
    const outcome run = splat(measured);
    ASSERT_EQ(run.code, 0) << run.err;
    const std::vector<json> steps = events_of(at("log"), "lm");
    ASSERT_EQ(steps.size(), 2u);
    for (size_t i = 0; i < 2; i++) {
        EXPECT_EQ(steps[i]["step"].number(), double(i + 1));
        EXPECT_GT(steps[i]["before"].number(), 0);
        EXPECT_GT(steps[i]["after"].number(), 0);
        EXPECT_GT(steps[i]["gamma"].number(), 0);
        EXPECT_GT(steps[i]["damping"].number(), 0);
        EXPECT_TRUE(std::isfinite(steps[i]["gain"].number()));
        EXPECT_EQ(steps[i]["views"].number(), 3);
        EXPECT_GT(steps[i]["psnr"].number(), 5);
    }
    EXPECT_GT(steps[1]["seconds"].number(), steps[0]["seconds"].number());
    // What is measured last is the scene that was written, not what the iterations came to.
    const std::vector<json> evaluations = events_of(at("log"), "evaluation");
    ASSERT_EQ(evaluations.size(), 2u);
    EXPECT_EQ(evaluations[1]["psnr"].number(), steps[1]["psnr"].number());
    EXPECT_NE(evaluations[0]["psnr"].number(), evaluations[1]["psnr"].number());
    EXPECT_GT(events_of(at("log"), "end").at(0)["seconds"].number(), steps[1]["seconds"].number());
    const std::string page = contents(at("report") / "index.html");
    EXPECT_CONTAINS(page, "<h2>Levenberg-Marquardt</h2>");
    char row[80];
    snprintf(row, sizeof row, "%.6f</td><td class=\"n\">%.6f", steps[1]["before"].number(),
             steps[1]["after"].number());
    EXPECT_CONTAINS(page, row);

    ASSERT_EQ(splat(train).code, 0);
    EXPECT_FALSE(events_of(at("log"), "lm").at(0).has("psnr"));
    EXPECT_EQ(events_of(at("log"), "evaluation").size(), 1u);
}

TEST_F(Program, FinishingComesAfterSecondsAndAfterACheckpoint) {
    write_colmap(folder / "data", 30);
    const std::vector<std::string> finish = {"--finish", "1"};
    std::vector<std::string> train = {"train",        at("data"), "-o",          at("scene.ply"),
                                      "--iterations", "100000",   "--sh-degree", "0"};
    std::vector<std::string> short_of = train;
    short_of.insert(short_of.end(), {"--seconds", "0.05"});
    short_of.insert(short_of.end(), finish.begin(), finish.end());
    outcome run = splat(short_of);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "LM step    1");

    // A run to its end, saved there; what is left to do is to finish it.
    train[5] = "4";
    std::vector<std::string> saved = train;
    saved.insert(saved.end(), {"--checkpoint-every", "4", "--checkpoint", at("saved")});
    ASSERT_EQ(splat(saved).code, 0);
    const std::string scene = contents(at("scene.ply"));
    std::vector<std::string> resumed = train;
    resumed.insert(resumed.end(), {"--resume", at("saved"), "--log", at("log")});
    resumed.insert(resumed.end(), finish.begin(), finish.end());
    run = splat(resumed);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(events_of(at("log"), "lm").size(), 1u);
    EXPECT_EQ(events_of(at("log"), "step").size(), 0u);
    EXPECT_EQ(events_of(at("log"), "end").at(0)["iteration"].number(), 4);
    EXPECT_FALSE(contents(at("scene.ply")) == scene);
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
        {{"train", data, "-o", scene, "--finish", "1", "--antialias"}, 2, "--antialias"},
        {{"train", data, "-o", scene, "--finish", "1", "--reproducible"}, 2, "--reproducible"},
    };
    for (const auto &c : cases) {
        const outcome run = splat(c.arguments);
        EXPECT_EQ(run.code, c.code) << c.text;
        EXPECT_NE(run.err.find(c.text), std::string::npos) << c.text << ": " << run.err;
        EXPECT_TRUE(contents(scene) == before) << c.text;
    }
}

} // namespace
