// SPDX-License-Identifier: MIT
// The blend and its adjoint against the reference, with the kernels' decisions replayed, and the decisions
// themselves.
#include "blend_cases.h"
#include "blend.cuh"
#include <algorithm>
#include <cmath>

using namespace gs;

namespace {

class Render : public testing::TestWithParam<scene_choice> {};

TEST_P(Render, AgreesWithTheReferenceWhateverThePixelsOfAThread) {
    blend_frame frame(GetParam());
    const rendered expected(frame.blend());
    const int64_t plane = frame.pixels();
    for (const int pixels : {1, 2, 4}) {
        const std::vector<float> before = frame.color.read(), behind = frame.transmittance.read();
        frame.view.ranges.pixels_per_thread = pixels;
        ASSERT_GS_OK(gs_render(&frame.view, NULL));
        const std::vector<float> color = frame.color.read(), transmittance = frame.transmittance.read();
        const std::vector<uint32_t> n_contrib = frame.n_contrib.read();
        EXPECT_EQ(color, before) << pixels;
        EXPECT_EQ(transmittance, behind) << pixels;
        for (int64_t i = 0; i < plane; i++) {
            for (int c = 0; c < 3; c++)
                ASSERT_NEAR(color[c * plane + i], expected.color[c * plane + i], 1e-5) << "pixel " << i;
            ASSERT_NEAR(transmittance[i], expected.transmittance[i], 1e-5) << "pixel " << i;
            ASSERT_EQ(n_contrib[i], expected.n_contrib[i]) << "pixel " << i;
        }
    }
}

TEST(RenderDecisions, DifferOnlyWhereTheyAreClose) {
    int64_t pixels = 0, differing = 0;
    for (const scene_choice &choice : comparison_scenes()) {
        const blend_frame frame(choice);
        const gs_tile_ranges &ranges = frame.taken.ranges;
        std::vector<uint8_t> own(size_t(ranges.isects) * REFERENCE_TILE_PIXELS);
        reference_blend blend = frame.blend();
        blend.held = NULL;
        const rendered expected(blend, own.data());
        for (int64_t i = 0; i < frame.pixels(); i++) {
            const int x = int(i % choice.width), y = int(i / choice.width);
            const int tile = y / GS_TILE_SIZE * ranges.tiles_x + x / GS_TILE_SIZE;
            const int in_tile = y % GS_TILE_SIZE * GS_TILE_SIZE + x % GS_TILE_SIZE;
            bool same = true;
            for (int64_t k = ranges.tile_begin[tile]; k < ranges.tile_begin[tile + 1]; k++)
                same = same && own[k * REFERENCE_TILE_PIXELS + in_tile] ==
                                   frame.taken.blend[k * REFERENCE_TILE_PIXELS + in_tile];
            pixels++;
            if (same) continue;
            differing++;
            EXPECT_LT(expected.margin[i], 1e-4) << "scene " << choice.seed << " pixel " << x << ", " << y;
        }
    }
    EXPECT_LE(differing, pixels / 1000);
}

TEST_P(Render, GivesTheMomentsOfTheReferenceByEveryReduction) {
    blend_frame frame(GetParam());
    frame.expect_reference_moments(false, false);
}

// The strategy block with a limit: the reference gives every pixel's part of each moment, which is clamped and added up.
TEST(RenderBlock, ClampsThePartOfEachPixel) {
    blend_frame frame(comparison_scenes()[2]);
    divide(&frame.view.ranges, {DISTWAR_BLOCK, 0, 1, false}); // a pixel for each thread
    const reference_blend blend = frame.blend();
    const size_t count = size_t(frame.choice.count), pixels = size_t(frame.pixels());
    const std::vector<float> all = frame.backward({DISTWAR_BLOCK, 0});
    const size_t stride = all.size() / count,
                 fields = plain_values::fields;    // of a splat, those that are summed
    std::vector<double> parts, splat_grad(stride); // parts: [pixel][splat][field]
    for (size_t i = 0; i < pixels; i++) {
        std::vector<double> color(3 * pixels), alpha(pixels);
        for (size_t c = 0; c < 3; c++) color[c * pixels + i] = frame.d_color[c * pixels + i];
        alpha[i] = frame.d_alpha[i];
        const reference_image_gradient of_pixel = {color.data(), alpha.data(), NULL};
        std::vector<reference_splat_gradient> gradients(count);
        reference_render_backward(&blend, &of_pixel, gradients.data(), NULL);
        for (size_t s = 0; s < count; s++) {
            splat_grad.assign(stride, 0);
            if (frame.seen[s].decisions.visible)
                reference_splat_grad(&frame.seen[s], &gradients[s], splat_grad.data());
            parts.insert(parts.end(), splat_grad.begin(), splat_grad.begin() + fields);
        }
    }
    std::vector<double> sizes;
    for (const double part : parts)
        if (part != 0) sizes.push_back(std::fabs(part));
    std::sort(sizes.begin(), sizes.end());
    ASSERT_GT(sizes.size(), 1000u);
    for (const float limit :
         {float(sizes[sizes.size() * 9 / 10]), float(sizes[sizes.size() / 2]), INFINITY}) {
        SCOPED_TRACE(limit);
        std::vector<double> wanted(count * fields), got;
        for (size_t k = 0; k < parts.size(); k++)
            wanted[k % wanted.size()] += std::clamp<double>(parts[k], -limit, limit);
        gs_gradient limited = {};
        limited.block_limit = limit;
        const std::vector<float> found = frame.backward({DISTWAR_BLOCK, 0}, limited);
        for (size_t s = 0; s < count; s++)
            got.insert(got.end(), &found[s * stride], &found[s * stride] + fields);
        EXPECT_LE(relative_norm(got, wanted), 1e-4);
        if (limit < INFINITY) {
            EXPECT_GT(relative_norm(all, found), 0.01) << "the limit is never reached";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Render, testing::ValuesIn(comparison_scenes()));

TEST(RenderEdges, BadArgumentsAreNamed) {
    kernel_frame frame(comparison_scenes()[0]);
    const view_step step(frame);
    gs_gradient good = step.gradient;
    good.color = frame.color.data();
    const auto backward = [&](const gs_gradient *gradient, distwar_policy policy) {
        return gs_render_backward(&frame.view, gradient, policy, NULL);
    };
    for (const int threshold : {-1, 34})
        expect_refused(backward(&good, {DISTWAR_BFLY, threshold}),
                       "gs_render_backward: balance_threshold must be in 0..33");
    expect_refused(backward(&good, {distwar_strategy(17), 0}), "gs_render_backward: 17 is not a strategy");
    expect_refused(backward(NULL, {DISTWAR_TREE, 0}), "gs_render_backward: color and splat_grad");
    expect_refused(backward(&step.gradient, {DISTWAR_TREE, 0}), "gs_render_backward: color and splat_grad");
    gs_gradient bad = good;
    bad.splat_grad = NULL;
    expect_refused(backward(&bad, {DISTWAR_TREE, 0}), "gs_render_backward: color and splat_grad");
    bad = good;
    for (const float limit : {-1.0f, NAN}) {
        bad.block_limit = limit;
        expect_refused(backward(&bad, {DISTWAR_BLOCK, 0}), "gs_render_backward: block_limit must be");
    }
    // Strategies that the blend does not have.
    int taken = 0;
    for (int s = 0; s < DISTWAR_STRATEGY_COUNT; s++) {
        const distwar_strategy strategy = distwar_strategy(s);
        if (gs_has_strategy(strategy)) {
            EXPECT_GS_OK(backward(&good, {strategy, 0}));
            taken++;
        } else {
            expect_refused(backward(&good, {strategy, 0}), std::string("gs_render_backward: strategy ") +
                                                               distwar_strategy_name(strategy) +
                                                               " is not supported");
        }
    }
    EXPECT_EQ(taken, 6);
    for (const int none : {int(DISTWAR_VECTOR), int(DISTWAR_CUB), int(DISTWAR_STRATEGY_COUNT), -1})
        EXPECT_FALSE(gs_has_strategy(distwar_strategy(none)));

    expect_refused(gs_render(NULL, NULL), "gs_render: view must be given");
    const auto refused = [&](const char *text, void (*change)(gs_view &)) {
        gs_view view = frame.view;
        change(view);
        expect_refused(gs_render(&view, NULL), std::string("gs_render: ") + text);
    };
    refused("transmittance and n_contrib", [](gs_view &v) { v.image.n_contrib = NULL; });
    refused("the view has no lists", [](gs_view &v) { v.ranges = {}; });
    refused("the lists are of an image of another size", [](gs_view &v) { v.camera.width += 64; });
    refused("pixels_per_thread must be 1, 2 or 4", [](gs_view &v) { v.ranges.pixels_per_thread = 3; });
    refused("split_tiles",
            [](gs_view &v) { v.ranges.split_tiles = v.ranges.tiles_x * v.ranges.tiles_y + 1; });
    refused("splat_index and splats", [](gs_view &v) { v.splats = NULL; });
    refused("count must be in 0..2^31 - 2", [](gs_view &v) { v.gaussians.count = -1; });
}

// What a pixel asks that no splat counts at reaches no splat, even if it is no number.
TEST(RenderEdges, AGradientWhereNoSplatCountsChangesNothing) {
    scene_choice few = comparison_scenes()[0];
    few.count = 3;
    kernel_frame frame(few);
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    const std::vector<uint32_t> n_contrib = frame.n_contrib.read();
    const size_t pixels = n_contrib.size();
    const std::vector<float> d_color = random_floats(1, 3 * pixels, -1, 1),
                             d_alpha = random_floats(2, pixels, -1, 1);
    std::vector<float> nan_color = d_color, nan_alpha = d_alpha;
    for (size_t i = 0; i < pixels; i++) {
        if (n_contrib[i] != 0) continue;
        nan_alpha[i] = NAN;
        for (size_t c = 0; c < 3; c++) nan_color[c * pixels + i] = NAN;
    }
    const int64_t empty = std::count(n_contrib.begin(), n_contrib.end(), 0u);
    ASSERT_GT(empty, 0);
    ASSERT_LT(empty, int64_t(pixels));
    for (const blend_case &w : blend_cases) {
        if (w.strategy == DISTWAR_FIXED) continue; // it bounds the sums by the gradient of all pixels
        SCOPED_TRACE(w);
        divide(&frame.view.ranges, w);
        const distwar_policy policy = {w.strategy, w.balance_threshold};
        const std::vector<float> with = frame.backward(d_color, d_alpha, policy),
                                 without = frame.backward(nan_color, nan_alpha, policy);
        // The order of atomics is another: compute-sanitizer has found 1e-6 too little.
        EXPECT_LE(relative_norm(without, with), 1e-5);
    }
}

// Only where tiles are split does the way back read the colours.
TEST(RenderEdges, TheWayBackDoesWithoutColoursUnlessTilesAreSplit) {
    kernel_frame frame(comparison_scenes()[0]);
    const std::vector<float> d_color = random_floats(1, size_t(3 * frame.pixels()), -1, 1),
                             d_alpha = random_floats(2, size_t(frame.pixels()), -1, 1);
    frame.view.ranges.split_tiles = 0;
    const std::vector<float> with = frame.backward(d_color, d_alpha, {DISTWAR_TREE, 0});
    frame.view.image.color = NULL;
    const std::vector<float> without = frame.backward(d_color, d_alpha, {DISTWAR_TREE, 0});
    EXPECT_LE(relative_norm(without, with), 1e-6);
    const view_step step(frame);
    gs_gradient gradient = step.gradient;
    gradient.color = frame.color.data();
    frame.view.ranges.split_tiles = 1;
    expect_refused(gs_render_backward(&frame.view, &gradient, {DISTWAR_TREE, 0}, NULL),
                   "gs_render_backward: color of the image must be given where tiles are split");
    expect_refused(gs_render(&frame.view, NULL), "gs_render: color of the image");
}

} // namespace
