// SPDX-License-Identifier: MIT
// What a training run does when: learning rates, SH degree, dropout, the settings of density control; when density control
// acts, by steps on Gaussians alone; which Gaussians are retired; the pace of a budget; when learning is over.
#include "plan.h"
#include "density/density_scene.h"
#include "training_cloud.h"
#include <algorithm>
#include <functional>
#include <tuple>

namespace schedule_test {

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

density_settings options_of(int kind) {
    density_settings options = training_settings_default().density;
    options.kind = kind;
    return options;
}

TEST(Schedule, DefaultsAreThePublishedOnes) {
    density_settings options = options_of(DENSITY_ADAPTIVE);
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
        density_settings options = options_of(kind);
        options.retired = given, options.retire_every = given_every;
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
        density_settings options = options_of(given);
        options.most_gaussians = given_most;
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
    const cloud c(4000, 16, 16);
    trained one(c);
    const gs_gaussians &all = one.state.gaussians;
    trainer t = {};
    t.state = &one.state, t.settings = &settings;
    for (const int64_t step : {1, 3500, 7000}) {
        step_views of = {};
        of.first = step - 1, of.at = step;
        const gs_gaussians got = trainer_gaussians(&t, &of);
        EXPECT_EQ(got.mean, all.mean);
        EXPECT_EQ(got.opacity_logit == all.opacity_logit, step == 1);
        const auto values = downloaded(got.opacity_logit, 4000);
        const double share = 0.5 * double(step - 1) / 6999;
        const auto out = std::count_if(values.begin(), values.end(), [](float v) { return v <= -20; });
        EXPECT_NEAR(double(out), 4000 * share, 5 * std::sqrt(4000 * share * (1 - share))) << step;
    }
    device_buffer_close(&t.logits);
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
        const density_settings options = options_of(kind);
        const training_data data = {nullptr, 100, 1, 0, everywhere};
        double opacity, size;
        density_start(&options, &data, iterations, &opacity, &size);
        EXPECT_EQ(opacity, small ? 0.5 : 0.1) << kind << ", " << iterations;
        EXPECT_EQ(size, small ? 0.1 : 1) << kind << ", " << iterations;
    }
}

// ---- when density control acts, against its schedule written out

void fill(float *array, int64_t count, float value) {
    device_upload(array, std::vector<float>(size_t(count), value).data(), size_t(count) * sizeof(float));
}

std::vector<float> read(const float *array, int64_t count) {
    return downloaded(array, size_t(count));
}

// Half opaque Gaussians, a thousandth wide, and a view that sees everyone and whose gradients are all `gradient`, or 0.
class run : public cloud {
  public:
    run(int64_t count, float gradient) : cloud(count, 16, 16), gradient(gradient), one(*this) {
        fill(state.gaussians.opacity_logit, count, 0);
        fill(state.gaussians.log_scale, 3 * count, float(std::log(1e-3)));
        t.state = &state, t.settings = &t.fitted;
    }

    // Step number `step` and what density control makes of it.
    void step_to(const density_settings &settings, int64_t step) {
        const size_t count = size_t(state.gaussians.count);
        gs_splat seen = {};
        seen.mean[0] = seen.mean[1] = 50;
        seen.conic_sqrt[0] = seen.conic_sqrt[2] = 0.3f;
        seen.depth = 1;
        std::vector<float> gradients(2 * count);
        for (size_t i = 0; i < count; i += 4) gradients[2 * i] = gradient;
        const device_vector<gs_splat> splats(std::vector<gs_splat>(count, seen));
        const device_vector<float> mean2d(gradients);
        gs_view view = {};
        view.camera.width = view.camera.height = 100;
        view.gaussians.count = int64_t(count), view.splats = splats.data();
        state.place = {};
        state.place.views = state.place.at = step, state.place.before = step - 1;
        t.fitted.density = settings, t.fitted.seed = 5, t.mean_rate = 1e-4f;
        density_sum(&t, &view, mean2d.data());
        EXPECT_TRUE(density_after_adam(&t)) << ranks_error(group);
    }

