// SPDX-License-Identifier: MIT
// Given colours of other than three channels against the reference, with the kernels' decisions replayed.
#include "blend_cases.h"
#include <cmath>
#include <cstring>
#include <string>
#ifdef DISTWAR_SIMT
#include <simt.h>
#endif

namespace {

// A frame whose Gaussians have random colours, some negative.
class channel_frame {
  public:
    channel_frame(const scene_choice &choice, int channels_)
        : channels(channels_), frame(choice),
          host_colors(random_floats(41, size_t(choice.count * channels_), -0.5f, 1)),
          background(random_floats(42, size_t(channels_), -1, 1)), colors(host_colors),
          image(size_t(channels_ * frame.pixels())), d_colors(host_colors.size()),
          d_color(random_floats(43, size_t(channels_ * frame.pixels()), -1, 1)),
          d_alpha(random_floats(44, size_t(frame.pixels()), -1, 1)),
          d_depth(random_floats(45, size_t(frame.pixels()), -1, 1)), depth_gradient(d_depth),
          abs_mean2d(size_t(2 * choice.count)) {
        taken = frame.decisions();
        splats = frame.reference_splats(taken);
        gs_view &view = frame.view;
        view.gaussians.color = colors.data(), view.gaussians.channels = channels;
        view.gaussians.sh = NULL;
        view.channel_background = background.data();
        view.image.color = image.data(), view.image.depth = frame.depth.data();
        view.normalize_depth = channels % 2;
        view.inverse_depth = channels % 4 >= 2;
        EXPECT_GS_OK(gs_project(&view, NULL));
        EXPECT_GS_OK(gs_render(&view, NULL));
        wide_colors.assign(host_colors.begin(), host_colors.end());
        wide_background.assign(background.begin(), background.end());
    }

    reference_blend blend() const {
        reference_blend all = frame.blend(taken, splats);
        all.channels = channels, all.color = wide_colors.data(), all.background = wide_background.data();
        return all;
    }
    // Whether there are absolute gradients: not of more channels.
    bool has_absolute() const { return channels <= 32; }
    gs_gradient extras() const {
        gs_gradient out = {};
        out.gaussians.color = d_colors.data();
        out.depth = depth_gradient.data();
        if (has_absolute()) out.abs_mean2d = abs_mean2d.data();
        return out;
    }
    void reference_gradients(std::vector<reference_splat_gradient> *of_splats,
                             std::vector<double> *of_colors) const {
        const std::vector<double> color(d_color.begin(), d_color.end()),
            alpha(d_alpha.begin(), d_alpha.end()), depth(d_depth.begin(), d_depth.end());
        const reference_image_gradient d_image = {color.data(), alpha.data(), depth.data()};
        const reference_blend all = blend();
        of_splats->resize(size_t(frame.choice.count));
        of_colors->resize(host_colors.size());
        reference_render_backward(&all, &d_image, of_splats->data(), of_colors->data());
    }
    // Moments, and the gradients of the colours behind them.
    std::vector<float> backward(distwar_policy policy, const gs_gradient &with) const {
        const std::vector<float> unwritten(host_colors.size(), NAN);
        device_upload(d_colors.data(), unwritten.data(), unwritten.size() * sizeof(float));
        std::vector<float> all = frame.backward(d_color, d_alpha, policy, with);
        const std::vector<float> of_colors = d_colors.read();
        all.insert(all.end(), of_colors.begin(), of_colors.end());
        return all;
    }

