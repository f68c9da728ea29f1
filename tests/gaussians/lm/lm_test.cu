// SPDX-License-Identifier: MIT
// The products of Levenberg and Marquardt's method, against finite differences of the reference,
// each other, and themselves transposed.
#include "lm_frame.h"

namespace lm_tests {

// One call for cameras of both models gives what a call for each does.
TEST(LmEdges, ViewsMayHaveDifferentCameraModels) {
    const lm_frame frame({22, 96, 1, 1, 40, 30});
    gs_view fisheye = frame.view;
    const device_vector<gs_splat> splats(size_t(frame.choice.count));
    fisheye.splats = splats.data();
    fisheye.camera.model = GS_FISHEYE;
    fisheye.camera.fx = fisheye.camera.fy = 15;
    ASSERT_GS_OK(gs_project(&fisheye, NULL));
    const device_gaussians direction(frame.random_direction(3));
    const size_t floats = size_t(frame.choice.count * GS_LM_TANGENT_STRIDE);
    const auto tangents = [&](const gs_lm_view *views, int count) {
        ASSERT_GS_OK(gs_lm_tangents(frame.gaussians.get(), 1, views, count, direction.get()));
    };
    const std::vector<float> zeros(floats); // records of culled splats are not written
    const device_vector<float> of_pinhole(zeros), of_fisheye(zeros), first(zeros), second(zeros);
    const gs_lm_view alone[] = {{frame.view.camera, frame.splats.data(), of_pinhole.data()},
                                {fisheye.camera, splats.data(), of_fisheye.data()}};
    tangents(&alone[0], 1), tangents(&alone[1], 1);
    const gs_lm_view both[] = {{fisheye.camera, splats.data(), first.data()},
                               {frame.view.camera, frame.splats.data(), second.data()}};
    tangents(both, 2);
    EXPECT_EQ(first.read(), of_fisheye.read());
    EXPECT_EQ(second.read(), of_pinhole.read());

    const std::vector<float> splat_grad = random_floats(9, floats, -1, 1);
    const device_vector<float> records(splat_grad);
    const auto gradients = [&](std::vector<gs_lm_view> views) {
        for (gs_lm_view &view : views) view.records = records.data();
        const device_gaussians sum(frame.choice.count, frame.choice.sh_degree);
        EXPECT_GS_OK(
            gs_lm_gradients(frame.gaussians.get(), 1, views.data(), int(views.size()), 0, sum.get()));
        return sum.values();
    };
    std::vector<double> sum = gradients({alone[0]});
    const std::vector<double> other = gradients({alone[1]});
    for (size_t k = 0; k < sum.size(); k++) sum[k] += other[k];
    EXPECT_LE(relative_norm(gradients({both[0], both[1]}), sum), 1e-6);
}

TEST_P(Lm, ForwardAgreesWithFiniteDifferencesOfTheResiduals) {
    const lm_frame frame(GetParam());
    const parameters direction = frame.random_direction(1);
    const reference_gaussians &at = frame.scene.gaussians;
    const int64_t values = reference_gaussians_values(&direction);
    const std::vector<double> start(at.mean, at.mean + values);
    LmProblem problem = frame.lm;
    problem.base = problem.picture();
    const std::vector<double> expected = derivative_of_vector([&](double by) {
        for (int64_t k = 0; k < values; k++) at.mean[k] = start[size_t(k)] + by * direction.mean[k];
        const std::vector<double> out = problem.residuals(problem.picture());
        std::copy(start.begin(), start.end(), at.mean);
        return out;
    });
    const std::vector<double> slope = slopes(problem),
                              change = frame.forward(device_gaussians(direction), false);
    std::vector<double> product(slope.size());
    for (size_t r = 0; r < slope.size(); r++) product[r] = slope[r] * change[r % change.size()];
    EXPECT_LE(relative_norm(product, expected), 1e-4);

    const std::vector<double> weighted = frame.forward(device_gaussians(direction), true),
                              weight = doubles(frame.weight.read());
    for (size_t i = 0; i < change.size(); i++)
        ASSERT_NEAR(weighted[i], weight[i] * change[i], 1e-6 * std::fabs(weighted[i]));
}

// As gs_project_backward has them, over several cameras, as often as it is asked for.
TEST_P(Lm, GradientsOfSeveralCamerasAreThoseOfEach) {
    const lm_frame frame(GetParam());
    const std::vector<double> one = frame.backward(frame.slope.data());
    const std::vector<float> first = frame.read_splat_grad();
    std::vector<float> other = first;
    for (size_t k = 0; k < other.size(); k++) other[k] *= 0.5f + 0.25f * float(k % 7 % 3);
    const device_vector<float> second(other);
    std::vector<double> expected = frame.to_parameters(other);
    for (size_t k = 0; k < one.size(); k++) expected[k] += 2 * one[k];
    frame.to_parameters(first);
    const device_gaussians sum(frame.choice.count, frame.choice.sh_degree);
    const gs_lm_view a = {frame.view.camera, frame.splats.data(),
                          reinterpret_cast<float *>(frame.splat_grad.data())};
    const gs_lm_view views[] = {a, {frame.view.camera, frame.splats.data(), second.data()}};
    for (int again = 0; again < 2; again++) // overwrites what is there
        ASSERT_GS_OK(
            gs_lm_gradients(frame.gaussians.get(), frame.choice.sh_degree_used, views, 2, 0, sum.get()));
    ASSERT_GS_OK(gs_lm_gradients(frame.gaussians.get(), frame.choice.sh_degree_used, &a, 1, 1, sum.get()));
    expect_equal_groups(frame, sum.values(), expected, 1e-5);
}

TEST_P(Lm, BackwardIsTheTransposeOfForward) {
    const lm_frame frame(GetParam());
    for (unsigned seed = 1; seed < 4; seed++) {
        const device_gaussians p(frame.random_direction(seed));
        const std::vector<double> change = frame.forward(p, false), at = p.values();
        // The products of a random picture may cancel, so they are judged by the sum of their sizes; the change
        // itself has nothing to cancel.
        const std::vector<float> random = random_floats(seed, change.size(), -1, 1);
        const double left = dot(doubles(random), change);
        const double right = dot(frame.backward(device_vector<float>(random).data()), at);
        double size = 0;
        for (size_t i = 0; i < change.size(); i++) size += std::fabs(random[i] * change[i]);
        EXPECT_LE(std::fabs(left - right), 1e-5 * size);
        const double square = dot(change, change);
        EXPECT_LE(std::fabs(square - dot(frame.backward(frame.change.data()), at)), 1e-5 * square);
    }
}

TEST(LmSquares, DoNotDependOnTheReduction) {
    lm_frame frame({2, 128, 1, 1, 50, 37});
    const std::vector<double> atomic = frame.take_squares({DISTWAR_ATOMIC, 0});
    for (const int pixels : {1, 2, 4}) {
        frame.view.ranges.pixels_per_thread = pixels;
        for (const distwar_policy &policy : policies)
            EXPECT_LE(relative_norm(frame.take_squares(policy), atomic), 1e-5)
                << distwar_strategy_name(policy.strategy) << ' ' << pixels;
    }
}

TEST_P(Lm, DoNotDependOnThePixelsOfAThread) {
    lm_frame frame(GetParam());
    const device_gaussians p(frame.random_direction(1));
    frame.view.ranges.pixels_per_thread = 1;
    const std::vector<double> change = frame.forward(p, false),
                              squares = frame.take_squares({DISTWAR_TREE, 0});
    for (const int pixels : {2, 4}) {
        frame.view.ranges.pixels_per_thread = pixels;
        EXPECT_LE(relative_norm(frame.forward(p, false), change), 1e-5) << pixels;
        EXPECT_LE(relative_norm(frame.take_squares({DISTWAR_TREE, 0}), squares), 1e-5) << pixels;
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Lm, testing::ValuesIn(comparison_scenes()));

TEST(LmEdges, AnEmptySceneHasNoChange) {
    const lm_frame frame({1, 0, 0, 0, 20, 30});
    const device_gaussians none(0, 0);
    for (const double value : frame.forward(none, true)) ASSERT_EQ(value, 0);
    frame.take_squares({DISTWAR_BFLY, 0});
    EXPECT_EQ(gs_lm_blocks_bytes(0, 3), 0u);
    ASSERT_GS_OK(gs_lm_add_diagonal(&frame.view, NULL, none.get(), NULL));
    ASSERT_GS_OK(gs_lm_factor_blocks(none.get(), 1, NULL));
    const device_vector<double> sum(std::vector<double>{7});
    ASSERT_GS_OK(gs_lm_precondition(NULL, none.get(), none.get(), none.get(), sum.data()));
    EXPECT_EQ(sum.read()[0], 7);
}

} // namespace lm_tests
