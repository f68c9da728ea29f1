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
        outcome run = dsplat("train @data -o @scene.ply --iterations 40 --holdout 5 --reduce "s + reduction);
        ASSERT_EQ(run.code, 0) << run.err;
        EXPECT_EQ(run.err, "");
        auto [first, last] = change(run.out, "loss");
        EXPECT_LT(last, 0.95 * first) << reduction << "\n" << run.out;
        EXPECT_CONTAINS(run.out, "4 views to train on, 1 held out");
        EXPECT_CONTAINS(run.out, "50 Gaussians");
        EXPECT_CONTAINS(run.out, "PSNR");
    }
    outcome run = dsplat("render @scene.ply -o @view.png --cameras @data --view photo3.png --photo");
    ASSERT_EQ(run.code, 0) << run.err;
    picture both(at("view.png"));
    EXPECT_EQ(both.width, 2 * photo_width + 8);
    EXPECT_EQ(both.height, photo_height);
    picture photo(at("data") / "images/photo3.png");
    for (int row = 0; row < photo_height; row++) // the right half is the photograph
        EXPECT_EQ(memcmp(both.pixels + 3 * ((row + 1) * both.width - photo_width),
                         photo.pixels + 3 * row * photo_width, 3 * photo_width),
                  0);
    run = dsplat("render @scene.ply -o @small.png --cameras @data --view 3 --downscale 2");
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "photo3.png");
    picture small(at("small.png"));
    EXPECT_EQ(small.width, photo_width / 2);
    EXPECT_GT(small.others({0, 0, 0}), 100);
}

TEST_F(Program, TrainingTunesUnlessToldNotTo) {
    write_colmap(at("data"), 20);
    const bool cpu = std::string(gs_backend()) == "simt";
    outcome run = dsplat("train @data -o @scene.ply --iterations 3");
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "tree at threshold 0"); // on a GPU: too early for another
    EXPECT_EQ(run.out.find("tuning ") == std::string::npos, cpu) << run.out;
    run = dsplat("train @data -o @scene.ply --iterations 3 --reduce serial");
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "serial at threshold 0");
    EXPECT_EQ(run.out.find("tuning "), std::string::npos) << run.out;
    run = dsplat("train @data -o @scene.ply --iterations 1 --reduce fixed");
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, ", fixed, seed"); // it has no threshold
    EXPECT_CONTAINS(run.out, "(means over 1 view)");
}

TEST_F(Program, RendersWithoutReadingOtherPhotographs) {
    write_colmap(at("data"), 10);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    fs::resize_file(at("data") / "images/photo2.png", 20);
    auto render = [&](const char *view, bool photo) {
        std::vector<std::string> arguments = {"render",    at("scene.ply"), "-o",     at("view.png"),
                                              "--cameras", at("data"),      "--view", view};
        if (photo) arguments.push_back("--photo");
        return splat(arguments).code;
    };
    EXPECT_EQ(render("2", false), 0);
    EXPECT_EQ(render("photo2.png", true), 1);
    EXPECT_EQ(render("2", true), 1);
    EXPECT_EQ(render("1", true), 0);
    EXPECT_EQ(render("photo1.png", true), 0);
}

TEST_F(Program, TheSeedDecides) {
    write_colmap(at("data"), 20);
    auto trained = [&](const char *seed) {
        outcome run = dsplat("train @data -o @scene.ply --iterations 5 --seed "s + seed);
        EXPECT_EQ(run.code, 0) << run.err;
        auto [first, last] = change(run.out, "loss");
        return first;
    };
    double one = trained("1"); // the mean loss of the first step: that of the first view
    EXPECT_EQ(one, trained("1"));
    bool differs = false;
    for (const char *seed : {"2", "3", "4", "5", "6", "7"}) differs |= trained(seed) != one;
    EXPECT_TRUE(differs);
}

TEST_F(Program, ShowsAnySceneWithoutCameras) {
    write_scene(at("scene.ply"), 1, 100, -50, 1000);
    outcome run = dsplat("render @scene.ply -o @scene.png --width 40 --height 30");
    ASSERT_EQ(run.code, 0) << run.err;
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
        const outcome run = dsplat("render @scene.ply -o @view.png --cameras @data --ortho "s + height);
        EXPECT_EQ(run.code, 0) << run.err;
        return picture(at("view.png")).others({0, 0, 0});
    };
    const int near = shown(3, "4");
    EXPECT_GT(near, 4);
    EXPECT_EQ(shown(9, "4"), near);
    EXPECT_LT(shown(3, "8"), near);
    EXPECT_LT(shown(9, "0"), shown(3, "0")) << "in perspective";
}

