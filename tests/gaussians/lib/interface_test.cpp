// SPDX-License-Identifier: MIT
// What gs.h promises beyond the stages: the whole way as one call each, inputs that are given instead of
// stored parameters, radii, visibility, and errors that say what is wrong.
#include "kernel_frame.h"

#include <cmath>
#include <string>

namespace {

// A gs_frame of a scene with memory of its own, and the frame of the stages to compare it with.
class whole_frame {
  public:
    explicit whole_frame(const scene_choice &choice)
        : stages(choice), color(sentinels(3 * stages.pixels())), transmittance(sentinels(stages.pixels())),
          consumed(std::vector<uint32_t>(size_t(stages.pixels()), 12345)), frame{} {
        frame.gaussians = *stages.gaussians.get();
        frame.sh_degree_used = choice.sh_degree_used;
        frame.camera = stages.camera;
        std::copy_n(stages.background, 3, frame.background);
        frame.image = {color.data(), transmittance.data(), consumed.data()};
    }
    gs_status forward(int64_t pair_capacity) {
        frame.pair_capacity = pair_capacity;
        EXPECT_GS_OK(gs_frame_workspace(&frame, &frame.workspace_bytes));
        workspace = std::make_unique<device_vector<char>>(frame.workspace_bytes);
        frame.workspace = workspace->data();
        return gs_forward(&frame, NULL);
    }
    static std::vector<float> sentinels(int64_t size) { return std::vector<float>(size_t(size), 12345); }

