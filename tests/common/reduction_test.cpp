// SPDX-License-Identifier: MIT
#include "reduction.h"
#include <gtest/gtest.h>
#include <string>

namespace {

TEST(Reduction, NamesAreInTheirOrder) {
    EXPECT_STREQ(reduction_name(REDUCE_ATOMIC), "atomic");
    EXPECT_STREQ(reduction_name(REDUCE_FIXED), "fixed");
    EXPECT_EQ(reduction_name(REDUCTIONS), nullptr);
    for (const char *const *list : {reduction_names_and_all(), reduction_names_and_auto()}) {
        for (int i = 0; i < REDUCTIONS; i++) EXPECT_STREQ(list[i], reduction_name(reduction(i)));
        EXPECT_EQ(list[REDUCTIONS + 1], nullptr);
    }
    EXPECT_STREQ(reduction_names_and_all()[REDUCTIONS], "all");
    EXPECT_STREQ(reduction_names_and_auto()[REDUCTIONS], "auto");
}

TEST(Reduction, ThresholdsAreNumbersWithCommas) {
    int values[MAX_THRESHOLDS];
    size_t count;
    fault why;
    ASSERT_TRUE(parse_thresholds("0,8,33", values, &count, &why)) << why.text;
    EXPECT_EQ(count, 3u);
    EXPECT_EQ(values[0], 0);
    EXPECT_EQ(values[1], 8);
    EXPECT_EQ(values[2], 33);
    std::string many = "0";
    for (int i = 1; i < MAX_THRESHOLDS; i++) many += ",1";
    EXPECT_TRUE(parse_thresholds(many.c_str(), values, &count, &why));
    for (const std::string &bad : {std::string(), std::string("34"), std::string("-1"), std::string("1,"),
                                   std::string(",1"), std::string("1 2"), std::string("x"), std::string(" 1"),
                                   std::string("99999999999999999999"), many + ",1"}) {
        EXPECT_FALSE(parse_thresholds(bad.c_str(), values, &count, &why)) << bad;
        EXPECT_NE(std::string(why.text).find("--thresholds"), std::string::npos);
    }
}

} // namespace
