// SPDX-License-Identifier: MIT
// A program whose standard streams are closed.
#include "files.h"
#include "cli/command_line.h"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// Writes a file, and meanwhile to both streams.
int command(int, char **argv) {
    FILE *file = fopen(argv[1], "w");
    if (!file) return 3;
    fputs("out", stdout);
    fflush(stdout);
    fputs("err", stderr);
    fputs("file", file);
    return fclose(file) == 0 ? 0 : 4;
}

int run_without_streams(const std::string &path) {
    const pid_t child = fork();
    if (child == 0) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        const program_command commands[] = {{"command", "", command}, {nullptr, nullptr, nullptr}};
        const program_spec spec = {"program", "1.2.3", "tests", commands, ""};
        char name[] = "program", first[] = "command";
        std::string second = path;
        char *argv[] = {name, first, second.data(), nullptr};
        _exit(program_run(&spec, 3, argv));
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Program, WritesNoMessageIntoItsFiles) {
    TemporaryFolder folder;
    EXPECT_EQ(run_without_streams(folder / "file"), 1); // what was printed did not reach its end
    EXPECT_EQ(read_bytes(folder / "file"), "file");
}

} // namespace
