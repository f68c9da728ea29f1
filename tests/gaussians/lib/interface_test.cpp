// SPDX-License-Identifier: MIT
// What distwar_gs.h promises beyond the stages: the whole way as one call each, inputs that are given instead of
// stored parameters, radii, visibility.
#include "filled_context.h"
#include "kernel_frame.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

// Those of the caller stay. That own arrays do not overlap: Large.
TEST(Interface, ArraysThatAreNotGivenLieInTheView) {
    for (const int given : {0, 1, 2}) {
        const kernel_frame stages(some_scene);
        filled_context context;
        own_view view(stages.view, context);
        view.ranges = {};
        if (given == 0) view.splats = NULL, view.image = {};
        if (given == 1) view.splats = NULL, view.image.transmittance = NULL;
        for (const int pass : {1, 2}) {
            ASSERT_GS_OK(gs_forward(&view, context)) << pass;
            const struct {
                const void *at, *of_caller; // NULL: never the caller's
                bool is_given;
            } all[] = {{view.splats, stages.view.splats, given == 2},
                       {view.image.color, stages.view.image.color, given > 0},
                       {view.image.transmittance, stages.view.image.transmittance, given == 2},
                       {view.image.n_contrib, stages.view.image.n_contrib, given > 0},
                       {view.ranges.tile_begin, NULL, false},
                       {view.ranges.tile_order, NULL, false},
                       {view.ranges.splat_index, NULL, false}};
            for (const auto &[at, of_caller, is_given] : all) {
                const size_t place =
                    size_t(static_cast<const char *>(at) - static_cast<char *>(view.memory.memory));
                EXPECT_EQ(at == of_caller, is_given);
                EXPECT_TRUE(is_given || (place < view.memory.bytes && place % 16 == 0));
            }
            EXPECT_EQ(downloaded(view.image.color, 3 * size_t(stages.pixels())), stages.color.read());
        }
        gs_view_free(&view, context);
        EXPECT_EQ(view.memory.memory, nullptr);
        EXPECT_EQ(view.splats, given == 2 ? stages.view.splats : nullptr);
        EXPECT_EQ(view.image.color, given > 0 ? stages.view.image.color : nullptr);
    }
}

// Memory that cannot grow is gone, and the view's arrays with it: the next pass places them.
TEST(Interface, AFailedAllocationLeavesNoArraysBehind) {
    const kernel_frame stages(some_scene);
    filled_context context;
    own_view view(stages.view, context);
    view.ranges = {}, view.splats = NULL, view.image = {}, view.gaussians.count = 10;
    ASSERT_GS_OK(gs_forward(&view, context));
    view.gaussians.count = stages.view.gaussians.count;
    context.fails = true;
    EXPECT_EQ(gs_forward(&view, context), GS_DEVICE_ERROR);
    EXPECT_EQ(view.image.color, nullptr);
    context.fails = false;
    ASSERT_GS_OK(gs_forward(&view, context));
    EXPECT_EQ(downloaded(view.image.color, 3 * size_t(stages.pixels())), stages.color.read());
}

// Nothing is read of a scene without Gaussians: its splats may be NULL.
TEST(Interface, NoGaussiansLeaveTheBackground) {
    const kernel_frame none({1, 0, 3, 3, 20, 30});
    const gs_gaussians nothing = none.view.gaussians;
    const gs_adam_rates rates = {1, 1, 1, 1, 1, 1, 0};
    const gs_adam_step adam = {&nothing, &nothing, &nothing, rates, 1, nullptr};
    EXPECT_GS_OK(gs_adam(&nothing, &nothing, &nothing, &nothing, &rates, 1, nullptr));
    for (const int settles : {0, 1}) {
        view_step f(none);
        f.view.splats = nullptr, f.gradient.splat_grad = nullptr;
        f.view.memory.isect_capacity = 7 * settles, f.view.normalize_depth = settles;
        f.view.image.depth = none.depth.data(), f.view.image.median_depth = none.median_depth.data();
        none.depth.fill(12345), none.median_depth.fill(12345), f.camera.fill({{1}, {1}, {1}, {1}});
        f.queue();
        EXPECT_EQ(f.view.splats, nullptr);
        if (settles) {
            EXPECT_GS_OK(gs_settle(&f.view, NULL));
            EXPECT_TRUE(f.view.ranges.isects == 0 && f.view.ranges.split_tiles == 0);
        }
        EXPECT_EQ(downloaded(f.view.ranges.tile_begin, 5), std::vector<int64_t>(5));
        auto order = downloaded(f.view.ranges.tile_order, 4);
        std::sort(order.begin(), order.end());
        EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 2, 3}));
        EXPECT_EQ(none.depth.read(), std::vector<float>(600));
        EXPECT_EQ(none.median_depth.read(), std::vector<float>(600));
        EXPECT_EQ(f.transmittance(), std::vector<float>(600, 1));
        const auto color = f.color();
        for (size_t i = 0; i < color.size(); i++) ASSERT_EQ(color[i], none.view.background[i / 600]);
        f.gradient.color = none.color.data(), f.gradient.camera = f.camera.data();
        f.backward({DISTWAR_TREE, 0});
        const gs_camera_gradient got = f.camera_gradient(), zero = {};
        EXPECT_EQ(memcmp(&got, &zero, sizeof got), 0);
        f.gradient.camera = nullptr, f.gradient.adam = &adam;
        EXPECT_GS_OK(gs_project_backward(&f.view, &f.gradient, NULL));
        EXPECT_GS_OK(gs_radii(&f.view, NULL, NULL));
    }
}