    kernel_frame stages;
    device_vector<float> color, transmittance;
    device_vector<uint32_t> consumed;
    std::unique_ptr<device_vector<char>> workspace;
    gs_frame frame;
};

const scene_choice some_scene = {21, 160, 2, 2, 61, 47};

bool last_error_has(const char *text) {
    return std::string(gs_last_error()).find(text) != std::string::npos;
}

TEST(Interface, ForwardIsTheStages) {
    whole_frame whole(some_scene);
    const int64_t pairs = whole.stages.lists.pairs;
    ASSERT_GT(pairs, 100);
    for (const int64_t capacity : {pairs, pairs + 1000}) {
        ASSERT_GS_OK(whole.forward(capacity));
        EXPECT_EQ(whole.frame.pairs_needed, pairs);
        EXPECT_EQ(whole.frame.lists.pairs, pairs);
        EXPECT_EQ(whole.color.read(), whole.stages.color.read());
        EXPECT_EQ(whole.transmittance.read(), whole.stages.transmittance.read());
        EXPECT_EQ(whole.consumed.read(), whole.stages.consumed.read());
    }
}

TEST(Interface, PairsThatDoNotFitAreCountedAndNothingIsWritten) {
    whole_frame whole(some_scene);
    const int64_t pairs = whole.stages.lists.pairs;
    for (const int64_t capacity : {int64_t(0), pairs - 1}) {
        EXPECT_EQ(whole.forward(capacity), GS_PAIRS_DO_NOT_FIT);
        EXPECT_TRUE(last_error_has(std::to_string(pairs).c_str())) << gs_last_error();
        EXPECT_EQ(whole.frame.pairs_needed, pairs);
        EXPECT_EQ(whole.frame.splats, nullptr);
        EXPECT_EQ(whole.frame.lists.tile_begin, nullptr);
        EXPECT_EQ(whole.color.read(), whole_frame::sentinels(3 * whole.stages.pixels()));
        EXPECT_EQ(whole.transmittance.read(), whole_frame::sentinels(whole.stages.pixels()));
        EXPECT_EQ(whole.consumed.read(), std::vector<uint32_t>(size_t(whole.stages.pixels()), 12345));
    }
    EXPECT_GS_OK(whole.forward(whole.frame.pairs_needed));
}

TEST(Interface, BackwardIsTheStages) {
    whole_frame whole(some_scene);
    ASSERT_GS_OK(whole.forward(100000));
    const kernel_frame &stages = whole.stages;
    const int64_t count = some_scene.count;
    const std::vector<float> by_color = random_floats(1, size_t(3 * stages.pixels()), -1, 1),
                             by_alpha = random_floats(2, size_t(stages.pixels()), -1, 1);
    const device_vector<float> color_gradient(by_color), alpha_gradient(by_alpha);
    const device_vector<float> moments(stages.backward(by_color, by_alpha, GS_SERIAL, 4));
    const device_gaussians expected(count, some_scene.sh_degree);
    const device_vector<float> expected_mean2d(size_t(2 * count));
    ASSERT_GS_OK(gs_project_backward(stages.gaussians.get(), some_scene.sh_degree_used, &stages.camera,
                                     stages.splats.data(), moments.data(), expected.get(),
                                     expected_mean2d.data(), NULL));
    reference_gaussians wanted = expected.read();
    const std::vector<double> values(wanted.mean, wanted.mean + reference_gaussians_values(&wanted));
    const std::vector<float> wanted_mean2d = expected_mean2d.read();

    for (const bool with_mean2d : {true, false}) {
        const device_gaussians gradients(count, some_scene.sh_degree);
        const device_vector<float> mean2d(whole_frame::sentinels(2 * count));
        ASSERT_GS_OK(gs_backward(&whole.frame, color_gradient.data(), alpha_gradient.data(), GS_SERIAL, 4,
                                 gradients.get(), with_mean2d ? mean2d.data() : NULL, NULL));
        reference_gaussians got = gradients.read();
        // Sums by atomics: equal up to their order.
        EXPECT_LE(relative_norm({got.mean, got.mean + reference_gaussians_values(&got)}, values), 1e-5);
        reference_gaussians_destroy(&got);
        const std::vector<float> seen = mean2d.read();
        if (with_mean2d) {
            EXPECT_LE(relative_norm({seen.begin(), seen.end()}, {wanted_mean2d.begin(), wanted_mean2d.end()}),
                      1e-5);
        } else {
            EXPECT_EQ(seen, whole_frame::sentinels(2 * count));
        }
    }
    reference_gaussians_destroy(&wanted);
}

TEST(Interface, FramesThatCannotBeAreRefused) {
    whole_frame whole(some_scene);
    const device_vector<float> color_gradient(std::vector<float>(size_t(3 * whole.stages.pixels())));
    const device_gaussians gradients(some_scene.count, some_scene.sh_degree);
    const auto backward = [&] {
        return gs_backward(&whole.frame, color_gradient.data(), NULL, GS_BFLY, 0, gradients.get(), NULL,
                           NULL);
    };
    EXPECT_EQ(gs_forward(NULL, NULL), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_forward(&whole.frame, NULL), GS_INVALID_ARGUMENT);
    EXPECT_TRUE(last_error_has("gs_forward: the workspace")) << gs_last_error();
    EXPECT_EQ(backward(), GS_INVALID_ARGUMENT);
    EXPECT_TRUE(last_error_has("gs_backward: the frame is not as gs_forward left it")) << gs_last_error();
    ASSERT_GS_OK(whole.forward(100000));
    EXPECT_GS_OK(backward());
    whole.frame.workspace_bytes--;
    EXPECT_EQ(gs_forward(&whole.frame, NULL), GS_INVALID_ARGUMENT);
    whole.frame.workspace_bytes++;
    whole.frame.camera.height = 0;
    EXPECT_EQ(gs_forward(&whole.frame, NULL), GS_INVALID_ARGUMENT);
    EXPECT_TRUE(last_error_has("width and height")) << gs_last_error();
}

// One Gaussian in front of a camera of 32 x 32 pixels.
struct one_gaussian {
    one_gaussian() : values(reference_gaussians_create(1, 1)) {
        values.mean[2] = 5;
        values.quaternion[0] = 1;
        values.opacity_logit[0] = 1;
    }
    ~one_gaussian() { reference_gaussians_destroy(&values); }
    gs_splat seen() const {
        const device_gaussians gaussians(values);
        const device_vector<gs_splat> splats(1);
        EXPECT_GS_OK(gs_project(gaussians.get(), 1, &camera, splats.data(), NULL));
        return splats.read()[0];
    }
    reference_gaussians values;
    gs_camera camera = {32, 32, 30, 30, 16, 16, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}, 0.2f};
};