    const float gradient;
    trained one;
    training_state &state = one.state;
    trainer t = {};
};

density_settings settings_of(density_kind kind, int64_t iterations, int64_t most_gaussians = 1000000) {
    density_settings options = options_of(kind);
    options.most_gaussians = most_gaussians;
    const training_data data = {nullptr, 100, 1, 0, false};
    return density_settings_from(&options, &data, iterations);
}

// Every fourth has a large gradient, and is cloned whenever density control acts.
TEST(Schedule, AdaptiveControlActsWhenItShould) {
    density_settings settings = settings_of(DENSITY_ADAPTIVE, 2000); // until 1000
    settings.adaptive.reset_every = 0;
    run r(20, 1);
    int64_t expected = 20;
    for (int64_t step = 100; step <= 1200; step += 50) {
        for (const gs_gaussians *m : {&r.state.first_moment, &r.state.second_moment})
            fill(m->opacity_logit, m->count, 1);
        r.step_to(settings, step);
        const bool acts = step > 500 && step < 1000 && step % 100 == 0;
        const int64_t newborns = acts ? (expected + 3) / 4 : 0;
        expected += newborns;
        ASSERT_EQ(r.state.gaussians.count, expected) << step;
        EXPECT_EQ(r.state.gradients.count, expected);
        for (const gs_gaussians *m : {&r.state.first_moment, &r.state.second_moment}) {
            ASSERT_EQ(m->count, expected);
            const auto moved = read(m->opacity_logit, expected);
            EXPECT_EQ(std::count(moved.begin(), moved.end(), 0.0f), newborns);
            EXPECT_EQ(std::count(moved.begin(), moved.end(), 1.0f), expected - newborns);
        }
        for (const float sum : read(r.state.density, acts ? 2 * expected : 0)) ASSERT_EQ(sum, 0);
    }
    EXPECT_GT(expected, 40);
}

TEST(Schedule, OpacitiesAreResetEveryIntervalBeforeTheEnd) {
    density_settings settings = settings_of(DENSITY_ADAPTIVE, 2000); // until 1000
    settings.adaptive.reset_every = 300;
    run r(20, 0);
    for (int64_t step = 100; step <= 1500; step += 100) {
        fill(r.state.gaussians.opacity_logit, 20, 1);
        r.step_to(settings, step);
        ASSERT_EQ(r.state.gaussians.count, 20);
        const bool resets = step % 300 == 0 && step < 1000;
        for (const float logit : read(r.state.gaussians.opacity_logit, 20))
            ASSERT_NEAR(logit, resets ? std::log(0.01 / 0.99) : 1, 1e-4) << step;
    }
}

// Those larger than a tenth of the extent go, but not before the first reset.
TEST(Schedule, LargeGaussiansArePrunedAfterTheFirstReset) {
    density_settings settings = settings_of(DENSITY_ADAPTIVE, 4000);
    settings.adaptive.reset_every = 800;
    run r(20, 0);
    fill(r.state.gaussians.log_scale, 60, float(std::log(0.05)));
    fill(r.state.gaussians.log_scale + 3 * 7, 1, float(std::log(0.2)));
    for (int64_t step : {600, 700, 800, 900}) {
        r.step_to(settings, step);
        EXPECT_EQ(r.state.gaussians.count, step < 900 ? 20 : 19) << step;
    }
}

TEST(Schedule, McmcGrowsByItsShareUpToTheLimit) {
    const density_settings settings =
        settings_of(DENSITY_MCMC, 12000, 1300); // until 10000, three quarters 7625
    run r(1000, 0);
    int64_t expected = 1000;
    for (int64_t step = 400; step <= 1500; step += 50) {
        r.step_to(settings, step);
        if (step > 500 && step % 100 == 0)
            expected = std::min<int64_t>(1300, int64_t(double(expected) * (1 + double(0.05f))));
        ASSERT_EQ(r.state.gaussians.count, expected) << step;
    }
    EXPECT_EQ(expected, 1300);
}

