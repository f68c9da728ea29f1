// SPDX-License-Identifier: MIT
#include "files/memory_stream.h"
#include <gtest/gtest.h>
#include <cstdlib>
#include <string>

namespace memory_stream_test {

TEST(MemoryStream, HasWhatIsWritten) {
    char *text;
    size_t size = 7;
    FILE *const stream = memory_stream_open(&text, &size);
    ASSERT_NE(stream, nullptr);
    EXPECT_EQ(size, 0u);
    EXPECT_STREQ(text, "");
    std::string expected;
    for (int i = 0; i < 5000; i++) {
        fprintf(stream, "%d,", i);
        expected += std::to_string(i) + ",";
        if (i % 1000 == 3) {
            ASSERT_EQ(fflush(stream), 0);
            EXPECT_EQ(std::string(text, size), expected);
        }
    }
    fwrite("\0end", 1, 4, stream);
    expected += std::string("\0end", 4);
    ASSERT_TRUE(memory_stream_close(stream));
    EXPECT_EQ(std::string(text, size), expected);
    EXPECT_EQ(text[size], '\0');
    free(text);
}

} // namespace memory_stream_test
