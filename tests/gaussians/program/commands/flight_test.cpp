// SPDX-License-Identifier: MIT
// dsplat render --path: where its cameras are, and the pictures.
#include "program_run.h"
#include "camera.h"
#include "commands/cameras.h"
#include "images/image.h"
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

// In a plane at z = 0, towards (0, 0, 6).
std::vector<gs_camera> facing(int count) {
    std::vector<gs_camera> cameras;
    for (int i = 0; i < count; i++) // y points down
        cameras.push_back(looking({0.3 * (i % 5 - 2), 0.2 * (i / 5 - 1), 0}, {0, 0, 6}, {0, -1, 0}));
    return cameras;
}

std::vector<target_view> views_of(const std::vector<gs_camera> &cameras) {
    std::vector<target_view> views(cameras.size());
    for (size_t i = 0; i < views.size(); i++) views[i].camera = cameras[i];
    return views;
}

std::vector<gs_camera> flight(camera_path_kind kind, const std::vector<gs_camera> &cameras) {
    camera_path path;
    fault why;
    EXPECT_TRUE(camera_path_open(&path, kind, views_of(cameras).data(), cameras.size(), &why)) << why.text;
    std::vector<gs_camera> frames;
    for (int i = 0; i <= 24; i++) {
        frames.push_back(cameras[0]);
        camera_path_place(&path, i / 24.0, &frames.back());
    }
    return frames;
}

