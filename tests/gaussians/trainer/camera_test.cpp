// SPDX-License-Identifier: MIT
// Where a camera sees a point, and which point it sees at a pixel, for both camera models; poses: their motions and
// similarities, how they are perturbed and refined, and that training brings them back.
#include "camera.h"
#include "demo/demo_scene.h"
#include "program_run.h"
#include "training_cloud.h"
#include <tuple>

namespace camera_test {

gs_camera camera_of(int model) {
    gs_camera camera = camera_with_view_angle(80, 60, 1);
    camera.cx = 37, camera.cy = 33;
    camera.model = model;
    if (model == GS_FISHEYE) {
        camera.fx = 24, camera.fy = 21; // some 95 degrees off the axis in the corners
        camera.distortion[0] = 0.02f;
        camera.distortion[1] = -0.004f;
    }
    const double eye[3] = {3, -2, 1.5}, up[3] = {0, 0, 1};
    camera_look_at(&camera, eye, demo_center, up);
    return camera;
}

TEST(Camera, APixelsPointIsSeenAtThePixel) {
    for (const int model : {GS_PINHOLE, GS_FISHEYE}) {
        const gs_camera camera = camera_of(model);
        double center[3];
        camera_center(&camera, center);
        for (const double x : {0.5, 36.75, 79.5})
            for (const double y : {0.5, 33.5, 59.5}) {
                const double pixel[2] = {x, y}, depth = 1.75;
                double point[3], back[2];
                camera_point_at(&camera, pixel, depth, point);
                ASSERT_TRUE(camera_pixel(&camera, point, back)) << x << " " << y;
                EXPECT_NEAR(back[0], x, 1e-4);
                EXPECT_NEAR(back[1], y, 1e-4);
                double along = 0, distance = 0;
                for (int i = 0; i < 3; i++) {
                    along += double(camera.rotation[6 + i]) * (point[i] - center[i]);
                    distance = std::hypot(distance, point[i] - center[i]);
                }
                EXPECT_NEAR(model == GS_FISHEYE ? distance : along, depth, 1e-5);
            }
        // What is outside the picture or before the near plane, which is at 0.2, is not seen.
        const double unseen[][3] = {{-0.5, 30, 2}, {80.5, 30, 2}, {40, 30, 0.19}, {40, 30, -1}};
        for (const auto &[x, y, depth] : unseen) {
            const double at[2] = {x, y};
            double point[3], pixel[2];
            camera_point_at(&camera, at, depth, point);
            EXPECT_FALSE(camera_pixel(&camera, point, pixel)) << x << ", " << depth;
        }
    }
}

TEST(Camera, LooksAtItsTarget) {
    gs_camera camera = camera_with_view_angle(64, 48, 0.8);
    const double eye[3] = {1, 2, 3}, target[3] = {4, -1, 7}, above[3] = {4, -1, 7.5}, up[3] = {0, 0, 1};
    double pixel[2], higher[2], center[3];
    camera_look_at(&camera, eye, target, up);
    ASSERT_TRUE(camera_pixel(&camera, target, pixel) && camera_pixel(&camera, above, higher));
    const double middle[2] = {32, 24};
    for (int k = 0; k < 2; k++) EXPECT_NEAR(pixel[k], middle[k], 1e-4);
    EXPECT_NEAR(higher[0], 32, 1e-4);
    EXPECT_LT(higher[1], 23); // +y is down
    EXPECT_NEAR(camera_depth(&camera, target), std::sqrt(9 + 9 + 16.0), 1e-5);
    const float *r = camera.rotation; // right-handed
    EXPECT_NEAR(r[0] * (r[4] * r[8] - r[5] * r[7]) - r[1] * (r[3] * r[8] - r[5] * r[6]) +
                    r[2] * (r[3] * r[7] - r[4] * r[6]),
                1, 1e-5);
    camera_center(&camera, center);
    for (int i = 0; i < 3; i++) EXPECT_NEAR(center[i], eye[i], 1e-5);
}

// Views without pictures, on a circle around the origin.
std::vector<target_view> circle(size_t count, int size) {
    std::vector<target_view> views(count);
    for (size_t i = 0; i < count; i++) {
        const double angle = 6.283185307179586 * double(i) / double(count);
        const double eye[3] = {4 * std::cos(angle), 4 * std::sin(angle), 1.0 + 0.3 * double(i % 3)};
        const double target[3] = {0, 0, 0}, up[3] = {0, 0, 1};
        views[i].camera = camera_with_view_angle(size, size, 0.7);
        camera_look_at(&views[i].camera, eye, target, up);
    }
    return views;
}

std::vector<pose> poses_of(const std::vector<target_view> &views) {
    std::vector<pose> poses;
    for (const target_view &view : views) poses.push_back(pose_of(&view.camera));
    return poses;
}

std::array<double, 3> seen(const pose &p, const std::array<double, 3> &x) {
    std::array<double, 3> out;
    for (size_t r = 0; r < 3; r++)
        out[r] = p.rotation[3 * r] * x[0] + p.rotation[3 * r + 1] * x[1] + p.rotation[3 * r + 2] * x[2] +
                 p.translation[r];
    return out;
}

TEST(Pose, MovesByAMotion) {
    const pose before = poses_of(circle(9, 64))[4];
    const std::array<double, 3> x = {0.3, -0.4, 0.5}, at = seen(before, x);
    const double w[3] = {1e-4, -2e-4, 3e-4}, v[3] = {0.1, 0.2, -0.3};
    pose after = before;
    const double motion[6] = {w[0], w[1], w[2], v[0], v[1], v[2]};
    pose_move(&after, motion);
    const std::array<double, 3> now = seen(after, x);
    for (size_t k = 0; k < 3; k++) {
        const size_t a = (k + 1) % 3, b = (k + 2) % 3;
        EXPECT_NEAR(now[k], at[k] + w[a] * at[b] - w[b] * at[a] + v[k], 1e-6);
    }
    double center[3];
    pose_center(&after, center);
    for (const double value : seen(after, {center[0], center[1], center[2]})) EXPECT_NEAR(value, 0, 1e-6);
    pose turned = before;
    const double half[6] = {0, 0, 3.141592653589793, 0, 0, 0};
    pose_move(&turned, half);
    const std::array<double, 3> opposite = seen(turned, x);
    EXPECT_NEAR(opposite[0], -at[0], 1e-12);
    EXPECT_NEAR(opposite[1], -at[1], 1e-12);
    EXPECT_NEAR(opposite[2], at[2], 1e-12);
}

TEST(Similarity, IsFoundFromThePosesThatItMoved) {
    const std::vector<pose> from = poses_of(circle(9, 64));
    similarity s = {{}, 2.5, {3, -1, 2}};
    const double axis[3] = {0.6, 0, 0.8};
    rotation_about(axis, 2, s.rotation);
    std::vector<pose> to = from;
    for (pose &p : to) similarity_apply(&s, &p);
    // A point of the world moves with it: every camera sees it where it did, times the scale.
    std::array<double, 3> x = {0.3, -0.4, 0.5}, moved;
    for (size_t r = 0; r < 3; r++)
        moved[r] = s.scale * (s.rotation[3 * r] * x[0] + s.rotation[3 * r + 1] * x[1] +
                              s.rotation[3 * r + 2] * x[2]) +
                   s.translation[r];
    for (size_t i = 0; i < from.size(); i++)
        for (size_t k = 0; k < 3; k++)
            EXPECT_NEAR(seen(to[i], moved)[k], s.scale * seen(from[i], x)[k], 1e-5);
    const similarity found = similarity_between(from.data(), to.data(), from.size());
    EXPECT_NEAR(found.scale, s.scale, 1e-6);
    for (int k = 0; k < 9; k++) EXPECT_NEAR(found.rotation[k], s.rotation[k], 1e-6);
    for (int k = 0; k < 3; k++) EXPECT_NEAR(found.translation[k], s.translation[k], 1e-5);
    const pose_difference none = pose_difference_between(from.data(), to.data(), from.size());
    EXPECT_LT(none.largest_degrees, 1e-4);
    EXPECT_LT(none.largest_distance, 1e-5);
    // One pose, or several in one place: no scale.
    EXPECT_EQ(similarity_between(from.data(), to.data(), 1).scale, 1);
}

TEST(PerturbPoses, ByWhatIsAsked) {
    std::vector<target_view> views = circle(8, 64), same = views, other = views;
    const std::vector<pose> before = poses_of(views);
    perturb_poses(views.data(), 8, 1, 0.04, 5);
    perturb_poses(same.data(), 8, 1, 0.04, 5);
    perturb_poses(other.data(), 8, 1, 0.04, 6);
    const std::vector<pose> after = poses_of(views);
    for (size_t i = 0; i < 8; i++) {
        double a[3], b[3], trace = 0;
        pose_center(&before[i], a);
        pose_center(&after[i], b);
        EXPECT_NEAR(std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]), 0.04, 1e-5);
        for (int k = 0; k < 9; k++) trace += before[i].rotation[k] * after[i].rotation[k];
        EXPECT_NEAR(std::acos((trace - 1) / 2) * 57.29578, 1, 1e-3);
        EXPECT_EQ(memcmp(&views[i].camera, &same[i].camera, sizeof(gs_camera)), 0);
        EXPECT_NE(memcmp(&views[i].camera, &other[i].camera, sizeof(gs_camera)), 0);
    }
}

