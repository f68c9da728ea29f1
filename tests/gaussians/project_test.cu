// SPDX-License-Identifier: MIT
// Projection against the reference: which Gaussians are seen, and as what.
#include "kernel_frame.h"
#include <cmath>

namespace {

class project : public testing::TestWithParam<scene_choice> {};

// The covariance that a whitening factor stands for.
void covariance_of(const gs_splat &splat, double out[3]) {
    const double scale = 1.1774100225154747; // sqrt(2 / log2(e))
    const double l0 = scale * splat.whiten[0], l1 = scale * splat.whiten[1], l2 = scale * splat.whiten[2];
    out[0] = (l1 * l1 + l2 * l2) / (l0 * l0 * l2 * l2);
    out[1] = -l1 / (l0 * l2 * l2);
    out[2] = 1 / (l2 * l2);
}

TEST_P(project, agrees_with_the_reference) {
    const kernel_frame frame(GetParam());
    const std::vector<gs_splat> splats = frame.splats.read();
    int visible = 0;
    for (int64_t i = 0; i < frame.choice.count; i++) {
        SCOPED_TRACE(testing::Message() << "Gaussian " << i << " of kind " << reference_kind_of(i));
        reference_splat expected;
        reference_project(&frame.scene.gaussians, i, frame.choice.sh_degree_used, &frame.scene.camera, NULL,
                          &expected);
        const gs_splat &splat = splats[i];
        if ((splat.depth > 0) != (expected.decisions.visible != 0)) {
            EXPECT_LT(fmin(expected.near_margin, expected.opacity_margin), 1e-4);
            continue;
        }
        if (!expected.decisions.visible) continue;
        visible++;
        const double extent =
            frame.choice.width + frame.choice.height + fabs(expected.mean[0]) + fabs(expected.mean[1]);
        for (int k = 0; k < 2; k++) EXPECT_NEAR(splat.mean[k], expected.mean[k], 1e-5 * extent);
        EXPECT_NEAR(splat.depth, expected.depth, 1e-5 * expected.depth);
        EXPECT_NEAR(exp2(double(splat.log2_opacity)), expected.opacity, 2e-6 * expected.opacity);
        for (int c = 0; c < 3; c++) {
            EXPECT_NEAR(splat.color[c], expected.color[c], 2e-6 * (1 + fabs(expected.color[c])));
            EXPECT_TRUE(frame.choice.color ||
                        (splat.color[c] > 0) == (expected.decisions.color_positive[c] != 0) ||
                        expected.color_margin < 1e-4);
        }
        double covariance[3];
        covariance_of(splat, covariance);
        const double *e = expected.covariance, size = e[0] + e[2];
        for (int k = 0; k < 3; k++) EXPECT_NEAR(covariance[k], e[k], 1e-5 * size);
        // The thin direction too: the determinant.
        const double l0_l2 = 2 * M_LN2 * splat.whiten[0] * splat.whiten[2];
        EXPECT_NEAR(l0_l2 * l0_l2 * (e[0] * e[2] - e[1] * e[1]), 1, 1e-3);
    }
    if (frame.choice.count >= REFERENCE_KIND_CYCLE && frame.pixels() > 1) {
        EXPECT_GT(visible, frame.choice.count / 4);
    }
}

INSTANTIATE_TEST_SUITE_P(scenes, project, testing::ValuesIn(comparison_scenes()));
INSTANTIATE_TEST_SUITE_P(given, project, testing::ValuesIn(scenes_with_given_inputs()));

TEST(project_edges, whatever_is_not_finite_is_culled) {
    reference_gaussians one = reference_gaussians_create(1, 0);
    one.quaternion[0] = 1, one.mean[2] = 5;
    gs_camera camera = {32, 32, 30, 30, 16, 16, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}, 0.2f};
    const auto depth = [&] {
        const device_gaussians gaussians(one);
        const device_vector<gs_splat> splats(1);
        EXPECT_GS_OK(gs_project(gaussians.get(), 0, &camera, splats.data(), NULL));
        return splats.read()[0].depth;
    };
    ASSERT_EQ(depth(), 5);
    double *values[] = {one.mean,           one.mean + 2,      one.log_scale + 1,
                        one.quaternion + 3, one.opacity_logit, one.sh + 2};
    for (double *value : values)
        for (const double bad : {double(NAN), double(INFINITY)}) {
            const double good = *value;
            *value = bad;
            // An infinite logit is an opacity of exactly 1.
            if (value == one.opacity_logit && bad > 0)
                EXPECT_EQ(depth(), 5);
            else
                EXPECT_EQ(depth(), 0) << "value " << value - one.mean << " is " << bad;
            *value = good;
        }
    one.quaternion[0] = 0;
    EXPECT_EQ(depth(), 0) << "a zero quaternion";
    reference_gaussians_destroy(&one);
}

TEST(project_edges, bad_arguments_are_named) {
    const gs_gaussians none = {};
    gs_camera camera = {32, 32, 30, 30, 16, 16, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}, 0.2f};
    EXPECT_EQ(gs_project(&none, 0, &camera, NULL, NULL), GS_OK);
    camera.width = 0;
    EXPECT_EQ(gs_project(&none, 0, &camera, NULL, NULL), GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("width"), std::string::npos) << gs_last_error();
    camera.width = 32, camera.fx = NAN;
    EXPECT_EQ(gs_project(&none, 0, &camera, NULL, NULL), GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("fx"), std::string::npos) << gs_last_error();
}

} // namespace
