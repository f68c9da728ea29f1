// SPDX-License-Identifier: MIT
// A `dsplat train --view` or `dsplat view` that runs, and its page's address.
#ifndef VIEWED_TRAINING_H
#define VIEWED_TRAINING_H

#include "program_run.h"
#include "live/connection.h"
#include <csignal>

class viewed_training {
    fs::path out, err;
    pid_t child;
    std::string path;
    uint16_t port = 0;

  public:
    std::string url;

    // Its output goes to the files out and err of the folder.
    viewed_training(const fs::path &folder, std::vector<std::string> arguments)
        : out(folder / "out"), err(folder / "err") {
        if (arguments[0] == "train") arguments.push_back("--view");
        arguments.insert(arguments.begin(), DSPLAT_PROGRAM);
        child = started(arguments, out, err);
        for (int i = 0; i < 600 && url.empty(); i++) {
            usleep(100000);
            const std::string text = contents(out);
            const size_t from = text.find("http://127.0.0.1:"), to = text.find('\n', from);
            if (from != std::string::npos && to != std::string::npos) url = text.substr(from, to - from);
        }
        EXPECT_NE(url, "") << contents(err);
        if (url.empty()) return;
        char *end;
        port = uint16_t(strtol(url.c_str() + strlen("http://127.0.0.1:"), &end, 10));
        path = end;
    }
    answer_of ask(const char *method, const std::string &name) const {
        return answer_of(port, method, path + name);
    }
    void interrupt() const { kill(child, SIGINT); }
    int wait() const { return ended(child, out, err).code; }
};

#endif
