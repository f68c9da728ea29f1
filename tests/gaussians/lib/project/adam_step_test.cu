// SPDX-License-Identifier: MIT
// gs_project_backward with a step against without one and gs_adam, which have tests against the reference.
#include "distwar_gs.h"
#include "kernel_frame.h"
#include <cmath>
#include <string>

namespace adam_step_test {

const gs_adam_rates all_different = {1.6e-4f, 5e-3f, 1e-3f, 5e-2f, 2.5e-3f, 1.25e-4f, 0};

// Values, moments, and what is summed for density control.
struct stepped {
    stepped(const kernel_frame &frame, size_t views)
        : gaussians(frame.scene.gaussians), first(frame.choice.count, frame.choice.sh_degree),
          second(frame.choice.count, frame.choice.sh_degree), mean2d(2 * views * size_t(frame.choice.count)),
          absolute(2 * views * size_t(frame.choice.count)),
          density(std::vector<float>(2 * size_t(frame.choice.count))) {}

    device_gaussians gaussians, first, second;
    device_vector<float> mean2d, absolute, density;
};

// The same bits on the CPU; on a GPU up to rounding, as nvcc contracts the operations of each kernel in its own way.
template <typename T>
void expect_same(const std::vector<T> &a, const std::vector<T> &b, const char *what) {
#ifdef DISTWAR_SIMT
    EXPECT_EQ(a, b) << what;
#else
    EXPECT_LE(relative_norm(a, b), 1e-6) << what;
#endif
}

// Both ways, three steps. The moments differ from step to step, some Gaussians have none.
void compare(const kernel_frame &frame, const std::vector<gs_camera> &cameras, int sh_coefficients) {
    const size_t count = size_t(frame.choice.count), splats = count * cameras.size();
    stepped at_once(frame, cameras.size()), apart(frame, cameras.size());
    const device_gaussians gradients(frame.choice.count, frame.choice.sh_degree);
    const device_vector<gs_splat> splats_of(splats);
    gs_adam_rates rates = all_different;
    rates.sh_coefficients = sh_coefficients;
    std::vector<double> lengths(2 * count);
    for (int64_t step = 1; step <= 3; step++) {
        std::vector<float> moments = random_floats(uint64_t(step), GS_SPLAT_GRAD_STRIDE * splats, -1, 1);
        for (size_t i = 0; i < splats; i++)
            for (int k = 0; i % 3 == 0 && k < GS_SPLAT_GRAD_STRIDE; k++)
                moments[GS_SPLAT_GRAD_STRIDE * i + k] = 0;
        const device_vector<float> sums(moments);
        for (stepped *of : {&at_once, &apart}) {
            gs_view view = {};
            view.gaussians = *of->gaussians.get();
            view.gaussians.antialias = frame.choice.antialias;
            view.camera = cameras[0];
            view.sh_degree_used = frame.choice.sh_degree_used;
            view.splats = splats_of.data();
            if (cameras.size() > 1) view.views = {int32_t(cameras.size()), cameras.data()};
            ASSERT_GS_OK(gs_project(&view, NULL));
            gs_gradient gradient = {};
            gradient.splat_grad = reinterpret_cast<gs_splat_grad *>(sums.data());
            gradient.mean2d = of->mean2d.data(), gradient.abs_mean2d = of->absolute.data();
            if (of == &at_once) {
                const gs_adam_step adam = {
                    of->gaussians.get(), of->first.get(), of->second.get(), rates, step, of->density.data()};
                gradient.adam = &adam;
                ASSERT_GS_OK(gs_project_backward(&view, &gradient, NULL));
            } else {
                gradient.gaussians = *gradients.get();
                ASSERT_GS_OK(gs_project_backward(&view, &gradient, NULL));
                ASSERT_GS_OK(gs_adam(of->gaussians.get(), gradients.get(), of->first.get(), of->second.get(),
                                     &rates, step, NULL));
            }
        }
        const std::vector<float> absolute = apart.absolute.read();
        for (size_t i = 0; i < splats; i++)
            lengths[2 * (i % count)] += std::hypot(absolute[2 * i], absolute[2 * i + 1]);
    }
    expect_same(at_once.gaussians.values(), apart.gaussians.values(), "values");
    expect_same(at_once.first.values(), apart.first.values(), "first moments");
    expect_same(at_once.second.values(), apart.second.values(), "second moments");
    expect_same(at_once.mean2d.read(), apart.mean2d.read(), "mean2d");
    expect_same(at_once.absolute.read(), apart.absolute.read(), "abs_mean2d");
    EXPECT_LE(relative_norm(at_once.density.read(), lengths), 1e-6);
    EXPECT_GT(relative_norm(apart.gaussians.values(), device_gaussians(frame.scene.gaussians).values()), 0);
}

class AdamStep : public testing::TestWithParam<scene_choice> {};

TEST_P(AdamStep, IsTheTwoCallsInOne) {
    const kernel_frame frame(GetParam());
    const int used = (GetParam().sh_degree_used + 1) * (GetParam().sh_degree_used + 1);
    std::vector<gs_camera> cameras(1, frame.view.camera);
    for (const size_t count : {1, 3}) {
        for (; cameras.size() < count; cameras.back().translation[0] += 0.1f * float(cameras.size()))
            cameras.push_back(cameras[0]);
        for (const int coefficients : {0, used}) {
            SCOPED_TRACE(testing::Message() << count << " views, " << coefficients << " coefficients");
            compare(frame, cameras, coefficients);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, AdamStep, testing::ValuesIn(comparison_scenes()));
// The last warp's values are no multiple of four, nor do four of them lie in one row.
INSTANTIATE_TEST_SUITE_P(OddRows, AdamStep,
                         testing::Values(scene_choice{31, 37, 0, 0, 45, 37},
                                         scene_choice{32, 37, 2, 2, 45, 37},
                                         scene_choice{33, 35, 3, 3, 45, 37}));

TEST(AdamStepEdges, WhatCannotBeIsRefused) {
    const kernel_frame frame({21, 80, 1, 1, 45, 37});
    stepped of(frame, 1);
    const device_vector<float> sums(std::vector<float>(80 * size_t(GS_SPLAT_GRAD_STRIDE))),
        colors(std::vector<float>(240));
    gs_view view = frame.view;
    view.gaussians = *of.gaussians.get();
    gs_gradient gradient = {};
    gradient.splat_grad = reinterpret_cast<gs_splat_grad *>(sums.data());
    gs_adam_step adam = {of.gaussians.get(), of.first.get(), of.second.get(), all_different, 1, nullptr};
    gradient.adam = &adam;
    const auto refused = [&](const char *text) {
        expect_refused(gs_project_backward(&view, &gradient, NULL), text);
    };
    ASSERT_GS_OK(gs_project_backward(&view, &gradient, NULL));
    adam.step = 0;
    refused("gs_project_backward: step must be 1 or more");
    adam.step = 1, adam.rates.shN = NAN;
    refused("rates must be finite");
    adam.rates.shN = 0;
    gs_gaussians other = *of.first.get();
    adam.first_moment = &other;
    other.count--;
    refused("count or sh_degree of the arguments differ");
    other.count++, other.sh++;
    refused("sh of adam's arrays must be aligned to 16 bytes");
    other.sh--, other.mean = NULL;
    refused("mean, log_scale, quaternion, opacity_logit and sh must be given");
    adam.first_moment = of.first.get();
    gs_camera_gradient camera;
    gradient.camera = &camera;
    refused("the gradient by the camera is not computed with a step");
    gradient.camera = NULL, gradient.splat_grad = NULL;
    refused("splat_grad must be given");
    gradient.splat_grad = reinterpret_cast<gs_splat_grad *>(sums.data());
    view.gaussians.form = GS_ACTIVATED;
    refused("activated arrays");
    view.gaussians.form = GS_RAW, view.gaussians.color = colors.data();
    refused("given colours");
    view.gaussians.color = NULL, view.gaussians.count--;
    refused("adam must have the shape of gaussians");
}

TEST(AdamStepEdges, TakesNoGaussians) {
    gs_gaussians none = {};
    gs_view view = {};
    view.camera = {16, 16, 10, 10, 8, 8, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {}, 0.1f, GS_PINHOLE, {}, 0};
    const gs_adam_step adam = {&none, &none, &none, all_different, 1, nullptr};
    gs_gradient gradient = {};
    gradient.adam = &adam;
    EXPECT_GS_OK(gs_project_backward(&view, &gradient, NULL));
}

} // namespace adam_step_test
