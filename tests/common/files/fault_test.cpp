// SPDX-License-Identifier: MIT
// Faults: one line of text, whatever the words in it are.
#include "files/fault.h"
#include <gtest/gtest.h>
#include <string>

namespace {

std::string text_of(const char *word) {
    fault why;
    EXPECT_FALSE(fail(&why, "FILE: image '%s'", word));
    return why.text;
}

TEST(Fault, IsOneLine) {
    EXPECT_EQ(text_of("a b.png"), "FILE: image 'a b.png'");
    EXPECT_EQ(text_of("a\nb\r.c"), "FILE: image 'a?b?.c'");
    EXPECT_EQ(text_of("\x1b[2J\x7f"), "FILE: image '?[2J?'");
    EXPECT_EQ(text_of("\u009b2J"), "FILE: image '?\?2J'"); // CSI in one character
}

TEST(Fault, IsUtf8) {
    EXPECT_EQ(text_of("\u00e4\u20ac\U0001f600"), "FILE: image '\u00e4\u20ac\U0001f600'");
    EXPECT_EQ(text_of("\xe4 \xff.\xfe"), "FILE: image '? ?.?'");
    fault why; // cut inside a character
    fail(&why, "%s%s", std::string(1022, 'x').c_str(), "\u00e4");
    EXPECT_EQ(why.text, std::string(1022, 'x') + "?");
}

TEST(Fault, TakesItsOwnOldTextAndCutsLongOnes) {
    fault why;
    EXPECT_FALSE(fail(&why, "%d", 7));
    EXPECT_FALSE(fail(&why, "seven: %s", why.text));
    EXPECT_STREQ(why.text, "seven: 7");
    fail(&why, "%s", std::string(5000, 'x').c_str());
    EXPECT_EQ(std::string(why.text).size(), sizeof why.text - 1);
}

} // namespace