TEST(Flight, AnOrbitIsWhereTheCamerasWere) {
    const std::vector<gs_camera> cameras = ring(), frames = flight(PATH_ORBIT, cameras);
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

TEST(Flight, ASpiralStaysWhereTheCamerasWere) {
    const std::vector<gs_camera> frames = flight(PATH_SPIRAL, facing(15));
    EXPECT_LT(distance(eye_of(frames[24]), eye_of(frames[0])), 1e-4);
    double widest = 0;
    for (const gs_camera &frame : frames) {
        const point eye = eye_of(frame);
        widest = std::max(widest, std::abs(eye[0]));
        EXPECT_LT(std::abs(eye[0]), 0.6);
        EXPECT_LT(std::abs(eye[1]), 0.3);
        EXPECT_LT(std::abs(eye[2]), 0.3);
        EXPECT_LT(beside(frame, {0, 0, 6}), 0.02);
        EXPECT_GT(frame.rotation[4], 0.99);
    }
    EXPECT_GT(widest, 0.3);
}

TEST(Flight, OneCameraIsEnough) {
    for (camera_path_kind kind : {PATH_ORBIT, PATH_SPIRAL}) {
        const std::vector<gs_camera> frames = flight(kind, facing(1));
        for (const gs_camera &frame : frames)
            for (float value : frame.rotation) EXPECT_TRUE(std::isfinite(value));
        EXPECT_GT(distance(eye_of(frames[0]), eye_of(frames[6])), 0.1);
    }
}

TEST(Flight, StraightFromAboveThereIsAWayAround) {
    const std::vector<gs_camera> cameras = {looking({0, 0, 4}, {0, 0, 0}, {0, 1, 0}),
                                            looking({0, 0, 4}, {0, 0, 0}, {1, 0, 0})};
    for (const gs_camera &frame : flight(PATH_ORBIT, cameras))
        for (float value : frame.rotation) EXPECT_TRUE(std::isfinite(value));
}

TEST(Flight, CamerasThatDoNotSayWhereAreRefused) {
    const std::vector<gs_camera> around = ring();
    const std::vector<gs_camera> heads_and_feet = {looking({4, 0, 0}, {0, 0, 0}, {0, 0, 1}),
                                                   looking({4, 0, 0}, {0, 0, 0}, {0, 0, -1})};
    const std::vector<gs_camera> outwards = {looking({0, 0, 0}, {1, 0, 0}, {0, 0, 1}),
                                             looking({0, 0, 0}, {-1, 0, 0}, {0, 0, 1})};
    camera_path path;
    fault why;
    EXPECT_FALSE(camera_path_open(&path, PATH_SPIRAL, views_of(around).data(), around.size(), &why));
    EXPECT_CONTAINS(std::string(why.text), "all directions");
    EXPECT_FALSE(camera_path_open(&path, PATH_ORBIT, views_of(heads_and_feet).data(), 2, &why));
    EXPECT_CONTAINS(std::string(why.text), "no common up direction");
    EXPECT_FALSE(camera_path_open(&path, PATH_SPIRAL, views_of(outwards).data(), 2, &why));
    EXPECT_FALSE(camera_path_open(&path, PATH_ORBIT, views_of(outwards).data(), 2, &why));
    EXPECT_CONTAINS(std::string(why.text), "at the point that they look at");
}

class Fly : public Program {};

TEST_F(Fly, NumberedPicturesOfTheViewsSize) {
    write_colmap(at("data"), 4);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    for (const char *path : {"orbit", "spiral"}) {
        outcome run = splat({"render", at("scene.ply"), "-o", at(path), "--cameras", at("data"), "--path",
                             path, "--frames", "5", "--downscale", "2"});
        ASSERT_EQ(run.code, 0) << run.err;
        EXPECT_EQ(run.err, "");
        EXPECT_CONTAINS(run.out, "5 frames, 20 x 14");
        std::vector<std::string> frames;
        for (int i = 0; i < 5; i++) {
            const fs::path name = at(path) / ("frame_0000" + std::to_string(i) + ".png");
            picture frame(name);
            EXPECT_EQ(frame.width, photo_width / 2);
            EXPECT_EQ(frame.height, photo_height / 2);
            if (i == 0 || path == std::string("spiral")) { // parallel cameras do not say how far away it is
                EXPECT_GT(frame.others({0, 0, 0}), 4) << name << " shows nothing";
            }
            frames.push_back(contents(name));
        }
        EXPECT_NE(frames[0], frames[1]);
        EXPECT_EQ(std::distance(fs::directory_iterator(at(path)), fs::directory_iterator()), 5);
    }
}

TEST_F(Fly, AShorterFlightLeavesNothingOfALongerOne) {
    write_colmap(at("data"), 4);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    const auto fly = [&](const char *frames) {
        return splat({"render", at("scene.ply"), "-o", at("out"), "--cameras", at("data"), "--path", "orbit",
                      "--frames", frames, "--downscale", "4"});
    };
    ASSERT_EQ(fly("6").code, 0);
    std::ofstream(at("out") / "flight.mp4") << "mine";
    const outcome run = fly("2");
    ASSERT_EQ(run.code, 0) << run.err;
    std::set<std::string> left;
    for (const auto &entry : fs::directory_iterator(at("out"))) left.insert(entry.path().filename());
    EXPECT_EQ(left, (std::set<std::string>{"flight.mp4", "frame_00000.png", "frame_00001.png"}));
}

// Photographs may have the names of frames.
TEST_F(Fly, PhotographsDoNotBecomeFrames) {
    write_scene(at("scene.ply"), 1, 0, 0, 3);
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
        const outcome run = splat({"render", at("scene.ply"), "-o", images, "--cameras", at("data"), "--path",
                                   "spiral", "--frames", "2"});
        EXPECT_TRUE(contents(photograph) == before) << name;
        const std::string said = photograph.string() + ": cannot write: is one of the files of the data";
        EXPECT_EQ(run.code == 1, run.err.find(said) != std::string::npos) << run.err;
        return run.code;
    };
    EXPECT_EQ(spares("frame_00001.png", {}), 1);                  // it would be replaced
    EXPECT_EQ(spares("frame_00003.png", {"frame_00002.png"}), 1); // it would be removed
    EXPECT_EQ(spares("frame_00003.png", {"frame_00001.png"}), 0); // it would stay
}

