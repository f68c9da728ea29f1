// SPDX-License-Identifier: MIT
// What a training run does when: learning rates, SH degree, dropout, and the settings of density control, each against
// its schedule written out.
#include "plan.h"
#include "density.h"
#include "density/density_scene.h"
#include "trainer.h"
#include <algorithm>

namespace {

training_settings plain_settings() {
    training_settings s = {};
    s.iterations = 7000;
    s.rates.mean = 3e-4f;
    s.final_mean_rate = 3e-6f;
    s.sh_interval = 1000;
    return s;
}

TEST(Schedule, RateOfMeansDecaysExponentially) {
    const training_settings s = plain_settings();
    EXPECT_FLOAT_EQ(scheduled_rates(&s, 1, 0, 1).mean, 3e-4f);
    EXPECT_FLOAT_EQ(scheduled_rates(&s, 7000, 0, 1).mean, 3e-6f);
    for (int64_t step : {2, 1000, 3500, 6999}) { // log-linear between the ends
        const double progress = double(step - 1) / 6999;
        const double expected = std::exp((1 - progress) * std::log(3e-4) + progress * std::log(3e-6));
        EXPECT_NEAR(scheduled_rates(&s, step, 0, 1).mean, expected, 1e-5 * expected) << step;
    }
    training_settings one = s;
    one.iterations = 1;
    EXPECT_FLOAT_EQ(scheduled_rates(&one, 1, 0, 1).mean, 3e-4f);
}

TEST(Schedule, RateOfHarmonicsDecaysExponentiallyUnlessItStays) {
    training_settings s = plain_settings();
    s.rates.shN = 5e-4f;
    EXPECT_EQ(scheduled_rates(&s, 1, 0, 1).shN, 5e-4f);
    EXPECT_EQ(scheduled_rates(&s, 7000, 0, 1).shN, 5e-4f);
    s.final_sh_rest = 1.25e-4f;
    EXPECT_FLOAT_EQ(scheduled_rates(&s, 1, 0, 1).shN, 5e-4f);
    EXPECT_FLOAT_EQ(scheduled_rates(&s, 7000, 0, 1).shN, 1.25e-4f);
    for (int64_t step : {2, 1000, 3500, 6999}) {
        const double expected = 5e-4 * std::exp(double(step - 1) / 6999 * std::log(0.25));
        EXPECT_NEAR(scheduled_rates(&s, step, 0, 1).shN, expected, 1e-5 * expected) << step;
    }
    s.rates.shN = 0;
    EXPECT_EQ(scheduled_rates(&s, 3500, 0, 1).shN, 0);
}

TEST(Schedule, UsualRatesOfHarmonicsFollowViewsAndLength) {
    EXPECT_EQ(default_sh_rate(1), 1);
    EXPECT_EQ(default_sh_rate(25), 1);
    EXPECT_EQ(default_sh_rate(50), 2);
    EXPECT_EQ(default_sh_rate(100), 4);
    EXPECT_EQ(default_sh_rate(200), 8);
    EXPECT_EQ(default_sh_rate(1000), 8);
    EXPECT_EQ(default_last_sh_rate(4, 100), 4);
    EXPECT_EQ(default_last_sh_rate(4, 7000), 4);
    EXPECT_EQ(default_last_sh_rate(4, 14000), 2);
    EXPECT_EQ(default_last_sh_rate(4, 30000), 1);
    EXPECT_EQ(default_last_sh_rate(0.5, 30000), 0.5);
}

TEST(Schedule, RatesAndDropoutFollowViewsAndIterations) {
    for (const int64_t iterations : {100, 7000}) EXPECT_EQ(default_rate_part(1, iterations), 1);
    EXPECT_NEAR(default_rate_part(1, 14000), 0.5, 1e-15);
    EXPECT_NEAR(default_rate_part(20, 28000), 0.3, 1e-15);
    EXPECT_NEAR(default_rate_part(30, 14000), std::sqrt(0.5), 1e-15);
    EXPECT_NEAR(default_rate_part(35, 280000), std::pow(0.3, 0.25), 1e-15);
    for (const size_t views : {40, 400}) EXPECT_EQ(default_rate_part(views, 28000), 1);
    EXPECT_EQ(default_dropout(1, 16), 0.2);
    EXPECT_EQ(default_dropout(20, 7000), 0.2);
    EXPECT_NEAR(default_dropout(40, 16000), 0.1, 1e-15);
    EXPECT_NEAR(default_dropout(40, 6400), 0, 1e-15);
    EXPECT_EQ(default_dropout(100, 30000), 0);
    EXPECT_EQ(default_dropout(100, 300000), 0);
    EXPECT_NEAR(default_dropout(50, 300000), 0.2 * 8 / 12, 1e-15);
}

TEST(Schedule, WeightsDecayExponentially) {
    training_settings s = plain_settings();
    const loss_weight depth = {1, 0.01};
    EXPECT_DOUBLE_EQ(scheduled_weight(&s, &depth, 1), 1);
    EXPECT_DOUBLE_EQ(scheduled_weight(&s, &depth, 7000), 0.01);
    for (int64_t step : {2, 1000, 3500, 6999}) {
        const double expected = std::exp(double(step - 1) / 6999 * std::log(0.01));
        EXPECT_NEAR(scheduled_weight(&s, &depth, step), expected, 1e-5 * expected) << step;
    }
}

TEST(Schedule, AveragesBeginAfterDensityControl) {
    training_settings s = plain_settings();
    s.density.kind = DENSITY_NONE;
    s.density.until = 6500;
    EXPECT_EQ(average_from(&s), 7000); // no average
    s.average_part = 0.1;
    EXPECT_EQ(average_from(&s), 6300);
    s.density.kind = DENSITY_SPLIT;
    EXPECT_EQ(average_from(&s), 6500);
    s.density.until = 6000;
    EXPECT_EQ(average_from(&s), 6300);
    s.average_part = 1;
    EXPECT_EQ(average_from(&s), 6000);
    for (int64_t iteration = 5990; iteration < 6020; iteration++)
        EXPECT_EQ(average_is_due(&s, iteration - 1, iteration), iteration > 6000 && iteration % 5 == 0)
            << iteration;
    EXPECT_TRUE(average_is_due(&s, 6004, 6007)); // 6005, 6006, 6007
    EXPECT_FALSE(average_is_due(&s, 6006, 6009));
}

TEST(Schedule, ShDegreeRisesEveryInterval) {
    training_settings s = plain_settings();
    const int64_t steps[] = {1, 1000, 1001, 2000, 2001, 3000, 3001, 7000};
    const int degrees[] = {0, 0, 1, 1, 2, 2, 3, 3};
    for (int i = 0; i < 8; i++) {
        EXPECT_EQ(scheduled_sh_degree(&s, 3, steps[i]), degrees[i]) << steps[i];
        EXPECT_EQ(scheduled_sh_degree(&s, 1, steps[i]), std::min(degrees[i], 1)) << steps[i];
    }
    s.sh_interval = 0;
    EXPECT_EQ(scheduled_sh_degree(&s, 3, 1), 3);
}

const training_data plain_data = {nullptr, 100, 2.5, 40000000, false};

TEST(Schedule, DefaultsAreThePublishedOnes) {
    density_settings options = density_settings_default();
    options.kind = DENSITY_ADAPTIVE;
    const density_settings a = density_settings_from(&options, &plain_data, 30000);
    EXPECT_EQ(a.from, 500);
    EXPECT_EQ(a.until, 15000);
    EXPECT_EQ(a.every, 100);
    EXPECT_EQ(a.adaptive.gradient_threshold, 2e-4);
    EXPECT_EQ(a.adaptive.split_size, 0.01);
    EXPECT_EQ(a.adaptive.most_size, 0.1);
    EXPECT_EQ(a.adaptive.split_factor, 1.6);
    EXPECT_EQ(a.least_opacity, 0.005);
    EXPECT_EQ(a.adaptive.reset_every, 3000);
    EXPECT_EQ(a.adaptive.reset_opacity, 0.01);
    EXPECT_EQ(a.extent, 2.5);
    options.kind = DENSITY_MCMC;
    const density_settings m = density_settings_from(&options, &plain_data, 30000);
    EXPECT_EQ(m.until, 25000);
    EXPECT_EQ(m.most_gaussians, 300000);
    EXPECT_EQ(m.growth, 0.05);
    EXPECT_EQ(m.mcmc.noise, 4 * 5e5); // published for extents of about 5
    EXPECT_EQ(m.mcmc.opacity_weight, 0.01);
    EXPECT_EQ(m.mcmc.scale_weight, 2 * 0.01);
    EXPECT_EQ(density_settings_from(&options, &plain_data, 7000).until, 5833);
    options.until = 123;
    EXPECT_EQ(density_settings_from(&options, &plain_data, 7000).until, 123);
}

TEST(Schedule, DepthCountsInTheScenesUnitOfLength) {
    const training_choices choices = training_choices_default();
    target_view view = {};
    view.camera.width = view.camera.height = 100;
    for (double extent : {5.0, 0.05}) {
        const training_data data = {&view, 1, extent, 0, false};
        const training_settings s = training_settings_from(&choices, &data, 7000);
        EXPECT_DOUBLE_EQ(s.weights.depth.first, extent / 5);
        EXPECT_DOUBLE_EQ(s.weights.depth.last, 0.01 * extent / 5);
    }
}

TEST(Schedule, ManyViewsRetireWhatIsOfNoUse) {
    EXPECT_EQ(default_retired(1), 0);
    EXPECT_EQ(default_retired(20), 0);
    EXPECT_NEAR(default_retired(30), 0.08, 1e-15);
    EXPECT_EQ(default_retired(40), 0.16);
    EXPECT_EQ(default_retired(4000), 0.16);
    density_settings options = density_settings_default();
    training_data data = plain_data;
    for (const int kind : {DENSITY_NONE, DENSITY_ADAPTIVE, DENSITY_MCMC, DENSITY_SPLIT}) {
        options.kind = kind;
        const bool refills = kind == DENSITY_MCMC || kind == DENSITY_SPLIT;
        EXPECT_EQ(density_settings_from(&options, &data, 7000).retired, refills ? 0.16 : 0) << kind;
    }
    data.count = 20;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).retired, 0);
    options.retired = 0.2;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).retired, 0.2);
    data.count = 100, options.retired = 0;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).retired, 0);
    EXPECT_EQ(density_settings_from(&options, &data, 7000).retire_every, 1000);
    data.count = 220;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).retire_every, 2200);
    options.retire_every = 300;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).retire_every, 300);
}

