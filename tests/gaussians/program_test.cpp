// SPDX-License-Identifier: MIT
// The built program `splat`, run as a user runs it. SPLAT_PROGRAM is its path.
#include "image.h"
#include "ply.h"
#include <gtest/gtest.h>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace {

struct outcome {
    int code; // of the exit; -1 after a signal
    std::string out, err;
};

std::string contents(const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

class program : public testing::Test {
  protected:
    fs::path folder; // of this test alone

    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "splat_test_XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder = pattern;
    }
    void TearDown() override {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
    }

    fs::path at(const char *name) const { return folder / name; }

    outcome splat(std::vector<std::string> arguments) const {
        fs::path out = at("stdout"), err = at("stderr");
        arguments.insert(arguments.begin(), SPLAT_PROGRAM);
        std::vector<char *> argv;
        for (std::string &argument : arguments) argv.push_back(argument.data());
        argv.push_back(nullptr);
        pid_t child = fork();
        if (child == 0) {
            dup2(creat(out.c_str(), 0600), STDOUT_FILENO);
            dup2(creat(err.c_str(), 0600), STDERR_FILENO);
            alarm(300); // what hangs shall fail
            execv(SPLAT_PROGRAM, argv.data());
            _exit(127);
        }
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        outcome result = {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
        fs::remove(out);
        fs::remove(err);
        return result;
    }

    size_t files_in_folder() const {
        return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
    }
};

#define EXPECT_CONTAINS(text, part)                                                                          \
    EXPECT_NE((text).find(part), std::string::npos) << "no '" << (part) << "' in:\n" << (text)

// The two numbers in a line "label ... A -> B ..."
std::array<double, 2> change(const std::string &text, const std::string &label) {
    std::array<double, 2> values = {NAN, NAN};
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        size_t at = line.find(label), arrow = line.find("->");
        if (at == std::string::npos || arrow == std::string::npos || arrow < at) continue;
        values = {std::strtod(line.c_str() + at + label.size(), nullptr),
                  std::strtod(line.c_str() + arrow + 2, nullptr)};
    }
    return values;
}

// The first value in the strategy's row of the demo's table.
double table_value(const std::string &text, const std::string &strategy, const std::string &threshold) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string first, second;
        double value;
        if (words >> first >> second >> value && first == strategy && second == threshold) return value;
    }
    return NAN;
}

class bytes {
    std::ofstream file;