// Points in a cube around the origin.
std::vector<std::array<float, 3>> points_of(size_t count) {
    std::mt19937 random(4);
    std::uniform_real_distribution<float> place(-0.8f, 0.8f);
    std::vector<std::array<float, 3>> points(count);
    for (auto &x : points)
        for (float &v : x) v = place(random);
    return points;
}

weighted_points all_of(const std::vector<std::array<float, 3>> &points) {
    return {points.size(), reinterpret_cast<const float(*)[3]>(points.data()), nullptr};
}

// A step L^-T y moves what the camera sees by |y| pixels, along each of the six axes, unless errors are expected to be
// small. Measured by moving the camera.
TEST(PoseMetric, MeasuresPixels) {
    const std::vector<std::array<float, 3>> points = points_of(3000);
    const weighted_points where = all_of(points);
    for (const int32_t model : {GS_PINHOLE, GS_FISHEYE}) {
        target_view view = circle(5, 200)[3];
        view.camera.model = model;
        view.camera.distortion[0] = 0.1f;
        double factor[POSE_METRIC_VALUES];
        const pose_scale unknown = {{0, 0, 0}, 1, 10};
        pose_metric(&view.camera, &where, &unknown, factor);
        for (int axis = 0; axis < 6; axis++) {
            double motion[6] = {};
            motion[axis] = 0.5;
            pose_metric_solve_transposed(factor, motion);
            pose moved = pose_of(&view.camera);
            pose_move(&moved, motion);
            gs_camera after = view.camera;
            pose_to_camera(&moved, &after);
            double square = 0, count = 0;
            for (const auto &x : points) {
                const double point[3] = {x[0], x[1], x[2]};
                double a[2], b[2];
                if (!camera_pixel(&view.camera, point, a) || !camera_pixel(&after, point, b)) continue;
                square += (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]);
                count++;
            }
            EXPECT_GT(count, 2500);
            EXPECT_NEAR(std::sqrt(square / count), 0.5, 0.05) << "axis " << axis << " model " << model;
        }
    }
}

