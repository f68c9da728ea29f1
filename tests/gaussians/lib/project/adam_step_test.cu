// SPDX-License-Identifier: MIT
// gs_project_backward with a step against without one and gs_adam, which have tests against the reference.
#include "kernel_frame.h"
#include <cmath>

namespace adam_step_test {

const gs_adam_rates all_different = {1.6e-4f, 5e-3f, 1e-3f, 5e-2f, 2.5e-3f, 1.25e-4f, 0};

// Values, moments, and what is summed for density control.
struct stepped {
    stepped(const kernel_frame &frame, const gs_view &like)
        : gaussians(frame.scene.gaussians), first(frame.choice), second(frame.choice),
          density(std::vector<float>(2 * size_t(frame.choice.count))), step(like, frame.choice) {
        step.view.gaussians = *gaussians.get();
        step.gradient.abs_mean2d = step.abs_mean2d.data();
    }
    device_gaussians gaussians, first, second;
    device_vector<float> density;
    view_step step;
};

// Both ways, three steps. The moments differ from step to step, some Gaussians have none.
void compare(const kernel_frame &frame, const std::vector<gs_camera> &cameras, int sh_coefficients) {
    gs_view like = frame.view;
    if (cameras.size() > 1) like.views = {int32_t(cameras.size()), cameras.data()};
    stepped at_once(frame, like), apart(frame, like);
    const size_t count = size_t(frame.choice.count), splats = count * cameras.size();
    gs_adam_rates rates = all_different;
    rates.sh_coefficients = sh_coefficients;
    std::vector<double> lengths(2 * count);
    std::vector<float> absolute;
    for (int64_t step = 1; step <= 3; step++) {
        std::vector<float> moments = random_floats(uint64_t(step), GS_SPLAT_GRAD_STRIDE * splats, -1, 1);
        for (size_t i = 0; i < splats; i += 3)
            std::fill_n(moments.begin() + int64_t(GS_SPLAT_GRAD_STRIDE * i), GS_SPLAT_GRAD_STRIDE, 0.0f);
        const gs_adam_step adam = {
            at_once.gaussians.get(), at_once.first.get(), at_once.second.get(), rates, step,
            at_once.density.data()};
        at_once.step.gradient.adam = &adam;
        for (const stepped *of : {&at_once, &apart}) {
            of->step.set_moments(moments);
            of->step.project_there_and_back();
        }
        ASSERT_GS_OK(gs_adam(apart.gaussians.get(), apart.step.gradients.get(), apart.first.get(),
                             apart.second.get(), &rates, step, NULL));
        absolute = apart.step.abs_mean2d.read();
        for (size_t i = 0; i < splats; i++)
            lengths[2 * (i % count)] += std::hypot(absolute[2 * i], absolute[2 * i + 1]);
    }
    expect_same(at_once.gaussians.values(), apart.gaussians.values(), "values");
    expect_same(at_once.first.values(), apart.first.values(), "first moments");
    expect_same(at_once.second.values(), apart.second.values(), "second moments");
    expect_same(doubles(at_once.step.mean2d.read()), doubles(apart.step.mean2d.read()), "mean2d");
    expect_same(doubles(at_once.step.abs_mean2d.read()), doubles(absolute), "abs_mean2d");
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

} // namespace adam_step_test
