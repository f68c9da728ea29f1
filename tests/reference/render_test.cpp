// SPDX-License-Identifier: MIT
// The reference's lists and blending by hand-made cases, its adjoint against finite differences.
#include "finite_difference.h"

#include <gtest/gtest.h>

namespace {

// A scene projected and binned, with room for an image.
class Projected {
  public:
    Projected(uint64_t seed, int64_t count, int width, int height)
        : scene(reference_scene_create(seed, count, 1, width, height)), splats(static_cast<size_t>(count)),
          image(reference_image_create(width, height)), width(width), height(height) {
        for (int64_t i = 0; i < count; i++)
            reference_project(&scene.gaussians, i, 1, &scene.camera, nullptr,
                              &splats[static_cast<size_t>(i)]);
        ranges = held_lists(reference_bin(splats.data(), count, width, height));
        tape.resize(static_cast<size_t>(ranges.isects) * REFERENCE_TILE_PIXELS);
    }

    size_t pixels() const { return static_cast<size_t>(width) * static_cast<size_t>(height); }
    reference_blend blend(const uint8_t *held) const {
        reference_blend out{};
        out.splats = splats.data(), out.count = static_cast<int64_t>(splats.size());
        out.ranges = &ranges, out.width = width, out.height = height;
        out.background = scene.background, out.held = held, out.normalize_depth = normalize_depth;
        out.inverse_depth = inverse_depth;
        if (channels > 0)
            out.channels = channels, out.color = color.data(), out.background = background.data();
        return out;
    }
    // Gives the splats colours of so many channels.
    void give_channels(int count) {
        channels = count;
        color = random_weights(splats.size() * static_cast<size_t>(count), 7);
        image = held_image(reference_image_of_channels(count, width, height));
    }
    void render(const uint8_t *held, uint8_t *taken) {
        const reference_blend all = blend(held);
        reference_render(&all, taken, &image);
    }

    held_scene scene;
    std::vector<reference_splat> splats;
    held_lists ranges;
    held_image image;
    std::vector<uint8_t> tape;
    int width, height, normalize_depth = 0, inverse_depth = 0, channels = 0;
    std::vector<double> color, background = random_weights(5, 8); // of given channels
};

bool same_image(const reference_image &a, const reference_image &b, size_t pixels) {
    return std::equal(a.color, a.color + 3 * pixels, b.color) &&
           std::equal(a.transmittance, a.transmittance + pixels, b.transmittance);
}

TEST(Bin, TileListsGiveWhatOneListOfAllSplatsGives) {
    Projected p(21, 4 * REFERENCE_KIND_CYCLE, 70, 41);
    p.render(nullptr, nullptr);
    // Every tile has every visible splat, in the order (depth, index).
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < p.splats.size(); i++)
        if (p.splats[i].decisions.visible) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return p.splats[a].depth < p.splats[b].depth; });
    const int tiles = p.ranges.tiles_x * p.ranges.tiles_y;
    std::vector<int64_t> begin;
    std::vector<uint32_t> index;
    for (int t = 0; t < tiles; t++) {
        begin.push_back(static_cast<int64_t>(index.size()));
        index.insert(index.end(), order.begin(), order.end());
    }
    begin.push_back(static_cast<int64_t>(index.size()));
    const gs_tile_ranges all = {
        p.ranges.tiles_x, p.ranges.tiles_y, begin.back(), begin.data(), index.data(), 1, 0, nullptr, 0, 0,
        nullptr};
    ASSERT_LT(p.ranges.isects, all.isects);
    const held_image image = reference_image_create(p.width, p.height);
    reference_blend blend = p.blend(nullptr);
    blend.ranges = &all;
    reference_render(&blend, nullptr, &image);
    EXPECT_TRUE(same_image(p.image, image, p.pixels()));
}