TEST(Schedule, McmcAndSplitMoveTheDeadUntilTheirEndAndNoLonger) {
    for (const density_kind kind : {DENSITY_MCMC, DENSITY_SPLIT}) {
        const density_settings settings = settings_of(kind, 1200, 20); // until 1000
        for (int64_t step : {500, 600, 650, 900, 1000, 1100}) {
            run r(20, float(kind == DENSITY_SPLIT));
            const float dead = -9;
            fill(r.state.gaussians.opacity_logit + 7, 1, dead);
            r.step_to(settings, step);
            const bool acts = step > 500 && step < 1000 && step % 100 == 0;
            EXPECT_EQ(read(r.state.gaussians.opacity_logit, 20)[7] != dead, acts) << kind << ", " << step;
        }
    }
}

TEST(Schedule, McmcPenalisesOpacityAndSizeUntilItsEndAndNoLonger) {
    const density_settings settings = settings_of(DENSITY_MCMC, 1200); // until 1000
    for (int64_t step : {1, 500, 999, 1000, 1200}) {
        run r(20, 0);
        fill(r.state.gradients.opacity_logit, 20, 0);
        fill(r.state.gradients.log_scale, 60, 0);
        r.state.place.views = r.state.place.before = step - 1, r.state.place.at = step;
        r.t.fitted.density = settings, density_before_adam(&r.t, 1);
        const float opacity = step < 1000 ? 0.01f * 0.25f / 20 : 0; // at opacity 1/2
        for (const float g : read(r.state.gradients.opacity_logit, 20)) EXPECT_NEAR(g, opacity, 1e-8) << step;
        const float scale = step < 1000 ? 5 * 0.01f * 1e-3f / 60 : 0; // the extent is 1
        for (const float g : read(r.state.gradients.log_scale, 60)) EXPECT_NEAR(g, scale, 1e-11) << step;
    }
}

// Under a budget several steps of the schedule may pass in one step of training, or one in several.
TEST(Schedule, DensityControlIsDueOnceForWhatPasses) {
    const density_settings s = settings_of(DENSITY_SPLIT, 1200); // from 500, until 1000
    const std::tuple<int64_t, int64_t, bool> cases[] = {
        {499, 500, false}, {400, 560, false}, {480, 600, true},   {599, 600, true},  {600, 600, false},
        {600, 699, false}, {590, 910, true},  {900, 1000, false}, {880, 2000, true}, {950, 2000, false},
        {0, 600, true},    {0, 5000, true},   {1000, 5000, false}};
    for (const auto &[before, at, due] : cases)
        EXPECT_EQ(density_is_due(&s, before, at), due) << before << " " << at;
}

// And act only when they should. The sums that splits are drawn by begin anew after each action; after the end none is made.
TEST(Schedule, McmcAndSplitReachTheirLimitAfterThreeQuartersFromFew) {
    for (const density_kind kind : {DENSITY_MCMC, DENSITY_SPLIT}) {
        const bool splits = kind == DENSITY_SPLIT;
        const int64_t most = splits ? 3000 : 5000;
        const density_settings settings = settings_of(kind, 2400, most); // until 2000, three quarters 1625
        run r(splits ? 100 : 10, splits);
        int64_t count = r.state.gaussians.count;
        for (int64_t step = 400; step < 2400; step += 50) {
            r.step_to(settings, step);
            const bool acts = step > 500 && step < 2000 && step % 100 == 0;
            const int64_t now = r.state.gaussians.count;
            EXPECT_EQ(now > count, acts && count < most) << kind << ", " << step;
            EXPECT_LE(now, splits ? std::min<int64_t>(2 * count, most) : most);
            EXPECT_TRUE(step >= 1500 || now < most) << step;
            EXPECT_TRUE(step < 1700 || now == most) << step;
            for (const float sum : read(r.state.density, splits && acts ? 2 * now : 0)) ASSERT_EQ(sum, 0);
            EXPECT_TRUE(!splits || acts || step >= 2000 || read(r.state.density, 2)[0] > 0) << step;
            count = now;
        }
        r.step_to(settings_of(kind, 2400, 7), 700); // more than the limit from the start: they stay
        EXPECT_EQ(r.state.gaussians.count, most);
    }
}

