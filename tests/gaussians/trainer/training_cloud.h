// SPDX-License-Identifier: MIT
// Scenes and views for training without files.
#ifndef TRAINING_CLOUD_H
#define TRAINING_CLOUD_H

#include "arrays.h"
#include "device_vector.h"
#include "frame.h"
extern "C" {
#include "scene.h"
}
#include "trainer.h"
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <gtest/gtest.h>
#include <vector>

// The call, which gets &why, must be done.
#define EXPECT_DONE(call)                                                                                    \
    do {                                                                                                     \
        fault why = {};                                                                                      \
        EXPECT_TRUE(call) << why.text;                                                                       \
    } while (0)

// One that is closed at its end.
template <typename T, void (*close)(T *)>
struct owned : T {
    owned() : T{} {}
    ~owned() { close(this); }
    owned(const owned &) = delete;
    owned &operator=(const owned &) = delete;
};

// A group of one rank.
struct alone : std::unique_ptr<ranks, void (*)(ranks *)> {
    alone() : unique_ptr(ranks_alone_open(), ranks_alone_close) {}
    operator ranks *() const { return get(); }
};

// Looks along z from the origin at what is in the middle of the picture. It has square pixels.
inline gs_camera forward_camera(int width, int height, float focal) {
    gs_camera camera = {};
    camera.width = width, camera.height = height;
    camera.fx = camera.fy = focal;
    camera.cx = float(width) / 2, camera.cy = float(height) / 2, camera.near_plane = 0.2f;
    for (int k = 0; k < 3; k++) camera.rotation[4 * k] = 1;
    return camera;
}

// Views on the device, of pictures that it owns.
struct photographs {
    photographs() = default;
    ~photographs() { clear(); }
    photographs(const photographs &) = delete;
    photographs &operator=(const photographs &) = delete;
    // The i-th byte of its picture is value(i).
    template <typename F>
    void add(const gs_camera &camera, F value) {
        image *const picture = &pictures.emplace_back();
        EXPECT_DONE(image_open(picture, camera.width, camera.height, 3, &why));
        for (int i = 0; i < 3 * camera.width * camera.height; i++) picture->pixels[i] = uint8_t(value(i));
        EXPECT_DONE(target_view_open(&views.emplace_back(), &camera, picture, &why));
    }
    void clear() {
        for (target_view &view : views) target_view_close(&view);
        views.clear(), pictures.clear();
    }

    std::deque<owned<image, image_close>> pictures;
    std::vector<target_view> views;
};

// What a scene (device) looks like.
inline std::vector<uint8_t> rendered(const gs_gaussians &scene, const gs_camera &camera,
                                     const float background[3]) {
    owned<frame, frame_close> f;
    owned<image, image_close> picture;
    frame_render(&f, &scene, scene.sh_degree, &camera, background);
    EXPECT_DONE(frame_picture(&f, &picture, &why));
    return {picture.pixels, picture.pixels + 3 * camera.width * camera.height};
}

// |got - expected| / |expected|; infinite where nothing is expected.
template <typename T>
double relative(const std::vector<float> &got, const std::vector<T> &expected) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < got.size(); i++) {
        error += std::pow(double(got[i]) - double(expected[i]), 2);
        norm += std::pow(double(expected[i]), 2);
    }
    return norm > 0 ? std::sqrt(error / norm) : INFINITY;
}

// An observer of every step, which may set `end`, as a signal does.
struct looking_on {
    using function = std::function<void(const training_state *, const training_report *, looking_on *)>;
    explicit looking_on(function f) : call(std::move(f)), observer{look, this, 1, &end, nullptr} {}
    looking_on(const looking_on &) = delete;
    function call;
    volatile sig_atomic_t end = 0;
    const training_observer observer;

  private:
    static bool look(void *context, const training_state *state, const training_report *report, fault *) {
        looking_on *const self = static_cast<looking_on *>(context);
        self->call(state, report, self);
        return true;
    }
};

// A cloud of Gaussians, and cameras from far to near: their lists have very different lengths.
class cloud : public photographs {
  public:
    explicit cloud(int64_t count = 200, int width = 96, int height = 80) {
        EXPECT_DONE(scene_open(&host, count, 1, &why));
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
        for (int v = 0; v < views_in_all; v++) {
            gs_camera camera = forward_camera(width, height, 5 * float(width) / 6);
            camera.fy = camera.fx + 1;
            camera.translation[2] = 3 * float(views_in_all - v);
            add(camera, [v](int i) { return 127 + 100 * std::sin(0.03 * i + v); });
        }
    }

    // Without density control; sums that do not depend on the order of threads.
    static training_settings settings(int64_t iterations) {
        training_settings out = {};
        out.iterations = iterations;
        out.policy = {DISTWAR_FIXED, 0};
        out.rates = {1e-2f, 5e-3f, 1e-3f, 5e-2f, 2.5e-3f, 1e-4f, 0};
        out.final_mean_rate = 1e-3f;
        out.exposure_rate = 1e-2f;
        out.density.kind = DENSITY_NONE;
        out.density.every = 100;
        return out;
    }

    static constexpr int views_in_all = 6;
    const alone group;
    owned<gs_gaussians, scene_close> host;
};

// A state of training that is read back.
class trained {
  public:
    explicit trained(const cloud &c, bool exposures = false)
        : trained({c.group, nullptr}, c.host, exposures ? cloud::views_in_all : 0) {}
    trained(const training_place &where, const gs_gaussians &host, int64_t exposures) {
        EXPECT_TRUE(training_state_open_on(&state, &where, &host));
        if (exposures > 0) training_state_open_exposures(&state, exposures);
    }

    // The losses of a run, whose report stays until the next.
    std::vector<double> train_on(const std::vector<target_view> &views, const training_settings &settings,
                                 const training_observer *observer = nullptr) {
        training_report_close(&report);
        static_cast<training_report &>(report) = {};
        EXPECT_DONE(
            ::train_on(nullptr, &state, views.data(), views.size(), &settings, observer, &report, &why));
        return {report.losses, report.losses + (report.iterations - report.first_iteration + 1)};
    }
    // All arrays, one after another.
    static std::vector<float> read(const gs_gaussians &set) {
        const gs_arrays arrays = gs_arrays_of(&set);
        std::vector<float> out;
        for (int a = 0; a < GS_ARRAYS; a++) {
            const auto values = downloaded(arrays.of[a], size_t(set.count * arrays.width[a]));
            out.insert(out.end(), values.begin(), values.end());
        }
        return out;
    }
    std::vector<float> read() const { return read(state.gaussians); }
    std::vector<float> exposure() const {
        return downloaded(state.exposure, size_t(state.exposures) * GS_EXPOSURE_VALUES);
    }
    owned<training_state, training_state_close> state;
    owned<training_report, training_report_close> report;
};

#endif
