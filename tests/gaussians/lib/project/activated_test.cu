// SPDX-License-Identifier: MIT
// What bindings for automatic differentiation use: scales and opacities as they are, another low-pass filter, the far
// plane, and the gradient by the splats' means as a quantity of its own.
#include "kernel_frame.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

const scene_choice activated_scene = {23, 300, 1, 1, 61, 47};

// The scene's projection and its adjoint under given moments; the view and the gradient may be changed between.
struct projection {
    explicit projection(const scene_choice &choice, bool activated = false)
        : frame(choice), in(frame.scene.gaussians), step(frame), view(step.view), gradient(step.gradient) {
        view.gaussians = *in.get();
        step.set_moments(7);
        if (!activated) return;
        view.gaussians.form = GS_ACTIVATED;
        std::vector<double> values = in.values();
        const size_t n = size_t(choice.count); // after means: scales; after quaternions: opacities
        for (size_t i = 3 * n; i < 6 * n; i++) values[i] = exp(values[i]);
        for (size_t i = 10 * n; i < 11 * n; i++) values[i] = 1 / (1 + exp(-values[i]));
        in.write(values);
    }
    std::vector<gs_splat> run() {
        step.project_there_and_back();
        return step.splats.read();
    }

    kernel_frame frame;
    device_gaussians in;
    view_step step;
    own_view &view;
    gs_gradient &gradient;
};

TEST(Activated, IsTheChainRule) {
    for (const bool antialias : {false, true}) {
        scene_choice choice = activated_scene;
        choice.antialias = antialias;
        projection stored(choice), activated(choice, true);
        const std::vector<gs_splat> a = stored.run(), b = activated.run();
        std::vector<double> seen[2], scale[2], opacity[2];
        const held_gaussians by_stored = stored.step.gradients.read(),
                             by_values = activated.step.gradients.read();
        const reference_gaussians &at = stored.frame.scene.gaussians;
        int visible = 0;
        for (int64_t i = 0; i < choice.count; i++) {
            if (a[size_t(i)].depth == 0 || b[size_t(i)].depth == 0) continue; // on the edge of opacity 1/255
            visible++;
            for (int k = 0; k < 3; k++) {
                seen[0].push_back(a[size_t(i)].conic_sqrt[k]), seen[1].push_back(b[size_t(i)].conic_sqrt[k]);
                scale[0].push_back(by_stored.log_scale[3 * i + k]);
                scale[1].push_back(by_values.log_scale[3 * i + k] * exp(at.log_scale[3 * i + k]));
            }
            seen[0].push_back(a[size_t(i)].log2_opacity), seen[1].push_back(b[size_t(i)].log2_opacity);
            const double o = 1 / (1 + exp(-at.opacity_logit[i]));
            opacity[0].push_back(by_stored.opacity_logit[i]);
            opacity[1].push_back(by_values.opacity_logit[i] * o * (1 - o));
        }
        EXPECT_GT(visible, choice.count / 4);
        EXPECT_LE(relative_norm(seen[1], seen[0]), 1e-5);
        EXPECT_LE(relative_norm(scale[1], scale[0]), 1e-5);
        EXPECT_LE(relative_norm(opacity[1], opacity[0]), 1e-5);
    }
}

TEST(Activated, AScaleOf0HasAGradientOf0) {
    projection p(activated_scene, true);
    std::vector<float> zeros(size_t(3 * activated_scene.count), 0.0f);
    device_upload(p.view.gaussians.log_scale, zeros.data(), zeros.size() * sizeof(float));
    p.run();
    const std::vector<double> got = p.step.gradients.values(); // after means, log_scale
    for (int64_t i = 3 * activated_scene.count; i < 6 * activated_scene.count; i++)
        EXPECT_EQ(got[size_t(i)], 0);
}

// The constants of harmonics in an array of their own give the same bits, by one view and by three.
TEST(Constants, MayBeApart) {
    for (int degree = 0; degree <= 3; degree++)
        for (const int used : {0, 1, 3})
            for (const int views : {1, 3}) {
                SCOPED_TRACE(testing::Message()
                             << "degree " << used << " of " << degree << ", views " << views);
                const scene_choice choice = {24, 77, degree, used, 61, 47};
                const int64_t n = choice.count, row = 3 * (degree + 1) * (degree + 1);
                const kernel_frame frame(choice);
                const std::vector<gs_camera> cameras(size_t(views), frame.view.camera);
                gs_view like = frame.view;
                like.views = {views, cameras.data()};
                view_step whole(like, choice), apart(like, choice);
                for (view_step *const step : {&whole, &apart}) step->set_moments(8);
                // The first three of each row, and the rest.
                const auto split = [&](const float *rows) {
                    std::pair<std::vector<float>, std::vector<float>> out;
                    const std::vector<float> sh = downloaded(rows, size_t(n * row));
                    for (int64_t k = 0; k < n * row; k++)
                        (k % row < 3 ? out.first : out.second).push_back(sh[size_t(k)]);
                    return out;
                };
                const auto [heads, others] = split(whole.view.gaussians.sh);
                const device_vector<float> constant(heads), remaining(others), d_constant(heads.size()),
                    d_remaining(others.size());
                apart.view.gaussians.sh0 = constant.data();
                apart.view.gaussians.sh = degree ? remaining.data() : NULL;
                apart.gradient.gaussians.sh0 = d_constant.data();
                apart.gradient.gaussians.sh = degree ? d_remaining.data() : NULL;
                for (view_step *const step : {&whole, &apart}) step->project_there_and_back();
                const std::vector<gs_splat> a = whole.splats.read(), b = apart.splats.read();
                EXPECT_EQ(memcmp(a.data(), b.data(), a.size() * sizeof(gs_splat)), 0);
                const auto [d_heads, d_others] = split(whole.gradient.gaussians.sh);
                EXPECT_EQ(d_constant.read(), d_heads);
                EXPECT_EQ(d_remaining.read(), d_others);
                EXPECT_GT(relative_norm(d_heads, std::vector<float>(d_heads.size(), 1e-30f)), 1);
                const std::vector<double> by_whole = whole.gradients.values(),
                                          by_apart = apart.gradients.values();
                ASSERT_TRUE(std::equal(by_whole.begin(), by_whole.begin() + 11 * n, by_apart.begin()));
            }
}

