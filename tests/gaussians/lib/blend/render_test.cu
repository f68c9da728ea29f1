// SPDX-License-Identifier: MIT
// The blend and its adjoint against the reference, with the kernels' decisions replayed: of three channels and of others, with
// depth, its median and absolute gradients; and the decisions themselves.
#include "blend_cases.h"
#include "blend.cuh"
#include <algorithm>

using namespace gs;

namespace {

// ---- three channels ----

class Render : public testing::TestWithParam<scene_choice> {};

TEST_P(Render, AgreesWithTheReferenceWhateverThePixelsOfAThread) {
    blend_frame(GetParam()).expect_reference_image();
}

TEST_P(Render, GivesTheMomentsOfTheReferenceByEveryReduction) {
    blend_frame(GetParam()).expect_reference_moments(false, false);
}

INSTANTIATE_TEST_SUITE_P(Scenes, Render, testing::ValuesIn(comparison_scenes()));

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

// ---- depth ----

struct depth_scene {
    scene_choice choice;
    bool normalize, inverse = false;
};
void PrintTo(const depth_scene &s, std::ostream *out) {
    PrintTo(s.choice, out);
    *out << (s.normalize ? ", normalised" : "") << (s.inverse ? ", inverse" : "");
}

class Depth : public testing::TestWithParam<depth_scene> {
  protected:
    Depth() : frame(GetParam().choice) {
        frame.view.image.depth = frame.depth.data();
        frame.view.image.median_depth = frame.median_depth.data();
        frame.view.normalize_depth = GetParam().normalize;
        frame.view.inverse_depth = GetParam().inverse;
    }
    blend_frame frame;
};

TEST_P(Depth, AgreesWithTheReference) {
    frame.expect_reference_image();
    // Either output alone.
    const std::vector<float> depth = frame.depth.read(), median = frame.median_depth.read(),
                             sentinel(depth.size(), 12345);
    for (const bool of_depth : {false, true}) {
        frame.depth.fill(12345), frame.median_depth.fill(12345);
        frame.view.image.depth = of_depth ? frame.depth.data() : NULL;
        frame.view.image.median_depth = of_depth ? NULL : frame.median_depth.data();
        ASSERT_GS_OK(gs_render(&frame.view, NULL));
        EXPECT_EQ(frame.depth.read(), of_depth ? depth : sentinel);
        EXPECT_EQ(frame.median_depth.read(), of_depth ? sentinel : median);
    }
}

TEST_P(Depth, GivesTheMomentsOfTheReferenceByEveryReduction) {
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    for (const auto &[depth, absolute] : {std::pair{true, false}, {false, true}, {true, true}})
        frame.expect_reference_moments(depth, absolute);
}

INSTANTIATE_TEST_SUITE_P(Scenes, Depth,
                         testing::Values(depth_scene{small_scene, false},
                                         depth_scene{{5, 64, 3, 1, 17, 90}, true},
                                         depth_scene{{9, 600, 1, 1, 33, 33}, true},
                                         depth_scene{{9, 600, 1, 1, 33, 33}, false, true},
                                         depth_scene{small_scene, true, true}));

// ---- other numbers of channels ----

class Channels : public testing::TestWithParam<int> {
  protected:
    Channels() : frame(small_scene, GetParam()) {
        frame.view.image.depth = frame.depth.data();
        frame.view.normalize_depth = frame.channels % 2;
        frame.view.inverse_depth = frame.channels % 4 >= 2;
        EXPECT_GS_OK(gs_render(&frame.view, NULL));
    }
    blend_frame frame;
};

TEST_P(Channels, TheImageAgreesWithTheReference) {
    for (const gs_splat &splat : frame.splats.read()) ASSERT_EQ(splat.color[0], 0);
    frame.expect_reference_image();
    frame.view.image.depth = NULL;
    frame.expect_reference_image();
}

// The kernels without depth and absolute gradients are others.
TEST_P(Channels, GradientsAgreeWithTheReferenceByEveryReduction) {
    frame.expect_reference_moments(true, frame.channels <= 32);
    frame.expect_reference_moments(false, false);
}

// Every step of 1, 4, 8, 16 and 32 channels, full and padded; and two passes.
INSTANTIATE_TEST_SUITE_P(Steps, Channels, testing::Values(1, 2, 4, 5, 8, 13, 16, 31, 32, 35),
                         [](const auto &info) { return std::to_string(info.param); });

TEST(ChannelsOfAView, ThreeGivenChannelsAreThoseOfTheSplats) {
    const scene_choice given = {10, 128, 1, 1, 40, 56, true, false};
    kernel_frame frame(given);
    const std::vector<float> color = frame.color.read();
    frame.view.gaussians.channels = GS_CHANNELS;
    ASSERT_GS_OK(gs_project(&frame.view, NULL));
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    EXPECT_EQ(frame.color.read(), color);
}

TEST(ChannelsOfAView, NothingVisibleIsTheBackgroundAndHasNoGradient) {
    blend_frame f(small_scene, 5);
    f.view.image.depth = f.depth.data(), f.view.normalize_depth = 1;
    own_view view(f.view);
    view.camera.translation[2] = -1000;
    ASSERT_GS_OK(gs_forward(&view, NULL));
    ASSERT_EQ(view.isects_needed, 0);
    const std::vector<float> image = f.image.read();
    for (size_t i = 0; i < image.size(); i++) ASSERT_EQ(image[i], f.host_background[i / size_t(f.pixels())]);
    f.view = view, f.view.memory = {};
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_FIXED})
        for (const float value : f.backward({strategy, 0}, f.extras(true, true))) ASSERT_EQ(value, 0);
    view.channel_background = NULL;
    ASSERT_GS_OK(gs_render(&view, NULL));
    EXPECT_EQ(f.image.read(), std::vector<float>(image.size()));
}

// ---- edges ----

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

} // namespace