    int channels;
    kernel_frame frame;
    std::vector<float> host_colors, background;
    device_vector<float> colors, image, d_colors;
    std::vector<float> d_color, d_alpha, d_depth;
    device_vector<float> depth_gradient, abs_mean2d;
    held_decisions taken;
    std::vector<reference_splat> splats;
    std::vector<double> wide_colors, wide_background;
};

const scene_choice small_scene = {2, 128, 1, 1, 50, 37};

class Channels : public testing::TestWithParam<int> {};

TEST_P(Channels, TheImageAgreesWithTheReference) {
    channel_frame f(small_scene, GetParam());
    for (const gs_splat &splat : f.frame.splats.read()) ASSERT_EQ(splat.color[0], 0);
    const rendered expected(f.blend());
    for (const int pixels : {1, 2, 4})
        for (const bool depth : {false, true}) {
            f.frame.view.ranges.pixels_per_thread = pixels;
            f.frame.view.image.depth = depth ? f.frame.depth.data() : NULL;
            ASSERT_GS_OK(gs_render(&f.frame.view, NULL));
            const std::vector<float> color = f.image.read(), of_depth = f.frame.depth.read();
            for (size_t i = 0; i < color.size(); i++)
                ASSERT_NEAR(color[i], expected.color[i], 1e-5) << "value " << i;
            for (int64_t i = 0; i < f.frame.pixels(); i++) ASSERT_NEAR(of_depth[i], expected.depth[i], 1e-4);
        }
}

// The kernels without depth and absolute gradients are others.
TEST_P(Channels, GradientsAgreeWithTheReferenceByEveryReduction) {
    for (const bool extras : {true, false}) {
        channel_frame f(small_scene, GetParam());
        if (!extras) f.d_depth.assign(f.d_depth.size(), 0);
        std::vector<reference_splat_gradient> gradients;
        std::vector<double> color_gradients;
        f.reference_gradients(&gradients, &color_gradients);
        gs_gradient plain = {};
        plain.gaussians.color = f.d_colors.data();
        for (const blend_case &w : blend_cases) {
            if (f.channels > 4 && w.pixels_per_thread != 2) continue; // there are no other kernels
            if (!extras && w.strategy == DISTWAR_SERIAL) continue;
            SCOPED_TRACE(testing::Message() << w << (extras ? ", extras" : ""));
            divide(&f.frame.view.ranges, w);
            const std::vector<float> all =
                f.backward({w.strategy, w.balance_threshold}, extras ? f.extras() : plain);
            const bool undefined = extras && !f.has_absolute(); // the absolute sums
            expect_moments(all, f.splats, gradients, GS_CHANNELS,
                           undefined ? GS_SPLAT_GRAD_SUMS + 1 : int(GS_SPLAT_GRAD_STRIDE),
                           [&](int k) { return extras || k < GS_SPLAT_GRAD_SUMS; });
            const auto of_colors = all.begin() + f.frame.choice.count * GS_SPLAT_GRAD_STRIDE;
            EXPECT_LE(relative_norm({of_colors, all.end()}, color_gradients), 1e-4) << "colours";
        }
    }
}

// Every step of 1, 4, 8, 16 and 32 channels, full and padded; and two passes.
INSTANTIATE_TEST_SUITE_P(Steps, Channels, testing::Values(1, 2, 4, 5, 8, 13, 16, 31, 32, 35),
                         [](const auto &info) { return std::to_string(info.param); });

// Through the projection as well.
TEST(ChannelsOfAView, ParametersHaveTheGradientsOfTheReference) {
    channel_frame f(small_scene, 8);
    std::vector<reference_splat_gradient> gradients;
    std::vector<double> color_gradients;
    f.reference_gradients(&gradients, &color_gradients);
    const int64_t n = f.frame.choice.count;
    view_step step(f.frame);
    const device_vector<float> d_color(f.d_color), d_alpha(f.d_alpha);
    const gs_gradient extras = f.extras();
    step.gradient.gaussians.color = extras.gaussians.color;
    step.gradient.depth = extras.depth, step.gradient.abs_mean2d = extras.abs_mean2d;
    step.gradient.color = d_color.data(), step.gradient.alpha = d_alpha.data();
    ASSERT_GS_OK(gs_backward(&f.frame.view, &step.gradient, {DISTWAR_TREE, 0}, NULL));

    reference_gaussians expected = reference_gaussians_create(n, f.frame.choice.sh_degree);
    for (int64_t i = 0; i < n; i++) {
        for (double &channel : gradients[i].color)
            channel = 0; // of the splat's own colour, which is not read
        reference_project_backward(&f.frame.scene.gaussians, i, f.frame.choice.sh_degree_used,
                                   &f.frame.scene.camera, &f.taken.splats[i], &gradients[i], &expected);
    }
    reference_gaussians got = step.gradients.read();
    for (const group_error &error : group_errors(got, expected))
        EXPECT_TRUE(error.value <= 1e-4 || error.what == std::string("sh")) << error.what; // sh: not read
    const std::vector<float> of_colors = f.d_colors.read();
    EXPECT_LE(relative_norm({of_colors.begin(), of_colors.end()}, color_gradients), 1e-4);
    reference_gaussians_destroy(&expected);
    reference_gaussians_destroy(&got);
}

TEST(ChannelsOfAView, ThreeGivenChannelsAreThoseOfTheSplats) {
    const scene_choice given = {10, 128, 1, 1, 40, 56, true, false};
    kernel_frame frame(given);
    const std::vector<float> color = frame.color.read();
    frame.view.gaussians.channels = GS_CHANNELS;
    ASSERT_GS_OK(gs_project(&frame.view, NULL));
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    EXPECT_EQ(frame.color.read(), color);
}

TEST(ChannelsOfAView, FixedHasTheSameBitsInEveryRun) {
    const channel_frame f(small_scene, 13);
    std::vector<float> first;
    for (int run = 0; run < 4; run++) {
#ifdef DISTWAR_SIMT
        simt_set_seed(uint64_t(run));
#endif
        const std::vector<float> all = f.backward({DISTWAR_FIXED, 0}, f.extras());
        if (run == 0) first = all;
        EXPECT_EQ(memcmp(all.data(), first.data(), all.size() * sizeof(float)), 0) << run;
    }
#ifdef DISTWAR_SIMT
    simt_set_seed(0);
#endif
}

TEST(ChannelsOfAView, FixedMakesNothingOfWhatIsNotFinite) {
    channel_frame f(small_scene, 35);
    for (std::vector<float> *const gradient : {&f.d_color, &f.d_alpha}) {
        const float good = gradient->back();
        gradient->back() = NAN;
        const std::vector<float> all = f.backward({DISTWAR_FIXED, 0}, f.extras());
        gradient->back() = good;
        for (int64_t i = 0; i < f.frame.choice.count; i++)
            ASSERT_TRUE(std::isnan(all[i * GS_SPLAT_GRAD_STRIDE + GS_CHANNELS])) << i;
        for (size_t i = size_t(f.frame.choice.count) * GS_SPLAT_GRAD_STRIDE; i < all.size(); i++)
            ASSERT_TRUE(std::isnan(all[i])) << i;
    }
}

TEST(ChannelsOfAView, NothingVisibleIsTheBackgroundAndHasNoGradient) {
    channel_frame f(small_scene, 5);
    own_view view(f.frame.view);
    view.camera.translation[2] = -1000;
    ASSERT_GS_OK(gs_project(&view, NULL));
    ASSERT_GS_OK(gs_bin(&view, NULL));
    ASSERT_GS_OK(gs_settle(&view, NULL));
    ASSERT_EQ(view.isects_needed, 0);
    ASSERT_GS_OK(gs_render(&view, NULL));
    const std::vector<float> image = f.image.read();
    for (size_t i = 0; i < image.size(); i++) ASSERT_EQ(image[i], f.background[i / size_t(f.frame.pixels())]);
    f.frame.view = view, f.frame.view.memory = {};
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_FIXED})
        for (const float value : f.backward({strategy, 0}, f.extras())) ASSERT_EQ(value, 0);
    view.channel_background = NULL;
    ASSERT_GS_OK(gs_render(&view, NULL));
    for (const float value : f.image.read()) ASSERT_EQ(value, 0);
}

