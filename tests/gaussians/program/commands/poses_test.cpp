// SPDX-License-Identifier: MIT
// dsplat poses, with scripts in place of colmap, ffmpeg and ffprobe: what they are called with, what comes of it, and
// every failure.
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
    case $1 in --output_path) out=$2;; --image_path) images=$2;; --input_path) in=$2;; --image_list_path) cp "$2" names;; esac
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
    point_triangulator) cp -r "$in" known; cp model/sparse/0/points3D.bin "$out";;
esac
exit 0
)";
constexpr char ffprobe_script[] = "#!/bin/sh\nprintf 'avg_frame_rate=10/1\\nduration=%s\\n' $SECONDS_LONG\n";
constexpr char ffmpeg_script[] = R"(#!/bin/sh
PATH=/usr/bin:/bin
echo "$@" >> "$HERE/calls"
for last; do :; done
[ -z "$NO_FRAMES" ] || exit 0
for i in 1 2 3 4 5 6; do
    case $i in 2|3|6) from=photo0.png;; *) from=gray.png;; esac
    cp "$HERE/frames/$from" "$(dirname "$last")/00000$i.jpg"
done
)";

class Poses : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        fs::create_directories(at("bin"));
        fs::create_directories(at("small"));
        script("colmap", colmap_script);
        script("ffmpeg", ffmpeg_script);
        script("ffprobe", ffprobe_script);
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
        for (const char *name : {"calls", "names", "known", "hanging"}) out.erase(name);
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
    // A video of which three frames of six are sharp.
    void make_video() {
        fs::copy(at("model/images"), at("frames"));
        image gray;
        fault why;
        ASSERT_TRUE(image_open(&gray, photo_width, photo_height, 3, &why));
        EXPECT_TRUE(image_write_png(at("frames/gray.png").c_str(), &gray, &why));
        image_close(&gray);
        std::ofstream(at("video.mp4")) << "x";
        set("SECONDS_LONG", "3.0");
        before = entries();
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
    EXPECT_EQ(splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "1"}).code, 0);
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
    refuses({photos, "-o", data, "--points"}, "--points excludes -o", 2);
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

TEST_F(Poses, OfAVideoAreThoseOfItsSharpestFrames) {
    make_video();
    const outcome run = poses({at("video.mp4"), "-o", at("data"), "--frames", "3"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "the sharpest 3 of 6, from 3.0 s of video");
    const std::string calls = contents(at("calls")), sharp = contents(at("frames/photo0.png"));
    for (const char *part : {"-vf fps=5.000000 ", "sequential_matcher", "single_camera 1"})
        EXPECT_CONTAINS(calls, part);
    for (const char *name : {"1", "2", "3"})
        EXPECT_TRUE(contents(at("data/images") / (std::string("frame_0000") + name + ".jpg")) == sharp)
            << name;
    fs::remove_all(at("data"));

    set("NO_FRAMES", "1");
    refuses({at("video.mp4"), "-o", at("data")}, "ffmpeg has found no frames");
    set("SECONDS_LONG", "N/A");
    refuses({at("video.mp4"), "-o", at("data")}, "not a video of known length");
    fs::remove(at("bin/ffprobe"));
    refuses({at("video.mp4"), "-o", at("data")}, "ffprobe is not installed: install ffmpeg");
}

TEST_F(Poses, PointsAreAddedToDataWithCameras) {
    fs::create_directories(at("data"));
    fs::copy(at("model/images"), at("data/images"));
    std::ofstream(at("data/transforms.json"))
        << "{\"fl_x\":36,\"w\":40,\"h\":28,\"k1\":0.01,\"frames\":[{\"file_path\":\"images/photo1.png\","
           "\"transform_matrix\":[[1,0,0,2],[0,1,0,0],[0,0,1,0],[0,0,0,1]]},{\"file_path\":\"images/photo0.png\","
           "\"transform_matrix\":[[0,0,1,0],[0,1,0,0],[-1,0,0,3],[0,0,0,1]]},{\"file_path\":\"images/photo2.png\","
           "\"transform_matrix\":[[0.5,0.8660254,0,0],[0.8660254,-0.5,0,0],[0,0,-1,0],[0,0,0,1]]}]}";
    outcome run = poses({at("data"), "--points"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "points3D.bin: 5 points");
    EXPECT_CONTAINS(contents(at("calls")), "--SiftExtraction.num_threads 1"); // so numbers are in this order:
    EXPECT_EQ(contents(at("names")), "images/photo0.png\nimages/photo1.png\nimages/photo2.png\n");
    EXPECT_CONTAINS(contents(at("known/cameras.txt")), "1 OPENCV 40 28 36 36 20 14 0.01");
    // Half a turn about x, as y is down and z forward; the first after a quarter about y; the third upside down, and
    // then by a sixth about z.
    std::ifstream images(at("known/images.txt"));
    const double expected[3][8] = {{1, 0, std::sqrt(0.5), 0, -std::sqrt(0.5), 3, 0, 0},
                                   {2, 0, 1, 0, 0, -2, 0, 0},
                                   {3, std::sqrt(0.75), 0, 0, -0.5, 0, 0, 0}};
    for (const auto &row : expected) {
        double got[8];
        std::string camera, name;
        for (double &value : got) images >> value;
        images >> camera >> name;
        const double sign = got[1] + got[2] < 0 ? -1 : 1; // of the quaternion
        for (int k = 0; k < 8; k++) EXPECT_NEAR(k > 0 && k < 5 ? sign * got[k] : got[k], row[k], 1e-6) << k;
    }
    run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "1", "--holdout", "0"});
    EXPECT_CONTAINS(run.out, "scene      5 Gaussians");
    fs::remove(at("scene.ply"));
    before = entries();
    refuses({at("data"), "--points"}, "has 5 points already");
    fs::remove(at("data/points3D.bin"));
    set("FAIL", "point_triangulator");
    refuses({at("data"), "--points"}, "ended with code 3");
    EXPECT_FALSE(fs::exists(at("data/points3D.bin")));
    set("FAIL", "");
    set("FAIL", "point_triangulator"); // where it finds none, COLMAP fails
    set("FAILURE", "F sfm.cc:473] Check failed: bundle_adjuster.Solve(&reconstruction)");
    refuses({at("data"), "--points"}, "no point is seen by two of the 3 photographs");
    set("FAIL", "");
    write_colmap(at("model"), 0);
    refuses({at("data"), "--points"}, "no point is seen by two of the 3 photographs");
}

