// SPDX-License-Identifier: MIT
// What a training run does when: learning rates, SH degree, dropout, and the settings of density control, each against
// its schedule written out.
#include "plan.h"
#include "density/density_scene.h"
#include "trainer.h"
#include <algorithm>
#include <functional>
#include <tuple>

namespace {

training_settings plain_settings() {
    training_settings s = {};
    s.iterations = 7000;
    s.rates.mean = 3e-4f;
    s.final_mean_rate = 3e-6f;
    s.sh_interval = 1000;
    return s;
}

// Log-linear between the first step and the last of 7,000.
void expect_decay(double first, double last, const std::function<double(int64_t)> &at) {
    for (const int64_t step : {1, 2, 1000, 3500, 6999, 7000}) {
        const double progress = double(step - 1) / 6999,
                     expected = std::exp((1 - progress) * std::log(first) + progress * std::log(last));
        EXPECT_NEAR(at(step), expected, (step % 6999 == 1 ? 1e-7 : 1e-5) * expected) << step;
    }
}

TEST(Schedule, RatesAndWeightsDecayExponentiallyUnlessTheyStay) {
    training_settings s = plain_settings();
    expect_decay(3e-4, 3e-6, [&](int64_t step) { return scheduled_rates(&s, step, 0, 1).mean; });
    expect_decay(2, 0.02, [&](int64_t step) { return scheduled_weight(&s, 2, 0.01, step); });
    s.rates.shN = 5e-4f;
    for (const int64_t step : {1, 7000}) EXPECT_EQ(scheduled_rates(&s, step, 0, 1).shN, 5e-4f);
    s.final_sh_rest = 1.25e-4f;
    expect_decay(5e-4, 1.25e-4, [&](int64_t step) { return scheduled_rates(&s, step, 0, 1).shN; });
    s.rates.shN = 0;
    EXPECT_EQ(scheduled_rates(&s, 3500, 0, 1).shN, 0);
    s.iterations = 1;
    EXPECT_FLOAT_EQ(scheduled_rates(&s, 1, 0, 1).mean, 3e-4f);
}

TEST(Schedule, UsualRatesOfHarmonicsFollowViewsAndLength) {
    const std::pair<size_t, double> first[] = {{1, 1}, {25, 1}, {50, 2}, {100, 4}, {200, 8}, {1000, 8}};
    for (const auto &[views, rate] : first) EXPECT_EQ(default_sh_rate(views), rate) << views;
    const std::tuple<double, int64_t, double> last[] = {
        {4, 100, 4}, {4, 7000, 4}, {4, 14000, 2}, {4, 30000, 1}, {0.5, 30000, 0.5}};
    for (const auto &[rate, iterations, expected] : last)
        EXPECT_EQ(default_last_sh_rate(rate, iterations), expected) << iterations;
}

TEST(Schedule, RatesAndDropoutFollowViewsAndIterations) {
    const double half = std::sqrt(0.5), quarter = std::pow(0.3, 0.25);
    const std::tuple<size_t, int64_t, double> rates[] = {
        {1, 100, 1},       {1, 7000, 1},          {1, 14000, 0.5}, {20, 28000, 0.3},
        {30, 14000, half}, {35, 280000, quarter}, {40, 28000, 1},  {400, 28000, 1}};
    for (const auto &[views, iterations, part] : rates)
        EXPECT_NEAR(default_rate_part(views, iterations), part, 1e-15) << views << ", " << iterations;
    const std::tuple<size_t, int64_t, double> dropouts[] = {
        {1, 16, 0.2},    {20, 7000, 0.2},  {40, 16000, 0.1},          {40, 6400, 0},
        {100, 30000, 0}, {100, 300000, 0}, {50, 300000, 0.2 * 8 / 12}};
    for (const auto &[views, iterations, part] : dropouts)
        EXPECT_NEAR(default_dropout(views, iterations), part, 1e-15) << views << ", " << iterations;
}

TEST(Schedule, AveragesBeginAfterDensityControl) {
    training_settings s = plain_settings();
    const std::tuple<double, density_kind, int64_t, int64_t> rows[] = {
        // part, kind, until; from
        {0, DENSITY_NONE, 6500, 7000}, // no average
        {0.1, DENSITY_NONE, 6500, 6300},
        {0.1, DENSITY_SPLIT, 6500, 6500},
        {0.1, DENSITY_SPLIT, 6000, 6300},
        {1, DENSITY_SPLIT, 6000, 6000}};
    for (const auto &[part, kind, until, from] : rows) {
        s.average_part = part, s.density.kind = kind, s.density.until = until;
        EXPECT_EQ(average_from(&s), from) << part << ", " << until;
    }
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
    EXPECT_EQ(std::tie(a.from, a.until, a.every), std::make_tuple(500, 15000, 100));
    EXPECT_EQ(std::tie(a.adaptive.gradient_threshold, a.adaptive.split_size, a.adaptive.most_size,
                       a.adaptive.split_factor, a.least_opacity),
              std::make_tuple(2e-4, 0.01, 0.1, 1.6, 0.005));
    EXPECT_EQ(std::tie(a.adaptive.reset_every, a.adaptive.reset_opacity, a.extent),
              std::make_tuple(3000, 0.01, 2.5));
    options.kind = DENSITY_MCMC;
    const density_settings m = density_settings_from(&options, &plain_data, 30000);
    EXPECT_EQ(std::tie(m.until, m.most_gaussians), std::make_tuple(25000, 300000));
    // The noise is published for extents of about 5.
    EXPECT_EQ(std::tie(m.mcmc.noise, m.mcmc.opacity_weight, m.mcmc.scale_weight),
              std::make_tuple(4 * 5e5, 0.01, 2 * 0.01));
    EXPECT_EQ(density_settings_from(&options, &plain_data, 7000).until, 5833);
    options.until = 123;
    EXPECT_EQ(density_settings_from(&options, &plain_data, 7000).until, 123);
}

TEST(Schedule, DepthCountsInTheScenesUnitOfLength) {
    const training_settings choices = training_settings_default();
    target_view view = {};
    view.camera.width = view.camera.height = 100;
    for (double extent : {5.0, 0.05}) {
        const training_data data = {&view, 1, extent, 0, false};
        const training_settings s = training_settings_from(&choices, &data, 7000);
        EXPECT_DOUBLE_EQ(s.weights[TERM_depth], extent / 5);
    }
}

TEST(Schedule, ManyViewsRetireWhatIsOfNoUse) {
    const std::pair<size_t, double> parts[] = {{1, 0}, {20, 0}, {30, 0.08}, {40, 0.16}, {4000, 0.16}};
    for (const auto &[views, part] : parts) EXPECT_NEAR(default_retired(views), part, 1e-15) << views;
    // part, every: as given; negative, 0: automatic.
    const std::tuple<density_kind, size_t, double, double, int64_t, int64_t> rows[] = {
        {DENSITY_NONE, 100, -1, 0, 0, 1000},    {DENSITY_ADAPTIVE, 100, -1, 0, 0, 1000},
        {DENSITY_MCMC, 100, -1, 0.16, 0, 1000}, {DENSITY_SPLIT, 100, -1, 0.16, 0, 1000},
        {DENSITY_SPLIT, 20, -1, 0, 0, 1000},    {DENSITY_SPLIT, 20, 0.2, 0.2, 0, 1000},
        {DENSITY_SPLIT, 100, 0, 0, 0, 1000},    {DENSITY_SPLIT, 220, 0, 0, 0, 2200},
        {DENSITY_SPLIT, 220, 0, 0, 300, 300}};
    for (const auto &[kind, views, given, part, given_every, every] : rows) {
        density_settings options = density_settings_default();
        options.kind = kind, options.retired = given, options.retire_every = given_every;
        training_data data = plain_data;
        data.count = views;
        const density_settings got = density_settings_from(&options, &data, 7000);
        EXPECT_EQ(got.retired, part) << kind << ", " << views;
        EXPECT_EQ(got.retire_every, every) << kind << ", " << views;
    }
}

TEST(Schedule, TheDataDecidesMethodAndLimitUnlessTheyAreGiven) {
    const std::tuple<bool, int, int, int64_t, int64_t, int64_t> rows[] = {
        {false, DENSITY_AUTO, DENSITY_SPLIT, 40000000, 0, 300000},
        {true, DENSITY_AUTO, DENSITY_MCMC, 40000000, 0, 300000},
        {true, DENSITY_SPLIT, DENSITY_SPLIT, 13000050, 0, 130000},
        {true, DENSITY_SPLIT, DENSITY_SPLIT, 0, 0, 1},
        {true, DENSITY_SPLIT, DENSITY_SPLIT, 0, 7, 7}};
    for (const auto &[everywhere, given, kind, pixels, given_most, most] : rows) {
        density_settings options = density_settings_default();
        options.kind = given, options.most_gaussians = given_most;
        const training_data data = {nullptr, 100, 2.5, pixels, everywhere};
        const density_settings got = density_settings_from(&options, &data, 7000);
        EXPECT_EQ(got.kind, kind) << pixels;
        EXPECT_EQ(got.most_gaussians, most) << pixels;
    }
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
    const std::tuple<size_t, double, int64_t> rows[] = {
        {300, 1250, 150000}, {300, 2500, 300000}, {300, 30000, 300000}, {300, 60000, 600000},
        {300, 1e9, 1000000}, {1, 60000, 300000},  {100, 60000, 300000}, {120, 60000, 420000}};
    for (const auto &[views, steps, most] : rows)
        EXPECT_EQ(default_limit_of_budget(100000000, views, steps), most) << views << ", " << steps;
    EXPECT_EQ(default_limit_of_budget(12000000, 300, 60000), 120000) << "one for 100 pixels";
    EXPECT_EQ(default_limit_of_budget(0, 1, 0), 1);
}

TEST(Schedule, TimeAheadFollowsTheGaussiansToCome) {
    density_settings s = {};
    s.kind = DENSITY_SPLIT;
    s.from = 500, s.until = 5500, s.every = 100, s.most_gaussians = 300000;
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
    const std::tuple<density_kind, bool, int64_t, bool> rows[] = {
        {DENSITY_SPLIT, false, 7000, true},    {DENSITY_MCMC, false, 7000, true},
        {DENSITY_MCMC, true, 7000, false},     {DENSITY_MCMC, false, 720, false}, // ends before step 600
        {DENSITY_MCMC, false, 722, true}, // acts at step 600, before 601
        {DENSITY_ADAPTIVE, false, 7000, false}};
    for (const auto &[kind, everywhere, iterations, small] : rows) {
        density_settings options = density_settings_default();
        options.kind = kind;
        const training_data data = {nullptr, 100, 1, 0, everywhere};
        double opacity, size;
        density_start(&options, &data, iterations, &opacity, &size);
        EXPECT_EQ(opacity, small ? 0.5 : 0.1) << kind << ", " << iterations;
        EXPECT_EQ(size, small ? 0.1 : 1) << kind << ", " << iterations;
    }
}

} // namespace
