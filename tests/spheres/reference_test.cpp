// SPDX-License-Identifier: MIT
// The reference's adjoint against finite differences, with the lists held as they are; and a pixel by hand.
#include "sphere_reference.h"
#include "derivative.h"
#include <gtest/gtest.h>
#include <numeric>

namespace {

TEST(SpheresReference, AdjointIsTheDerivative) {
    for (const sphere_case &choice : {sphere_case{"few kept", 60, 3, 21, 15, 3, 0.7, 1},
                                      sphere_case{"many kept", 220, 8, 11, 8, 12, 0.9, 2}}) {
        const random_spheres scene(choice);
        const sphere_frame &view = scene.view;
        reference_spheres set(scene.set), gradient(scene.set);
        const sphere_lists lists = reference_lists(set, view);
        size_t most = 0;
        for (const std::vector<int> &list : lists) most = std::max(most, list.size());
        EXPECT_EQ(most, size_t(choice.kept)) << choice.name;

        const std::vector<double> weights = random_weights(scene.colors, 7);
        const auto loss = [&] {
            const std::vector<double> color = reference_render(set, view, lists);
            return std::inner_product(color.begin(), color.end(), weights.begin(), 0.0);
        };
        reference_render_backward(set, view, lists, weights, gradient);
        // A closeness near 0 leaves room for small steps only.
        for (size_t group = 0; group < 4; group++) {
            GroupError error;
            for (size_t v = scene.begins[group]; v < scene.begins[group + 1]; v++)
                error.add(gradient.values[v], derivative(loss, set.values[v], group < 2 ? 2e-6 : 1e-3));
            EXPECT_LT(error.relative(), max_gradient_error) << choice.name << " " << group;
            EXPECT_GT(error.size(), 0.1);
        }
    }
}

// One sphere, seen along its centre line.
TEST(SpheresReference, APixelIsASoftmax) {
    float values[8] = {0, 0, 4, 0, 0, 0.2f, 0.4f, 0.9f}; // radius 1, opacity 1/2
    const reference_spheres set(sphere_set_over(values, 1, 3));
    sphere_frame view = {};
    view.camera = {1, 1, 1, {0.5f, 0.5f}, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}};
    view.blend = {2, 6, 0.25f, 0.75f, 0.125f, 1};
    const sphere_lists lists = reference_lists(set, view);
    ASSERT_EQ(lists, sphere_lists{{0}});
    const double weight = 0.5 * std::exp(0.5 * 0.5 / 0.25); // nearness 1/2, closeness 1
    for (size_t k = 0; k < 3; k++)
        EXPECT_NEAR(reference_render(set, view, lists)[k],
                    (weight * set.feature[k] + 0.75 * 0.125) / (weight + 0.75), 1e-14);
}

} // namespace
