// SPDX-License-Identifier: MIT
#include "strategies/strategies.h"
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace {

candidate_list read(distwar_strategy which, const char *thresholds) {
    candidate_list list;
    fault why;
    EXPECT_TRUE(candidates_read(which, thresholds, &list, &why)) << why.text;
    return list;
}

std::string text_of(const candidate_list &list) {
    std::string out;
    for (int i = 0; i < list.count; i++)
        out += std::string(i ? " " : "") + distwar_strategy_name(list.rows[i].strategy) + ":" +
               std::to_string(list.rows[i].balance_threshold);
    return out;
}

TEST(Candidates, AreStrategiesAtThresholds) {
    const std::string all = "atomic:0 serial:8 serial:0 bfly:8 bfly:0 tree:8 tree:0 vector:0 fixed:8 fixed:0";
    EXPECT_EQ(text_of(read(DISTWAR_STRATEGY_COUNT, "8,0")), all + (KERNELS_ARE_COUNTED ? "" : " cub:0"));
    EXPECT_EQ(text_of(read(DISTWAR_SERIAL, "0,8,33")), "serial:0 serial:8 serial:33");
    EXPECT_EQ(text_of(read(DISTWAR_VECTOR, "8,0")), "vector:0");
    EXPECT_EQ(text_of(read(DISTWAR_BLOCK, "8,0")), "");
    // No candidate twice.
    EXPECT_EQ(text_of(tuner_candidates()).substr(0, 27), "tree:0 atomic:0 serial:0 se");
    EXPECT_EQ(tuner_candidates().count, 3 * 8 + 2);
}

TEST(Candidates, HaveNamesForAnOption) {
    const char *names[STRATEGY_NAMES];
    int last;
    ASSERT_EQ(strategy_names("auto", names, &last), names);
    EXPECT_STREQ(names[0], "atomic");
    EXPECT_STREQ(names[last], "auto");
    EXPECT_EQ(names[last + 1], nullptr);
    EXPECT_EQ(sum_strategies[last], DISTWAR_STRATEGY_COUNT);
}

// Notes the views that it prepares and the policies that it runs.
struct noted {
    std::vector<size_t> views;
    std::vector<distwar_policy> policies;
};
void prepare(void *context, size_t view) {
    static_cast<noted *>(context)->views.push_back(view);
}
void run(void *context, distwar_policy policy, lane_histogram *) {
    static_cast<noted *>(context)->policies.push_back(policy);
}

TEST(StrategyCosts, AreMeasuredOfEveryCandidateOnEveryView) {
    const candidate_list all = read(DISTWAR_STRATEGY_COUNT, "0,8");
    noted seen;
    const strategy_subject subject = {&seen, 2, prepare, run};
    strategy_costs costs;
    strategy_costs_measure(&subject, &all, 3, &costs);
    const size_t calls = KERNELS_ARE_COUNTED ? 1 : 3 + 1;
    EXPECT_EQ(costs.candidates.count, all.count);
    EXPECT_EQ(seen.views, (std::vector<size_t>{0, 1}));
    ASSERT_EQ(seen.policies.size(), 2 * (1 + calls * size_t(all.count))); // lanes are counted once
    EXPECT_EQ(seen.policies[1 + calls].strategy, DISTWAR_SERIAL);
}

// Medians over runs, means over views.
strategy_cost cost_of(std::vector<std::vector<double>> views) {
    strategy_cost cost = {};
    for (size_t view = 0; view < views.size(); view++)
        strategy_cost_add(&cost, view, views.size(), views[view].data(), views[view].size());
    return cost;
}

TEST(StrategyCosts, OfAViewAreTheMedianOfItsRuns) {
    EXPECT_EQ(cost_of({{5, 1, 9, 2, 3}}).value[COST_MEAN], 3);
    EXPECT_DOUBLE_EQ(cost_of({{5, 1, 9, 2, 3}}).value[COST_NOISE], 8 / 3.0);
    EXPECT_EQ(cost_of({{4, 1, 2, 8}}).value[COST_MEAN], 3);
    EXPECT_EQ(cost_of({{7}}).value[COST_LEAST], 7);
    EXPECT_EQ(cost_of({{0}}).value[COST_NOISE], 0); // of nothing
}

TEST(StrategyCosts, AreTheMeanOfTheMediansOfViews) {
    const strategy_cost cost = cost_of({{3, 2, 1}, {4, 4, 5}, {9, 8, 10}});
    EXPECT_DOUBLE_EQ(cost.value[COST_MEAN], 5);
    EXPECT_EQ(cost.value[COST_LEAST], 2);
    EXPECT_EQ(cost.value[COST_MOST], 9);
    EXPECT_DOUBLE_EQ(cost.value[COST_NOISE], 1); // the first view's runs: (3 - 1) / 2
}

TEST(Candidates, HaveThresholdsWithCommas) {
    candidate_list list;
    fault why;
    std::string many = "0";
    for (int i = 1; i < MAX_THRESHOLDS; i++) many += ",1";
    EXPECT_EQ(read(DISTWAR_TREE, many.c_str()).count, int(MAX_THRESHOLDS));
    for (const std::string &bad : {std::string(), std::string("34"), std::string("-1"), std::string("1,"),
                                   std::string(",1"), std::string("1 2"), std::string("x"), std::string(" 1"),
                                   std::string("99999999999999999999"), many + ",1"}) {
        EXPECT_FALSE(candidates_read(DISTWAR_TREE, bad.c_str(), &list, &why)) << bad;
        EXPECT_NE(std::string(why.text).find("--thresholds"), std::string::npos);
    }
}

} // namespace
