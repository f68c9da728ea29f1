// SPDX-License-Identifier: MIT
// The program's commands train and render, and what all commands share; runs that go on from others; poses.
#include "program_run.h"
#include "distwar_gs.h"
#include <chrono>

namespace {

TEST_F(Program, ExplainsItself) {
    const outcome none = splat({}), all = splat({"--help"});
    EXPECT_EQ(none.code, 2);
    EXPECT_EQ(none.out, "");
    EXPECT_EQ(all.code, 0);
    EXPECT_EQ(all.out, splat({"help"}).out);
    for (const std::string command :
         {"train", "render", "eval", "info", "generate", "convert", "export", "view", "poses"}) {
        for (const std::string &text : {none.err, all.out}) EXPECT_CONTAINS(text, command);
        const outcome run = splat({command, "--help"});
        EXPECT_EQ(run.code, 0);
        EXPECT_EQ(run.err, "");
        EXPECT_CONTAINS(run.out, "usage: dsplat " + command);
        EXPECT_CONTAINS(run.out, "examples:\n  dsplat " + command);
        EXPECT_EQ(splat({"help", command}).out, run.out);
        EXPECT_LE(occurrences(run.out, "\n"), 80u) << command;
        std::istringstream lines(run.out);
        for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
    }
    EXPECT_EQ(splat({"--version"}).out, std::string("dsplat ") + gs_version() + " (" + gs_backend() + ")\n");
}

TEST_F(Program, RefusesAWrongCommandLine) {
    std::istringstream lines(
        "paint; help paint; train; train data; train data more -o x.ply; "
        "eval x.ply --cameras data --align-steps -1; render scene.ply; "
        "render scene.ply -o ./scene.ply; render scene.ply -o x.png --photo; "
        "render scene.ply -o x.png --cameras data --photo --ortho 3; "
        "render scene.ply -o x.png --width 99999; eval scene.ply; eval --cameras data; "
        "eval scene.ply --cameras data --json scene.ply; eval scene.ply --cameras data --holdout -2; "
        "eval scene.ply --cameras data --background red; info; info a.ply b.ply; "
        "info a.ply --json a.ply; generate something more; generate --unknown");
    std::istringstream options(
        "--iterations 10000001; --iterations many; --reduce magic; --background 1,2,3; "
        "--background 0,0; --background 0,nan,0; --density magic; --max-gaussians -1; "
        "--schedule average=1.1; --schedule average=nan; --schedule dropout=0.95; "
        "--schedule every=0; --schedule from=1,,every=2; --schedule from=1,; --schedule from; "
        "--schedule growth=1; --perturb-poses 1; --perturb-poses 1,; --perturb-poses nan,0.01; "
        "--perturb-poses 181,0.01; --perturb-poses 1,-0.01; --perturb-poses 1,0.01,2; "
        "--align-steps 100001; --write-cameras x.ply; --log c.json --write-cameras ./c.json; "
        "--log x.ply; --log x.ply.checkpoint; --resume x.ply; --resume ./x.ply; --log c.ply --from ./c.ply");
    for (std::string line; std::getline(lines >> std::ws, line, ';');) refuses({{line, 2, "dsplat"}});
    for (std::string more; std::getline(options >> std::ws, more, ';');)
        refuses({{"train data -o x.ply " + more, 2, "dsplat train"}});
}

TEST_F(Program, TrainsFromPhotographsAndRendersThem) {
    write_colmap(at("data"), 50);
    for (int r = 0; r < DISTWAR_STRATEGY_COUNT; r++) {
        if (!gs_has_strategy(distwar_strategy(r))) continue;
        const char *reduction = distwar_strategy_name(distwar_strategy(r));
        outcome run = dsplat("train @data -o @scene.ply --iterations 20 --holdout 5 --reduce "s + reduction);
        ASSERT_EQ(run.code, 0) << run.err;
        EXPECT_EQ(run.err, "");
        auto [first, last] = change(run.out, "loss");
        EXPECT_LT(last, 0.95 * first) << reduction << "\n" << run.out;
        EXPECT_CONTAINS(run.out, "4 views to train on, 1 held out");
        EXPECT_CONTAINS(run.out, "50 Gaussians");
        EXPECT_CONTAINS(run.out, "PSNR");
    }
    done("render @scene.ply -o @view.png --cameras @data --view photo3.png --photo");
    picture both(at("view.png"));
    EXPECT_EQ(both.width, 2 * photo_width + 8);
    EXPECT_EQ(both.height, photo_height);
    picture photo(at("data") / "images/photo3.png");
    for (int row = 0; row < photo_height; row++) // the right half is the photograph
        EXPECT_EQ(memcmp(both.pixels + 3 * ((row + 1) * both.width - photo_width),
                         photo.pixels + 3 * row * photo_width, 3 * photo_width),
                  0);
    const outcome run = done("render @scene.ply -o @small.png --cameras @data --view 3 --downscale 2");
    EXPECT_CONTAINS(run.out, "photo3.png");
    picture small(at("small.png"));
    EXPECT_EQ(small.width, photo_width / 2);
    EXPECT_GT(small.others({0, 0, 0}), 100);
}

TEST_F(Program, TrainingTunesUnlessToldNotTo) {
    write_colmap(at("data"), 20);
    const std::string train = "train @data -o @scene.ply --iterations ",
                      tuning = std::string(gs_backend()) == "simt" ? "!tuning " : "tuning ";
    says({{train + "3", 0, {"tree at threshold 0", tuning}}, // on a GPU: too early for another
          {train + "3 --reduce serial", 0, {"serial at threshold 0", "!tuning "}},
          {train + "1 --reduce fixed", 0, {", fixed, seed", "(means over 1 view)"}}, // it has no threshold
          {train + "4 --batch 3", 0, {"!1 view per step", "3 views per step"}}});    // the last step has 1
}

TEST_F(Program, RendersWithoutReadingOtherPhotographs) {
    write_colmap(at("data"), 10);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    fs::resize_file(at("data") / "images/photo2.png", 20);
    const std::string view = "render @scene.ply -o @view.png --cameras @data --view ";
    says({{view + "2", 0, {}},
          {view + "photo2.png --photo", 1, {}},
          {view + "2 --photo", 1, {}},
          {view + "1 --photo", 0, {}},
          {view + "photo1.png --photo", 0, {}}});
}

// The order of views, and where random points are.
TEST_F(Program, TheSeedDecides) {
    write_colmap(at("data"), 20);
    // The mean loss of the first step: that of the first view.
    const auto trained = [&](const std::string &options) {
        return change(done("train @data -o @scene.ply --iterations 1 --seed " + options).out, "loss")[0];
    };
    for (const std::string start : {"", " --random 9"}) {
        const double one = trained("1" + start);
        EXPECT_EQ(one, trained("1" + start));
        bool differs = false;
        for (const char *seed : {"2", "3", "4", "5", "6", "7"}) differs |= trained(seed + start) != one;
        EXPECT_TRUE(differs) << start;
    }
}

TEST_F(Program, ShowsAnySceneWithoutCameras) {
    write_scene(at("scene.ply"), 1, 100, -50, 1000);
    done("render @scene.ply -o @scene.png --width 40 --height 30");
    picture shown(at("scene.png"));
    ASSERT_EQ(shown.width, 40);
    ASSERT_EQ(shown.height, 30);
    const uint8_t *middle = shown.pixels + shown.channels * (15 * 40 + 20);
    EXPECT_GT(middle[0], 200);
    EXPECT_LT(middle[1], 50);
    EXPECT_LT(shown.others({0, 0, 0}), 40 * 30 - 100); // there is space around it
}

TEST_F(Program, RendersInParallel) {
    write_colmap(at("data"), 4);
    const auto shown = [&](float depth, const char *height) {
        write_scene(at("scene.ply"), 1, 0, 0, depth);
        done("render @scene.ply -o @view.png --cameras @data --ortho "s + height);
        return picture(at("view.png")).others({0, 0, 0});
    };
    const int near = shown(3, "4");
    EXPECT_GT(near, 4);
    EXPECT_EQ(shown(9, "4"), near);
    EXPECT_LT(shown(3, "8"), near);
    EXPECT_LT(shown(9, "0"), shown(3, "0")) << "in perspective";
}

// Of no Gaussians, and where the camera sees none: the cameras look along +z.
TEST_F(Program, NothingIsBackground) {
    write_colmap(at("data"), 4);
    write_scene(at("empty.ply"), 0, 0, 0, 0);
    write_scene(at("behind.ply"), 3, 0, 0, -20);
    write_scene(at("aside.ply"), 3, 500, 0, 5);
    for (const char *scene : {"empty.ply", "behind.ply", "aside.ply"}) {
        done("render @"s + scene + " -o @view.png --cameras @data --background 1,0.8,0.6");
        EXPECT_EQ(picture(at("view.png")).others({255, 204, 153}), 0) << scene;
    }
    done("render @empty.ply -o @empty.png --width 33 --height 17 --background 0.2,0.4,1");
    picture shown(at("empty.png"));
    EXPECT_EQ(shown.width, 33);
    EXPECT_EQ(shown.height, 17);
    EXPECT_EQ(shown.others({51, 102, 255}), 0);
}

// The pictures have 40 x 28 pixels, and a Gaussian for 100 of them is the most.
TEST_F(Program, DataWithoutPointsStartFromRandomOnes) {
    write_colmap(at("data"), 0);
    const std::string once = "train @data -o @scene.ply --iterations 1";
    says({{once, 0, {"start      44 random points: the data has none", "scene      44 Gaussians"}},
          {once + " --random 60",
           0,
           {" for 60 Gaussians, the most there will be, ", "plan       1 iteration, 1 view per step, "}}});
    fs::remove(at("data") / "sparse/0/points3D.txt");
    done(once);
}

// Before any work, which takes hours, if begun.
TEST_F(Program, WhatCannotBeReadOrWrittenIsRefusedBeforeTheWork) {
    write_colmap(at("data"), 20);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    std::ofstream(at("file")) << "not a folder";
    fs::create_directories(at("folder") / "index.html");
    const std::string suffix = "the suffix must be one of .ply", none = "no/such/folder",
                      train = "train @data --iterations 10000000 -o ", render = "render @scene.ply -o ";
    const auto begin = std::chrono::steady_clock::now();
    refuses({{"train @nowhere -o @scene.ply", 1, "nowhere"},
             {"render @nowhere.ply -o @scene.png", 1, "nowhere.ply"},
             {"train @nowhere -o @scene.obj", 1, suffix},
             {"train @nowhere -o @scene", 1, suffix},
             {"finish @nowhere.ply --cameras @nowhere -o @scene.splat", 1, suffix},
             {"render @scene.obj -o @view.png", 1, suffix},
             {"info @scene.obj", 1, suffix},
             {"eval @scene.obj --cameras @nowhere", 1, suffix},
             {train + "@new.ply --holdout 1", 1, "no view is left"},
             {train + "@no/such/folder/scene.ply", 1, none},
             {train + "@folder", 1, "folder: not a known format of scenes"},
             {render + "@no/such/folder/scene.png", 1, none},
             {render + "@folder", 1, "folder: cannot write"},
             {train + "@new.ply --report @file", 1, "file"},
             {train + "@new.ply --report @no/such/folder", 1, none},
             {train + "@new.ply --report @folder", 1, "folder"},
             {"generate @file", 1, "file"},
             {"generate @no/such/folder", 1, none},
             {"eval @scene.ply --cameras @data --json @no/such/folder/eval.json", 1, none}});
    for (const char *view : {"5", "-1", "photo9.png", "", "0x1"})
        refuses({{render + "@view.png --cameras @data --view=" + view, 1, "there is no view"}});
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 60);
    EXPECT_EQ(contents(at("file")), "not a folder");
}