TEST_F(Fly, AVideoHasTheFrames) {
    if (system("command -v ffmpeg >/dev/null 2>&1") != 0) GTEST_SKIP() << "no ffmpeg";
    write_colmap(at("data"), 4);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    const auto fly = [&](const std::string &to, const char *downscale) {
        return splat({"render", at("scene.ply"), "-o", to, "--cameras", at("data"), "--path", "spiral",
                      "--frames", "4", "--downscale", downscale});
    };
    ASSERT_EQ(fly(at("f.mp4"), "1").code, 0);
    ASSERT_EQ(fly(at("frames"), "1").code, 0);
    ASSERT_EQ(fly(at("odd.mp4"), "4").code, 0); // 10 x 7: a row more
    for (const char *name : {"f", "odd"}) {
        const std::string command = "ffmpeg -v error -i '" + at(name).string() + ".mp4' '" +
                                    at(name).string() + "_%d.png' >/dev/null 2>&1";
        ASSERT_EQ(system(command.c_str()), 0);
    }
    for (int i = 0; i < 4; i++) {
        picture decoded(at(("f_" + std::to_string(i + 1) + ".png").c_str())),
            frame(at("frames") / ("frame_0000" + std::to_string(i) + ".png"));
        EXPECT_GT(image_psnr(&decoded, &frame, NULL), 25) << i;
    }
    EXPECT_FALSE(fs::exists(at("f_5.png")));
    EXPECT_EQ(picture(at("odd_1.png")).height, 8);
}

TEST_F(Fly, AVideoNeedsFfmpeg) {
    write_colmap(at("data"), 4);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    std::ofstream(at("old.mp4")) << "old";
    const std::string path = getenv("PATH");
    fs::create_directories(at("bin"));
    setenv("PATH", at("bin").c_str(), 1);
    const std::vector<std::string> line = {"render",   at("scene.ply"), "-o",    at("old.mp4"), "--cameras",
                                           at("data"), "--path",        "orbit", "--frames",    "400"};
    outcome run = splat(line);
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "ffmpeg is not installed");
    // One that ends early: the rest of the frames waits for nobody.
    std::ofstream(at("bin/ffmpeg")) << "#!/bin/sh\necho 'error: no codec' >&2\nexit 3\n";
    fs::permissions(at("bin/ffmpeg"), fs::perms::owner_all);
    run = splat(line);
    setenv("PATH", path.c_str(), 1);
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "no codec");
    EXPECT_EQ(contents(at("old.mp4")), "old");
    EXPECT_EQ(files_in_folder(), 4u); // data, scene.ply, old.mp4, bin
}

