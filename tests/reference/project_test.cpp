// SPDX-License-Identifier: MIT
// The reference's projection against what defines it, and its derivatives against finite differences.
#include "finite_difference.h"

#include <gtest/gtest.h>

#include <array>
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
    held_scene scene = reference_scene_seen_by(model, 11, 3 * REFERENCE_KIND_CYCLE, stored, 60, 40);
    scene.gaussians.scale_modifier = scale_modifier;
    scene.gaussians.antialias = antialias;
    reference_scene_precompute(&scene, color, covariance);
    reference_gaussians &gaussians = scene.gaussians;
    held_gaussians gradients = reference_gaussians_create(gaussians.count, stored);
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

// v turned by the unit quaternion of q, by the quaternion product q v q*.
std::array<double, 3> turn(const double *q, std::array<double, 3> v) {
    const double norm = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    const double w = q[0] / norm, u[3] = {q[1] / norm, q[2] / norm, q[3] / norm};
    const double t[3] = {2 * (u[1] * v[2] - u[2] * v[1]), 2 * (u[2] * v[0] - u[0] * v[2]),
                         2 * (u[0] * v[1] - u[1] * v[0])};
    return {v[0] + w * t[0] + u[1] * t[2] - u[2] * t[1], v[1] + w * t[1] + u[2] * t[0] - u[0] * t[2],
            v[2] + w * t[2] + u[0] * t[1] - u[1] * t[0]};
}

// Linearised by finite differences of the mean's pixel.
TEST(Project, CovarianceIsTheAxesThroughTheLinearisedCamera) {
    for (const int model : {GS_PINHOLE, GS_FISHEYE, GS_ORTHO}) {
        held_scene scene = reference_scene_seen_by(model, 14, 2 * REFERENCE_KIND_CYCLE, 0, 60, 40);
        int checked = 0;
        for (int64_t i = 0; i < scene.gaussians.count; i++) {
            reference_splat splat;
            reference_project(&scene.gaussians, i, 0, &scene.camera, nullptr, &splat);
            const reference_splat_decisions held = splat.decisions;
            if (!held.visible || held.ratio_clamped[0] || held.ratio_clamped[1]) continue;
            double covariance[3] = {0.3, 0, 0.3};
            for (int j = 0; j < 3; j++) {
                std::array<double, 3> axis = {0, 0, 0};
                axis[static_cast<size_t>(j)] = std::exp(scene.gaussians.log_scale[3 * i + j]);
                axis = turn(scene.gaussians.quaternion + 4 * i, axis);
                double moved[2] = {0, 0}; // the axis on the screen
                for (int k = 0; k < 2; k++)
                    for (size_t c = 0; c < 3; c++) {
                        const auto pixel = [&] {
                            reference_splat of;
                            reference_project(&scene.gaussians, i, 0, &scene.camera, &held, &of);
                            return of.mean[k];
                        };
                        moved[k] += axis[c] * derivative(pixel, scene.gaussians.mean[3 * i + int64_t(c)],
                                                         1e-3 * splat.depth);
                    }
                covariance[0] += moved[0] * moved[0];
                covariance[1] += moved[0] * moved[1];
                covariance[2] += moved[1] * moved[1];
            }
            for (int k = 0; k < 3; k++)
                EXPECT_NEAR(splat.covariance[k], covariance[k], 1e-8 * (covariance[0] + covariance[2]))
                    << model << " " << i;
            checked++;
        }
        EXPECT_GT(checked, 30);
    }
}

// A pinhole's pixel, and a fisheye's: Kannala and Brandt 2006.
TEST(Project, APixelIsWhatTheFormulaSays) {
    held_gaussians one = reference_gaussians_create(1, 0);
    const double distortion[4] = {0.02, -0.003, 2e-4, -1e-5};
    reference_camera camera = {90, 70, 31, 28, 40, 37, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {}, 0.2, GS_FISHEYE, {}};
    std::copy_n(distortion, 4, camera.distortion);
    one.quaternion[0] = 1;
    for (const double degrees : {0.01, 1.0, 20.0, 60.0, 80.0, 90.0, 110.0, 155.0})
        for (const double around : {0.3, 2.0, -2.5}) {
            const double angle = degrees * M_PI / 180, across = 3.7 * std::sin(angle);
            one.mean[0] = across * std::cos(around), one.mean[1] = across * std::sin(around);
            one.mean[2] = 3.7 * std::cos(angle);
            camera.model = GS_FISHEYE;
            reference_splat splat;
            reference_project(&one, 0, 0, &camera, nullptr, &splat);
            double radius = angle;
            for (int n = 0; n < 4; n++) radius += camera.distortion[n] * std::pow(angle, 3 + 2 * n);
            EXPECT_NEAR(splat.mean[0], 40 + 31 * radius * std::cos(around), 1e-9) << degrees;
            EXPECT_NEAR(splat.mean[1], 37 + 28 * radius * std::sin(around), 1e-9) << degrees;
            EXPECT_NEAR(splat.depth, 3.7, 1e-12);
            if (degrees >= 90) continue;
            camera.model = GS_PINHOLE;
            reference_project(&one, 0, 0, &camera, nullptr, &splat);
            EXPECT_NEAR(splat.mean[0], 40 + 31 * one.mean[0] / one.mean[2], 1e-9) << degrees;
            EXPECT_NEAR(splat.mean[1], 37 + 28 * one.mean[1] / one.mean[2], 1e-9) << degrees;
        }
}

TEST(Project, MarginsAndClampsFollowTheirThresholds) {
    held_scene scene = reference_scene_create(15, 8 * REFERENCE_KIND_CYCLE, 1, 60, 40);
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
