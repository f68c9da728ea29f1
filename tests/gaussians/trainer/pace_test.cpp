// SPDX-License-Identifier: MIT
// The pace of a schedule under a budget of time, without a trainer.
#include "plan.h"
#include "training_state.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <functional>
#include <vector>

namespace {

struct run_of_pace {
    std::vector<double> progress;
    double ended = 0;
};

double as_now(double) {
    return 1;
}

// What the trainer does. cost: seconds of step 0, 1, ... at a progress. ahead: of the pace, at a progress.
run_of_pace follow(double budget, const std::function<double(int, double)> &cost,
                   const std::function<double(double)> &ahead = as_now) {
    run_of_pace run;
    pace p = {};
    p.budget = budget;
    double progress = 0;
    bool known = false;
    for (int step = 0; step < 10000000; step++) {
        pace_note(&p, run.ended);
        p.ahead = ahead(progress);
        if (!known && pace_is_known(&p)) {
            known = true;
        } else if (known) {
            progress = pace_next(&p, progress);
        }
        run.progress.push_back(progress);
        run.ended += cost(step, progress);
        pace then = p;
        pace_note(&then, run.ended);
        if (progress >= 1 || pace_is_over(&then)) break;
    }
    return run;
}

double largest_rise(const run_of_pace &run) {
    double most = 0;
    for (size_t i = 1; i < run.progress.size(); i++)
        most = std::max(most, run.progress[i] - run.progress[i - 1]);
    return most;
}

void expect_smooth(const run_of_pace &run, double budget, double most_rise) {
    EXPECT_TRUE(std::is_sorted(run.progress.begin(), run.progress.end()));
    EXPECT_EQ(run.progress.front(), 0);
    EXPECT_EQ(run.progress.back(), 1);
    EXPECT_LT(largest_rise(run), most_rise);
    EXPECT_NEAR(run.ended, budget, 0.03 * budget);
}

TEST(Pace, FollowsTheTimeOfEqualSteps) {
    const run_of_pace run = follow(10, [](int, double) { return 0.001; });
    expect_smooth(run, 10, 2e-4);
    EXPECT_NEAR(double(run.progress.size()), 10000, 2);
    for (size_t i = 1000; i < 10000; i += 1000) EXPECT_NEAR(run.progress[i], double(i) / 10000, 0.006) << i;
}

TEST(Pace, EndsInTimeWhereStepsBecomeSlowerOrFaster) {
    expect_smooth(follow(10, [](int, double p) { return 0.001 * (1 + 4 * p); }), 10, 2e-3);
    expect_smooth(follow(10, [](int, double p) { return 0.005 * (1 - 0.9 * p); }), 10, 6e-3);
    // As density control does, all at once.
    expect_smooth(follow(10, [](int, double p) { return p < 0.5 ? 0.001 : 0.004; }), 10, 2e-2);
}

// Steps that become four times as slow half-way are as many before as after if that is foreseen, else as much time.
TEST(Pace, MovesByStepsAsFarAsTheirTimeIsForeseen) {
    const auto cost = [](int, double p) { return p < 0.5 ? 0.001 : 0.004; };
    const auto ahead = [](double p) { return p < 0.5 ? (0.5 - p + 4 * 0.5) / (1 - p) : 1; };
    const auto share_before = [](const run_of_pace &run) {
        return double(std::count_if(run.progress.begin(), run.progress.end(),
                                    [](double p) { return p < 0.5; })) /
               double(run.progress.size());
    };
    const run_of_pace foreseen = follow(10, cost, ahead), not_foreseen = follow(10, cost);
    expect_smooth(foreseen, 10, 2e-2);
    EXPECT_NEAR(share_before(foreseen), 0.5, 0.02);
    EXPECT_NEAR(share_before(not_foreseen), 0.8, 0.02);
}

TEST(Pace, AStepThatTakesLongMovesNoSchedule) {
    // The first is slow, one in a hundred takes ten times as long, and one a fifth of the budget.
    const run_of_pace run = follow(10, [](int step, double) {
        return step == 0 ? 0.3 : step == 3000 ? 2.0 : step % 100 == 0 ? 0.01 : 0.001;
    });
    expect_smooth(run, 10, 0.01);
    EXPECT_LT(run.progress[3001] - run.progress[3000], 3e-4);
}

TEST(Pace, AFewStepsEndInTimeToo) {
    const run_of_pace few = follow(0.5, [](int, double) { return 0.05; });
    EXPECT_EQ(few.progress.back(), 1);
    EXPECT_NEAR(few.ended, 0.5, 0.026);
    EXPECT_TRUE(std::is_sorted(few.progress.begin(), few.progress.end()));
    EXPECT_EQ(follow(0.001, [](int, double) { return 1.0; }).progress.size(), 1u);
    // The budget ends in a step that hangs.
    EXPECT_NEAR(follow(10, [](int step, double) { return step == 5000 ? 30 : 0.001; }).ended, 35, 0.1);
}

// Five times 0.4 s, after each seventh of the schedule.
TEST(Pace, CountsWhatIsDoneBetweenSteps) {
    run_of_pace run;
    pace p = {};
    p.budget = 10;
    double progress = 0;
    int done = 0;
    while (progress < 1 && run.progress.size() < 20000) {
        pace_note(&p, run.ended);
        p.between_left = 5 - done;
        if (pace_is_known(&p)) progress = pace_next(&p, progress);
        run.progress.push_back(progress);
        run.ended += 0.001;
        if (done == 5 || progress < double(done + 1) / 7) continue;
        p.between = 0.4;
        run.ended += p.between;
        done++;
    }
    EXPECT_EQ(done, 5);
    // Nearly even from the first time on; without being counted the last steps would move it by 1.8e-4 each.
    expect_smooth(run, 10, 1.35e-4);
    EXPECT_NEAR(double(run.progress.size()), 8000, 10);
}

TEST(Pace, WhatIsDoneBetweenStepsLeavesThemHalfOfTheTime) {
    pace p = {};
    p.budget = 10;
    for (int i = 0; i <= 100; i++) pace_note(&p, 0.01 * i);
    EXPECT_NEAR(pace_steps_left(&p), 900, 1e-6);
    p.between = 1, p.between_left = 3;
    EXPECT_NEAR(pace_steps_left(&p), 600, 1e-6);
    p.between_left = 30;
    EXPECT_NEAR(pace_steps_left(&p), 450, 1e-6);
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
