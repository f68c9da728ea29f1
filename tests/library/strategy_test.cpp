// SPDX-License-Identifier: MIT
// The list of strategies in C++, and as a C file sees it (strategy_list.c).
#include <distwar/strategy.h>
#include <gtest/gtest.h>
#include <set>
#include <string>

extern "C" int c_strategy(int strategy, const char **name, int *of_name, int *has_threshold);

namespace {

using distwar::strategy;

TEST(Strategy, NamesRoundTrip) {
    std::set<std::string> names;
    for (int i = 0; i < DISTWAR_STRATEGY_COUNT; i++) {
        const char *name = distwar_strategy_name(distwar_strategy(i));
        ASSERT_NE(name, nullptr) << i;
        names.insert(name);
        EXPECT_EQ(distwar_strategy_from_name(name), i);
    }
    EXPECT_EQ(names.size(), size_t(DISTWAR_STRATEGY_COUNT));
    EXPECT_EQ(distwar_strategy_from_name("serial"), DISTWAR_SERIAL);
}

TEST(Strategy, UnknownOnesHaveNoName) {
    EXPECT_EQ(distwar_strategy_name(DISTWAR_STRATEGY_COUNT), nullptr);
    EXPECT_EQ(distwar_strategy_name(distwar_strategy(-1)), nullptr);
    for (const char *unknown : {"", "Tree", "tree ", "all", "auto"})
        EXPECT_EQ(distwar_strategy_from_name(unknown), -1) << unknown;
    EXPECT_EQ(distwar_strategy_from_name(nullptr), -1);
}

TEST(Strategy, SomeHaveAThreshold) {
    const std::set<distwar_strategy> with = {DISTWAR_SERIAL, DISTWAR_BFLY, DISTWAR_TREE, DISTWAR_HOT,
                                             DISTWAR_FIXED};
    for (int i = -1; i <= DISTWAR_STRATEGY_COUNT; i++)
        EXPECT_EQ(distwar_strategy_has_threshold(distwar_strategy(i)), int(with.count(distwar_strategy(i))))
            << i;
}

TEST(Strategy, IsTheSameInCAndInCpp) {
    for (int i = 0; i < DISTWAR_STRATEGY_COUNT; i++) {
        const char *name;
        int of_name, has_threshold;
        ASSERT_EQ(c_strategy(i, &name, &of_name, &has_threshold), DISTWAR_STRATEGY_COUNT);
        EXPECT_STREQ(name, distwar_strategy_name(distwar_strategy(i)));
        EXPECT_EQ(of_name, i);
        EXPECT_EQ(has_threshold, distwar_strategy_has_threshold(distwar_strategy(i)));
    }
    EXPECT_EQ(int(strategy::atomic), DISTWAR_ATOMIC);
    EXPECT_EQ(int(strategy::fixed), DISTWAR_FIXED);
    EXPECT_EQ(int(strategy::cub), DISTWAR_CUB);
}

template <strategy Chosen>
int number_of() {
    return int(Chosen);
}
TEST(WithStrategy, CallsTheBodyOfTheStrategy) {
    const auto name = [](auto known) { return number_of<known>(); };
    for (const strategy chosen : {strategy::atomic, strategy::serial, strategy::bfly, strategy::tree})
        EXPECT_EQ(distwar::with_strategy(chosen, name), int(chosen));
    // In any order, with strategies that reduce<> does not know.
    for (const strategy chosen : {strategy::block, strategy::atomic, strategy::fixed})
        EXPECT_EQ((distwar::with_strategy<strategy::block, strategy::atomic, strategy::fixed>(chosen, name)),
                  int(chosen));
    // The last for a strategy that is not offered.
    EXPECT_EQ(distwar::with_strategy(strategy::cub, name), int(strategy::tree));
    EXPECT_EQ((distwar::with_strategy<strategy::tree, strategy::serial>(strategy::atomic, name)),
              int(strategy::serial));
}

} // namespace
