// SPDX-License-Identifier: MIT
#include "files.h"
#include "files/path.h"
#include <unistd.h>

TEST(Path, JoinsWhatFits) {
    char out[PATH_ROOM];
    fault why;
    ASSERT_TRUE(path_join(out, "a/b", "c", &why));
    EXPECT_STREQ(out, "a/b/c");
    EXPECT_TRUE(path_join(out, std::string(PATH_ROOM - 3, 'x').c_str(), "c", &why));
    EXPECT_FALSE(path_join(out, std::string(PATH_ROOM - 2, 'x').c_str(), "c", &why));
    EXPECT_TRUE(contains(why, "too long"));
}

TEST(Path, KnowsWhatLeavesAFolder) {
    for (const char *inside : {"a", "a.png", "..a", "a..", "a/b", "a/..b/c", "...", "./a", "a//b"})
        EXPECT_TRUE(path_stays_inside(inside)) << inside;
    for (const char *outside : {"", "/", "/a", "..", "../a", "a/..", "a/../b", "a/b/.."})
        EXPECT_FALSE(path_stays_inside(outside)) << outside;
}

TEST(Path, MakesFoldersAndRemovesFiles) {
    const TemporaryFolder parent;
    const std::string made = parent / "made", file = parent / "made/file";
    fault why;
    bool removed;
    for (int turn = 0; turn < 2; turn++) EXPECT_TRUE(folder_make(made.c_str(), &why)) << why.text;
    EXPECT_FALSE(folder_make((parent / "no/such").c_str(), &why));
    EXPECT_TRUE(contains(why, "no/such"));
    for (const bool there : {false, true}) {
        if (there) write_bytes(file, "not a folder");
        EXPECT_FALSE(there && folder_make(file.c_str(), &why));
        EXPECT_TRUE(file_remove(file.c_str(), &removed, &why));
        EXPECT_EQ(removed, there);
        EXPECT_EQ(parent.entries(), 1u);
        EXPECT_TRUE(std::filesystem::is_empty(made));
    }
    EXPECT_FALSE(file_remove(made.c_str(), &removed, &why)); // an empty folder
    EXPECT_TRUE(contains(why, "cannot remove")) << why.text;
}

TEST(Path, KnowsOneFileByTwoNames) {
    const TemporaryFolder folder;
    fault why;
    const auto is_one_file = [&](const std::string &a, const std::string &b) {
        const bool forth = !are_two_files("a", a.c_str(), "b", b.c_str(), &why);
        EXPECT_TRUE(!forth || why.text == "a and b name one file, " + a) << why.text;
        EXPECT_EQ(!are_two_files("b", b.c_str(), "a", a.c_str(), &why), forth) << a << ' ' << b;
        return forth;
    };
    for (const bool there : {false, true}) {
        if (there) {
            for (const char *name : {"a", "b"}) std::ofstream(folder / name) << "a";
            ASSERT_EQ(symlink("a", (folder / "link").c_str()), 0);
            ASSERT_EQ(link((folder / "a").c_str(), (folder / "hard").c_str()), 0);
        }
        const std::string a = folder / "a";
        for (const char *same : {"a", "./a", "/a"}) EXPECT_TRUE(is_one_file(a, folder / same)) << same;
        for (const char *other : {"b", "none", "none/a"})
            EXPECT_FALSE(is_one_file(a, folder / other)) << other;
        for (const char *name : {"link", "hard"}) EXPECT_EQ(is_one_file(a, folder / name), there) << name;
        EXPECT_FALSE(is_one_file(folder / "none/a", folder / "other/a"));
    }
    EXPECT_TRUE(is_one_file("no_such_file", "./no_such_file"));
    EXPECT_TRUE(is_one_file("/no_such_file", "//no_such_file"));
    EXPECT_FALSE(is_one_file("no_such_file", "/no_such_file"));
    EXPECT_TRUE(are_two_files("a", nullptr, "b", "no_such_file", &why));
}
