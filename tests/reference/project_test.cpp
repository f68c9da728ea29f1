// SPDX-License-Identifier: MIT
//
// The reference's projection against what defines it, and its derivatives against finite differences.
#include "finite_difference.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace {

bool is_always_culled(reference_kind kind) {
    return kind == REFERENCE_TRANSPARENT || kind == REFERENCE_BEHIND || kind == REFERENCE_ZERO_QUATERNION;
}

// A weighted sum of a splat's values, each divided by its size at the base point.
class Objective {
  public:
    Objective(const reference_splat &base, unsigned seed) : weights_(random_weights(10, seed)) {
        const double spread = base.covariance[0] + base.covariance[2];
        weights_[0] /= std::sqrt(spread);
        weights_[1] /= std::sqrt(spread);
        for (int k = 2; k < 5; k++) weights_[k] /= spread;
        weights_[9] /= base.depth;
    }
    double operator()(const reference_splat &s) const {
        const double values[10] = {
            s.mean[0],           s.mean[1],  s.covariance[0], s.covariance[1], s.covariance[2],
            std::log(s.opacity), s.color[0], s.color[1],      s.color[2],      s.depth};
        double sum = 0;
        for (int k = 0; k < 10; k++) sum += weights_[k] * values[k];
        return sum;
    }
    reference_splat_gradient gradient() const {
        const std::vector<double> &w = weights_;
        return {{w[0], w[1]}, {w[2], w[3], w[4]}, w[5], {w[6], w[7], w[8]}, w[9], {}};
    }

  private:
    std::vector<double> weights_;
};

// ---- derivatives, by a Gaussian's values and by the camera's ----

struct Form {
    int stored, used;
    bool color = false, covariance = false;
    double scale_modifier = 0;
    bool antialias = false;
    int model = GS_PINHOLE;
};

class ProjectAdjoint : public testing::TestWithParam<Form> {};

// Every kind of Gaussian by itself: sums over many would hide one that is wrong.
TEST_P(ProjectAdjoint, MatchesFiniteDifferences) {
    const auto [stored, used, color, covariance, scale_modifier, antialias, model] = GetParam();
    reference_scene scene = reference_scene_seen_by(model, 11, 3 * REFERENCE_KIND_CYCLE, stored, 60, 40);
    scene.gaussians.scale_modifier = scale_modifier;
    scene.gaussians.antialias = antialias;
    reference_scene_precompute(&scene, color, covariance);
    reference_gaussians &gaussians = scene.gaussians;
    reference_gaussians gradients = reference_gaussians_create(gaussians.count, stored);
    reference_gaussians_extend(&gradients, color, covariance);
    std::fill_n(gradients.mean, reference_gaussians_values(&gradients), NAN);
    std::map<std::pair<reference_kind, std::string>, GroupError> errors;
    int clamped = 0, dark = 0;
    for (int64_t i = 0; i < gaussians.count; i++) {
        const reference_kind kind = reference_kind_of(i);
        reference_splat base;
        reference_project(&gaussians, i, used, &scene.camera, nullptr, &base);
        const bool visible =
            base.decisions.visible; // what is thinner than a pixel may fade away with antialias
        ASSERT_TRUE(visible != is_always_culled(kind) || (antialias && !visible)) << i;
        const Objective objective(base, static_cast<unsigned>(i));
        const reference_splat_gradient d_splat = objective.gradient();
        reference_camera_gradient by_camera = {};
        reference_project_backward(&gaussians, i, used, &scene.camera, &base.decisions, &d_splat, &gradients);
        reference_project_by_camera(&gaussians, i, used, &scene.camera, &base.decisions, &d_splat,
                                    &by_camera);
        clamped += visible && (base.decisions.ratio_clamped[0] || base.decisions.ratio_clamped[1]);
        for (const signed char positive : base.decisions.color_positive) dark += visible && !positive;
        reference_camera camera = scene.camera;
        const auto value = [&] {
            reference_splat splat;
            reference_project(&gaussians, i, used, &camera, &base.decisions, &splat);
            return objective(splat);
        };
        for (int group = 0; group < ALL_GROUPS; group++) {
            if (!is_read(gaussians, group)) continue;
            const GroupRange range = group_of(gaussians, i, group);
            for (int64_t k = range.begin; k < range.begin + range.size; k++) {
                if (!visible) {
                    ASSERT_EQ(gradients.mean[k], 0) << i << " " << group_name[group];
                    continue;
                }
                const double expected = derivative(value, gaussians.mean[k], step_of(scene, base, i, group));
                errors[{kind, group_name[group]}].add(gradients.mean[k], expected);
            }
        }
        const double *const q = gaussians.quaternion + 4 * i;
        const double turn = step_of(scene, base, i, QUATERNION) /
                            std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        for (int k = 0; k < CAMERA_VALUES; k++) {
            if (!visible) {
                ASSERT_EQ(camera_value(by_camera, k), 0);
                continue;
            }
            double by = 0;
            const auto moved = [&] {
                camera = moved_camera(scene.camera, k, by);
                return value();
            };
            const double step = camera_step(scene.camera, gaussians.mean + 3 * i, base.depth, k,
                                            step_of(scene, base, i, MEAN), turn);
            errors[{kind, camera_value_group(k)}].add(camera_value(by_camera, k),
                                                      derivative(moved, by, step));
        }
    }
    EXPECT_EQ(clamped > 3, model == GS_PINHOLE);
    EXPECT_EQ(dark > 3, !color);
    for (const reference_kind kind : {REFERENCE_ORDINARY, REFERENCE_CLAMPED, REFERENCE_FLAT, REFERENCE_HUGE})
        EXPECT_EQ(errors.count({kind, "mean"}), 1u) << kind;
    for (const auto &[of, error] : errors)
        EXPECT_LE(error.relative(), max_gradient_error) << of.second << " of kind " << of.first;
    reference_gaussians_destroy(&gradients);
    reference_scene_destroy(&scene);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, ProjectAdjoint,
    testing::Values(Form{0, 0}, Form{1, 1}, Form{2, 2}, Form{3, 3}, Form{3, 1}, Form{2, 0}, Form{1, 3},
                    Form{2, 2, true, false}, Form{1, 1, false, true}, Form{0, 0, true, true, 0.5},
                    Form{1, 1, false, false, 1.5}, Form{1, 1, false, false, 0, true},
                    Form{0, 0, true, true, 0, true}, Form{2, 2, false, false, 0, false, GS_FISHEYE},
                    Form{0, 0, true, true, 0, true, GS_FISHEYE}, Form{2, 2, false, false, 0, false, GS_ORTHO},
                    Form{1, 1, false, false, 0.5, true, GS_ORTHO},
                    Form{0, 0, true, true, 0, true, GS_ORTHO}));

