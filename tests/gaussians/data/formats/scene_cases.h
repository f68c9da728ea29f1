// SPDX-License-Identifier: MIT
// Scenes for the tests of formats, and how far apart two are.
#ifndef SCENE_CASES_H
#define SCENE_CASES_H

#include "scene.h"
#include "files.h"
#include <array>
#include <cmath>
#include <random>

struct scene_in_memory : gs_gaussians {
    scene_in_memory() : gs_gaussians{} {}
    ~scene_in_memory() { scene_close(this); }
    scene_in_memory(const scene_in_memory &) = delete;
    void open(int64_t n, int degree) {
        fault why;
        scene_close(this);
        ASSERT_TRUE(scene_open(this, n, degree, &why)) << why.text;
    }
    int64_t sh_floats() const { return 3 * int64_t(sh_degree + 1) * (sh_degree + 1); }
};

// Values as a trained scene has them; quaternions of any length.
inline void fill_randomly(scene_in_memory *g, int64_t count, int degree, unsigned seed) {
    g->open(count, degree);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < 3 * count; i++) g->mean[i] = 3 * normal(random);
    for (int64_t i = 0; i < 3 * count; i++) g->log_scale[i] = -4 + normal(random);
    for (int64_t i = 0; i < 4 * count; i++) g->quaternion[i] = 2 * normal(random);
    for (int64_t i = 0; i < count; i++) g->opacity_logit[i] = 2 * normal(random);
    for (int64_t i = 0; i < g->sh_floats() * count; i++)
        g->sh[i] = std::tanh(normal(random)) * (i % g->sh_floats() < 3 ? 2.0f : 0.9f);
}

inline double opacity_of(const gs_gaussians &g, int64_t i) {
    return 1 / (1 + std::exp(-double(g.opacity_logit[i])));
}

// The rotation of a Gaussian, without the signs of its axes, which do not matter.
inline std::array<double, 9> axes_of(const gs_gaussians &g, int64_t i) {
    double q[4], square = 0;
    for (int k = 0; k < 4; k++) square += double(g.quaternion[4 * i + k]) * g.quaternion[4 * i + k];
    for (int k = 0; k < 4; k++) q[k] = g.quaternion[4 * i + k] / std::sqrt(square);
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    return {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
            2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
}

// What a format may change: absolute differences.
struct tolerances {
    double mean, log_scale, axes, opacity, sh0, sh1, sh_rest;
};

// The Gaussian of `in` whose mean is nearest: a format may change their order.
inline int64_t nearest_to(const gs_gaussians &in, const float mean[3]) {
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < in.count; i++) {
        double square = 0;
        for (int k = 0; k < 3; k++) square += std::pow(double(in.mean[3 * i + k]) - mean[k], 2);
        if (square < least) best = i;
        least = std::min(least, square);
    }
    return best;
}

inline void expect_near(const gs_gaussians &got, const gs_gaussians &sent, const tolerances &t) {
    ASSERT_EQ(got.count, sent.count);
    ASSERT_EQ(got.sh_degree, sent.sh_degree);
    EXPECT_EQ(got.antialias, sent.antialias);
    const int64_t floats = 3 * int64_t(sent.sh_degree + 1) * (sent.sh_degree + 1);
    for (int64_t i = 0; i < sent.count; i++) {
        const int64_t j = nearest_to(got, sent.mean + 3 * i);
        for (int k = 0; k < 3; k++) {
            ASSERT_NEAR(got.mean[3 * j + k], sent.mean[3 * i + k], t.mean) << i;
            ASSERT_NEAR(got.log_scale[3 * j + k], sent.log_scale[3 * i + k], t.log_scale) << i;
        }
        ASSERT_NEAR(opacity_of(got, j), opacity_of(sent, i), t.opacity) << i;
        const std::array<double, 9> a = axes_of(got, j), b = axes_of(sent, i);
        for (size_t k = 0; k < 9; k++) ASSERT_NEAR(a[k], b[k], t.axes) << i;
        for (int64_t k = 0; k < floats; k++)
            ASSERT_NEAR(got.sh[j * floats + k], sent.sh[i * floats + k],
                        k < 3    ? t.sh0
                        : k < 12 ? t.sh1
                                 : t.sh_rest)
                << i << " " << k;
    }
}

// Writes with a variant of the format: scene_stream.variant.
inline bool write_variant(const std::string &path, const gs_gaussians &scene, int variant, fault *why) {
    scene_stream s;
    if (!scene_stream_open(&s, path.c_str(), &scene, nullptr, why)) return false;
    s.variant = variant;
    if (scene_stream_put(&s, &scene, why)) return scene_stream_commit(&s, why);
    scene_stream_discard(&s);
    return false;
}

#endif
