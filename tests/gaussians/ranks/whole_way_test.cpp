// SPDX-License-Identifier: MIT
// Ranks with the whole scene each: all have the same bits after each step, and those that have not are told.
#include "training_cloud.h"
#include "ways.h"
#include <tuple>

namespace {

struct whole_run {
    const cloud *c;
    bool differ; // one Gaussian of the last rank
};

bool train_on_rank(ranks *group, void *context) {
    const auto *const run = static_cast<const whole_run *>(context);
    gs_gaussians host = run->c->host;
    std::vector<float> logits(host.opacity_logit, host.opacity_logit + host.count);
    if (run->differ && ranks_own(group) == ranks_count(group) - 1) logits[7] += 1e-3f;
    host.opacity_logit = logits.data();
    trained one({group, &whole_way}, host, cloud::views_in_all);
    training_settings settings = cloud::settings(20);
    settings.policy = {DISTWAR_TREE, 0};
    settings.batch = 4;
    fault why;
    const std::vector<target_view> &views = run->c->views;
    return train_on(nullptr, &one.state, views.data(), views.size(), &settings, nullptr, &one.report, &why);
}

// That they have the numbers of one GPU: gpus_test.cpp.
TEST(WholeWay, AllHaveTheSameBitsOrAreTold) {
    const cloud c;
    const std::tuple<int, bool, std::string> cases[] = {
        {2, false, ""},
        {3, false, ""},
        {5, false, ""}, // one has no view
        {2, true, "the scenes of ranks 0 and 1 differ after 20 views"}};
    for (const auto &[count, differ, text] : cases) {
        whole_run run = {&c, differ};
        ranks_plan plan = {};
        plan.count = count, plan.kind = RANKS_THREADS, plan.devices = 1;
        fault why = {};
        EXPECT_EQ(ranks_run(&plan, train_on_rank, &run, &why), !differ) << why.text;
        EXPECT_NE(std::string(why.text).find(text), std::string::npos) << why.text;
    }
}

TEST(WholeWay, IsForSmallScenesWithAViewForEach) {
    // Strategy, the most Gaussians, those now, ranks.
    const std::tuple<distwar_strategy, int64_t, int64_t, int, const training_way *> rows[] = {
        {DISTWAR_TREE, 300000, 10, 1, nullptr},         {DISTWAR_TREE, 300000, 10, 2, &whole_way},
        {DISTWAR_TREE, 300000, 10, 3, &whole_way},      {DISTWAR_TREE, 300000, 10, 4, &parts_way},
        {DISTWAR_TREE, 300000, 2000000, 2, &whole_way}, {DISTWAR_TREE, 300000, 2000001, 2, &parts_way},
        {DISTWAR_TREE, 300000, 2000000, 3, &parts_way}, {DISTWAR_FIXED, 300000, 10, 2, &parts_way},
        {DISTWAR_TREE, 2000001, 10, 2, &parts_way}};
    for (const auto &[strategy, most, now, count, way] : rows) {
        training_settings settings = {};
        settings.policy.strategy = strategy, settings.batch = 3, settings.density.most_gaussians = most;
        EXPECT_EQ(way_of_ranks(&settings, now, count), way) << now << ", " << count;
    }
}

} // namespace
