// SPDX-License-Identifier: MIT
#include "formats/scene_cases.h"
#include "similarity.h"

namespace similarity_test {

TEST(Similarity, OfAMatrix) {
    similarity s;
    const double quarter[12] = {0, -3, 0, 1, 3, 0, 0, 2, 0, 0, 3, 4};
    ASSERT_TRUE(similarity_of(quarter, &s));
    EXPECT_NEAR(s.scale, 3, 1e-12);
    EXPECT_NEAR(s.rotation[1], -1, 1e-12);
    EXPECT_EQ(s.translation[2], 4);
    for (int axis = 0; axis < 3; axis++) { // half turns
        double turn[12] = {-1, 0, 0, 0, 0, -1, 0, 0, 0, 0, -1, 0};
        turn[5 * axis] = 1;
        ASSERT_TRUE(similarity_of(turn, &s));
        for (int k = 0; k < 9; k++) EXPECT_NEAR(s.rotation[k], turn[k / 3 * 4 + k % 3], 1e-12);
    }
    for (const double value : {-1.0, 1.1, 0.0, double(NAN), double(INFINITY)}) { // mirrors, unequal scales
        const double bad[12] = {1, 0, 0, 0, 0, value, 0, 0, 0, 0, 1, 0};
        EXPECT_FALSE(similarity_of(bad, &s)) << value;
    }
    const double shear[12] = {1, 0, 0.01, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    EXPECT_FALSE(similarity_of(shear, &s));
}

// Twice by half a rotation is once by the whole; there and back is nothing. Colours are compared in program tests.
TEST(Similarity, MovesAgree) {
    for (int degree = 0; degree <= 3; degree++) {
        scene_in_memory sent, got;
        fill_randomly(&sent, 50, degree, 9);
        fill_randomly(&got, 50, degree, 9);
        const double half = 0.7, c = std::cos(half), s = std::sin(half);
        const similarity by = {{c, 0, s, 0, 1, 0, -s, 0, c}, 2, {1, 2, 3}};
        const double c2 = std::cos(2 * half), s2 = std::sin(2 * half);
        similarity whole = {{c2, 0, s2, 0, 1, 0, -s2, 0, c2}, 4, {}};
        for (int r = 0; r < 3; r++) {
            whole.translation[r] = by.translation[r];
            for (int k = 0; k < 3; k++)
                whole.translation[r] += 2 * by.rotation[3 * r + k] * by.translation[k];
        }
        gaussians_move(&got, &by);
        gaussians_move(&got, &by);
        gaussians_move(&sent, &whole);
        expect_near(got, sent, {2e-5, 1e-5, 1e-5, 1e-9, 1e-9, 1e-5, 1e-5});
        // Degree 1 turns as a vector: (-x, -y, z) of the coefficients.
        if (degree < 1) continue;
        scene_in_memory one;
        one.open(1, degree);
        one.quaternion[0] = 1;
        one.sh[9] =
            -1; // the function x: it shall become the function whose gradient is the rotation's first column
        gaussians_move(&one, &by);
        EXPECT_NEAR(-one.sh[9], c, 1e-6);
        EXPECT_NEAR(-one.sh[3], 0, 1e-6);
        EXPECT_NEAR(one.sh[6], -s, 1e-6);
    }
}

} // namespace similarity_test
