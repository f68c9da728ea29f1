// SPDX-License-Identifier: MIT
// Faults: one line of text, whatever the words in it are.
#include "files/fault.h"
#include <gtest/gtest.h>
#include <string>

namespace {

TEST(Fault, IsOneLineOfUtf8) {
    const struct {
        const char *word, *text;
    } rows[] = {{"a b.png", "a b.png"},
                {"a\nb\r.c", "a?b?.c"},
                {"\x1b[2J\x7f", "?[2J?"},
                {"\u009b2J", "?\?2J"}, // CSI in one character
                {"\u00e4\u20ac\U0001f600", "\u00e4\u20ac\U0001f600"},
                {"\xe4 \xff.\xfe", "? ?.?"}};
    fault why;
    for (const auto &row : rows) {
        EXPECT_FALSE(fail(&why, "FILE: image '%s'", row.word));
        EXPECT_EQ(why.text, "FILE: image '" + std::string(row.text) + "'");
    }
    fail(&why, "%s%s", std::string(1022, 'x').c_str(), "\u00e4"); // cut inside a character
    EXPECT_EQ(why.text, std::string(1022, 'x') + "?");
    fail(&why, "%s", std::string(5000, 'x').c_str());
    EXPECT_EQ(why.text, std::string(sizeof why.text - 1, 'x'));
}

TEST(Fault, MayTakeItsOwnOldText) {
    fault why;
    fail(&why, "%d", 7);
    fail(&why, "seven: %s", why.text);
    EXPECT_STREQ(why.text, "seven: 7");
}

} // namespace
