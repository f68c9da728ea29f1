// SPDX-License-Identifier: MIT
// Gains of photographs: known ones are found, small ones are given up, and those that neighbours tell stay in the scene.
#include "frame.h"
#include "views.h"
#include "training_cloud.h"
#include <algorithm>
#include <array>
#include <random>

namespace {

constexpr int exposed_views = 18, exposed_width = 16, exposed_height = 16; // a tile
using gains = std::array<double, 3>;

// A small scene, photographs of it from places along a line, whose colours are multiplied, and its own colours forgotten.
class gallery {
  public:
    // stride: the v-th photograph is from the v * stride-th place, in turns.
    explicit gallery(const std::vector<gains> &log_gains, int stride = 1)
        : pictures(exposed_views), views(exposed_views) {
        fault why;
        EXPECT_TRUE(scene_open(&truth, 24, 1, &why)) << why.text;
        std::mt19937 random(3);
        const auto unit = [&] { return float(random() >> 8) * 0x1p-24f; };
        for (int64_t i = 0; i < truth.count; i++) {
            for (int k = 0; k < 3; k++) {
                truth.mean[3 * i + k] = (k == 2 ? 0.5f : 2.4f) * (unit() - 0.5f);
                truth.log_scale[3 * i + k] = -1.3f + 0.4f * unit();
                truth.sh[12 * i + k] = 1.6f * (unit() - 0.5f);
            }
            truth.quaternion[4 * i] = 1;
            truth.opacity_logit[i] = 2;
        }
        for (int v = 0; v < exposed_views; v++) {
            const camera_and_picture seen(truth, v * stride % exposed_views);
            image &picture = pictures[size_t(v)];
            EXPECT_TRUE(image_open(&picture, exposed_width, exposed_height, 3, &why)) << why.text;
            for (size_t i = 0; i < 3 * exposed_width * exposed_height; i++)
                picture.pixels[i] = uint8_t(std::lround(
                    std::min(255., seen.picture.pixels[i] * std::exp(log_gains[size_t(v)][i % 3]))));
            EXPECT_TRUE(target_view_open(&views[size_t(v)], &seen.camera, &picture, &why)) << why.text;
        }
    }
    ~gallery() {
        scene_close(&truth);
        for (target_view &view : views) target_view_close(&view);
        for (image &picture : pictures) image_close(&picture);
    }
    gallery(const gallery &) = delete;
    gallery &operator=(const gallery &) = delete;

    // What a scene looks like from the place of a view, or between two.
    struct camera_and_picture {
        camera_and_picture(const gs_gaussians &host, double place) {
            camera.width = exposed_width, camera.height = exposed_height;
            camera.fx = camera.fy = 16, camera.cx = exposed_width / 2.f, camera.cy = exposed_height / 2.f;
            camera.near_plane = 0.2f;
            for (int k = 0; k < 3; k++) camera.rotation[4 * k] = 1;
            camera.translation[0] = float(1 - 2 * place / (exposed_views - 1)), camera.translation[2] = 3;
            gs_gaussians device = device_gaussians_from(&host);
            const float background[3] = {0.3f, 0.3f, 0.3f};
            picture = rendered(device, camera, background);
            device_gaussians_close(&device);
        }
        ~camera_and_picture() { image_close(&picture); }
        camera_and_picture(const camera_and_picture &) = delete;
        gs_camera camera = {};
        image picture = {};
    };

