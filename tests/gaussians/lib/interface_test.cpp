// SPDX-License-Identifier: MIT
// What distwar_gs.h promises beyond the stages: the whole way as one call each, inputs that are given instead of
// stored parameters, radii, visibility, and errors that say what is wrong.
#include "filled_context.h"
#include "kernel_frame.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace {

// A view of a scene with an image of its own and splats in its memory, and the stages to compare it with.
class whole_view {
  public:
    explicit whole_view(const scene_choice &choice)
        : stages(choice), color(sentinels(3 * stages.pixels())), transmittance(sentinels(stages.pixels())),
          n_contrib(std::vector<uint32_t>(size_t(stages.pixels()), 12345)),
          splat_grad(size_t(choice.count)), gradient{} {
        gradient.splat_grad = splat_grad.data();
        view.gaussians = *stages.gaussians.get();
        view.sh_degree_used = choice.sh_degree_used;
        view.camera = stages.view.camera;
        std::copy_n(stages.view.background, GS_CHANNELS, view.background);
        view.image.color = color.data(), view.image.transmittance = transmittance.data();
        view.image.n_contrib = n_contrib.data();
    }
    gs_status forward(int64_t isect_capacity) {
        view.memory.isect_capacity = isect_capacity;
        return gs_forward(&view, NULL);
    }
    static std::vector<float> sentinels(int64_t size) { return std::vector<float>(size_t(size), 12345); }

    kernel_frame stages;
    device_vector<float> color, transmittance;
    device_vector<uint32_t> n_contrib;
    device_vector<gs_splat_grad> splat_grad;
    own_view view;
    gs_gradient gradient;
};

const scene_choice some_scene = {21, 160, 2, 2, 61, 47};

bool last_error_has(const char *text) {
    return std::string(gs_last_error()).find(text) != std::string::npos;
}

TEST(Interface, ForwardIsTheStages) {
    whole_view whole(some_scene);
    const int64_t isects = whole.stages.view.ranges.isects;
    ASSERT_GT(isects, 100);
    for (const int64_t capacity : {isects, isects + 1000}) {
        ASSERT_GS_OK(whole.forward(capacity));
        EXPECT_EQ(whole.view.isects_needed, isects);
        EXPECT_EQ(whole.view.ranges.isects, isects);
        EXPECT_EQ(whole.color.read(), whole.stages.color.read());
        EXPECT_EQ(whole.transmittance.read(), whole.stages.transmittance.read());
        EXPECT_EQ(whole.n_contrib.read(), whole.stages.n_contrib.read());
    }
}

TEST(Interface, ForwardMakesRoomForPairsThatDoNotFit) {
    for (const int64_t missing : {int64_t(1), INT64_MAX}) {
        whole_view whole(some_scene);
        const int64_t isects = whole.stages.view.ranges.isects;
        ASSERT_GS_OK(whole.forward(std::max(isects - missing, int64_t(0))));
        EXPECT_EQ(whole.view.isects_needed, isects);
        EXPECT_EQ(whole.view.memory.isect_capacity, isects + isects / 4);
        EXPECT_EQ(whole.color.read(), whole.stages.color.read());
        EXPECT_EQ(whole.n_contrib.read(), whole.stages.n_contrib.read());
    }
}