TEST(PoseMetric, MovesByNoMoreThanExpected) {
    const target_view view = circle(5, 200)[3];
    const pose_scale known = {{0, 0, 0}, 1e-5, 1e-6};
    const std::vector<std::array<float, 3>> seen = points_of(100), behind(10, {40.0f, 40.0f, 40.0f});
    for (const weighted_points &where : {weighted_points{0, nullptr, nullptr}, all_of(seen), all_of(behind)})
        for (int axis = 0; axis < 6; axis++) {
            double factor[POSE_METRIC_VALUES], motion[6] = {};
            motion[axis] = 0.6;
            pose_metric(&view.camera, &where, &known, factor);
            pose_metric_solve_transposed(factor, motion);
            EXPECT_NEAR(std::hypot(motion[0], motion[1], motion[2]), axis < 3 ? 2e-5 : 0, 1e-6);
            EXPECT_NEAR(std::hypot(motion[3], motion[4], motion[5]), axis < 3 ? 0 : 2e-6, 1e-7);
        }
}

// Adam's first step has the rate's size, in pixels, root mean square over the axes of the metric, against the gradient.
TEST(RefinedPoses, AStepGoesAgainstTheGradient) {
    const std::vector<target_view> views = circle(3, 64);
    const std::vector<std::array<float, 3>> points = points_of(100);
    const weighted_points where = all_of(points);
    refined_pose p[3];
    refined_poses_start(p, views.data(), 3);
    refined_poses_measure(p, views.data(), 3, &where);
    const pose before = p[1].now;
    const float gradient[6] = {3, -1, 2, 0.5f, -7, 0.7f};
    double motion[6], square = 0, product = 0;
    for (int k = 0; k < 6; k++) motion[k] = double(gradient[k]);
    pose_metric_solve(p[1].metric, motion);
    for (const double value : motion) square += value * value / 6;
    for (double &value : motion) value *= -0.1 / std::sqrt(square);
    pose_metric_solve_transposed(p[1].metric, motion);
    for (int k = 0; k < 6; k++) product += motion[k] * double(gradient[k]);
    EXPECT_LT(product, 0);
    pose wanted = before;
    pose_move(&wanted, motion);
    refined_pose_step(&p[1], gradient, 0.1, 1);
    for (int k = 0; k < 9; k++) EXPECT_NEAR(p[1].now.rotation[k], wanted.rotation[k], 1e-9);
    for (int k = 0; k < 3; k++) EXPECT_NEAR(p[1].now.translation[k], wanted.translation[k], 1e-9);
}

