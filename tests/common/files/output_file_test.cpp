// SPDX-License-Identifier: MIT
#include "cli/command_line.h"
#include "files.h"
#include "files/output_file.h"
#include <atomic>
#include <set>
#include <sys/stat.h>
#include <thread>

namespace {

class OutputFile : public testing::Test {
  protected:
    TemporaryFolder folder;
    std::string path = folder / "output";
    output_file file = {};
    fault why = {};

    void open() { ASSERT_TRUE(output_file_open(&file, path.c_str(), &why)) << why.text; }
    void expect_written(const std::string &text) {
        fputs(text.c_str(), file.stream);
        EXPECT_TRUE(output_file_commit(&file, &why)) << why.text;
        EXPECT_EQ(read_bytes(path), text);
    }
    void expect_refused(const std::string &name, const std::string &reason) {
        EXPECT_FALSE(output_file_open(&file, name.c_str(), &why)) << name;
        EXPECT_EQ(why.text, name + ": cannot write: " + reason);
    }
};

TEST_F(OutputFile, AppearsAtCommitOrNever) {
    write_bytes(path, "old");
    for (const bool commits : {false, true}) {
        open();
        fputs("new text", file.stream);
        fflush(file.stream);
        EXPECT_EQ(read_bytes(path), "old");
        EXPECT_EQ(folder.entries(), 2u);
        EXPECT_TRUE(!commits || output_file_commit(&file, &why)) << why.text;
        for (int turn = 0; turn < 2; turn++) output_file_discard(&file); // harmless after a commit
        EXPECT_EQ(read_bytes(path), commits ? "new text" : "old");
        EXPECT_EQ(folder.entries(), 1u);
    }
}

// The child is this test again, in a process of its own: other tests leave threads, which a fork does not have. It writes
// into the parent's folder and removes its own.
TEST_F(OutputFile, ExitRemovesWhatIsWritten) {
    setenv("OUTPUT_OF_THE_CHILD", path.c_str(), 0);
    path = getenv("OUTPUT_OF_THE_CHILD");
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            std::filesystem::remove(folder.path);
            exit(output_file_open(&file, path.c_str(), &why) ? 3 : 1);
        },
        testing::ExitedWithCode(3), "");
    GTEST_FLAG_SET(death_test_style, "fast");
    unsetenv("OUTPUT_OF_THE_CHILD");
    EXPECT_EQ(folder.entries(), 0u);
}

// A private file stays private, also while it is written; one that others may write stays so under any umask.
// A new file, of mode 0 here, has what the umask leaves.
TEST_F(OutputFile, KeepsTheModeOfTheFileThatItReplaces) {
    for (const mode_t mode : {0u, 0600u, 0640u, 0666u, 0444u}) {
        if (mode) write_bytes(path, "old");
        ASSERT_TRUE(!mode || chmod(path.c_str(), mode) == 0);
        const mode_t old = umask(022);
        open();
        umask(old);
        struct stat status;
        ASSERT_EQ(stat(file.temporary_path, &status), 0);
        EXPECT_EQ(status.st_mode & 0077, mode ? 0u : 0044u);
        ASSERT_TRUE(output_file_commit(&file, &why)) << why.text;
        ASSERT_EQ(stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777, mode ? mode : 0644u);
        EXPECT_EQ(status.st_uid, geteuid());
        ASSERT_EQ(unlink(path.c_str()), 0);
    }
}

// The target of a link is written, whether it is there already or not.
TEST_F(OutputFile, WritesThroughLinks) {
    write_bytes(folder / "real/other", "x");
    ASSERT_EQ(symlink("real/first", path.c_str()), 0);
    ASSERT_EQ(symlink((folder / "real/target").c_str(), (folder / "real/first").c_str()), 0);
    for (const char *text : {"new", "newer"}) {
        open();
        expect_written(text);
        for (const std::string &link : {path, folder / "real/first"})
            EXPECT_TRUE(std::filesystem::is_symlink(link));
        EXPECT_EQ(read_bytes(folder / "real/target"), text);
    }
}

// Everything is written, and the last step, the rename, fails: a folder has the name; the folder is gone.
TEST_F(OutputFile, LeavesNothingWhenTheRenameFails) {
    open();
    write_bytes(path + "/x", "a folder");
    EXPECT_FALSE(output_file_commit(&file, &why));
    EXPECT_EQ(why.text, path + ": cannot write: Is a directory");
    EXPECT_EQ(folder.entries(), 1u);
    path += "/gone/output";
    write_bytes(path, "old");
    open();
    std::filesystem::remove_all(folder / "output");
    EXPECT_FALSE(output_file_commit(&file, &why));
    EXPECT_EQ(why.text, path + ": cannot write: No such file or directory");
}