TEST(Interface, BackwardIsTheStages) {
    whole_view whole(some_scene);
    ASSERT_GS_OK(whole.forward(100000));
    const kernel_frame &stages = whole.stages;
    const int64_t count = some_scene.count;
    const distwar_policy policy = {DISTWAR_SERIAL, 4};
    const std::vector<float> d_color = random_floats(1, size_t(3 * stages.pixels()), -1, 1),
                             d_alpha = random_floats(2, size_t(stages.pixels()), -1, 1);
    const device_vector<float> color_gradient(d_color), alpha_gradient(d_alpha);
    const device_vector<float> splat_grad(stages.backward(d_color, d_alpha, policy));
    const device_gaussians expected(count, some_scene.sh_degree);
    const device_vector<float> expected_mean2d(size_t(2 * count));
    gs_gradient staged = {};
    staged.splat_grad = reinterpret_cast<gs_splat_grad *>(splat_grad.data());
    staged.gaussians = *expected.get();
    staged.mean2d = expected_mean2d.data();
    ASSERT_GS_OK(gs_project_backward(&stages.view, &staged, NULL));
    reference_gaussians wanted = expected.read();
    const std::vector<double> values(wanted.mean, wanted.mean + reference_gaussians_values(&wanted));
    const std::vector<float> wanted_mean2d = expected_mean2d.read();

    for (const bool with_mean2d : {true, false}) {
        const device_gaussians gradients(count, some_scene.sh_degree);
        const device_vector<float> mean2d(whole_view::sentinels(2 * count));
        whole.gradient.color = color_gradient.data();
        whole.gradient.alpha = alpha_gradient.data();
        whole.gradient.gaussians = *gradients.get();
        whole.gradient.mean2d = with_mean2d ? mean2d.data() : NULL;
        ASSERT_GS_OK(gs_backward(&whole.view, &whole.gradient, policy, NULL));
        reference_gaussians got = gradients.read();
        // Sums by atomics: equal up to their order.
        EXPECT_LE(relative_norm({got.mean, got.mean + reference_gaussians_values(&got)}, values), 1e-5);
        reference_gaussians_destroy(&got);
        const std::vector<float> seen = mean2d.read();
        if (with_mean2d) {
            EXPECT_LE(relative_norm({seen.begin(), seen.end()}, {wanted_mean2d.begin(), wanted_mean2d.end()}),
                      1e-5);
        } else {
            EXPECT_EQ(seen, whole_view::sentinels(2 * count));
        }
    }
    reference_gaussians_destroy(&wanted);
}

TEST(Interface, ViewsThatCannotBeAreRefused) {
    whole_view whole(some_scene);
    const device_vector<float> color_gradient(std::vector<float>(size_t(3 * whole.stages.pixels())));
    const device_gaussians gradients(some_scene.count, some_scene.sh_degree);
    whole.gradient.color = color_gradient.data();
    whole.gradient.gaussians = *gradients.get();
    const auto refused = [](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
        EXPECT_TRUE(last_error_has(text)) << gs_last_error();
    };
    const auto backward = [&] { return gs_backward(&whole.view, &whole.gradient, {DISTWAR_BFLY, 0}, NULL); };
    refused(gs_forward(NULL, NULL), "gs_forward: view must be given");
    refused(gs_project(&whole.view, NULL), "gs_project: splats");
    refused(backward(), "gs_render_backward: the view has no lists");
    ASSERT_GS_OK(whole.forward(100000));
    EXPECT_GS_OK(backward());
    for (const int64_t capacity : {int64_t(-1), (int64_t(1) << 40) + 1})
        refused(whole.forward(capacity), "gs_forward: isect_capacity");
    whole.view.memory.isect_capacity = 100000;
    whole.view.camera.height = 0;
    refused(gs_forward(&whole.view, NULL), "width and height");
}

// Arrays that are NULL lie in the view's memory, side by side; those of the caller stay.
TEST(Interface, AViewHasTheArraysThatItsCallerHasNot) {
    for (const int given : {0, 1, 2}) {
        const kernel_frame stages(some_scene);
        filled_context context;
        own_view view(stages.view, context);
        const size_t count = size_t(some_scene.count), pixels = size_t(stages.pixels());
        view.ranges = {};
        if (given == 0) view.splats = NULL, view.image = {};
        if (given == 1) view.splats = NULL, view.image.transmittance = NULL;
        for (const int pass : {1, 2}) {
            ASSERT_GS_OK(gs_forward(&view, context)) << pass;
            const struct {
                const void *at, *of_caller;
                size_t bytes;
                bool is_given;
            } all[] = {
                {view.splats, stages.view.splats, count * sizeof(gs_splat), given == 2},
                {view.image.color, stages.view.image.color, 3 * pixels * sizeof(float), given > 0},
                {view.image.transmittance, stages.view.image.transmittance, pixels * sizeof(float),
                 given == 2},
                {view.image.n_contrib, stages.view.image.n_contrib, pixels * sizeof(uint32_t), given > 0},
                {view.ranges.tile_begin, NULL, 13 * sizeof(int64_t), false},
                {view.ranges.tile_order, NULL, 12 * sizeof(uint32_t), false},
                {view.ranges.splat_index, NULL, size_t(view.ranges.isects) * sizeof(uint32_t), false}};
            const char *const memory = static_cast<const char *>(view.memory.memory);
            std::vector<std::pair<const char *, size_t>> inside;
            for (const auto &part : all) {
                const char *const at = static_cast<const char *>(part.at);
                if (part.is_given)
                    EXPECT_EQ(at, part.of_caller);
                else
                    inside.emplace_back(at, part.bytes);
            }
            std::sort(inside.begin(), inside.end());
            const char *end = memory;
            for (const auto &[at, bytes] : inside) {
                EXPECT_GE(at, end);
                EXPECT_EQ((at - memory) % 16, 0);
                end = at + bytes;
            }
            EXPECT_LE(end, memory + view.memory.bytes);
            std::vector<float> color(3 * pixels);
            device_download(color.data(), view.image.color, color.size() * sizeof(float));
            EXPECT_EQ(color, stages.color.read());
        }
        gs_view_free(&view, context);
        EXPECT_EQ(view.memory.memory, nullptr);
        EXPECT_EQ(view.splats, given == 2 ? stages.view.splats : nullptr);
        EXPECT_EQ(view.image.color, given > 0 ? stages.view.image.color : nullptr);
    }
}

