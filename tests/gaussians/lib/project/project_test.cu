// SPDX-License-Identifier: MIT
// Projection against the reference: which Gaussians are seen, and as what; and what must hold of it and its
// adjoint without one.
#include "kernel_frame.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

class Project : public testing::TestWithParam<scene_choice> {};

// The covariance that a conic_sqrt stands for.
void covariance_of(const gs_splat &splat, double out[3]) {
    const double scale = 1.1774100225154747; // sqrt(2 / log2(e))
    const double l0 = scale * splat.conic_sqrt[0], l1 = scale * splat.conic_sqrt[1],
                 l2 = scale * splat.conic_sqrt[2];
    out[0] = (l1 * l1 + l2 * l2) / (l0 * l0 * l2 * l2);
    out[1] = -l1 / (l0 * l2 * l2);
    out[2] = 1 / (l2 * l2);
}

TEST_P(Project, AgreesWithTheReference) {
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
        EXPECT_NEAR(exp2(double(splat.log2_opacity)), expected.opacity, 4e-6 * expected.opacity);
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
        const double l0_l2 = 2 * M_LN2 * splat.conic_sqrt[0] * splat.conic_sqrt[2];
        EXPECT_NEAR(l0_l2 * l0_l2 * (e[0] * e[2] - e[1] * e[1]), 1, 1e-3);
    }
    if (frame.choice.count >= REFERENCE_KIND_CYCLE && frame.pixels() > 1) {
        EXPECT_GT(visible, frame.choice.count / 4);
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Project, testing::ValuesIn(comparison_scenes()));
INSTANTIATE_TEST_SUITE_P(Given, Project, testing::ValuesIn(scenes_with_given_inputs()));

// All that a projection and its adjoint write.
struct projection_outcome {
    std::vector<gs_splat> splats;
    std::vector<double> gradients; // as reference_gaussians has them
    std::vector<float> mean2d;
    gs_camera_gradient camera;
};

projection_outcome there_and_back(const reference_gaussians &gaussians, int sh_degree_used,
                                  const gs_camera &camera, const std::vector<float> &splat_grad) {
    const device_gaussians in(gaussians);
    gs_view view = {};
    view.gaussians = *in.get(), view.camera = camera, view.sh_degree_used = sh_degree_used;
    view_step step(view, {0, gaussians.count, gaussians.sh_degree, sh_degree_used, 0, 0});
    step.set_moments(splat_grad);
    step.gradient.camera = step.camera.data();
    step.project_there_and_back();
    return {step.splats.read(), step.gradients.values(), step.mean2d.read(), step.camera_gradient()};
}

// Row i of an array of n rows becomes row n - 1 - i.
template <typename T>
void turn_rows(T *array, int64_t n, int64_t row) {
    for (int64_t i = 0; i < n / 2; i++)
        std::swap_ranges(array + i * row, array + (i + 1) * row, array + (n - 1 - i) * row);
}

void turn_rows(double *values, int64_t n, int sh_degree) {
    const int rows[] = {3, 3, 4, 1, 3 * (sh_degree + 1) * (sh_degree + 1)};
    for (const int row : rows) {
        turn_rows(values, n, int64_t(row));
        values += n * row;
    }
}

