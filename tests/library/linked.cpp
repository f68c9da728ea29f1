// SPDX-License-Identifier: MIT
// This program has a translation unit for each header and one for all: it does not link if a header defines a symbol that is
// not inline.

#include <gtest/gtest.h>

TEST(Headers, LinkFromSeveralTranslationUnits) {
    SUCCEED();
}
