// SPDX-License-Identifier: MIT
// This program links one translation unit a header, and two that use all headers.

#include <gtest/gtest.h>

float linked_first();
float linked_second();

TEST(Headers, LinkFromSeveralTranslationUnits) {
    EXPECT_EQ(linked_first(), 4 * (496 + 32) + 3 * 496 + 16);
    EXPECT_EQ(linked_second(), 4 * (496 + 32) + 3 * 496 + 16);
}