// ---- retirement

enum { FRONT, BEHIND, FAINT, UNSEEN, COUNT };

// Round Gaussians of one size before a camera at the origin, and one at its back.
host_gaussians scene() {
    host_gaussians out(COUNT, 0);
    const float place[COUNT][3] = {{0, 0, 3}, {0, 0, 6}, {0.5f, 0, 3}, {0, 0, -3}};
    for (int64_t i = 0; i < COUNT; i++) {
        std::copy_n(place[i], 3, out.mean(i));
        std::fill_n(out.log_scale(i), 3, std::log(0.1f));
        out.quaternion(i)[0] = 1;
        out.opacity_logit(i) = i == FAINT ? -2.0f : 5.0f;
    }
    return out;
}

target_view view_from(float x) {
    target_view view = {};
    view.camera = forward_camera(64, 48, 60);
    view.camera.translation[0] = -x;
    return view;
}

std::vector<bool> retired(const std::vector<target_view> &views, double part, distwar_policy policy,
                          int64_t batch = 1) {
    const host_gaussians host = scene();
    const device_set set(host);
    const alone group;
    training_state state = {};
    state.gaussians = set.get(), state.group = group, state.all = COUNT;
    trainer t = {};
    t.state = &state, t.tuner.policy = policy;
    // As a step leaves it: with depth and a clock, which scores have not.
    frame &of_steps = t.rendered;
    stage_clock clock = {}; // no mark can be set on it
    clock.measures = true;
    of_steps.clock = &clock, of_steps.with_depth = true;
    const device_vector<float> score(std::vector<float>(COUNT, 0.0f));
    const scored_views by = {views.data(), nullptr, views.size(), batch};
    EXPECT_TRUE(trainer_scores(&t, &by, score.data()) && retirement_end(&t, score.data(), part));
    EXPECT_EQ(of_steps.view.image.depth, nullptr);
    EXPECT_EQ(of_steps.clock, &clock);
    frame_close(&of_steps);
    const host_gaussians after = set.read();
    std::vector<bool> out;
    for (int64_t i = 0; i < COUNT; i++) {
        out.push_back(after.opacity(i) < 1e-6);
        EXPECT_TRUE(out.back() || after.row(i) == host.row(i)) << i;
    }
    return out;
}

TEST(Retirement, EndsWhatContributesLeastToEveryView) {
    const target_view front = view_from(0), beside = view_from(1); // beside the first it sees what is behind
    // Views, how many at once, part; which are retired.
    const std::tuple<std::vector<target_view>, int64_t, double, std::vector<bool>> cases[] = {
        {{front}, 1, 0.01, {false, false, false, true}},
        {{front}, 1, 0.9, {false, true, false, true}},
        {{front, beside}, 1, 0.9, {false, false, true, true}},
        {{beside, front}, 1, 0.9, {false, false, true, true}},
        {{front, front, beside}, 1, 0.9, {false, false, true, true}},
        {{front, front, beside}, 2, 0.9, {false, false, true, true}},
        {{front, front, beside}, 3, 0.9, {false, false, true, true}},
        {{front, front, beside}, 8, 0.9, {false, false, true, true}}};
    for (const distwar_policy policy : {distwar_policy{DISTWAR_TREE, 0}, distwar_policy{DISTWAR_FIXED, 0}})
        for (const auto &[views, batch, part, expected] : cases)
            EXPECT_EQ(retired(views, part, policy, batch), expected) << views.size() << ", " << batch;
}

