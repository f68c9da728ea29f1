// SPDX-License-Identifier: MIT
// When density control acts, against its schedule written out, by steps on Gaussians alone.
#include "training_cloud.h"
#include "density.h"
#include "plan.h"
#include "density/density_scene.h"
#include "frame.h"
#include <algorithm>

namespace density_schedule_test {

// A state on the device with a frame of one camera that sees everyone, whose gradients are all `gradient`.
class run {
  public:
    run(int64_t count, float gradient) : host(random_gaussians(1, count, 1)) {
        for (int64_t i = 0; i < count; i++) {
            host.opacity_logit(i) = 0;
            for (int k = 0; k < 3; k++) host.log_scale(i)[k] = float(std::log(1e-3));
        }
        gs_gaussians start = {};
        start.count = count, start.sh_degree = 1;
        start.mean = host.array[0].data(), start.log_scale = host.array[1].data();
        start.quaternion = host.array[2].data(), start.opacity_logit = host.array[3].data();
        start.sh = host.array[4].data();
        training_state_open(&state, group, &start);
        show(gradient);
        f.view.camera.width = f.view.camera.height = 100;
    }
    ~run() {
        training_state_close(&state);
        device_buffer_close(&f.splats);
        device_buffer_close(&f.mean2d);
    }
    run(const run &) = delete;
    run &operator=(const run &) = delete;

    // Step number `step` and what density control makes of it.
    void step_to(const density_settings &settings, int64_t step) {
        show(shown);
        state.place = {};
        state.place.views = state.place.at = step, state.place.before = step - 1;
        density_step what = {};
        what.settings = &settings;
        what.seed = 5;
        what.mean_rate = 1e-4f;
        what.view = &f.view;
        what.mean2d = f.gradient.mean2d;
        what.state = &state;
        EXPECT_TRUE(density_sum(&what) && density_after_adam(&what)) << ranks_error(group);
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
        seen.conic_sqrt[0] = seen.conic_sqrt[2] = 0.3f;
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
    const alone group;
    host_gaussians host;
    frame f = {};
    float shown = 0;
};

density_settings settings_of(density_kind kind, int64_t iterations) {
    density_settings options = density_settings_default();
    options.kind = kind;
    options.most_gaussians = 1000000;
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
        const std::vector<float> ones(size_t(r.state.gaussians.count), 1.0f);
        for (const gs_gaussians *m : {&r.state.first_moment, &r.state.second_moment})
            device_upload(m->opacity_logit, ones.data(), ones.size() * sizeof(float));
        r.step_to(settings, step);
        const bool acts = step > 500 && step < 1000 && step % 100 == 0;
        const int64_t newborns = acts ? (expected + 3) / 4 : 0;
        expected += newborns;
        ASSERT_EQ(r.state.gaussians.count, expected) << step;
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
    density_settings settings = settings_of(DENSITY_MCMC, 12000); // until 10000, three quarters 7625
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

TEST(Schedule, McmcAndSplitMoveTheDeadUntilTheirEndAndNoLonger) {
    for (const density_kind kind : {DENSITY_MCMC, DENSITY_SPLIT}) {
        density_settings settings = settings_of(kind, 1200); // until 1000
        settings.most_gaussians = 20;
        for (int64_t step : {500, 600, 650, 900, 1000, 1100}) {
            run r(20, float(kind == DENSITY_SPLIT));
            const float dead = -9;
            device_upload(r.state.gaussians.opacity_logit + 7, &dead, sizeof dead);
            r.step_to(settings, step);
            const bool acts = step > 500 && step < 1000 && step % 100 == 0;
            EXPECT_EQ(r.read(r.state.gaussians.opacity_logit, 20)[7] != dead, acts) << kind << ", " << step;
        }
    }
}

TEST(Schedule, McmcPenalisesOpacityAndSizeUntilItsEndAndNoLonger) {
    const density_settings settings = settings_of(DENSITY_MCMC, 1200); // until 1000
    for (int64_t step : {1, 500, 999, 1000, 1200}) {
        run r(20, 0);
        const std::vector<float> none(60, 0.0f);
        device_upload(r.state.gradients.opacity_logit, none.data(), 20 * sizeof(float));
        device_upload(r.state.gradients.log_scale, none.data(), 60 * sizeof(float));
        r.state.place.views = r.state.place.before = step - 1, r.state.place.at = step;
        density_before_adam(&settings, &r.state, 1);
        const float opacity = step < 1000 ? 0.01f * 0.25f / 20 : 0; // at opacity 1/2
        for (const float g : r.read(r.state.gradients.opacity_logit, 20))
            EXPECT_NEAR(g, opacity, 1e-8) << step;
        const float scale = step < 1000 ? 5 * 0.01f * 1e-3f / 60 : 0; // the extent is 1
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

TEST(Schedule, McmcReachesItsLimitAfterThreeQuartersFromFew) {
    density_settings settings = settings_of(DENSITY_MCMC, 2400); // until 2000, three quarters 1625
    settings.most_gaussians = 5000;
    run r(10, 0);
    for (int64_t step = 600; step < 2400; step += 100) {
        r.step_to(settings, step);
        if (step < 1500) {
            EXPECT_LT(r.state.gaussians.count, 5000) << step;
        }
        if (step >= 1700) {
            EXPECT_EQ(r.state.gaussians.count, 5000) << step;
        }
    }
    density_settings over = settings;
    over.most_gaussians = 7;
    r.step_to(over, 700); // more than the limit from the start: they stay
    EXPECT_EQ(r.state.gaussians.count, 5000);
}

// The sums that splits are drawn by begin anew after each action, and none is made after the end.
TEST(Schedule, SplitActsWhenItShouldUpToTheLimit) {
    density_settings settings = settings_of(DENSITY_SPLIT, 2400); // until 2000, three quarters 1625
    settings.most_gaussians = 3000;
    run r(100, 1);
    int64_t count = 100;
    for (int64_t step = 400; step < 2400; step += 50) {
        r.step_to(settings, step);
        const bool acts = step > 500 && step < 2000 && step % 100 == 0;
        const int64_t now = r.state.gaussians.count;
        EXPECT_EQ(now > count, acts && count < 3000) << step;
        EXPECT_LE(now, std::min<int64_t>(2 * count, 3000));
        if (step >= 1700) {
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

TEST(Schedule, NoneLeavesAllAsItIs) {
    run r(30, 1);
    const std::vector<float> before = r.read(r.state.gaussians.mean, 90);
    for (int64_t step : {600, 3000}) r.step_to(settings_of(DENSITY_NONE, 30000), step);
    EXPECT_EQ(r.state.gaussians.count, 30);
    EXPECT_EQ(r.read(r.state.gaussians.mean, 90), before);
}

} // namespace density_schedule_test
