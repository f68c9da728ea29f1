// SPDX-License-Identifier: MIT
#include "cli/progress.h"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <unistd.h>

namespace {

// Stderr is a terminal whose text can be read, and a bar of 3,000 steps has begun 10 s ago.
class Progress : public testing::Test {
    int leader = -1, saved = -1;

  protected:
    progress bar = {};

    void SetUp() override {
        leader = posix_openpt(O_RDWR | O_NOCTTY);
        const bool has_terminal = leader >= 0 && grantpt(leader) == 0 && unlockpt(leader) == 0;
        const int follower = has_terminal ? open(ptsname(leader), O_RDWR | O_NOCTTY) : -1;
        if (follower < 0) GTEST_SKIP() << "no pseudo-terminal to be had";
        fflush(stderr);
        saved = dup(STDERR_FILENO);
        dup2(follower, STDERR_FILENO);
        close(follower);
        progress_begin(&bar, "train", 3000);
        EXPECT_FALSE(progress_due(&bar)); // too early
        bar.started -= 10;
    }
    void TearDown() override {
        progress_end(&bar);
        if (saved >= 0) {
            dup2(saved, STDERR_FILENO);
            close(saved);
        }
        if (leader >= 0) close(leader);
    }
    // What was written, once no more has come for a tenth of a second: it comes in pieces.
    std::string text() const {
        std::string all;
        pollfd waiting = {leader, POLLIN, 0};
        while (poll(&waiting, 1, 100) > 0) {
            char buffer[1024];
            const ssize_t size = read(leader, buffer, sizeof buffer);
            if (size <= 0) break;
            all.append(buffer, size_t(size));
        }
        return all;
    }
};

TEST(ProgressInAFile, IsALineAfterAMinute) {
    for (const int seconds : {10, 100}) {
        testing::internal::CaptureStderr();
        progress bar;
        progress_begin(&bar, "train", 3000);
        bar.started -= seconds, bar.last_shown -= seconds, bar.ahead = 2;
        EXPECT_EQ(progress_due(&bar), seconds == 100);
        for (const int done : {1000, 1001}) progress_show(&bar, done, 0.5);
        EXPECT_FALSE(progress_due(&bar));
        progress_end(&bar);
        EXPECT_EQ(testing::internal::GetCapturedStderr(),
                  seconds == 10 ? "" : "train 1000/3000  loss 0.50000  10.0/s  0:06:40 left\n");
    }
}

TEST_F(Progress, ShowsALineOnATerminal) {
    bar.last_shown -= 10;
    EXPECT_TRUE(progress_due(&bar));
    progress_show(&bar, 20, 0.125);
    EXPECT_FALSE(progress_due(&bar));
    EXPECT_EQ(text(), "\r\033[Ktrain 20/3000  loss 0.12500  2.0/s  0:24:50 left");
    progress_end(&bar);
    EXPECT_EQ(text(), "\r\033[K");
}

TEST_F(Progress, CountsToTheEndOrTheTimeLimit) {
    const struct {
        double time_limit;
        int64_t before, done;
        double loss;
        const char *line;
    } rows[] = {{0, 0, 0, 0, "0/3000  loss 0.00000  0.0/s"}, // no rate yet, so no time left either
                {70, 0, 20, 0.125, "20/3000  loss 0.12500  2.0/s  0:01:00 left"},
                {70, 0, 2980, 0.125, "2980/3000  loss 0.12500  298.0/s  0:00:00 left"}, // done before
                {5, 0, 20, 0.125, "20/3000  loss 0.12500  2.0/s  0:00:00 left"}, // the last step takes longer
                {0, 1000, 1020, NAN, "1020/3000  2.0/s  0:16:30 left"}};         // of this run, and no loss
    progress_end(&bar);
    for (const auto &row : rows) {
        progress_begin(&bar, "train", 3000);
        bar.started -= 10, bar.time_limit = row.time_limit, bar.before = row.before;
        progress_show(&bar, row.done, row.loss);
        EXPECT_EQ(text(), std::string("\r\033[Ktrain ") + row.line);
    }
}

} // namespace