    gs_gaussians truth = {};
    std::vector<image> pictures;
    std::vector<target_view> views;
};

struct learned {
    double psnr; // of places between the photographs'
    exposure_rule rule;
    int64_t exposures;       // 0: given up
    int64_t measured, ended; // measurements of validation views since then; run_place.ended
    std::vector<gains> log_gains;
};

learned learn(gallery &of, bool exposures, int64_t iterations = 540, bool validates = false) {
    const alone group;
    training_settings settings = cloud::settings(iterations);
    settings.rates = {2e-4f, 1e-3f, 1e-3f, 1e-2f, 1e-2f, 1e-3f, 0};
    settings.final_mean_rate = 2e-6f;
    settings.exposure_rate = 0.05f;
    of.views[4].validates = validates;
    if (validates) settings.validation_until = 2, settings.validate_every = 12;
    for (float &value : settings.background) value = 0.3f;
    gs_gaussians start;
    fault why;
    EXPECT_TRUE(scene_open(&start, of.truth.count, 1, &why)) << why.text;
    const auto copy = [&](float *to, const float *from, int64_t n) {
        std::copy_n(from, n * start.count, to);
    };
    copy(start.mean, of.truth.mean, 3), copy(start.log_scale, of.truth.log_scale, 3);
    copy(start.quaternion, of.truth.quaternion, 4), copy(start.opacity_logit, of.truth.opacity_logit, 1);
    trained run({group, nullptr}, start, exposures ? exposed_views : 0);
    const training_state &state = run.state;
    run.train_on(of.views, settings);
    device_gaussians_download(&start, &state.gaussians);
    learned out = {0, state.exposed, state.exposures, state.learning.count, state.place.ended, {}};
    out.log_gains.resize(exposed_views);
    double squares = 0;
    size_t values = 0;
    for (int v = 0; v + 1 < exposed_views; v++) {
        const gallery::camera_and_picture wanted(of.truth, v + 0.5), got(start, v + 0.5);
        for (int i = 0; i < 3 * exposed_width * exposed_height; i++, values++)
            squares += std::pow((wanted.picture.pixels[i] - got.picture.pixels[i]) / 255., 2);
    }
    out.psnr = -10 * std::log10(squares / double(values));
    const std::vector<float> log_gains = run.exposure();
    for (size_t i = 0; i < log_gains.size(); i++)
        out.log_gains[i / GS_EXPOSURE_VALUES][i % GS_EXPOSURE_VALUES] = double(log_gains[i]);
    scene_close(&start);
    return out;
}

// Independent ones, whose means are 0.
std::vector<gains> random_gains(double spread) {
    std::vector<gains> out(exposed_views);
    std::mt19937 random(5);
    std::normal_distribution<double> normal(0, spread);
    gains mean = {};
    for (gains &of : out)
        for (size_t k = 0; k < 3; k++) of[k] = normal(random), mean[k] += of[k] / exposed_views;
    for (gains &of : out)
        for (size_t k = 0; k < 3; k++) of[k] -= mean[k];
    return out;
}

TEST(Exposures, KnownOnesAreFoundAndTheSceneIsBetterForIt) {
    const std::vector<gains> known = random_gains(0.07);
    gallery of(known);
    const learned without = learn(of, false), with = learn(of, true);
    EXPECT_EQ(with.rule, EXPOSURE_TOGETHER);
    EXPECT_GT(with.psnr, without.psnr + 3) << without.psnr;
    gains sum = {};
    for (size_t v = 0; v < exposed_views; v++)
        for (size_t k = 0; k < 3; k++) {
            EXPECT_NEAR(with.log_gains[v][k], known[v][k], 0.03) << v << " " << k;
            sum[k] += with.log_gains[v][k];
        }
    for (const double one : sum) EXPECT_NEAR(one, 0, 1e-5);
}

// Of the validation view, by the steps of its measurements alone.
TEST(Exposures, OfViewsThatAreMeasuredAreFoundToo) {
    const std::vector<gains> known = random_gains(0.07);
    gallery of(known);
    const learned with = learn(of, true, 270, true);
    ASSERT_GT(with.exposures, 0);
    for (size_t k = 0; k < 3; k++) EXPECT_NEAR(with.log_gains[4][k], known[4][k], 0.04) << k;
}

TEST(Exposures, ThatDifferLittleAreGivenUp) {
    gallery of(random_gains(0.008));
    const learned with = learn(of, true, 270, true);
    EXPECT_EQ(with.exposures, 0);
    const int64_t last =
        with.ended > 0 ? with.ended : 263;          // of the measurements after iterations 59, 71, ...
    EXPECT_EQ(with.measured, (last - 59) / 12 + 1); // they began anew after 54
}

// A drift with the photographs' places, or with their order, of which neighbours have the same in the mean.
TEST(Exposures, WhatNeighboursTellStaysInTheScene) {
    for (const bool in_order : {false, true}) {
        std::vector<gains> drift(exposed_views);
        for (size_t v = 0; v < exposed_views; v++) drift[v].fill(0.25 * std::sin(0.35 * double(v)));
        gallery of(drift, in_order ? 5 : 1);
        const learned with = learn(of, true);
        ASSERT_EQ(with.rule, in_order ? EXPOSURE_IN_ORDER : EXPOSURE_NEIGHBOURS);
        ASSERT_GT(with.exposures, 0);
        int32_t order[exposed_views];
        neighbours near[exposed_views];
        fault why;
        ASSERT_TRUE(neighbours_choose(of.views.data(), exposed_views, in_order, order, near, &why));
        for (size_t v = 0; v < exposed_views; v++) {
            double sum = 0;
            for (int64_t i = 0; i < near[v].count; i++)
                sum += with.log_gains[size_t(order[near[v].first + i])][0];
            EXPECT_NEAR(sum, 0, 1e-6);
            EXPECT_LT(std::abs(with.log_gains[v][0]), 0.1);
        }
    }
}

} // namespace