TEST(Interface, APassThatIsReservedAllocatesNothing) {
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_FIXED}) {
        const kernel_frame stages(some_scene);
        filled_context context;
        own_view view(stages.view, context);
        view.splats = NULL, view.image = {}, view.ranges = {};
        ASSERT_GS_OK(gs_reserve(&view, strategy, stages.view.ranges.isects, context));
        const int before = context.allocations;
        EXPECT_EQ(before, 2);
        const size_t pixels = size_t(stages.pixels());
        const device_vector<float> d_color(3 * pixels);
        const device_vector<uint8_t> target(3 * pixels);
        const device_vector<double> result(3);
        const device_vector<gs_splat_grad> splat_grad(static_cast<size_t>(some_scene.count));
        const device_gaussians gradients(some_scene.count, some_scene.sh_degree);
        ASSERT_GS_OK(gs_forward(&view, context));
        const gs_loss_image image = {
            {view.camera.width, view.camera.height, view.image.color, target.data(), NULL},
            result.data(),
            d_color.data()};
        EXPECT_GS_OK(gs_loss(&image, 1, context));
        gs_gradient gradient = {};
        gradient.color = d_color.data(), gradient.splat_grad = splat_grad.data();
        gradient.gaussians = *gradients.get();
        EXPECT_GS_OK(gs_backward(&view, &gradient, {strategy, 0}, context));
        EXPECT_EQ(context.allocations, before);
        EXPECT_EQ(gs_reserve(&view, DISTWAR_CUB, 1, context), GS_INVALID_ARGUMENT);
        EXPECT_TRUE(last_error_has("gs_reserve: strategy cub is not supported")) << gs_last_error();
        EXPECT_EQ(gs_reserve(NULL, strategy, 1, context), GS_INVALID_ARGUMENT);
    }
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
        const gs_view view = view_of(*gaussians.get(), splats.data());
        EXPECT_GS_OK(gs_project(&view, NULL));
        return splats.read()[0];
    }
    gs_view view_of(const gs_gaussians &gaussians, gs_splat *splats) const {
        gs_view view = {};
        view.gaussians = gaussians;
        view.camera = camera;
        view.sh_degree_used = 1;
        view.splats = splats;
        return view;
    }
    reference_gaussians values;
    gs_camera camera = {32,        32,   30,         30, 16, 16, {1, 0, 0, 0, 1, 0, 0, 0, 1},
                        {0, 0, 0}, 0.2f, GS_PINHOLE, {}, 0};
};