// A folder, a pipe, a circle of links; a folder that may not be written.
TEST_F(OutputFile, ReplacesNothingButRegularFiles) {
    ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
    ASSERT_EQ(symlink("other", path.c_str()), 0);
    ASSERT_EQ(symlink("output", (folder / "other").c_str()), 0);
    for (const std::string &no : {folder.path, folder / "pipe"})
        expect_refused(no, "exists and is not a regular file");
    expect_refused(path, "Too many levels of symbolic links");
    ASSERT_EQ(chmod(folder.path.c_str(), 0555), 0);
    const bool is_root = geteuid() == 0; // who may write everywhere
    if (is_root && seteuid(65534) != 0) GTEST_SKIP() << "cannot give up root's rights";
    expect_refused(folder / "new", "Permission denied");
    ASSERT_TRUE(!is_root || seteuid(0) == 0);
    ASSERT_EQ(chmod(folder.path.c_str(), 0755), 0);
    EXPECT_EQ(folder.entries(), 3u);
}

// Of the remains of killed programs; the path is a link.
TEST_F(OutputFile, RemovesNothingElse) {
    std::set<std::string> kept = {folder / "folder", folder / "link"};
    for (const char *name :
         {"output", "output.part-", "output.part-1", "output.part-1-", "output.part--1", "output.part-1-0x",
          "output.part-1-0-0", "output.part-x1-0", "output.part-1-0.part-1-0", "output.part_1-0",
          "output.part", "other.part-1-0", "my-output.part-1-0", "output2.part-1-0", "link.part-1-0",
          "folder/output.part-1-0", "output.part-1-3/x"}) { // a folder
        write_bytes(folder / name, "x");
        kept.insert(folder / name);
    }
    ASSERT_EQ(symlink("output", (folder / "output.part-1-1").c_str()), 0);
    ASSERT_EQ(mkfifo((folder / "output.part-1-2").c_str(), 0600), 0);
    ASSERT_EQ(symlink("output", (folder / "link").c_str()), 0);
    path = folder / "link";
    open(); // being written
    kept.insert({folder / "output.part-1-1", folder / "output.part-1-2", folder / "output.part-1-3",
                 file.temporary_path});
    write_bytes(folder / "output.part-1-0", "x");
    write_bytes(folder / "output.part-12345678901234567890-9", "x");

    ASSERT_TRUE(output_is_possible(path.c_str(), &why)) << why.text;
    std::set<std::string> found;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(folder.path))
        found.insert(entry.path());
    EXPECT_EQ(found, kept);
    expect_written("new");
}

// Whoever looks for remains, and whenever, what others write arrives. More threads than cores, so that some
// are interrupted between any two steps.
TEST_F(OutputFile, IsSafeFromThoseWhoRemoveRemains) {
    const int each = 4, rounds = 1000;
    std::atomic<bool> done{false};
    std::vector<std::thread> removers, writers;
    open();
    for (int i = 0; i < each; i++) {
        removers.emplace_back([&] {
            while (!done) output_file_remove_stale(&file);
        });
        writers.emplace_back([&, i] {
            for (int n = 0; n <= rounds; n++) {
                output_file mine;
                fault reason;
                ASSERT_TRUE(output_file_open(&mine, path.c_str(), &reason)) << reason.text;
                std::this_thread::yield();
                if (n % 500 == 0) { // it takes long
                    fprintf(mine.stream, "%d %d", i, n);
                    ASSERT_TRUE(output_file_commit(&mine, &reason)) << reason.text;
                } else {
                    ASSERT_EQ(access(mine.temporary_path, F_OK), 0) << "removed while it was written";
                    output_file_discard(&mine);
                }
            }
        });
    }
    for (std::thread &writer : writers) writer.join();
    done = true;
    for (std::thread &remover : removers) remover.join();
    output_file_discard(&file);
    EXPECT_EQ(read_bytes(path).substr(1), " " + std::to_string(rounds));
    EXPECT_EQ(folder.entries(), 1u);
}

TEST(MemoryStream, HasWhatIsWritten) {
    char *text;
    size_t size = 7;
    FILE *const stream = memory_stream_open(&text, &size);
    ASSERT_NE(stream, nullptr);
    std::string expected;
    for (const size_t bytes : {0, 1, 3, 5000, 0, 70000, 2}) {
        EXPECT_EQ(std::string(text, size + 1), expected + '\0');
        expected += std::string(bytes, char('a' + bytes % 26)) + '\0';
        fwrite(&expected[expected.size() - bytes - 1], 1, bytes + 1, stream);
        ASSERT_EQ(fflush(stream), 0);
    }
    ASSERT_TRUE(memory_stream_close(stream));
    EXPECT_EQ(std::string(text, size), expected);
    free(text);
}

} // namespace
