// SPDX-License-Identifier: MIT
// What the calls of distwar_gs.h cannot take, and what they say then: arguments that are good but for one thing.
#include "kernel_frame.h"
#include <cmath>
#include <functional>

namespace {

// ---- calls of a view ----

struct arguments {
    gs_view view;
    gs_gradient gradient;
    distwar_policy policy = {DISTWAR_TREE, 0};
};

gs_status call_of(const std::string &name, arguments &a) {
    if (name == "gs_project") return gs_project(&a.view, NULL);
    if (name == "gs_bin") return gs_bin(&a.view, NULL);
    if (name == "gs_render") return gs_render(&a.view, NULL);
    if (name == "gs_forward") return gs_forward(&a.view, NULL);
    if (name == "gs_render_backward") return gs_render_backward(&a.view, &a.gradient, a.policy, NULL);
    return gs_project_backward(&a.view, &a.gradient, NULL);
}

// A view that has been rendered, and its gradient. The image stands for gradients by it: any numbers do.
class RefusedViews : public testing::Test {
  protected:
    void SetUp() override { make_good(step); }
    void make_good(view_step &of) {
        ASSERT_GS_OK(gs_forward(&of.view, NULL));
        of.gradient.color = of.view.image.color;
        of.view.ranges.split_tiles = 0;
        good = {of.view, of.gradient};
        for (const char *call : {"gs_project", "gs_render", "gs_render_backward", "gs_project_backward"})
            ASSERT_GS_OK(call_of(call, good)) << call;
    }
    // The call that the text begins with refuses the arguments when they are changed so.
    void expect(const std::string &text, const std::function<void(arguments &)> &change) const {
        arguments bad = good;
        change(bad);
        refused(text, call_of(text.substr(0, text.find(':')), bad));
    }
    kernel_frame frame{some_scene};
    view_step step{frame};
    arguments good;
};
#define EXPECT_REFUSED(text, ...) expect(text, [&]([[maybe_unused]] arguments &a) { __VA_ARGS__; })

TEST_F(RefusedViews, OfAProjection) {
    EXPECT_REFUSED("gs_project: width", a.view.camera.width = 0);
    EXPECT_REFUSED("gs_project: fx, fy and near_plane", a.view.camera.fx = NAN);
    EXPECT_REFUSED("gs_project: fx, fy and near_plane", a.view.camera.near_plane = 0);
    EXPECT_REFUSED("gs_project: far_plane must not be", a.view.camera.far_plane = NAN);
    for (const int32_t model : {-1, int(GS_CAMERA_MODELS)})
        EXPECT_REFUSED("gs_project: model must be in 0..GS_CAMERA_MODELS - 1", a.view.camera.model = model);
    // Of the distortions those that the lens has.
    for (const int32_t model : {GS_PINHOLE, GS_FISHEYE, GS_ORTHO})
        for (const float bad : {NAN, INFINITY})
            for (int k = 0; k < 4; k++) {
                arguments a = good;
                a.view.camera.model = model, a.view.camera.distortion[k] = bad;
                if (model == GS_FISHEYE)
                    refused("gs_project: distortion must be finite", gs_project(&a.view, NULL));
                else
                    EXPECT_GS_OK(gs_project(&a.view, NULL)) << model << " " << k;
            }
    for (const int64_t count : {int64_t(-1), int64_t(INT32_MAX)})
        EXPECT_REFUSED("gs_project: count", a.view.gaussians.count = count);
    for (const float bad : {-1.0f, NAN, INFINITY}) {
        EXPECT_REFUSED("gs_project: eps2d", a.view.gaussians.eps2d = bad);
        EXPECT_REFUSED("gs_project: scale_modifier", a.view.gaussians.scale_modifier = bad);
    }
    EXPECT_REFUSED("gs_project: sh_degree_used", a.view.sh_degree_used = -1);
    EXPECT_REFUSED("gs_project: sh_degree must", a.view.gaussians.sh_degree = 4);
    EXPECT_REFUSED("gs_project: form must be", a.view.gaussians.form = 2);
    EXPECT_REFUSED("gs_project: splats", a.view.splats = NULL);
    EXPECT_REFUSED("gs_project: mean and opacity_logit", a.view.gaussians.mean = NULL);
    EXPECT_REFUSED("gs_project: mean and opacity_logit", a.view.gaussians.opacity_logit = NULL);
    EXPECT_REFUSED("gs_project: log_scale and quaternion", a.view.gaussians.log_scale = NULL);
    EXPECT_REFUSED("gs_project: log_scale and quaternion", a.view.gaussians.quaternion = NULL);
    EXPECT_REFUSED("gs_project: sh, or color", a.view.gaussians.sh = NULL);
    refused("gs_project: view must be given", gs_project(NULL, NULL));

    EXPECT_REFUSED("gs_project_backward: splat_grad must be given", a.gradient.splat_grad = NULL);
    EXPECT_REFUSED("gs_project_backward: the gradient must have the shape", a.gradient.gaussians.count--);
    EXPECT_REFUSED("gs_project_backward: sh0 must be given", a.view.gaussians.sh0 = a.view.gaussians.mean);
    EXPECT_REFUSED("gs_project_backward: sh, or color", a.view.gaussians.color = a.view.gaussians.mean);
    refused("gs_project_backward: gradient must be", gs_project_backward(&step.view, NULL, NULL));
}

TEST_F(RefusedViews, OfAStep) {
    const device_gaussians first(some_scene), second(some_scene);
    gs_gaussians moment = *first.get();
    gs_adam_step adam = {frame.gaussians.get(), &moment, second.get(), {1, 1, 1, 1, 1, 1, 0}, 1, nullptr};
    good.gradient.adam = &adam;
    ASSERT_GS_OK(call_of("gs_project_backward", good));
    const std::string call = "gs_project_backward: ";
    EXPECT_REFUSED(call + "the gradient by the camera is not computed with a step",
                   a.gradient.camera = step.camera.data());
    EXPECT_REFUSED(call + "splat_grad must be given", a.gradient.splat_grad = NULL);
    EXPECT_REFUSED(call + "given colours and covariances, activated", a.view.gaussians.form = GS_ACTIVATED);
    EXPECT_REFUSED(call + "given colours", a.view.gaussians.color = a.view.gaussians.mean);
    EXPECT_REFUSED(call + "adam must have the shape of gaussians", a.view.gaussians.count--);
    adam.step = 0;
    EXPECT_REFUSED(call + "step must be 1 or more", );
    adam.step = 1, adam.rates.shN = NAN;
    EXPECT_REFUSED(call + "rates must be finite", );
    adam.rates.shN = 0, moment.count--;
    EXPECT_REFUSED(call + "count or sh_degree of the arguments differ", );
    moment.count++, moment.sh++;
    EXPECT_REFUSED(call + "sh of adam's arrays must be aligned to 16 bytes", );
    moment.sh--, moment.mean = NULL;
    EXPECT_REFUSED(call + "mean, log_scale, quaternion, opacity_logit and sh must be given", );
}

TEST_F(RefusedViews, OfABlend) {
    for (const int threshold : {-1, 34})
        EXPECT_REFUSED("gs_render_backward: balance_threshold must be in 0..33",
                       a.policy.balance_threshold = threshold);
    EXPECT_REFUSED("gs_render_backward: 17 is not a strategy", a.policy.strategy = distwar_strategy(17));
    EXPECT_REFUSED("gs_render_backward: color and splat_grad", a.gradient.color = NULL);
    EXPECT_REFUSED("gs_render_backward: color and splat_grad", a.gradient.splat_grad = NULL);
    refused("gs_render_backward: color and splat_grad", gs_render_backward(&good.view, NULL, {}, NULL));
    for (const float limit : {-1.0f, NAN})
        EXPECT_REFUSED("gs_render_backward: block_limit must be", a.gradient.block_limit = limit);
    EXPECT_REFUSED("gs_render_backward: the view has no lists", a.view.ranges = {});
    EXPECT_REFUSED("gs_render: the view has no lists", a.view.ranges = {});
    EXPECT_REFUSED("gs_render: transmittance and n_contrib", a.view.image.n_contrib = NULL);
    EXPECT_REFUSED("gs_render: the lists are of an image of another size", a.view.camera.width += 64);
    EXPECT_REFUSED("gs_render: pixels_per_thread must be 1, 2 or 4", a.view.ranges.pixels_per_thread = 3);
    EXPECT_REFUSED("gs_render: split_tiles", a.view.ranges.split_tiles = 1000);
    EXPECT_REFUSED("gs_render: splat_index and splats", a.view.splats = NULL);
    EXPECT_REFUSED("gs_render: count must be in 0..2^31 - 2", a.view.gaussians.count = -1);
    refused("gs_render: view must be given", gs_render(NULL, NULL));

    // What is read where tiles are split or the depth is normalised.
    const std::string depth =
        "gs_render_backward: depth of the image must be given where tiles are split or the depth";
    EXPECT_REFUSED("gs_render: color of the image", a.view.image.color = NULL);
    EXPECT_REFUSED("gs_render_backward: color of the image must be given where tiles are split",
                   a.view.image.color = NULL, a.view.ranges.split_tiles = 1);
    EXPECT_REFUSED(depth, a.gradient.depth = frame.depth.data(), a.view.ranges.split_tiles = 1);
    EXPECT_REFUSED(depth, a.gradient.depth = frame.depth.data(), a.view.normalize_depth = 1);
    arguments unread = good;
    unread.view.image.color = NULL, unread.gradient.depth = frame.depth.data();
    EXPECT_GS_OK(gs_render_backward(&unread.view, &unread.gradient, unread.policy, NULL));

    // Given colours.
    for (const std::string call : {"gs_project", "gs_render", "gs_bin"})
        for (const int channels : {-1, GS_MAX_CHANNELS + 1})
            EXPECT_REFUSED(call + ": channels must be in 0..1024", a.view.gaussians.channels = channels);
    for (const std::string call : {"gs_project", "gs_render"})
        EXPECT_REFUSED(call + ": color must be given unless there are 3 channels",
                       a.view.gaussians.channels = 5);
    good.view.gaussians.channels = 33, good.view.gaussians.color = good.view.gaussians.mean;
    EXPECT_REFUSED(
        "gs_render_backward: gaussians.color of the gradient must be given unless there are 3 channels", );
    EXPECT_REFUSED("gs_render_backward: abs_mean2d needs 32 channels or fewer",
                   a.gradient.gaussians.color = a.view.gaussians.mean,
                   a.gradient.abs_mean2d = step.mean2d.data());
}

TEST_F(RefusedViews, OfOtherStrategies) {
    int taken = 0;
    for (int s = 0; s < DISTWAR_STRATEGY_COUNT; s++) {
        good.policy.strategy = distwar_strategy(s);
        if (gs_has_strategy(good.policy.strategy))
            taken += call_of("gs_render_backward", good) == GS_OK;
        else
            EXPECT_REFUSED(std::string("gs_render_backward: strategy ") +
                               distwar_strategy_name(good.policy.strategy) + " is not supported", );
    }
    EXPECT_EQ(taken, 6);
    for (const int none : {int(DISTWAR_VECTOR), int(DISTWAR_CUB), int(DISTWAR_STRATEGY_COUNT), -1})
        EXPECT_FALSE(gs_has_strategy(distwar_strategy(none)));
    refused("gs_reserve: strategy cub is not supported", gs_reserve(&good.view, DISTWAR_CUB, 1, NULL));
    refused("gs_reserve: view must be given", gs_reserve(NULL, DISTWAR_TREE, 1, NULL));
}

TEST_F(RefusedViews, OfWhatHasNoRoomOrIsReadOff) {
    const device_vector<int32_t> radii(size_t(some_scene.count));
    for (const int64_t capacity : {int64_t(-1), (int64_t(1) << 40) + 1})
        EXPECT_REFUSED("gs_forward: isect_capacity", a.view.memory.isect_capacity = capacity);
    EXPECT_REFUSED("gs_forward: width and height", a.view.camera.height = 0);
    refused("gs_forward: view must be given", gs_forward(NULL, NULL));
    refused("gs_radii: splats and radii", gs_radii(&good.view, NULL, NULL));
    refused("gs_mark_visible: mean and visible", gs_mark_visible(&good.view, NULL, NULL));
    good.view.camera.height = 0;
    refused("gs_radii: width and height", gs_radii(&good.view, radii.data(), NULL));
}

TEST_F(RefusedViews, OfSeveralCameras) {
    const std::vector<gs_camera> cameras(GS_MAX_VIEWS + 1, frame.view.camera);
    std::vector<gs_camera> own = cameras;
    gs_view like = frame.view;
    like.views = {2, cameras.data()};
    view_step all(like, some_scene);
    make_good(all);
    for (const int count : {GS_MAX_VIEWS + 1, -1})
        EXPECT_REFUSED("gs_forward: views.count must be in 0..32", a.view.views.count = count);
    EXPECT_REFUSED("gs_forward: views.cameras must be given", a.view.views.cameras = NULL);
    EXPECT_REFUSED("gs_forward: count of Gaussians times", a.view.gaussians.count = INT32_MAX / 2 + 1);
    EXPECT_REFUSED("gs_forward: several cameras take 3 channels", a.view.gaussians.channels = 4);
    for (const int count : {3, 0})
        EXPECT_REFUSED("gs_render: the lists are of another number of cameras", a.view.views.count = count);
    EXPECT_REFUSED("gs_project_backward: the gradient by the camera is of one camera only",
                   a.gradient.camera = step.camera.data());
    const device_vector<int32_t> radii(size_t(some_scene.count));
    const device_vector<uint8_t> visible(size_t(some_scene.count));
    refused("gs_radii: several cameras are not", gs_radii(&good.view, radii.data(), NULL));
    refused("gs_mark_visible: several cameras", gs_mark_visible(&good.view, visible.data(), NULL));
    // As distwar_gs.h says: one of them by itself.
    gs_view second = good.view;
    second.views = {}, second.camera = cameras[1], second.splats += some_scene.count;
    EXPECT_GS_OK(gs_radii(&second, radii.data(), NULL));

    good.view.views.cameras = own.data();
    own[1].fx = 0;
    EXPECT_REFUSED("gs_project: fx, fy and near_plane must be positive", );
    own[1] = cameras[1], own[1].model = GS_ORTHO;
    EXPECT_REFUSED("gs_project: the cameras of a view must have one model", );
    own[1].width--;
    EXPECT_REFUSED("gs_forward: all cameras must have the size of gs_view.camera", );
}

// ---- Gaussians ----

TEST(Refused, Adam) {
    const device_gaussians four(4, 1), three(3, 1), of_degree_2(4, 2);
    const gs_gaussians *const g = four.get();
    gs_gaussians bare = *g, none = {};
    bare.sh = nullptr;
    const gs_adam_rates rates = {1, 1, 1, 1, 1, 1, 0};
    const auto adam = [&](const gs_gaussians *by, const gs_adam_rates *of = nullptr, int64_t step = 1) {
        return gs_adam(g, by, g, g, of ? of : &rates, step, nullptr);
    };
    EXPECT_GS_OK(adam(g));
    refused("gs_adam: Gaussians", adam(nullptr));
    refused("gs_adam: rates must be given", gs_adam(g, g, g, g, nullptr, 1, nullptr));
    refused("gs_adam: step", adam(g, &rates, 0));
    refused("gs_adam: count or sh_degree", adam(three.get()));
    refused("gs_adam: count or sh_degree", adam(of_degree_2.get()));
    refused("gs_adam: mean, log_scale", adam(&bare));
    for (const float rate : {-1.0f, NAN, INFINITY}) {
        gs_adam_rates wrong = rates;
        wrong.quaternion = rate;
        refused("gs_adam: rates must be finite", adam(g, &wrong));
    }
    const std::pair<int64_t, int32_t> shapes_of_none[] = {{int64_t(1) << 31, 0}, {-1, 0}, {0, 4}, {0, -1}};
    for (const auto &[count, sh_degree] : shapes_of_none) {
        none.count = count, none.sh_degree = sh_degree;
        refused(count ? "gs_adam: count" : "gs_adam: sh_degree",
                gs_adam(&none, &none, &none, &none, &rates, 1, nullptr));
    }
    refused("gs_average: count or sh_degree", gs_average(g, three.get(), 1, nullptr));
    refused("gs_average: count or sh_degree", gs_average(g, of_degree_2.get(), 1, nullptr));
    refused("gs_average: Gaussians", gs_average(g, nullptr, 1, nullptr));
    refused("gs_average: samples must be 1 or more", gs_average(g, g, 0, nullptr));
}

TEST(Refused, AdamOfRows) {
    const device_vector<float> x(std::vector<float>(6));
    const gs_adam_array good = {x.data(), x.data(), x.data(), x.data(), 3, 0.1f};
    gs_adam_array missing = good;
    missing.gradient = nullptr;
    const auto rows = [](const gs_adam_rows_step &step) { return gs_adam_rows(&step, nullptr); };
    EXPECT_GS_OK(rows({0, nullptr, &missing, 1, 0.9, 0.99, 0}));
    refused("gs_adam_rows: arrays must be given", rows({2, nullptr, &missing, 1, 0.9, 0.99, 0}));
    refused("gs_adam_rows: step and its arrays", rows({2, nullptr, nullptr, 1, 0.9, 0.99, 0}));
    refused("gs_adam_rows: count", rows({-1, nullptr, &good, 1, 0.9, 0.99, 0}));
    for (const int arrays : {0, 9})
        refused("gs_adam_rows: array_count", rows({2, nullptr, &good, arrays, 0.9, 0.99, 0}));
    refused("gs_adam_rows: beta1 and beta2", rows({2, nullptr, &good, 1, 1.0, 0.99, 0}));
    refused("gs_adam_rows: beta1 and beta2", rows({2, nullptr, &good, 1, 0.9, -0.1, 0}));
    refused("gs_adam_rows: beta1 and beta2", rows({2, nullptr, &good, 1, 0.9, 0.99, NAN})); // epsilon
    for (const auto &[width, rate] : {std::pair{0, 0.1f}, {3, -1.0f}, {3, float(INFINITY)}}) {
        const gs_adam_array bad = {x.data(), x.data(), x.data(), x.data(), width, rate};
        refused("gs_adam_rows: width", rows({2, nullptr, &bad, 1, 0.9, 0.99, 0}));
    }
}

TEST(Refused, DensityControl) {
    const device_gaussians ten(10, 1), nine(9, 1);
    const gs_gaussians *const g = ten.get(), *const few = nine.get();
    gs_gaussians bare = *g, activated = *g, apart = *g;
    bare.sh = nullptr, activated.form = GS_ACTIVATED, apart.sh0 = g->mean;
    const device_vector<float> floats(20);
    float *const f = floats.data();
    const gs_density_rules rules = {2e-4f, 0.01f, 1.6f, 0.005f, 0.1f, 0, 7, 1200};
    gs_density_plan plan;
    const auto planned = [&](const gs_gaussians *of, const gs_density_rules *r) {
        return gs_density_plan_step(of, f, r, &plan, nullptr);
    };
    EXPECT_GS_OK(planned(g, &rules));
    for (const float wrong : {NAN, -1.0f}) {
        gs_density_rules threshold = rules, factor = rules;
        threshold.gradient_threshold = factor.split_factor = wrong;
        refused("gs_density_plan_step: rules", planned(g, &threshold));
        refused("gs_density_plan_step: rules", planned(g, &factor));
    }
    refused("gs_density_plan_step: rules", planned(g, nullptr));
    refused("gs_density_plan_step: Gaussians", planned(nullptr, &rules));
    refused("gs_density_plan_step: mean, log_scale", planned(&bare, &rules));
    plan.count_after = 11;
    refused("gs_density_move: count or sh_degree", gs_density_move(&plan, &rules, 0, g, g, nullptr));
    for (const float wrong : {0.0f, 1.0f, NAN})
        refused("gs_opacity_reset: most", gs_opacity_reset(g, g, g, wrong, nullptr));
    refused("gs_opacity_reset: activated", gs_opacity_reset(&activated, g, g, 0.5f, nullptr));
    refused("gs_density_noise: sh0", gs_density_noise(&apart, 0, 0, 0, 0, nullptr));
    refused("gs_density_noise: scale", gs_density_noise(g, 0, NAN, 1, 1, nullptr));
    refused("gs_density_noise: Gaussians", gs_density_noise(nullptr, 0, 1, 1, 1, nullptr));
    refused("gs_density_penalty: weights", gs_density_penalty(g, 10, -1, 0, g, nullptr));
    refused("gs_density_penalty: count or sh_degree", gs_density_penalty(g, 10, 1, 0, few, nullptr));
    for (const float part : {1.5f, NAN})
        refused("gs_retire: part must be in 0..1", gs_retire(g, f, part, nullptr));
    refused("gs_retire: score must be given", gs_retire(g, nullptr, 1, nullptr));
    refused("gs_score_add: splat_grad and score must be given", gs_score_add(nullptr, 9, f, nullptr));
    for (const float share : {0.95f, NAN})
        refused("gs_dropout: share", gs_dropout(g, 0, share, 1, 1, f, nullptr));
    refused("gs_dropout: logits", gs_dropout(g, 0, 0.1f, 1, 1, nullptr, nullptr));
    refused("gs_dropout: first", gs_dropout(g, -1, 0.1f, 1, 1, f, nullptr));
    refused("gs_dropout: Gaussians", gs_dropout(nullptr, 0, 0.1f, 1, 1, f, nullptr));

    refused("gs_refill: rules must be given", gs_refill(g, g, g, nullptr, nullptr));
    for (const float *const density : {(const float *)nullptr, (const float *)f}) {
        const auto refill = [=](const gs_gaussians *moments, int64_t existing, float least_opacity) {
            const gs_refill_rules of = {existing, least_opacity, 1, 1, density, nullptr};
            return gs_refill(g, moments, moments, &of, nullptr);
        };
        EXPECT_GS_OK(refill(g, 10, 0.005f));
        refused("gs_refill: count or sh_degree", refill(few, 10, 0.005f));
        refused("gs_refill: Gaussians", refill(nullptr, 10, 0.005f));
        for (const int64_t existing : {-1, 11}) refused("gs_refill: existing", refill(g, existing, 0.005f));
        for (const float opacity : {-0.1f, 1.0f, NAN})
            refused("gs_refill: least_opacity", refill(g, 10, opacity));
    }
}

// ---- images ----

TEST(Refused, Losses) {
    const device_vector<float> floats(192);
    const device_vector<uint8_t> bytes(192);
    const device_vector<double> results(4);
    float *const f = floats.data();
    gs_loss_image good = loss_image({8, 8, f, bytes.data(), nullptr}, results.data(), f);
    good.log_gain = good.depth = good.depth_target = f, good.gain_sums = good.depth_gradient = f;
    good.depth_result = results.data() + 3;
    const auto expect = [&](const char *text, int which, const std::function<void(gs_loss_image &)> &change) {
        gs_loss_image both[] = {good, good};
        EXPECT_GS_OK(gs_loss(both, 2, nullptr));
        change(both[which]);
        refused(std::string("gs_loss: ") + text, gs_loss(both, 2, nullptr));
    };
    using image = gs_loss_image;
    expect("color or depth_target must be", 1,
           [](image &i) { i.images.color = NULL, i.depth_target = NULL; });
    expect("target and result must be given with color", 0, [](image &i) { i.images.target = NULL; });
    expect("target and result must be given with color", 1, [](image &i) { i.result = NULL; });
    expect("depth and depth_result must be given with depth_target", 1, [](image &i) { i.depth = NULL; });
    expect("depth and depth_result must be given with depth_target", 0,
           [](image &i) { i.depth_result = NULL; });
    for (const float bad : {NAN, INFINITY})
        expect("depth_weight must be finite", 1, [=](image &i) { i.depth_weight = bad; });
    expect("gain_sums must be given", 1, [](image &i) { i.gain_sums = NULL; });
    expect("all images must have the same size", 1, [](image &i) { i.images.height = 7; });
    for (const int bad : {0, -1, GS_MAX_SIZE + 1, INT32_MAX}) {
        expect("width and height must be in 1..16384", 0, [=](image &i) { i.images.width = bad; });
        expect("width and height must be in 1..16384", 1, [=](image &i) { i.images.height = bad; });
    }
    for (const int32_t count : {0, GS_MAX_VIEWS + 1})
        refused("gs_loss: 1 to 32 images", gs_loss(&good, count, nullptr));
    refused("gs_loss: 1 to 32 images", gs_loss(nullptr, 2, nullptr));

    double *const to = results.data();
    const auto ssim = [=](int width, int height, int planes, const float *a, const float *b, double *result) {
        const gs_ssim_pair pair = {width, height, planes, 1, a, b};
        return gs_ssim(&pair, result, f, nullptr);
    };
    EXPECT_GS_OK(ssim(12, 12, 1, f, f, to));
    refused("gs_ssim: width and height must be at least 11", ssim(10, 12, 1, f, f, to));
    refused("gs_ssim: width and height", ssim(12, 0, 1, f, f, to));
    for (const int planes : {0, 65536}) refused("gs_ssim: planes", ssim(12, 12, planes, f, f, to));
    refused("gs_ssim: the images are too large", ssim(16384, 16384, 65535, f, f, to));
    refused("gs_ssim: first, second and result", ssim(12, 12, 1, nullptr, f, to));
    refused("gs_ssim: first, second and result", ssim(12, 12, 1, f, nullptr, to));
    refused("gs_ssim: first, second and result", ssim(12, 12, 1, f, f, nullptr));

    const device_vector<int32_t> of(4);
    const auto step = [=](gs_exposure_group group, float rate, float prior) {
        return gs_exposure_step(f, &group, f, rate, prior, nullptr);
    };
    for (const float bad : {-1.0f, float(NAN)}) {
        refused("gs_exposure_step: rate and prior", step({of.data(), 1, 0}, bad, 1));
        refused("gs_exposure_step: rate and prior", step({of.data(), 1, 0}, 1, bad));
    }
    for (const int64_t view : {-1, 1})
        refused("gs_exposure_step: view must be", step({of.data(), 1, view}, 1, 1));
    refused("gs_exposure_step: log_gains, group", step({NULL, 1, 0}, 1, 1));
}

TEST(Refused, Pictures) {
    const device_vector<float> floats(16), small(16);
    const void *const from = floats.data();
    void *const to = small.data();
    const auto shrink = [](const gs_shrinking &s) { return gs_shrink(&s, nullptr); };
    for (const gs_shrink_form form : {GS_SHRINK_BYTES, GS_SHRINK_MASK, GS_SHRINK_DEPTH, GS_SHRINK_PLANES}) {
        EXPECT_GS_OK(shrink({2, 2, 2, form, 4, 1, {from}, to})) << form;
        refused("gs_shrink: width and height", shrink({0, 2, 2, form, 4, 1, {from}, to}));
        for (const int factor : {0, GS_MAX_SIZE + 1})
            refused("gs_shrink: factor", shrink({2, 2, factor, form, 4, 1, {from}, to}));
        refused("gs_shrink: shrinking, from and small", shrink({2, 2, 2, form, 4, 1, {}, to}));
        refused("gs_shrink: shrinking, from and small", shrink({2, 2, 2, form, 4, 1, {from}, nullptr}));
    }
    for (const int channels : {0, 5})
        refused("gs_shrink: channels", shrink({2, 2, 2, GS_SHRINK_BYTES, channels, 1, {from}, to}));
    refused("gs_shrink: form must be", shrink({2, 2, 2, 4, 3, 1, {from}, to}));
    for (const int count : {0, 9}) // of planes
        refused("gs_shrink: form must be", shrink({2, 2, 2, GS_SHRINK_PLANES, 0, count, {from}, to}));
    refused("gs_shrink: planes must be given", shrink({2, 2, 2, GS_SHRINK_PLANES, 0, 2, {from}, to}));
    refused("gs_shrink: shrinking, from and small", gs_shrink(nullptr, nullptr));

    const device_vector<uint8_t> bytes(size_t{12});
    const auto backdrop = [&](std::vector<float> change, int32_t width) {
        return gs_backdrop(bytes.data(), bytes.data(), width, 2, change.data(), bytes.data(), nullptr);
    };
    EXPECT_GS_OK(backdrop({0, 1, -1}, 2));
    refused("gs_backdrop: a change must be", backdrop({0, NAN, 0}, 2));
    refused("gs_backdrop: picture, alpha, change", backdrop({}, 2));
    refused("gs_backdrop: width and height", backdrop({0, 1, -1}, 0));

    const device_vector<gs_stereo_view> views(1);
    gs_stereo stereo = {};
    refused("gs_stereo_depths: stereo and its views", gs_stereo_depths(nullptr, nullptr));
    refused("gs_stereo_depths: stereo and its views", gs_stereo_depths(&stereo, nullptr));
    stereo.views = views.data(), stereo.most_pixels = 1, stereo.tolerance = 1;
    refused("gs_stereo_depths: count", gs_stereo_depths(&stereo, nullptr));
    stereo.count = 1;
    refused("gs_stereo_points: view must be", gs_stereo_points(&stereo, 1, small.data(), nullptr));
    refused("gs_stereo_points: view must be", gs_stereo_points(&stereo, 0, nullptr, nullptr));
    stereo.tolerance = NAN;
    refused("gs_stereo_depths: most_pixels and tolerance", gs_stereo_depths(&stereo, nullptr));
}

} // namespace
