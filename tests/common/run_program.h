// SPDX-License-Identifier: MIT
// Runs a built program as a user runs it, in a folder of the test's own.
#ifndef TESTS_RUN_PROGRAM_H
#define TESTS_RUN_PROGRAM_H

#include "files.h"
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;

struct outcome {
    int code; // of the exit; after a signal its number, negative
    std::string out, err;
};

inline std::string contents(const fs::path &path) {
    return read_bytes(path.string());
}

// Starts a program, arguments[0], as the leader of a group of processes, with more in its environment.
inline pid_t started(const std::vector<std::string> &arguments, const fs::path &out, const fs::path &err,
                     const std::map<std::string, std::string> &environment = {}) {
    std::vector<char *> argv;
    for (const std::string &argument : arguments) argv.push_back(const_cast<char *>(argument.data()));
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child != 0) return child;
    setpgid(0, 0);
    for (const auto &[name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    dup2(creat(out.c_str(), 0600), STDOUT_FILENO);
    dup2(creat(err.c_str(), 0600), STDERR_FILENO);
    alarm(300); // what hangs shall fail
    execv(argv[0], argv.data());
    _exit(127);
}

// Waits for its end.
inline outcome ended(pid_t child, const fs::path &out, const fs::path &err) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), contents(out), contents(err)};
}

// While it lives no file can grow past `bytes`, in this process and those that it starts: a disk that is full.
class small_disk {
    rlimit old_limit;
    void (*old_handler)(int);

  public:
    explicit small_disk(rlim_t bytes) : old_handler(signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &old_limit);
        const rlimit limit = {bytes, old_limit.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~small_disk() {
        setrlimit(RLIMIT_FSIZE, &old_limit);
        signal(SIGXFSZ, old_handler);
    }
    small_disk(const small_disk &) = delete;
};

#define EXPECT_CONTAINS(text, part)                                                                          \
    EXPECT_NE(std::string(text).find(part), std::string::npos) << "no '" << (part) << "' in:\n" << (text)

class ProgramTest : public testing::Test {
  protected:
    TemporaryFolder its;
    const fs::path folder = its.path; // of this test alone

    fs::path at(const char *name) const { return folder / name; }

    outcome run(const char *program, std::vector<std::string> arguments) const {
        const fs::path out = at("stdout"), err = at("stderr");
        arguments.insert(arguments.begin(), program);
        const outcome result = ended(started(arguments, out, err), out, err);
        fs::remove(out);
        fs::remove(err);
        return result;
    }

    // The words of a command line; @NAME is a path in the test's folder.
    std::vector<std::string> words(const std::string &line) const {
        std::istringstream text(line);
        std::vector<std::string> all;
        for (std::string word; text >> word;)
            all.push_back(word[0] == '@' ? at(word.c_str() + 1).string() : word);
        return all;
    }
    size_t files_in_folder() const { return its.entries(); }
    struct refusal {
        std::string line;
        int code;
        std::string says; // on stderr
    };
    struct saying {
        std::string line;
        int code;
        std::vector<std::string> parts; // of stdout and stderr; of "!text" not
    };
    void says(const char *program, const std::vector<saying> &table) const {
        for (const saying &row : table) {
            const outcome got = run(program, words(row.line));
            EXPECT_EQ(got.code, row.code) << row.line << "\n" << got.err;
            for (const std::string &part : row.parts) {
                const bool absent = part[0] == '!';
                EXPECT_EQ((got.out + got.err).find(part.substr(absent)) == std::string::npos, absent)
                    << row.line << ": " << part << "\n"
                    << got.out << got.err;
            }
        }
    }
    // Each is refused with its words, says nothing on stdout, and leaves no file.
    void refuses(const char *program, const std::vector<refusal> &table) const {
        const size_t files = files_in_folder();
        for (const refusal &row : table) {
            const outcome result = run(program, words(row.line));
            EXPECT_EQ(result.code, row.code) << row.line;
            EXPECT_EQ(result.out, "") << row.line;
            EXPECT_CONTAINS(result.err, row.says);
            EXPECT_EQ(files_in_folder(), files) << row.line << ": something was left behind";
            if (row.code == 1) {
                EXPECT_EQ(result.err.rfind(fs::path(program).filename().string() + ": ", 0), 0u)
                    << result.err;
            }
        }
    }
};

// The two numbers in a line "label ... A -> B ..."
inline std::array<double, 2> change(const std::string &text, const std::string &label) {
    std::array<double, 2> values = {NAN, NAN};
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t at = line.find(label), arrow = line.find("->");
        if (at < arrow && arrow != line.npos)
            values = {std::strtod(line.c_str() + at + label.size(), nullptr),
                      std::strtod(line.c_str() + arrow + 2, nullptr)};
    }
    return values;
}

#endif
