// SPDX-License-Identifier: MIT
// What a training run does when: learning rates, SH degree, density control, each against its schedule
// written out, by steps on Gaussians alone.
#include "density/density_control.h"
#include "defaults.h"
#include "density/density_options.h"
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
    EXPECT_FLOAT_EQ(scheduled_mean_rate(&s, 1), 3e-4f);
    EXPECT_FLOAT_EQ(scheduled_mean_rate(&s, 7000), 3e-6f);
    for (int64_t step : {2, 1000, 3500, 6999}) { // log-linear between the ends
        const double progress = double(step - 1) / 6999;
        const double expected = std::exp((1 - progress) * std::log(3e-4) + progress * std::log(3e-6));
        EXPECT_NEAR(scheduled_mean_rate(&s, step), expected, 1e-5 * expected) << step;
    }
    training_settings one = s;
    one.iterations = 1;
    EXPECT_FLOAT_EQ(scheduled_mean_rate(&one, 1), 3e-4f);
}

TEST(Schedule, RateOfHarmonicsDecaysExponentiallyUnlessItStays) {
    training_settings s = plain_settings();
    s.rates.sh_rest = 5e-4f;
    EXPECT_EQ(scheduled_sh_rate(&s, 1), 5e-4f);
    EXPECT_EQ(scheduled_sh_rate(&s, 7000), 5e-4f);
    s.final_sh_rest = 1.25e-4f;
    EXPECT_FLOAT_EQ(scheduled_sh_rate(&s, 1), 5e-4f);
    EXPECT_FLOAT_EQ(scheduled_sh_rate(&s, 7000), 1.25e-4f);
    for (int64_t step : {2, 1000, 3500, 6999}) {
        const double expected = 5e-4 * std::exp(double(step - 1) / 6999 * std::log(0.25));
        EXPECT_NEAR(scheduled_sh_rate(&s, step), expected, 1e-5 * expected) << step;
    }
    s.rates.sh_rest = 0;
    EXPECT_EQ(scheduled_sh_rate(&s, 3500), 0);
}

TEST(Schedule, UsualRatesOfHarmonicsFollowViewsAndLength) {
    EXPECT_EQ(usual_sh_rate(1), 1);
    EXPECT_EQ(usual_sh_rate(25), 1);
    EXPECT_EQ(usual_sh_rate(50), 2);
    EXPECT_EQ(usual_sh_rate(100), 4);
    EXPECT_EQ(usual_sh_rate(200), 8);
    EXPECT_EQ(usual_sh_rate(1000), 8);
    EXPECT_EQ(usual_last_sh_rate(4, 100), 4);
    EXPECT_EQ(usual_last_sh_rate(4, 7000), 4);
    EXPECT_EQ(usual_last_sh_rate(4, 14000), 2);
    EXPECT_EQ(usual_last_sh_rate(4, 30000), 1);
    EXPECT_EQ(usual_last_sh_rate(0.5, 30000), 0.5);
}

TEST(Schedule, RatesAndDropoutFollowViewsAndIterations) {
    for (const int64_t iterations : {100, 7000}) EXPECT_EQ(usual_rate_part(1, iterations), 1);
    EXPECT_NEAR(usual_rate_part(1, 14000), 0.5, 1e-15);
    EXPECT_NEAR(usual_rate_part(20, 28000), 0.3, 1e-15);
    EXPECT_NEAR(usual_rate_part(30, 14000), std::sqrt(0.5), 1e-15);
    EXPECT_NEAR(usual_rate_part(35, 280000), std::pow(0.3, 0.25), 1e-15);
    for (const size_t views : {40, 400}) EXPECT_EQ(usual_rate_part(views, 28000), 1);
    EXPECT_EQ(usual_dropout(1, 16), 0.2);
    EXPECT_EQ(usual_dropout(20, 7000), 0.2);
    EXPECT_NEAR(usual_dropout(40, 16000), 0.1, 1e-15);
    EXPECT_NEAR(usual_dropout(40, 6400), 0, 1e-15);
    EXPECT_EQ(usual_dropout(100, 30000), 0);
    EXPECT_EQ(usual_dropout(100, 300000), 0);
    EXPECT_NEAR(usual_dropout(50, 300000), 0.2 * 8 / 12, 1e-15);
}

