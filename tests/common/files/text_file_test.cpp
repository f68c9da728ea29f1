// SPDX-License-Identifier: MIT
#include "files/text_file.h"
#include "files.h"

namespace {

class TextFile : public testing::Test {
  protected:
    void TearDown() override { text_file_close(&text); }
    void open(const std::string &bytes) {
        text_file_close(&text);
        write_bytes(path, bytes);
        ASSERT_TRUE(text_file_open(&text, path.c_str(), &why)) << why.text;
    }
    TemporaryFolder folder;
    const std::string path = folder / "file";
    text_file text = {};
    fault why = {};
};

TEST_F(TextFile, ReadsLines) {
    open("one\n\r\n  two \r\n" + std::string(100000, 'x') + "\n");
    EXPECT_EQ(text.line, nullptr);
    for (const std::string &expected :
         {std::string("one"), std::string(), std::string("  two "), std::string(100000, 'x')}) {
        ASSERT_TRUE(text_file_next(&text, &why)) << why.text;
        ASSERT_NE(text.line, nullptr);
        EXPECT_EQ(text.line, expected);
    }
    EXPECT_EQ(text.number, 4u);
    ASSERT_TRUE(text_file_next(&text, &why)) << why.text;
    EXPECT_EQ(text.line, nullptr);
    EXPECT_EQ(text.number, 4u);
    open("");
    ASSERT_TRUE(text_file_next(&text, &why)) << why.text;
    EXPECT_EQ(text.line, nullptr);
}

TEST_F(TextFile, TakesALastLineWithoutAnEnd) {
    for (const char *last : {"tw", "tw\r"}) {
        open(std::string("one\n") + last);
        ASSERT_TRUE(text_file_next(&text, &why) && text_file_next(&text, &why)) << why.text;
        EXPECT_STREQ(text.line, "tw");
        EXPECT_EQ(text.number, 2u);
        ASSERT_TRUE(text_file_next(&text, &why)) << why.text;
        EXPECT_EQ(text.line, nullptr);
    }
}

TEST_F(TextFile, RefusesZeroBytes) {
    for (const std::string &line :
         {std::string("\0\n", 2), std::string("a\0b\n", 4), std::string("a\0\n", 3)}) {
        open("\n" + line);
        EXPECT_TRUE(text_file_next(&text, &why));
        EXPECT_FALSE(text_file_next(&text, &why));
        EXPECT_STREQ(why.text, (path + ": at line 2: holds a zero byte").c_str());
    }
}

TEST_F(TextFile, OpensOnlyRegularFiles) {
    EXPECT_FALSE(text_file_open(&text, folder.path.c_str(), &why));
    EXPECT_TRUE(contains(why, folder.path + ": not a regular file")) << why.text;
    EXPECT_FALSE(text_file_open(&text, path.c_str(), &why));
    EXPECT_TRUE(contains(why, path + ": cannot open")) << why.text;
}

} // namespace
