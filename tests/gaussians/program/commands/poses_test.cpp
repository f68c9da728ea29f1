// SPDX-License-Identifier: MIT
// dsplat poses, with a script in place of colmap: what it is called with, what comes of it, and every failure.
#include "program_run.h"
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

namespace {

constexpr char colmap_script[] = R"(#!/bin/sh
PATH=/usr/bin:/bin
cd "$HERE" # so that paths it is given must be absolute or of the caller's folder, which is the same
echo "$@" >> calls
[ "$1 $2" = "feature_extractor -h" ] && { echo "  --${FEATURES:-SiftExtraction}.use_gpu arg"; exit 0; }
command=$1; shift
while [ $# -gt 1 ]; do
    case $1 in --output_path) out=$2;; esac
    shift 2
done
[ "$command" = "$FAIL" ] && { echo 'it begins'; echo "${FAILURE:-ERROR: the disk is gone}"; echo 'bye'; exit 3; }
[ "$command" = "$HANG" ] && { echo $$ > hanging; sleep 100; }
case $command in
    feature_extractor) echo 'Processed file [1/5]';;
    mapper) echo 'Registering image #2 (3)'
            case $MODELS in
                none) echo 'ERROR: failed to create sparse model'; exit 1;;
                bad) mkdir "$out/0"; echo x > "$out/0/cameras.bin";;
                *) mkdir "$out/0" "$out/1"; cp small/* "$out/0"; cp model/sparse/0/* "$out/1";;
            esac;;
esac
exit 0
)";
class Poses : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        fs::create_directories(at("bin"));
        fs::create_directories(at("small"));
        script("colmap", colmap_script);
        write_colmap(at("model"), 5);
        std::ofstream(at("small/cameras.txt")) << "1 PINHOLE 40 28 36 36 20 14\n";
        std::ofstream(at("small/images.txt"))
            << "1 1 0 0 0 0 0 0 1 photo0.png\n\n2 1 0 0 0 1 0 0 1 photo1.png\n\n";
        std::ofstream(at("small/points3D.txt")) << "";
        fs::copy(at("model/images"), at("photos"));
        std::ofstream(at("photos/notes.txt")) << "not a photograph";
        path = getenv("PATH");
        set("PATH", at("bin"));
        set("HERE", folder);
        before = entries();
    }
    void TearDown() override {
        setenv("PATH", path.c_str(), 1);
        for (const std::string &name : set_names) unsetenv(name.c_str());
        Program::TearDown();
    }
    void script(const char *name, const char *text) const {
        std::ofstream(at("bin") / name) << text;
        fs::permissions(at("bin") / name, fs::perms::owner_all);
    }
    void set(const char *name, const std::string &value) {
        if (strcmp(name, "PATH") != 0) set_names.insert(name);
        setenv(name, value.c_str(), 1);
    }
    // The entries of the test's folder, but for what the scripts write.
    std::set<std::string> entries() const {
        std::set<std::string> out;
        for (const auto &entry : fs::directory_iterator(folder)) out.insert(entry.path().filename());
        for (const char *name : {"calls", "hanging"}) out.erase(name);
        return out;
    }
    outcome poses(const std::vector<std::string> &more) {
        fs::remove(at("calls"));
        std::vector<std::string> all = {"poses"};
        all.insert(all.end(), more.begin(), more.end());
        return splat(all);
    }
    void refuses(const std::vector<std::string> &more, const std::string &part, int code = 1) {
        const outcome run = poses(more);
        EXPECT_EQ(run.code, code) << part;
        EXPECT_CONTAINS(run.err, part);
        EXPECT_EQ(entries(), before) << part << ": something was left behind";
    }
    std::string path;
    std::set<std::string> set_names, before;
};

TEST_F(Poses, OfPhotographsAreTrainedOn) {
    fs::rename(at("photos/photo3.png"), at("photos/photo3.PNG"));
    const outcome run = poses({at("photos"), "-o", at("data/")});
    ASSERT_EQ(run.code, 0) << run.err;
    for (const char *part :
         {"5 photographs\n", "features ", "matches ", "poses ", "5 of 5 photographs have a place"})
        EXPECT_CONTAINS(run.out, part);
    const std::string calls = contents(at("calls"));
    for (const char *part :
         {"exhaustive_matcher --database_path ", "--SiftMatching.use_gpu 0", "--SiftExtraction.use_gpu 0",
          "--ImageReader.camera_model OPENCV", "single_camera 0"})
        EXPECT_CONTAINS(calls, part);
    before.insert("data");
    EXPECT_EQ(entries(), before);
    std::set<std::string> inside;
    for (const auto &entry : fs::recursive_directory_iterator(at("data")))
        if (entry.is_regular_file()) inside.insert(fs::relative(entry.path(), at("data")));
    EXPECT_EQ(inside, (std::set<std::string>{"images/photo0.png", "images/photo1.png", "images/photo2.png",
                                             "images/photo3.PNG", "images/photo4.png", "sparse/0/cameras.bin",
                                             "sparse/0/images.bin", "sparse/0/points3D.bin"}));
    fs::rename(at("data/images/photo3.PNG"), at("data/images/photo3.png")); // as the model has it
    EXPECT_EQ(dsplat("train @data -o @scene.ply --iterations 1").code, 0);
    before = entries();
    refuses({at("photos"), "-o", at("data")}, "exists already, with cameras: 'dsplat train ");

    set("FEATURES", "FeatureExtraction"); // of newer versions
    ASSERT_EQ(poses({at("data"), "-o", at("again"), "--in-order", "--one-camera", "--gpu", "--camera-model",
                     "SIMPLE_RADIAL"})
                  .code,
              0);
    const std::string newer = contents(at("calls"));
    for (const char *part :
         {"sequential_matcher ", "--FeatureMatching.use_gpu 1", "--FeatureExtraction.use_gpu 1",
          "camera_model SIMPLE_RADIAL", "single_camera 1"})
        EXPECT_CONTAINS(newer, part);
}

TEST_F(Poses, FailuresLeaveNothing) {
    const std::string photos = at("photos"), data = at("data");
    refuses({at("nowhere"), "-o", data}, "nowhere: cannot open");
    refuses({photos}, "-o is missing", 2);
    refuses({at("photos/notes.txt"), "-o", data},
            "not a folder of photographs; of a video, ffmpeg makes one: mkdir photos; ffmpeg -i " +
                at("photos/notes.txt").string());
    refuses({photos, "-o", data, "--camera-model", "FOV"}, "must be one of SIMPLE_PINHOLE", 2);
    refuses({photos, "-o", at("none/data")}, "cannot make a folder beside it");
    refuses({photos, "-o", photos}, "is not an empty folder: name another one by -o");
    refuses({at("small"), "-o", data}, "holds 0 photographs");
    fs::create_directories(at("telephone"));
    std::ofstream(at("telephone/IMG_1.HEIC")) << "x";
    before = entries();
    refuses({at("telephone"), "-o", data}, "it has 1 of .HEIC, which ImageMagick converts: mogrify");
    for (const char *step : {"feature_extractor", "exhaustive_matcher"}) {
        set("FAIL", step);
        refuses({photos, "-o", data},
                std::string("colmap ") + step + " ended with code 3: ERROR: the disk is gone");
    }
    set("FAIL", "");
    set("MODELS", "none");
    refuses({photos, "-o", data}, "the places of the 5 photographs cannot be found: they show too little");
    set("MODELS", "bad");
    refuses({photos, "-o", data}, "cameras.bin: truncated");
    set("PATH", at("small"));
    refuses({photos, "-o", data}, "colmap is not installed: install COLMAP (Debian");
    refuses({at("model"), "-o", data}, "colmap is not installed");
}

TEST_F(Poses, ASignalEndsThemAndWhatTheyRun) {
    set("HANG", "exhaustive_matcher");
    const pid_t child = fork();
    if (child == 0) {
        dup2(creat(at("calls").c_str(), 0600), STDOUT_FILENO);
        dup2(STDOUT_FILENO, STDERR_FILENO);
        alarm(300);
        execl(DSPLAT_PROGRAM, "dsplat", "poses", at("photos").c_str(), "-o", at("data").c_str(), nullptr);
        _exit(127);
    }
    pid_t hanging = 0;
    while (!(std::ifstream(at("hanging")) >> hanging))
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(child, SIGINT);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT) << status;
    EXPECT_EQ(kill(hanging, 0), -1);
    EXPECT_EQ(entries(), before);
}

// With the real programs, on twelve photographs of the folder DISTWAR_PHOTOGRAPHS or, without it, twelve neighbours of
// a flight through the built-in scene.
class PosesWithColmap : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        if (run("/bin/sh", {"-c", "command -v colmap"}).code != 0) GTEST_SKIP() << "colmap is not installed";
        fs::create_directories(at("photos"));
        const char *const given = getenv("DISTWAR_PHOTOGRAPHS");
        if (!given) {
            ASSERT_EQ(dsplat("generate @knot --views 1 --test-views 1 --size 384").code, 0);
            ASSERT_EQ(
                dsplat("render @knot/scene.ply -o @flight --cameras @knot --path orbit --frames 60").code, 0);
        }
        std::set<fs::path> all;
        for (const auto &entry : fs::directory_iterator(given ? fs::path(given) : at("flight")))
            all.insert(entry.path());
        ASSERT_GE(all.size(), 12u);
        auto next = all.begin();
        for (int i = 0; i < 12; i++, ++next) fs::copy(*next, at("photos") / next->filename());
    }
    // The built-in scene fills too little of a picture to tell the lens.
    static std::vector<std::string> with_lens(std::vector<std::string> arguments) {
        if (!getenv("DISTWAR_PHOTOGRAPHS"))
            arguments.insert(arguments.end(), {"--camera-model", "SIMPLE_PINHOLE"});
        return arguments;
    }
    void expect_trained(const char *data) const {
        const outcome got =
            splat({"train", at(data), "-o", at("scene.ply"), "--iterations", "2", "--downscale", "4"});
        EXPECT_EQ(got.code, 0) << got.err;
        EXPECT_EQ(got.out.find("random points"), std::string::npos);
    }
    static size_t placed(const outcome &got) {
        size_t count = 0;
        const size_t line = got.out.find("written ");
        if (line != std::string::npos)
            sscanf(got.out.c_str() + got.out.find(": ", line), ": %zu of 12 photographs", &count);
        return count;
    }
};

TEST_F(PosesWithColmap, OfPhotographsAreFound) {
    const outcome got = splat(with_lens({"poses", at("photos"), "-o", at("data"), "--one-camera"}));
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_GE(placed(got), 10u) << got.out;
    expect_trained("data");
}

// Pictures of nothing.
TEST_F(PosesWithColmap, OfWhatDoesNotMatchAreRefused) {
    for (const auto &entry : fs::directory_iterator(at("photos"))) {
        image flat;
        fault why;
        ASSERT_TRUE(image_open(&flat, 96, 64, 3, &why));
        EXPECT_TRUE(image_write_png(entry.path().c_str(), &flat, &why));
        image_close(&flat);
    }
    const outcome got = dsplat("poses @photos -o @data");
    EXPECT_EQ(got.code, 1);
    EXPECT_CONTAINS(got.err, "cannot be found: they show too little of the same things");
    EXPECT_FALSE(fs::exists(at("data")));
}

} // namespace
