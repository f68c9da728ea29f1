// SPDX-License-Identifier: MIT
// dsplat finish as its users run it.
#include "program_run.h"
#include "json_value.h"

namespace {

std::vector<json> events_of(const fs::path &log, const std::string &event) {
    std::vector<json> found;
    std::istringstream lines(contents(log));
    for (std::string line; std::getline(lines, line);)
        if (const json value(line); value["event"].text() == event) found.push_back(value);
    return found;
}

TEST_F(Program, FinishesASceneByLevenbergMarquardt) {
    write_colmap(at("data"), 40);
    done("train @data -o @scene.ply --iterations 20 --sh-degree 0 --background 0.25,0.5,1");
    const outcome run =
        done("finish @scene.ply --cameras @data -o @finished.ply --lm-steps 2 --json @json --log @log");
    EXPECT_CONTAINS(run.out, "LM step    1");
    EXPECT_CONTAINS(run.out, "held out");
    const json record(contents(at("json"))), steps = record["steps"];
    const std::vector<json> logged = events_of(at("log"), "lm"),
                            measured = events_of(at("log"), "evaluation");
    ASSERT_EQ(steps.size(), 2u);
    ASSERT_EQ(logged.size(), 2u);
    for (size_t i = 0; i < 2; i++) {
        const json step = steps.at(i);
        EXPECT_GT(step["before"].number(), 0);
        EXPECT_TRUE(step["after"].number() < step["before"].number() || !step["kept"].is(true));
        EXPECT_GT(step["bytes"].number(), 0);
        for (const char *name : {"before", "after", "gain", "gamma", "damping", "seconds", "psnr", "ssim"})
            EXPECT_EQ(logged[i][name].number(), step[name].number()) << name;
        EXPECT_EQ(logged[i]["step"].number(), double(i + 1));
        EXPECT_EQ(logged[i]["views"].number(), 4);
    }
    EXPECT_GT(logged[1]["seconds"].number(), logged[0]["seconds"].number());
    ASSERT_EQ(measured.size(), 2u); // before and after
    EXPECT_EQ(measured[0]["psnr"].number(), record["psnr"].number());
    EXPECT_EQ(measured[1]["psnr"].number(), logged[1]["psnr"].number());
    EXPECT_EQ(events_of(at("log"), "start").at(0)["settings"]["scene"].text(), at("scene.ply").string());
    EXPECT_EQ(events_of(at("log"), "end").at(0)["seconds"].number(), logged[1]["seconds"].number());
    // As eval has it, on the background that both files say.
    const auto psnr = [&](const char *of) {
        return number_after(done("eval --cameras @data @"s + of).out, "mean");
    };
    EXPECT_NEAR(psnr("scene.ply"), record["psnr"].number(), 0.005);
    EXPECT_NEAR(psnr("finished.ply"), logged[1]["psnr"].number(), 0.005);
}

// The options of 3DGS-LM as a user gives them, in any order, with others that change them.
TEST_F(Program, FinishesASceneAsPublished) {
    write_colmap(at("data"), 40);
    write_scene(at("scene.ply"), 30, 0, 0, 3);
    const outcome run = done("finish @scene.ply --cameras @data -o @out.ply --lm-batch 2 --lm-published "
                             "--lm-batches 2 --lm-steps 1 --lm-pcg 2 --json @json --log @log");
    EXPECT_CONTAINS(run.out, "on 4 views in 2 batches");
    EXPECT_CONTAINS(run.out, "objective");
    const json record(contents(at("json")));
    EXPECT_EQ(record["steps"].at(0)["images"].number(), 4);
    EXPECT_EQ(record["steps"].at(0)["batches"].number(), 2);
    EXPECT_TRUE(record["steps"].at(0)["gpu_ms"].has("build cache"));
    EXPECT_EQ(events_of(at("log"), "lm").at(0)["batches"].number(), 2);
    const json settings = events_of(at("log"), "start").at(0)["settings"];
    const std::pair<const char *, const char *> names[] = {{"lm-form", "cached"},
                                                           {"lm-ssim", "centre"},
                                                           {"lm-preconditioner", "diagonal"},
                                                           {"lm-pcg-start", "preconditioned"},
                                                           {"lm-choice", "strided"},
                                                           {"lm-rule", "gain"}};
    for (const auto &[name, value] : names) EXPECT_EQ(settings[name].text(), value) << name;
    const std::pair<const char *, double> numbers[] = {
        {"lm-batch", 2},          {"lm-batches", 2},      {"lm-pcg", 2},
        {"lm-search", 0.3},       {"lm-units", 1},        {"lm-radius", 0},
        {"lm-damping-min", 1e-4}, {"lm-damping-max", 1e4}};
    for (const auto &[name, value] : numbers) EXPECT_EQ(settings[name].number(), value) << name;
    // Without a cache, and nothing beside the JSON.
    const outcome l2 = done("finish @scene.ply --cameras @data -o @out.ply --lm-steps 1 --lm-pcg 1 "
                            "--lm-objective l2 --json -");
    EXPECT_EQ(json(l2.out)["steps"].size(), 1u);
    EXPECT_FALSE(json(l2.out)["steps"].at(0)["gpu_ms"].has("build cache"));
}

TEST_F(Program, FinishingSaysWhatItLacks) {
    write_colmap(at("data"), 40);
    done("train @data -o @scene.ply --iterations 1 --sh-degree 0");
    done("train @data -o @smooth.ply --iterations 1 --antialias");
    const std::string before = contents(at("scene.ply")), finish = "finish @scene.ply --cameras @data -o ",
                      no_ssim = "--lm-objective l2 excludes --lm-ssim centre: it has no SSIM";
    refuses({
        {"finish @scene.ply -o @scene.ply", 2, "--cameras"},
        {"finish @scene.ply --cameras @data", 2, "-o"},
        {finish + "@scene.ply --reduce block", 2, "block"},
        {finish + "@scene.ply --lm-steps 0", 2, "lm-steps"},
        {finish + "@scene.ply --lm-form kept", 2, "--lm-form must be one of free, cached, not 'kept'"},
        {finish + "@scene.ply --lm-preconditioner nonsense", 2, "one of blocks, diagonal, not 'nonsense'"},
        {finish + "@scene.ply --lm-objective l2 --lm-ssim centre", 2, no_ssim},
        {finish + "@scene.ply --lm-published --lm-objective l2", 2, no_ssim},
        {finish + "@scene.ply --lm-damping-min 2 --lm-damping-max 1", 2,
         "--lm-damping-min must not be above --lm-damping-max"},
        {finish + "@scene.ply --lm-memory 0.00001", 1,
         "raise --lm-memory or --downscale, or take --lm-form free"},
        {finish + "@scene.ply --holdout 1", 1, "no view is left"},
        {"finish @data/none.ply --cameras @data -o @scene.ply", 1, "none.ply"},
        {finish + "@scene.ply --log @data/no/log", 1, "no/log"},
        {finish + "@data/o.ply --log @scene.ply", 2, "--log and the scene name one file"},
        {finish + "@data/o.ply --json @scene.ply", 2, "--json and the scene name one file"},
        {finish + "@data/o.ply --json @data/o.ply", 2, "--json and -o name one file"},
        {"finish @smooth.ply --cameras @data -o @scene.ply", 1, "antialiased"},
    });
    EXPECT_TRUE(contents(at("scene.ply")) == before);
}

} // namespace
