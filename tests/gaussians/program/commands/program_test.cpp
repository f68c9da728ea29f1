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
    const std::vector<std::vector<std::string>> wrong = {
        {"paint"},
        {"help", "paint"},
        {"train"},
        {"train", "data"}, // no -o
        {"train", "data", "more", "-o", "x.ply"},
        {"train", "data", "-o", "x.ply", "--iterations", "10000001"},
        {"train", "data", "-o", "x.ply", "--iterations", "many"},
        {"train", "data", "-o", "x.ply", "--reduce", "magic"},
        {"train", "data", "-o", "x.ply", "--background", "1,2,3"},
        {"train", "data", "-o", "x.ply", "--background", "0,0"},
        {"train", "data", "-o", "x.ply", "--background", "0,nan,0"},
        {"train", "data", "-o", "x.ply", "--density", "magic"},
        {"train", "data", "-o", "x.ply", "--max-gaussians", "-1"},
        {"train", "data", "-o", "x.ply", "--schedule", "average=1.1"},
        {"train", "data", "-o", "x.ply", "--schedule", "average=nan"},
        {"train", "data", "-o", "x.ply", "--schedule", "dropout=0.95"},
        {"train", "data", "-o", "x.ply", "--schedule", "every=0"},
        {"train", "data", "-o", "x.ply", "--schedule", "from=1,,every=2"},
        {"train", "data", "-o", "x.ply", "--schedule", "from=1,"},
        {"train", "data", "-o", "x.ply", "--schedule", "from"},
        {"train", "data", "-o", "x.ply", "--schedule", "growth=1"},
        {"train", "data", "-o", "x.ply", "--schedule", ""},
        {"train", "data", "-o", "x.ply", "--perturb-poses", "1"},
        {"train", "data", "-o", "x.ply", "--perturb-poses", "1,"},
        {"train", "data", "-o", "x.ply", "--perturb-poses", "nan,0.01"},
        {"train", "data", "-o", "x.ply", "--perturb-poses", "181,0.01"},
        {"train", "data", "-o", "x.ply", "--perturb-poses", "1,-0.01"},
        {"train", "data", "-o", "x.ply", "--perturb-poses", "1,0.01,2"},
        {"train", "data", "-o", "x.ply", "--align-steps", "100001"},
        {"eval", "x.ply", "--cameras", "data", "--align-steps", "-1"},
        {"train", "data", "-o", "x.ply", "--write-cameras", "x.ply"},
        {"train", "data", "-o", "x.ply", "--log", "c.json", "--write-cameras", "./c.json"},
        {"train", "data", "-o", "x.ply", "--log", "x.ply"},
        {"train", "data", "-o", "x.ply", "--log", "x.ply.checkpoint"},
        {"train", "data", "-o", "x.ply", "--resume", "x.ply"},
        {"train", "data", "-o", "x.ply", "--resume", "./x.ply"},
        {"render", "scene.ply"},
        {"render", "scene.ply", "-o", "./scene.ply"},
        {"render", "scene.ply", "-o", "x.png", "--photo"},
        {"render", "scene.ply", "-o", "x.png", "--cameras", "data", "--photo", "--ortho", "3"},
        {"render", "scene.ply", "-o", "x.png", "--width", "99999"},
        {"eval", "scene.ply"}, // no --cameras
        {"eval", "--cameras", "data"},
        {"eval", "scene.ply", "--cameras", "data", "--json", "scene.ply"},
        {"eval", "scene.ply", "--cameras", "data", "--holdout", "-2"},
        {"eval", "scene.ply", "--cameras", "data", "--background", "red"},
        {"info"},
        {"info", "a.ply", "b.ply"},
        {"info", "a.ply", "--json", "a.ply"},
        {"generate", "something", "more"},
        {"generate", "--unknown"},
    };
    for (const auto &arguments : wrong) {
        outcome run = splat(arguments);
        EXPECT_EQ(run.code, 2) << arguments[0] << " ... " << arguments.back();
        EXPECT_EQ(run.out, "");
        EXPECT_CONTAINS(run.err, "dsplat");
    }
    EXPECT_EQ(files_in_folder(), 0u);
}

TEST_F(Program, TrainsFromPhotographsAndRendersThem) {
    write_colmap(at("data"), 50);
    for (int r = 0; r < DISTWAR_STRATEGY_COUNT; r++) {
        if (!gs_has_strategy(distwar_strategy(r))) continue;
        const char *reduction = distwar_strategy_name(distwar_strategy(r));
        outcome run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "40", "--holdout",
                             "5", "--reduce", reduction});
        ASSERT_EQ(run.code, 0) << run.err;
        EXPECT_EQ(run.err, "");
        auto [first, last] = change(run.out, "loss");
        EXPECT_LT(last, 0.95 * first) << reduction << "\n" << run.out;
        EXPECT_CONTAINS(run.out, "4 views to train on, 1 held out");
        EXPECT_CONTAINS(run.out, "50 Gaussians");
        EXPECT_CONTAINS(run.out, "PSNR");
    }
    outcome run = splat({"render", at("scene.ply"), "-o", at("view.png"), "--cameras", at("data"), "--view",
                         "photo3.png", "--photo"});
    ASSERT_EQ(run.code, 0) << run.err;
    picture both(at("view.png"));
    EXPECT_EQ(both.width, 2 * photo_width + 8);
    EXPECT_EQ(both.height, photo_height);
    picture photo(at("data") / "images/photo3.png");
    for (int row = 0; row < photo_height; row++) // the right half is the photograph
        EXPECT_EQ(memcmp(both.pixels + 3 * ((row + 1) * both.width - photo_width),
                         photo.pixels + 3 * row * photo_width, 3 * photo_width),
                  0);
    run = splat({"render", at("scene.ply"), "-o", at("small.png"), "--cameras", at("data"), "--view", "3",
                 "--downscale", "2"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "photo3.png");
    picture small(at("small.png"));
    EXPECT_EQ(small.width, photo_width / 2);
    EXPECT_GT(small.others({0, 0, 0}), 100);
}