// Splats centred on the only pixel of an image of 1 by 1, one behind the other.
class Stack {
  public:
    explicit Stack(const std::vector<double> &opacities, int normalize_depth = 0, int inverse_depth = 0)
        : splats(opacities.size()), image(reference_image_create(1, 1)) {
        for (size_t i = 0; i < splats.size(); i++) {
            splats[i].mean[0] = splats[i].mean[1] = 0.5;
            splats[i].covariance[0] = splats[i].covariance[2] = 2;
            splats[i].covariance[1] = 1;
            splats[i].opacity = opacities[i];
            for (int c = 0; c < 3; c++) splats[i].color[c] = 0.1 * static_cast<double>(i + 1) + 0.01 * c;
            splats[i].depth = static_cast<double>(i + 1);
            splats[i].decisions.visible = 1;
            index.push_back(static_cast<uint32_t>(i));
        }
        begin[1] = static_cast<int64_t>(splats.size());
        tape.resize(splats.size() * REFERENCE_TILE_PIXELS);
        const gs_tile_ranges ranges = {1, 1, begin[1], begin, index.data(), 1, 0, nullptr, 0, 0, nullptr};
        const double background[3] = {0.7, 0.8, 0.9};
        reference_blend blend{};
        blend.splats = splats.data(), blend.count = begin[1], blend.ranges = &ranges;
        blend.width = blend.height = 1, blend.background = background;
        blend.normalize_depth = normalize_depth;
        blend.inverse_depth = inverse_depth;
        reference_render(&blend, tape.data(), &image);
    }
    int decision(size_t k) const { return tape[k * REFERENCE_TILE_PIXELS]; }

    std::vector<reference_splat> splats;
    std::vector<uint32_t> index;
    int64_t begin[2] = {0, 0};
    std::vector<uint8_t> tape;
    held_image image;
};

TEST(Render, BlendsFrontToBackOverTheBackground) {
    const Stack s({0.5, 0.25, 0.003, 0.2});
    EXPECT_EQ(s.decision(2), REFERENCE_SKIPPED);
    EXPECT_EQ(s.decision(3), REFERENCE_COUNTED);
    const double left = 0.5 * 0.75 * 0.8;
    for (int c = 0; c < 3; c++)
        EXPECT_NEAR(s.image.color[c],
                    0.5 * (0.1 + 0.01 * c) + 0.5 * 0.25 * (0.2 + 0.01 * c) + 0.375 * 0.2 * (0.4 + 0.01 * c) +
                        left * (0.7 + 0.1 * c),
                    1e-15);
    EXPECT_NEAR(s.image.transmittance[0], left, 1e-15);
    EXPECT_EQ(s.image.n_contrib[0], 4u);
    EXPECT_NEAR(s.image.margin[0], 1 - 0.003 * 255, 1e-12);
}

TEST(Render, CutsAndStops) {
    const Stack s({0.9999, 0.985, 0.5, 0.002});
    EXPECT_EQ(s.decision(0), REFERENCE_CUT);
    EXPECT_EQ(s.decision(1), REFERENCE_COUNTED);
    EXPECT_EQ(s.decision(2), REFERENCE_STOPPED);
    EXPECT_EQ(s.decision(3), REFERENCE_SKIPPED);
    EXPECT_NEAR(s.image.transmittance[0], 0.01 * 0.015, 1e-15);
    EXPECT_EQ(s.image.n_contrib[0], 2u);
    EXPECT_NEAR(s.image.margin[0], 1 - 0.985 / 0.99, 1e-12);
}

TEST(Render, SumsDepthsAndFindsTheMedian) {
    const Stack s({0.4, 0.003, 0.25, 0.2});
    const double sum = 0.4 * 1 + 0.6 * 0.25 * 3 + 0.45 * 0.2 * 4, left = 0.6 * 0.75 * 0.8;
    EXPECT_NEAR(s.image.depth[0], sum, 1e-15);
    EXPECT_EQ(s.image.median_depth[0], 3); // transmittance 0.6, 0.45, 0.36
    EXPECT_NEAR(s.image.median_margin[0], 0.1, 1e-12);
    const Stack normalized({0.4, 0.003, 0.25, 0.2}, 1);
    EXPECT_NEAR(normalized.image.depth[0], sum / (1 - left), 1e-15);
    EXPECT_EQ(Stack({0.5}).image.median_depth[0], 1);
    EXPECT_EQ(Stack({0.4}).image.median_depth[0], 0);
    const double inverse_sum = 0.4 / 1 + 0.6 * 0.25 / 3 + 0.45 * 0.2 / 4;
    const Stack inverse({0.4, 0.003, 0.25, 0.2}, 0, 1), both({0.4, 0.003, 0.25, 0.2}, 1, 1);
    EXPECT_NEAR(inverse.image.depth[0], inverse_sum, 1e-15);
    EXPECT_EQ(inverse.image.median_depth[0], 3);
    EXPECT_NEAR(both.image.depth[0], inverse_sum / (1 - left), 1e-15);
    const Stack none({}, 1, 1);
    EXPECT_EQ(none.image.depth[0], 0);
    EXPECT_EQ(none.image.color[1], 0.8);
    EXPECT_EQ(none.image.n_contrib[0], 0u);
}