// With the real programs, on twelve photographs of the folder DISTWAR_PHOTOGRAPHS or, without it, twelve neighbours of
// a flight through the built-in scene.
class PosesWithColmap : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        if (run("/bin/sh", {"-c", "command -v colmap && command -v ffmpeg && command -v ffprobe"}).code != 0)
            GTEST_SKIP() << "colmap, ffmpeg or ffprobe is not installed";
        fs::create_directories(at("photos"));
        const char *const given = getenv("DISTWAR_PHOTOGRAPHS");
        if (!given) {
            ASSERT_EQ(
                splat({"generate", at("knot"), "--views", "1", "--test-views", "1", "--size", "384"}).code,
                0);
            ASSERT_EQ(splat({"render", at("knot/scene.ply"), "-o", at("flight"), "--cameras", at("knot"),
                             "--path", "orbit", "--frames", "60"})
                          .code,
                      0);
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

TEST_F(PosesWithColmap, OfPhotographsAreFoundAndTheirPointsAgain) {
    const outcome got = splat(with_lens({"poses", at("photos"), "-o", at("data"), "--one-camera"}));
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_GE(placed(got), 10u) << got.out;
    expect_trained("data");
    const auto bytes_of_points = fs::file_size(at("data/sparse/0/points3D.bin"));
    fs::remove(at("data/sparse/0/points3D.bin"));
    const outcome points = splat({"poses", at("data"), "--points"});
    ASSERT_EQ(points.code, 0) << points.err;
    EXPECT_GT(fs::file_size(at("data/sparse/0/points3D.bin")), bytes_of_points / 10); // it has no tracks
    expect_trained("data");
}

TEST_F(PosesWithColmap, OfAVideoAreFound) {
    std::ofstream list(at("list"));
    for (const auto &entry :
         std::set<fs::path>(fs::directory_iterator(at("photos")), fs::directory_iterator()))
        list << "file '" << entry.string() << "'\nduration 0.25\n";
    list.close();
    const outcome made = run("/bin/sh", {"-c",
                                         "ffmpeg -nostdin -v error -f concat -safe 0 -i \"$0\" -r 4 -vf "
                                         "\"scale='min(480,iw)':-2\" -pix_fmt yuv420p \"$1\"",
                                         at("list"), at("video.mp4")});
    ASSERT_EQ(made.code, 0) << made.err;
    const outcome got = splat(with_lens({"poses", at("video.mp4"), "-o", at("data"), "--frames", "12"}));
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_GE(placed(got), 8u) << got.out;
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
    const outcome got = splat({"poses", at("photos"), "-o", at("data")});
    EXPECT_EQ(got.code, 1);
    EXPECT_CONTAINS(got.err, "cannot be found: they show too little of the same things");
    EXPECT_FALSE(fs::exists(at("data")));
}

} // namespace
