// SPDX-License-Identifier: MIT
// A frame with what Levenberg and Marquardt's method makes of it, and the reference that follows its decisions.
#ifndef TESTS_GAUSSIANS_LM_FRAME_H
#define TESTS_GAUSSIANS_LM_FRAME_H

#include "kernel_frame.h"
#include "gs_lm.h"
#include "lm_jacobian.h"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace lm_tests {

inline constexpr float epsilon = 1e-3f;

inline double dot(const std::vector<double> &a, const std::vector<double> &b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

inline std::vector<float> floats(const std::vector<double> &v, double scale = 1) {
    std::vector<float> out;
    for (const double value : v) out.push_back(float(scale * value));
    return out;
}

// Values for all parameters, zeros at first, which free themselves.
struct parameters : held_gaussians {
    parameters(int64_t count, int sh_degree) : held_gaussians(reference_gaussians_create(count, sh_degree)) {}
    explicit parameters(const device_gaussians &from) : held_gaussians(from.read()) {}
};

// A call that was refused, and said so.
inline void refused(gs_status status, const char *text) {
    EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
    EXPECT_NE(std::string(gs_last_error()).find(text), std::string::npos)
        << gs_last_error() << ", not " << text;
}

// A frame with the pieces of its normal equations, and the reference that follows its decisions.
struct lm_frame : kernel_frame {
    explicit lm_frame(const scene_choice &c)
        : kernel_frame(c), weight(size_t(3 * pixels())), slope(size_t(3 * pixels())),
          tangents(size_t(choice.count * GS_LM_TANGENT_STRIDE)), change(size_t(3 * pixels())),
          squares(size_t(choice.count * GS_LM_SQUARES_STRIDE)), splat_grad(size_t(choice.count)),
          taken(decisions()) {
        lm.problem = {
            &scene.gaussians, choice.sh_degree_used, &scene.camera, {}, scene.target, nullptr, nullptr, 0, 0};
        std::copy_n(scene.background, 3, lm.problem.background);
        lm.decisions = &taken;
        lm.epsilon = epsilon;
        lm.base = doubles(color.read());
        weigh();
    }

    // Of the reference's residuals, each of one pixel's colour alone: J^T J = C^T diag(weight) C, J^T F = C^T slope.
    void weigh() {
        const std::vector<double> residuals = lm.residuals(lm.base), by_color = slopes(lm);
        std::vector<float> squares_of(lm.base.size()), gradient(lm.base.size());
        for (size_t r = 0; r < residuals.size(); r++) {
            squares_of[r % lm.base.size()] += float(by_color[r] * by_color[r]);
            gradient[r % lm.base.size()] += float(by_color[r] * residuals[r]);
        }
        device_upload(weight.data(), squares_of.data(), squares_of.size() * sizeof(float));
        device_upload(slope.data(), gradient.data(), gradient.size() * sizeof(float));
    }
    // Random, in steps that are small against what changes the picture.
    parameters random_direction(unsigned seed) const {
        parameters out(choice.count, choice.sh_degree);
        const std::vector<double> weights = random_weights(size_t(reference_gaussians_values(&out)), seed);
        const std::vector<reference_splat> seen = reference_splats(taken);
        for (int64_t i = 0; i < choice.count; i++)
            for (int group = 0; group < GROUPS; group++) {
                const GroupRange range = group_of(out, i, group);
                const double step =
                    jacobian_step *
                    (taken.splats[i].visible ? step_of(scene, seen[size_t(i)], i, group) : 0.003);
                for (int64_t k = range.begin; k < range.begin + range.size; k++)
                    out.mean[k] = double(float(step * weights[size_t(k)]));
            }
        return out;
    }
    std::vector<double> forward(const device_gaussians &direction, bool weighted) const {
        const gs_lm_view one = {view.camera, splats.data(), tangents.data()};
        EXPECT_GS_OK(gs_lm_tangents(gaussians.get(), choice.sh_degree_used, &one, 1, direction.get()));
        EXPECT_GS_OK(
            gs_lm_forward(&view, NULL, tangents.data(), weighted ? weight.data() : NULL, change.data()));
        return doubles(change.read());
    }
    // From `splat_grad`.
    std::vector<double> to_parameters() const {
        const device_gaussians gradients(choice.count, choice.sh_degree);
        gs_gradient gradient = {};
        gradient.splat_grad = splat_grad.data();
        gradient.gaussians = *gradients.get();
        EXPECT_GS_OK(gs_project_backward(&view, &gradient, NULL));
        return gradients.values();
    }
    std::vector<double> to_parameters(const std::vector<float> &moments) const {
        device_upload(splat_grad.data(), moments.data(), moments.size() * sizeof(float));
        return to_parameters();
    }
    std::vector<double> backward(const float *picture) const {
        gs_gradient gradient = {};
        gradient.color = picture;
        gradient.splat_grad = splat_grad.data();
        EXPECT_GS_OK(gs_render_backward(&view, &gradient, {DISTWAR_TREE, 0}, NULL));
        return to_parameters();
    }
    std::vector<float> read_splat_grad() const {
        return downloaded(reinterpret_cast<const float *>(splat_grad.data()),
                          size_t(choice.count * GS_SPLAT_GRAD_STRIDE));
    }
    std::vector<double> take_squares(distwar_policy policy) const {
        EXPECT_GS_OK(gs_lm_squares(&view, NULL, weight.data(), policy, squares.data()));
        return doubles(squares.read());
    }
    std::vector<double> diagonal() const { // from `squares`
        const device_gaussians sum(choice.count, choice.sh_degree);
        EXPECT_GS_OK(gs_lm_add_diagonal(&view, squares.data(), sum.get(), NULL));
        return sum.values();
    }

    device_vector<float> weight, slope, tangents, change, squares;
    device_vector<gs_splat_grad> splat_grad;
    held_decisions taken;
    LmProblem lm{};
};

// Small enough for a dense J.
inline const scene_choice tiny = {5, 32, 1, 1, 23, 17};

// J in double precision: column k has the derivatives of all residuals by parameter k.
struct dense {
    explicit dense(const lm_frame &frame)
        : jacobian(lm_jacobian(frame.lm, frame.scene)), rows(frame.lm.rows()),
          columns(int64_t(jacobian.size()) / rows) {}
    std::vector<double> column(int64_t k) const {
        return {jacobian.begin() + k * rows, jacobian.begin() + (k + 1) * rows};
    }
    std::vector<double> jacobian;
    int64_t rows, columns;
};

// Groups of parameters differ by orders of magnitude: each on its own.
inline void expect_equal_groups(const lm_frame &frame, const std::vector<double> &got,
                                const std::vector<double> &expected, double tolerance) {
    for (int group = 0; group < GROUPS; group++) {
        std::vector<double> mine, wanted;
        for (int64_t i = 0; i < frame.choice.count; i++) {
            const GroupRange range = group_of(frame.scene.gaussians, i, group);
            for (int64_t k = range.begin; k < range.begin + range.size; k++) {
                mine.push_back(got[size_t(k)]);
                wanted.push_back(expected[size_t(k)]);
            }
        }
        EXPECT_LE(relative_norm(mine, wanted), tolerance) << group_name[group];
    }
}

// What conjugate gradients find in `iterations`, from memory that holds something else: the solution of
// (A + lambda diagonal) x = right. times(p) is A p.
struct solved {
    template <typename Times>
    solved(const std::vector<float> &right, const std::vector<float> &diagonal, float lambda, int iterations,
           Times times) {
        const std::vector<float> other(right.size(), 5);
        const device_vector<float> b(right), d(diagonal), x_on_device(other), residual(other), p(other),
            z(other);
        const device_vector<double> sums(std::vector<double>(size_t(2 * iterations + 1), 5));
        const int64_t n = int64_t(right.size());
        const gs_lm_pcg pcg = {n, x_on_device.data(), residual.data(), p.data(), sums.data()};
        EXPECT_GS_OK(gs_lm_pcg_start(&pcg, b.data(), iterations));
        EXPECT_GS_OK(gs_lm_precondition_diagonal(d.data(), residual.data(), n, p.data(), sums.data()));
        for (int k = 0; k < iterations; k++) {
            const device_vector<float> product(floats(times(p.read())));
            EXPECT_GS_OK(gs_lm_pcg_step(&pcg, d.data(), lambda, k, product.data()));
            EXPECT_GS_OK(
                gs_lm_precondition_diagonal(d.data(), residual.data(), n, z.data(), sums.data() + 2 * k + 2));
            EXPECT_GS_OK(gs_lm_pcg_update(&pcg, z.data(), k));
        }
        x = x_on_device.read(), direction = p.read(), scalars = sums.read();
    }
    std::vector<float> x, direction;
    std::vector<double> scalars;
};

// The diagonal of the frame's `squares` is that of J^T J.
inline void expect_diagonal(const lm_frame &frame, const dense &explicitly) {
    std::vector<double> expected;
    for (int64_t k = 0; k < explicitly.columns; k++)
        expected.push_back(dot(explicitly.column(k), explicitly.column(k)));
    EXPECT_LE(relative_norm(frame.diagonal(), expected), 1e-4);
    expect_equal_groups(frame, frame.diagonal(), expected, 1e-4);
}

inline const distwar_policy policies[] = {{DISTWAR_ATOMIC, 0}, {DISTWAR_SERIAL, 8}, {DISTWAR_BFLY, 0},
                                          {DISTWAR_BFLY, 16},  {DISTWAR_TREE, 0},   {DISTWAR_TREE, 16}};

class Lm : public testing::TestWithParam<scene_choice> {};

} // namespace lm_tests

#endif
