// SPDX-License-Identifier: MIT
// The program's commands train and render, and what all commands share.
#include "program_run.h"
#include "distwar_gs.h"
#include <chrono>

namespace {

const char *const commands[] = {"train", "render", "eval", "info", "generate"};

TEST_F(Program, WithoutACommandExplainsItself) {
    outcome run = splat({});
    EXPECT_EQ(run.code, 2);
    EXPECT_EQ(run.out, "");
    for (const char *command : commands) EXPECT_CONTAINS(run.err, command);
}

TEST_F(Program, Helps) {
    outcome run = splat({"--help"});
    EXPECT_EQ(run.code, 0);
    EXPECT_EQ(run.err, "");
    EXPECT_CONTAINS(run.out, "dsplat train");
    for (const char *command : commands) {
        run = splat({command, "--help"});
        EXPECT_EQ(run.code, 0);
        EXPECT_EQ(run.err, "");
        EXPECT_CONTAINS(run.out, std::string("usage: dsplat ") + command);
        EXPECT_CONTAINS(run.out, std::string("examples:\n  dsplat ") + command);
        outcome other_way = splat({"help", command});
        EXPECT_EQ(other_way.code, 0);
        EXPECT_EQ(other_way.out, run.out);
    }
    EXPECT_EQ(splat({"help"}).code, 0);
}

TEST_F(Program, NamesItsVersion) {
    outcome run = splat({"--version"});
    EXPECT_EQ(run.code, 0);
    EXPECT_EQ(run.out, std::string("dsplat ") + gs_version() + " (" + gs_backend() + ")\n");
}

TEST_F(Program, RefusesAWrongCommandLine) {
    for (const char *line : {"paint",
                             "help paint",
                             "train",
                             "train data",
                             "train data more -o x.ply",
                             "eval x.ply --cameras data --align-steps -1",
                             "render scene.ply",
                             "render scene.ply -o ./scene.ply",
                             "render scene.ply -o x.png --photo",
                             "render scene.ply -o x.png --cameras data --photo --ortho 3",
                             "render scene.ply -o x.png --width 99999",
                             "eval scene.ply",
                             "eval --cameras data",
                             "eval scene.ply --cameras data --json scene.ply",
                             "eval scene.ply --cameras data --holdout -2",
                             "eval scene.ply --cameras data --background red",
                             "info",
                             "info a.ply b.ply",
                             "info a.ply --json a.ply",
                             "generate something more",
                             "generate --unknown"})
        refuses({{line, 2, "dsplat"}});
    for (const char *options : {"--iterations 10000001",
                                "--iterations many",
                                "--reduce magic",
                                "--background 1,2,3",
                                "--background 0,0",
                                "--background 0,nan,0",
                                "--density magic",
                                "--max-gaussians -1",
                                "--schedule average=1.1",
                                "--schedule average=nan",
                                "--schedule dropout=0.95",
                                "--schedule every=0",
                                "--schedule from=1,,every=2",
                                "--schedule from=1,",
                                "--schedule from",
                                "--schedule growth=1",
                                "--perturb-poses 1",
                                "--perturb-poses 1,",
                                "--perturb-poses nan,0.01",
                                "--perturb-poses 181,0.01",
                                "--perturb-poses 1,-0.01",
                                "--perturb-poses 1,0.01,2",
                                "--align-steps 100001",
                                "--write-cameras x.ply",
                                "--log c.json --write-cameras ./c.json",
                                "--log x.ply",
                                "--log x.ply.checkpoint",
                                "--resume x.ply",
                                "--resume ./x.ply"})
        refuses({{"train data -o x.ply "s + options, 2, "dsplat train"}});
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
    const bool cpu = std::string(gs_backend()) == "simt";
    const std::string tuned = done("train @data -o @scene.ply --iterations 3").out;
    EXPECT_CONTAINS(tuned, "tree at threshold 0"); // on a GPU: too early for another
    EXPECT_EQ(tuned.find("tuning ") == std::string::npos, cpu) << tuned;
    const std::string told = done("train @data -o @scene.ply --iterations 3 --reduce serial").out;
    EXPECT_CONTAINS(told, "serial at threshold 0");
    EXPECT_EQ(told.find("tuning "), std::string::npos) << told;
    const std::string fixed = done("train @data -o @scene.ply --iterations 1 --reduce fixed").out;
    EXPECT_CONTAINS(fixed, ", fixed, seed"); // it has no threshold
    EXPECT_CONTAINS(fixed, "(means over 1 view)");
}

TEST_F(Program, RendersWithoutReadingOtherPhotographs) {
    write_colmap(at("data"), 10);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    fs::resize_file(at("data") / "images/photo2.png", 20);
    const std::pair<const char *, int> rows[] = {
        {"2", 0}, {"photo2.png --photo", 1}, {"2 --photo", 1}, {"1 --photo", 0}, {"photo1.png --photo", 0}};
    for (const auto &[view, code] : rows)
        EXPECT_EQ(dsplat("render @scene.ply -o @view.png --cameras @data --view "s + view).code, code)
            << view;
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

// Before any work: nothing is read and nothing is written.
TEST_F(Program, MissingInputAndUnknownFormatsAreNamed) {
    const std::string suffix = "the suffix must be one of .ply";
    refuses({{"train @nowhere -o @scene.ply", 1, "nowhere"},
             {"render @nowhere.ply -o @scene.png", 1, "nowhere.ply"},
             {"train @nowhere -o @scene.obj", 1, suffix},
             {"train @nowhere -o @scene", 1, suffix},
             {"finish @nowhere.ply --cameras @nowhere -o @scene.splat", 1, suffix},
             {"render @scene.obj -o @view.png", 1, suffix},
             {"info @scene.obj", 1, suffix},
             {"eval @scene.obj --cameras @nowhere", 1, suffix}});
}

// The pictures have 40 x 28 pixels, and a Gaussian for 100 of them is the most.
TEST_F(Program, DataWithoutPointsStartFromRandomOnes) {
    write_colmap(at("data"), 0);
    const std::string once = "train @data -o @scene.ply --iterations 1", run = done(once).out;
    EXPECT_CONTAINS(run, "start      44 random points: the data has none");
    EXPECT_CONTAINS(run, "scene      44 Gaussians");
    const std::string more = done(once + " --random 60").out;
    EXPECT_CONTAINS(more, " for 60 Gaussians, the most there will be, ");
    EXPECT_CONTAINS(more, "plan       1 iteration, 1 view per step, ");
    fs::remove(at("data") / "sparse/0/points3D.bin");
    done(once);
}

TEST_F(Program, UnknownViewsAndNoViewAreRefused) {
    write_colmap(at("data"), 3);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    refuses({{"train @data -o @new.ply --holdout 1", 1, "no view is left"}});
    for (const char *view : {"5", "-1", "photo9.png", "", "0x1"})
        refuses({{"render @scene.ply -o @view.png --cameras @data --view="s + view, 1, "there is no view"}});
}

// Which takes hours, if begun.
TEST_F(Program, APlaceThatCannotBeWrittenIsRefusedBeforeTheWork) {
    write_colmap(at("data"), 20);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    std::ofstream(at("file")) << "not a folder";
    fs::create_directories(at("folder") / "index.html");
    const std::string train = "train @data -o @scene.ply --iterations 10000000 -o ", none = "no/such/folder";
    const auto begin = std::chrono::steady_clock::now();
    refuses({{train + "@no/such/folder/scene.ply", 1, none},
             {train + "@folder", 1, "folder: not a known format of scenes"},
             {"render @scene.ply -o @no/such/folder/scene.png", 1, none},
             {"render @scene.ply -o @folder", 1, "folder: cannot write"},
             {train + "@new.ply --report @file", 1, "file"},
             {train + "@new.ply --report @no/such/folder", 1, none},
             {train + "@new.ply --report @folder", 1, "folder"},
             {"generate @file", 1, "file"},
             {"generate @no/such/folder", 1, none},
             {"eval @scene.ply --cameras @data --json @no/such/folder/eval.json", 1, none}});
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 60);
    EXPECT_EQ(contents(at("file")), "not a folder");
}

} // namespace