TEST(Interface, AScaleModifierMultipliesEveryScale) {
    one_gaussian one;
    const float plain = one.seen().conic_sqrt[2];
    one.values.scale_modifier = 1;
    EXPECT_EQ(one.seen().conic_sqrt[2], plain) << "0 counts as 1";
    one.values.scale_modifier = 0.25;
    const float modified = one.seen().conic_sqrt[2];
    for (int k = 0; k < 3; k++) one.values.log_scale[k] += std::log(0.25);
    one.values.scale_modifier = 0;
    EXPECT_NEAR(one.seen().conic_sqrt[2], modified, 1e-6f * modified);
    EXPECT_GT(modified, 2 * plain);
    for (const double bad : {-1.0, double(NAN), double(INFINITY)}) {
        one.values.scale_modifier = bad;
        const device_gaussians gaussians(one.values);
        const device_vector<gs_splat> splats(1);
        const gs_view view = one.view_of(*gaussians.get(), splats.data());
        EXPECT_EQ(gs_project(&view, NULL), GS_INVALID_ARGUMENT);
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
    const double l0_l2 = 2 * M_LN2 * needle.conic_sqrt[0] * needle.conic_sqrt[2];
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
    const std::vector<float> zeros(GS_SPLAT_GRAD_STRIDE);
    const device_vector<float> given(zeros), splat_grad(zeros);
    const auto project = [&](const gs_gaussians &g) {
        const gs_view view = one.view_of(g, splats.data());
        return gs_project(&view, NULL);
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
    const auto backward = [&](const gs_gaussians *gradients, const device_vector<gs_splat> &from) {
        const gs_view view = one.view_of(g, from.data());
        gs_gradient gradient = {};
        gradient.splat_grad = reinterpret_cast<gs_splat_grad *>(splat_grad.data());
        gradient.gaussians = *gradients;
        return gs_project_backward(&view, &gradient, NULL);
    };
    // What a view did not read has no gradient; what it read must have one.
    EXPECT_EQ(backward(gaussians.get(), splats), GS_INVALID_ARGUMENT);
    EXPECT_TRUE(last_error_has("gs_project_backward: ") && last_error_has("color")) << gs_last_error();
    const device_gaussians gradients(1, 1, true, true);
    EXPECT_GS_OK(backward(gradients.get(), splats));

    // Replaced arrays may be there too, and are left alone, also where a Gaussian is culled.
    const device_vector<float> sh(std::vector<float>(12, 7)), log_scale(std::vector<float>(3, 7));
    gs_gaussians both = *gradients.get();
    both.sh = sh.data(), both.log_scale = log_scale.data();
    EXPECT_GS_OK(backward(&both, splats));
    const device_vector<gs_splat> nothing(std::vector<gs_splat>(1));
    EXPECT_GS_OK(backward(&both, nothing));
    EXPECT_EQ(sh.read(), std::vector<float>(12, 7));
    EXPECT_EQ(log_scale.read(), std::vector<float>(3, 7));
}

TEST(Interface, RadiiAreThreeSigma) {
    const kernel_frame frame({22, 320, 0, 0, 90, 70});
    const int64_t count = frame.choice.count;
    const device_vector<int32_t> device_radii{size_t(count)};
    ASSERT_GS_OK(gs_radii(&frame.view, device_radii.data(), NULL));
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
    gs_gaussians single = {};
    single.count = 1;
    const device_vector<int32_t> radius(1);
    const auto radius_of_one = [&] {
        const device_vector<gs_splat> splat(std::vector<gs_splat>{one.seen()});
        const gs_view view = one.view_of(single, splat.data());
        EXPECT_GS_OK(gs_radii(&view, radius.data(), NULL));
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
    gs_view view = one.view_of(single, splat.data());
    EXPECT_EQ(gs_radii(&view, NULL, NULL), GS_INVALID_ARGUMENT);
    view.camera.height = 0;
    EXPECT_EQ(gs_radii(&view, radius.data(), NULL), GS_INVALID_ARGUMENT);
    view = one.view_of({}, NULL);
    EXPECT_GS_OK(gs_radii(&view, NULL, NULL));
}

TEST(Interface, TheVisibilityMarkIsTheNearPlane) {
    const kernel_frame frame({23, 320, 0, 0, 60, 40});
    const int64_t count = frame.choice.count;
    gs_view means = {};
    means.camera = frame.view.camera;
    means.gaussians.count = count;
    means.gaussians.mean = frame.gaussians.get()->mean;
    const device_vector<uint8_t> device_marks{size_t(count)};
    ASSERT_GS_OK(gs_mark_visible(&means, device_marks.data(), NULL));
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
    means.gaussians.count = 3, means.gaussians.mean = lost.data();
    ASSERT_GS_OK(gs_mark_visible(&means, device_marks.data(), NULL));
    const std::vector<uint8_t> none = device_marks.read();
    EXPECT_EQ(none[0] + none[1] + none[2], 0) << "a mean that is not finite";
    EXPECT_EQ(gs_mark_visible(&means, NULL, NULL), GS_INVALID_ARGUMENT);
    EXPECT_TRUE(last_error_has("gs_mark_visible: ")) << gs_last_error();
}

} // namespace