// ---- values ----

// A covariance says what scale, modifier and quaternion said, and a colour what SH said, up to their
// rounding.
TEST(Project, PrecomputedInputsGiveTheSameSplats) {
    reference_scene scene = reference_scene_create(18, 3 * REFERENCE_KIND_CYCLE, 2, 60, 40);
    scene.gaussians.scale_modifier = 0.75;
    const reference_gaussians &gaussians = scene.gaussians;
    std::vector<reference_splat> before(static_cast<size_t>(gaussians.count));
    for (size_t i = 0; i < before.size(); i++)
        reference_project(&gaussians, static_cast<int64_t>(i), 2, &scene.camera, nullptr, &before[i]);
    reference_scene_precompute(&scene, 1, 1);
    std::fill(gaussians.log_scale, gaussians.opacity_logit, std::numeric_limits<double>::quiet_NaN());
    std::fill(gaussians.sh, gaussians.color, std::numeric_limits<double>::quiet_NaN());
    for (size_t i = 0; i < before.size(); i++) {
        reference_splat after;
        reference_project(&gaussians, static_cast<int64_t>(i), 2, &scene.camera, nullptr, &after);
        ASSERT_EQ(after.decisions.visible, before[i].decisions.visible) << i;
        if (!after.decisions.visible) continue;
        const double size = before[i].covariance[0] + before[i].covariance[2];
        for (int k = 0; k < 3; k++) {
            EXPECT_NEAR(after.covariance[k], before[i].covariance[k], 1e-6 * size) << i;
            EXPECT_NEAR(std::max(after.color[k], 0.0), before[i].color[k], 1e-6) << i;
        }
    }
    reference_scene_destroy(&scene);
}

TEST(Project, CullsUpToAndWithTheNearPlane) {
    reference_scene scene = reference_scene_create(16, 1, 0, 60, 40);
    reference_camera &camera = scene.camera;
    reference_splat splat;
    reference_project(&scene.gaussians, 0, 0, &camera, nullptr, &splat);
    const double depth = splat.depth;
    for (const double near : {depth * (1 - 1e-12), depth, depth * (1 + 1e-12)}) {
        camera.near_plane = near;
        reference_project(&scene.gaussians, 0, 0, &camera, nullptr, &splat);
        EXPECT_EQ(splat.decisions.visible, near < depth);
    }
    reference_scene_destroy(&scene);
}

