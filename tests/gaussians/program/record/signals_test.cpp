// SPDX-License-Identifier: MIT
#include "record/signals.h"
#include <gtest/gtest.h>
#include <cerrno>
#include <unistd.h>

namespace {

volatile sig_atomic_t caught;

void catch_signal(int number) {
    caught = number;
}

TEST(Signals, AStopRequestSetsTheFlagAndTheHandlersComeBack) {
    for (const int number : {SIGINT, SIGTERM}) {
        struct sigaction mine = {}, before = {}, now = {};
        mine.sa_handler = catch_signal;
        sigaction(number, &mine, &before);
        caught = 0;
        stop_request_begin();
        EXPECT_EQ(*stop_request_flag(), 0);
        raise(number);
        EXPECT_EQ(*stop_request_flag(), number);
        EXPECT_EQ(caught, 0);
        sigaction(number, nullptr, &now);
        EXPECT_EQ(now.sa_handler, SIG_DFL); // a second one ends the program
        EXPECT_EQ(stop_request_end(), number);
        raise(number);
        EXPECT_EQ(caught, number);
        sigaction(number, &before, nullptr);
    }
}

TEST(Signals, ABrokenPipeIsAnErrorUntilTheEnd) {
    struct sigaction mine = {}, before = {};
    mine.sa_handler = catch_signal;
    sigaction(SIGPIPE, &mine, &before);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[0]);
    const auto write_caught = [&] {
        caught = 0;
        EXPECT_EQ(write(ends[1], "x", 1), -1);
        EXPECT_EQ(errno, EPIPE);
        return int(caught);
    };
    EXPECT_EQ(write_caught(), SIGPIPE);
    broken_pipes_begin();
    EXPECT_EQ(write_caught(), 0);
    broken_pipes_end();
    EXPECT_EQ(write_caught(), SIGPIPE);
    close(ends[1]);
    sigaction(SIGPIPE, &before, nullptr);
}

} // namespace