// ---- runs that go on from others, and what decides nothing

TEST_F(Program, AFinishedRunGoesOnAndASceneIsAStart) {
    write_colmap(at("data"), 20);
    const std::string train = "train @data -o @a.ply --sh-degree 1 --checkpoint-every 4 --iterations ",
                      resumed = " --resume @a.ply.checkpoint",
                      from_a = "train @data -o @b.ply --from @a.ply ";
    says({{train + "4", 0, {}},
          {train + "9" + resumed, 0, {"training   5 iterations (9 in all)"}},
          {train + "4" + resumed, 1, {"no run with these options has its counts"}},
          {from_a + "--iterations 1 --sh-degree 1", 0, {"scene      20 Gaussians"}},
          {from_a, 1, {"has SH degree 1: add --sh-degree 1"}},
          {from_a + "--random 9", 2, {}}});
    EXPECT_FALSE(contents(at("a.ply")) == contents(at("b.ply")));
}

TEST_F(Program, EvalKnowsWhatASceneWasTrainedOn) {
    write_colmap(at("data"), 20);
    const auto figures = [&](const std::string &more) {
        return done("eval @scene.ply --cameras @data" + more);
    };
    const std::string train = "train @data -o @scene.ply --iterations 2 --background 1,1,1 --holdout ";
    done(train + "2");
    const outcome held_out = figures("");
    EXPECT_EQ(held_out.err, "");
    EXPECT_EQ(held_out.out, figures(" --holdout 2 --background 1,1,1").out);
    EXPECT_NE(held_out.out, figures(" --background 0,0,0").out);
    const std::string photo = "render @scene.ply -o @view.png --cameras @data --photo";
    EXPECT_EQ(done(photo).out, done(photo + " --background 1,1,1").out);
    EXPECT_NE(done(photo).out, done(photo + " --background 0,0,0").out);
    EXPECT_NE(held_out.out, figures(" --holdout 3").out);
    done(train + "0");
    const outcome all = figures("");
    EXPECT_CONTAINS(all.err, "was trained on all views: these figures are of training views");
    EXPECT_EQ(all.out, figures(" --all").out);
}