// Warps move rows together; what comes of a Gaussian must not depend on where it stands, nor on its
// neighbours, of which some are culled, some have moments of 0, and some are not there, the last warp being a
// part of one.
TEST(ProjectEdges, NeighboursMakeNoDifference) {
    for (int degree = 0; degree <= 3; degree++)
        for (int used = 0; used <= degree; used++) {
            SCOPED_TRACE(testing::Message() << "degree " << used << " of " << degree);
            const int64_t n = 77;
            const held_scene scene = reference_scene_create(40 + degree, n, degree, 64, 48);
            const gs_camera camera = reference_camera_to_floats(&scene.camera);
            std::vector<float> splat_grad = random_floats(50 + used, size_t(n * GS_SPLAT_GRAD_STRIDE), -1, 1);
            for (int64_t i = 0; i < n; i += 5)
                std::fill_n(splat_grad.begin() + i * GS_SPLAT_GRAD_STRIDE, GS_SPLAT_GRAD_STRIDE, 0.0f);
            const projection_outcome one_way = there_and_back(scene.gaussians, used, camera, splat_grad);

            turn_rows(scene.gaussians.mean, n, degree);
            turn_rows(splat_grad.data(), n, int64_t(GS_SPLAT_GRAD_STRIDE));
            projection_outcome other_way = there_and_back(scene.gaussians, used, camera, splat_grad);
            turn_rows(other_way.splats.data(), n, int64_t(1));
            turn_rows(other_way.gradients.data(), n, degree);
            turn_rows(other_way.mean2d.data(), n, int64_t(2));

            int64_t culled = 0, without = 0;
            for (int64_t i = 0; i < n; i++) {
                ASSERT_EQ(memcmp(&one_way.splats[i], &other_way.splats[i], sizeof(gs_splat)), 0) << i;
                culled += one_way.splats[i].depth == 0;
                if (i % 5 != 0 && one_way.splats[i].depth > 0) continue;
                without++;
                EXPECT_EQ(one_way.mean2d[2 * i], 0) << i;
                EXPECT_EQ(one_way.gradients[3 * i], 0) << i;
            }
            EXPECT_GT(culled, 0);
            EXPECT_GT(without, culled);
            EXPECT_EQ(one_way.gradients, other_way.gradients); // NaN would not be equal
            EXPECT_EQ(one_way.mean2d, other_way.mean2d);
            const int64_t values = int64_t(one_way.gradients.size());
            EXPECT_LT(std::count(one_way.gradients.begin(), one_way.gradients.end(), 0.0), values * 9 / 10);
        }
}

// Gaussians at given angles off the axis of a fisheye, one unit apart or more from the camera.
struct fisheye_row {
    held_scene scene;
    std::vector<double> angles = {1e-5, 1e-3, 0.03, 0.3, 0.49, 0.51, 1.0};

    fisheye_row() : scene(reference_scene_seen_by(GS_FISHEYE, 70, 14, 2, 64, 48)) {
        for (const double off_axis : {80, 89, 90, 91, 110, 140, 158}) angles.push_back(off_axis * M_PI / 180);
        const reference_camera &camera = scene.camera;
        for (size_t i = 0; i < angles.size(); i++) {
            const double around = 2.4 * double(i), distance = 1 + 0.3 * double(i), t = angles[i];
            const double at[3] = {distance * sin(t) * cos(around), distance * sin(t) * sin(around),
                                  distance * cos(t)};
            for (int c = 0; c < 3; c++) {
                double mean = 0;
                for (int r = 0; r < 3; r++)
                    mean += camera.rotation[3 * r + c] * (at[r] - camera.translation[r]);
                scene.gaussians.mean[3 * i + size_t(c)] = float(mean);
                scene.gaussians.log_scale[3 * i + size_t(c)] = float(-3 + 0.7 * c);
            }
            scene.gaussians.opacity_logit[i] = 1;
            const double q[4] = {0.5, 0.25, -0.5, 0.75};
            std::copy_n(q, 4, scene.gaussians.quaternion + 4 * i);
        }
    }
};

