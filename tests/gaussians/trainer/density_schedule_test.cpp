// SPDX-License-Identifier: MIT
// When density control acts, against its schedule written out, by steps on Gaussians alone.
#include "training_cloud.h"
#include "plan.h"
#include "density/density_scene.h"
#include "frame.h"
#include <algorithm>
#include <tuple>

namespace density_schedule_test {

// Half opaque Gaussians, a thousandth wide, and a view that sees everyone and whose gradients are all `gradient`, or 0.
class run : public cloud {
  public:
    run(int64_t count, float gradient) : cloud(count, 16, 16), gradient(gradient) {
        training_state_open(&state, group, &host);
        fill(state.gaussians.opacity_logit, count, 0);
        fill(state.gaussians.log_scale, 3 * count, float(std::log(1e-3)));
    }
    ~run() { training_state_close(&state); }

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
        density_step what = {};
        what.settings = &settings, what.seed = 5, what.mean_rate = 1e-4f;
        what.view = &view, what.mean2d = mean2d.data(), what.state = &state;
        density_sum(&what);
        EXPECT_TRUE(density_after_adam(&what)) << ranks_error(group);
    }
    std::vector<float> read(const float *array, int64_t count) const {
        std::vector<float> values(static_cast<size_t>(count));
        device_download(values.data(), array, values.size() * sizeof(float));
        return values;
    }
    static void fill(float *array, int64_t count, float value) {
        const std::vector<float> values(size_t(count), value);
        device_upload(array, values.data(), values.size() * sizeof(float));
    }

    training_state state = {};

  private:
    const float gradient;
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
        for (const gs_gaussians *m : {&r.state.first_moment, &r.state.second_moment})
            run::fill(m->opacity_logit, m->count, 1);
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
    for (int64_t step = 100; step <= 1500; step += 100) {
        run::fill(r.state.gaussians.opacity_logit, 20, 1);
        r.step_to(settings, step);
        ASSERT_EQ(r.state.gaussians.count, 20);
        const bool resets = step % 300 == 0 && step < 1000;
        for (const float logit : r.read(r.state.gaussians.opacity_logit, 20))
            ASSERT_NEAR(logit, resets ? std::log(0.01 / 0.99) : 1, 1e-4) << step;
    }
}

// Those larger than a tenth of the extent go, but not before the first reset.
TEST(Schedule, LargeGaussiansArePrunedAfterTheFirstReset) {
    density_settings settings = settings_of(DENSITY_ADAPTIVE, 4000);
    settings.adaptive.reset_every = 800;
    run r(20, 0);
    run::fill(r.state.gaussians.log_scale, 60, float(std::log(0.05)));
    run::fill(r.state.gaussians.log_scale + 3 * 7, 1, float(std::log(0.2)));
    for (int64_t step : {600, 700, 800, 900}) {
        r.step_to(settings, step);
        EXPECT_EQ(r.state.gaussians.count, step < 900 ? 20 : 19) << step;
    }
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
            run::fill(r.state.gaussians.opacity_logit + 7, 1, dead);
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
        run::fill(r.state.gradients.opacity_logit, 20, 0);
        run::fill(r.state.gradients.log_scale, 60, 0);
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
        density_settings settings = settings_of(kind, 2400); // until 2000, three quarters 1625
        settings.most_gaussians = most;
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
            for (const float sum : r.read(r.state.density, splits && acts ? 2 * now : 0)) ASSERT_EQ(sum, 0);
            EXPECT_TRUE(!splits || acts || step >= 2000 || r.read(r.state.density, 2)[0] > 0) << step;
            count = now;
        }
        density_settings over = settings;
        over.most_gaussians = 7;
        r.step_to(over, 700); // more than the limit from the start: they stay
        EXPECT_EQ(r.state.gaussians.count, most);
    }
}

} // namespace density_schedule_test
