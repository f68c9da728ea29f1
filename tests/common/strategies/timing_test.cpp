// SPDX-License-Identifier: MIT
// Medians, means and spreads of measured times.
#include "strategies/timing.h"
#include <gtest/gtest.h>

namespace {

TEST(Timing, IsTheMedianOfRuns) {
    double odd[] = {5, 1, 9, 2, 3}, even[] = {4, 1, 2, 8}, one[] = {7};
    timing t = timing_of_runs(odd, 5);
    EXPECT_EQ(t.median, 3);
    EXPECT_EQ(t.minimum, 1);
    EXPECT_EQ(t.maximum, 9);
    t = timing_of_runs(even, 4);
    EXPECT_EQ(t.median, 3);
    EXPECT_EQ(t.maximum, 8);
    t = timing_of_runs(one, 1);
    EXPECT_EQ(t.median, 7);
    EXPECT_EQ(t.minimum, 7);
}

TEST(Timing, IsTheMeanOfMediansOverViews) {
    const timing views[] = {{2, 1, 3}, {4, 4, 5}, {9, 8, 10}};
    timing_summary s = timing_over_views(views, 3);
    EXPECT_DOUBLE_EQ(s.mean, 5);
    EXPECT_EQ(s.minimum, 2);
    EXPECT_EQ(s.maximum, 9);
    EXPECT_DOUBLE_EQ(s.spread, 1); // the first view's runs: (3 - 1) / 2
}

TEST(Timing, OfNothingHasNoSpread) {
    const timing views[] = {{0, 0, 0}};
    timing_summary s = timing_over_views(views, 1);
    EXPECT_EQ(s.mean, 0);
    EXPECT_EQ(s.spread, 0);
}

} // namespace
