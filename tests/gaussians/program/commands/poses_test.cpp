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
    outcome poses(const std::string &more) {
        fs::remove(at("calls"));
        return dsplat("poses " + more);
    }
    // Without a file, which the scripts may write.
    void expect_refused(const std::string &more, const std::string &part, int code = 1) {
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
    const outcome run = poses("@photos -o @data/");
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
    done("train @data -o @scene.ply --iterations 1");
    before = entries();
    expect_refused("@photos -o @data", "exists already, with cameras: 'dsplat train ");

    set("FEATURES", "FeatureExtraction"); // of newer versions
    ASSERT_EQ(poses("@data -o @again --in-order --one-camera --gpu --camera-model SIMPLE_RADIAL").code, 0);
    const std::string newer = contents(at("calls"));
    for (const char *part :
         {"sequential_matcher ", "--FeatureMatching.use_gpu 1", "--FeatureExtraction.use_gpu 1",
          "camera_model SIMPLE_RADIAL", "single_camera 1"})
        EXPECT_CONTAINS(newer, part);
}

TEST_F(Poses, FailuresLeaveNothing) {
    fs::create_directories(at("telephone"));
    std::ofstream(at("telephone/IMG_1.HEIC")) << "x";
    before = entries();
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
    for (const std::string step : {"feature_extractor", "exhaustive_matcher"}) {
        set("FAIL", step);
        expect_refused("@photos" + to, "colmap " + step + " ended with code 3: ERROR: the disk is gone");
    }
    set("FAIL", "");
    set("MODELS", "none");
    expect_refused("@photos" + to, "the places of the 5 photographs cannot be found: they show too little");
    set("MODELS", "bad");
    expect_refused("@photos" + to, "cameras.bin: truncated");
    std::ofstream(at("bin/colmap")) << "#!/bin/sh\necho error while loading shared libraries\nexit 127\n";
    expect_refused("@photos" + to, "ended with code 127: error while loading shared libraries");
    fs::permissions(at("bin/colmap"), fs::perms::owner_read);
    expect_refused("@photos" + to,
                   "colmap feature_extractor ended with code 126: cannot start: Permission denied");
    set("PATH", at("small"));
    expect_refused("@photos" + to, "colmap is not installed: install COLMAP (Debian");
    expect_refused("@model" + to, "colmap is not installed");
}

TEST_F(Poses, ASignalEndsThemAndWhatTheyRun) {
    set("HANG", "exhaustive_matcher");
    const pid_t child = background("poses @photos -o @data");
    pid_t hanging = 0;
    while (!(std::ifstream(at("hanging")) >> hanging))
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(child, SIGINT);
    EXPECT_EQ(ended(child, at("out"), at("err")).code, 128 + SIGINT);
    EXPECT_EQ(kill(hanging, 0), -1);
    for (const char *name : {"out", "err"}) fs::remove(at(name));
    EXPECT_EQ(entries(), before);
}

// With the real programs, on twelve photographs of the folder DISTWAR_PHOTOGRAPHS or, without it, twelve neighbours of
// a flight through the built-in scene.
class PosesWithColmap : public Program {};

TEST_F(PosesWithColmap, AreFoundOrRefused) {
    if (run("/bin/sh", {"-c", "command -v colmap"}).code != 0) GTEST_SKIP() << "colmap is not installed";
    fs::create_directories(at("photos"));
    const char *const given = getenv("DISTWAR_PHOTOGRAPHS");
    if (!given) {
        done("generate @knot --views 1 --test-views 1 --size 384");
        done("render @knot/scene.ply -o @flight --cameras @knot --path orbit --frames 60");
    }
    std::set<fs::path> all;
    for (const auto &entry : fs::directory_iterator(given ? fs::path(given) : at("flight")))
        all.insert(entry.path());
    ASSERT_GE(all.size(), 12u);
    auto next = all.begin();
    for (int i = 0; i < 12; i++, ++next) fs::copy(*next, at("photos") / next->filename());
    // The built-in scene fills too little of a picture to tell the lens.
    const outcome got =
        done("poses @photos -o @data --one-camera"s + (given ? "" : " --camera-model SIMPLE_PINHOLE"));
    size_t placed = 0;
    const size_t line = got.out.find("written ");
    ASSERT_NE(line, std::string::npos) << got.out;
    sscanf(got.out.c_str() + got.out.find(": ", line), ": %zu of 12 photographs", &placed);
    EXPECT_GE(placed, 10u) << got.out;
    const outcome trained = done("train @data -o @scene.ply --iterations 2 --downscale 4");
    EXPECT_EQ(trained.out.find("random points"), std::string::npos);
    // Pictures of nothing.
    for (const auto &entry : fs::directory_iterator(at("photos"))) picture(96, 64, 0).write(entry.path());
    says({{"poses @photos -o @none", 1, {"cannot be found: they show too little of the same things"}}});
    EXPECT_FALSE(fs::exists(at("none")));
}

} // namespace
