// SPDX-License-Identifier: MIT
// The blend and its adjoint against the reference, with the kernels' decisions replayed, and the decisions
// themselves.
#include "blend_cases.h"
#include "kernel_frame.h"
#include "blend.cuh"
#include <algorithm>
#include <cmath>

using namespace gs;

namespace {

class Render : public testing::TestWithParam<scene_choice> {};

TEST_P(Render, AgreesWithTheReferenceUnderItsOwnDecisions) {
    const kernel_frame frame(GetParam());
    reference_decisions taken = frame.decisions();
    const std::vector<reference_splat> splats = frame.reference_splats(taken);
    reference_image expected = reference_image_create(frame.choice.width, frame.choice.height);
    const reference_blend blend = frame.blend(taken, splats);
    reference_render(&blend, NULL, &expected);
    const std::vector<float> color = frame.color.read(), transmittance = frame.transmittance.read();
    const std::vector<uint32_t> n_contrib = frame.n_contrib.read();
    for (int64_t i = 0; i < frame.pixels(); i++) {
        for (int c = 0; c < 3; c++)
            ASSERT_NEAR(color[c * frame.pixels() + i], expected.color[c * frame.pixels() + i], 1e-5)
                << "pixel " << i;
        ASSERT_NEAR(transmittance[i], expected.transmittance[i], 1e-5) << "pixel " << i;
        ASSERT_EQ(n_contrib[i], expected.n_contrib[i]) << "pixel " << i;
    }
    reference_image_destroy(&expected);
    reference_decisions_destroy(&taken);
}

TEST(RenderDecisions, DifferOnlyWhereTheyAreClose) {
    int64_t pixels = 0, differing = 0;
    for (const scene_choice &choice : comparison_scenes()) {
        const kernel_frame frame(choice);
        reference_decisions taken = frame.decisions();
        const std::vector<reference_splat> splats = frame.reference_splats(taken);
        reference_image expected = reference_image_create(choice.width, choice.height);
        std::vector<uint8_t> own(size_t(taken.ranges.isects) * REFERENCE_TILE_PIXELS);
        reference_blend blend = frame.blend(taken, splats);
        blend.held = NULL;
        reference_render(&blend, own.data(), &expected);
        for (int64_t i = 0; i < frame.pixels(); i++) {
            const int x = int(i % choice.width), y = int(i / choice.width);
            const int tile = y / GS_TILE_SIZE * taken.ranges.tiles_x + x / GS_TILE_SIZE;
            const int in_tile = y % GS_TILE_SIZE * GS_TILE_SIZE + x % GS_TILE_SIZE;
            bool same = true;
            for (int64_t k = taken.ranges.tile_begin[tile]; k < taken.ranges.tile_begin[tile + 1]; k++)
                same = same && own[k * REFERENCE_TILE_PIXELS + in_tile] ==
                                   taken.blend[k * REFERENCE_TILE_PIXELS + in_tile];
            pixels++;
            if (same) continue;
            differing++;
            EXPECT_LT(expected.margin[i], 1e-4) << "scene " << choice.seed << " pixel " << x << ", " << y;
        }
        reference_image_destroy(&expected);
        reference_decisions_destroy(&taken);
    }
    EXPECT_LE(differing, pixels / 1000);
    RecordProperty("pixels", int(pixels));
    RecordProperty("differing", int(differing));
}

TEST_P(Render, GivesTheMomentsOfTheReferenceByEveryReduction) {
    kernel_frame frame(GetParam());
    reference_decisions taken = frame.decisions();
    const std::vector<reference_splat> splats = frame.reference_splats(taken);
    const std::vector<float> d_color = random_floats(11, size_t(3 * frame.pixels()), -1, 1);
    const std::vector<float> d_alpha = random_floats(12, size_t(frame.pixels()), -1, 1);
    std::vector<reference_splat_gradient> gradients(size_t(frame.choice.count));
    const reference_blend blend = frame.blend(taken, splats);
    const std::vector<double> color_weight(d_color.begin(), d_color.end()),
        alpha_weight(d_alpha.begin(), d_alpha.end());
    const reference_image_gradient d_image = {color_weight.data(), alpha_weight.data(), NULL};
    reference_render_backward(&blend, &d_image, gradients.data(), NULL);
    for (const blend_case &w : blend_cases) {
        SCOPED_TRACE(w);
        divide(&frame.view.ranges, w);
        const std::vector<float> splat_grad =
            frame.backward(d_color, d_alpha, {w.strategy, w.balance_threshold});
        for (int k = 0; k < GS_SPLAT_GRAD_STRIDE; k++) {
            std::vector<double> got, wanted;
            for (int64_t i = 0; i < frame.choice.count; i++) {
                double expected[GS_SPLAT_GRAD_STRIDE] = {};
                if (splats[i].decisions.visible) reference_splat_grad(&splats[i], &gradients[i], expected);
                got.push_back(splat_grad[i * GS_SPLAT_GRAD_STRIDE + k]);
                wanted.push_back(k < GS_SPLAT_GRAD_SUMS ? expected[k] : 0);
            }
            EXPECT_LE(relative_norm(got, wanted), 1e-4) << "moment " << k;
        }
    }
    reference_decisions_destroy(&taken);
}

// The strategy block with a limit: the reference gives every pixel's part of each moment, which is clamped and added up.
TEST(RenderBlock, ClampsThePartOfEachPixel) {
    kernel_frame frame(comparison_scenes()[2]);
    divide(&frame.view.ranges, {DISTWAR_BLOCK, 0, 1, false}); // a pixel for each thread
    reference_decisions taken = frame.decisions();
    const std::vector<reference_splat> splats = frame.reference_splats(taken);
    const reference_blend blend = frame.blend(taken, splats);
    const size_t count = size_t(frame.choice.count), pixels = size_t(frame.pixels());
    const std::vector<float> d_color = random_floats(31, 3 * pixels, -1, 1),
                             d_alpha = random_floats(32, pixels, -1, 1),
                             all = frame.backward(d_color, d_alpha, {DISTWAR_BLOCK, 0});
    const size_t stride = all.size() / count,
                 fields = plain_values::fields;    // of a splat, those that are summed
    std::vector<double> parts, splat_grad(stride); // parts: [pixel][splat][field]
    for (size_t i = 0; i < pixels; i++) {
        std::vector<double> color(3 * pixels), alpha(pixels);
        for (size_t c = 0; c < 3; c++) color[c * pixels + i] = d_color[c * pixels + i];
        alpha[i] = d_alpha[i];
        const reference_image_gradient of_pixel = {color.data(), alpha.data(), NULL};
        std::vector<reference_splat_gradient> gradients(count);
        reference_render_backward(&blend, &of_pixel, gradients.data(), NULL);
        for (size_t s = 0; s < count; s++) {
            splat_grad.assign(stride, 0);
            if (splats[s].decisions.visible)
                reference_splat_grad(&splats[s], &gradients[s], splat_grad.data());
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
        const std::vector<float> found = frame.backward(d_color, d_alpha, {DISTWAR_BLOCK, 0}, limited);
        for (size_t s = 0; s < count; s++)
            got.insert(got.end(), &found[s * stride], &found[s * stride] + fields);
        EXPECT_LE(relative_norm(got, wanted), 1e-4);
        if (limit < INFINITY) {
            EXPECT_GT(relative_norm({all.begin(), all.end()}, {found.begin(), found.end()}), 0.01)
                << "the limit is never reached";
        }
    }
    reference_decisions_destroy(&taken);
}

TEST_P(Render, DoesNotDependOnTheReduction) {
    kernel_frame frame(GetParam());
    const std::vector<float> d_color = random_floats(21, size_t(3 * frame.pixels()), -1, 1);
    const std::vector<float> d_alpha = random_floats(22, size_t(frame.pixels()), -1, 1);
    const std::vector<float> atomic = frame.backward(d_color, d_alpha, {DISTWAR_ATOMIC, 0});
    for (const blend_case &w : blend_cases) {
        divide(&frame.view.ranges, w);
        const std::vector<float> other = frame.backward(d_color, d_alpha, {w.strategy, w.balance_threshold});
        EXPECT_LE(relative_norm({other.begin(), other.end()}, {atomic.begin(), atomic.end()}),
                  w.split ? 5e-5 : 1e-5)
            << w;
    }
}

TEST_P(Render, DoesNotDependOnThePixelsOfAThread) {
    kernel_frame frame(GetParam());
    std::vector<float> color, transmittance;
    std::vector<uint32_t> n_contrib;
    for (const int pixels : {1, 2, 4}) {
        frame.view.ranges.pixels_per_thread = pixels;
        ASSERT_GS_OK(gs_render(&frame.view, NULL));
        if (pixels == 1)
            color = frame.color.read(), transmittance = frame.transmittance.read(),
            n_contrib = frame.n_contrib.read();
        EXPECT_EQ(frame.color.read(), color) << pixels;
        EXPECT_EQ(frame.transmittance.read(), transmittance) << pixels;
        EXPECT_EQ(frame.n_contrib.read(), n_contrib) << pixels;
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Render, testing::ValuesIn(comparison_scenes()));

TEST(RenderEdges, AnEmptySceneIsTheBackground) {
    const kernel_frame frame({1, 0, 0, 0, 20, 30});
    const std::vector<float> color = frame.color.read(), transmittance = frame.transmittance.read();
    for (int64_t i = 0; i < frame.pixels(); i++) {
        for (int c = 0; c < 3; c++) ASSERT_EQ(color[c * frame.pixels() + i], frame.view.background[c]);
        ASSERT_EQ(transmittance[i], 1);
    }
}

TEST(RenderEdges, AViewWithNothingVisibleIsTheBackground) {
    kernel_frame frame(comparison_scenes()[0]);
    own_view view(frame.view);
    view.camera.translation[2] = -1000;
    ASSERT_GS_OK(gs_project(&view, NULL));
    ASSERT_GS_OK(gs_bin(&view, NULL));
    ASSERT_GS_OK(gs_settle(&view, NULL));
    ASSERT_EQ(view.isects_needed, 0);
    ASSERT_GS_OK(gs_render(&view, NULL));
    const std::vector<float> color = frame.color.read();
    for (int64_t i = 0; i < 3 * frame.pixels(); i++)
        ASSERT_EQ(color[i], frame.view.background[i / frame.pixels()]);
    const std::vector<float> d_color(size_t(3 * frame.pixels()), 1), d_alpha(size_t(frame.pixels()), 1);
    frame.view = view, frame.view.memory = {};
    for (const float moment : frame.backward(d_color, d_alpha, {DISTWAR_BFLY, 0})) ASSERT_EQ(moment, 0);
}

void expect_refused(gs_status status, const char *text) {
    EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
    EXPECT_NE(std::string(gs_last_error()).find(text), std::string::npos) << gs_last_error();
}

// The gradient of one frame.
struct gradient_memory {
    explicit gradient_memory(const kernel_frame &frame)
        : color(std::vector<float>(size_t(GS_CHANNELS * frame.pixels()))),
          splat_grad(size_t(frame.choice.count)), gradient{} {
        gradient.color = color.data(), gradient.splat_grad = splat_grad.data();
    }
    device_vector<float> color;
    device_vector<gs_splat_grad> splat_grad;
    gs_gradient gradient;
};

TEST(RenderEdges, BadArgumentsAreNamed) {
    kernel_frame frame(comparison_scenes()[0]);
    const gradient_memory memory(frame);
    const auto backward = [&](const gs_gradient *gradient, distwar_policy policy) {
        return gs_render_backward(&frame.view, gradient, policy, NULL);
    };
    for (const int threshold : {-1, 34})
        expect_refused(backward(&memory.gradient, {DISTWAR_BFLY, threshold}),
                       "gs_render_backward: balance_threshold must be in 0..33");
    expect_refused(backward(&memory.gradient, {distwar_strategy(17), 0}),
                   "gs_render_backward: 17 is not a strategy");
    expect_refused(backward(NULL, {DISTWAR_TREE, 0}), "gs_render_backward: color and splat_grad");
    gs_gradient gradient = memory.gradient;
    gradient.color = NULL;
    expect_refused(backward(&gradient, {DISTWAR_TREE, 0}), "gs_render_backward: color and splat_grad");
    gradient = memory.gradient;
    gradient.splat_grad = NULL;
    expect_refused(backward(&gradient, {DISTWAR_TREE, 0}), "gs_render_backward: color and splat_grad");

    gradient = memory.gradient;
    for (const float limit : {-1.0f, NAN}) {
        gradient.block_limit = limit;
        expect_refused(backward(&gradient, {DISTWAR_BLOCK, 0}), "gs_render_backward: block_limit must be");
    }

    expect_refused(gs_render(NULL, NULL), "gs_render: view must be given");
    gs_view view = frame.view;
    view.image.n_contrib = NULL;
    expect_refused(gs_render(&view, NULL), "gs_render: transmittance and n_contrib");
    view = frame.view;
    view.ranges = {};
    expect_refused(gs_render(&view, NULL), "gs_render: the view has no lists");
    view = frame.view;
    view.camera.width += 64;
    expect_refused(gs_render(&view, NULL), "gs_render: the lists are of an image of another size");
    view = frame.view;
    view.ranges.pixels_per_thread = 3;
    expect_refused(gs_render(&view, NULL), "gs_render: pixels_per_thread must be 1, 2 or 4");
    view = frame.view;
    view.ranges.split_tiles = view.ranges.tiles_x * view.ranges.tiles_y + 1;
    expect_refused(gs_render(&view, NULL), "gs_render: split_tiles");
    view = frame.view;
    view.splats = NULL;
    expect_refused(gs_render(&view, NULL), "gs_render: splat_index and splats");
    view = frame.view;
    view.gaussians.count = -1;
    expect_refused(gs_render(&view, NULL), "gs_render: count must be in 0..2^31 - 2");
}

TEST(RenderEdges, StrategiesThatTheBlendDoesNotHaveAreNamed) {
    const kernel_frame frame(comparison_scenes()[0]);
    const gradient_memory memory(frame);
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    int taken = 0;
    for (int s = 0; s < DISTWAR_STRATEGY_COUNT; s++) {
        const distwar_strategy strategy = distwar_strategy(s);
        const std::string refusal =
            std::string(": strategy ") + distwar_strategy_name(strategy) + " is not supported";
        const gs_status status = gs_render_backward(&frame.view, &memory.gradient, {strategy, 0}, NULL);
        if (gs_has_strategy(strategy)) {
            EXPECT_GS_OK(status);
            taken++;
            continue;
        }
        expect_refused(status, ("gs_render_backward" + refusal).c_str());
    }
    EXPECT_EQ(taken, 6);
    EXPECT_FALSE(gs_has_strategy(DISTWAR_VECTOR));
    EXPECT_FALSE(gs_has_strategy(DISTWAR_CUB));
    EXPECT_FALSE(gs_has_strategy(DISTWAR_STRATEGY_COUNT));
    EXPECT_FALSE(gs_has_strategy(distwar_strategy(-1)));
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
        EXPECT_LE(relative_norm({without.begin(), without.end()}, {with.begin(), with.end()}), 1e-5);
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
    EXPECT_LE(relative_norm({without.begin(), without.end()}, {with.begin(), with.end()}), 1e-6);
    const gradient_memory memory(frame);
    frame.view.ranges.split_tiles = 1;
    expect_refused(gs_render_backward(&frame.view, &memory.gradient, {DISTWAR_TREE, 0}, NULL),
                   "gs_render_backward: color of the image must be given where tiles are split");
    expect_refused(gs_render(&frame.view, NULL), "gs_render: color of the image");
}

} // namespace