TEST(Schedule, TheDataDecidesMethodAndLimitUnlessTheyAreGiven) {
    density_settings options = density_settings_default();
    training_data data = plain_data;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).kind, DENSITY_SPLIT);
    data.everywhere = true;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).kind, DENSITY_MCMC);
    options.kind = DENSITY_SPLIT;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).kind, DENSITY_SPLIT);
    EXPECT_EQ(density_settings_from(&options, &data, 7000).most_gaussians, 300000);
    data.pixels = 13000050;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).most_gaussians, 130000);
    data.pixels = 0;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).most_gaussians, 1);
    options.most_gaussians = 7;
    EXPECT_EQ(density_settings_from(&options, &data, 7000).most_gaussians, 7);
}

TEST(Schedule, SplitsAreDrawnByAbsoluteGradientsWhileDensityControlActs) {
    density_settings settings = {};
    settings.until = 100;
    for (int kind = 0; kind < DENSITY_KINDS; kind++) {
        settings.kind = kind;
        const screen_gradient sums = kind == DENSITY_SPLIT      ? SCREEN_ABSOLUTE
                                     : kind == DENSITY_ADAPTIVE ? SCREEN_SIGNED
                                                                : SCREEN_NONE;
        EXPECT_EQ(density_sums_at(&settings, 99), sums) << kind;
        EXPECT_EQ(density_sums_at(&settings, 100), SCREEN_NONE) << kind;
    }
}

