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

// Cameras on a ring of radius 4, at height 2 above (1, 2, 3).
std::vector<gs_camera> ring() {
    std::vector<gs_camera> cameras;
    for (int i = 0; i < 12; i++) {
        const double angle = 2 * 3.141592653589793 * i / 12 + 0.3;
        cameras.push_back(
            looking({1 + 4 * std::cos(angle), 2 + 4 * std::sin(angle), 5}, {1, 2, 3}, {0, 0, 1}));
    }
    return cameras;
}

std::vector<target_view> views_of(const std::vector<gs_camera> &cameras) {
    std::vector<target_view> views(cameras.size());
    for (size_t i = 0; i < views.size(); i++) views[i].camera = cameras[i];
    return views;
}

std::vector<gs_camera> flight(const std::vector<gs_camera> &cameras) {
    camera_orbit orbit;
    fault why;
    EXPECT_TRUE(camera_orbit_open(&orbit, views_of(cameras).data(), cameras.size(), &why)) << why.text;
    std::vector<gs_camera> frames;
    for (int i = 0; i <= 24; i++) {
        frames.push_back(cameras[0]);
        camera_orbit_place(&orbit, i / 24.0, &frames.back());
    }
    return frames;
}

TEST(Flight, AnOrbitIsWhereTheCamerasWere) {
    const std::vector<gs_camera> cameras = ring(), frames = flight(cameras);
    EXPECT_LT(distance(eye_of(frames[0]), eye_of(cameras[0])), 1e-3);
    EXPECT_LT(distance(eye_of(frames[24]), eye_of(frames[0])), 1e-4); // closed
    for (size_t i = 0; i < 24; i++) {
        const point eye = eye_of(frames[i]);
        EXPECT_NEAR(std::hypot(eye[0] - 1, eye[1] - 2), 4, 1e-2);
        EXPECT_NEAR(eye[2], 5, 1e-2);
        EXPECT_LT(beside(frames[i], {1, 2, 3}), 1e-2);
        EXPECT_NEAR(distance(eye, eye_of(frames[i + 1])), 2 * 4 * std::sin(3.141592653589793 / 24), 1e-2);
        EXPECT_LT(frames[i].rotation[5], -0.8); // the picture's y axis points down
        EXPECT_EQ(frames[i].fx, cameras[0].fx);
    }
}

// One camera is enough, and from straight above there is a way around.
TEST(Flight, AFewCamerasHaveAnOrbit) {
    const std::vector<gs_camera> rows[] = {
        {looking({0, 0, 0}, {0, 0, 6}, {0, -1, 0})},
        {looking({0, 0, 4}, {0, 0, 0}, {0, 1, 0}), looking({0, 0, 4}, {0, 0, 0}, {1, 0, 0})}};
    for (const auto &cameras : rows)
        for (const gs_camera &frame : flight(cameras))
            for (float value : frame.rotation) EXPECT_TRUE(std::isfinite(value));
    const std::vector<gs_camera> frames = flight(rows[0]);
    EXPECT_GT(distance(eye_of(frames[0]), eye_of(frames[6])), 0.1);
}

TEST(Flight, CamerasThatDoNotSayWhereAreRefused) {
    const std::vector<gs_camera> heads_and_feet = {looking({4, 0, 0}, {0, 0, 0}, {0, 0, 1}),
                                                   looking({4, 0, 0}, {0, 0, 0}, {0, 0, -1})};
    const std::vector<gs_camera> outwards = {looking({0, 0, 0}, {1, 0, 0}, {0, 0, 1}),
                                             looking({0, 0, 0}, {-1, 0, 0}, {0, 0, 1})};
    camera_orbit orbit;
    fault why;
    EXPECT_FALSE(camera_orbit_open(&orbit, views_of(heads_and_feet).data(), 2, &why));
    EXPECT_CONTAINS(std::string(why.text), "no common up direction");
    EXPECT_FALSE(camera_orbit_open(&orbit, views_of(outwards).data(), 2, &why));
    EXPECT_CONTAINS(std::string(why.text), "at the point that they look at");
}

