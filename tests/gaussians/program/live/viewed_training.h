// SPDX-License-Identifier: MIT
// A `dsplat train --view` or `dsplat view` that runs, and its page's address.
#ifndef VIEWED_TRAINING_H
#define VIEWED_TRAINING_H

#include "program_run.h"
#include "live/connection.h"
#include <csignal>

class viewed_training {
    pid_t child;
    std::string path;
    uint16_t port = 0;

  public:
    std::string url;

    // Its output goes to the files out and err of the folder.
    viewed_training(const fs::path &folder, std::vector<std::string> arguments) : child(fork()) {
        arguments.insert(arguments.begin(), DSPLAT_PROGRAM);
        if (arguments[1] == "train") arguments.push_back("--view");
        std::vector<char *> argv;
        for (std::string &argument : arguments) argv.push_back(argument.data());
        argv.push_back(nullptr);
        if (child == 0) {
            dup2(creat((folder / "out").c_str(), 0600), STDOUT_FILENO);
            dup2(creat((folder / "err").c_str(), 0600), STDERR_FILENO);
            alarm(200); // what hangs shall fail
            execv(DSPLAT_PROGRAM, argv.data());
            _exit(127);
        }
        for (int i = 0; i < 600 && url.empty(); i++) {
            usleep(100000);
            const std::string text = contents(folder / "out");
            const size_t from = text.find("http://127.0.0.1:"), to = text.find('\n', from);
            if (from != std::string::npos && to != std::string::npos) url = text.substr(from, to - from);
        }
        EXPECT_NE(url, "") << contents(folder / "err");
        if (url.empty()) return;
        char *end;
        port = uint16_t(strtol(url.c_str() + strlen("http://127.0.0.1:"), &end, 10));
        path = end;
    }
    answer_of ask(const char *method, const std::string &name) const {
        return answer_of(port, method, path + name);
    }
    void interrupt() const { kill(child, SIGINT); }
    // The exit code; -1 after a signal.
    int wait() const {
        int status = 0;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
};

#endif
