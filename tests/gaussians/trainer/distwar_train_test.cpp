// SPDX-License-Identifier: MIT
// libdistwar_train through its header: whole runs, saved and resumed, and what it refuses.
#include "distwar_train.h"
#include "training_cloud.h"
#include <string>

namespace distwar_train_test {

constexpr int views_in_all = 4, size = 32, points_in_all = 60;

class Library : public testing::Test {
  protected:
    const cloud c{points_in_all, size, size};
    distwar_train_view views[views_in_all] = {};
    uint8_t colors[points_in_all][3] = {};
    distwar_train_data data = {};
    std::vector<const char *> settings = {"iterations=12", "sh-degree=1",
                                          "reproducible=1"}; // ends with NULL when used

    void SetUp() override {
        for (size_t v = 0; v < views_in_all; v++) {
            views[v].camera = c.views[v].camera, views[v].pixels = c.pictures[v].pixels;
            views[v].camera.translation[0] = 0.1f * float(v), views[v].camera.translation[2] = 4;
        }
        for (int i = 0; i < points_in_all; i++) colors[i][i % 3] = 200;
        data.views = views, data.view_count = views_in_all;
        data.points = reinterpret_cast<const float(*)[3]>(c.host.mean), data.colors = colors,
        data.point_count = points_in_all;
    }
    distwar_trainer *try_open() const {
        std::vector<const char *> ended = settings;
        ended.push_back(nullptr);
        return distwar_trainer_open(&data, ended.data());
    }
    distwar_trainer *open() const {
        distwar_trainer *const t = try_open();
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
    static void expect_error(const std::string &text) {
        EXPECT_NE(std::string(distwar_train_error()).find(text), std::string::npos)
            << "no '" << text << "' in: " << distwar_train_error();
    }
};

TEST_F(Library, ASavedRunEndsAsIfItHadGoneOn) {
    distwar_trainer *const whole = open(), *const half = open(), *const resumed = open();
    train(whole);
    train(half, 6);
    std::string saved;
    const auto keep = [](void *to, const void *bytes, size_t count) {
        static_cast<std::string *>(to)->append(static_cast<const char *>(bytes), count);
        return true;
    };
    ASSERT_TRUE(distwar_trainer_save(half, keep, &saved)) << distwar_train_error();
    EXPECT_FALSE(distwar_trainer_resume(resumed, saved.data(), saved.size() - 1));
    expect_error("truncated");
    ASSERT_TRUE(distwar_trainer_resume(resumed, saved.data(), saved.size())) << distwar_train_error();
    EXPECT_NE(scene(resumed), scene(whole));
    train(resumed);
    EXPECT_EQ(scene(resumed), scene(whole));
    const auto refuse = [](void *, const void *, size_t) { return false; };
    EXPECT_FALSE(distwar_trainer_save(whole, refuse, nullptr));
    // Another run is not resumed, and goes on as it was.
    settings.push_back("seed=5");
    distwar_trainer *const other = open();
    EXPECT_FALSE(distwar_trainer_resume(other, saved.data(), saved.size()));
    expect_error("seed 0; this run has seed 5");
    EXPECT_FALSE(distwar_trainer_resume(other, nullptr, 0));
    train(other);
    for (distwar_trainer *t : {whole, half, resumed, other}) distwar_trainer_close(t);
}

// Measured until three quarters of the training, and then as all others.
TEST_F(Library, ViewsThatAreSetAsideAreMeasured) {
    settings.push_back("validate=1");
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
}

TEST_F(Library, SaysWhatItRefuses) {
    const float far[1][3] = {{0, NAN, 0}};
    const std::string weight = "--depth-weight must be 1e-06..1000000, not '-1'";
    const auto given = [&](const char *setting) { return [this, setting] { settings.push_back(setting); }; };
    const std::pair<std::function<void()>, std::string> cases[] = {
        {given("depth-weight=-1"), weight},
        {given("depth-weight=inf"), "--depth-weight needs a finite number, not 'inf'"},
        {given("validate=3"), "more than half"},
        {given("validate=-2"), "--validate must be auto or at least 0, not '-2'"},
        {given("density=nonesuch"),
         "--density must be one of none, adaptive, mcmc, split, auto, not 'nonesuch'"},
        {given("budget=1"), "--reproducible excludes --budget"},
        {given("budget=nan"), "--budget needs a finite number, not 'nan'"},
        {given("antialias=yes"), "antialias must be 0 or 1, not 'yes'"},
        {given("background=1,2"), "1,2"},
        {given("seed"), "there is no setting 'seed'"},
        {given("see=3"), "there is no setting 'see=3'"},
        {[&] { views[2].camera.near_plane = 0; }, "some cameras have a near plane, others have none"},
        // What files may not hold: no pixels, mirrors, scales, skew, what is not finite.
        {[&] { views[2].camera.width = 0; }, "view 2 has no pixels"},
        {[&] { views[2].camera.fx = NAN; }, "view 2 has focal lengths nan"},
        {[&] { views[2].camera.rotation[0] *= -1; }, "view 2: not a rotation"},
        {[&] {
             for (float &entry : views[2].camera.rotation) entry *= 2;
         },
         "view 2 has a rotation times 2"},
        {[&] { views[2].camera.rotation[1] += 0.1f; }, "view 2: not a rotation"},
        {[&] { views[2].camera.rotation[4] = NAN; }, "view 2: not a rotation"},
        {[&] { views[2].camera.translation[1] = INFINITY; }, "view 2 has the translation 0.2, inf"},
        {[&] { data.points = far, data.point_count = 1; }, "point 0 is not finite"},
        {[&] { data.point_count = 0; }, "neither points nor Gaussians"},
        {[&] { data.view_count = 0; }, "no view"}};
    const std::vector<const char *> good = settings;
    const distwar_train_data whole = data;
    const distwar_train_view view = views[2];
    for (const auto &[change, text] : cases) {
        change();
        EXPECT_EQ(try_open(), nullptr) << text;
        expect_error(text);
        settings = good, data = whole, views[2] = view;
    }
    EXPECT_TRUE(distwar_train_check(nullptr));
    EXPECT_FALSE(distwar_trainer_step(nullptr));
    EXPECT_TRUE(distwar_trainer_is_over(nullptr));
    distwar_trainer_close(nullptr);
}

} // namespace distwar_train_test