TEST_F(Program, TrainingTunesUnlessToldNotTo) {
    write_colmap(at("data"), 20);
    const bool cpu = std::string(gs_backend()) == "simt";
    outcome run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "3"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "tree at threshold 0"); // on a GPU: too early for another
    EXPECT_EQ(run.out.find("tuning ") == std::string::npos, cpu) << run.out;
    run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "3", "--reduce", "serial"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "serial at threshold 0");
    EXPECT_EQ(run.out.find("tuning "), std::string::npos) << run.out;
    run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "1", "--reduce", "fixed"});
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
        outcome run =
            splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "5", "--seed", seed});
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
    outcome run =
        splat({"render", at("scene.ply"), "-o", at("scene.png"), "--width", "40", "--height", "30"});
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
        const outcome run = splat(
            {"render", at("scene.ply"), "-o", at("view.png"), "--cameras", at("data"), "--ortho", height});
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
    outcome run = splat({"render", at("empty.ply"), "-o", at("empty.png"), "--width", "33", "--height", "17",
                         "--background", "0.2,0.4,1"});
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
        outcome run = splat({"render", at("scene.ply"), "-o", at("scene.png")});
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
        outcome run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "1"});
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

TEST_F(Program, MissingInputIsNamed) {
    outcome run = splat({"train", at("nowhere"), "-o", at("scene.ply")});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "nowhere");
    run = splat({"render", at("nowhere.ply"), "-o", at("scene.png")});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "nowhere.ply");
    EXPECT_EQ(files_in_folder(), 0u);
}

// Before any work: nothing is read and nothing is written.
TEST_F(Program, AnUnknownSceneFormatIsRefused) {
    const std::string words = "the suffix must be one of .ply";
    const std::vector<std::vector<std::string>> wrong = {
        {"train", at("nowhere"), "-o", at("scene.obj")},
        {"train", at("nowhere"), "-o", at("scene")},
        {"finish", at("nowhere.ply"), "--cameras", at("nowhere"), "-o", at("scene.splat")},
        {"render", at("scene.obj"), "-o", at("view.png")},
        {"info", at("scene.obj")},
        {"eval", at("scene.obj"), "--cameras", at("nowhere")}};
    for (const auto &arguments : wrong) {
        const outcome run = splat(arguments);
        EXPECT_EQ(run.code, 1) << arguments[0];
        EXPECT_CONTAINS(run.err, words);
    }
    EXPECT_EQ(files_in_folder(), 0u);
}

// The pictures have 40 x 28 pixels, and a Gaussian for 100 of them is the most.
TEST_F(Program, DataWithoutPointsStartFromRandomOnes) {
    write_colmap(at("data"), 0);
    const std::vector<std::string> once = {"train", at("data"), "-o", at("scene.ply"), "--iterations", "1"};
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

TEST_F(Program, NoViewToTrainOnIsSaid) {
    write_colmap(at("data"), 3);
    outcome run = splat({"train", at("data"), "-o", at("scene.ply"), "--holdout", "1"});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "no view is left");
    EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(Program, AnUnknownViewIsRefused) {
    write_colmap(at("data"), 3);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    for (const char *view : {"5", "-1", "photo9.png", "", "0x1"}) {
        outcome run = splat({"render", at("scene.ply"), "-o", at("view.png"), "--cameras", at("data"),
                             std::string("--view=") + view});
        EXPECT_EQ(run.code, 1) << view;
        EXPECT_CONTAINS(run.err, "there is no view");
    }
    EXPECT_FALSE(fs::exists(at("view.png")));
}

TEST_F(Program, APlaceThatCannotBeWrittenIsRefusedBeforeTheWork) {
    write_colmap(at("data"), 20);
    fs::create_directory(at("folder"));
    for (fs::path output : {at("no/such/folder/scene.ply"), at("folder")}) {
        auto begin = std::chrono::steady_clock::now();
        outcome run =
            splat({"train", at("data"), "-o", output, "--iterations", "10000000"}); // hours, if begun
        EXPECT_EQ(run.code, 1);
        EXPECT_CONTAINS(run.err, output.string());
        EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 60);
        run = splat({"render", at("scene.ply"), "-o", output});
        EXPECT_EQ(run.code, 1);
        EXPECT_CONTAINS(run.err, output.string());
    }
}

} // namespace