TEST(Schedule, WeightOfDepthDecaysExponentially) {
    training_settings s = plain_settings();
    s.depth_weight = 1, s.final_depth_weight = 0.01f;
    EXPECT_FLOAT_EQ(scheduled_depth_weight(&s, 1), 1);
    EXPECT_FLOAT_EQ(scheduled_depth_weight(&s, 7000), 0.01f);
    for (int64_t step : {2, 1000, 3500, 6999}) {
        const double expected = std::exp(double(step - 1) / 6999 * std::log(0.01));
        EXPECT_NEAR(scheduled_depth_weight(&s, step), expected, 1e-5 * expected) << step;
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

const density_data plain_data = {30000, 2.5, 40000000, false, 100, false},
                   shorter = {7000, 2.5, 40000000, false, 100, false};

TEST(Schedule, DefaultsAreThePublishedOnes) {
    density_options options = density_options_default();
    options.settings.kind = DENSITY_ADAPTIVE;
    const density_settings a = density_settings_from(&options, &plain_data);
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
    options.settings.kind = DENSITY_MCMC;
    const density_settings m = density_settings_from(&options, &plain_data);
    EXPECT_EQ(m.until, 25000);
    EXPECT_EQ(m.most_gaussians, 300000);
    EXPECT_EQ(m.growth, 0.05);
    EXPECT_EQ(m.mcmc.noise, 5e5);
    EXPECT_EQ(m.mcmc.opacity_weight, 0.01);
    EXPECT_EQ(m.mcmc.scale_weight, 0.01);
    EXPECT_EQ(density_settings_from(&options, &shorter).until, 5833);
    options.settings.until = 123;
    EXPECT_EQ(density_settings_from(&options, &shorter).until, 123);
}

TEST(Schedule, ManyViewsRetireWhatIsOfNoUse) {
    EXPECT_EQ(usual_retired(1), 0);
    EXPECT_EQ(usual_retired(20), 0);
    EXPECT_NEAR(usual_retired(30), 0.08, 1e-15);
    EXPECT_EQ(usual_retired(40), 0.16);
    EXPECT_EQ(usual_retired(4000), 0.16);
    density_options options = density_options_default();
    density_data data = shorter;
    for (const int kind : {DENSITY_NONE, DENSITY_ADAPTIVE, DENSITY_MCMC, DENSITY_SPLIT}) {
        options.settings.kind = kind;
        const bool refills = kind == DENSITY_MCMC || kind == DENSITY_SPLIT;
        EXPECT_EQ(density_settings_from(&options, &data).retired, refills ? 0.16 : 0) << kind;
    }
    data.on_ranks = true;
    EXPECT_EQ(density_settings_from(&options, &data).retired, 0);
    data.on_ranks = false, data.views = 20;
    EXPECT_EQ(density_settings_from(&options, &data).retired, 0);
    options.settings.retired = 0.2;
    EXPECT_EQ(density_settings_from(&options, &data).retired, 0.2);
    data.views = 100, options.settings.retired = 0;
    EXPECT_EQ(density_settings_from(&options, &data).retired, 0);
    EXPECT_EQ(density_settings_from(&options, &data).retire_every, 1000);
    data.views = 220;
    EXPECT_EQ(density_settings_from(&options, &data).retire_every, 2200);
    options.settings.retire_every = 300;
    EXPECT_EQ(density_settings_from(&options, &data).retire_every, 300);
}

TEST(Schedule, TheDataDecidesMethodAndLimitUnlessTheyAreGiven) {
    density_options options = density_options_default();
    density_data data = shorter;
    EXPECT_EQ(density_settings_from(&options, &data).kind, DENSITY_SPLIT);
    data.everywhere = true;
    EXPECT_EQ(density_settings_from(&options, &data).kind, DENSITY_MCMC);
    options.settings.kind = DENSITY_SPLIT;
    EXPECT_EQ(density_settings_from(&options, &data).kind, DENSITY_SPLIT);
    EXPECT_EQ(density_settings_from(&options, &data).most_gaussians, 300000);
    data.pixels = 13000050;
    EXPECT_EQ(density_settings_from(&options, &data).most_gaussians, 130000);
    data.pixels = 0;
    EXPECT_EQ(density_settings_from(&options, &data).most_gaussians, 1);
    options.settings.most_gaussians = 7;
    EXPECT_EQ(density_settings_from(&options, &data).most_gaussians, 7);
}

TEST(Schedule, SplitsAreDrawnByAbsoluteGradients) {
    density_settings settings = {};
    settings.kind = DENSITY_SPLIT;
    EXPECT_TRUE(density_reads_absolute(&settings));
    settings.kind = DENSITY_MCMC;
    EXPECT_FALSE(density_reads_absolute(&settings));
    settings.kind = DENSITY_ADAPTIVE;
    EXPECT_FALSE(density_reads_absolute(&settings));
}

TEST(Schedule, DropoutGrowsWithTheSteps) {
    training_settings settings = plain_settings();
    settings.dropout = 0.5;
    const host_gaussians host = random_gaussians(1, 4000, 0);
    const device_set device(host);
    const gs_gaussians all = device.get();
    device_buffer logits = {};
    for (const int64_t step : {1, 3500, 7000}) {
        const dropout_place place = {step, step - 1, 0};
        const gs_gaussians got = gaussians_of_step(&settings, &all, &place, &logits);
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

// A state on the device with a frame of one camera that sees everyone, whose gradients are all `gradient`.
class run {
  public:
    run(int64_t count, float gradient) : host(random_gaussians(1, count, 1)) {
        for (int64_t i = 0; i < count; i++) {
            host.opacity_logit(i) = 0;
            for (int k = 0; k < 3; k++) host.log_scale(i)[k] = float(std::log(1e-3));
        }
        const gs_gaussians start = {count,
                                    1,
                                    host.array[0].data(),
                                    host.array[1].data(),
                                    host.array[2].data(),
                                    host.array[3].data(),
                                    host.array[4].data(),
                                    nullptr,
                                    nullptr,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0};
        training_state_open(&state, &start);
        show(gradient);
        f.view.camera.width = f.view.camera.height = 100;
    }
    ~run() {
        density_control_close(&control);
        training_state_close(&state);
        device_buffer_close(&f.splats);
        device_buffer_close(&f.mean2d);
    }
    run(const run &) = delete;
    run &operator=(const run &) = delete;

    // Step number `step` and what density control makes of it.
    void step_to(const density_settings &settings, int64_t step) {
        show(shown);
        state.iteration = step;
        state.schedule = {step, step - 1, 0, 0, 0};
        density_after_adam(&control, &settings, 5, 1e-4f, &f, &state);
    }
    std::vector<float> read(const float *array, int64_t count) const {
        std::vector<float> values(static_cast<size_t>(count));
        device_download(values.data(), array, values.size() * sizeof(float));
        return values;
    }

    training_state state = {};

  private:
    void show(float gradient) {
        shown = gradient;
        const size_t count = size_t(state.gaussians.count);
        gs_splat seen = {};
        seen.mean[0] = seen.mean[1] = 50;
        seen.whiten[0] = seen.whiten[2] = 0.3f;
        seen.depth = 1;
        const std::vector<gs_splat> splats(count, seen);
        std::vector<float> gradients(2 * count, 0.0f);
        for (size_t i = 0; i < count; i++) gradients[2 * i] = i % 4 == 0 ? gradient : 0;
        f.view.gaussians.count = int64_t(count);
        f.view.splats = static_cast<gs_splat *>(device_buffer_reserve(&f.splats, count * sizeof seen));
        f.gradient.mean2d = static_cast<float *>(device_buffer_reserve(&f.mean2d, 2 * count * sizeof(float)));
        device_upload(f.view.splats, splats.data(), count * sizeof seen);
        device_upload(f.gradient.mean2d, gradients.data(), 2 * count * sizeof(float));
    }
    host_gaussians host;
    frame f = {};
    density_control control = {};
    float shown = 0;
};

density_settings settings_of(density_kind kind, int64_t iterations) {
    density_options options = density_options_default();
    options.settings.kind = kind;
    options.settings.most_gaussians = 1000000;
    const density_data data = {iterations, 1, 0, false, 100, false};
    return density_settings_from(&options, &data);
}

// Every fourth has a large gradient, and is cloned whenever density control acts.
TEST(Schedule, AdaptiveControlActsWhenItShouldAndMemoryGrowsByDoubling) {
    density_settings settings = settings_of(DENSITY_ADAPTIVE, 2000); // until 1000
    settings.adaptive.reset_every = 0;
    run r(20, 1);
    int64_t expected = 20, capacity = 20;
    for (int64_t step = 100; step <= 1200; step += 50) {
        const std::vector<float> ones(size_t(r.state.gaussians.count), 1.0f);
        for (const gs_gaussians *m : {&r.state.first_moment, &r.state.second_moment})
            device_upload(m->opacity_logit, ones.data(), ones.size() * sizeof(float));
        r.step_to(settings, step);
        const bool acts = step > 500 && step < 1000 && step % 100 == 0;
        const int64_t newborns = acts ? (expected + 3) / 4 : 0;
        expected += newborns;
        if (capacity < expected) capacity *= 2;
        ASSERT_EQ(r.state.gaussians.count, expected) << step;
        EXPECT_EQ(r.state.capacity, capacity);
        EXPECT_EQ(r.state.gradients.count, expected);
        for (const gs_gaussians *m : {&r.state.first_moment, &r.state.second_moment}) {
            ASSERT_EQ(m->count, expected);
            const std::vector<float> moved = r.read(m->opacity_logit, expected);
            EXPECT_EQ(std::count(moved.begin(), moved.end(), 0.0f), newborns);
            EXPECT_EQ(std::count(moved.begin(), moved.end(), 1.0f), expected - newborns);
        }
        for (const float sum : r.read(r.state.density, acts ? 2 * expected : 0)) ASSERT_EQ(sum, 0);
    }
    EXPECT_GT(expected, 40);
}

TEST(Schedule, OpacitiesAreResetEveryIntervalBeforeTheEnd) {
    density_settings settings = settings_of(DENSITY_ADAPTIVE, 2000); // until 1000
    settings.adaptive.reset_every = 300;
    run r(20, 0);
    const std::vector<float> opaque(20, 1.0f);
    const float reset = float(std::log(0.01 / 0.99));
    for (int64_t step = 100; step <= 1500; step += 100) {
        device_upload(r.state.gaussians.opacity_logit, opaque.data(), opaque.size() * sizeof(float));
        r.step_to(settings, step);
        ASSERT_EQ(r.state.gaussians.count, 20);
        const bool resets = step % 300 == 0 && step < 1000;
        for (const float logit : r.read(r.state.gaussians.opacity_logit, 20))
            ASSERT_NEAR(logit, resets ? reset : 1, 1e-4) << step;
    }
}

// Those larger than a tenth of the extent go, but not before the first reset.
TEST(Schedule, LargeGaussiansArePrunedAfterTheFirstReset) {
    density_settings settings = settings_of(DENSITY_ADAPTIVE, 4000);
    settings.adaptive.reset_every = 800;
    run r(20, 0);
    std::vector<float> scales(60, float(std::log(0.05)));
    scales[3 * 7] = float(std::log(0.2));
    device_upload(r.state.gaussians.log_scale, scales.data(), scales.size() * sizeof(float));
    for (int64_t step : {600, 700, 800}) {
        r.step_to(settings, step);
        EXPECT_EQ(r.state.gaussians.count, 20) << step;
    }
    r.step_to(settings, 900);
    EXPECT_EQ(r.state.gaussians.count, 19);
}

TEST(Schedule, McmcGrowsByItsShareUpToTheLimit) {
    density_settings settings = settings_of(DENSITY_MCMC, 12000); // until 10000, half-way 5250
    settings.most_gaussians = 1300;
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

TEST(Schedule, McmcRelocatesTheDeadUntilItsEndAndNoLonger) {
    density_settings settings = settings_of(DENSITY_MCMC, 1200); // until 1000
    settings.most_gaussians = 20;
    for (int64_t step : {500, 600, 650, 900, 1000, 1100}) {
        run r(20, 0);
        const float dead = -9;
        device_upload(r.state.gaussians.opacity_logit + 7, &dead, sizeof dead);
        r.step_to(settings, step);
        const bool acts = step > 500 && step < 1000 && step % 100 == 0;
        EXPECT_EQ(r.read(r.state.gaussians.opacity_logit, 20)[7] != dead, acts) << step;
    }
}

TEST(Schedule, McmcPenalisesOpacityAndSizeUntilItsEndAndNoLonger) {
    const density_settings settings = settings_of(DENSITY_MCMC, 1200); // until 1000
    for (int64_t step : {1, 500, 999, 1000, 1200}) {
        run r(20, 0);
        const std::vector<float> none(60, 0.0f);
        device_upload(r.state.gradients.opacity_logit, none.data(), 20 * sizeof(float));
        device_upload(r.state.gradients.log_scale, none.data(), 60 * sizeof(float));
        r.state.iteration = step - 1;
        r.state.schedule = {step, step - 1, 0, 0, 0};
        density_before_adam(&settings, &r.state, 1);
        const float opacity = step < 1000 ? 0.01f * 0.25f / 20 : 0; // at opacity 1/2
        for (const float g : r.read(r.state.gradients.opacity_logit, 20))
            EXPECT_NEAR(g, opacity, 1e-8) << step;
        const float scale = step < 1000 ? 0.01f * 1e-3f / 60 : 0;
        for (const float g : r.read(r.state.gradients.log_scale, 60)) EXPECT_NEAR(g, scale, 1e-11) << step;
    }
}

// Under a budget several steps of the schedule may pass in one step of training, or one in several.
TEST(Schedule, DensityControlIsDueOnceForWhatPasses) {
    const density_settings s = settings_of(DENSITY_SPLIT, 1200); // from 500, until 1000
    const struct {
        int64_t before, at;
        bool due;
    } cases[] = {{499, 500, false},  {400, 560, false},  {480, 600, true}, {599, 600, true},
                 {600, 600, false},  {600, 699, false},  {590, 910, true}, {900, 1000, false},
                 {880, 2000, true},  {950, 2000, false}, {0, 600, true},   {0, 5000, true},
                 {1000, 5000, false}};
    for (const auto &c : cases)
        EXPECT_EQ(density_is_due(&s, c.before, c.at), c.due) << c.before << " " << c.at;
}

TEST(Schedule, ABudgetOfLittleTimeHasFewGaussiansAndOneOfMuchHasMore) {
    const int64_t many = 100000000;
    EXPECT_EQ(usual_limit_of_budget(many, 300, 1250), 150000);
    EXPECT_EQ(usual_limit_of_budget(many, 300, 2500), 300000);
    EXPECT_EQ(usual_limit_of_budget(many, 300, 30000), 300000);
    EXPECT_EQ(usual_limit_of_budget(many, 300, 60000), 600000);
    EXPECT_EQ(usual_limit_of_budget(many, 300, 1e9), 1000000);
    for (const size_t views : {1, 100}) EXPECT_EQ(usual_limit_of_budget(many, views, 60000), 300000);
    EXPECT_EQ(usual_limit_of_budget(many, 120, 60000), 420000);
    EXPECT_EQ(usual_limit_of_budget(12000000, 300, 60000), 120000); // one for 100 pixels
    EXPECT_EQ(usual_limit_of_budget(0, 1, 0), 1);
}

TEST(Schedule, McmcReachesItsLimitHalfWayFromFew) {
    density_settings settings = settings_of(DENSITY_MCMC, 2400); // until 2000, half-way 1250
    settings.most_gaussians = 5000;
    run r(10, 0);
    for (int64_t step = 600; step < 2400; step += 100) {
        r.step_to(settings, step);
        if (step < 1100) {
            EXPECT_LT(r.state.gaussians.count, 5000) << step;
        }
        if (step >= 1300) {
            EXPECT_EQ(r.state.gaussians.count, 5000) << step;
        }
    }
    density_settings over = settings;
    over.most_gaussians = 7;
    r.step_to(over, 700); // more than the limit from the start: they stay
    EXPECT_EQ(r.state.gaussians.count, 5000);
}

// The sums that splits are drawn by begin anew after each action, and none is made after the end.
TEST(Schedule, TimeAheadFollowsTheGaussiansToCome) {
    density_settings s = {};
    s.kind = DENSITY_SPLIT;
    s.from = 500, s.until = 5500, s.every = 100, s.most_gaussians = 300000, s.growth = 0.05;
    EXPECT_EQ(density_time_ahead(&s, 7000, 300000, 1000), 1);
    EXPECT_EQ(density_time_ahead(&s, 7000, 500000, 1000), 1);
    EXPECT_EQ(density_time_ahead(&s, 7000, 100000, 5500), 1);
    const double full = std::pow(3, 0.6);
    EXPECT_NEAR(density_time_ahead(&s, 7000, 100000, 3000), full, 1e-12); // all of them at once
    for (const int64_t at : {0, 1000, 2900}) { // the mean over steps that are counted one by one
        double sum = 0;
        for (int64_t step = at; step < 7000; step++)
            sum += std::pow(full, std::min(1.0, (double(step - at) + 0.5) / double(3000 - at)));
        EXPECT_NEAR(density_time_ahead(&s, 7000, 100000, at), sum / double(7000 - at), 1e-5) << at;
    }
    s.until = 20000; // the run ends first
    EXPECT_NEAR(density_time_ahead(&s, 2000, 100000, 1000), (full - 1) / std::log(full), 1e-12);
    s.kind = DENSITY_ADAPTIVE;
    EXPECT_EQ(density_time_ahead(&s, 7000, 100000, 1000), 1);
}

TEST(Schedule, SplitActsWhenItShouldUpToTheLimit) {
    density_settings settings = settings_of(DENSITY_SPLIT, 2400); // until 2000, half-way 1250
    settings.most_gaussians = 3000;
    run r(100, 1);
    int64_t count = 100;
    for (int64_t step = 400; step < 2400; step += 50) {
        r.step_to(settings, step);
        const bool acts = step > 500 && step < 2000 && step % 100 == 0;
        const int64_t now = r.state.gaussians.count;
        EXPECT_EQ(now > count, acts && count < 3000) << step;
        EXPECT_LE(now, std::min<int64_t>(2 * count, 3000));
        if (step >= 1300) {
            EXPECT_EQ(now, 3000) << step;
        }
        for (const float sum : r.read(r.state.density, acts ? 2 * now : 0)) ASSERT_EQ(sum, 0);
        if (step < 2000 && !acts) {
            EXPECT_GT(r.read(r.state.density, 2)[0], 0);
        }
        count = now;
    }
    density_settings over = settings;
    over.most_gaussians = 7;
    r.step_to(over, 700); // more than the limit from the start: they stay
    EXPECT_EQ(r.state.gaussians.count, 3000);
}

TEST(Schedule, SplitMovesTheDeadUntilItsEndAndNoLonger) {
    density_settings settings = settings_of(DENSITY_SPLIT, 1200); // until 1000
    settings.most_gaussians = 20;
    for (int64_t step : {500, 600, 650, 900, 1000, 1100}) {
        run r(20, 1);
        const float dead = -9;
        device_upload(r.state.gaussians.opacity_logit + 7, &dead, sizeof dead);
        r.step_to(settings, step);
        const bool acts = step > 500 && step < 1000 && step % 100 == 0;
        EXPECT_EQ(r.read(r.state.gaussians.opacity_logit, 20)[7] != dead, acts) << step;
    }
}

TEST(Schedule, NoneLeavesAllAsItIs) {
    run r(30, 1);
    const std::vector<float> before = r.read(r.state.gaussians.mean, 90);
    for (int64_t step : {600, 3000}) r.step_to(settings_of(DENSITY_NONE, 30000), step);
    EXPECT_EQ(r.state.gaussians.count, 30);
    EXPECT_EQ(r.read(r.state.gaussians.mean, 90), before);
}

// The published start of MCMC where Gaussians have neighbours to lean on, a large one where they are everywhere
// or stay as they are.
TEST(Schedule, StartIsSmallAndHalfOpaqueUnderALimitButNotEverywhere) {
    density_options options = density_options_default();
    const density_data everywhere = {7000, 1, 0, true, 100, false},
                       ends_before = {720, 1, 0, false, 100, false},
                       acts_once = {722, 1, 0, false, 100, false};
    double opacity, size;
    for (const density_kind kind : {DENSITY_SPLIT, DENSITY_MCMC}) {
        options.settings.kind = kind;
        density_start(&options, &shorter, &opacity, &size);
        EXPECT_EQ(opacity, 0.5);
        EXPECT_EQ(size, 0.1);
    }
    density_start(&options, &everywhere, &opacity, &size);
    EXPECT_EQ(opacity, 0.1);
    EXPECT_EQ(size, 1);
    density_start(&options, &ends_before, &opacity, &size); // ends before step 600
    EXPECT_EQ(opacity, 0.1);
    EXPECT_EQ(size, 1);
    density_start(&options, &acts_once, &opacity, &size); // acts at step 600, before 601
    EXPECT_EQ(opacity, 0.5);
    EXPECT_EQ(size, 0.1);
    options.settings.kind = DENSITY_ADAPTIVE;
    density_start(&options, &shorter, &opacity, &size);
    EXPECT_EQ(opacity, 0.1);
    EXPECT_EQ(size, 1);
}

} // namespace