TEST(ChannelsOfAView, BadArgumentsAreNamed) {
    channel_frame f(small_scene, 5);
    gs_view &view = f.frame.view;
    for (const int channels : {-1, GS_MAX_CHANNELS + 1}) {
        view.gaussians.channels = channels;
        expect_refused(gs_project(&view, NULL), "gs_project: channels must be in 0..1024");
        expect_refused(gs_render(&view, NULL), "gs_render: channels must be in 0..1024");
        expect_refused(gs_bin(&view, NULL), "gs_bin: channels must be in 0..1024");
    }
    view.gaussians.channels = 5, view.gaussians.color = NULL;
    expect_refused(gs_project(&view, NULL), "gs_project: color must be given unless there are 3 channels");
    expect_refused(gs_render(&view, NULL), "gs_render: color must be given unless there are 3 channels");
    view.gaussians.color = f.colors.data();

    const device_vector<float> d_color(f.d_color);
    const device_vector<char> splat_grad(size_t(1) << 20);
    gs_gradient gradient = {};
    gradient.color = d_color.data();
    gradient.splat_grad = reinterpret_cast<gs_splat_grad *>(splat_grad.data());
    expect_refused(
        gs_render_backward(&view, &gradient, {DISTWAR_TREE, 0}, NULL),
        "gs_render_backward: gaussians.color of the gradient must be given unless there are 3 channels");
    gradient.gaussians.color = f.d_colors.data();
    EXPECT_GS_OK(gs_render_backward(&view, &gradient, {DISTWAR_TREE, 0}, NULL));
    EXPECT_GS_OK(gs_render_backward(&view, &gradient, {DISTWAR_FIXED, 0}, NULL));
    view.gaussians.channels = 33, gradient.abs_mean2d = f.abs_mean2d.data();
    expect_refused(gs_render_backward(&view, &gradient, {DISTWAR_TREE, 0}, NULL),
                   "gs_render_backward: abs_mean2d needs 32 channels or fewer");
}

} // namespace
