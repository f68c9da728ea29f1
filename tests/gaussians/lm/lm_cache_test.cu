// SPDX-License-Identifier: MIT
// Products from a cache of pairs: what it holds, and that they are those without a cache and of a dense J.
#include "lm_frame.h"
#include <memory>

namespace lm_tests {

// A cache on the device of a frame's view.
struct cached {
    explicit cached(const lm_frame &f) : begin(size_t(f.choice.count + 2)), cache{} {
        cache.begin = begin.data();
        EXPECT_GS_OK(gs_lm_cache_begin(&f.view, &cache));
        pixel = std::make_unique<device_vector<uint32_t>>(size_t(cache.pairs));
        derivatives = std::make_unique<device_vector<float>>(size_t(4 * cache.pairs));
        cache.pixel = pixel->data();
        cache.share = derivatives->data();
        cache.d_log_alpha = derivatives->data() + cache.pairs;
        EXPECT_GS_OK(gs_lm_cache_fill(&f.view, &cache));
    }
    // From the frame's tangents.
    std::vector<double> forward(const lm_frame &f, const float *weight) const {
        EXPECT_GS_OK(gs_lm_forward(&f.view, &cache, f.tangents.data(), weight, f.change.data()));
        return doubles(f.change.read());
    }
    std::vector<double> backward(const lm_frame &f, const float *picture, distwar_policy policy) const {
        float *const splat_grad = reinterpret_cast<float *>(f.splat_grad.data());
        EXPECT_GS_OK(gs_lm_cached_backward(&f.view, &cache, picture, policy, splat_grad));
        return f.to_parameters();
    }
    std::vector<double> take_squares(const lm_frame &f, distwar_policy policy) const {
        EXPECT_GS_OK(gs_lm_squares(&f.view, &cache, f.weight.data(), policy, f.squares.data()));
        return doubles(f.squares.read());
    }
    device_vector<int64_t> begin;
    std::unique_ptr<device_vector<uint32_t>> pixel;
    std::unique_ptr<device_vector<float>> derivatives;
    gs_lm_cache cache;
};

// A splat and a pixel, as x + 65536 y.
using pair_of_both = std::pair<int64_t, uint32_t>;

// The multiset of pairs before the sort is that of the tape: what each entry of a tile's list does at each of its pixels.
TEST_P(Lm, TheSortKeepsEveryPair) {
    const lm_frame frame(GetParam());
    const cached held(frame);
    std::vector<pair_of_both> expected, got;
    const auto &ranges = frame.taken.ranges;
    for (int tile = 0; tile < ranges.tiles_x * ranges.tiles_y; tile++)
        for (int64_t k = ranges.tile_begin[tile]; k < ranges.tile_begin[tile + 1]; k++)
            for (int p = 0; p < REFERENCE_TILE_PIXELS; p++) {
                const uint8_t did = frame.taken.blend[k * REFERENCE_TILE_PIXELS + p];
                if (did != REFERENCE_COUNTED && did != REFERENCE_CUT) continue;
                const int x = tile % ranges.tiles_x * GS_TILE_SIZE + p % GS_TILE_SIZE;
                const int y = tile / ranges.tiles_x * GS_TILE_SIZE + p / GS_TILE_SIZE;
                expected.emplace_back(ranges.splat_index[k], uint32_t(x + 65536 * y));
            }
    const std::vector<int64_t> begin = held.begin.read();
    const std::vector<uint32_t> pixel = held.pixel->read();
    ASSERT_EQ(begin.front(), 0);
    ASSERT_EQ(begin[size_t(frame.choice.count)], held.cache.pairs);
    for (int64_t i = 0; i < frame.choice.count; i++)
        for (int64_t k = begin[size_t(i)]; k < begin[size_t(i + 1)]; k++)
            got.emplace_back(i, pixel[size_t(k)]);
    std::sort(expected.begin(), expected.end());
    std::sort(got.begin(), got.end());
    EXPECT_EQ(got.size(), expected.size());
    EXPECT_TRUE(got == expected);
}

TEST_P(Lm, ProductsFromACacheAreThoseWithout) {
    const lm_frame frame(GetParam());
    const cached held(frame);
    const device_gaussians along(frame.random_direction(7));
    for (const bool weighted : {false, true}) {
        const std::vector<double> change = frame.forward(along, weighted);
        EXPECT_LE(relative_norm(held.forward(frame, weighted ? frame.weight.data() : NULL), change), 1e-5)
            << weighted;
    }
    frame.backward(frame.change.data());
    const std::vector<double> splat_grad = doubles(frame.read_splat_grad());
    const std::vector<double> squares = frame.take_squares({DISTWAR_TREE, 0});
    for (const distwar_policy &policy : policies) {
        held.backward(frame, frame.change.data(), policy);
        EXPECT_LE(relative_norm(doubles(frame.read_splat_grad()), splat_grad), 1e-5)
            << distwar_strategy_name(policy.strategy);
        EXPECT_LE(relative_norm(held.take_squares(frame, policy), squares), 1e-5)
            << distwar_strategy_name(policy.strategy);
    }
}

TEST(LmDense, ProductsAndDiagonalAreThoseOfTheJacobianWithACacheAndWithout) {
    const lm_frame frame(tiny);
    const dense explicitly(frame);
    const cached held(frame);
    const parameters direction = frame.random_direction(3);
    const device_gaussians p(direction);
    std::vector<double> along(size_t(explicitly.rows)), product;
    for (int64_t k = 0; k < explicitly.columns; k++)
        for (int64_t r = 0; r < explicitly.rows; r++)
            along[size_t(r)] += explicitly.jacobian[size_t(k * explicitly.rows + r)] * direction.mean[k];
    for (int64_t k = 0; k < explicitly.columns; k++) product.push_back(dot(along, explicitly.column(k)));

    const std::vector<double> slope = slopes(frame.lm);
    for (const bool with_cache : {false, true}) {
        SCOPED_TRACE(with_cache);
        const auto forward = [&](bool weighted) {
            const std::vector<double> change = frame.forward(p, weighted);
            return with_cache ? held.forward(frame, weighted ? frame.weight.data() : NULL) : change;
        };
        // J p of each residual: its slope by its pixel's colour, times the change of that.
        const std::vector<double> change = forward(false);
        std::vector<double> residual_change(along.size());
        for (size_t r = 0; r < along.size(); r++) residual_change[r] = slope[r] * change[r % change.size()];
        EXPECT_LE(relative_norm(residual_change, along), 1e-4);
        // J^T J p
        forward(true);
        const std::vector<double> got = with_cache
                                            ? held.backward(frame, frame.change.data(), {DISTWAR_TREE, 0})
                                            : frame.backward(frame.change.data());
        EXPECT_LE(relative_norm(got, product), 1e-4);
        expect_equal_groups(frame, got, product, 1e-3);
        with_cache ? held.take_squares(frame, {DISTWAR_TREE, 0}) : frame.take_squares({DISTWAR_TREE, 0});
        expect_diagonal(frame, explicitly);
    }
}

TEST(LmEdges, ACacheOfAnEmptySceneHasNoPairs) {
    const lm_frame frame({1, 0, 0, 0, 20, 30});
    const cached held(frame);
    EXPECT_EQ(held.cache.pairs, 0);
    for (const double value : held.forward(frame, NULL)) ASSERT_EQ(value, 0);
    held.backward(frame, frame.change.data(), {DISTWAR_TREE, 0});
    held.take_squares(frame, {DISTWAR_TREE, 0});
}

TEST(LmEdges, PoliciesThatItHasNotAreNamed) {
    const lm_frame frame(tiny);
    const cached held(frame);
    const auto squares = [&](const gs_lm_cache *cache, distwar_policy policy) {
        return gs_lm_squares(&frame.view, cache, frame.weight.data(), policy, frame.squares.data());
    };
    refused(squares(NULL, {DISTWAR_BLOCK, 0}), "gs_lm_squares: strategy block is not supported");
    refused(squares(&held.cache, {DISTWAR_FIXED, 0}), "gs_lm_squares: strategy fixed is not supported");
    refused(gs_lm_cached_backward(&frame.view, &held.cache, frame.weight.data(), {DISTWAR_TREE, 34},
                                  frame.change.data()),
            "gs_lm_cached_backward: balance_threshold must be in 0..33");
}

} // namespace lm_tests
