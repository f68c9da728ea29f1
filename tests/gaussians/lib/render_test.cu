// SPDX-License-Identifier: MIT
// The blend and its adjoint against the reference, with the kernels' decisions replayed, and the decisions
// themselves.
#include "kernel_frame.h"
#include "blend.cuh"
#include <cmath>

using namespace gs;

namespace {

class Render : public testing::TestWithParam<scene_choice> {};

TEST_P(Render, AgreesWithTheReferenceUnderItsOwnDecisions) {
    const kernel_frame frame(GetParam());
    reference_decisions taken = frame.decisions();
    const std::vector<reference_splat> splats = frame.reference_splats(taken);
    reference_image expected = reference_image_create(frame.choice.width, frame.choice.height);
    reference_render(splats.data(), &taken.lists, frame.choice.width, frame.choice.height,
                     frame.scene.background, taken.blend, NULL, &expected);
    const std::vector<float> color = frame.color.read(), transmittance = frame.transmittance.read();
    const std::vector<uint32_t> consumed = frame.consumed.read();
    for (int64_t i = 0; i < frame.pixels(); i++) {
        for (int c = 0; c < 3; c++)
            ASSERT_NEAR(color[c * frame.pixels() + i], expected.color[c * frame.pixels() + i], 1e-5)
                << "pixel " << i;
        ASSERT_NEAR(transmittance[i], expected.transmittance[i], 1e-5) << "pixel " << i;
        ASSERT_EQ(consumed[i], expected.n_contrib[i]) << "pixel " << i;
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
        std::vector<uint8_t> own(size_t(taken.lists.pairs) * REFERENCE_TILE_PIXELS);
        reference_render(splats.data(), &taken.lists, choice.width, choice.height, frame.scene.background,
                         NULL, own.data(), &expected);
        for (int64_t i = 0; i < frame.pixels(); i++) {
            const int x = int(i % choice.width), y = int(i / choice.width);
            const int tile = y / GS_TILE_SIZE * taken.lists.tiles_x + x / GS_TILE_SIZE;
            const int in_tile = y % GS_TILE_SIZE * GS_TILE_SIZE + x % GS_TILE_SIZE;
            bool same = true;
            for (int64_t k = taken.lists.tile_begin[tile]; k < taken.lists.tile_begin[tile + 1]; k++)
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

struct way {
    gs_reduction reduction;
    int balance_threshold;
    int pixels_per_thread;
    bool split; // every tile
};
const way ways[] = {
    {GS_ATOMIC, 0, 1, false}, {GS_ATOMIC, 0, 2, false},  {GS_ATOMIC, 0, 4, false}, {GS_SERIAL, 0, 1, false},
    {GS_SERIAL, 9, 2, false}, {GS_SERIAL, 33, 4, false}, {GS_BFLY, 0, 4, false},   {GS_BFLY, 17, 1, false},
    {GS_BFLY, 17, 2, false},  {GS_TREE, 0, 1, false},    {GS_TREE, 0, 2, false},   {GS_TREE, 0, 4, false},
    {GS_TREE, 17, 2, false},  {GS_BLOCK, 0, 1, false},   {GS_BLOCK, 0, 2, false},  {GS_BLOCK, 0, 4, false},
    {GS_FIXED, 0, 1, false},  {GS_FIXED, 0, 2, false},   {GS_FIXED, 0, 4, false},  {GS_TREE, 0, 1, true},
    {GS_TREE, 9, 2, true},    {GS_TREE, 0, 4, true},     {GS_ATOMIC, 0, 4, true},  {GS_SERIAL, 0, 2, true},
    {GS_BFLY, 0, 2, true},    {GS_BLOCK, 0, 4, true},    {GS_FIXED, 0, 2, true}};

std::ostream &operator<<(std::ostream &out, const way &w) {
    return out << gs_reduction_name(w.reduction) << ", threshold " << w.balance_threshold << ", "
               << w.pixels_per_thread << " pixels a thread" << (w.split ? ", split" : "");
}

TEST_P(Render, GivesTheMomentsOfTheReferenceByEveryReduction) {
    kernel_frame frame(GetParam());
    reference_decisions taken = frame.decisions();
    const std::vector<reference_splat> splats = frame.reference_splats(taken);
    const std::vector<float> by_color = random_floats(11, size_t(3 * frame.pixels()), -1, 1);
    const std::vector<float> by_alpha = random_floats(12, size_t(frame.pixels()), -1, 1);
    std::vector<reference_splat_gradient> gradients(size_t(frame.choice.count));
    reference_render_backward(splats.data(), frame.choice.count, &taken.lists, frame.choice.width,
                              frame.choice.height, frame.scene.background, taken.blend,
                              std::vector<double>(by_color.begin(), by_color.end()).data(),
                              std::vector<double>(by_alpha.begin(), by_alpha.end()).data(), gradients.data());
    for (const way &w : ways) {
        SCOPED_TRACE(w);
        frame.lists.pixels_per_thread = w.pixels_per_thread;
        frame.lists.split_tiles = w.split ? frame.lists.tiles_x * frame.lists.tiles_y : 0;
        const std::vector<float> moments =
            frame.backward(by_color, by_alpha, w.reduction, w.balance_threshold);
        for (int k = 0; k < GS_MOMENTS_STRIDE; k++) {
            std::vector<double> got, wanted;
            for (int64_t i = 0; i < frame.choice.count; i++) {
                double expected[GS_MOMENTS] = {};
                if (splats[i].decisions.visible) reference_moments(&splats[i], &gradients[i], expected);
                got.push_back(moments[i * GS_MOMENTS_STRIDE + k]);
                wanted.push_back(k < GS_MOMENTS ? expected[k] : 0);
            }
            EXPECT_LE(relative_norm(got, wanted), 1e-4) << "moment " << k;
        }
    }
    reference_decisions_destroy(&taken);
}

TEST_P(Render, DoesNotDependOnTheReduction) {
    kernel_frame frame(GetParam());
    const std::vector<float> by_color = random_floats(21, size_t(3 * frame.pixels()), -1, 1);
    const std::vector<float> by_alpha = random_floats(22, size_t(frame.pixels()), -1, 1);
    const std::vector<float> atomic = frame.backward(by_color, by_alpha, GS_ATOMIC, 0);
    for (const way &w : ways) {
        frame.lists.pixels_per_thread = w.pixels_per_thread;
        frame.lists.split_tiles = w.split ? frame.lists.tiles_x * frame.lists.tiles_y : 0;
        const std::vector<float> other = frame.backward(by_color, by_alpha, w.reduction, w.balance_threshold);
        EXPECT_LE(relative_norm({other.begin(), other.end()}, {atomic.begin(), atomic.end()}),
                  w.split ? 5e-5 : 1e-5)
            << w;
    }
}

TEST_P(Render, DoesNotDependOnThePixelsOfAThread) {
    kernel_frame frame(GetParam());
    std::vector<float> color, transmittance;
    std::vector<uint32_t> consumed;
    for (const int pixels : {1, 2, 4}) {
        frame.lists.pixels_per_thread = pixels;
        ASSERT_GS_OK(gs_render(frame.splats.data(), &frame.lists, frame.choice.width, frame.choice.height,
                               frame.background, &frame.image, NULL));
        if (pixels == 1)
            color = frame.color.read(), transmittance = frame.transmittance.read(),
            consumed = frame.consumed.read();
        EXPECT_EQ(frame.color.read(), color) << pixels;
        EXPECT_EQ(frame.transmittance.read(), transmittance) << pixels;
        EXPECT_EQ(frame.consumed.read(), consumed) << pixels;
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Render, testing::ValuesIn(comparison_scenes()));

TEST(RenderEdges, AnEmptySceneIsTheBackground) {
    const kernel_frame frame({1, 0, 0, 0, 20, 30});
    const std::vector<float> color = frame.color.read(), transmittance = frame.transmittance.read();
    for (int64_t i = 0; i < frame.pixels(); i++) {
        for (int c = 0; c < 3; c++) ASSERT_EQ(color[c * frame.pixels() + i], frame.background[c]);
        ASSERT_EQ(transmittance[i], 1);
    }
}

TEST(RenderEdges, AViewWithNothingVisibleIsTheBackground) {
    kernel_frame frame(comparison_scenes()[0]);
    gs_camera away = frame.camera;
    away.translation[2] = -1000;
    ASSERT_GS_OK(gs_project(frame.gaussians.get(), 0, &away, frame.splats.data(), NULL));
    size_t bytes;
    int64_t needed;
    ASSERT_GS_OK(gs_bin_workspace(frame.choice.count, away.width, away.height, 0, &bytes));
    const device_vector<char> workspace(bytes);
    ASSERT_GS_OK(gs_bin(frame.splats.data(), frame.choice.count, away.width, away.height, 0, workspace.data(),
                        bytes, &frame.lists, &needed, NULL));
    ASSERT_EQ(needed, 0);
    ASSERT_GS_OK(gs_render(frame.splats.data(), &frame.lists, away.width, away.height, frame.background,
                           &frame.image, NULL));
    const std::vector<float> color = frame.color.read();
    for (int64_t i = 0; i < 3 * frame.pixels(); i++)
        ASSERT_EQ(color[i], frame.background[i / frame.pixels()]);
    const std::vector<float> by_color(size_t(3 * frame.pixels()), 1), by_alpha(size_t(frame.pixels()), 1);
    for (const float moment : frame.backward(by_color, by_alpha, GS_BFLY, 0)) ASSERT_EQ(moment, 0);
}

TEST(RenderEdges, BadArgumentsAreNamed) {
    const kernel_frame frame(comparison_scenes()[0]);
    const int width = frame.choice.width, height = frame.choice.height;
    EXPECT_EQ(gs_render(frame.splats.data(), &frame.lists, width + 64, height, frame.background, &frame.image,
                        NULL),
              GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("another size"), std::string::npos) << gs_last_error();
    const device_vector<float> gradient(size_t(3 * frame.pixels())),
        moments(size_t(frame.choice.count * GS_MOMENTS_STRIDE));
    for (const int threshold : {-1, 34})
        EXPECT_EQ(gs_render_backward(frame.splats.data(), frame.choice.count, &frame.lists, width, height,
                                     frame.background, &frame.image, gradient.data(), NULL, GS_BFLY,
                                     threshold, moments.data(), NULL),
                  GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_render_backward(frame.splats.data(), frame.choice.count, &frame.lists, width, height,
                                 frame.background, &frame.image, gradient.data(), NULL, gs_reduction(17), 0,
                                 moments.data(), NULL),
              GS_INVALID_ARGUMENT);
}

// Only where tiles are split does the way back read the colours.
TEST(RenderEdges, TheWayBackDoesWithoutColoursUnlessTilesAreSplit) {
    kernel_frame frame(comparison_scenes()[0]);
    const int width = frame.choice.width, height = frame.choice.height;
    const std::vector<float> by_color = random_floats(1, size_t(3 * frame.pixels()), -1, 1),
                             by_alpha = random_floats(2, size_t(frame.pixels()), -1, 1);
    frame.lists.split_tiles = 0;
    const std::vector<float> with = frame.backward(by_color, by_alpha, GS_TREE, 0);
    frame.image.color = NULL;
    const std::vector<float> without = frame.backward(by_color, by_alpha, GS_TREE, 0);
    EXPECT_LE(relative_norm({without.begin(), without.end()}, {with.begin(), with.end()}), 1e-6);
    const device_vector<float> gradient(by_color), moments(size_t(frame.choice.count * GS_MOMENTS_STRIDE));
    frame.lists.split_tiles = 1;
    EXPECT_EQ(gs_render_backward(frame.splats.data(), frame.choice.count, &frame.lists, width, height,
                                 frame.background, &frame.image, gradient.data(), NULL, GS_TREE, 0,
                                 moments.data(), NULL),
              GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("color of the image must be given where tiles are split"),
              std::string::npos)
        << gs_last_error();
    EXPECT_EQ(
        gs_render(frame.splats.data(), &frame.lists, width, height, frame.background, &frame.image, NULL),
        GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("gs_render: color"), std::string::npos) << gs_last_error();
}

} // namespace
