// SPDX-License-Identifier: MIT
// The reference: its adjoint against finite differences, and that what it looks up has no seams.
#include "cubemap_reference.h"
#include "derivative.h"
#include <gtest/gtest.h>

namespace {

TEST(CubemapReference, AdjointIsTheDerivative) {
    for (const int size : {1, 4, 8}) {
        const int levels = int(std::lround(std::log2(size))) + 1;
        std::vector<double> texel = random_weights(3 * size_t(reference_level_begin(size, levels)), 1),
                            gradient(texel.size());
        std::vector<double> random = random_weights(7 * 120, 2); // direction, level, gradient of a colour
        for (size_t n = 3; n < random.size(); n += 7) random[n] = (levels - 1) * std::abs(random[n]);
        const auto loss = [&] {
            double sum = 0, color[3];
            for (size_t n = 0; n < random.size(); n += 7) {
                reference_lookup(texel.data(), size, &random[n], random[n + 3], color);
                sum += dot(color, &random[n + 4]);
            }
            return sum;
        };
        for (size_t n = 0; n < random.size(); n += 7)
            reference_lookup_backward(gradient.data(), size, &random[n], random[n + 3], &random[n + 4]);
        GroupError error;
        for (size_t v = 0; v < texel.size(); v++) error.add(gradient[v], derivative(loss, texel[v], 1e-2));
        EXPECT_LT(error.relative(), max_gradient_error) << size;
        EXPECT_GT(error.size(), 1);
    }
}

// On both sides of an edge, and on all sides of a corner, there is one colour.
TEST(CubemapReference, LookupHasNoSeams) {
    for (const int size : {1, 2, 16}) {
        const std::vector<double> texel = random_weights(18 * size_t(size * size), 4),
                                  along = random_weights(64, 5);
        for (size_t n = 0; n < along.size(); n++)
            for (int edge = 0; edge < 12; edge++) {
                const double a = edge % 2 ? 1 : -1, b = edge / 2 % 2 ? 1 : -1, near = 1 - 1e-7,
                             third =
                                 n % 4 == 0 ? std::copysign(near, along[n]) : along[n]; // some at a corner
                double color[2][3];
                for (const int side : {0, 1}) {
                    double d[3];
                    d[edge / 4] = third, d[(edge / 4 + 1) % 3] = side ? a : near * a;
                    d[(edge / 4 + 2) % 3] = side ? near * b : b;
                    reference_lookup(texel.data(), size, d, 0, color[side]);
                }
                for (int i = 0; i < 3; i++) EXPECT_NEAR(color[0][i], color[1][i], 1e-6 * size);
            }
    }
}

// By hand: straight ahead at a mirror that is turned half way to the right.
TEST(CubemapReference, AMirrorMirrors) {
    float position[9] = {-9, -9, 4, 9, -9, 4, 0, 9, 4}, normal[9] = {1, 0, -1, 2, 0, -2, 3, 0, -3};
    int corner[3] = {0, 1, 2};
    const mesh host = {3, 1, position, normal, corner};
    const pinhole_camera camera = {2, 2, 2, {1, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}};
    const double right[3] = {1, 0, 0};
    reference_hit hit;
    double direction[3];
    ASSERT_TRUE(reference_meet(host, camera, 0, 1, 1, &hit));
    EXPECT_NEAR(hit.depth, 4, 1e-12);
    EXPECT_NEAR(hit.weight[2], 0.5, 1e-12);
    ASSERT_TRUE(reference_mirror(host, camera, 0, 1, 1, direction));
    for (int i = 0; i < 3; i++) EXPECT_NEAR(direction[i], right[i], 1e-12);
}

} // namespace
