// SPDX-License-Identifier: MIT
#include "fit/fit.h"
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace {

const offered_strategy offered[] = {{DISTWAR_ATOMIC, false}, {DISTWAR_SERIAL, false},
                                    {DISTWAR_TREE, false},   {DISTWAR_FIXED, true},
                                    {DISTWAR_CUB, false},    {DISTWAR_STRATEGY_COUNT, false}};

std::string text_of(const candidate_list &list) {
    std::string out;
    for (int i = 0; i < list.count; i++) {
        const distwar_policy row = list.rows[i];
        out += std::string(i ? " " : "") + distwar_strategy_name(row.strategy);
        if (offered_has_threshold(offered, row.strategy))
            out += ":" + std::to_string(row.balance_threshold);
        else
            EXPECT_EQ(row.balance_threshold, 0);
    }
    return out;
}

TEST(OfferedStrategy, HasANameAnIndexAndMayIgnoreItsThreshold) {
    const char *names[STRATEGY_NAMES];
    ASSERT_EQ(strategy_names(offered, "auto", names), names);
    EXPECT_EQ(std::vector<std::string>(names, names + 6),
              (std::vector<std::string>{"atomic", "serial", "tree", "fixed", "cub", "auto"}));
    EXPECT_EQ(names[6], nullptr);
    EXPECT_EQ(strategy_names(offered, nullptr, names)[5], nullptr);
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(offered_index(offered, offered[i].strategy), i);
        EXPECT_EQ(offered_has_threshold(offered, offered[i].strategy), i == 1 || i == 2) << i;
    }
    EXPECT_EQ(offered_index(offered, DISTWAR_BLOCK), 5); // not offered
    EXPECT_FALSE(offered_has_threshold(offered, DISTWAR_BLOCK));
}

TEST(Candidates, AreStrategiesAtThresholds) {
    const int thresholds[] = {8, 0};
    EXPECT_EQ(text_of(candidates_of(offered, DISTWAR_STRATEGY_COUNT, thresholds, 2)),
              "atomic serial:8 serial:0 tree:8 tree:0 fixed cub");
    EXPECT_EQ(text_of(candidates_of(offered, DISTWAR_SERIAL, thresholds, 1)), "serial:8");
    EXPECT_EQ(text_of(candidates_of(offered, DISTWAR_BLOCK, thresholds, 2)), "");
    EXPECT_EQ(text_of(tuner_candidates(offered, thresholds, 2)), "tree:0 atomic serial:8 serial:0 tree:8");
}

TEST(BenchCosts, AreTheMeanOfTheMediansOfViews) {
    struct {
        std::vector<std::vector<double>> views; // of each the runs
        double mean, noise;
    } rows[] = {{{{5, 1, 9, 2, 3}}, 3, 8 / 3.0},
                {{{4, 1, 2, 8}}, 3, 7 / 3.0},
                {{{7}}, 7, 0},
                {{{0}}, 0, 0},
                {{{3, 2, 1}, {4, 4, 5}, {9, 8, 10}}, 5, 1}}; // noise of the first view's runs: (3 - 1) / 2
    for (auto &row : rows) {
        bench_cost cost = {};
        for (std::vector<double> &runs : row.views)
            bench_cost_add(&cost, int(row.views.size()), runs.data(), runs.size());
        EXPECT_DOUBLE_EQ(cost.milliseconds, row.mean);
        EXPECT_DOUBLE_EQ(cost.noise, row.noise);
    }
}

TEST(Thresholds, AreNumbersWithCommas) {
    int values[MAX_THRESHOLDS];
    size_t count;
    fault why;
    ASSERT_TRUE(parse_thresholds("0,8,33", values, &count, &why)) << why.text;
    EXPECT_EQ(std::vector<int>(values, values + count), (std::vector<int>{0, 8, 33}));
    std::string many = "0";
    for (int i = 1; i < MAX_THRESHOLDS; i++) many += ",1";
    EXPECT_TRUE(parse_thresholds(many.c_str(), values, &count, &why));
    for (const std::string &bad : {std::string(), std::string("34"), std::string("-1"), std::string("1,"),
                                   std::string(",1"), std::string("1 2"), std::string("x"), std::string(" 1"),
                                   std::string("99999999999999999999"), many + ",1"}) {
        EXPECT_FALSE(parse_thresholds(bad.c_str(), values, &count, &why)) << bad;
        EXPECT_NE(std::string(why.text).find("at most 34, not '" + bad + "'"), std::string::npos);
    }
}

} // namespace
