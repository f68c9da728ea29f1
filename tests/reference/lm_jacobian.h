// SPDX-License-Identifier: MIT
//
// J by finite differences, with decisions held and neighbouring pixels frozen.
#ifndef LM_JACOBIAN_H
#define LM_JACOBIAN_H

#include "finite_difference.h"
#include "lm.h"

#include <vector>

// A scene and its residuals at the base point of the decisions.
struct LmProblem {
    reference_problem problem;
    const reference_decisions *decisions;
    double epsilon;
    std::vector<double> base;      // the base point's picture
    const uint8_t *mask = nullptr; // [height][width]

    int width() const { return problem.camera->width; }
    int height() const { return problem.camera->height; }
    int64_t rows() const { return reference_lm_residuals_of(width(), height()); }

    // The picture at the Gaussians' present values.
    std::vector<double> picture() const {
        reference_outputs outputs{};
        outputs.image = reference_image_create(width(), height());
        reference_pipeline(&problem, decisions, nullptr, &outputs);
        std::vector<double> color(outputs.image.color, outputs.image.color + 3 * width() * height());
        reference_image_destroy(&outputs.image);
        return color;
    }
    // The residuals of a picture near the base point's.
    std::vector<double> residuals(const std::vector<double> &color) const {
        std::vector<double> out(static_cast<size_t>(rows()));
        reference_lm_residuals(color.data(), base.data(), problem.target, mask, width(), height(), epsilon,
                               decisions->sign, out.data());
        return out;
    }
};

// (8 (f(1) - f(-1)) - (f(2) - f(-2))) / 12 for vectors.
template <class F>
std::vector<double> derivative_of_vector(F &&f) {
    std::vector<double> out = f(1.0);
    const std::vector<double> down = f(-1.0), far = f(2.0), far_down = f(-2.0);
    for (size_t i = 0; i < out.size(); i++) out[i] = (8 * (out[i] - down[i]) - (far[i] - far_down[i])) / 12;
    return out;
}

// The derivative of each residual by its pixel's colour, of residuals at the base: all pixels can move at once.
inline std::vector<double> slopes(const LmProblem &lm) {
    const double step = 1e-5;
    std::vector<double> out = derivative_of_vector([&](double by) {
        std::vector<double> color = lm.base;
        for (double &c : color) c += by * step;
        return lm.residuals(color);
    });
    for (double &value : out) value /= step;
    return out;
}

// A residual's square root has high curvature where the difference is near epsilon, so steps are smaller than
// for the loss.
constexpr double jacobian_step = 0.01;

// Returns jacobian[column * rows + row], columns in the order of the parameters' block; 0 for culled
// Gaussians. scene: the problem's.
inline std::vector<double> lm_jacobian(const LmProblem &lm, const reference_scene &scene) {
    const reference_gaussians &gaussians = scene.gaussians;
    std::vector<double> jacobian(static_cast<size_t>(reference_gaussians_values(&gaussians) * lm.rows()));
    for (int64_t i = 0; i < gaussians.count; i++) {
        if (!lm.decisions->splats[i].visible) continue;
        reference_splat splat;
        reference_project(&gaussians, i, lm.problem.sh_degree_used, &scene.camera, nullptr, &splat);
        for (int group = 0; group < GROUPS; group++) {
            const GroupRange range = group_of(gaussians, i, group);
            const double step = jacobian_step * step_of(scene, splat, i, group);
            for (int64_t k = range.begin; k < range.begin + range.size; k++) {
                double &x = gaussians.mean[k];
                const double at = x;
                const std::vector<double> column = derivative_of_vector([&](double steps) {
                    x = at + steps * step;
                    return lm.residuals(lm.picture());
                });
                x = at;
                for (size_t r = 0; r < column.size(); r++)
                    jacobian[static_cast<size_t>(k * lm.rows()) + r] = column[r] / step;
            }
        }
    }
    return jacobian;
}

#endif
