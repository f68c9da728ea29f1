// SPDX-License-Identifier: MIT
// Depth, the median of depth, and absolute gradients against the reference, with the kernels' decisions
// replayed.
#include "blend_cases.h"
#include <cmath>

namespace {

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
    const std::vector<float> color = frame.color.read(), transmittance = frame.transmittance.read();
    const std::vector<uint32_t> n_contrib = frame.n_contrib.read();
    const rendered expected(frame.blend());
    for (const int pixels : {1, 2, 4}) {
        frame.view.ranges.pixels_per_thread = pixels;
        ASSERT_GS_OK(gs_render(&frame.view, NULL));
        EXPECT_EQ(frame.color.read(), color) << pixels;
        EXPECT_EQ(frame.transmittance.read(), transmittance) << pixels;
        EXPECT_EQ(frame.n_contrib.read(), n_contrib) << pixels;
        const std::vector<float> depth = frame.depth.read(), median = frame.median_depth.read();
        int64_t close = 0, crossed = 0;
        for (int64_t i = 0; i < frame.pixels(); i++) {
            ASSERT_NEAR(depth[i], expected.depth[i], 1e-4) << "pixel " << i;
            crossed += expected.median_depth[i] > 0;
            if (expected.median_margin[i] < 1e-4)
                close++;
            else
                ASSERT_NEAR(median[i], expected.median_depth[i], 1e-4) << "pixel " << i;
        }
        EXPECT_LE(close, frame.pixels() / 100);
        EXPECT_GT(crossed, 0);
    }
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
    frame.expect_reference_moments(true, false);
    frame.expect_reference_moments(false, true);
    frame.expect_reference_moments(true, true);
}

INSTANTIATE_TEST_SUITE_P(Scenes, Depth,
                         testing::Values(depth_scene{{2, 128, 1, 1, 50, 37}, false},
                                         depth_scene{{5, 64, 3, 1, 17, 90}, true},
                                         depth_scene{{9, 600, 1, 1, 33, 33}, true},
                                         depth_scene{{9, 600, 1, 1, 33, 33}, false, true},
                                         depth_scene{{2, 128, 1, 1, 50, 37}, true, true}));

TEST(DepthEdges, WithoutSplatsIsZeroAndTheImageTheBackground) {
    kernel_frame frame({1, 0, 0, 0, 20, 30});
    frame.view.image.depth = frame.depth.data(), frame.view.image.median_depth = frame.median_depth.data();
    for (const int normalize : {0, 1}) {
        frame.depth.fill(12345);
        frame.view.normalize_depth = normalize;
        ASSERT_GS_OK(gs_render(&frame.view, NULL));
        EXPECT_EQ(frame.depth.read(), std::vector<float>(600));
        EXPECT_EQ(frame.median_depth.read(), std::vector<float>(600));
        EXPECT_EQ(frame.transmittance.read(), std::vector<float>(600, 1));
        const std::vector<float> color = frame.color.read();
        for (size_t i = 0; i < color.size(); i++) ASSERT_EQ(color[i], frame.view.background[i / 600]);
    }
}

TEST(DepthEdges, ItsGradientNeedsTheDepthWhereItIsRead) {
    kernel_frame frame({2, 128, 1, 1, 50, 37});
    const device_vector<float> d_color(std::vector<float>(size_t(3 * frame.pixels()))),
        d_depth(std::vector<float>(size_t(frame.pixels())));
    const device_vector<gs_splat_grad> splat_grad(size_t(frame.choice.count));
    gs_gradient gradient = {};
    gradient.color = d_color.data(), gradient.depth = d_depth.data();
    gradient.splat_grad = splat_grad.data();
    frame.view.ranges.split_tiles = 0;
    EXPECT_GS_OK(gs_render_backward(&frame.view, &gradient, {DISTWAR_TREE, 0}, NULL));
    for (const int normalize : {1, 0}) {
        frame.view.normalize_depth = normalize, frame.view.ranges.split_tiles = 1 - normalize;
        expect_error(gs_render_backward(&frame.view, &gradient, {DISTWAR_TREE, 0}, NULL),
                     "gs_render_backward: depth of the image must be given where tiles are split "
                     "or the depth is normalised");
    }
    frame.view.image.depth = frame.depth.data();
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    EXPECT_GS_OK(gs_render_backward(&frame.view, &gradient, {DISTWAR_TREE, 0}, NULL));
}

} // namespace
