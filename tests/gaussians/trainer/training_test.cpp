// SPDX-License-Identifier: MIT
// How training ends: in the mean of what its last steps left, unless a signal ends it; in the bytes of training that waits
// for the lists' lengths; and with the name of the stage that made a number that is not finite.
#include "training_cloud.h"
#include "plan.h"
#include <algorithm>
#include <functional>
#include <tuple>

namespace training_test {

struct training_outcome {
    std::vector<std::vector<float>> seen; // the parameters after each step
    std::vector<float> last;              // when training has ended
    int64_t samples;                      // of an average that has not been taken
};

// end_at: the iteration after which a signal comes; it counts from the next step on.
training_outcome train(const cloud &c, double part, int64_t end_at = 0) {
    training_settings settings = cloud::settings(19);
    settings.average_part = part;
    training_outcome got;
    looking_on look([&](const training_state *state, const training_report *, looking_on *self) {
        got.seen.push_back(trained::read(state->gaussians));
        if (state->place.views == end_at) self->end = 1;
    });
    trained run(c);
    run.train_on(c.views, settings, &look.observer);
    got.last = trained::read(run.state.gaussians);
    got.samples = run.state.average.samples;
    return got;
}

TEST(AverageTraining, EndsInTheMeanOfItsLastStepsUnlessASignalEndsIt) {
    const cloud c(60, 32, 24);
    const training_outcome plain = train(c, 0), averaged = train(c, 11.5 / 19); // from step 9 on: 10 and 15
    ASSERT_EQ(plain.seen.size(), 19u);
    EXPECT_EQ(plain.last, plain.seen.back());
    EXPECT_EQ(averaged.samples, 0);
    EXPECT_EQ(averaged.seen.back(), averaged.last) << "the observer of the last step sees the result";
    for (size_t i = 0; i + 1 < 19; i++)
        ASSERT_EQ(averaged.seen[i], plain.seen[i]) << "the average changes no step before the last";
    std::vector<double> mean(plain.last.size());
    for (const int64_t step : {10, 15})
        for (size_t i = 0; i < mean.size(); i++) mean[i] += plain.seen[size_t(step - 1)][i] / 2.0;
    EXPECT_LE(relative(averaged.last, mean), 1e-7);
    EXPECT_GT(relative(averaged.last, plain.last), 1e-4) << "the mean is no other than the end";

    const training_outcome ended = train(c, 1, 12); // after step 13
    ASSERT_EQ(ended.seen.size(), 13u);
    EXPECT_EQ(ended.last, plain.seen[12]);
    EXPECT_EQ(ended.samples, 2);
}

// Everything that training leaves: parameters, moments, exposures, losses. by_steps: in runs of one step, each of which goes on
// from where the one before has stopped, and waits for the lists' lengths: it has no earlier picture to know one from. repeats: of
// forward passes.
std::vector<char> train_bytes(const cloud &c, const training_settings &settings, bool by_steps,
                              int64_t *repeats) {
    trained run(c, true);
    const training_state &state = run.state;
    const volatile sig_atomic_t at_once = by_steps;
    const training_observer observer = {nullptr, nullptr, 1, &at_once, nullptr};
    std::vector<double> losses;
    *repeats = 0;
    while (state.place.views < 14) {
        const std::vector<double> more = run.train_on(c.views, settings, &observer);
        if (more.empty()) break;
        *repeats += run.report.repeats;
        losses.insert(losses.end(), more.begin(), more.end());
    }
    EXPECT_EQ(losses.size(), 14u);
    std::vector<char> out;
    const auto add = [&out](const void *from, size_t bytes) {
        out.insert(out.end(), static_cast<const char *>(from), static_cast<const char *>(from) + bytes);
    };
    for (const gs_gaussians *set : {&state.gaussians, &state.first_moment, &state.second_moment}) {
        const std::vector<float> values = trained::read(*set);
        add(values.data(), values.size() * sizeof(float));
    }
    add(run.exposure().data(), run.exposure().size() * sizeof(float));
    add(losses.data(), losses.size() * sizeof(double));
    return out;
}

TEST(QueuedTraining, EndsInTheBytesOfTrainingThatWaitsAndGoesOn) {
    int64_t most = 0;
    for (const uint64_t seed : {1, 2, 3, 4}) {
        // Smaller pictures and two views a step first, then three: steps end at 2, 4, 5, 8, 11, 14.
        const bool mixed = seed == 4;
        const cloud c(mixed ? 60 : 200, mixed ? 131 : 48, mixed ? 128 : 40);
        training_settings settings = cloud::settings(14);
        settings.seed = int64_t(seed);
        settings.random_background = true;
        fault why;
        ASSERT_TRUE(resolution_schedule_read(mixed ? "2:36:2" : "none", &settings.resolutions, &why))
            << why.text;
        if (mixed) settings.batch = 3, settings.exposure_rate = 0.3f; // that gains differ
        int64_t first, repeats;
        const std::vector<char> expected = train_bytes(c, settings, true, &first);
        EXPECT_TRUE(mixed || first == 14) << "a run learns the room of lists by a pass that it repeats";
        EXPECT_TRUE(train_bytes(c, settings, false, &repeats) == expected) << "seed " << seed;
        most = std::max(most, repeats);
    }
    EXPECT_GT(most, 0) << "no list was without room, so that nothing was repeated";
}

TEST(CheckFinite, NamesTheStage) {
    // The last: a log scale of the first Gaussian, or 0.
    const std::tuple<std::string, const char *, std::function<void(training_settings *)>, float> cases[] = {
        {"the forward and backward pass", "", [](auto *s) { s->background[1] = NAN; }, 0},
        {"the penalty of density control", "log scales",
         [](auto *s) {
             s->density.kind = DENSITY_MCMC, s->density.until = 9, s->density.mcmc.scale_weight = 3e38;
         },
         10},
        {"gs_adam", "mean of Gaussian", [](auto *s) { s->rates.mean = s->final_mean_rate = 3e38f; }, 0},
        {"", "", [](auto *) {}, 0}};
    for (const auto &[stage, what, change, log_scale] : cases)
        for (const bool check : {true, false}) {
            const cloud c; // whose group a failure ends
            trained run(c, true);
            training_settings settings = cloud::settings(3);
            settings.check_finite = check;
            change(&settings);
            if (log_scale > 0) device_upload(run.state.gaussians.log_scale, &log_scale, sizeof log_scale);
            fault why = {};
            const bool done = train_on(nullptr, &run.state, c.views.data(), c.views.size(), &settings,
                                       nullptr, &run.report, &why);
            const std::string text = done ? "" : why.text;
            if (stage.empty()) {
                EXPECT_TRUE(done) << text;
                continue;
            }
            EXPECT_EQ(text.find("--check-finite: " + stage) != std::string::npos, check)
                << stage << ": " << text;
            EXPECT_TRUE(!check || text.find(what) != std::string::npos) << text;
        }
}

} // namespace training_test
