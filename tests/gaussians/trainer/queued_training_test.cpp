// SPDX-License-Identifier: MIT
// Training that learns the lists' lengths after the loss is queued ends in the bytes of training in runs of a step each,
// which wait for them, also where lists had no room and a forward pass was repeated.
#include "training_cloud.h"

namespace {

constexpr int steps = 14;

// Everything that training leaves: parameters, moments, exposures, losses. by_steps: in runs of one step, the first of
// which has no earlier picture to know a length from. repeats: of forward passes.
std::vector<char> train_bytes(const cloud &c, bool by_steps, uint64_t seed, int64_t *repeats) {
    training_settings settings = cloud::settings(steps);
    settings.seed = seed;
    settings.random_background = true;
    trained run(c, true);
    const training_state &state = run.state;
    const volatile sig_atomic_t at_once = by_steps;
    const training_observer observer = {NULL, NULL, 1, &at_once, NULL, NULL};
    std::vector<double> losses;
    *repeats = 0;
    while (state.place.views < steps) {
        const std::vector<double> more = run.train_on(c.views, settings, &observer);
        if (more.empty()) break;
        *repeats += run.report.repeats;
        losses.insert(losses.end(), more.begin(), more.end());
    }
    EXPECT_EQ(losses.size(), size_t(steps));
    std::vector<char> out;
    const auto add = [&out](const float *from, size_t bytes) {
        out.resize(out.size() + bytes);
        device_download(out.data() + out.size() - bytes, from, bytes);
    };
    for (const gs_gaussians *set : {&state.gaussians, &state.first_moment, &state.second_moment})
        add(set->mean, device_gaussians_bytes(set->count, set->sh_degree));
    add(state.exposure, size_t(state.exposures) * GS_EXPOSURE_VALUES * sizeof(float));
    const char *const all = reinterpret_cast<const char *>(losses.data());
    out.insert(out.end(), all, all + losses.size() * sizeof(double));
    return out;
}

TEST(QueuedTraining, EndsInTheBytesOfTrainingThatWaits) {
    const cloud c(200, 48, 40);
    int64_t most = 0;
    for (const uint64_t seed : {1, 2, 3}) {
        int64_t first, repeats;
        const std::vector<char> expected = train_bytes(c, true, seed, &first);
        EXPECT_EQ(first, steps) << "each run learns the room of its lists by a pass that it repeats";
        EXPECT_TRUE(train_bytes(c, false, seed, &repeats) == expected) << "seed " << seed;
        most = repeats > most ? repeats : most;
    }
    EXPECT_GT(most, 0) << "no list was without room, so that nothing was repeated";
}

} // namespace