TEST(Interface, AScaleModifierMultipliesEveryScale) {
    one_gaussian one;
    const float plain = one.seen().whiten[2];
    one.values.scale_modifier = 1;
    EXPECT_EQ(one.seen().whiten[2], plain) << "0 counts as 1";
    one.values.scale_modifier = 0.25;
    const float modified = one.seen().whiten[2];
    for (int k = 0; k < 3; k++) one.values.log_scale[k] += std::log(0.25);
    one.values.scale_modifier = 0;
    EXPECT_NEAR(one.seen().whiten[2], modified, 1e-6f * modified);
    EXPECT_GT(modified, 2 * plain);
    for (const double bad : {-1.0, double(NAN), double(INFINITY)}) {
        one.values.scale_modifier = bad;
        const device_gaussians gaussians(one.values);
        const device_vector<gs_splat> splats(1);
        EXPECT_EQ(gs_project(gaussians.get(), 1, &one.camera, splats.data(), NULL), GS_INVALID_ARGUMENT);
        EXPECT_TRUE(last_error_has("gs_project: scale_modifier")) << gs_last_error();
    }
}

TEST(Interface, AGivenCovarianceNeedOnlyLookPositiveDefinite) {
    one_gaussian one;
    reference_gaussians_extend(&one.values, 0, 1);
    double *c = one.values.covariance; // xx, xy, xz, yy, yz, zz
    EXPECT_EQ(one.seen().depth, 5) << "zero: a point, of the size that every splat has at least";
    c[5] = -100;
    EXPECT_EQ(one.seen().depth, 5) << "negative along the line of sight";
    c[5] = 0, c[0] = c[3] = -1;
    EXPECT_EQ(one.seen().depth, 0) << "negative both ways, so that the determinant is positive";
    c[0] = 1;
    EXPECT_EQ(one.seen().depth, 0) << "negative in y";
    c[0] = c[3] = 1, c[1] = 2;
    EXPECT_EQ(one.seen().depth, 0) << "indefinite";
    c[1] = 0;
    ASSERT_EQ(one.seen().depth, 5);
    for (int k = 0; k < 6; k++)
        for (const double bad : {double(NAN), double(INFINITY)}) {
            const double good = c[k];
            c[k] = bad;
            EXPECT_EQ(one.seen().depth, 0) << "value " << k << " is " << bad;
            c[k] = good;
        }
    c[0] = c[3] = 1e30;
    EXPECT_EQ(one.seen().depth, 0) << "the determinant is too large for a float";
    // A diagonal needle of 2000 by 0 pixels: xx yy - xy^2 in floats would have no digit left.
    const double variance = double(float(1e5));
    c[0] = c[1] = c[3] = variance;
    const gs_splat needle = one.seen();
    ASSERT_EQ(needle.depth, 5);
    const double pixels = 36 * variance, determinant = 0.3 * (2 * pixels + 0.3);
    const double l0_l2 = 2 * M_LN2 * needle.whiten[0] * needle.whiten[2];
    EXPECT_NEAR(l0_l2 * l0_l2 * determinant, 1, 1e-4);
}

TEST(Interface, GivenColorsAreNotCut) {
    one_gaussian one;
    reference_gaussians_extend(&one.values, 1, 0);
    one.values.color[0] = -2, one.values.color[2] = 3;
    const gs_splat splat = one.seen();
    EXPECT_EQ(splat.color[0], -2);
    EXPECT_EQ(splat.color[1], 0);
    EXPECT_EQ(splat.color[2], 3);
    one.values.color[1] = NAN;
    EXPECT_EQ(one.seen().depth, 0);
}

