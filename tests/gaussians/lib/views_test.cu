// SPDX-License-Identifier: MIT
// Several cameras in one call: the bits of single calls, and the sum of their gradients.
#include "filled_context.h"
#include "kernel_frame.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

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

// A view with memory of its own.
class placed_view {
  public:
    placed_view(const gs_view &like, const scene_choice &choice, distwar_policy policy)
        : view(like), policy(policy),
          gradients(choice.count, choice.sh_degree, choice.color, choice.covariance) {
        views = std::max(view.views.count, 1);
        seen = std::make_unique<device_vector<gs_splat>>(size_t(views * choice.count));
        sums = std::make_unique<device_vector<gs_splat_grad>>(size_t(views * choice.count));
        view.ranges = {}, view.splats = seen->data(), gradient.splat_grad = sums->data();
        view.image.color = view.image.transmittance = NULL, view.image.n_contrib = NULL;
        view.memory.isect_capacity = 60000;
        mean2d = std::make_unique<device_vector<float>>(size_t(2 * views * choice.count));
        gradient.gaussians = *gradients.get();
        gradient.mean2d = mean2d->data();
    }
    int64_t pixels() const { return int64_t(view.camera.width) * view.camera.height; }
    std::vector<float> color() const { return floats(view.image.color, 3 * views * pixels()); }
    std::vector<float> transmittance() const { return floats(view.image.transmittance, views * pixels()); }
    std::vector<float> n_contrib() const {
        return floats(reinterpret_cast<const float *>(view.image.n_contrib), views * pixels());
    }
    std::vector<float> splats() const {
        return floats(reinterpret_cast<const float *>(view.splats),
                      int64_t(sizeof(gs_splat) / 4) * views * view.gaussians.count);
    }
    std::vector<float> splat_grad() const {
        return floats(reinterpret_cast<const float *>(gradient.splat_grad),
                      GS_SPLAT_GRAD_STRIDE * views * view.gaussians.count);
    }
    std::vector<double> gradient_values() const {
        reference_gaussians got = gradients.read();
        std::vector<double> out(got.mean, got.mean + reference_gaussians_values(&got));
        reference_gaussians_destroy(&got);
        return out;
    }
    static std::vector<float> floats(const float *from, int64_t count) {
        std::vector<float> out{};
        out.resize(size_t(count));
        device_download(out.data(), from, out.size() * sizeof(float));
        return out;
    }

    own_view view;
    distwar_policy policy;
    device_gaussians gradients;
    gs_gradient gradient{};
    std::unique_ptr<device_vector<gs_splat>> seen;
    std::unique_ptr<device_vector<gs_splat_grad>> sums;
    std::unique_ptr<device_vector<float>> mean2d;
    int views;
};

// The same bits; NaN counts as itself. On a GPU up to rounding: kernels for one and for several cameras are
// compiled apart and contract other products.
void expect_same(const std::vector<float> &all, const std::vector<float> &one, int v, const char *what) {
    ASSERT_LE(one.size() * size_t(v + 1), all.size()) << what;
#ifndef DISTWAR_SIMT
    std::vector<double> of_all, of_one;
    for (size_t i = 0; i < one.size(); i++) {
        const float value = all[one.size() * size_t(v) + i];
        ASSERT_EQ(std::isnan(value), std::isnan(one[i])) << what << " of view " << v;
        if (std::isnan(value)) continue;
        of_all.push_back(value);
        of_one.push_back(one[i]);
    }
    EXPECT_LE(relative_norm(of_all, of_one), 1e-5) << what << " of view " << v;
#else
    EXPECT_EQ(std::memcmp(all.data() + one.size() * size_t(v), one.data(), one.size() * sizeof(float)), 0)
        << what << " of view " << v;
#endif
}

std::vector<double> part(const std::vector<float> &all, size_t size, int v) {
    return {all.begin() + int64_t(size) * v, all.begin() + int64_t(size) * (v + 1)};
}

void expect_same_lists(const gs_view &all, const gs_view &one, int v) {
    const size_t tiles = size_t(one.ranges.tiles_x) * one.ranges.tiles_y;
    std::vector<int64_t> begin(tiles * size_t(std::max(all.views.count, 1)) + 1), own(tiles + 1);
    device_download(begin.data(), all.ranges.tile_begin, begin.size() * sizeof(int64_t));
    device_download(own.data(), one.ranges.tile_begin, own.size() * sizeof(int64_t));
    std::vector<uint32_t> index(size_t(begin.back())), own_index(size_t(own.back()));
    device_download(index.data(), all.ranges.splat_index, index.size() * sizeof(uint32_t));
    device_download(own_index.data(), one.ranges.splat_index, own_index.size() * sizeof(uint32_t));
    const int64_t first = begin[tiles * size_t(v)];
    for (size_t t = 0; t <= tiles; t++)
        ASSERT_EQ(begin[tiles * size_t(v) + t] - first, own[t]) << "view " << v;
    for (size_t k = 0; k < own_index.size(); k++)
        ASSERT_EQ(index[size_t(first) + k], own_index[k] + uint32_t(v * one.gaussians.count)) << "view " << v;
}

