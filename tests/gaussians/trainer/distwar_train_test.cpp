// SPDX-License-Identifier: MIT
// libdistwar_train through its header: whole runs, saved and resumed, and what it refuses.
#include "distwar_train.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace distwar_train_test {

constexpr int views_in_all = 4, size = 32, points_in_all = 60;

class Library : public testing::Test {
  protected:
    std::vector<uint8_t> pixels[views_in_all];
    distwar_train_view views[views_in_all] = {};
    float points[points_in_all][3] = {};
    uint8_t colors[points_in_all][3] = {};
    distwar_train_data data = {};
    distwar_train_settings settings = distwar_train_defaults();

    void SetUp() override {
        for (int v = 0; v < views_in_all; v++) {
            gs_camera &c = views[v].camera;
            c.width = c.height = size, c.fx = c.fy = size, c.cx = c.cy = size / 2, c.near_plane = 0.2f;
            for (int k = 0; k < 3; k++) c.rotation[4 * k] = 1;
            c.translation[0] = 0.1f * float(v), c.translation[2] = 4;
            pixels[v].resize(3 * size * size);
            for (size_t i = 0; i < pixels[v].size(); i++)
                pixels[v][i] = uint8_t(127 + 100 * std::sin(0.03 * double(i) + v));
            views[v].pixels = pixels[v].data();
        }
        for (int i = 0; i < points_in_all; i++) {
            points[i][0] = float(i % 10) / 4 - 1.1f, points[i][1] = float(i / 10) / 3 - 1,
            points[i][2] = 0.01f * float(i);
            colors[i][i % 3] = 200;
        }
        data.views = views, data.view_count = views_in_all;
        data.points = points, data.colors = colors, data.point_count = points_in_all;
        settings.iterations = 12, settings.sh_degree = 1, settings.exposure = true,
        settings.reproducible = true;
    }
    distwar_trainer *open() const {
        distwar_trainer *const t = distwar_trainer_open(&data, &settings);
        EXPECT_NE(t, nullptr) << distwar_train_error();
        return t;
    }
    static void train(distwar_trainer *t, int64_t until = INT64_MAX) {
        distwar_train_progress now = {};
        while (!distwar_trainer_is_over(t) && now.views < until)
            ASSERT_TRUE(distwar_trainer_step(t) && distwar_trainer_progress(t, &now))
                << distwar_train_error();
    }
    // The scene, of SH degree 1, as bytes.
    static std::vector<float> scene(distwar_trainer *t) {
        distwar_train_progress now;
        EXPECT_TRUE(distwar_trainer_progress(t, &now)) << distwar_train_error();
        const size_t n = size_t(now.gaussians);
        std::vector<float> all(n * (3 + 3 + 4 + 1 + 12));
        gs_gaussians out = {};
        out.count = now.gaussians, out.sh_degree = now.sh_degree;
        out.mean = all.data(), out.log_scale = out.mean + 3 * n, out.quaternion = out.log_scale + 3 * n;
        out.opacity_logit = out.quaternion + 4 * n, out.sh = out.opacity_logit + n;
        EXPECT_TRUE(distwar_trainer_scene(t, &out)) << distwar_train_error();
        return all;
    }
    void refuses(const char *text) const {
        EXPECT_EQ(distwar_trainer_open(&data, &settings), nullptr);
        EXPECT_NE(std::string(distwar_train_error()).find(text), std::string::npos) << distwar_train_error();
    }
};

