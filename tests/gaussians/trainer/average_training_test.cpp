// SPDX-License-Identifier: MIT
// Training ends in the mean of what its last steps left, unless a signal ends it.
#include "training_cloud.h"
#include <algorithm>

namespace average_training_test {

constexpr int64_t steps = 19;

struct training_outcome {
    std::vector<std::vector<float>> seen; // the parameters after each step
    std::vector<float> last;              // when training has ended
    int64_t samples;                      // of an average that has not been taken
};

struct watcher {
    training_outcome *got;
    volatile sig_atomic_t end;
    int64_t end_at; // 0: never
};

bool watch(void *context, const training_state *state, const training_report *, fault *) {
    watcher *const w = static_cast<watcher *>(context);
    w->got->seen.push_back(trained::read(state->gaussians));
    if (state->place.views == w->end_at) w->end = 1; // as a signal does: it counts from the next step on
    return true;
}

training_outcome train(const cloud &c, double part, int64_t end_at = 0) {
    training_settings settings = cloud::settings(steps);
    settings.average_part = part;
    training_outcome got;
    watcher w = {&got, 0, end_at};
    const training_observer observer = {watch, &w, 1, &w.end, nullptr, nullptr};
    trained run(c);
    run.train_on(c.views, settings, &observer);
    got.last = trained::read(run.state.gaussians);
    got.samples = run.state.average.samples;
    return got;
}

double distance(const std::vector<float> &a, const std::vector<double> &b) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < a.size(); i++) difference += pow(a[i] - b[i], 2), norm += pow(b[i], 2);
    return std::sqrt(difference / norm);
}

TEST(AverageTraining, EndsInTheMeanOfItsLastSteps) {
    const cloud c(60, 32, 24);
    const training_outcome plain = train(c, 0), averaged = train(c, 11.5 / 19); // from step 9 on: 10 and 15
    ASSERT_EQ(plain.seen.size(), size_t(steps));
    EXPECT_EQ(plain.last, plain.seen.back());
    EXPECT_EQ(averaged.samples, 0);
    EXPECT_EQ(averaged.seen.back(), averaged.last) << "the observer of the last step sees the result";
    for (size_t i = 0; i + 1 < size_t(steps); i++)
        ASSERT_EQ(averaged.seen[i], plain.seen[i]) << "the average changes no step before the last";
    std::vector<double> mean(plain.last.size());
    for (const int64_t step : {10, 15})
        for (size_t i = 0; i < mean.size(); i++) mean[i] += plain.seen[size_t(step - 1)][i] / 2.0;
    EXPECT_LE(distance(averaged.last, mean), 1e-7);
    const std::vector<double> end(plain.last.begin(), plain.last.end());
    EXPECT_GT(distance(averaged.last, end), 1e-4) << "the mean is no other than the end";
}

TEST(AverageTraining, ASignalLeavesTheLastStepAndTheAverage) {
    const cloud c(60, 32, 24);
    const training_outcome plain = train(c, 0), ended = train(c, 1, 12); // ends after step 13
    ASSERT_EQ(ended.seen.size(), 13u);
    EXPECT_EQ(ended.last, plain.seen[12]);
    EXPECT_EQ(ended.samples, 2);
}

} // namespace average_training_test