class Views : public testing::TestWithParam<scene_choice> {};

TEST_P(Views, AreTheSingleViewsAndTheSumOfTheirGradients) {
    const scene_choice choice = GetParam();
    const kernel_frame frame(choice);
    for (const int count : {1, 2, 5}) {
        const std::vector<gs_camera> cameras = cameras_around(frame.view.camera, count);
        gs_view like = frame.view;
        like.views = {count, cameras.data()};
        const distwar_policy policy = {DISTWAR_TREE, 4};
        placed_view all(like, choice, policy);
        const size_t values = size_t(all.pixels());
        const device_vector<float> d_color(random_floats(7, 3 * values * size_t(count), -1, 1)),
            d_alpha(random_floats(8, values * size_t(count), -1, 1));
        all.gradient.color = d_color.data(), all.gradient.alpha = d_alpha.data();
        ASSERT_GS_OK(gs_forward(&all.view, NULL));
        ASSERT_GS_OK(gs_backward(&all.view, &all.gradient, policy, NULL));
        EXPECT_EQ(all.view.ranges.views, count);

        std::vector<float> sum(all.gradient_values().size());
        int64_t isects = 0;
        for (int v = 0; v < count; v++) {
            like.views = {}, like.camera = cameras[size_t(v)];
            placed_view one(like, choice, policy);
            one.gradient.color = d_color.data() + 3 * values * size_t(v);
            one.gradient.alpha = d_alpha.data() + values * size_t(v);
            ASSERT_GS_OK(gs_forward(&one.view, NULL));
            isects += one.view.ranges.isects;
            expect_same(all.splats(), one.splats(), v, "splats");
            expect_same_lists(all.view, one.view, v);
            expect_same(all.color(), one.color(), v, "color");
            expect_same(all.transmittance(), one.transmittance(), v, "transmittance");
            expect_same(all.n_contrib(), one.n_contrib(), v, "n_contrib");
            ASSERT_GS_OK(gs_backward(&one.view, &one.gradient, policy, NULL));
            const std::vector<float> splat_grad = one.splat_grad();
            EXPECT_LE(relative_norm(part(all.splat_grad(), splat_grad.size(), v),
                                    part(splat_grad, splat_grad.size(), 0)),
                      1e-5);
            // From equal moments: equal gradients.
            device_upload(one.gradient.splat_grad, all.splat_grad().data() + splat_grad.size() * size_t(v),
                          splat_grad.size() * sizeof(float));
            ASSERT_GS_OK(gs_project_backward(&one.view, &one.gradient, NULL));
            expect_same(all.mean2d->read(), one.mean2d->read(), v, "mean2d");
            const std::vector<double> own = one.gradient_values();
            for (size_t k = 0; k < sum.size(); k++) sum[k] += float(own[k]);
        }
        EXPECT_EQ(all.view.isects_needed, isects);
        const std::vector<double> got = all.gradient_values(), expected(sum.begin(), sum.end());
        EXPECT_LE(relative_norm(got, expected), 1e-6);
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Views, testing::ValuesIn(comparison_scenes()));
INSTANTIATE_TEST_SUITE_P(Given, Views, testing::ValuesIn(scenes_with_given_inputs()));

const scene_choice some_scene = {21, 80, 1, 1, 45, 37};

TEST(ViewsEdges, DepthAndAbsoluteGradientsAreThoseOfSingleViews) {
    const kernel_frame frame(some_scene);
    const int count = 3;
    const std::vector<gs_camera> cameras = cameras_around(frame.view.camera, count);
    const size_t values = size_t(frame.pixels()), splats = size_t(2 * some_scene.count);
    const device_vector<float> d_color(random_floats(7, 3 * values * count, -1, 1)),
        d_depth(random_floats(9, values * count, -1, 1)), depth(values * count), median(values * count),
        absolute(splats * count), own_depth(values), own_median(values), own_absolute(splats);
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_FIXED}) {
        gs_view like = frame.view;
        like.normalize_depth = 1;
        like.inverse_depth = strategy == DISTWAR_FIXED;
        like.views = {count, cameras.data()};
        like.image.depth = depth.data(), like.image.median_depth = median.data();
        placed_view all(like, some_scene, {strategy, 0});
        all.gradient.color = d_color.data(), all.gradient.depth = d_depth.data();
        all.gradient.abs_mean2d = absolute.data();
        ASSERT_GS_OK(gs_forward(&all.view, NULL));
        ASSERT_GS_OK(gs_backward(&all.view, &all.gradient, {strategy, 0}, NULL));
        std::vector<double> sum(all.gradient_values().size());
        for (int v = 0; v < count; v++) {
            like.views = {}, like.camera = cameras[size_t(v)];
            like.image.depth = own_depth.data(), like.image.median_depth = own_median.data();
            placed_view one(like, some_scene, {strategy, 0});
            one.gradient.color = d_color.data() + 3 * values * size_t(v);
            one.gradient.depth = d_depth.data() + values * size_t(v);
            one.gradient.abs_mean2d = own_absolute.data();
            ASSERT_GS_OK(gs_forward(&one.view, NULL));
            ASSERT_GS_OK(gs_backward(&one.view, &one.gradient, {strategy, 0}, NULL));
            expect_same(depth.read(), own_depth.read(), v, "depth");
            expect_same(median.read(), own_median.read(), v, "median depth");
            EXPECT_LE(relative_norm(part(absolute.read(), splats, v), part(own_absolute.read(), splats, 0)),
                      1e-5);
            const std::vector<double> own = one.gradient_values();
            for (size_t k = 0; k < sum.size(); k++) sum[k] += own[k];
        }
        EXPECT_LE(relative_norm(all.gradient_values(), sum), 1e-5);
    }
}

