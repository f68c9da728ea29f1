// SPDX-License-Identifier: MIT
#include "training_state.h"
#include <cmath>
#include <gtest/gtest.h>
#include <tuple>

namespace {

void note(learning_curve *curve, bool small, double trained, double validation) {
    learning_see(curve, 0.5 * trained);
    learning_see(curve, 1.5 * trained);
    learning_note(curve, small, validation);
}

// Losses fall by these parts with each measurement. Those of the validation views end `apart` times as high.
learning_curve falling(int count, double trained, double validation, double apart = 1.3) {
    learning_curve curve = {};
    const double first = apart * std::pow((1 - trained) / (1 - validation), count - 1);
    for (int i = 0; i < count; i++)
        note(&curve, 0, std::pow(1 - trained, i), first * std::pow(1 - validation, i));
    return curve;
}

TEST(Learning, IsOverWhereViewsThatAreSetAsideGainLittle) {
    const std::tuple<int, double, double, double, bool> rows[] = {
        {2, 0.5, 0, 1.3, false}, // two are too few
        {10, 0.01, 0, 1.3, false},
        {14, 0.01, 0, 1.3, true}, // training gains 0.09; 0.13
        {10, 0.1, 0, 1.2, false},
        {10, 0.1, 0, 1.25, true}}; // views are worse by 0.18; 0.22
    for (const auto &[count, trained, validation, apart, over] : rows) {
        const learning_curve curve = falling(count, trained, validation, apart);
        EXPECT_EQ(learning_is_over(&curve), over) << count << ", " << trained << ", " << apart;
    }
    for (const int count : {3, 5, 32, 50, 300})
        for (const double validation : {0.02, 0.005, -0.1}) { // confirmed, noise, rises
            const learning_curve curve = falling(count, 0.1, validation);
            EXPECT_EQ(learning_is_over(&curve), validation < 0.02) << count << ", " << validation;
        }
}

TEST(Learning, CountsTheBestMeasurementSince) {
    const double validation[] = {1, 0.9, 1.1, 1.1};
    for (const int count : {3, 4}) {
        learning_curve curve = {};
        for (int i = 0; i < count; i++) note(&curve, 0, std::pow(0.9, i), validation[i]);
        // From the second on nothing was gained; from the first on it was, and with three there are two from the second.
        EXPECT_EQ(learning_is_over(&curve), count == 4);
    }
}

TEST(Learning, BeginsAnewWithPicturesOfAnotherSize) {
    learning_curve curve = falling(5, 0.1, 0);
    EXPECT_TRUE(learning_is_over(&curve));
    note(&curve, 1, 0.1, 1);
    EXPECT_EQ(curve.count, 1);
    EXPECT_FALSE(learning_is_over(&curve));
}

TEST(Learning, CurvesOfFilesAreChecked) {
    const learning_curve good = falling(5, 0.1, 0);
    learning_curve curve = good;
    EXPECT_TRUE(learning_curve_is_possible(&curve));
    curve.validation[4] = NAN;
    EXPECT_FALSE(learning_curve_is_possible(&curve));
    for (const int count : {LEARNING_MOST + 1, -1}) {
        curve = good, curve.count = count;
        EXPECT_FALSE(learning_curve_is_possible(&curve)) << count;
    }
}

} // namespace