// Each Gaussian alone, so that none hides behind another's size.
TEST(ProjectFisheye, EachAngleAgreesWithTheReference) {
    const fisheye_row row;
    const reference_gaussians &gaussians = row.scene.gaussians;
    const int64_t n = gaussians.count;
    const gs_camera camera = reference_camera_to_floats(&row.scene.camera);
    const held_gaussians expected = reference_gaussians_create(n, 2);
    reference_camera_gradient by_camera = {};
    const std::vector<float> weights = random_floats(71, size_t(10 * n), -1, 1);
    std::vector<float> splat_grad(size_t(n * GS_SPLAT_GRAD_STRIDE));
    std::vector<reference_splat> seen(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) {
        reference_splat &splat = seen[size_t(i)];
        reference_project(&gaussians, i, 2, &row.scene.camera, NULL, &splat);
        ASSERT_TRUE(splat.decisions.visible) << i;
        const double spread = splat.covariance[0] + splat.covariance[2];
        const float *w = weights.data() + 10 * i;
        const reference_splat_gradient g = {{w[0] / sqrt(spread), w[1] / sqrt(spread)},
                                            {w[2] / spread, w[3] / spread, w[4] / spread},
                                            w[5],
                                            {w[6], w[7], w[8]},
                                            w[9],
                                            {0, 0}};
        double exact[GS_SPLAT_GRAD_STRIDE];
        reference_splat_grad(&splat, &g, exact);
        for (int k = 0; k < GS_SPLAT_GRAD_STRIDE; k++)
            splat_grad[size_t(i * GS_SPLAT_GRAD_STRIDE + k)] = float(exact[k]);
        reference_project_backward(&gaussians, i, 2, &row.scene.camera, &splat.decisions, &g, &expected);
        reference_project_by_camera(&gaussians, i, 2, &row.scene.camera, &splat.decisions, &g, &by_camera);
    }
    const projection_outcome all = there_and_back(gaussians, 2, camera, splat_grad);
    for (int64_t i = 0; i < n; i++) {
        SCOPED_TRACE(testing::Message() << row.angles[size_t(i)] * 180 / M_PI << " degrees");
        const gs_splat &splat = all.splats[size_t(i)];
        const reference_splat &e = seen[size_t(i)];
        double covariance[3];
        covariance_of(splat, covariance);
        EXPECT_NEAR(splat.depth, e.depth, 1e-6 * e.depth);
        for (int k = 0; k < 2; k++) EXPECT_NEAR(splat.mean[k], e.mean[k], 1e-4);
        for (int k = 0; k < 3; k++)
            EXPECT_NEAR(covariance[k], e.covariance[k], 1e-5 * (e.covariance[0] + e.covariance[2]));
        const auto compare = [&](const char *group, int64_t first, int64_t values) {
            const double *got = all.gradients.data() + first, *wanted = expected.mean + first;
            EXPECT_LE(relative_norm({got, got + values}, {wanted, wanted + values}), 1e-4) << group;
        };
        compare("mean", 3 * i, 3);
        compare("log_scale", 3 * n + 3 * i, 3);
        compare("quaternion", 6 * n + 4 * i, 4);
    }
    for (const group_error &error : group_errors(all.camera, by_camera))
        EXPECT_LE(error.value, 1e-4) << error.what;
}

// On the axis itself, where the formulas have limits: between the two sides.
TEST(ProjectFisheye, TheAxisIsTheLimitOfBothSides) {
    const held_gaussians one = reference_gaussians_create(3, 0);
    gs_camera camera = plain_camera;
    camera.model = GS_FISHEYE, camera.distortion[0] = 0.1f;
    for (int i = 0; i < 3; i++) {
        one.mean[3 * i] = 1e-3 * (i - 1);
        one.mean[3 * i + 2] = 5;
        one.quaternion[4 * i] = 1;
        for (int k = 0; k < 3; k++) one.log_scale[3 * i + k] = -1 - 0.5 * k;
    }
    std::vector<float> splat_grad(size_t(3 * GS_SPLAT_GRAD_STRIDE), 0.25f);
    const projection_outcome all = there_and_back(one, 0, camera, splat_grad);
    EXPECT_EQ(all.splats[1].mean[0], 16);
    EXPECT_EQ(all.splats[1].mean[1], 16);
    EXPECT_EQ(all.splats[1].depth, 5);
    for (int k = 0; k < 10 * 3; k++) {
        const int of = k < 18 ? k / 9 * 9 : 18, stride = k < 18 ? 3 : 4, member = (k - of) % stride;
        const double *g = all.gradients.data() + of + member;
        const double middle = (g[0] + g[2 * stride]) / 2;
        EXPECT_NEAR(g[stride], middle, 1e-4 * (fabs(g[0]) + fabs(g[2 * stride]) + 0.01)) << k;
    }
}