// Coloured blobs in a cube around the origin.
host_scene blobs() {
    host_scene g(60, 0);
    std::mt19937 random(8);
    const auto uniform = [&](float low, float high) {
        return std::uniform_real_distribution<float>(low, high)(random);
    };
    for (int64_t i = 0; i < g.count; i++) {
        for (int k = 0; k < 3; k++) {
            g.mean[3 * i + k] = uniform(-0.8f, 0.8f);
            g.log_scale[3 * i + k] = uniform(-2.6f, -1.8f);
            g.sh[3 * i + k] = uniform(-1.5f, 1.5f);
        }
        g.quaternion[4 * i] = 1;
        g.opacity_logit[i] = 2;
    }
    return g;
}

bool start_with_blobs(void *, size_t most, gs_gaussians *host, fault *) {
    EXPECT_EQ(most, 8u * 64u * 64u / 20u);
    host_scene scene = blobs();
    *host = std::exchange(static_cast<gs_gaussians &>(scene), {});
    return true;
}

// On pictures of half the size. The scene is as it should be and stays: the poses alone come back.
TEST(PoseLevels, BringPosesBack) {
    constexpr size_t count = 8;
    const alone group;
    const host_scene scene = blobs();
    trained start({group, nullptr}, scene, 0);
    photographs of;
    const float background[3] = {0.2f, 0.3f, 0.4f};
    for (const target_view &view : circle(count, 128)) { // half of it is the least that pictures are made
        const std::vector<uint8_t> picture = rendered(start.state.gaussians, view.camera, background);
        of.add(view.camera, [&](int i) { return picture[size_t(i)]; });
    }
    const std::vector<pose> given = poses_of(of.views);
    target_view *const views = of.views.data();
    perturb_poses(views, count, 1, 0.04, 1); // 0.04: a hundredth of the circle's radius
    const pose_difference before = pose_difference_between(poses_of(of.views).data(), given.data(), count);
    std::vector<refined_pose> poses(count);
    EXPECT_DONE(poses_start_in(poses.data(), views, count, &start.state, &why));
    const refined_pose measured = poses[0];

    training_settings settings = {};
    settings.policy = {DISTWAR_TREE, 0};
    settings.rates = {1e-9f, 1e-9f, 1e-9f, 1e-9f, 1e-9f, 0, 0};
    settings.final_mean_rate = 1e-9f;
    std::copy_n(background, 3, settings.background);
    pose_levels levels = {group, nullptr, 1, 1, 48 * count, 0.5, start_with_blobs, nullptr, nullptr};
    EXPECT_DONE(pose_levels_refine(poses.data(), views, count, &settings, &levels, &why));
    std::vector<pose> now;
    for (const refined_pose &p : poses) now.push_back(p.now);
    const pose_difference after = pose_difference_between(now.data(), given.data(), count);
    EXPECT_GT(before.mean_degrees, 0.8);
    EXPECT_LT(after.mean_degrees, 0.25 * before.mean_degrees);
    EXPECT_LT(after.largest_degrees, 0.4);
    EXPECT_EQ(poses[0].second_moment, 0);
    for (int k = 0; k < POSE_METRIC_VALUES; k++) // of the same points in 128 x 128 pixels
        EXPECT_NEAR(poses[0].metric[k], measured.metric[k], 1e-3 * std::abs(measured.metric[k]) + 1e-3);

    // No level: nothing happens.
    const refined_pose kept = poses[0];
    const pose_levels none = {group, nullptr, 0, 0, 40, 0.25, nullptr, nullptr, nullptr};
    EXPECT_DONE(pose_levels_refine(poses.data(), views, count, &settings, &none, &why));
    EXPECT_EQ(memcmp(&poses[0], &kept, sizeof kept), 0);

    // The scene of a size has MCMC's density control: its penalty changes opacities, and with them the poses.
    settings.rates.opacity_logit = 0.05f;
    settings.policy = {DISTWAR_FIXED, 0};            // else equal runs differ in bits
    owned<picture_cache, picture_cache_close> cache; // says of what size the pictures are that come
    EXPECT_DONE(picture_cache_open(&cache, views, count, false, 0, &why));
    levels.pictures = &cache, levels.steps = 3 * count, levels.rate = 0.25;
    for (int k = 0; k < 2; k++) {
        settings.density.mcmc.opacity_weight = k;
        EXPECT_DONE(poses_start_in(poses.data(), views, count, &start.state, &why));
        EXPECT_DONE(pose_levels_refine(poses.data(), views, count, &settings, &levels, &why));
        now[size_t(k)] = poses[0].now;
    }
    EXPECT_NE(memcmp(&now[0], &now[1], sizeof(pose)), 0);
    EXPECT_EQ(cache.form.factor, 2);
}

TEST(PoseLevels, LeaveSixtyFourPixelsEachWay) {
    const std::tuple<int, int, int, int> cases[] = {
        // width of one view, height of another; levels: wanted, possible
        {1024, 1024, 3, 3},
        {1024, 1024, 9, 4},
        {1024, 255, 9, 1},
        {127, 255, 9, 0}};
    for (const auto &[width, height, wanted, possible] : cases) {
        std::vector<target_view> views = circle(2, 1024);
        views[0].camera.width = width, views[1].camera.height = height;
        EXPECT_EQ(pose_levels_of(views.data(), 2, wanted), possible) << width << " x " << height;
    }
}

} // namespace camera_test
