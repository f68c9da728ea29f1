// SPDX-License-Identifier: MIT
// --check-finite names the stage that made a number that is not finite, and MCMC that runs away is reported while it does.
#include "training_cloud.h"
#include "trainer.h"
#include <functional>

namespace {

struct spoiled {
    const char *stage, *what;
    std::function<void(training_settings *)> settings;
    std::function<void(training_state *)> state;
};

// As train() says it; "" if it is done. warnings: how often the observer was told of one.
std::string warning_of(cloud *c, const training_settings &settings,
                       const std::function<void(training_state *)> &spoil, int *warnings = nullptr) {
    training_state state = {};
    training_report report = {};
    fault why = {};
    const alone group; // which a failure ends
    training_state_open(&state, group, &c->host);
    training_state_open_exposures(&state, cloud::views_in_all);
    if (spoil) spoil(&state);
    const auto warn = [](void *count, const char *text) {
        EXPECT_NE(std::string(text).find("MCMC runs away"), std::string::npos) << text;
        ++*static_cast<int *>(count);
    };
    int count = 0;
    const training_observer observer = {nullptr, &count, 1, nullptr, nullptr, warn};
    const bool done =
        train_on(nullptr, &state, c->views.data(), c->views.size(), &settings, &observer, &report, &why);
    if (warnings) *warnings = count;
    training_report_close(&report);
    training_state_close(&state);
    return done ? "" : why.text;
}

TEST(CheckFinite, NamesTheStage) {
    const auto fill = [](float *memory, size_t count, float value) {
        const std::vector<float> values(count, value);
        device_upload(memory, values.data(), count * sizeof(float));
    };
    const spoiled cases[] = {
        {"gs_render ", "value of the image", [](auto *s) { s->background[1] = NAN; }, nullptr},
        {"gs_loss", "gradient by the image", nullptr,
         [&](auto *s) { fill(s->exposure, size_t(s->exposures) * GS_EXPOSURE_VALUES, NAN); }},
        {"the penalty of density control", "log scales",
         [](auto *s) {
             s->density.kind = DENSITY_MCMC, s->density.until = 9, s->density.mcmc.scale_weight = 3e38;
         },
         [&](auto *s) { fill(s->gaussians.log_scale, 3, 10); }},
        {"gs_adam", "mean of Gaussian", [](auto *s) { s->rates.mean = s->final_mean_rate = 3e38f; }, nullptr},
    };
    cloud c;
    for (const spoiled &one : cases) {
        training_settings settings = cloud::settings(3);
        settings.check_finite = true;
        if (one.settings) one.settings(&settings);
        const std::string text = warning_of(&c, settings, one.state);
        EXPECT_NE(text.find(std::string("--check-finite: ") + one.stage), std::string::npos)
            << one.stage << ": " << text;
        EXPECT_NE(text.find(one.what), std::string::npos) << text;
        settings.check_finite = false;
        EXPECT_EQ(warning_of(&c, settings, one.state).find("--check-finite: "), std::string::npos);
    }
    training_settings settings = cloud::settings(3);
    settings.check_finite = true;
    EXPECT_EQ(warning_of(&c, settings, nullptr), "");
}

TEST(McmcWatch, SeesLossesThatRiseAndGaussiansThatDie) {
    mcmc_watch watch = {};
    mcmc_watch_begin(&watch);
    for (int k = 0; k < 300; k++) ASSERT_FALSE(mcmc_watch_loss(&watch, k < 150 ? 0.2 : 0.1)) << k;
    for (int k = 0; k < 500; k++) ASSERT_FALSE(mcmc_watch_loss(&watch, 0.12)) << k;
    int after = 0;
    while (after < 500 && !mcmc_watch_loss(&watch, 0.2)) after++;
    EXPECT_GT(after, 20); // not by one view
    EXPECT_LT(after, 200);
    mcmc_watch_begin(&watch);
    EXPECT_FALSE(mcmc_watch_loss(&watch, 10)) << "pictures of another size";

    EXPECT_FALSE(mcmc_watch_dead(&watch, 100, 99, 1000));
    EXPECT_FALSE(mcmc_watch_dead(&watch, 150, 60, 1000));
    EXPECT_TRUE(mcmc_watch_dead(&watch, 200, 41, 1000)) << "101 of 1000 in 100 steps";
    EXPECT_FALSE(mcmc_watch_dead(&watch, 300, 0, 1000));
    EXPECT_FALSE(mcmc_watch_dead(&watch, 400, 0, 0));
}

TEST(McmcWatch, WarnsWhileGaussiansDie) {
    cloud c(40, 16, 16);
    for (const bool runs_away : {false, true}) {
        training_settings settings = cloud::settings(240);
        settings.density.kind = DENSITY_MCMC;
        settings.density.from = 10, settings.density.every = 20, settings.density.until = 240;
        settings.density.most_gaussians = 40, settings.density.least_opacity = 0.005;
        settings.density.mcmc = {10, runs_away ? 1e6 : 0.01, 0.01};
        settings.rates.opacity_logit = runs_away ? 0.3f : 0.05f;
        int warnings = 0;
        EXPECT_EQ(warning_of(&c, settings, nullptr, &warnings), "");
        EXPECT_EQ(warnings, runs_away ? 1 : 0);
    }
}

} // namespace