TEST(Schedule, DropoutGrowsWithTheSteps) {
    training_settings settings = plain_settings();
    settings.dropout = 0.5;
    const host_gaussians host = random_gaussians(1, 4000, 0);
    const device_set device(host);
    const gs_gaussians all = device.get();
    device_buffer logits = {};
    for (const int64_t step : {1, 3500, 7000}) {
        const gs_gaussians got = gaussians_of_step(&settings, &all, step, step - 1, 0, &logits);
        EXPECT_EQ(got.mean, all.mean);
        EXPECT_EQ(got.opacity_logit == all.opacity_logit, step == 1);
        std::vector<float> values(4000);
        device_download(values.data(), got.opacity_logit, values.size() * sizeof(float));
        const double share = 0.5 * double(step - 1) / 6999;
        const auto out = std::count_if(values.begin(), values.end(), [](float v) { return v <= -20; });
        EXPECT_NEAR(double(out), 4000 * share, 5 * std::sqrt(4000 * share * (1 - share))) << step;
    }
    device_buffer_close(&logits);
}

TEST(Schedule, ABudgetOfLittleTimeHasFewGaussiansAndOneOfMuchHasMore) {
    const int64_t many = 100000000;
    EXPECT_EQ(default_limit_of_budget(many, 300, 1250), 150000);
    EXPECT_EQ(default_limit_of_budget(many, 300, 2500), 300000);
    EXPECT_EQ(default_limit_of_budget(many, 300, 30000), 300000);
    EXPECT_EQ(default_limit_of_budget(many, 300, 60000), 600000);
    EXPECT_EQ(default_limit_of_budget(many, 300, 1e9), 1000000);
    for (const size_t views : {1, 100}) EXPECT_EQ(default_limit_of_budget(many, views, 60000), 300000);
    EXPECT_EQ(default_limit_of_budget(many, 120, 60000), 420000);
    EXPECT_EQ(default_limit_of_budget(12000000, 300, 60000), 120000); // one for 100 pixels
    EXPECT_EQ(default_limit_of_budget(0, 1, 0), 1);
}

