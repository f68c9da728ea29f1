// SPDX-License-Identifier: MIT
// All stages of the reference together: the gradient of every stored parameter against finite differences of
// the loss, with every decision held.
#include "finite_difference.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace {

struct Case {
    uint64_t seed;
    int64_t count;
    int stored, used, width, height;
    bool color = false, covariance = false;
    int model = GS_PINHOLE;
    bool normalize_depth = false, inverse_depth = false;
};

// One evaluation at the base point, with its decisions.
class Base {
  public:
    explicit Base(const Case &c)
        : scene(reference_scene_seen_by(c.model, c.seed, c.count, c.stored, c.width, c.height)),
          image(reference_image_create(c.width, c.height)),
          gradients(reference_gaussians_create(c.count, c.stored)),
          alpha_weight(random_weights(static_cast<size_t>(c.width * c.height), 7)),
          depth_weight(random_weights(static_cast<size_t>(c.width * c.height), 8)) {
        for (double &w : alpha_weight) w /= c.width * c.height;
        for (double &w : depth_weight) w /= c.width * c.height;
        reference_scene_precompute(&scene, c.color, c.covariance);
        problem.gaussians = &scene.gaussians, problem.sh_degree_used = c.used;
        problem.camera = &scene.camera, problem.target = scene.target;
        problem.alpha_weight = alpha_weight.data(), problem.depth_weight = depth_weight.data();
        problem.normalize_depth = c.normalize_depth;
        problem.inverse_depth = c.inverse_depth;
        std::copy_n(scene.background, 3, problem.background);
        reference_gaussians_extend(&gradients, c.color, c.covariance);
        outputs.image = image, outputs.gradients = gradients;
        outputs.camera_gradient = &camera_gradient;
        reference_pipeline(&problem, nullptr, &decisions, &outputs);
    }

    // The objective at the scene's present values, with the base point's decisions.
    double held_objective() const {
        reference_outputs value{};
        reference_pipeline(&problem, &decisions, nullptr, &value);
        return value.objective;
    }

    held_scene scene;
    held_image image;
    held_gaussians gradients;
    std::vector<double> alpha_weight, depth_weight;
    reference_camera_gradient camera_gradient = {};
    reference_problem problem{};
    held_decisions decisions;
    reference_outputs outputs{};
};

class PipelineAdjoint : public testing::TestWithParam<Case> {};

TEST_P(PipelineAdjoint, MatchesFiniteDifferences) {
    Base base(GetParam());
    reference_gaussians &gaussians = base.scene.gaussians;
    GroupError errors[ALL_GROUPS];
    int clamped = 0;
    for (int64_t i = 0; i < gaussians.count; i++) {
        const reference_splat_decisions &decisions = base.decisions.splats[i];
        if (!decisions.visible) continue;
        reference_splat splat;
        reference_project(&gaussians, i, base.problem.sh_degree_used, &base.scene.camera, nullptr, &splat);
        clamped += (decisions.ratio_clamped[0] || decisions.ratio_clamped[1]) &&
                   base.outputs.gradients.opacity_logit[i] != 0;
        for (int group = 0; group < ALL_GROUPS; group++) {
            if (!is_read(gaussians, group)) continue;
            const GroupRange range = group_of(gaussians, i, group);
            const double step = step_of(base.scene, splat, i, group);
            for (int64_t k = range.begin; k < range.begin + range.size; k++)
                errors[group].add(base.outputs.gradients.mean[k],
                                  derivative([&] { return base.held_objective(); }, gaussians.mean[k], step));
        }
    }
    for (int group = 0; group < ALL_GROUPS; group++)
        if (is_read(gaussians, group)) {
            EXPECT_LE(errors[group].relative(), max_gradient_error) << group_name[group];
        }

    int decisions[4] = {};
    for (int64_t k = 0; k < base.decisions.ranges.isects * REFERENCE_TILE_PIXELS; k++)
        decisions[base.decisions.blend[k]]++;
    EXPECT_EQ(clamped > 0, GetParam().model == GS_PINHOLE);
    EXPECT_GT(decisions[REFERENCE_COUNTED], 1000);
    if (GetParam().model == GS_FISHEYE) return; // whose splats are smaller
    EXPECT_GT(decisions[REFERENCE_CUT], 5);
    EXPECT_GT(decisions[REFERENCE_STOPPED], 5);
}

// The whole picture as the camera moves. One pixel is what the narrowest splats can be told apart by.
TEST_P(PipelineAdjoint, ByTheCameraMatchesFiniteDifferences) {
    Base base(GetParam());
    const reference_camera camera = base.scene.camera;
    std::map<std::string, GroupError> errors;
    for (int k = 0; k < CAMERA_VALUES; k++) {
        double by = 0;
        auto value = [&] {
            base.scene.camera = moved_camera(camera, k, by);
            return base.held_objective();
        };
        const double pixel = 1e-3 * (k < 18 ? 1 / camera.fx : 1);
        errors[camera_value_group(k)].add(camera_value(base.camera_gradient, k),
                                          derivative(value, by, pixel));
    }
    base.scene.camera = camera;
    for (const auto &[group, error] : errors) EXPECT_LE(error.relative(), max_gradient_error) << group;
}

INSTANTIATE_TEST_SUITE_P(
    Scenes, PipelineAdjoint,
    testing::Values(Case{12, REFERENCE_KIND_CYCLE, 0, 0, 37, 21},
                    Case{164, REFERENCE_KIND_CYCLE, 1, 1, 21, 37},
                    Case{53, REFERENCE_KIND_CYCLE, 2, 2, 33, 18, false, false, GS_PINHOLE, false, true},
                    Case{87, REFERENCE_KIND_CYCLE, 3, 3, 19, 17, false, false, GS_PINHOLE, true},
                    Case{194, REFERENCE_KIND_CYCLE, 2, 1, 18, 33},
                    Case{12, REFERENCE_KIND_CYCLE, 0, 0, 37, 21, true, true, GS_PINHOLE, true},
                    Case{164, REFERENCE_KIND_CYCLE, 1, 1, 21, 37, false, true},
                    Case{12, REFERENCE_KIND_CYCLE, 1, 1, 37, 21, false, false, GS_FISHEYE, true, true},
                    Case{12, REFERENCE_KIND_CYCLE, 1, 1, 37, 21, false, false, GS_ORTHO, true, true}),
    [](const auto &info) {
        return "Stored" + std::to_string(info.param.stored) + "Used" + std::to_string(info.param.used) +
               (info.param.color ? "Color" : "") + (info.param.covariance ? "Covariance" : "") +
               (info.param.model == GS_FISHEYE ? "Fisheye"
                : info.param.model == GS_ORTHO ? "Ortho"
                                               : "");
    });

} // namespace