TEST(Render, ReplayObeysTheTape) {
    Projected p(23, 4 * REFERENCE_KIND_CYCLE, 37, 53);
    p.render(nullptr, p.tape.data());
    const held_image replayed = reference_image_create(p.width, p.height);
    std::vector<uint8_t> again(p.tape.size(), 255);
    const reference_blend blend = p.blend(p.tape.data());
    reference_render(&blend, again.data(), &replayed);
    EXPECT_TRUE(same_image(p.image, replayed, p.pixels()));
    EXPECT_TRUE(std::equal(p.image.n_contrib, p.image.n_contrib + p.pixels(), replayed.n_contrib));
    EXPECT_EQ(p.tape, again);
    // The first pixel that counted something now skips its first splat.
    *std::find(p.tape.begin(), p.tape.end(), REFERENCE_COUNTED) = REFERENCE_SKIPPED;
    reference_render(&blend, nullptr, &replayed);
    size_t different = 0;
    for (size_t k = 0; k < p.pixels(); k++)
        different += p.image.transmittance[k] != replayed.transmittance[k];
    EXPECT_EQ(different, 1u);
}

// With a depth, as it is and normalised, and with its inverse; and of given channels.
TEST(Render, AdjointMatchesFiniteDifferences) {
    int decisions[4] = {};
    GroupError errors[REFERENCE_KINDS][5]; // mean, covariance, log opacity, colour, depth
    const char *const name[5] = {"mean", "covariance", "log opacity", "color", "depth"};
    const struct {
        uint64_t seed;
        int normalize, inverse, channels;
    } forms[] = {{6, 0, 0, 0}, {12, 1, 0, 0}, {6, 0, 1, 0}, {12, 1, 1, 0}, {6, 0, 0, 1}, {6, 0, 0, 5}};
    for (const auto &form : forms) {
        Projected p(form.seed, REFERENCE_KIND_CYCLE, 37, 21);
        p.normalize_depth = form.normalize, p.inverse_depth = form.inverse;
        if (form.channels > 0) p.give_channels(form.channels);
        p.render(nullptr, p.tape.data());
        for (const uint8_t decision : p.tape) decisions[decision]++;
        const size_t pixels = p.pixels(),
                     values = static_cast<size_t>(form.channels ? form.channels : 3) * pixels;
        const std::vector<double> weights = random_weights(values + 2 * pixels, 5);
        auto objective = [&] {
            p.render(p.tape.data(), nullptr);
            double sum = 0;
            for (size_t k = 0; k < values; k++) sum += weights[k] * p.image.color[k];
            for (size_t k = 0; k < pixels; k++)
                sum += weights[values + k] * (1 - p.image.transmittance[k]) +
                       weights[values + pixels + k] * p.image.depth[k];
            return sum;
        };
        std::vector<reference_splat_gradient> gradients(p.splats.size());
        std::vector<double> color_gradients(p.color.size());
        const reference_blend blend = p.blend(p.tape.data());
        const reference_image_gradient d_image = {weights.data(), weights.data() + values,
                                                  weights.data() + values + pixels};
        reference_render_backward(&blend, &d_image, gradients.data(),
                                  form.channels > 0 ? color_gradients.data() : nullptr);
        GroupError of_channels;
        for (size_t k = 0; k < p.color.size(); k++)
            of_channels.add(color_gradients[k], derivative(objective, p.color[k], 0.01));
        EXPECT_TRUE(form.channels == 0 || of_channels.relative() <= max_gradient_error) << form.channels;
        std::vector<uint8_t> listed(p.splats.size());
        for (int64_t k = 0; k < p.ranges.isects; k++) listed[p.ranges.splat_index[k]] = 1;
        for (size_t i = 0; i < p.splats.size(); i++) {
            reference_splat &splat = p.splats[i];
            const reference_splat_gradient &g = gradients[i];
            if (!listed[i]) {
                for (const double value :
                     {g.mean[0], g.mean[1], g.covariance[0], g.covariance[1], g.covariance[2], g.log_opacity,
                      g.color[0], g.color[1], g.color[2], g.depth, g.abs_mean[0], g.abs_mean[1]})
                    EXPECT_EQ(value, 0) << i;
                continue;
            }
            GroupError *const error = errors[reference_kind_of(static_cast<int64_t>(i))];
            const double a = splat.covariance[0], b = splat.covariance[1], c = splat.covariance[2];
            const double determinant = a * c - b * b;
            const double covariance_step[3] = {
                0.003 * determinant / c, 0.003 * determinant / std::sqrt(a * c), 0.003 * determinant / a};
            for (int k = 0; k < 2; k++)
                error[0].add(g.mean[k], derivative(objective, splat.mean[k],
                                                   0.003 * std::sqrt(determinant / (k == 0 ? c : a))));
            for (int k = 0; k < 3; k++)
                error[1].add(g.covariance[k], derivative(objective, splat.covariance[k], covariance_step[k]));
            error[2].add(g.log_opacity,
                         splat.opacity * derivative(objective, splat.opacity, 0.003 * splat.opacity));
            for (int k = 0; k < 3; k++) // 0 with given channels
                error[3].add(g.color[k], derivative(objective, splat.color[k], 0.01));
            error[4].add(g.depth, derivative(objective, splat.depth, 0.003 * splat.depth));
        }
    }
    EXPECT_GT(decisions[REFERENCE_COUNTED], 1000);
    EXPECT_GT(decisions[REFERENCE_CUT], 10);
    EXPECT_GT(decisions[REFERENCE_STOPPED], 30);
    for (int kind = 0; kind <= REFERENCE_FAINT; kind++) // the kinds after it are not seen
        for (int group = 0; group < 5; group++)
            EXPECT_LE(errors[kind][group].relative(), max_gradient_error)
                << name[group] << " of kind " << kind;
}