// COLMAP scales scenes to about ten units, phones have metres.
TEST_F(Program, TheUnitOfLengthDecidesNothing) {
    const auto psnr = [&](double unit, const std::string &way) {
        write_colmap(at("data"), 60, unit);
        return number_after(done("train @data -o @scene.ply --iterations 40 --holdout 5 --max-gaussians 100"
                                 " --schedule from=1,every=4 --reproducible --density " +
                                 way)
                                .out,
                            "held out   PSNR ");
    };
    for (const char *way : {"split", "mcmc"}) {
        const double metres = psnr(1, way);
        for (double unit : {1.0 / 1024, 1024.0})
            EXPECT_NEAR(psnr(unit, way), metres, 0.5) << way << " " << unit;
    }
}

// ---- poses

TEST_F(Program, RefinesPosesAndWritesCameras) {
    write_colmap(at("data"), 30);
    fs::create_directories(at("data") / "masks");
    const picture mask(photo_width, photo_height, 255);
    memset(mask.pixels, 0, 300);
    for (int i = 0; i < photos; i++) mask.write(at("data") / "masks" / photo_name(i));
    says({{"train @data -o @scene.spz --iterations 12 --density none --perturb-poses 1,0.01"
           " --refine-poses --write-cameras @cameras.json --log @run.jsonl",
           0,
           {"poses      from those of the data"}}});
    EXPECT_CONTAINS(contents(at("run.jsonl")),
                    "\"event\": \"poses\", \"iteration\": 12, \"views\": 4, \"seconds\": ");
    // The file gives the same views with the same pictures and masks.
    EXPECT_CONTAINS(contents(at("cameras.json")), "\"mask_path\": \"masks/photo0.png\"");
    fs::create_directories(at("again"));
    for (const char *name : {"images", "masks"}) fs::copy(at("data") / name, at("again") / name);
    fs::copy(at("cameras.json"), at("again") / "transforms.json");
    EXPECT_NE(done("eval @scene.spz --cameras @again").out, done("eval @scene.spz --cameras @data").out);
    EXPECT_EQ(host_scene(at("scene.spz")).count, 30); // any format, in pieces
}