TEST_F(Library, ASavedRunEndsAsIfItHadGoneOn) {
    distwar_trainer *const whole = open();
    train(whole);
    distwar_trainer *const half = open();
    train(half, 6);
    std::string saved;
    const auto keep = [](void *to, const void *bytes, size_t count) {
        static_cast<std::string *>(to)->append(static_cast<const char *>(bytes), count);
        return true;
    };
    ASSERT_TRUE(distwar_trainer_save(half, keep, &saved)) << distwar_train_error();
    distwar_trainer *const resumed = open();
    EXPECT_FALSE(distwar_trainer_resume(resumed, saved.data(), saved.size() - 1));
    EXPECT_NE(std::string(distwar_train_error()).find("truncated"), std::string::npos)
        << distwar_train_error();
    ASSERT_TRUE(distwar_trainer_resume(resumed, saved.data(), saved.size())) << distwar_train_error();
    EXPECT_NE(scene(resumed), scene(whole));
    train(resumed);
    EXPECT_EQ(scene(resumed), scene(whole));
    std::vector<uint8_t> rgb[2];
    for (int k = 0; k < 2; k++) {
        rgb[k].resize(3 * size * size);
        ASSERT_TRUE(distwar_trainer_picture(k ? resumed : whole, &views[1].camera, rgb[k].data()));
    }
    EXPECT_EQ(rgb[0], rgb[1]);
    EXPECT_NE(rgb[0], std::vector<uint8_t>(3 * size * size, 0));
    const auto refuse = [](void *, const void *, size_t) { return false; };
    EXPECT_FALSE(distwar_trainer_save(whole, refuse, nullptr));
    // Another run is not resumed, and goes on as it was.
    settings.seed = 5;
    distwar_trainer *const other = open();
    EXPECT_FALSE(distwar_trainer_resume(other, saved.data(), saved.size()));
    EXPECT_NE(std::string(distwar_train_error()).find("seed 0; this run has seed 5"), std::string::npos);
    EXPECT_FALSE(distwar_trainer_resume(other, nullptr, 0));
    train(other);
    for (distwar_trainer *t : {whole, half, resumed, other}) distwar_trainer_close(t);
}

TEST_F(Library, NearPlanesMayFollowFromTheCameras) {
    for (distwar_train_view &view : views) view.camera.near_plane = 0;
    distwar_trainer *const t = open();
    gs_camera camera;
    for (size_t i = 0; i < views_in_all; i++) {
        ASSERT_TRUE(distwar_trainer_camera(t, i, &camera)) << distwar_train_error();
        EXPECT_NEAR(camera.near_plane, 0.15 / 30, 1e-8); // the cameras are 0.1 apart
    }
    train(t);
    distwar_trainer_close(t);
    views[2].camera.near_plane = 0.2f;
    refuses("some cameras have a near plane, others have none");
}

// Measured until three quarters of the training, and then as all others.
TEST_F(Library, ViewsThatAreSetAsideAreMeasured) {
    settings.validate = 1;
    distwar_trainer *const t = open();
    distwar_train_validation first = {}, last = {};
    ASSERT_TRUE(distwar_trainer_validate(t, &first)) << distwar_train_error();
    EXPECT_EQ(first.views, 1u);
    EXPECT_TRUE(first.psnr > 0 && first.ssim > 0 && first.trained_psnr > 0 && first.trained_ssim > 0);
    train(t, 8);
    ASSERT_TRUE(distwar_trainer_validate(t, &last)) << distwar_train_error();
    EXPECT_GT(last.trained_psnr, first.trained_psnr);
    train(t);
    ASSERT_TRUE(distwar_trainer_validate(t, &last)) << distwar_train_error();
    EXPECT_EQ(last.views, 0u);
    distwar_trainer_close(t);
    settings.validate = 3;
    refuses("more than half");
    settings.validate = -2;
    refuses("out of range");
}

TEST_F(Library, TermsOfTheLossHaveNamesAndWeights) {
    EXPECT_STREQ(distwar_train_term(0), "depth");
    for (int term : {-1, 1, int(DISTWAR_TRAIN_TERMS)}) EXPECT_EQ(distwar_train_term(term), nullptr) << term;
    for (const double weight : {-1.0, double(INFINITY), double(NAN)}) {
        settings.weights[0] = weight;
        refuses("the weight of depth must be above 0");
    }
}

TEST_F(Library, SaysWhatItRefuses) {
    settings.density = "nonesuch";
    refuses("no density control 'nonesuch'");
    settings.density = nullptr, settings.budget = 1;
    refuses("--reproducible excludes --budget");
    settings.budget = NAN;
    refuses("out of range");
    settings.budget = 0, data.point_count = 0;
    refuses("neither points nor Gaussians");
    data.view_count = 0;
    refuses("no view");
    EXPECT_FALSE(distwar_trainer_step(nullptr));
    EXPECT_TRUE(distwar_trainer_is_over(nullptr));
    distwar_trainer_close(nullptr);
}

} // namespace distwar_train_test
