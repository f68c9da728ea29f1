// SPDX-License-Identifier: MIT
// Lookup, levels and their adjoints against the reference, with every reduction.
#include "cubemap_reference.h"
#include "scenes.h"

namespace {

struct lookup_case {
    const char *name;
    int width, height, size;
    bool random; // directions and levels of detail in no order; else those of a torus
};

const lookup_case cases[] = {
    {"a mesh, small faces", 64, 48, 16, false},
    {"a mesh, large faces", 50, 37, 256, false},
    {"a mesh, one texel a face", 40, 30, 1, false},
    {"random directions", 45, 33, 32, true},
};

class looked_up {
  public:
    test_mesh shape = torus(40, 16);
    seen s;
    std::vector<float> sample;
    std::vector<double> texel; // all levels

    explicit looked_up(const lookup_case &c)
        : s(shape.host, scene_camera(1, 8, c.width, c.height), c.size), sample(s.samples()) {
        write(s.frame.texel, random_weights(18 * size_t(c.size) * size_t(c.size), 1));
        if (c.random) {
            const std::vector<double> random = random_weights(sample.size(), 2);
            for (size_t k = 0; k < sample.size(); k++)
                sample[k] = float(k % 4 < 3 ? random[k] : (random[k] * 0.7 + 0.3) * (s.frame.levels - 1));
            for (size_t k = 3; k < sample.size(); k += 4) sample[k] = sample[k] < 0 ? -1 : sample[k];
            device_upload(s.frame.sample, sample.data(), sample.size() * sizeof(float));
        }
        cubemap_render(&s.frame);
        const std::vector<float> all = downloaded(s.frame.texel, 3 * size_t(s.frame.texels));
        texel.assign(all.begin(), all.end());
    }
    // The sums of all levels.
    std::vector<float> backward(distwar_policy policy) {
        write(s.frame.color_gradient, gradient_like_l1(3 * s.pixels()));
        cubemap_render_backward(&s.frame, policy, nullptr);
        const size_t stride = size_t(s.frame.sums.stride);
        const std::vector<float> sums = downloaded(s.frame.sums.sums, size_t(s.frame.texels) * stride);
        std::vector<float> out;
        for (size_t k = 0; k < sums.size(); k++)
            if (k % stride < 3) out.push_back(sums[k]);
        return out;
    }
};

// What is shown, its adjoint, and the lanes of the four texels of each of two levels.
TEST(CubemapRender, IsThatOfTheReference) {
    for (const lookup_case &c : cases) {
        looked_up d(c);
        const size_t pixels = d.s.pixels();
        const std::vector<double> weights = gradient_like_l1(3 * pixels);
        std::vector<double> shown(3 * pixels, SCENE_BACKGROUND), gradient(3 * size_t(d.s.frame.texels));
        size_t levels = 0; // of all pixels
        for (size_t p = 0; p < pixels; p++) {
            const float *at = &d.sample[4 * p];
            if (at[3] < 0) continue; // nothing is mirrored
            const double direction[3] = {at[0], at[1], at[2]},
                         by_color[3] = {weights[p], weights[pixels + p], weights[2 * pixels + p]};
            double color[3];
            reference_lookup(d.texel.data(), c.size, direction, at[3], color);
            for (size_t i = 0; i < 3; i++) shown[i * pixels + p] = color[i];
            reference_lookup_backward(gradient.data(), c.size, direction, at[3], by_color);
            levels += at[3] == std::floor(at[3]) ? 1 : 2;
        }
        EXPECT_GT(levels, pixels / 5) << c.name;
        expect_color(c.name, downloaded(d.s.frame.color, 3 * pixels), shown,
                     4e-7 * c.size + 1e-5); // a direction rounds by that much of a texel
        expect_sums_of_every_strategy(c.name, [&](distwar_policy policy) { return d.backward(policy); },
                                      gradient, {0, gradient.size()});
        fault why;
        EXPECT_TRUE(sum_memory_is_exact(&d.s.frame.sums, &why)) << why.text;
        const unsigned long long lanes = counted_lanes([&](lane_histogram *counts) {
            cubemap_render_backward(&d.s.frame, {DISTWAR_TREE, 0}, counts);
        });
        EXPECT_LE(lanes, 4 * levels) << c.name;
        EXPECT_GE(double(lanes), (c.size == 1 ? 2.9 : 3.5) * double(levels)) << c.name;
    }
}

// <A x, y> = <x, A' y>, and A x by itself.
TEST(CubemapLevels, AreMeansAndTheAdjointIsTheirs) {
    for (const lookup_case &c : cases) {
        looked_up d(c);
        const int size = c.size;
        const size_t base = 18 * size_t(size) * size_t(size);
        double worst = 0;
        for (int level = 1; level < d.s.frame.levels; level++) {
            const int side = size >> level, wide = 1 << level;
            std::vector<double> mean(18 * size_t(side) * size_t(side));
            for (size_t k = 0; k < base; k++) {
                const int at = int(k / 3), i = at % size / wide, j = at / size % size / wide,
                          face = at / size / size;
                mean[3 * size_t((face * side + j) * side + i) + k % 3] += d.texel[k] / wide / wide;
            }
            for (size_t k = 0; k < mean.size(); k++)
                worst = std::max(
                    worst, std::abs(mean[k] - d.texel[3 * size_t(reference_level_begin(size, level)) + k]));
        }
        EXPECT_LT(worst, 1e-6) << c.name;
        const std::vector<float> sums = d.backward({DISTWAR_TREE, 0});
        const device_vector<float> device(base);
        cubemap_gather_levels(&d.s.frame, device.data());
        const std::vector<float> gradient = device.read();
        double by_levels = 0, by_base = 0, size_of_both = 0;
        for (size_t k = 0; k < sums.size(); k++) by_levels += d.texel[k] * double(sums[k]);
        for (size_t k = 0; k < base; k++) {
            by_base += d.texel[k] * double(gradient[k]);
            size_of_both += std::abs(d.texel[k] * double(gradient[k]));
        }
        EXPECT_GT(size_of_both, 1e-3) << c.name;
        EXPECT_NEAR(by_base, by_levels, 1e-5 * size_of_both) << c.name;
    }
}

TEST(CubemapAdjoint, WithFixedIsTheSameToTheLastBit) {
    looked_up d(cases[0]);
    expect_fixed_has_the_same_bits([&](distwar_policy policy) { return d.backward(policy); });
}

TEST(CubemapAdjoint, OfAGradientThatIsNotANumberIsTold) {
    looked_up d(cases[0]);
    d.backward({DISTWAR_FIXED, 0});
    expect_nan_is_told(d.s.frame.sums, d.s.frame.color_gradient, 3 * d.s.pixels(),
                       [&](distwar_policy policy) { cubemap_render_backward(&d.s.frame, policy, nullptr); });
}

// Pixels without a mesh are NaN in this gradient, and nothing hears of it.
TEST(CubemapAdjoint, TakesNothingFromTheBackground) {
    looked_up d(cases[0]);
    std::vector<double> gradient(3 * d.s.pixels());
    for (size_t p = 0; p < d.s.pixels(); p++)
        for (size_t i = 0; i < 3; i++) gradient[i * d.s.pixels() + p] = d.sample[4 * p + 3] < 0 ? NAN : 0;
    write(d.s.frame.color_gradient, gradient);
    for (const distwar_policy policy : policies({0})) {
        cubemap_render_backward(&d.s.frame, policy, nullptr);
        for (const float sum : downloaded(d.s.frame.sums.sums, size_t(d.s.frame.texels) * 4))
            ASSERT_EQ(sum, 0);
    }
}

} // namespace
