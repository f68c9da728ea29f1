// SPDX-License-Identifier: MIT
// dsplat poses, with a script in place of colmap: what it is called with, what comes of it, and every failure.
#include "program_run.h"
#include <set>

namespace {

// Runs in the caller's folder, so that paths it is given must be absolute.
constexpr char colmap_script[] = R"(#!/bin/sh
PATH=/usr/bin:/bin
cd "$HERE"
echo "$@" >> calls
[ "$1 $2" = "feature_extractor -h" ] && { echo "  --${FEATURES:-SiftExtraction}.use_gpu arg"; exit 0; }
command=$1; shift
while [ $# -gt 1 ]; do
    case $1 in --output_path) out=$2;; esac
    shift 2
done
[ "$command" = "$FAIL" ] && { echo 'it begins'; echo 'ERROR: the disk is gone'; echo 'bye'; exit 3; }
[ "$command" = "$HANG" ] && { echo $$ > hanging; sleep 100; }
case $command in
    feature_extractor) echo 'Processed file [1/5]';;
    mapper) echo 'Registering image #2 (3)'
            case $MODELS in
                none) echo 'ERROR: failed to create sparse model'; exit 1;;
                bad) mkdir "$out/0"; echo x > "$out/0/cameras.txt";;
                *) mkdir "$out/0" "$out/1"; cp small/* "$out/0"; cp model/sparse/0/* "$out/1";;
            esac;;
esac
exit 0
)";
class Poses : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        for (const char *name : {"bin", "small"}) fs::create_directories(at(name));
        std::ofstream(at("bin/colmap")) << colmap_script;
        fs::permissions(at("bin/colmap"), fs::perms::owner_all);
        write_colmap(at("model"), 5);
        std::ofstream(at("small/cameras.txt")) << "1 PINHOLE 40 28 36 36 20 14\n";
        std::ofstream(at("small/images.txt"))
            << "1 1 0 0 0 0 0 0 1 photo0.png\n\n2 1 0 0 0 1 0 0 1 photo1.png\n\n";
        std::ofstream(at("small/points3D.txt")) << "";
        fs::copy(at("model/images"), at("photos"));
        std::ofstream(at("photos/notes.txt")) << "not a photograph";
        path = getenv("PATH");
        setenv("PATH", at("bin").c_str(), 1);
        setenv("HERE", folder.c_str(), 1);
    }
    void TearDown() override {
        setenv("PATH", path.c_str(), 1);
        for (const char *name : {"HERE", "FEATURES", "FAIL", "HANG", "MODELS"}) unsetenv(name);
        Program::TearDown();
    }
    // The files of a folder and of those in it, but for what the script writes.
    std::set<std::string> files(const fs::path &of) const {
        std::set<std::string> out;
        for (const auto &entry : fs::recursive_directory_iterator(of))
            out.insert(fs::relative(entry.path(), of));
        for (const char *name : {"calls", "hanging"}) out.erase(name);
        return out;
    }
    // What colmap is called with.
    std::string calls(const std::string &line) const {
        fs::remove(at("calls"));
        done("poses " + line);
        return contents(at("calls"));
    }
    void expect_refused(const std::string &more, const std::string &part, int code = 1) const {
        const std::set<std::string> before = files(folder);
        const outcome run = dsplat("poses " + more);
        EXPECT_EQ(run.code, code) << part;
        EXPECT_CONTAINS(run.err, part);
        EXPECT_EQ(files(folder), before) << part << ": something was left behind";
    }
    std::string path;
};

TEST_F(Poses, OfPhotographsAreTrainedOn) {
    fs::rename(at("photos/photo3.png"), at("photos/photo3.PNG"));
    const size_t before = files_in_folder();
    says({{"poses @photos -o @data/",
           0,
           {"5 photographs\n", "features ", "matches ", "poses ", "5 of 5 photographs have a place"}}});
    EXPECT_EQ(files_in_folder(), before + 2) << "data and calls";
    EXPECT_EQ(
        files(at("data")),
        (std::set<std::string>{"images", "images/photo0.png", "images/photo1.png", "images/photo2.png",
                               "images/photo3.PNG", "images/photo4.png", "sparse", "sparse/0",
                               "sparse/0/cameras.txt", "sparse/0/images.txt", "sparse/0/points3D.txt"}));
    fs::rename(at("data/images/photo3.PNG"), at("data/images/photo3.png")); // as the model has it
    done("train @data -o @scene.ply --iterations 1");
    expect_refused("@photos -o @data", "exists already, with cameras: 'dsplat train ");
    const std::string older = calls("@photos -o @older");
    for (const char *part : {"exhaustive_matcher --database_path ", "--ExhaustiveMatching.block_size 2",
                             "--SiftMatching.use_gpu 0", "--SiftExtraction.use_gpu 0",
                             "--ImageReader.camera_model OPENCV", "single_camera 0"})
        EXPECT_CONTAINS(older, part);
    setenv("FEATURES", "FeatureExtraction", 1); // of newer versions
    const std::string newer =
        calls("@data -o @newer --in-order --one-camera --gpu --camera-model SIMPLE_RADIAL");
    for (const char *part :
         {"sequential_matcher ", "--FeatureMatching.use_gpu 1", "--FeatureExtraction.use_gpu 1",
          "camera_model SIMPLE_RADIAL", "single_camera 1"})
        EXPECT_CONTAINS(newer, part);
}

TEST_F(Poses, FailuresLeaveNothing) {
    fs::create_directories(at("telephone"));
    std::ofstream(at("telephone/IMG_1.HEIC")) << "x";
    const std::string to = " -o @data", video = at("photos/notes.txt");
    const std::tuple<std::string, std::string, int> rows[] = {
        {"@nowhere" + to, "nowhere: cannot open", 1},
        {"@photos", "-o is missing", 2},
        {video + to,
         "not a folder of photographs; of a video, ffmpeg makes one: mkdir photos; ffmpeg -i " + video, 1},
        {"@photos --camera-model FOV" + to, "must be one of SIMPLE_PINHOLE", 2},
        {"@photos -o @none/data", "cannot make a folder beside it", 1},
        {"@photos -o @photos", "is not an empty folder: name another one by -o", 1},
        {"@small" + to, "holds 0 photographs", 1},
        {"@telephone" + to, "it has 1 of .HEIC, which ImageMagick converts: mogrify", 1}};
    for (const auto &[line, part, code] : rows) expect_refused(line, part, code);
    const std::tuple<const char *, const char *, const char *> fails[] = {
        {"FAIL", "feature_extractor", "colmap feature_extractor ended with code 3: ERROR: the disk is gone"},
        {"FAIL", "exhaustive_matcher",
         "colmap exhaustive_matcher ended with code 3: ERROR: the disk is gone"},
        {"MODELS", "none", "the places of the 5 photographs cannot be found: they show too little"},
        {"MODELS", "bad", "cameras.txt: at line 1"}};
    for (const auto &[name, value, part] : fails) {
        setenv(name, value, 1);
        expect_refused("@photos" + to, part);
        unsetenv(name);
    }
    std::ofstream(at("bin/colmap")) << "#!/bin/sh\necho error while loading shared libraries\nexit 127\n";
    expect_refused("@photos" + to, "ended with code 127: error while loading shared libraries");
    fs::permissions(at("bin/colmap"), fs::perms::owner_read);
    expect_refused("@photos" + to,
                   "colmap feature_extractor ended with code 126: cannot start: Permission denied");
    setenv("PATH", at("small").c_str(), 1);
    expect_refused("@photos" + to, "colmap is not installed: install COLMAP (Debian");
    expect_refused("@model" + to, "colmap is not installed");
}

TEST_F(Poses, ASignalEndsThemAndWhatTheyRun) {
    setenv("HANG", "exhaustive_matcher", 1);
    const std::set<std::string> before = files(folder);
    const pid_t child = background("poses @photos -o @data");
    pid_t hanging = 0;
    for (int n = 0; n < 3000 && !(std::ifstream(at("hanging")) >> hanging); n++) usleep(10000);
    ASSERT_GT(hanging, 0);
    kill(child, SIGINT);
    EXPECT_EQ(ended(child, at("out"), at("err")).code, 128 + SIGINT);
    EXPECT_EQ(kill(hanging, 0), -1);
    for (const char *name : {"out", "err"}) fs::remove(at(name));
    EXPECT_EQ(files(folder), before);
}

// With the real program, on twelve neighbours of a flight through the built-in scene. Of photographs: CommandsWithMore.
class PosesWithColmap : public Program {};

TEST_F(PosesWithColmap, AreFoundOrRefused) {
    if (run("/bin/sh", {"-c", "command -v colmap"}).code != 0) GTEST_SKIP() << "colmap is not installed";
    fs::create_directories(at("photos"));
    done("generate @knot --views 1 --test-views 1 --size 384");
    done("render @knot/scene.ply -o @flight --cameras @knot --path orbit --frames 60");
    for (int i = 10; i < 22; i++) {
        const std::string name = "frame_000" + std::to_string(i) + ".png";
        fs::copy(at("flight") / name, at("photos") / name);
    }
    // It fills too little of a picture to tell the lens.
    const outcome got = done("poses @photos -o @data --one-camera --camera-model SIMPLE_PINHOLE");
    EXPECT_GE(number_after(got.out, "written    " + at("data").string() + ": "), 10) << got.out;
    EXPECT_CONTAINS(got.out, " of 12 photographs");
    says({{"train @data -o @scene.ply --iterations 2 --downscale 4", 0, {"!random points"}}});
    // Pictures of nothing.
    for (const auto &entry : fs::directory_iterator(at("photos"))) picture(96, 64, 0).write(entry.path());
    says({{"poses @photos -o @none", 1, {"cannot be found: they show too little of the same things"}}});
    EXPECT_FALSE(fs::exists(at("none")));
}

} // namespace
