// SPDX-License-Identifier: MIT
// The list of strategies. Packaging.VersionForC reads it as C.
#include <distwar/strategy.h>
#include <gtest/gtest.h>
#include <set>
#include <string>

namespace {

using distwar::strategy;

// Names differ, and some have a threshold.
TEST(Strategy, HasANameAndMayHaveAThreshold) {
    const std::set<distwar_strategy> with = {DISTWAR_SERIAL, DISTWAR_BFLY, DISTWAR_TREE, DISTWAR_HOT,
                                             DISTWAR_FIXED};
    std::set<std::string> names;
    for (int i = 0; i < DISTWAR_STRATEGY_COUNT; i++) {
        const distwar_strategy one = distwar_strategy(i);
        const char *const name = distwar_strategy_name(one);
        ASSERT_NE(name, nullptr) << i;
        names.insert(name);
        EXPECT_EQ(distwar_strategy_has_threshold(one), int(with.count(one))) << i;
    }
    EXPECT_EQ(names.size(), size_t(DISTWAR_STRATEGY_COUNT));
    EXPECT_STREQ(distwar_strategy_name(DISTWAR_SERIAL), "serial");
    EXPECT_EQ(int(strategy::cub), DISTWAR_CUB);
}
TEST(Strategy, UnknownOnesHaveNeither) {
    for (const int unknown : {-1, int(DISTWAR_STRATEGY_COUNT)}) {
        EXPECT_EQ(distwar_strategy_name(distwar_strategy(unknown)), nullptr);
        EXPECT_EQ(distwar_strategy_has_threshold(distwar_strategy(unknown)), 0);
    }
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
