// SPDX-License-Identifier: MIT
// Several cameras in one call: the bits of single calls, and the sum of their gradients.
#include "kernel_frame.h"
#include <cmath>

namespace views_test {

// The scene's camera, moved and turned a little for each view.
std::vector<gs_camera> cameras_around(const gs_camera &first, int count) {
    std::vector<gs_camera> out(size_t(count), first);
    for (int v = 0; v < count; v++) {
        gs_camera &camera = out[size_t(v)];
        const float angle = 0.04f * float(v), c = std::cos(angle), s = std::sin(angle);
        float *const r = camera.rotation;
        for (int k = 0; k < 3; k++) {
            const float x = r[k], z = r[6 + k];
            r[k] = c * x + s * z, r[6 + k] = c * z - s * x;
        }
        camera.translation[0] += 0.05f * float(v);
        camera.translation[2] += 0.1f * float(v % 3);
        camera.fx *= 1 + 0.02f * float(v);
        camera.cy += float(v);
    }
    return out;
}

std::vector<double> part(const std::vector<float> &all, size_t size, int v) {
    return {all.begin() + int64_t(size) * v, all.begin() + int64_t(size) * (v + 1)};
}

// Of view v, whose values are those of one view.
void expect_same(const std::vector<float> &all, const std::vector<float> &one, int v, const char *what) {
    ASSERT_LE(one.size() * size_t(v + 1), all.size()) << what;
    ::expect_same(part(all, one.size(), v), doubles(one), what + (" of view " + std::to_string(v)), 1e-5);
}

// What a step of all cameras and one of each give.
class each_view {
  public:
    each_view(const kernel_frame &frame, int count, distwar_policy policy, bool extras)
        : cameras(cameras_around(frame.view.camera, count)), choice(frame.choice), like(frame.view),
          policy(policy), extras(extras), pixels(size_t(frame.pixels())),
          d_color(random_floats(7, 3 * pixels * cameras.size(), -1, 1)),
          d_alpha(random_floats(8, pixels * cameras.size(), -1, 1)),
          d_depth(random_floats(9, pixels * cameras.size(), -1, 1)), depth(pixels * cameras.size()),
          median(pixels * cameras.size()) {
        like.normalize_depth = 1;
        like.inverse_depth = policy.strategy == DISTWAR_FIXED;
    }
    std::unique_ptr<view_step> all() {
        like.views = {int32_t(cameras.size()), cameras.data()};
        return run(0);
    }
    std::unique_ptr<view_step> one(size_t v) {
        like.views = {}, like.camera = cameras[v];
        return run(v);
    }

