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

struct looked_up : drawn_frame {
    const test_mesh shape = torus(40, 16);
    seen s;
    cubemap_frame &frame = s.frame;
    std::vector<float> sample;
    std::vector<double> texel; // all levels

    explicit looked_up(const lookup_case &c)
        : s(shape.host, scene_camera(1, 8, c.width, c.height), c.size), sample(s.samples()) {
        name = c.name, colors = 3 * s.pixels(), sums = &frame.sums;
        color = frame.color, color_gradient = frame.color_gradient;
        write(frame.texel, random_weights(18 * size_t(c.size) * size_t(c.size), 1));
        if (c.random) {
            const std::vector<double> random = random_weights(sample.size(), 2);
            for (size_t k = 0; k < sample.size(); k++)
                sample[k] = float(k % 4 < 3 ? random[k] : (random[k] * 0.7 + 0.3) * (frame.levels - 1));
            for (size_t k = 3; k < sample.size(); k += 4) sample[k] = sample[k] < 0 ? -1 : sample[k];
            device_upload(frame.sample, sample.data(), sample.size() * sizeof(float));
        }
        cubemap_render(&frame);
        const std::vector<float> all = downloaded(frame.texel, 3 * size_t(frame.texels));
        texel.assign(all.begin(), all.end());
    }
    void add(distwar_policy policy, lane_histogram *lanes) override {
        cubemap_render_backward(&frame, policy, lanes);
    }
    std::vector<float> gradient() override { // the sums of all levels
        const size_t stride = size_t(frame.sums.stride);
        const std::vector<float> rows = downloaded(frame.sums.sums, size_t(frame.texels) * stride);
        std::vector<float> out;
        for (size_t k = 0; k < rows.size(); k++)
            if (k % stride < 3) out.push_back(rows[k]);
        return out;
    }
};

// What is shown, its adjoint, and the lanes of the four texels of each of two levels.
TEST(CubemapRender, IsThatOfTheReference) {
    for (const lookup_case &c : cases) {
        looked_up d(c);
        const size_t pixels = d.s.pixels();
        const std::vector<double> weights = gradient_like_l1(d.colors);
        std::vector<double> shown(d.colors, SCENE_BACKGROUND), gradient(d.texel.size());
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
        expect_as(d, shown, 4e-7 * c.size + 1e-5, // a direction rounds by that much of a texel
                  gradient, {0, gradient.size()});
        const unsigned long long lanes = counted_lanes(d);
        EXPECT_LE(lanes, 4 * levels) << c.name;
        EXPECT_GE(double(lanes), (c.size == 1 ? 2.9 : 3.5) * double(levels)) << c.name;
    }
}

// Each texel of a level is the mean of wide x wide of level 0, which get as much of its sum.
TEST(CubemapLevels, AreMeansAndTheAdjointIsTheirs) {
    for (const lookup_case &c : cases) {
        looked_up d(c);
        const std::vector<float> sums = d.backward({DISTWAR_TREE, 0});
        const int base = 18 * c.size * c.size;
        const device_vector<float> device(base);
        cubemap_gather_levels(&d.frame, device.data());
        const std::vector<float> found = device.read();
        std::vector<double> gradient(base), mean(d.texel.size());
        for (int level = 0; level < d.frame.levels; level++) {
            const int side = c.size >> level, wide = 1 << level, begin = reference_level_begin(c.size, level);
            for (int k = 0; k < base; k++) {
                const int at = k / 3, i = at % c.size / wide, j = at / c.size % c.size / wide,
                          face = at / c.size / c.size, texel = begin + (face * side + j) * side + i;
                mean[3 * texel + k % 3] += d.texel[k] / wide / wide;
                gradient[k] += double(sums[3 * texel + k % 3]) / wide / wide;
            }
        }
        GroupError error;
        for (int k = 0; k < base; k++) error.add(found[k], gradient[k]);
        EXPECT_LT(error.relative(), 1e-5) << c.name;
        for (size_t k = 0; k < mean.size(); k++) ASSERT_NEAR(d.texel[k], mean[k], 1e-6) << c.name;
    }
}

TEST(CubemapAdjoint, WithFixedIsTheSameToTheLastBit) {
    looked_up d(cases[0]);
    expect_fixed_is_exact(d);
}

// Pixels without a mesh are NaN in this gradient, and nothing hears of it.
TEST(CubemapAdjoint, TakesNothingFromTheBackground) {
    looked_up d(cases[0]);
    std::vector<double> gradient(d.colors);
    for (size_t k = 0; k < d.colors; k++) gradient[k] = d.sample[4 * (k % d.s.pixels()) + 3] < 0 ? NAN : 0;
    write(d.color_gradient, gradient);
    for (const distwar_policy policy : policies({0})) {
        d.add(policy, nullptr);
        for (const float sum : d.gradient()) ASSERT_EQ(sum, 0);
    }
}

} // namespace
