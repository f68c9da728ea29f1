// SPDX-License-Identifier: MIT
// Ranks with the whole scene each: all have the same bits after each step, and those that have not are told.
#include "training_cloud.h"
#include "ways.h"

namespace {

struct whole_run {
    const cloud *c;
    bool differ = false;                     // one Gaussian of the last rank
    std::vector<std::vector<float>> means{}; // of each rank, at the end
    fault why = {};
    bool on(int ranks);
};

bool train_on_rank(ranks *group, void *context) {
    auto *const run = static_cast<whole_run *>(context);
    const int own = ranks_own(group);
    gs_gaussians host = run->c->host;
    std::vector<float> logits(host.opacity_logit, host.opacity_logit + host.count);
    if (run->differ && own == ranks_count(group) - 1) logits[7] += 1e-3f;
    host.opacity_logit = logits.data();
    trained one({group, ranks_count(group) > 1 ? &whole_way : nullptr}, host, cloud::views_in_all);
    training_settings settings = cloud::settings(20);
    settings.policy = {DISTWAR_TREE, 0};
    settings.batch = 4;
    fault why;
    const std::vector<target_view> &views = run->c->views;
    if (!train_on(nullptr, &one.state, views.data(), views.size(), &settings, nullptr, &one.report, &why))
        return false;
    std::vector<float> &means = run->means[size_t(own)];
    means.resize(3 * size_t(one.state.gaussians.count));
    device_download(means.data(), one.state.gaussians.mean, means.size() * sizeof(float));
    return true;
}

bool whole_run::on(int ranks) {
    ranks_plan plan = {};
    plan.count = ranks, plan.kind = RANKS_THREADS, plan.devices = 1;
    means.assign(size_t(ranks), {});
    return ranks_run(&plan, train_on_rank, this, &why);
}

TEST(WholeWay, AllHaveTheSameBitsOrAreTold) {
    const cloud c;
    whole_run one{&c}, run{&c};
    ASSERT_TRUE(one.on(1)) << one.why.text;
    for (const int count : {2, 3, 5}) { // the last: one has no view
        ASSERT_TRUE(run.on(count)) << run.why.text;
        for (int r = 1; r < count; r++) EXPECT_EQ(run.means[size_t(r)], run.means[0]) << r << " of " << count;
        double squares = 0, moved = 0;
        for (size_t i = 0; i < one.means[0].size(); i++) {
            squares += std::pow(double(one.means[0][i]) - double(run.means[0][i]), 2);
            moved += std::pow(double(one.means[0][i]) - double(c.host.mean[i]), 2);
        }
        EXPECT_LT(squares, 1e-4 * moved) << count;
    }
    run.differ = true;
    EXPECT_FALSE(run.on(2));
    EXPECT_NE(std::string(run.why.text).find("the scenes of ranks 0 and 1 differ after 20 views"),
              std::string::npos)
        << run.why.text;
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
