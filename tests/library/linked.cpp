// SPDX-License-Identifier: MIT
// The program that holds each header as a translation unit of its own, and two that use all of them.

#include <gtest/gtest.h>

float linked_first();
float linked_second();

TEST(Headers, LinkFromSeveralTranslationUnits) {
    EXPECT_EQ(linked_first(), 4 * (496 + 32) + 3 * 496 + 16);
    EXPECT_EQ(linked_second(), 4 * (496 + 32) + 3 * 496 + 16);
}
