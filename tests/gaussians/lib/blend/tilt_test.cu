// SPDX-License-Identifier: MIT
// The gradient by a colour that changes along a Gaussian's longest axis, against the reference: its renderings differ by
// what such a colour brings.
#include "blend_cases.h"
#include "distwar_gs_split.h"
#include "kernel_frame.h"
#include <algorithm>
#include <cmath>

namespace {

// The longest axis in the world, a deviation long.
void world_axis(const reference_gaussians &g, int64_t i, double out[3]) {
    const double *q = g.quaternion + 4 * i, *s = g.log_scale + 3 * i;
    const double n = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]), w = q[0] / n,
                 x = q[1] / n, y = q[2] / n, z = q[3] / n;
    const double rotation[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                                   {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                                   {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
    const int64_t j = std::max_element(s, s + 3) - s;
    const double scale = (g.scale_modifier > 0 ? g.scale_modifier : 1) * std::exp(s[j]);
    for (int k = 0; k < 3; k++) out[k] = scale * rotation[k][j];
}

struct image_axis {
    double at[2];
    bool has_sign; // is certain: the axis has a length in the picture
};

// The axis in the picture. The covariance is a sum over axes of a' a'^T, so its derivative by the logarithm of the
// longest scale is 2 a' a'^T. The direction is that in which the mean moves with the axis.
image_axis axis_of(const kernel_frame &frame, const reference_splat_decisions &held, int64_t i) {
    const double step = 1e-5;
    reference_gaussians g = frame.scene.gaussians;
    const double *s = g.log_scale + 3 * i;
    double *const scale = g.log_scale + 3 * i + (std::max_element(s, s + 3) - s), *const mean =
                                                                                      g.mean + 3 * i;
    double axis[3], moved[2], covariance[3];
    world_axis(g, i, axis);
    reference_splat at[4];
    for (int side = 0; side < 2; side++) {
        const double kept = *scale, by = side ? step : -step;
        *scale += by;
        reference_project(&g, i, frame.choice.sh_degree_used, &frame.scene.camera, &held, &at[side]);
        *scale = kept;
        double old[3];
        for (int k = 0; k < 3; k++) old[k] = mean[k], mean[k] += by * axis[k];
        reference_project(&g, i, frame.choice.sh_degree_used, &frame.scene.camera, &held, &at[2 + side]);
        for (int k = 0; k < 3; k++) mean[k] = old[k];
    }
    for (int k = 0; k < 3; k++) covariance[k] = (at[1].covariance[k] - at[0].covariance[k]) / (4 * step);
    for (int k = 0; k < 2; k++) moved[k] = (at[3].mean[k] - at[2].mean[k]) / (2 * step);
    image_axis out = {{std::sqrt(std::max(covariance[0], 0.0)), std::sqrt(std::max(covariance[2], 0.0))},
                      true};
    if (covariance[1] < 0) out.at[1] = -out.at[1];
    const double along = out.at[0] * moved[0] + out.at[1] * moved[1];
    out.has_sign = std::abs(along) > 0.1 * std::hypot(out.at[0], out.at[1]) * std::hypot(moved[0], moved[1]);
    if (along < 0) out.at[0] = -out.at[0], out.at[1] = -out.at[1];
    return out;
}

class Tilt : public testing::TestWithParam<scene_choice> {
  protected:
    Tilt() : frame(GetParam()) {
        taken = frame.decisions();
        reference = frame.reference_splats(taken);
        EXPECT_GS_OK(gs_project_tilt(&frame.view, NULL));
        splats = frame.splats.read();
        for (int64_t i = 0; i < frame.choice.count; i++) axes.push_back(axis_of(frame, taken.splats[i], i));
    }
    ~Tilt() { reference_decisions_destroy(&taken); }

    kernel_frame frame;
    reference_decisions taken;
    std::vector<reference_splat> reference;
    std::vector<gs_splat> splats;
    std::vector<image_axis> axes;
};

TEST_P(Tilt, IsTheSlopeAlongTheLongestAxis) {
    std::vector<double> got, expected;
    int64_t uncertain = 0, seen = 0;
    for (size_t i = 0; i < splats.size(); i++) {
        const gs_splat &splat = splats[i];
        if (splat.depth == 0) {
            EXPECT_EQ(splat.tilt[0], 0);
            EXPECT_EQ(splat.tilt[1], 0);
            continue;
        }
        seen++;
        uncertain += !axes[i].has_sign;
        const double *a = axes[i].at, scale = 2 * std::log(2.0);
        double want[2] = {scale * (splat.whiten[0] * a[0] + splat.whiten[1] * a[1]),
                          scale * splat.whiten[2] * a[1]};
        const bool turned = want[0] * splat.tilt[0] + want[1] * splat.tilt[1] < 0;
        for (int k = 0; k < 2; k++) {
            got.push_back(splat.tilt[k]);
            expected.push_back(turned && !axes[i].has_sign ? -want[k] : want[k]);
        }
        EXPECT_LE(std::hypot(want[0], want[1]), 1.1775) << "sqrt(2 ln 2), the bound of the strategy fixed";
    }
    EXPECT_LE(relative_norm(got, expected), 1e-3);
    EXPECT_LE(uncertain, seen / 10);
}
INSTANTIATE_TEST_SUITE_P(Scenes, Tilt,
                         testing::Values(scene_choice{4, 192, 3, 3, 71, 45},
                                         scene_choice{2, 128, 1, 1, 50, 37},
                                         scene_choice{13, 96, 1, 1, 40, 40, false, false, 0.5f},
                                         scene_choice{16, 192, 2, 2, 67, 47, false, false, 0, true, true}));

class TiltGradient : public Tilt {};

// A Gaussian's colour enters the picture linearly: the picture in which it alone is white is the derivative by it.
TEST_P(TiltGradient, IsThatOfTheReferenceByEveryReduction) {
    const size_t count = splats.size(), pixels = size_t(frame.pixels());
    const std::vector<float> d_color = random_floats(11, 3 * pixels, -1, 1), d_alpha(pixels);
    std::vector<double> expected;
    reference_image white = reference_image_of_channels(1, frame.choice.width, frame.choice.height);
    for (size_t i = 0; i < count; i++) {
        double sum[3] = {};
        const reference_splat &splat = reference[i];
        if (splat.decisions.visible) {
            std::vector<double> color(count);
            color[i] = 1;
            const double black = 0;
            reference_blend blend = frame.blend(taken, reference);
            blend.channels = 1, blend.color = color.data(), blend.background = &black;
            reference_render(&blend, NULL, &white);
            const double a = splat.covariance[0], b = splat.covariance[1], c = splat.covariance[2],
                         det = a * c - b * b;
            const double *axis = axes[i].at;
            // The axis whose sign is uncertain is nearly the line of sight: as the kernel has it.
            const double turned = axes[i].has_sign || axis[1] * splats[i].tilt[1] >= 0 ? 1 : -1;
            for (size_t p = 0; p < pixels; p++) {
                const double x = double(p % size_t(frame.choice.width)) + 0.5 - splat.mean[0],
                             y = double(p / size_t(frame.choice.width)) + 0.5 - splat.mean[1];
                const double slope = turned * (axis[0] * (c * x - b * y) + axis[1] * (a * y - b * x)) / det;
                for (size_t k = 0; k < 3; k++) sum[k] += white.color[p] * slope * d_color[k * pixels + p];
            }
        }
        expected.insert(expected.end(), sum, sum + 3);
    }
    reference_image_destroy(&white);
    const device_vector<float> wanted(3 * count);
    gs_gradient extras = {};
    extras.tilt = wanted.data();
    for (const blend_case &w : blend_cases) {
        SCOPED_TRACE(testing::Message() << w);
        divide(&frame.view.lists, w);
        const distwar_policy policy = {w.strategy, w.balance_threshold};
        const std::vector<float> moments = frame.backward(d_color, d_alpha, policy, extras),
                                 others = frame.backward(d_color, d_alpha, policy);
        std::vector<double> tilt, rest, plain;
        for (size_t k = 0; k < moments.size(); k++) {
            const bool is_tilt = k % GS_MOMENTS_STRIDE >= GS_MOMENTS;
            (is_tilt ? tilt : rest).push_back(moments[k]);
            if (!is_tilt) plain.push_back(others[k]);
        }
        EXPECT_LE(relative_norm(tilt, expected), 1e-4);
        EXPECT_LE(relative_norm(rest, plain), 1e-5);
    }
}
INSTANTIATE_TEST_SUITE_P(Scenes, TiltGradient,
                         testing::Values(scene_choice{2, 128, 1, 1, 50, 37},
                                         scene_choice{5, 64, 3, 1, 17, 90}));

// The moments without it give the same gradients: what stands in place of the depth's is taken away.
TEST(TiltEdges, LeavesTheOtherGradientsAlone) {
    const kernel_frame frame({4, 192, 3, 3, 71, 45});
    const size_t count = 192;
    const std::vector<float> values = random_floats(5, count * GS_MOMENTS_STRIDE, -1, 1);
    std::vector<float> plain = values, tilt_of[2];
    for (size_t k = 0; k < plain.size(); k++)
        if (k % GS_MOMENTS_STRIDE >= GS_MOMENTS) plain[k] = 0;
    std::vector<double> gradients[2];
    for (int with = 0; with < 2; with++) {
        const device_vector<float> moments(with ? values : plain), tilt(3 * count);
        const device_gaussians out(int64_t(count), 3);
        gs_gradient gradient = {};
        gradient.moments = reinterpret_cast<gs_moments *>(moments.data()), gradient.gaussians = *out.get();
        if (with) gradient.tilt = tilt.data();
        ASSERT_GS_OK(gs_project_backward(&frame.view, &gradient, NULL));
        reference_gaussians got = out.read();
        gradients[with].assign(got.mean, got.mean + reference_gaussians_values(&got));
        reference_gaussians_destroy(&got);
        EXPECT_EQ(moments.read(), plain);
        tilt_of[with] = tilt.read();
    }
    EXPECT_EQ(gradients[1], gradients[0]);
    const std::vector<gs_splat> splats = frame.splats.read();
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < 3; c++)
            EXPECT_EQ(tilt_of[1][3 * i + c],
                      splats[i].depth > 0 ? values[i * GS_MOMENTS_STRIDE + GS_MOMENTS + c] : 0);
}

TEST(TiltEdges, IsOfThreeChannelsWithoutDepth) {
    kernel_frame frame({2, 128, 1, 1, 50, 37});
    const device_vector<float> d_color(3 * size_t(frame.pixels())), out(3 * 128), abs(2 * 128);
    const device_vector<gs_moments> moments(128);
    gs_gradient gradient = {};
    gradient.color = d_color.data(), gradient.moments = moments.data(), gradient.tilt = out.data();
    gradient.moments_bytes = 128 * sizeof(gs_moments), gradient.abs_mean2d = abs.data();
    EXPECT_EQ(gs_render_backward(&frame.view, &gradient, {DISTWAR_TREE, 0}, NULL), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(),
                 "gs_render_backward: tilt needs 3 channels, and neither depth nor abs_mean2d");
    gradient.abs_mean2d = NULL;
    EXPECT_GS_OK(gs_render_backward(&frame.view, &gradient, {DISTWAR_TREE, 0}, NULL));
    const device_vector<float> covariance(6 * 128);
    frame.view.gaussians.covariance = covariance.data();
    EXPECT_EQ(gs_project_tilt(&frame.view, NULL), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_project_tilt: tilt needs scales and quaternions");
}

} // namespace