TEST(Project, AFisheyeCullsByDistanceAndAngle) {
    reference_scene scene = reference_scene_seen_by(GS_FISHEYE, 16, 4 * REFERENCE_KIND_CYCLE, 0, 60, 40);
    reference_camera &camera = scene.camera;
    int beside = 0, behind = 0;
    for (int64_t i = 0; i < scene.gaussians.count; i++) {
        camera.near_plane = 0.2f;
        reference_splat splat;
        reference_project(&scene.gaussians, i, 0, &camera, nullptr, &splat);
        ASSERT_EQ(!splat.decisions.visible, is_always_culled(reference_kind_of(i))) << i;
        if (!splat.decisions.visible) continue;
        const double *R = camera.rotation + 6, *m = scene.gaussians.mean + 3 * i;
        const double z = R[0] * m[0] + R[1] * m[1] + R[2] * m[2] + camera.translation[2];
        beside += z < 0.17 * splat.depth; // 80 degrees
        behind += z < 0;
        EXPECT_GE(splat.depth, std::abs(z));
        const double depth = splat.depth;
        for (const double near : {depth * (1 - 1e-12), depth, depth * (1 + 1e-12)}) {
            camera.near_plane = near;
            reference_project(&scene.gaussians, i, 0, &camera, nullptr, &splat);
            EXPECT_EQ(splat.decisions.visible, near < depth);
        }
        camera.near_plane = 0.2f;
        camera.distortion[0] = -10; // grows up to 0.18 radians
        reference_project(&scene.gaussians, i, 0, &camera, nullptr, &splat);
        EXPECT_EQ(splat.decisions.visible, z > std::cos(0.18257) * depth) << i;
        camera.distortion[0] = 0;
    }
    EXPECT_GT(beside, 10);
    EXPECT_GT(behind, 5);
    reference_scene_destroy(&scene);
}

// Kannala and Brandt 2006.
TEST(Project, AFisheyeIsTheFormula) {
    reference_gaussians one = reference_gaussians_create(1, 0);
    reference_camera camera = {90,
                               70,
                               31,
                               28,
                               40,
                               37,
                               {1, 0, 0, 0, 1, 0, 0, 0, 1},
                               {0, 0, 0},
                               0.2,
                               GS_FISHEYE,
                               {0.02, -0.003, 2e-4, -1e-5}};
    one.quaternion[0] = 1;
    for (const double degrees : {0.01, 1.0, 20.0, 60.0, 80.0, 90.0, 110.0, 155.0})
        for (const double around : {0.3, 2.0, -2.5}) {
            const double angle = degrees * M_PI / 180, across = 3.7 * std::sin(angle);
            one.mean[0] = across * std::cos(around), one.mean[1] = across * std::sin(around);
            one.mean[2] = 3.7 * std::cos(angle);
            reference_splat splat;
            reference_project(&one, 0, 0, &camera, nullptr, &splat);
            double radius = angle;
            for (int n = 0; n < 4; n++) radius += camera.distortion[n] * std::pow(angle, 3 + 2 * n);
            EXPECT_NEAR(splat.mean[0], 40 + 31 * radius * std::cos(around), 1e-9) << degrees;
            EXPECT_NEAR(splat.mean[1], 37 + 28 * radius * std::sin(around), 1e-9) << degrees;
            EXPECT_NEAR(splat.depth, 3.7, 1e-12);
        }
    reference_gaussians_destroy(&one);
}

// v turned by the unit quaternion of q, by the quaternion product q v q*.
std::array<double, 3> turn(const double *q, std::array<double, 3> v) {
    const double norm = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    const double w = q[0] / norm, u[3] = {q[1] / norm, q[2] / norm, q[3] / norm};
    const double t[3] = {2 * (u[1] * v[2] - u[2] * v[1]), 2 * (u[2] * v[0] - u[0] * v[2]),
                         2 * (u[0] * v[1] - u[1] * v[0])};
    return {v[0] + w * t[0] + u[1] * t[2] - u[2] * t[1], v[1] + w * t[1] + u[2] * t[0] - u[0] * t[2],
            v[2] + w * t[2] + u[0] * t[1] - u[1] * t[0]};
}