// Discs of radius 1/2 at depth 4, where the camera looks, and of another one behind it to the left.
TEST_F(Fly, DepthIsInverseAndNearIsBright) {
    gs_gaussians scene;
    fault why;
    ASSERT_TRUE(scene_open(&scene, 40, 0, &why));
    for (int i = 0; i < scene.count; i++) {
        const float depth = i < 20 ? 4 : 8; // many at one place are opaque
        scene.mean[3 * i] = i < 20 ? 0 : -3;
        scene.mean[3 * i + 2] = depth;
        for (int k = 0; k < 3; k++) scene.log_scale[3 * i + k] = -1;
        scene.quaternion[4 * i] = 1;
        scene.opacity_logit[i] = 3;
    }
    ASSERT_TRUE(scene_write(at("scene.ply").c_str(), &scene, &why));
    scene_close(&scene);
    write_colmap(at("data"), 4); // view 2: at the origin along z
    const auto depth = [&](const char *kind, const char *to) {
        return splat({"render", at("scene.ply"), "-o", at(to), "--cameras", at("data"), "--view", "2",
                      "--depth", kind});
    };
    outcome run = depth("16", "d16.png");
    ASSERT_EQ(run.code, 0) << run.err;
    const size_t is = run.out.find("65535 is ");
    ASSERT_NE(is, std::string::npos);
    const double unit = strtod(run.out.c_str() + is + 9, nullptr);
    plane map;
    ASSERT_TRUE(plane_read(at("d16.png").c_str(), &map, &why)) << why.text;
    const size_t near_at = 14 * 40 + 20, far_at = 14 * 40 + 6; // 20 - 36 * 3 / 8
    EXPECT_NEAR(unit * double(map.values[near_at]), 1.0 / 4, 0.003);
    EXPECT_NEAR(unit * double(map.values[far_at]), 1.0 / 8, 0.003);
    EXPECT_EQ(map.values[39], 0);
    plane_close(&map);
    ASSERT_EQ(depth("colors", "d.png").code, 0);
    picture colors(at("d.png"));
    const auto sum = [&](size_t i) {
        return colors.pixels[3 * i] + colors.pixels[3 * i + 1] + colors.pixels[3 * i + 2];
    };
    EXPECT_GT(sum(near_at), 600);
    EXPECT_GT(sum(far_at), 40);
    EXPECT_LT(sum(far_at), 300);
    EXPECT_EQ(sum(39), 4); // the darkest of the colours
    expect_refused(
        DSPLAT_PROGRAM,
        {{{"render", at("scene.ply"), "-o", at("d.png"), "--depth", "16", "--path", "orbit", "--cameras",
           at("data")},
          "--depth 16 excludes --path"},
         {{"render", at("scene.ply"), "-o", at("d.png"), "--depth", "16", "--photo", "--cameras", at("data")},
          "--depth excludes --photo"}},
        2);
}

// Any format that is read can be rendered; SOG moves no value by much.
TEST_F(Fly, RendersSogAndSpz) {
    write_colmap(at("data"), 4);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    const auto shown = [&](const char *scene, const char *to) {
        return splat({"render", at(scene), "-o", at(to), "--cameras", at("data")}).code;
    };
    ASSERT_EQ(shown("scene.ply", "ply.png"), 0);
    const picture expected(at("ply.png"));
    EXPECT_GT(expected.others({0, 0, 0}), 20);
    for (const char *scene : {"scene.sog", "scene.spz"}) {
        const outcome run = splat({"convert", at("scene.ply"), at(scene)});
        if (run.err.find("libwebp") != std::string::npos) continue; // built without it
        ASSERT_EQ(run.code, 0) << run.err;
        ASSERT_EQ(shown(scene, "other.png"), 0);
        const picture other(at("other.png"));
        EXPECT_GT(image_psnr(&other, &expected, NULL), 35) << scene;
    }
}

TEST_F(Fly, BadWishesAreRefused) {
    write_colmap(at("data"), 4);
    write_scene(at("scene.ply"), 1, 0, 0, 3);
    const std::vector<std::string> flight = {"render",     at("scene.ply"), "-o",
                                             at("flight"), "--path",        "orbit"};
    auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), flight.begin(), flight.end());
        return splat(more);
    };
    EXPECT_EQ(with({}).code, 2); // no cameras
    EXPECT_EQ(with({"--cameras", at("data"), "--frames", "0"}).code, 2);
    EXPECT_EQ(with({"--cameras", at("data"), "--photo"}).code, 2);
    EXPECT_EQ(with({"--cameras", at("data"), "--path", "loop"}).code, 2);
    EXPECT_EQ(with({"--cameras", at("nowhere")}).code, 1);
    EXPECT_EQ(with({"--cameras", at("data"), "--view", "9"}).code, 1);
    EXPECT_FALSE(fs::exists(at("flight")));
    std::ofstream(at("flight")) << "not a folder";
    EXPECT_EQ(with({"--cameras", at("data")}).code, 1);
    EXPECT_EQ(contents(at("flight")), "not a folder");
    fs::remove(at("flight"));
    fs::create_directories(at("flight") / "frame_00001.png"); // in the way of the second frame
    const outcome run = with({"--cameras", at("data"), "--frames", "3"});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "frame_00001.png: cannot write");
}

} // namespace
