// SPDX-License-Identifier: MIT
// The pace of a schedule under a budget of time, without a trainer.
#include "plan.h"
#include "training_state.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <functional>
#include <tuple>
#include <vector>

namespace {

struct run_of_pace {
    std::vector<double> progress;
    double ended = 0;
};

// What is done between steps: so many times, each at an equal part of the schedule, for so many seconds.
struct between_steps {
    int times = 0;
    double seconds = 0;
};

// What the trainer does. cost: seconds of step 0, 1, ... at a progress. ahead: of the pace, at a progress.
run_of_pace follow(double budget, const std::function<double(int, double)> &cost,
                   const std::function<double(double)> &ahead = nullptr, between_steps between = {}) {
    run_of_pace run;
    pace p = {};
    p.budget = budget;
    double progress = 0;
    bool known = false;
    int done = 0;
    for (int step = 0; step < 10000000; step++) {
        pace_note(&p, run.ended);
        p.ahead = ahead ? ahead(progress) : 1;
        p.between_left = between.times - done;
        if (!known && pace_is_known(&p)) {
            known = true;
        } else if (known) {
            progress = pace_next(&p, progress);
        }
        run.progress.push_back(progress);
        run.ended += cost(step, progress);
        if (done < between.times && progress >= double(done + 1) / (between.times + 2)) {
            p.between = between.seconds;
            run.ended += p.between;
            done++;
        }
        pace then = p;
        pace_note(&then, run.ended);
        if (progress >= 1 || pace_is_over(&then)) break;
    }
    EXPECT_EQ(done, between.times);
    return run;
}

void expect_smooth(const run_of_pace &run, double budget, double most_rise) {
    EXPECT_TRUE(std::is_sorted(run.progress.begin(), run.progress.end()));
    EXPECT_EQ(run.progress.front(), 0);
    EXPECT_EQ(run.progress.back(), 1);
    for (size_t i = 1; i < run.progress.size(); i++)
        ASSERT_LT(run.progress[i] - run.progress[i - 1], most_rise) << i;
    EXPECT_NEAR(run.ended, budget, 0.03 * budget);
}

TEST(Pace, FollowsTheTimeOfEqualSteps) {
    const run_of_pace run = follow(10, [](int, double) { return 0.001; });
    expect_smooth(run, 10, 2e-4);
    EXPECT_NEAR(double(run.progress.size()), 10000, 2);
    for (size_t i = 1000; i < 10000; i += 1000) EXPECT_NEAR(run.progress[i], double(i) / 10000, 0.006) << i;
}

TEST(Pace, EndsInTimeWhateverStepsTake) {
    expect_smooth(follow(10, [](int, double p) { return 0.001 * (1 + 4 * p); }), 10, 2e-3);
    expect_smooth(follow(10, [](int, double p) { return 0.005 * (1 - 0.9 * p); }), 10, 6e-3);
    // The first is slow, one in a hundred takes ten times as long, and one a fifth of the budget.
    const run_of_pace slow = follow(10, [](int step, double) {
        return step == 0 ? 0.3 : step == 3000 ? 2.0 : step % 100 == 0 ? 0.01 : 0.001;
    });
    expect_smooth(slow, 10, 0.01);
    EXPECT_LT(slow.progress[3001] - slow.progress[3000], 3e-4);
    const run_of_pace few = follow(0.5, [](int, double) { return 0.05; });
    EXPECT_EQ(few.progress.back(), 1);
    EXPECT_NEAR(few.ended, 0.5, 0.026);
    EXPECT_TRUE(std::is_sorted(few.progress.begin(), few.progress.end()));
    EXPECT_EQ(follow(0.001, [](int, double) { return 1.0; }).progress.size(), 1u);
    // The budget ends in a step that hangs.
    EXPECT_NEAR(follow(10, [](int step, double) { return step == 5000 ? 30 : 0.001; }).ended, 35, 0.1);
}

// Steps that become four times as slow half-way, all at once, as density control does, are as many before as after if that is
// foreseen, else as much time.
TEST(Pace, MovesByStepsAsFarAsTheirTimeIsForeseen) {
    const auto cost = [](int, double p) { return p < 0.5 ? 0.001 : 0.004; };
    const auto ahead = [](double p) { return p < 0.5 ? (0.5 - p + 4 * 0.5) / (1 - p) : 1; };
    const std::pair<run_of_pace, double> cases[] = {{follow(10, cost, ahead), 0.5}, {follow(10, cost), 0.8}};
    for (const auto &[run, share_before] : cases) {
        expect_smooth(run, 10, 2e-2);
        const auto before =
            std::count_if(run.progress.begin(), run.progress.end(), [](double p) { return p < 0.5; });
        EXPECT_NEAR(double(before) / double(run.progress.size()), share_before, 0.02);
    }
}

// Five times 0.4 s, after each seventh of the schedule: nearly even from the first time on. Without being counted the last
// steps would move it by 1.8e-4 each.
TEST(Pace, CountsWhatIsDoneBetweenSteps) {
    const run_of_pace run = follow(10, [](int, double) { return 0.001; }, nullptr, {5, 0.4});
    expect_smooth(run, 10, 1.35e-4);
    EXPECT_NEAR(double(run.progress.size()), 8000, 10);
}

TEST(Pace, WhatIsDoneBetweenStepsLeavesThemHalfOfTheTime) {
    pace p = {};
    p.budget = 10;
    for (int i = 0; i <= 100; i++) pace_note(&p, 0.01 * i);
    const std::tuple<double, int, double> cases[] = {{0, 0, 900}, {1, 3, 600}, {1, 30, 450}};
    for (const auto &[between, times, steps] : cases) {
        p.between = between, p.between_left = times;
        EXPECT_NEAR(pace_steps_left(&p), steps, 1e-6) << times;
    }
}

TEST(Pace, StepsThatTakeNoTimeAreLimited) {
    pace p = {};
    p.budget = 10;
    for (int i = 0; i < 60; i++) pace_note(&p, 0);
    EXPECT_TRUE(pace_is_known(&p));
    EXPECT_EQ(pace_steps_left(&p), double(SCHEDULE_MOST));
    EXPECT_GT(pace_next(&p, 0.5), 0.5);
    EXPECT_FALSE(pace_is_over(&p));
}

} // namespace
