// SPDX-License-Identifier: MIT
// Depth, the median of depth, and absolute gradients against the reference, with the kernels' decisions
// replayed.
#include "blend_cases.h"
#include "kernel_frame.h"
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
        taken = frame.decisions();
        splats = frame.reference_splats(taken);
        frame.view.image.depth = frame.depth.data();
        frame.view.image.median_depth = frame.median_depth.data();
        frame.view.normalize_depth = GetParam().normalize;
        frame.view.inverse_depth = GetParam().inverse;
    }
    ~Depth() { reference_decisions_destroy(&taken); }

    kernel_frame frame;
    reference_decisions taken;
    std::vector<reference_splat> splats;
};

TEST_P(Depth, AgreesWithTheReference) {
    const std::vector<float> color = frame.color.read(), transmittance = frame.transmittance.read();
    const std::vector<uint32_t> n_contrib = frame.n_contrib.read();
    reference_image expected = reference_image_create(frame.choice.width, frame.choice.height);
    const reference_blend blend = frame.blend(taken, splats);
    reference_render(&blend, NULL, &expected);
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
    reference_image_destroy(&expected);
}

// Either output alone.
TEST_P(Depth, IsWrittenWhereItIsWanted) {
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    const std::vector<float> depth = frame.depth.read(), median = frame.median_depth.read();
    const std::vector<float> sentinel(depth.size(), 12345);
    device_upload(frame.depth.data(), sentinel.data(), sentinel.size() * sizeof(float));
    device_upload(frame.median_depth.data(), sentinel.data(), sentinel.size() * sizeof(float));
    frame.view.image.depth = NULL;
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    EXPECT_EQ(frame.depth.read(), sentinel);
    EXPECT_EQ(frame.median_depth.read(), median);
    device_upload(frame.median_depth.data(), sentinel.data(), sentinel.size() * sizeof(float));
    frame.view.image.depth = frame.depth.data(), frame.view.image.median_depth = NULL;
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    EXPECT_EQ(frame.depth.read(), depth);
    EXPECT_EQ(frame.median_depth.read(), sentinel);
}

TEST_P(Depth, GivesTheMomentsOfTheReferenceByEveryReduction) {
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    const std::vector<float> d_color = random_floats(11, size_t(3 * frame.pixels()), -1, 1);
    const std::vector<float> d_alpha = random_floats(12, size_t(frame.pixels()), -1, 1);
    const std::vector<float> d_depth = random_floats(13, size_t(frame.pixels()), -1, 1);
    const device_vector<float> depth_gradient(d_depth), abs_mean2d(size_t(2 * frame.choice.count));
    const std::vector<double> color_weight(d_color.begin(), d_color.end()),
        alpha_weight(d_alpha.begin(), d_alpha.end()), depth_weight(d_depth.begin(), d_depth.end());
    const reference_blend blend = frame.blend(taken, splats);
    struct wanted {
        bool depth, absolute;
    };
    for (const wanted &want : {wanted{true, false}, wanted{false, true}, wanted{true, true}}) {
        std::vector<reference_splat_gradient> gradients(size_t(frame.choice.count));
        const reference_image_gradient d_image = {color_weight.data(), alpha_weight.data(),
                                                  want.depth ? depth_weight.data() : NULL};
        reference_render_backward(&blend, &d_image, gradients.data(), NULL);
        gs_gradient extras = {};
        if (want.depth) extras.depth = depth_gradient.data();
        if (want.absolute) extras.abs_mean2d = abs_mean2d.data();
        for (const blend_case &w : blend_cases) {
            SCOPED_TRACE(testing::Message()
                         << w << (want.depth ? ", depth" : "") << (want.absolute ? ", absolute" : ""));
            divide(&frame.view.ranges, w);
            const std::vector<float> splat_grad =
                frame.backward(d_color, d_alpha, {w.strategy, w.balance_threshold}, extras);
            for (int k = 0; k < GS_SPLAT_GRAD_STRIDE; k++) {
                if (k > GS_SPLAT_GRAD_SUMS && want.depth && !want.absolute) continue; // undefined
                const bool summed =
                    k < GS_SPLAT_GRAD_SUMS || (k == GS_SPLAT_GRAD_SUMS ? want.depth : want.absolute);
                std::vector<double> got, expected_of;
                for (int64_t i = 0; i < frame.choice.count; i++) {
                    double expected[GS_SPLAT_GRAD_STRIDE] = {};
                    if (splats[i].decisions.visible)
                        reference_splat_grad(&splats[i], &gradients[i], expected);
                    got.push_back(splat_grad[i * GS_SPLAT_GRAD_STRIDE + k]);
                    expected_of.push_back(summed ? expected[k] : 0);
                }
                EXPECT_LE(relative_norm(got, expected_of), 1e-4) << "moment " << k;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Depth,
                         testing::Values(depth_scene{{2, 128, 1, 1, 50, 37}, false},
                                         depth_scene{{5, 64, 3, 1, 17, 90}, true},
                                         depth_scene{{9, 600, 1, 1, 33, 33}, true},
                                         depth_scene{{9, 600, 1, 1, 33, 33}, false, true},
                                         depth_scene{{2, 128, 1, 1, 50, 37}, true, true}));

TEST(DepthEdges, WithoutSplatsIsZero) {
    kernel_frame frame({1, 0, 0, 0, 20, 30});
    frame.view.image.depth = frame.depth.data(), frame.view.image.median_depth = frame.median_depth.data();
    for (const int normalize : {0, 1}) {
        const std::vector<float> sentinel(size_t(frame.pixels()), 12345);
        device_upload(frame.depth.data(), sentinel.data(), sentinel.size() * sizeof(float));
        frame.view.normalize_depth = normalize;
        ASSERT_GS_OK(gs_render(&frame.view, NULL));
        EXPECT_EQ(frame.depth.read(), std::vector<float>(sentinel.size()));
        EXPECT_EQ(frame.median_depth.read(), std::vector<float>(sentinel.size()));
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
    const auto refused = [&] {
        EXPECT_EQ(gs_render_backward(&frame.view, &gradient, {DISTWAR_TREE, 0}, NULL), GS_INVALID_ARGUMENT);
        EXPECT_STREQ(gs_last_error(),
                     "gs_render_backward: depth of the image must be given where tiles are split "
                     "or the depth is normalised");
    };
    frame.view.normalize_depth = 1;
    refused();
    frame.view.normalize_depth = 0;
    frame.view.ranges.split_tiles = 1;
    refused();
    frame.view.image.depth = frame.depth.data();
    ASSERT_GS_OK(gs_render(&frame.view, NULL));
    EXPECT_GS_OK(gs_render_backward(&frame.view, &gradient, {DISTWAR_TREE, 0}, NULL));
}

} // namespace