TEST(Project, CovarianceIsTheAxesThroughTheLinearisedCamera) {
    reference_scene scene = reference_scene_create(14, 2 * REFERENCE_KIND_CYCLE, 0, 60, 40);
    const reference_camera &camera = scene.camera;
    int checked = 0;
    for (int64_t i = 0; i < scene.gaussians.count; i++) {
        reference_splat splat;
        reference_project(&scene.gaussians, i, 0, &camera, nullptr, &splat);
        if (!splat.decisions.visible || splat.decisions.ratio_clamped[0] || splat.decisions.ratio_clamped[1])
            continue;
        std::array<double, 3> at;
        std::copy_n(scene.gaussians.mean + 3 * i, 3, at.begin());
        auto pixel = [&](int k) {
            double point[3];
            for (int r = 0; r < 3; r++) {
                point[r] = camera.translation[r];
                for (int c = 0; c < 3; c++)
                    point[r] += camera.rotation[3 * r + c] * at[static_cast<size_t>(c)];
            }
            return k == 0 ? camera.fx * point[0] / point[2] + camera.cx
                          : camera.fy * point[1] / point[2] + camera.cy;
        };
        double covariance[3] = {0.3, 0, 0.3};
        for (int j = 0; j < 3; j++) {
            std::array<double, 3> axis = {0, 0, 0};
            axis[static_cast<size_t>(j)] = std::exp(scene.gaussians.log_scale[3 * i + j]);
            axis = turn(scene.gaussians.quaternion + 4 * i, axis);
            double moved[2] = {0, 0}; // the axis on the screen
            for (int k = 0; k < 2; k++)
                for (size_t c = 0; c < 3; c++)
                    moved[k] += derivative([&] { return pixel(k); }, at[c], 1e-3 * splat.depth) * axis[c];
            covariance[0] += moved[0] * moved[0];
            covariance[1] += moved[0] * moved[1];
            covariance[2] += moved[1] * moved[1];
        }
        EXPECT_NEAR(splat.mean[0], pixel(0), 1e-10 * (1 + std::abs(pixel(0))));
        EXPECT_NEAR(splat.mean[1], pixel(1), 1e-10 * (1 + std::abs(pixel(1))));
        for (int k = 0; k < 3; k++)
            EXPECT_NEAR(splat.covariance[k], covariance[k], 1e-9 * (covariance[0] + covariance[2]));
        checked++;
    }
    EXPECT_GT(checked, 30);
    reference_scene_destroy(&scene);
}

TEST(Project, MarginsAndClampsFollowTheirThresholds) {
    reference_scene scene = reference_scene_create(15, 8 * REFERENCE_KIND_CYCLE, 1, 60, 40);
    const reference_camera &camera = scene.camera;
    for (int64_t i = 0; i < scene.gaussians.count; i++) {
        reference_splat splat;
        reference_project(&scene.gaussians, i, 1, &camera, nullptr, &splat);
        if (reference_kind_of(i) == REFERENCE_ZERO_QUATERNION) continue;
        const double column = (splat.mean[0] + 0.15 * camera.width) / (1.3 * camera.width); // 0..1: free
        const double row = (splat.mean[1] + 0.15 * camera.height) / (1.3 * camera.height);
        EXPECT_EQ(splat.decisions.ratio_clamped[0], column < 0 ? -1 : column > 1);
        EXPECT_EQ(splat.decisions.ratio_clamped[1], row < 0 ? -1 : row > 1);
        const double nearest =
            std::min({std::abs(column), std::abs(column - 1), std::abs(row), std::abs(row - 1)});
        EXPECT_NEAR(splat.ratio_margin, nearest, 1e-9 * (1 + nearest));
        EXPECT_NEAR(splat.near_margin, std::abs(splat.depth - camera.near_plane) / camera.near_plane, 1e-12);
        const double logit = scene.gaussians.opacity_logit[i];
        EXPECT_NEAR(splat.opacity_margin, std::abs(255 / (1 + std::exp(-logit)) - 1), 1e-9);
        for (int channel = 0; channel < 3; channel++)
            EXPECT_EQ(splat.decisions.color_positive[channel] != 0, splat.color[channel] > 0);
    }
    reference_scene_destroy(&scene);
}

TEST(SphericalHarmonics, AreOrthonormal) {
    // The midpoint rule in the height and in the angle; the latter is exact for these degrees.
    constexpr int heights = 400, angles = 16;
    double product[16][16] = {};
    for (int h = 0; h < heights; h++)
        for (int a = 0; a < angles; a++) {
            const double z = -1 + (h + 0.5) * 2 / heights, angle = 2 * M_PI * a / angles,
                         radius = std::sqrt(1 - z * z);
            const double direction[3] = {radius * std::cos(angle), radius * std::sin(angle), z};
            double basis[16];
            reference_sh_basis(direction, basis);
            for (int j = 0; j < 16; j++)
                for (int k = 0; k < 16; k++)
                    product[j][k] += basis[j] * basis[k] * 4 * M_PI / (heights * angles);
        }
    for (int j = 0; j < 16; j++)
        for (int k = 0; k < 16; k++) EXPECT_NEAR(product[j][k], j == k, 1e-4) << j << " " << k;
}

} // namespace