TEST(Retirement, AsksEverySecondToFourthOfManyViews) {
    const std::pair<size_t, size_t> asked[] = {{1, 1},    {99, 99},  {100, 50},
                                               {175, 58}, {220, 55}, {100000, 25000}};
    for (const auto &[count, views] : asked) EXPECT_EQ(retirement_views(count), views) << count;
    // The one that sees what is behind is asked if its number is even.
    for (const size_t seeing : {0, 1, 48, 49, 98, 99}) {
        std::vector<target_view> views(100, view_from(0));
        views[seeing] = view_from(1);
        EXPECT_EQ(retired(views, 0.9, {DISTWAR_TREE, 0}, 4),
                  (std::vector<bool>{false, seeing % 2 == 1, seeing % 2 == 0, true}))
            << seeing;
    }
}

TEST(Retirement, IsDueBeforeActionsOfDensityControl) {
    density_settings settings = {};
    settings.from = 500, settings.until = 5000, settings.every = 100, settings.retire_every = 1000;
    std::vector<int64_t> steps;
    const auto collect = [&] {
        steps.clear();
        for (int64_t step = 1; step <= 7000; step++)
            if (retirement_is_due(&settings, step - 1, step)) steps.push_back(step);
        return steps;
    };
    EXPECT_EQ(collect(), std::vector<int64_t>());
    EXPECT_EQ(retirements_left(&settings, 0), 0);
    settings.retired = 0.1;
    EXPECT_EQ(collect(), (std::vector<int64_t>{1000, 2000, 3000, 4000}));
    EXPECT_TRUE(retirement_is_due(&settings, 1996, 2004)); // a step of eight views
    for (int64_t from : {0, 500, 1000, 1500}) {
        settings.from = from;
        const std::vector<int64_t> all = collect();
        for (int64_t at = 0; at <= 7000; at += 100)
            EXPECT_EQ(retirements_left(&settings, at),
                      std::count_if(all.begin(), all.end(), [&](int64_t step) { return step > at; }))
                << from << " " << at;
    }
}

// ---- the pace of a budget, without a trainer

struct run_of_pace {
    std::vector<double> progress;
    double ended = 0;
};

// What is done between steps: so many times, each at an equal part of the schedule, for so many seconds.
struct between_steps {
    int times = 0;
    double seconds = 0;
};

// What the trainer does. cost: seconds of step 0, 1, ... at a progress. ahead: of the pace, at a progress.
run_of_pace follow(double budget, const std::function<double(int, double)> &cost,
                   const std::function<double(double)> &ahead = nullptr, between_steps between = {}) {
    run_of_pace run;
    pace p = {};
    p.budget = budget;
    double progress = 0;
    bool known = false;
    int done = 0;
    for (int step = 0; step < 10000000; step++) {
        pace_note(&p, run.ended);
        p.ahead = ahead ? ahead(progress) : 1;
        p.between_left = between.times - done;
        if (!known && pace_is_known(&p)) {
            known = true;
        } else if (known) {
            progress = pace_next(&p, progress);
        }
        run.progress.push_back(progress);
        run.ended += cost(step, progress);
        if (done < between.times && progress >= double(done + 1) / (between.times + 2)) {
            p.between = between.seconds;
            run.ended += p.between;
            done++;
        }
        pace then = p;
        pace_note(&then, run.ended);
        if (progress >= 1 || pace_is_over(&then)) break;
    }
    EXPECT_EQ(done, between.times);
    return run;
}

void expect_smooth(const run_of_pace &run, double budget, double most_rise) {
    EXPECT_TRUE(std::is_sorted(run.progress.begin(), run.progress.end()));
    EXPECT_EQ(run.progress.front(), 0);
    EXPECT_EQ(run.progress.back(), 1);
    for (size_t i = 1; i < run.progress.size(); i++)
        ASSERT_LT(run.progress[i] - run.progress[i - 1], most_rise) << i;
    EXPECT_NEAR(run.ended, budget, 0.03 * budget);
}