TEST(Schedule, TimeAheadFollowsTheGaussiansToCome) {
    density_settings s = {};
    s.kind = DENSITY_SPLIT;
    s.from = 500, s.until = 5500, s.every = 100, s.most_gaussians = 300000, s.growth = 0.05;
    EXPECT_EQ(density_time_ahead(&s, 7000, 300000, 1000), 1);
    EXPECT_EQ(density_time_ahead(&s, 7000, 500000, 1000), 1);
    EXPECT_EQ(density_time_ahead(&s, 7000, 100000, 5500), 1);
    const double full = std::pow(3, 0.6);
    EXPECT_NEAR(density_time_ahead(&s, 7000, 100000, 4250), full, 1e-12); // all of them at once
    for (const int64_t at : {0, 1000, 4100}) { // the mean over steps that are counted one by one
        double sum = 0;
        for (int64_t step = at; step < 7000; step++)
            sum += std::pow(full, std::min(1.0, (double(step - at) + 0.5) / double(4250 - at)));
        EXPECT_NEAR(density_time_ahead(&s, 7000, 100000, at), sum / double(7000 - at), 1e-5) << at;
    }
    s.until = 20000; // the run ends first
    EXPECT_NEAR(density_time_ahead(&s, 2000, 100000, 1000), (full - 1) / std::log(full), 1e-12);
    s.kind = DENSITY_ADAPTIVE;
    EXPECT_EQ(density_time_ahead(&s, 7000, 100000, 1000), 1);
}

// The published start of MCMC where Gaussians have neighbours to lean on, a large one where they are everywhere
// or stay as they are.
TEST(Schedule, StartIsSmallAndHalfOpaqueUnderALimitButNotEverywhere) {
    density_settings options = density_settings_default();
    const training_data here = {nullptr, 100, 1, 0, false}, everywhere = {nullptr, 100, 1, 0, true};
    double opacity, size;
    for (const density_kind kind : {DENSITY_SPLIT, DENSITY_MCMC}) {
        options.kind = kind;
        density_start(&options, &plain_data, 7000, &opacity, &size);
        EXPECT_EQ(opacity, 0.5);
        EXPECT_EQ(size, 0.1);
    }
    density_start(&options, &everywhere, 7000, &opacity, &size);
    EXPECT_EQ(opacity, 0.1);
    EXPECT_EQ(size, 1);
    density_start(&options, &here, 720, &opacity, &size); // ends before step 600
    EXPECT_EQ(opacity, 0.1);
    EXPECT_EQ(size, 1);
    density_start(&options, &here, 722, &opacity, &size); // acts at step 600, before 601
    EXPECT_EQ(opacity, 0.5);
    EXPECT_EQ(size, 0.1);
    options.kind = DENSITY_ADAPTIVE;
    density_start(&options, &plain_data, 7000, &opacity, &size);
    EXPECT_EQ(opacity, 0.1);
    EXPECT_EQ(size, 1);
}

} // namespace