// By depth, a fisheye by distance and angle. The mark says the same of a mean.
TEST(ProjectEdges, MeansAreCulledThatTheCameraCannotSee) {
    const struct {
        int model;
        float x, z, k1;
        bool visible;
    } cases[] = {{GS_PINHOLE, 0, 0.21f, 0, true},
                 {GS_PINHOLE, 0, 0.19f, 0, false},
                 {GS_PINHOLE, NAN, 5, 0, false},
                 {GS_PINHOLE, 0, INFINITY, 0, false},
                 {GS_ORTHO, 0, 0.21f, 0, true},
                 {GS_ORTHO, 0, 0.19f, 0, false},
                 {GS_FISHEYE, 0, 0.21f, 0, true},
                 {GS_FISHEYE, 0, 0.19f, 0, false},
                 {GS_FISHEYE, 0.21f, 0, 0, true}, // 90 degrees off the axis
                 {GS_FISHEYE, 0.19f, 0, 0, false},
                 {GS_FISHEYE, 1, -2.7f, 0, true},  // 159.7 degrees
                 {GS_FISHEYE, 1, -2.8f, 0, false}, // 160.3
                 {GS_FISHEYE, 0, -1, 0, false},
                 {GS_FISHEYE, 1, -0.25f, -0.1f, true}, // grows up to 104.6 degrees
                 {GS_FISHEYE, 1, -0.27f, -0.1f, false},
                 {GS_FISHEYE, NAN, 1, 0, false},
                 {GS_FISHEYE, 1, INFINITY, 0, false},
                 {GS_FISHEYE, 1e30f, 1, 0, false}};
    for (const auto &[model, x, z, k1, visible] : cases) {
        SCOPED_TRACE(testing::Message() << "model " << model << ": " << x << " " << z << " " << k1);
        one_gaussian one(0);
        one.camera.model = model, one.camera.fx = one.camera.fy = 10, one.camera.distortion[0] = k1;
        one.values.mean[0] = x, one.values.mean[2] = z;
        for (int k = 0; k < 3; k++) one.values.log_scale[k] = -3;
        EXPECT_EQ(one.seen().depth > 0, visible);
        const device_gaussians gaussians(one.values);
        const device_vector<uint8_t> marked(1);
        const gs_view view = one.view_of(*gaussians.get(), nullptr);
        EXPECT_GS_OK(gs_mark_visible(&view, marked.data(), NULL));
        EXPECT_EQ(marked.read()[0], visible);
    }
}

// Sums that overflowed under DISTWAR_FIXED are NaN everywhere: none of them may be taken for no gradient.
TEST(ProjectEdges, MomentsThatAreNotNumbersStayVisible) {
    const int64_t n = 40;
    const held_scene scene = reference_scene_create(60, n, 3, 64, 48);
    const gs_camera camera = reference_camera_to_floats(&scene.camera);
    const projection_outcome all =
        there_and_back(scene.gaussians, 3, camera, std::vector<float>(size_t(n * GS_SPLAT_GRAD_STRIDE), NAN));
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < 3; k++)
            EXPECT_EQ(std::isnan(all.gradients[3 * i + k]), all.splats[i].depth > 0) << i;
}

TEST(ProjectEdges, ValuesThatAreNotFiniteCull) {
    one_gaussian one(0);
    reference_gaussians &v = one.values;
    ASSERT_EQ(one.seen().depth, 5);
    for (double *value : {v.mean, v.mean + 2, v.log_scale + 1, v.quaternion + 3, v.opacity_logit, v.sh + 2})
        for (const double bad : {double(NAN), double(INFINITY)}) {
            const double good = *value;
            *value = bad;
            // An infinite logit is an opacity of exactly 1.
            const bool stays = value == v.opacity_logit && bad > 0;
            EXPECT_EQ(one.seen().depth, stays ? 5 : 0) << "value " << value - v.mean << " is " << bad;
            *value = good;
        }
    v.quaternion[0] = 0;
    EXPECT_EQ(one.seen().depth, 0) << "a zero quaternion";
}

} // namespace
