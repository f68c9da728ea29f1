// SPDX-License-Identifier: MIT
// Training that learns the lists' lengths after the loss is queued ends in the bytes of training that waits
// for them, also where lists had no room and a forward pass was repeated.
#include "training_cloud.h"

namespace {

constexpr int steps = 14;

// Everything that training leaves: parameters, moments and exposures. repeats: of forward passes.
std::vector<char> train_bytes(const cloud &c, bool wait_for_pairs, uint64_t seed, int64_t *repeats) {
    training_settings settings = cloud::settings(steps);
    settings.seed = seed;
    settings.wait_for_pairs = wait_for_pairs;
    settings.random_background = true;
    training_state state = {};
    training_state_open(&state, &c.host);
    training_state_open_exposures(&state, cloud::views_in_all);
    training_report report = {};
    fault why;
    EXPECT_TRUE(train(&state, c.views.data(), c.views.size(), &settings, NULL, &report, &why)) << why.text;
    *repeats = report.repeats;
    std::vector<char> out;
    const auto add = [&out](const float *from, size_t bytes) {
        out.resize(out.size() + bytes);
        device_download(out.data() + out.size() - bytes, from, bytes);
    };
    for (const gs_gaussians *set : {&state.gaussians, &state.first_moment, &state.second_moment})
        add(set->mean, device_gaussians_bytes(set->count, set->sh_degree));
    add(state.exposure, cloud::views_in_all * TRAINING_EXPOSURE_FLOATS * sizeof(float));
    const char *losses = reinterpret_cast<const char *>(report.losses);
    out.insert(out.end(), losses, losses + steps * sizeof(double));
    training_report_close(&report);
    training_state_close(&state);
    return out;
}

TEST(QueuedTraining, EndsInTheBytesOfTrainingThatWaits) {
    const cloud c;
    int64_t most = 0;
    for (const uint64_t seed : {1, 2, 3}) {
        int64_t none, repeats;
        const std::vector<char> expected = train_bytes(c, true, seed, &none);
        EXPECT_EQ(none, 0);
        EXPECT_TRUE(train_bytes(c, false, seed, &repeats) == expected) << "seed " << seed;
        most = repeats > most ? repeats : most;
    }
    EXPECT_GT(most, 0) << "no list was without room, so that nothing was repeated";
}

} // namespace