TEST(Interface, MissingArraysAreNamed) {
    one_gaussian one;
    const device_gaussians gaussians(one.values);
    const device_vector<gs_splat> splats(1);
    const std::vector<float> zeros(GS_MOMENTS_STRIDE);
    const device_vector<float> given(zeros), moments(zeros);
    const auto project = [&](const gs_gaussians &g) {
        return gs_project(&g, 1, &one.camera, splats.data(), NULL);
    };
    const auto missing = [&](float *gs_gaussians::*member, const char *name) {
        gs_gaussians g = *gaussians.get();
        g.*member = NULL;
        EXPECT_EQ(project(g), GS_INVALID_ARGUMENT) << name;
        EXPECT_TRUE(last_error_has("gs_project: ") && last_error_has(name)) << gs_last_error();
    };
    missing(&gs_gaussians::mean, "mean");
    missing(&gs_gaussians::opacity_logit, "opacity_logit");
    missing(&gs_gaussians::log_scale, "log_scale");
    missing(&gs_gaussians::quaternion, "quaternion");
    missing(&gs_gaussians::sh, "sh");

    gs_gaussians g = *gaussians.get();
    g.color = g.covariance = given.data();
    g.sh = g.log_scale = g.quaternion = NULL;
    ASSERT_GS_OK(project(g));
    const auto backward = [&](const gs_gaussians *gradients) {
        return gs_project_backward(&g, 1, &one.camera, splats.data(), moments.data(), gradients, NULL, NULL);
    };
    // What a view did not read has no gradient; what it read must have one.
    EXPECT_EQ(backward(gaussians.get()), GS_INVALID_ARGUMENT);
    EXPECT_TRUE(last_error_has("gs_project_backward: ") && last_error_has("color")) << gs_last_error();
    const device_gaussians gradients(1, 1, true, true);
    EXPECT_GS_OK(backward(gradients.get()));

    // Replaced arrays may be there too, and are left alone, also where a Gaussian is culled.
    const device_vector<float> sh(std::vector<float>(12, 7)), log_scale(std::vector<float>(3, 7));
    gs_gaussians both = *gradients.get();
    both.sh = sh.data(), both.log_scale = log_scale.data();
    EXPECT_GS_OK(backward(&both));
    const device_vector<gs_splat> nothing(std::vector<gs_splat>(1));
    EXPECT_GS_OK(gs_project_backward(&g, 1, &one.camera, nothing.data(), moments.data(), &both, NULL, NULL));
    EXPECT_EQ(sh.read(), std::vector<float>(12, 7));
    EXPECT_EQ(log_scale.read(), std::vector<float>(3, 7));
}

