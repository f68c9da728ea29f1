// SPDX-License-Identifier: MIT
// What the readers' own tests (tests/gaussians/data) do not hold: long skips, and what is no file.
#include "files.h"
#include "files/input_file.h"
#include <sys/stat.h>

namespace {

class InputFile : public testing::Test {
  protected:
    void open(const std::string &bytes) {
        input_file_close(&file);
        write_bytes(path, bytes);
        ASSERT_TRUE(input_file_open(&file, path.c_str(), &why)) << why.text;
    }
    void TearDown() override { input_file_close(&file); }

    TemporaryFolder folder;
    std::string path = folder / "input";
    input_file file = {};
    fault why = {};
};

// Near, and so far that it seeks; never past the end.
TEST_F(InputFile, ReadsSkipsAndCounts) {
    std::string bytes = "abcdefgh" + std::string(100000, '.');
    bytes[90001] = '!';
    open(bytes);
    char text[4] = {};
    EXPECT_EQ(file.size, bytes.size());
    ASSERT_TRUE(input_file_read(&file, text, 3, "three", &why));
    EXPECT_STREQ(text, "abc");
    ASSERT_TRUE(input_file_skip(&file, 2, "two", &why));
    ASSERT_TRUE(input_file_read(&file, text, 3, "three", &why));
    EXPECT_STREQ(text, "fgh");
    EXPECT_EQ(file.offset, 8u);
    ASSERT_TRUE(input_file_skip(&file, 89993, "much", &why));
    ASSERT_TRUE(input_file_read(&file, text, 1, "a byte", &why));
    EXPECT_EQ(text[0], '!');
    EXPECT_EQ(file.offset, 90002u);
    for (const uint64_t more : {uint64_t(9), uint64_t(5000), uint64_t(1) << 63, UINT64_MAX}) {
        open("abcdefgh");
        EXPECT_FALSE(input_file_skip(&file, more, "too much", &why));
        EXPECT_STREQ(why.text, (path + ": truncated at byte 8 while reading too much").c_str());
    }
}

TEST_F(InputFile, OpensOnlyRegularFiles) {
    EXPECT_FALSE(input_file_open(&file, path.c_str(), &why));
    EXPECT_TRUE(contains(why, path + ": cannot open: No such file")) << why.text;
    EXPECT_FALSE(input_file_open(&file, folder.path.c_str(), &why));
    EXPECT_TRUE(contains(why, folder.path + ": not a regular file")) << why.text;
    EXPECT_FALSE(input_file_open(&file, "/dev/null", &why));
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_FALSE(input_file_open(&file, path.c_str(), &why)); // and does not wait for a writer
    EXPECT_TRUE(contains(why, path + ": not a regular file")) << why.text;
}

} // namespace