TEST(Interface, GivenCovariancesNeedAPositiveDefiniteProjection) {
    one_gaussian one;
    reference_gaussians_extend(&one.values, 0, 1);
    double *c = one.values.covariance; // xx, xy, xz, yy, yz, zz
    const struct {
        double xx, xy, yy, zz;
        float depth;
        const char *why;
    } cases[] = {{0, 0, 0, 0, 5, "zero: a point, of the size that every splat has at least"},
                 {0, 0, 0, -100, 5, "negative along the line of sight"},
                 {-1, 0, -1, 0, 0, "negative both ways, so that the determinant is positive"},
                 {1, 0, -1, 0, 0, "negative in y"},
                 {1, 2, 1, 0, 0, "indefinite"},
                 {1e30, 0, 1e30, 0, 0, "the determinant is too large for a float"}};
    for (const auto &of : cases) {
        c[0] = of.xx, c[1] = of.xy, c[3] = of.yy, c[5] = of.zz;
        EXPECT_EQ(one.seen().depth, of.depth) << of.why;
    }
    c[0] = c[3] = 1, c[5] = 0;
    c[1] = 0;
    ASSERT_EQ(one.seen().depth, 5);
    for (int k = 0; k < 6; k++)
        for (const double bad : {double(NAN), double(INFINITY)}) {
            const double good = c[k];
            c[k] = bad;
            EXPECT_EQ(one.seen().depth, 0) << "value " << k << " is " << bad;
            c[k] = good;
        }
    // A diagonal needle of 2000 by 0 pixels: xx yy - xy^2 in floats would have no digit left.
    const double variance = double(float(1e5));
    c[0] = c[1] = c[3] = variance;
    const gs_splat needle = one.seen();
    ASSERT_EQ(needle.depth, 5);
    const double pixels = 36 * variance, determinant = 0.3 * (2 * pixels + 0.3);
    const double l0_l2 = 2 * M_LN2 * needle.conic_sqrt[0] * needle.conic_sqrt[2];
    EXPECT_NEAR(l0_l2 * l0_l2 * determinant, 1, 1e-4);
}

// What a view did not read has no gradient; what it read must have one.
TEST(Interface, GradientsAreOfTheArraysThatAViewReads) {
    one_gaussian one;
    const device_gaussians gaussians(one.values), gradients(1, 1, true, true);
    const device_vector<gs_splat> splats(1), nothing(std::vector<gs_splat>(1));
    const device_vector<float> given(std::vector<float>(6));
    const device_vector<gs_splat_grad> splat_grad(std::vector<gs_splat_grad>(1));
    gs_gaussians g = *gaussians.get();
    g.color = g.covariance = given.data();
    g.sh = g.log_scale = g.quaternion = NULL;
    const gs_view forward = one.view_of(g, splats.data());
    ASSERT_GS_OK(gs_project(&forward, NULL));
    const auto backward = [&](const gs_gaussians &to, const device_vector<gs_splat> &from) {
        const gs_view view = one.view_of(g, from.data());
        gs_gradient gradient = {};
        gradient.splat_grad = splat_grad.data(), gradient.gaussians = to;
        return gs_project_backward(&view, &gradient, NULL);
    };
    refused("gs_project_backward: sh, or color", backward(*gaussians.get(), splats));
    EXPECT_GS_OK(backward(*gradients.get(), splats));

    // Replaced arrays may be there too, and are left alone, also where a Gaussian is culled.
    const device_vector<float> sh(std::vector<float>(12, 7)), log_scale(std::vector<float>(3, 7));
    gs_gaussians both = *gradients.get();
    both.sh = sh.data(), both.log_scale = log_scale.data();
    for (const device_vector<gs_splat> *from : {&splats, &nothing}) EXPECT_GS_OK(backward(both, *from));
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
}

} // namespace
