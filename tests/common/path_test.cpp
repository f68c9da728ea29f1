// SPDX-License-Identifier: MIT
#include "path.h"
#include <gtest/gtest.h>
#include <fstream>
#include <string>
#include <unistd.h>

TEST(Path, Joins) {
    char out[PATH_ROOM];
    fault why;
    ASSERT_TRUE(path_join(out, "a/b", "c", &why));
    EXPECT_STREQ(out, "a/b/c");
}

TEST(Path, RefusesWhatDoesNotFit) {
    char out[PATH_ROOM];
    fault why;
    EXPECT_TRUE(path_join(out, std::string(PATH_ROOM - 3, 'x').c_str(), "c", &why));
    EXPECT_FALSE(path_join(out, std::string(PATH_ROOM - 2, 'x').c_str(), "c", &why));
    EXPECT_NE(std::string(why.text).find("too long"), std::string::npos);
}

TEST(Path, KnowsWhatLeavesAFolder) {
    for (const char *inside : {"a", "a.png", "..a", "a..", "a/b", "a/..b/c", "...", "./a", "a//b"})
        EXPECT_TRUE(path_stays_inside(inside)) << inside;
    for (const char *outside : {"", "/", "/a", "..", "../a", "a/..", "a/../b", "a/b/.."})
        EXPECT_FALSE(path_stays_inside(outside)) << outside;
}

TEST(Path, MakesAFolderOnce) {
    const std::string parent = testing::TempDir() + "path_test_" + std::to_string(getpid());
    fault why;
    EXPECT_TRUE(folder_make(parent.c_str(), &why)) << why.text;
    EXPECT_TRUE(folder_make(parent.c_str(), &why)) << why.text; // it is there
    EXPECT_FALSE(folder_make((parent + "/no/such").c_str(), &why));
    EXPECT_NE(std::string(why.text).find("no/such"), std::string::npos);
    const std::string file = parent + "/file";
    std::ofstream(file) << "not a folder";
    EXPECT_FALSE(folder_make(file.c_str(), &why));
    remove(file.c_str());
    EXPECT_EQ(remove(parent.c_str()), 0);
}

TEST(Fault, TakesItsOwnOldText) {
    fault why;
    EXPECT_FALSE(fail(&why, "%d", 7));
    EXPECT_FALSE(fail(&why, "seven: %s", why.text));
    EXPECT_STREQ(why.text, "seven: 7");
}

TEST(Fault, CutsLongTexts) {
    fault why;
    fail(&why, "%s", std::string(5000, 'x').c_str());
    EXPECT_EQ(std::string(why.text).size(), sizeof why.text - 1);
}