// On a half of 128 x 128 pixels.
TEST_F(Program, RefinesPosesOnSmallerPicturesFirst) {
    done("generate @data --views 4 --test-views 1 --size 128 --gaussians 2000");
    const std::string train =
        "train @data -o @scene.ply --random 200 --density none --perturb-poses 2,0.01 --refine-poses --iterations 2"
        " --resolutions 2:50 --align-steps 2 --log @run.jsonl --reproducible --checkpoint-every 1";
    const std::string first = done(train).out, log = contents(at("run.jsonl")),
                      scene = contents(at("scene.ply"));
    fs::rename(at("scene.ply.checkpoint"), at("kept"));
    EXPECT_CONTAINS(first, ", 1/2 of the size until 50%\n");
    const double settled = number_after(log, "\"sizes\": [{\"divided_by\": 2, \"mean_degrees\": ");
    EXPECT_GT(settled, 0) << log;
    EXPECT_NE(settled, number_after(log, "\"before\": {\"mean_degrees\":"));
    EXPECT_LE(number_after(log, "\"views\": 4, \"seconds\":"), 600) << "a duration, not a time of day";
    // A resumed run has the poses that were saved, and aligns as before.
    fs::remove(at("scene.ply"));
    const std::string resumed = done(train + " --resume @kept").out;
    EXPECT_TRUE(contents(at("scene.ply")) == scene);
    for (const char *figure : {"held out   PSNR", "dB, SSIM"})
        EXPECT_EQ(number_after(resumed, figure), number_after(first, figure)) << resumed;
}

// The scene that the pictures show, and cameras that are wrong.
TEST_F(Program, AlignsViewsBeforeTheyAreMeasured) {
    done("generate @data --views 3 --test-views 0 --size 64 --gaussians 2000");
    fs::create_directories(at("moved"));
    fs::copy(at("data") / "train", at("moved") / "train");
    done("train @data -o @unused.ply --random 10 --iterations 1 --holdout 0 --density none"
         " --perturb-poses 0.5,0.005 --write-cameras @moved/transforms.json");
    const auto psnr = [&](const std::string &more) {
        return number_after(done("eval @data/scene.ply --cameras @moved --all" + more).out, "mean");
    };
    const double before = psnr("");
    EXPECT_EQ(psnr(" --align-steps 0"), before);
    EXPECT_GT(psnr(" --align-steps 40"), before + 5);
}

} // namespace