  private:
    std::unique_ptr<view_step> run(size_t v) const {
        auto step = std::make_unique<view_step>(like, choice);
        step->gradient.color = d_color.data() + 3 * pixels * v;
        if (extras) {
            step->gradient.depth = d_depth.data() + pixels * v;
            step->gradient.abs_mean2d = step->abs_mean2d.data();
            step->view.image.depth = depth.data(), step->view.image.median_depth = median.data();
        } else {
            step->gradient.alpha = d_alpha.data() + pixels * v;
        }
        EXPECT_GS_OK(gs_forward(&step->view, NULL));
        step->backward(policy);
        return step;
    }
    std::vector<gs_camera> cameras;
    scene_choice choice;
    gs_view like;
    distwar_policy policy;
    bool extras;
    size_t pixels;
    device_vector<float> d_color, d_alpha, d_depth, depth, median;
};

std::vector<float> splats_of(const view_step &step) {
    return step.floats(step.splats.data(), int64_t(sizeof(gs_splat) / 4) * step.view.gaussians.count);
}

// extras: depths and absolute gradients too
void expect_single_views(const kernel_frame &frame, int count, distwar_policy policy, bool extras) {
    each_view of(frame, count, policy, extras);
    const auto depths = [](const view_step &step) {
        std::vector<std::vector<float>> both;
        for (const float *const of_step : {step.view.image.depth, step.view.image.median_depth})
            if (of_step) both.push_back(step.floats(of_step, step.pixels));
        return both;
    };
    const auto all = of.all();
    EXPECT_EQ(all->view.ranges.views, count);
    const std::vector<std::vector<float>> of_all = depths(*all); // all steps write them to the same place
    std::vector<float> sum(all->gradients.values().size());
    int64_t isects = 0;
    for (int v = 0; v < count; v++) {
        const auto one = of.one(size_t(v));
        isects += one->view.ranges.isects;
        expect_same(splats_of(*all), splats_of(*one), v, "splats");
        expect_same(all->color(), one->color(), v, "color");
        expect_same(all->transmittance(), one->transmittance(), v, "transmittance");
        expect_same(all->n_contrib(), one->n_contrib(), v, "n_contrib");
        const std::vector<std::vector<float>> of_one = depths(*one);
        for (size_t k = 0; k < of_one.size(); k++)
            expect_same(of_all[k], of_one[k], v, "depth or its median");
        const std::vector<float> own_moments = one->moments(), absolute = one->abs_mean2d.read();
        const std::vector<double> moments = part(all->moments(), own_moments.size(), v);
        EXPECT_LE(relative_norm(moments, part(own_moments, own_moments.size(), 0)), 1e-5);
        if (extras) {
            EXPECT_LE(relative_norm(part(all->abs_mean2d.read(), absolute.size(), v), doubles(absolute)),
                      1e-5);
        }
        // From equal moments: equal gradients.
        one->set_moments({moments.begin(), moments.end()});
        ASSERT_GS_OK(gs_project_backward(&one->view, &one->gradient, NULL));
        expect_same(all->mean2d.read(), one->mean2d.read(), v, "mean2d");
        const std::vector<double> own = one->gradients.values();
        for (size_t k = 0; k < sum.size(); k++) sum[k] += float(own[k]);
    }
    EXPECT_EQ(all->view.isects_needed, isects) << "lists with entries that no pixel shows";
    EXPECT_LE(relative_norm(all->gradients.values(), sum), 1e-6);
}

class Views : public testing::TestWithParam<scene_choice> {};

TEST_P(Views, AreTheSingleViewsAndTheSumOfTheirGradients) {
    const kernel_frame frame(GetParam());
    for (const int count : {1, 2, 5}) expect_single_views(frame, count, {DISTWAR_TREE, 4}, false);
}

INSTANTIATE_TEST_SUITE_P(Scenes, Views, testing::ValuesIn(comparison_scenes()));
INSTANTIATE_TEST_SUITE_P(Given, Views, testing::ValuesIn(scenes_with_given_inputs()));

const scene_choice some_scene = {21, 80, 1, 1, 45, 37};

TEST(ViewsEdges, DepthAndAbsoluteGradientsAreThoseOfSingleViews) {
    const kernel_frame frame(some_scene);
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_FIXED})
        expect_single_views(frame, 3, {strategy, 0}, true);
}

TEST(ViewsEdges, AnOverflowOfAnyViewIsOneOfAll) {
    const kernel_frame frame(some_scene);
    const std::vector<gs_camera> cameras = cameras_around(frame.view.camera, 3);
    gs_view like = frame.view;
    like.views = {3, cameras.data()};
    view_step all(like, some_scene);
    const device_vector<float> d_color(std::vector<float>(size_t(9 * all.pixels), 1));
    all.gradient.color = d_color.data();
    all.view.memory.isect_capacity = frame.view.ranges.isects; // those of one view
    all.queue();
    all.backward({DISTWAR_TREE, 0});
    EXPECT_EQ(gs_settle(&all.view, NULL), GS_ISECTS_DO_NOT_FIT);
    EXPECT_GT(all.view.isects_needed, frame.view.ranges.isects);
    for (const float value : all.color()) ASSERT_TRUE(std::isnan(value));
    for (const float value : all.transmittance()) ASSERT_TRUE(std::isnan(value));
    for (const double value : all.gradients.values()) ASSERT_EQ(value, 0);
}

} // namespace views_test