TEST(Pace, FollowsTheTimeOfEqualSteps) {
    const run_of_pace run = follow(10, [](int, double) { return 0.001; });
    expect_smooth(run, 10, 2e-4);
    EXPECT_NEAR(double(run.progress.size()), 10000, 2);
    for (size_t i = 1000; i < 10000; i += 1000) EXPECT_NEAR(run.progress[i], double(i) / 10000, 0.006) << i;
}

// By its first 51 steps, 9 in a twentieth of the budget, or 2 in a quarter.
TEST(Pace, IsKnownByTheFirstSteps) {
    for (const auto &[share, least] : {std::pair{0.0, 51}, {0.05, 9}, {0.25, 2}}) {
        pace p = {};
        p.budget = 10;
        for (int steps = 1; steps <= 51; steps++) {
            pace_note(&p, 10 * share);
            EXPECT_EQ(pace_is_known(&p), steps >= least) << steps;
        }
    }
}

TEST(Pace, EndsInTimeWhateverStepsTake) {
    expect_smooth(follow(10, [](int, double p) { return 0.001 * (1 + 4 * p); }), 10, 2e-3);
    expect_smooth(follow(10, [](int, double p) { return 0.005 * (1 - 0.9 * p); }), 10, 6e-3);
    // The first is slow, one in a hundred takes ten times as long, and one a fifth of the budget.
    const run_of_pace slow = follow(10, [](int step, double) {
        return step == 0 ? 0.3 : step == 3000 ? 2.0 : step % 100 == 0 ? 0.01 : 0.001;
    });
    expect_smooth(slow, 10, 0.01);
    EXPECT_LT(slow.progress[3001] - slow.progress[3000], 3e-4);
    const run_of_pace few = follow(0.5, [](int, double) { return 0.05; });
    EXPECT_EQ(few.progress.back(), 1);
    EXPECT_NEAR(few.ended, 0.5, 0.026);
    EXPECT_TRUE(std::is_sorted(few.progress.begin(), few.progress.end()));
    EXPECT_EQ(follow(0.001, [](int, double) { return 1.0; }).progress.size(), 1u);
    // The budget ends in a step that hangs.
    EXPECT_NEAR(follow(10, [](int step, double) { return step == 5000 ? 30 : 0.001; }).ended, 35, 0.1);
}

// Steps that become four times as slow half-way, all at once, as density control does, are as many before as after if that is
// foreseen, else as much time.
TEST(Pace, MovesByStepsAsFarAsTheirTimeIsForeseen) {
    const auto cost = [](int, double p) { return p < 0.5 ? 0.001 : 0.004; };
    const auto ahead = [](double p) { return p < 0.5 ? (0.5 - p + 4 * 0.5) / (1 - p) : 1; };
    const std::pair<run_of_pace, double> cases[] = {{follow(10, cost, ahead), 0.5}, {follow(10, cost), 0.8}};
    for (const auto &[run, share_before] : cases) {
        expect_smooth(run, 10, 2e-2);
        const auto before =
            std::count_if(run.progress.begin(), run.progress.end(), [](double p) { return p < 0.5; });
        EXPECT_NEAR(double(before) / double(run.progress.size()), share_before, 0.02);
    }
}

// Five times 0.4 s, after each seventh of the schedule: nearly even from the first time on. Without being counted the last
// steps would move it by 1.8e-4 each.
TEST(Pace, CountsWhatIsDoneBetweenSteps) {
    const run_of_pace run = follow(10, [](int, double) { return 0.001; }, nullptr, {5, 0.4});
    expect_smooth(run, 10, 1.35e-4);
    EXPECT_NEAR(double(run.progress.size()), 8000, 10);
}

