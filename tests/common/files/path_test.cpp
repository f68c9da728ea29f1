// SPDX-License-Identifier: MIT
#include "files/path.h"
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

TEST(Path, RemovesFilesAlone) {
    const std::string parent = testing::TempDir() + "path_test_remove_" + std::to_string(getpid());
    const std::string file = parent + "/file";
    fault why;
    bool removed;
    ASSERT_TRUE(folder_make(parent.c_str(), &why)) << why.text;
    EXPECT_TRUE(file_remove(file.c_str(), &removed, &why));
    EXPECT_FALSE(removed);
    std::ofstream(file) << "here";
    EXPECT_TRUE(file_remove(file.c_str(), &removed, &why));
    EXPECT_TRUE(removed);
    EXPECT_FALSE(std::ifstream(file).good());
    EXPECT_FALSE(file_remove(parent.c_str(), &removed, &why)); // an empty folder
    EXPECT_NE(std::string(why.text).find("cannot remove"), std::string::npos) << why.text;
    EXPECT_EQ(remove(parent.c_str()), 0);
}

TEST(Path, KnowsOneFileByTwoNames) {
    const std::string parent = testing::TempDir() + "path_test_one_" + std::to_string(getpid());
    fault why;
    ASSERT_TRUE(folder_make(parent.c_str(), &why)) << why.text;
    const auto same = [&](const std::string &a, const std::string &b) {
        const bool forth = path_is_one_file((parent + a).c_str(), (parent + b).c_str());
        EXPECT_EQ(path_is_one_file((parent + b).c_str(), (parent + a).c_str()), forth) << a << ' ' << b;
        return forth;
    };
    for (const bool there : {false, true}) {
        if (there) {
            std::ofstream(parent + "/a") << "a";
            std::ofstream(parent + "/b") << "a";
            ASSERT_EQ(symlink("a", (parent + "/link").c_str()), 0);
            ASSERT_EQ(link((parent + "/a").c_str(), (parent + "/hard").c_str()), 0);
        }
        EXPECT_TRUE(same("/a", "/a"));
        EXPECT_TRUE(same("/a", "/./a"));
        EXPECT_TRUE(same("/a", "//a"));
        EXPECT_FALSE(same("/a", "/b"));
        EXPECT_FALSE(same("/a", "/none"));
        EXPECT_FALSE(same("/none/a", "/other/a"));
        EXPECT_EQ(same("/a", "/link"), there);
        EXPECT_EQ(same("/a", "/hard"), there);
    }
    EXPECT_TRUE(path_is_one_file("no_such_file", "./no_such_file"));
    EXPECT_TRUE(path_is_one_file("/no_such_file", "//no_such_file"));
    EXPECT_FALSE(path_is_one_file("no_such_file", "/no_such_file"));
    for (const char *name : {"/a", "/b", "/link", "/hard", ""}) EXPECT_EQ(remove((parent + name).c_str()), 0);
}