TEST(ViewsEdges, TakeThreeChannels) {
    const kernel_frame frame(some_scene);
    gs_view view = frame.view;
    const gs_camera cameras[2] = {view.camera, view.camera};
    view.views = {2, cameras};
    view.gaussians.channels = 4;
    EXPECT_EQ(gs_project(&view, NULL), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_project: several cameras take 3 channels");
}

TEST(ViewsEdges, EveryStrategyDivisionOfWorkAndModeAgrees) {
    const kernel_frame frame(some_scene);
    const std::vector<gs_camera> cameras = cameras_around(frame.view.camera, 4);
    gs_view like = frame.view;
    like.views = {4, cameras.data()};
    std::vector<double> expected;
    std::vector<float> picture;
    for (const distwar_strategy strategy :
         {DISTWAR_TREE, DISTWAR_ATOMIC, DISTWAR_SERIAL, DISTWAR_BFLY, DISTWAR_BLOCK, DISTWAR_FIXED})
        for (const int pixels : {1, 2, 4}) {
            const bool waits = pixels == 2;
            placed_view all(like, some_scene, {strategy, 0});
            const device_vector<float> d_color(random_floats(7, size_t(12 * all.pixels()), -1, 1));
            all.gradient.color = d_color.data();
            ASSERT_GS_OK(gs_project(&all.view, NULL));
            ASSERT_GS_OK(gs_bin(&all.view, NULL));
            if (waits) {
                ASSERT_GS_OK(gs_settle(&all.view, NULL));
            }
            const int tiles = 4 * all.view.ranges.tiles_x * all.view.ranges.tiles_y;
            all.view.ranges.pixels_per_thread = pixels;
            all.view.ranges.split_tiles = pixels == 4 ? 0 : pixels == 2 ? tiles : 3;
            ASSERT_GS_OK(gs_render(&all.view, NULL));
            ASSERT_GS_OK(gs_backward(&all.view, &all.gradient, {strategy, 0}, NULL));
            if (picture.empty()) picture = all.color(), expected = all.gradient_values();
            EXPECT_EQ(all.color(), picture);
            EXPECT_LE(relative_norm(all.gradient_values(), expected), 1e-5)
                << distwar_strategy_name(strategy) << ", " << pixels;
        }
}

TEST(ViewsEdges, AnOverflowOfAnyViewIsOneOfAll) {
    const kernel_frame frame(some_scene);
    const std::vector<gs_camera> cameras = cameras_around(frame.view.camera, 3);
    gs_view like = frame.view;
    like.views = {3, cameras.data()};
    placed_view all(like, some_scene, {DISTWAR_TREE, 0});
    const device_vector<float> d_color(std::vector<float>(size_t(9 * all.pixels()), 1));
    all.gradient.color = d_color.data();
    all.view.memory.isect_capacity = frame.view.ranges.isects; // those of one view
    ASSERT_GS_OK(gs_project(&all.view, NULL));
    ASSERT_GS_OK(gs_bin(&all.view, NULL));
    ASSERT_GS_OK(gs_render(&all.view, NULL));
    ASSERT_GS_OK(gs_backward(&all.view, &all.gradient, all.policy, NULL));
    EXPECT_EQ(gs_settle(&all.view, NULL), GS_ISECTS_DO_NOT_FIT);
    EXPECT_GT(all.view.isects_needed, frame.view.ranges.isects);
    for (const float value : all.color()) ASSERT_TRUE(std::isnan(value));
    for (const float value : all.transmittance()) ASSERT_TRUE(std::isnan(value));
    for (const double value : all.gradient_values()) ASSERT_EQ(value, 0);
}

TEST(ViewsEdges, WhatCannotBeIsRefused) {
    const kernel_frame frame(some_scene);
    std::vector<gs_camera> cameras = cameras_around(frame.view.camera, GS_MAX_VIEWS + 1);
    gs_view like = frame.view;
    like.views = {2, cameras.data()};
    placed_view all(like, some_scene, {DISTWAR_TREE, 0});
    const auto refused = [](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
        EXPECT_NE(std::string(gs_last_error()).find(text), std::string::npos) << gs_last_error();
    };
    all.view.views.count = GS_MAX_VIEWS + 1;
    refused(gs_forward(&all.view, NULL), "gs_forward: views.count must be in 0..32");
    all.view.views.count = -1;
    refused(gs_forward(&all.view, NULL), "gs_forward: views.count must be in 0..32");
    all.view.views = {2, NULL};
    refused(gs_forward(&all.view, NULL), "gs_forward: views.cameras must be given");
    all.view.views = {2, cameras.data()};
    cameras[1].width--;
    refused(gs_forward(&all.view, NULL), "gs_forward: all cameras must have the size of gs_view.camera");
    cameras[1].width++;
    cameras[1].fx = 0;
    refused(gs_forward(&all.view, NULL), "gs_project: fx, fy and near_plane must be positive");
    cameras[1].fx = cameras[0].fx;
    all.view.gaussians.count = INT32_MAX / 2 + 1;
    refused(gs_forward(&all.view, NULL), "gs_forward: count of Gaussians times cameras");
    all.view.gaussians.count = some_scene.count;
    ASSERT_GS_OK(gs_forward(&all.view, NULL));
    all.view.views.count = 3;
    refused(gs_render(&all.view, NULL), "gs_render: the lists are of another number of cameras");
    all.view.views = {};
    refused(gs_render(&all.view, NULL), "gs_render: the lists are of another number of cameras");
    all.view.views = {2, cameras.data()};

    const device_vector<int32_t> radii(static_cast<size_t>(some_scene.count));
    const device_vector<uint8_t> visible(static_cast<size_t>(some_scene.count));
    refused(gs_radii(&all.view, radii.data(), NULL), "gs_radii: several cameras are not supported");
    refused(gs_mark_visible(&all.view, visible.data(), NULL), "gs_mark_visible: several cameras");
    // As distwar_gs.h says: one of them by itself.
    gs_view second = all.view;
    second.views = {}, second.camera = cameras[1], second.splats += some_scene.count;
    EXPECT_GS_OK(gs_radii(&second, radii.data(), NULL));
}

// No memory is touched: only the sizes count. 32 views of the largest size have 2^25 tiles and 2^33 pixels.
TEST(ViewsEdges, TheLargestSizesDoNotOverflow) {
    gs_view view = {};
    view.camera = {GS_MAX_SIZE, GS_MAX_SIZE, 1, 1, 0, 0, {}, {}, 1, GS_PINHOLE, {}, 0};
    view.gaussians.count = (INT32_MAX - 1) / GS_MAX_VIEWS;
    const std::vector<gs_camera> cameras(GS_MAX_VIEWS, view.camera);
    view.views = {GS_MAX_VIEWS, cameras.data()};
    gs_view all = {}, one = {};
    const double bytes = reserved_bytes(view, DISTWAR_FIXED, 0, &all);
    view.views = {};
    reserved_bytes(view, DISTWAR_FIXED, 0, &one);
    const double pixels = double(GS_MAX_SIZE) * GS_MAX_SIZE;
    EXPECT_GT(bytes, 32 * (20 * pixels + double(view.gaussians.count) * (48 + 12 * 8)));
    EXPECT_LE(all.memory.bytes, 32 * one.memory.bytes);
    EXPECT_GT(double(all.memory.bytes), 31.9 * double(one.memory.bytes));
}

} // namespace views_test
