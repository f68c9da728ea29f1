// SPDX-License-Identifier: MIT
// Ranks with the whole scene each: all have the same bits after each step, and those that have not are told.
#include "training_cloud.h"
#include "ways.h"

namespace {

struct whole_run {
    const cloud *c;
    bool differ;                            // one Gaussian of the last rank
    std::vector<std::vector<float>> *means; // of each rank, at the end
    int64_t steps;
};

bool train_on_rank(ranks *group, void *context) {
    const auto *const run = static_cast<const whole_run *>(context);
    const int own = ranks_own(group);
    training_state state;
    gs_gaussians host = run->c->host;
    std::vector<float> logits(host.opacity_logit, host.opacity_logit + host.count);
    if (run->differ && own == ranks_count(group) - 1) logits[7] += 1e-3f;
    host.opacity_logit = logits.data();
    const training_place place = {group, ranks_count(group) > 1 ? &whole_way : nullptr};
    EXPECT_TRUE(training_state_open_on(&state, &place, &host));
    training_state_open_exposures(&state, cloud::views_in_all);
    training_settings settings = cloud::settings(run->steps * 4);
    settings.policy = {DISTWAR_TREE, 0};
    settings.batch = 4;
    training_report report = {};
    fault why;
    const bool done = train_on(nullptr, &state, run->c->views.data(), run->c->views.size(), &settings,
                               nullptr, &report, &why);
    std::vector<float> &means = (*run->means)[size_t(own)];
    means.resize(3 * size_t(state.gaussians.count));
    if (done) device_download(means.data(), state.gaussians.mean, means.size() * sizeof(float));
    training_report_close(&report);
    training_state_close(&state);
    return done;
}

bool run_ranks(const cloud &c, int count, bool differ, std::vector<std::vector<float>> *means, fault *why) {
    whole_run run = {&c, differ, means, 5};
    ranks_plan plan = {};
    plan.count = count, plan.kind = RANKS_THREADS, plan.devices = 1;
    means->assign(size_t(count), {});
    return ranks_run(&plan, train_on_rank, &run, why);
}

TEST(WholeWay, AllHaveTheSameBits) {
    const cloud c;
    fault why;
    std::vector<std::vector<float>> one, means;
    ASSERT_TRUE(run_ranks(c, 1, false, &one, &why)) << why.text;
    for (const int count : {2, 3, 5}) { // the last: one has no view
        ASSERT_TRUE(run_ranks(c, count, false, &means, &why)) << why.text;
        for (int r = 1; r < count; r++) EXPECT_EQ(means[size_t(r)], means[0]) << r << " of " << count;
        double squares = 0, moved = 0;
        for (size_t i = 0; i < one[0].size(); i++) {
            squares += std::pow(double(one[0][i]) - double(means[0][i]), 2);
            moved += std::pow(double(one[0][i]) - double(c.host.mean[i]), 2);
        }
        EXPECT_LT(squares, 1e-4 * moved) << count;
    }
}

TEST(WholeWay, ThatDifferAreTold) {
    const cloud c;
    fault why;
    std::vector<std::vector<float>> means;
    EXPECT_FALSE(run_ranks(c, 2, true, &means, &why));
    EXPECT_NE(std::string(why.text).find("the scenes of ranks 0 and 1 differ after 20 views"),
              std::string::npos)
        << why.text;
}

TEST(WholeWay, IsForSmallScenesWithAViewForEach) {
    training_settings settings = {};
    settings.policy = {DISTWAR_TREE, 0};
    settings.batch = 3;
    settings.density.most_gaussians = 300000;
    EXPECT_EQ(way_of_ranks(&settings, 10, 1), nullptr);
    EXPECT_EQ(way_of_ranks(&settings, 10, 2), &whole_way);
    EXPECT_EQ(way_of_ranks(&settings, 10, 3), &whole_way);
    EXPECT_EQ(way_of_ranks(&settings, 10, 4), &parts_way);
    EXPECT_EQ(way_of_ranks(&settings, 2000000, 2), &whole_way);
    EXPECT_EQ(way_of_ranks(&settings, 2000001, 2), &parts_way);
    EXPECT_EQ(way_of_ranks(&settings, 2000000, 3), &parts_way);
    settings.policy.strategy = DISTWAR_FIXED;
    EXPECT_EQ(way_of_ranks(&settings, 10, 2), &parts_way);
    settings.policy.strategy = DISTWAR_TREE, settings.density.most_gaussians = 2000001;
    EXPECT_EQ(way_of_ranks(&settings, 10, 2), &parts_way);
}

} // namespace