TEST(LowPass, AddsToBothVariances) {
    projection usual(activated_scene), wide(activated_scene);
    wide.view.gaussians.eps2d = 0.8f;
    const std::vector<gs_splat> a = usual.run(), b = wide.run();
    int compared = 0;
    for (size_t i = 0; i < a.size(); i++) {
        if (a[i].depth == 0) continue;
        // The variance along y is 1 / l2^2 = log2(e) / (2 w2^2).
        const double before = M_LOG2E / 2 / (double(a[i].conic_sqrt[2]) * a[i].conic_sqrt[2]),
                     after = M_LOG2E / 2 / (double(b[i].conic_sqrt[2]) * b[i].conic_sqrt[2]);
        EXPECT_NEAR(after - before, 0.5, 1e-5 * after);
        compared++;
    }
    EXPECT_GT(compared, 50);
}

TEST(FarPlane, CullsWhatIsBehindIt) {
    projection p(activated_scene);
    const std::vector<gs_splat> all = p.run();
    std::vector<float> depths;
    for (const gs_splat &splat : all)
        if (splat.depth > 0) depths.push_back(splat.depth);
    std::nth_element(depths.begin(), depths.begin() + std::ptrdiff_t(depths.size() / 2), depths.end());
    p.view.camera.far_plane = depths[depths.size() / 2];
    const std::vector<gs_splat> kept = p.run();
    for (size_t i = 0; i < all.size(); i++)
        EXPECT_EQ(kept[i].depth, all[i].depth <= p.view.camera.far_plane ? all[i].depth : 0.0f);
}

// The gradient by the means of splats, taken out and given back, changes nothing; twice of it adds what the gradient
// has without the other moments.
TEST(Mean2d, IsAGradientOfItsOwn) {
    projection p(activated_scene);
    const std::vector<gs_splat> splats = p.run();
    const size_t n = size_t(activated_scene.count);
    const device_vector<float> taken(std::vector<float>(2 * n, NAN)),
        absolute(std::vector<float>(2 * n, NAN));
    ASSERT_GS_OK(gs_mean2d_gradient(&p.view, p.gradient.splat_grad, taken.data(), absolute.data(), NULL));
    const std::vector<float> pixels = taken.read(), sums = absolute.read(), halves = p.step.mean2d.read();
    std::vector<double> expected(halves.begin(), halves.end()), got;
    for (size_t i = 0; i < pixels.size(); i++)
        got.push_back(pixels[i] * 0.5 * (i % 2 == 0 ? activated_scene.width : activated_scene.height));
    EXPECT_LE(relative_norm(got, expected), 1e-6);
    const std::vector<float> splat_grad = p.step.moments();
    for (size_t i = 0; i < n; i++)
        EXPECT_NEAR(sums[2 * i],
                    splats[i].depth == 0
                        ? 0
                        : 2 * M_LN2 * splats[i].conic_sqrt[0] * splat_grad[GS_SPLAT_GRAD_STRIDE * i + 10],
                    1e-5 * (1 + fabs(sums[2 * i])));

    const auto means = [&](const float *pixel_mean2d) {
        p.gradient.pixel_mean2d = pixel_mean2d;
        p.run();
        std::vector<double> out = p.step.gradients.values();
        out.resize(3 * n); // the first of all arrays
        return out;
    };
    const std::vector<double> without = means(NULL), back = means(taken.data());
    EXPECT_LE(relative_norm(back, without), 1e-6);
    std::vector<float> twice = pixels;
    for (float &value : twice) value *= 2;
    const device_vector<float> doubled(twice);
    const std::vector<double> more = means(doubled.data());
    p.step.set_moments(std::vector<float>(n * GS_SPLAT_GRAD_STRIDE));
    const std::vector<double> alone = means(taken.data());
    std::vector<double> difference(more.size());
    for (size_t i = 0; i < more.size(); i++) difference[i] = more[i] - without[i];
    EXPECT_GT(relative_norm(more, without), 1e-3);
    EXPECT_LE(relative_norm(difference, alone), 1e-4);
}

} // namespace