TEST_F(Program, AnEmptySceneIsBackground) {
    write_scene(at("empty.ply"), 0, 0, 0, 0);
    outcome run = dsplat("render @empty.ply -o @empty.png --width 33 --height 17 --background 0.2,0.4,1");
    ASSERT_EQ(run.code, 0) << run.err;
    picture shown(at("empty.png"));
    EXPECT_EQ(shown.width, 33);
    EXPECT_EQ(shown.height, 17);
    EXPECT_EQ(shown.others({51, 102, 255}), 0);
}

TEST_F(Program, AViewOfNothingIsBackground) {
    write_colmap(at("data"), 4);
    write_scene(at("behind.ply"), 3, 0, 0, -20); // the cameras look along +z
    write_scene(at("aside.ply"), 3, 500, 0, 5);
    for (const char *scene : {"behind.ply", "aside.ply"}) {
        outcome run = splat({"render", at(scene), "-o", at("view.png"), "--cameras", at("data"),
                             "--background", "1,0.8,0.6"});
        ASSERT_EQ(run.code, 0) << run.err;
        EXPECT_EQ(picture(at("view.png")).others({255, 204, 153}), 0) << scene;
    }
}

TEST_F(Program, ATruncatedSceneIsRefused) {
    write_scene(at("scene.ply"), 3, 0, 0, 0);
    const auto whole = fs::file_size(at("scene.ply"));
    for (uintmax_t size : {uintmax_t(0), uintmax_t(20), whole / 2, whole - 1}) {
        write_scene(at("scene.ply"), 3, 0, 0, 0);
        fs::resize_file(at("scene.ply"), size);
        outcome run = dsplat("render @scene.ply -o @scene.png");
        EXPECT_EQ(run.code, 1);
        EXPECT_CONTAINS(run.err, "dsplat: ");
        EXPECT_CONTAINS(run.err, "scene.ply");
        EXPECT_CONTAINS(run.err, "byte");
        EXPECT_EQ(files_in_folder(), 1u) << "something was left behind"; // the scene alone
    }
}

TEST_F(Program, TruncatedPhotographsAndCamerasAreRefused) {
    const char *const files[] = {"sparse/0/cameras.bin", "sparse/0/images.bin", "sparse/0/points3D.bin",
                                 "images/photo2.png"};
    for (const char *file : files) {
        write_colmap(at("data"), 10);
        fs::path path = at("data") / file;
        const auto whole = fs::file_size(path); // a picture that is cut after its rows is shown
        fs::resize_file(path, path.extension() == ".png" ? whole / 2 : whole - 9);
        outcome run = dsplat("train @data -o @scene.ply --iterations 1");
        EXPECT_EQ(run.code, 1) << file;
        EXPECT_EQ(run.out, "");
        EXPECT_CONTAINS(run.err, "dsplat: ");
        EXPECT_CONTAINS(run.err, file);
        if (path.extension() == ".bin") {
            EXPECT_CONTAINS(run.err, "byte");
        }
        EXPECT_EQ(files_in_folder(), 1u) << "something was left behind"; // the data alone
    }
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
    const std::vector<std::string> once = words("train @data -o @scene.ply --iterations 1");
    outcome run = splat(once);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "start      44 random points: the data has none");
    EXPECT_CONTAINS(run.out, "scene      44 Gaussians");
    std::vector<std::string> more = once;
    more.insert(more.end(), {"--random", "60"});
    run = splat(more);
    EXPECT_CONTAINS(run.out, " for 60 Gaussians, the most there will be, ");
    EXPECT_CONTAINS(run.out, "plan       1 iteration, 1 view per step, ");
    fs::remove(at("data") / "sparse/0/points3D.bin");
    EXPECT_EQ(splat(once).code, 0);
}

TEST_F(Program, UnknownViewsAndNoViewAreRefused) {
    write_colmap(at("data"), 3);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    refuses({{"train @data -o @new.ply --holdout 1", 1, "no view is left"}});
    for (const char *view : {"5", "-1", "photo9.png", "", "0x1"})
        refuses({{"render @scene.ply -o @view.png --cameras @data --view="s + view, 1, "there is no view"}});
}

TEST_F(Program, APlaceThatCannotBeWrittenIsRefusedBeforeTheWork) {
    write_colmap(at("data"), 20);
    fs::create_directory(at("folder"));
    for (fs::path output : {at("no/such/folder/scene.ply"), at("folder")}) {
        auto begin = std::chrono::steady_clock::now();
        outcome run =
            dsplat("train @data -o "s + output.string() + " --iterations 10000000"); // hours, if begun
        EXPECT_EQ(run.code, 1);
        EXPECT_CONTAINS(run.err, output.string());
        EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 60);
        run = dsplat("render @scene.ply -o "s + output.string());
        EXPECT_EQ(run.code, 1);
        EXPECT_CONTAINS(run.err, output.string());
    }
}

} // namespace