TEST(Pace, WhatIsDoneBetweenStepsLeavesThemHalfOfTheTime) {
    pace p = {};
    p.budget = 10;
    for (int i = 0; i <= 100; i++) pace_note(&p, 0.01 * i);
    const std::tuple<double, int, double> cases[] = {{0, 0, 900}, {1, 3, 600}, {1, 30, 450}};
    for (const auto &[between, times, steps] : cases) {
        p.between = between, p.between_left = times;
        EXPECT_NEAR(pace_steps_left(&p), steps, 1e-6) << times;
    }
}

TEST(Pace, StepsThatTakeNoTimeAreLimited) {
    pace p = {};
    p.budget = 10;
    for (int i = 0; i < 60; i++) pace_note(&p, 0);
    EXPECT_TRUE(pace_is_known(&p));
    EXPECT_EQ(pace_steps_left(&p), double(SCHEDULE_MOST));
    EXPECT_GT(pace_next(&p, 0.5), 0.5);
    EXPECT_FALSE(pace_is_over(&p));
}

// ---- when learning is over

void note(learning_curve *curve, bool small, double trained, double validation) {
    curve->sum += 0.5 * trained + 1.5 * trained, curve->seen += 2;
    learning_note(curve, small, validation);
}

// Losses fall by these parts with each measurement. Those of the validation views end `apart` times as high.
learning_curve falling(int count, double trained, double validation, double apart = 1.3) {
    learning_curve curve = {};
    const double first = apart * std::pow((1 - trained) / (1 - validation), count - 1);
    for (int i = 0; i < count; i++)
        note(&curve, 0, std::pow(1 - trained, i), first * std::pow(1 - validation, i));
    return curve;
}

TEST(Learning, IsOverWhereViewsThatAreSetAsideGainLittle) {
    const std::tuple<int, double, double, double, bool> rows[] = {
        {2, 0.5, 0, 1.3, false}, // two are too few
        {10, 0.01, 0, 1.3, false},
        {14, 0.01, 0, 1.3, true}, // training gains 0.09; 0.13
        {10, 0.1, 0, 1.2, false},
        {10, 0.1, 0, 1.25, true}}; // views are worse by 0.18; 0.22
    for (const auto &[count, trained, validation, apart, over] : rows) {
        const learning_curve curve = falling(count, trained, validation, apart);
        EXPECT_EQ(learning_is_over(&curve), over) << count << ", " << trained << ", " << apart;
    }
    for (const int count : {3, 5, 32, 50, 300})
        for (const double validation : {0.02, 0.005, -0.1}) { // confirmed, noise, rises
            const learning_curve curve = falling(count, 0.1, validation);
            EXPECT_EQ(learning_is_over(&curve), validation < 0.02) << count << ", " << validation;
        }
}

TEST(Learning, CountsTheBestMeasurementSince) {
    const double validation[] = {1, 0.9, 1.1, 1.1};
    for (const int count : {3, 4}) {
        learning_curve curve = {};
        for (int i = 0; i < count; i++) note(&curve, 0, std::pow(0.9, i), validation[i]);
        // From the second on nothing was gained; from the first on it was, and with three there are two from the second.
        EXPECT_EQ(learning_is_over(&curve), count == 4);
    }
}

TEST(Learning, BeginsAnewWithPicturesOfAnotherSize) {
    learning_curve curve = falling(5, 0.1, 0);
    EXPECT_TRUE(learning_is_over(&curve));
    note(&curve, 1, 0.1, 1);
    EXPECT_EQ(curve.count, 1);
    EXPECT_FALSE(learning_is_over(&curve));
}

TEST(Learning, CurvesOfFilesAreChecked) {
    const learning_curve good = falling(5, 0.1, 0);
    learning_curve curve = good;
    EXPECT_TRUE(learning_curve_is_possible(&curve));
    curve.validation[4] = NAN;
    EXPECT_FALSE(learning_curve_is_possible(&curve));
    for (const int count : {LEARNING_MOST + 1, -1}) {
        curve = good, curve.count = count;
        EXPECT_FALSE(learning_curve_is_possible(&curve)) << count;
    }
}

} // namespace schedule_test
