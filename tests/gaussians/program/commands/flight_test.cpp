// SPDX-License-Identifier: MIT
// dsplat render --path: where its cameras are, and the pictures.
#include "program_run.h"
#include "camera.h"
#include "commands/cameras.h"
#include <set>

namespace {

using point = std::array<double, 3>;

gs_camera looking(point eye, point target, point up) {
    gs_camera camera = camera_with_view_angle(40, 30, 0.8);
    camera_look_at(&camera, eye.data(), target.data(), up.data());
    return camera;
}

point eye_of(const gs_camera &camera) {
    point eye;
    camera_center(&camera, eye.data());
    return eye;
}

double distance(point a, point b) {
    return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

// How far beside the middle of the picture a point is, in the units of the distance.
double beside(const gs_camera &camera, point p) {
    double in[3];
    for (int row = 0; row < 3; row++) {
        in[row] = camera.translation[row];
        for (int i = 0; i < 3; i++) in[row] += double(camera.rotation[3 * row + i]) * p[size_t(i)];
    }
    return in[2] > 0 ? std::hypot(in[0], in[1]) / in[2] : INFINITY;
}

// A camera of each frame, the last where the first is; why not: without one.
std::vector<gs_camera> flight(const std::vector<gs_camera> &cameras, fault *why) {
    std::vector<target_view> views(cameras.size());
    for (size_t i = 0; i < views.size(); i++) views[i].camera = cameras[i];
    camera_orbit orbit;
    std::vector<gs_camera> frames;
    if (!camera_orbit_open(&orbit, views.data(), views.size(), why)) return frames;
    for (int i = 0; i <= 24; i++) {
        frames.push_back(cameras[0]);
        camera_orbit_place(&orbit, i / 24.0, &frames.back());
    }
    return frames;
}

// Around cameras on a ring of radius 4, at height 2 above (1, 2, 3).
TEST(Flight, AnOrbitIsWhereTheCamerasWere) {
    const double pi = 3.141592653589793;
    std::vector<gs_camera> cameras;
    for (double angle = 0.3; angle < 2 * pi + 0.2; angle += pi / 6)
        cameras.push_back(
            looking({1 + 4 * std::cos(angle), 2 + 4 * std::sin(angle), 5}, {1, 2, 3}, {0, 0, 1}));
    fault why;
    const std::vector<gs_camera> frames = flight(cameras, &why);
    ASSERT_EQ(frames.size(), 25u) << why.text;
    EXPECT_LT(distance(eye_of(frames[0]), eye_of(cameras[0])), 1e-3);
    EXPECT_LT(distance(eye_of(frames[24]), eye_of(frames[0])), 1e-4); // closed
    for (size_t i = 0; i < 24; i++) {
        const point eye = eye_of(frames[i]);
        EXPECT_NEAR(std::hypot(eye[0] - 1, eye[1] - 2), 4, 1e-2);
        EXPECT_NEAR(eye[2], 5, 1e-2);
        EXPECT_LT(beside(frames[i], {1, 2, 3}), 1e-2);
        EXPECT_NEAR(distance(eye, eye_of(frames[i + 1])), 2 * 4 * std::sin(pi / 24), 1e-2);
        EXPECT_LT(frames[i].rotation[5], -0.8); // the picture's y axis points down
        EXPECT_EQ(frames[i].fx, cameras[0].fx);
    }
}

// One camera is enough, and from straight above there is a way around.
TEST(Flight, AFewCamerasHaveAnOrbitUnlessTheyDoNotSayWhere) {
    const struct {
        std::vector<gs_camera> cameras;
        const char *refused;
    } rows[] = {
        {{looking({0, 0, 0}, {0, 0, 6}, {0, -1, 0})}, nullptr},
        {{looking({0, 0, 4}, {0, 0, 0}, {0, 1, 0}), looking({0, 0, 4}, {0, 0, 0}, {1, 0, 0})}, nullptr},
        {{looking({4, 0, 0}, {0, 0, 0}, {0, 0, 1}), looking({4, 0, 0}, {0, 0, 0}, {0, 0, -1})},
         "no common up direction"},
        {{looking({0, 0, 0}, {1, 0, 0}, {0, 0, 1}), looking({0, 0, 0}, {-1, 0, 0}, {0, 0, 1})},
         "at the point that they look at"}};
    for (const auto &[cameras, refused] : rows) {
        fault why = {};
        const std::vector<gs_camera> frames = flight(cameras, &why);
        EXPECT_CONTAINS(why.text, refused ? refused : "");
        ASSERT_EQ(frames.empty(), refused != nullptr) << why.text;
        for (const gs_camera &frame : frames)
            for (float value : frame.rotation) EXPECT_TRUE(std::isfinite(value));
        if (!refused) {
            EXPECT_GT(distance(eye_of(frames[0]), eye_of(frames[6])), 0.1);
        }
    }
}

class Fly : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        write_colmap(at("data"), 4);
        write_scene(at("scene.ply"), 1, 0, 0, 3);
    }
};

// Nothing is left of a longer flight, and other files stay.
TEST_F(Fly, NumberedPicturesOfTheViewsSize) {
    const std::string fly =
        "render @scene.ply -o @orbit --cameras @data --path orbit --downscale 2 --frames ";
    done(fly + "7");
    std::ofstream(at("orbit") / "flight.mp4") << "mine";
    const outcome run = done(fly + "5");
    EXPECT_EQ(run.err, "");
    EXPECT_CONTAINS(run.out, "5 frames, 20 x 14");
    std::set<std::string> names, pictures;
    for (const auto &entry : fs::directory_iterator(at("orbit"))) names.insert(entry.path().filename());
    EXPECT_EQ(names, (std::set<std::string>{"flight.mp4", "frame_00000.png", "frame_00001.png",
                                            "frame_00002.png", "frame_00003.png", "frame_00004.png"}));
    names.erase("flight.mp4");
    for (const std::string &name : names) {
        const picture frame(at("orbit") / name);
        EXPECT_EQ(frame.width, photo_width / 2);
        EXPECT_EQ(frame.height, photo_height / 2);
        // Parallel cameras do not say how far away it is, so the others may show nothing.
        EXPECT_TRUE(!pictures.empty() || frame.others({0, 0, 0}) > 4) << name << " shows nothing";
        pictures.insert(contents(at("orbit") / name));
    }
    EXPECT_GE(pictures.size(), 2u);
}

// Photographs may have the names of frames.
TEST_F(Fly, PhotographsDoNotBecomeFrames) {
    const std::tuple<const char *, const char *, int> rows[] = {
        {"frame_00001.png", nullptr, 1},            // it would be replaced
        {"frame_00003.png", "frame_00002.png", 1},  // it would be removed
        {"frame_00003.png", "frame_00001.png", 0}}; // it would stay
    for (const auto &[name, other, code] : rows) {
        const fs::path images = at("data") / "images", photograph = images / name;
        fs::remove_all(images);
        fs::create_directories(images);
        picture(photo_width, photo_height, 9).write(photograph);
        if (other) std::ofstream(images / other) << "of an earlier flight";
        as_transforms(at("data"), name);
        const std::string before = contents(photograph);
        says({{"render @scene.ply -o @data/images --cameras @data --path orbit --frames 2",
               code,
               {(code ? "" : "!") + photograph.string() +
                ": cannot write: is one of the files of the data"}}});
        EXPECT_TRUE(contents(photograph) == before) << name;
    }
}

} // namespace