TEST(Interface, RadiiAreThreeSigma) {
    const kernel_frame frame({22, 320, 0, 0, 90, 70});
    const int64_t count = frame.choice.count;
    const device_vector<int32_t> device_radii{size_t(count)};
    ASSERT_GS_OK(gs_radii(frame.splats.data(), count, 90, 70, device_radii.data(), NULL));
    const std::vector<int32_t> radii = device_radii.read();
    int seen = 0, off = 0, culled = 0;
    for (int64_t i = 0; i < count; i++) {
        reference_splat s;
        reference_project(&frame.scene.gaussians, i, 0, &frame.scene.camera, NULL, &s);
        if (!s.decisions.visible) {
            EXPECT_EQ(radii[i], 0) << i;
            culled++;
            continue;
        }
        const double a = s.covariance[0], b = s.covariance[1], c = s.covariance[2];
        const double exact = 3 * std::sqrt((a + c) / 2 + std::hypot((a - c) / 2, b)), half = std::ceil(exact);
        // How far the square reaches into the image.
        const double inside =
            std::min({s.mean[0] + half, 90 - s.mean[0] + half, s.mean[1] + half, 70 - s.mean[1] + half});
        if (std::abs(inside) < 1e-3 * (1 + half) || std::abs(exact - std::round(exact)) < 1e-3 * exact)
            continue; // could be rounded either way
        EXPECT_EQ(radii[i], inside > 0 ? int32_t(half) : 0) << i;
        (inside > 0 ? seen : off)++;
    }
    EXPECT_GT(seen, 100);
    EXPECT_GT(off, 3);
    EXPECT_GT(culled, 10);

    one_gaussian one;
    const device_vector<int32_t> radius(1);
    const auto radius_of_one = [&] {
        const device_vector<gs_splat> splat(std::vector<gs_splat>{one.seen()});
        EXPECT_GS_OK(gs_radii(splat.data(), 1, 32, 32, radius.data(), NULL));
        return radius.read()[0];
    };
    EXPECT_EQ(radius_of_one(), 19); // 3 sqrt(36.3)
    for (const int axis : {0, 1})
        for (const double side : {-1, 1}) {
            one.values.mean[axis] = side * 6; // 36 pixels from the middle of 32, the radius is 22
            EXPECT_GT(radius_of_one(), 0) << axis << " " << side;
            one.values.mean[axis] = side * 6.5; // 39
            EXPECT_EQ(radius_of_one(), 0) << axis << " " << side;
            one.values.mean[axis] = 0;
        }
    reference_gaussians_extend(&one.values, 0, 1);
    one.values.covariance[0] = one.values.covariance[3] = 1e16;
    EXPECT_EQ(radius_of_one(), 1 << 30);
    const device_vector<gs_splat> splat(1);
    EXPECT_EQ(gs_radii(splat.data(), 1, 32, 0, radius.data(), NULL), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_radii(splat.data(), 1, 32, 32, NULL, NULL), GS_INVALID_ARGUMENT);
    EXPECT_GS_OK(gs_radii(NULL, 0, 32, 32, NULL, NULL));
}

TEST(Interface, TheVisibilityMarkIsTheNearPlane) {
    const kernel_frame frame({23, 320, 0, 0, 60, 40});
    const int64_t count = frame.choice.count;
    gs_gaussians means = {};
    means.count = count;
    means.mean = frame.gaussians.get()->mean;
    const device_vector<uint8_t> device_marks{size_t(count)};
    ASSERT_GS_OK(gs_mark_visible(&means, &frame.camera, device_marks.data(), NULL));
    const std::vector<uint8_t> marks = device_marks.read();
    const std::vector<gs_splat> splats = frame.splats.read();
    int hidden = 0;
    for (int64_t i = 0; i < count; i++) {
        reference_splat s;
        reference_project(&frame.scene.gaussians, i, 0, &frame.scene.camera, NULL, &s);
        EXPECT_TRUE(s.near_margin < 1e-4 || marks[i] == (s.depth > frame.scene.camera.near_plane)) << i;
        EXPECT_LE(splats[i].depth > 0, marks[i]) << i;
        hidden += !marks[i];
    }
    EXPECT_GT(hidden, 3);
    EXPECT_LT(hidden, count / 2);

    const device_vector<float> lost(std::vector<float>{NAN, 0, 5, 0, 0, INFINITY, 0, 0, -INFINITY});
    means.count = 3, means.mean = lost.data();
    ASSERT_GS_OK(gs_mark_visible(&means, &frame.camera, device_marks.data(), NULL));
    const std::vector<uint8_t> none = device_marks.read();
    EXPECT_EQ(none[0] + none[1] + none[2], 0) << "a mean that is not finite";
    EXPECT_EQ(gs_mark_visible(&means, &frame.camera, NULL, NULL), GS_INVALID_ARGUMENT);
    EXPECT_TRUE(last_error_has("gs_mark_visible: ")) << gs_last_error();
}

} // namespace
