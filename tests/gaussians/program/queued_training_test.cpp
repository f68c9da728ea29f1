// SPDX-License-Identifier: MIT
// Training that learns the lists' lengths after the loss is queued ends in the bytes of training that waits
// for them, also where lists had no room and a forward pass was repeated.
#include "view/device_gaussians.h"
extern "C" {
#include "scene.h"
}
#include "training/trainer.h"
#include <cmath>
#include <cstring>
#include <device.h>
#include <gtest/gtest.h>
#include <vector>

namespace {

constexpr int views_in_all = 6, steps = 14;

// A cloud of Gaussians, and cameras from far to near: their lists have very different lengths.
class cloud {
  public:
    cloud() {
        const int width = 96, height = 80;
        fault why;
        EXPECT_TRUE(scene_open(&host, 200, 1, &why)) << why.text;
        for (int64_t i = 0; i < host.count; i++) {
            const float mean[3] = {0.2f * float(i % 10) - 0.9f, 0.2f * float(i / 10 % 10) - 0.9f,
                                   0.1f * std::sin(float(i))};
            const float quaternion[4] = {1, 0.1f * float(i % 7), -0.05f * float(i % 5), 0.05f};
            std::memcpy(host.mean + 3 * i, mean, sizeof mean);
            std::memcpy(host.quaternion + 4 * i, quaternion, sizeof quaternion);
            for (int k = 0; k < 3; k++) host.log_scale[3 * i + k] = -1.7f + 0.2f * float(k);
            host.opacity_logit[i] = 0.5f * std::cos(float(i));
            for (int k = 0; k < 12; k++) host.sh[12 * i + k] = 0.1f * std::sin(float(12 * i + k));
        }
        pictures.resize(views_in_all), views.resize(views_in_all);
        for (int v = 0; v < views_in_all; v++) {
            gs_camera camera = {width, height, 80,         81, 48, 40, {1, 0, 0, 0, 1, 0, 0, 0, 1},
                                {},    0.2f,   GS_PINHOLE, {}, 0};
            camera.translation[2] = 3 * float(views_in_all - v);
            image *const picture = &pictures[size_t(v)];
            EXPECT_TRUE(image_open(picture, width, height, 3, &why)) << why.text;
            for (int i = 0; i < 3 * width * height; i++)
                picture->pixels[i] = uint8_t(127 + 100 * std::sin(0.03 * i + v));
            EXPECT_TRUE(target_view_open(&views[size_t(v)], &camera, picture, &why)) << why.text;
        }
    }
    ~cloud() {
        scene_close(&host);
        for (target_view &view : views) target_view_close(&view);
        for (image &picture : pictures) image_close(&picture);
    }
    cloud(const cloud &) = delete;
    cloud &operator=(const cloud &) = delete;

    // Everything that training leaves: parameters, moments and exposures. repeats: of forward passes.
    std::vector<char> train_bytes(bool wait_for_pairs, uint64_t seed, int64_t *repeats) const {
        training_settings settings = {};
        settings.iterations = steps;
        settings.seed = seed;
        settings.policy = {DISTWAR_FIXED, 0};
        settings.wait_for_pairs = wait_for_pairs;
        settings.rates = {1e-2f, 5e-3f, 1e-3f, 5e-2f, 2.5e-3f, 1e-4f, 0};
        settings.final_mean_rate = 1e-3f;
        settings.exposure_rate = 1e-2f;
        settings.random_background = true;
        settings.density.kind = DENSITY_NONE;
        settings.density.every = 100;
        training_state state = {};
        training_state_open(&state, &host);
        training_state_open_exposures(&state, views_in_all);
        training_report report = {};
        fault why;
        EXPECT_TRUE(train(&state, views.data(), views.size(), &settings, NULL, &report, &why)) << why.text;
        *repeats = report.repeats;
        std::vector<char> out;
        const auto add = [&out](const float *from, size_t bytes) {
            out.resize(out.size() + bytes);
            device_download(out.data() + out.size() - bytes, from, bytes);
        };
        for (const gs_gaussians *set : {&state.gaussians, &state.first_moment, &state.second_moment})
            add(set->mean, device_gaussians_bytes(set->count, set->sh_degree));
        add(state.exposure, views_in_all * TRAINING_EXPOSURE_FLOATS * sizeof(float));
        const char *losses = reinterpret_cast<const char *>(report.losses);
        out.insert(out.end(), losses, losses + steps * sizeof(double));
        training_report_close(&report);
        training_state_close(&state);
        return out;
    }

    gs_gaussians host = {};
    std::vector<image> pictures;
    std::vector<target_view> views;
};

TEST(QueuedTraining, EndsInTheBytesOfTrainingThatWaits) {
    const cloud c;
    int64_t most = 0;
    for (const uint64_t seed : {1, 2, 3}) {
        int64_t none, repeats;
        const std::vector<char> expected = c.train_bytes(true, seed, &none);
        EXPECT_EQ(none, 0);
        EXPECT_TRUE(c.train_bytes(false, seed, &repeats) == expected) << "seed " << seed;
        most = repeats > most ? repeats : most;
    }
    EXPECT_GT(most, 0) << "no list was without room, so that nothing was repeated";
}

} // namespace