  public:
    explicit bytes(const fs::path &path) : file(path, std::ios::binary) {}
    template <typename T>
    bytes &operator<<(T value) {
        file.write(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }
    void text(const std::string &name) { file.write(name.c_str(), std::streamsize(name.size() + 1)); }
};

// A COLMAP folder: coloured points in a slab in front of five cameras in a row, photographed as discs.
constexpr int photo_width = 40, photo_height = 28, photos = 5;

void write_colmap(const fs::path &folder, int points) {
    const double focal = 36;
    struct disc {
        double position[3];
        uint8_t color[3];
    };
    std::vector<disc> discs(static_cast<size_t>(points));
    std::mt19937 random(3);
    auto unit = [&] { return double(random()) / 4294967296.0; };
    for (disc &d : discs) {
        d = {{2.4 * unit() - 1.2, 1.6 * unit() - 0.8, 3 + 0.6 * unit()}, {}};
        for (uint8_t &channel : d.color) channel = uint8_t(60 + 190 * unit());
    }
    fs::create_directories(folder / "images");
    fs::create_directories(folder / "sparse/0");
    bytes(folder / "sparse/0/cameras.bin")
        << uint64_t(1) << uint32_t(1) << int32_t(1) << uint64_t(photo_width) << uint64_t(photo_height)
        << focal << focal << photo_width / 2.0 << photo_height / 2.0;
    bytes views(folder / "sparse/0/images.bin");
    views << uint64_t(photos);
    for (int v = 0; v < photos; v++) {
        double shift = 0.15 * (v - 2); // of the world in the camera
        std::string name = "photo" + std::to_string(v) + ".png";
        views << uint32_t(v + 1) << 1.0 << 0.0 << 0.0 << 0.0 << shift << 0.0 << 0.0 << uint32_t(1);
        views.text(name);
        views << uint64_t(0);
        image picture;
        fault why;
        ASSERT_TRUE(image_allocate(&picture, photo_width, photo_height, 3, &why)) << why.text;
        for (const disc &d : discs) {
            double x = focal * (d.position[0] + shift) / d.position[2] + photo_width / 2.0;
            double y = focal * d.position[1] / d.position[2] + photo_height / 2.0;
            for (int j = 0; j < photo_height; j++)
                for (int i = 0; i < photo_width; i++)
                    if (std::hypot(i + 0.5 - x, j + 0.5 - y) < 2.5)
                        memcpy(picture.pixels + 3 * (j * photo_width + i), d.color, 3);
        }
        ASSERT_TRUE(image_write_png((folder / "images" / name).c_str(), &picture, &why)) << why.text;
        image_free(&picture);
    }
    bytes model(folder / "sparse/0/points3D.bin");
    model << uint64_t(points);
    for (size_t i = 0; i < discs.size(); i++) {
        model << uint64_t(i + 1) << discs[i].position[0] << discs[i].position[1] << discs[i].position[2];
        model << discs[i].color[0] << discs[i].color[1] << discs[i].color[2] << 0.5 << uint64_t(0);
    }
}

// A scene of `count` Gaussians at one place.
void write_scene(const fs::path &path, int count, float x, float y, float z) {
    gs_gaussians scene;
    fault why;
    ASSERT_TRUE(gaussians_allocate(&scene, count, 0, &why)) << why.text;
    for (int i = 0; i < count; i++) {
        const float position[3] = {x, y, z};
        for (int axis = 0; axis < 3; axis++) {
            scene.mean[3 * i + axis] = position[axis];
            scene.log_scale[3 * i + axis] = -2;
            scene.sh[3 * i + axis] = axis == 0 ? 1.7f : -1.7f; // red
        }
        scene.quaternion[4 * i] = 1;
        scene.opacity_logit[i] = 3;
    }
    ASSERT_TRUE(ply_write(path.c_str(), &scene, &why)) << why.text;
    gaussians_free(&scene);
}

struct picture : image {
    explicit picture(const fs::path &path) : image{} {
        fault why;
        EXPECT_TRUE(image_read(path.c_str(), this, &why)) << why.text;
    }
    ~picture() { image_free(this); }
    picture(const picture &) = delete;
    // Pixels that are not of this colour.
    int others(std::array<int, 3> color) const {
        int count = 0;
        for (int p = 0; p < width * height; p++)
            count += !(pixels[channels * p] == color[0] && pixels[channels * p + 1] == color[1] &&
                       pixels[channels * p + 2] == color[2]);
        return count;
    }
};

TEST_F(program, without_a_command_explains_itself) {
    outcome run = splat({});
    EXPECT_EQ(run.code, 2);
    EXPECT_EQ(run.out, "");
    for (const char *command : {"train", "render", "demo"}) EXPECT_CONTAINS(run.err, command);
}

TEST_F(program, helps) {
    outcome run = splat({"--help"});
    EXPECT_EQ(run.code, 0);
    EXPECT_EQ(run.err, "");
    EXPECT_CONTAINS(run.out, "splat train");
    for (const char *command : {"train", "render", "demo"}) {
        run = splat({command, "--help"});
        EXPECT_EQ(run.code, 0);
        EXPECT_EQ(run.err, "");
        EXPECT_CONTAINS(run.out, std::string("usage: splat ") + command);
        EXPECT_CONTAINS(run.out, "xamples");
        EXPECT_CONTAINS(run.out, "--output");
    }
}

TEST_F(program, names_its_version) {
    outcome run = splat({"--version"});
    EXPECT_EQ(run.code, 0);
    EXPECT_EQ(run.out, std::string("splat ") + gs_version() + " (" + gs_backend() + ")\n");
}

TEST_F(program, refuses_a_wrong_command_line) {
    const std::vector<std::vector<std::string>> wrong = {
        {"paint"},
        {"train"},
        {"train", "data"}, // no -o
        {"train", "data", "more", "-o", "x.ply"},
        {"train", "data", "-o", "x.ply", "--iterations", "0"},
        {"train", "data", "-o", "x.ply", "--iterations", "many"},
        {"train", "data", "-o", "x.ply", "--threshold", "34"},
        {"train", "data", "-o", "x.ply", "--reduce", "magic"},
        {"train", "data", "-o", "x.ply", "--background", "1,2,3"},
        {"train", "data", "-o", "x.ply", "--background", "0,0"},
        {"train", "data", "-o", "x.ply", "--background", "0,nan,0"},
        {"render", "scene.ply"},
        {"render", "scene.ply", "-o", "x.png", "--photo"},
        {"render", "scene.ply", "-o", "x.png", "--width", "99999"},
        {"demo", "something"},
        {"demo", "--unknown"},
    };
    for (const auto &arguments : wrong) {
        outcome run = splat(arguments);
        EXPECT_EQ(run.code, 2) << arguments[0] << " ... " << arguments.back();
        EXPECT_EQ(run.out, "");
        EXPECT_CONTAINS(run.err, "splat");
    }
    EXPECT_EQ(files_in_folder(), 0u);
}

TEST_F(program, demo_learns_and_compares_the_strategies) {
    outcome run = splat({"demo", "-o", at("demo"), "--iterations", "24", "--width", "48"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.err, ""); // no progress where there is no terminal
    auto [before, after] = change(run.out, "PSNR");
    EXPECT_GT(after, before + 1) << run.out;
    auto [first, last] = change(run.out, "loss");
    EXPECT_LT(last, first) << run.out;
    const double atomic = table_value(run.out, "atomic", "-");
    for (const char *strategy : {"serial", "bfly"})
        for (const char *threshold : {"0", "16"}) {
            const double value = table_value(run.out, strategy, threshold); // adds, or on a GPU milliseconds
            EXPECT_GT(value, 0) << run.out;
            if (std::string(gs_backend()) == "simt") {
                EXPECT_LT(value, atomic / 2) << run.out;
            }
        }
    EXPECT_GT(atomic, 0) << run.out;
    picture row(at("demo") / "demo.png");
    EXPECT_EQ(row.width, 3 * 48 + 2 * 4);
    EXPECT_EQ(row.height, 36);
    gs_gaussians scene;
    fault why;
    ASSERT_TRUE(ply_read((at("demo") / "demo.ply").c_str(), &scene, &why)) << why.text;
    EXPECT_GT(scene.count, 200);
    gaussians_free(&scene);
}

TEST_F(program, trains_from_photographs_and_renders_them) {
    write_colmap(at("data"), 50);
    for (const char *reduction : {"atomic", "serial", "bfly"}) {
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

TEST_F(program, the_seed_decides) {
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

TEST_F(program, shows_any_scene_without_cameras) {
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

TEST_F(program, an_empty_scene_is_background) {
    write_scene(at("empty.ply"), 0, 0, 0, 0);
    outcome run = splat({"render", at("empty.ply"), "-o", at("empty.png"), "--width", "33", "--height", "17",
                         "--background", "0.2,0.4,1"});
    ASSERT_EQ(run.code, 0) << run.err;
    picture shown(at("empty.png"));
    EXPECT_EQ(shown.width, 33);
    EXPECT_EQ(shown.height, 17);
    EXPECT_EQ(shown.others({51, 102, 255}), 0);
}

TEST_F(program, a_view_of_nothing_is_background) {
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

TEST_F(program, a_truncated_scene_is_refused) {
    write_scene(at("scene.ply"), 3, 0, 0, 0);
    const auto whole = fs::file_size(at("scene.ply"));
    for (uintmax_t size : {uintmax_t(0), uintmax_t(20), whole / 2, whole - 1}) {
        write_scene(at("scene.ply"), 3, 0, 0, 0);
        fs::resize_file(at("scene.ply"), size);
        outcome run = splat({"render", at("scene.ply"), "-o", at("scene.png")});
        EXPECT_EQ(run.code, 1);
        EXPECT_CONTAINS(run.err, "splat: ");
        EXPECT_CONTAINS(run.err, "scene.ply");
        EXPECT_CONTAINS(run.err, "byte");
        EXPECT_EQ(files_in_folder(), 1u) << "something was left behind"; // the scene alone
    }
}

TEST_F(program, truncated_photographs_and_cameras_are_refused) {
    const char *const files[] = {"sparse/0/cameras.bin", "sparse/0/images.bin", "sparse/0/points3D.bin",
                                 "images/photo2.png"};
    for (const char *file : files) {
        write_colmap(at("data"), 10);
        fs::path path = at("data") / file;
        fs::resize_file(path, fs::file_size(path) - 9);
        outcome run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "1"});
        EXPECT_EQ(run.code, 1) << file;
        EXPECT_EQ(run.out, "");
        EXPECT_CONTAINS(run.err, "splat: ");
        EXPECT_CONTAINS(run.err, file);
        if (path.extension() == ".bin") {
            EXPECT_CONTAINS(run.err, "byte");
        }
        EXPECT_EQ(files_in_folder(), 1u) << "something was left behind"; // the data alone
    }
}

TEST_F(program, missing_input_is_named) {
    outcome run = splat({"train", at("nowhere"), "-o", at("scene.ply")});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "nowhere");
    run = splat({"render", at("nowhere.ply"), "-o", at("scene.png")});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "nowhere.ply");
    EXPECT_EQ(files_in_folder(), 0u);
}

TEST_F(program, nothing_to_start_from_is_said) {
    write_colmap(at("data"), 0);
    outcome run = splat({"train", at("data"), "-o", at("scene.ply")});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "--random");
    write_colmap(at("data"), 3);
    run = splat({"train", at("data"), "-o", at("scene.ply"), "--holdout", "1"});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "no view is left");
    EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(program, an_unknown_view_is_refused) {
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

TEST_F(program, a_place_that_cannot_be_written_is_refused_before_the_work) {
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
    std::ofstream(at("file")) << "not a folder";
    outcome run = splat({"demo", "-o", at("file")});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, at("file").string());
    EXPECT_EQ(contents(at("file")), "not a folder");
}

} // namespace
