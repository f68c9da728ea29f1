// SPDX-License-Identifier: MIT
// The reference's adjoint against finite differences, with the lists held as they are.
#include "derivative.h"
#include "random_spheres.h"
#include <algorithm>
#include <gtest/gtest.h>

namespace {

TEST(SpheresReference, AdjointIsTheDerivative) {
    for (const sphere_case &choice : {sphere_case{"few kept", 60, 3, 21, 15, 3, 0.7, 1},
                                      sphere_case{"many kept", 220, 8, 19, 14, 12, 0.9, 2}}) {
        random_spheres scene(choice);
        const reference_spheres set = scene.doubled();
        const sphere_frame &view = scene.view;
        std::vector<int> list(scene.pixels() * size_t(choice.kept)), length(scene.pixels());
        reference_lists(&set, &view, list.data(), length.data());
        EXPECT_EQ(*std::max_element(length.begin(), length.end()), choice.kept) << choice.name;

        const std::vector<double> weights = random_weights(scene.colors(), 7);
        std::vector<double> color(scene.colors()), block(scene.parameters());
        const auto loss = [&] {
            reference_render(&set, &view, list.data(), length.data(), color.data());
            double sum = 0;
            for (size_t i = 0; i < color.size(); i++) sum += weights[i] * color[i];
            return sum;
        };
        const reference_spheres gradient = scene.over(block);
        reference_render_backward(&set, &view, list.data(), length.data(), weights.data(), &gradient);
        // A closeness near 0 leaves room for small steps only.
        const std::vector<size_t> begins = scene.begins();
        for (size_t group = 0; group < 4; group++) {
            GroupError error;
            for (size_t v = begins[group]; v < begins[group + 1]; v++)
                error.add(block[v], derivative(loss, set.center[v], group < 2 ? 2e-6 : 1e-3));
            EXPECT_LT(error.relative(), max_gradient_error) << choice.name << " " << group;
            EXPECT_GT(error.size(), 0.1);
        }
    }
}

// By hand: one sphere, seen along its centre line.
TEST(SpheresReference, APixelIsASoftmax) {
    double values[8] = {0, 0, 4, 0, 0, 0.2, 0.4, 0.9}; // radius 1, opacity 1/2
    const reference_spheres set = {1, 3, values, values + 3, values + 4, values + 5};
    sphere_frame view = {};
    view.camera = {1, 1, 1, {0.5f, 0.5f}, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}};
    view.blend = {2, 6, 0.25f, 0.75f, 0.125f, 1};
    int list, length;
    double color[3];
    reference_lists(&set, &view, &list, &length);
    ASSERT_EQ(length, 1);
    reference_render(&set, &view, &list, &length, color);
    const double weight = 0.5 * std::exp(0.5 * 0.5 / 0.25); // nearness 1/2, closeness 1
    for (int k = 0; k < 3; k++)
        EXPECT_NEAR(color[k], (weight * values[5 + k] + 0.75 * 0.125) / (weight + 0.75), 1e-14);
}

} // namespace