class Fly : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        write_colmap(at("data"), 4);
        write_scene(at("scene.ply"), 1, 0, 0, 3);
    }
};

TEST_F(Fly, NumberedPicturesOfTheViewsSize) {
    const outcome run =
        done("render @scene.ply -o @orbit --cameras @data --path orbit --frames 5 --downscale 2");
    EXPECT_EQ(run.err, "");
    EXPECT_CONTAINS(run.out, "5 frames, 20 x 14");
    std::set<std::string> frames;
    for (int i = 0; i < 5; i++) {
        const fs::path name = at("orbit") / ("frame_0000" + std::to_string(i) + ".png");
        picture frame(name);
        EXPECT_EQ(frame.width, photo_width / 2);
        EXPECT_EQ(frame.height, photo_height / 2);
        // Parallel cameras do not say how far away it is, so the others may show nothing.
        EXPECT_TRUE(i > 0 || frame.others({0, 0, 0}) > 4) << name << " shows nothing";
        frames.insert(contents(name));
    }
    EXPECT_GE(frames.size(), 2u);
    EXPECT_EQ(std::distance(fs::directory_iterator(at("orbit")), fs::directory_iterator()), 5);
}

TEST_F(Fly, AShorterFlightLeavesNothingOfALongerOne) {
    const std::string fly = "render @scene.ply -o @out --cameras @data --path orbit --downscale 4 --frames ";
    done(fly + "6");
    std::ofstream(at("out") / "flight.mp4") << "mine";
    done(fly + "2");
    std::set<std::string> left;
    for (const auto &entry : fs::directory_iterator(at("out"))) left.insert(entry.path().filename());
    EXPECT_EQ(left, (std::set<std::string>{"flight.mp4", "frame_00000.png", "frame_00001.png"}));
}

// Photographs may have the names of frames.
TEST_F(Fly, PhotographsDoNotBecomeFrames) {
    const auto spares = [&](const char *name, const std::vector<const char *> &others) {
        fs::remove_all(at("data"));
        write_colmap(at("data"), 4);
        fs::remove_all(at("data") / "sparse");
        const fs::path images = at("data") / "images", photograph = images / name;
        fs::rename(images / "photo0.png", photograph);
        for (const char *other : others) std::ofstream(images / other) << "of an earlier flight";
        std::ofstream(at("data") / "transforms.json")
            << R"({"fl_x":36,"w":40,"h":28,"frames":[{"file_path":"images/)" << name
            << R"(","transform_matrix":[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]})";
        const std::string before = contents(photograph);
        const outcome run =
            dsplat("render @scene.ply -o "s + images.string() + " --cameras @data --path orbit --frames 2");
        EXPECT_TRUE(contents(photograph) == before) << name;
        const std::string said = photograph.string() + ": cannot write: is one of the files of the data";
        EXPECT_EQ(run.code == 1, run.err.find(said) != std::string::npos) << run.err;
        return run.code;
    };
    EXPECT_EQ(spares("frame_00001.png", {}), 1);                  // it would be replaced
    EXPECT_EQ(spares("frame_00003.png", {"frame_00002.png"}), 1); // it would be removed
    EXPECT_EQ(spares("frame_00003.png", {"frame_00001.png"}), 0); // it would stay
}

TEST_F(Fly, BadWishesAreRefused) {
    const std::string flight = "render @scene.ply -o @flight --path orbit",
                      cameras = flight + " --cameras @data";
    refuses({{flight, 2, "--cameras"},
             {cameras + " --frames 0", 2, "--frames"},
             {cameras + " --photo", 2, "--photo"},
             {cameras + " --path loop", 2, "--path"},
             {flight + " --cameras @nowhere", 1, "nowhere"},
             {cameras + " --view 9", 1, "there is no view"}});
    std::ofstream(at("flight")) << "not a folder";
    refuses({{cameras, 1, "flight"}});
    EXPECT_EQ(contents(at("flight")), "not a folder");
    fs::remove(at("flight"));
    fs::create_directories(at("flight") / "frame_00001.png"); // in the way of the second frame
    refuses({{cameras + " --frames 3", 1, "frame_00001.png: cannot write"}});
}

} // namespace