// One pixel's part of the gradient is the gradient of a loss of that pixel alone.
TEST(Render, AbsoluteSumsAreThoseOfSinglePixels) {
    Projected p(6, REFERENCE_KIND_CYCLE, 17, 9);
    p.render(nullptr, p.tape.data());
    const std::vector<double> weights = random_weights(5 * p.pixels(), 5);
    const reference_blend blend = p.blend(p.tape.data());
    const auto backward = [&](const std::vector<double> &of) {
        std::vector<reference_splat_gradient> gradients(p.splats.size());
        const reference_image_gradient d_image = {of.data(), of.data() + 3 * p.pixels(),
                                                  of.data() + 4 * p.pixels()};
        reference_render_backward(&blend, &d_image, gradients.data(), nullptr);
        return gradients;
    };
    const std::vector<reference_splat_gradient> all = backward(weights);
    std::vector<double> sum(2 * p.splats.size());
    for (size_t pixel = 0; pixel < p.pixels(); pixel++) {
        std::vector<double> alone(weights.size());
        for (size_t k = pixel; k < alone.size(); k += p.pixels()) alone[k] = weights[k];
        const std::vector<reference_splat_gradient> part = backward(alone);
        for (size_t i = 0; i < sum.size(); i++) sum[i] += std::fabs(part[i / 2].mean[i % 2]);
    }
    GroupError error;
    int less = 0; // signs that cancel
    for (size_t i = 0; i < sum.size(); i++) {
        error.add(all[i / 2].abs_mean[i % 2], sum[i]);
        less += std::fabs(all[i / 2].mean[i % 2]) < 0.9 * sum[i];
    }
    EXPECT_LE(error.relative(), 1e-12);
    EXPECT_GT(less, 10);
}

} // namespace
