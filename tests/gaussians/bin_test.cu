// SPDX-License-Identifier: MIT
// Lists of tiles: nothing that counts is missing, the order is (depth, index), and a list that does not fit
// is not begun.
#include "kernel_frame.h"
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

namespace {

class bin : public testing::TestWithParam<scene_choice> {};

TEST_P(bin, holds_every_splat_that_counts_in_order) {
    const kernel_frame frame(GetParam());
    const std::vector<gs_splat> splats = frame.splats.read();
    reference_decisions taken = frame.decisions();
    const std::vector<reference_splat> expected = frame.reference_splats(taken);
    const gs_lists &lists = taken.lists;
    const int tiles = lists.tiles_x * lists.tiles_y;
    ASSERT_EQ(lists.tile_begin[0], 0);
    ASSERT_EQ(lists.tile_begin[tiles], lists.pairs);

    int64_t held = 0, needed = 0;
    for (int t = 0; t < tiles; t++) {
        const uint32_t *first = lists.splat_index + lists.tile_begin[t],
                       *last = lists.splat_index + lists.tile_begin[t + 1];
        ASSERT_LE(first, last);
        EXPECT_TRUE(std::is_sorted(first, last,
                                   [&](uint32_t a, uint32_t b) {
                                       return splats[a].depth != splats[b].depth
                                                  ? splats[a].depth < splats[b].depth
                                                  : a < b;
                                   }))
            << "tile " << t;
        EXPECT_EQ(std::adjacent_find(first, last), last) << "tile " << t;
        held += last - first;
        for (int64_t i = 0; i < frame.choice.count; i++) {
            const bool listed = std::find(first, last, uint32_t(i)) != last;
            const double alpha = reference_reach(&expected[i], frame.choice.width, frame.choice.height,
                                                 t % lists.tiles_x, t / lists.tiles_x);
            needed += alpha * 255 >= 1;
            if (alpha * 255 >= 1) {
                EXPECT_TRUE(listed || alpha * 255 < 1 + 1e-4)
                    << "tile " << t << " lacks splat " << i << " of kind " << reference_kind_of(i)
                    << ", which reaches " << alpha;
            }
        }
    }
    // Tiles that a splat touches only between pixel centres are listed too; they must be few.
    EXPECT_LE(held, needed + needed / 10 + 8);
    reference_decisions_destroy(&taken);
}

INSTANTIATE_TEST_SUITE_P(scenes, bin, testing::ValuesIn(comparison_scenes()));

// The lists of splats as they stand, on the host and the device.
struct binned {
    device_vector<gs_splat> splats;
    std::unique_ptr<device_vector<char>> workspace;
    gs_lists lists{};
    std::vector<int64_t> begin;
    std::vector<uint32_t> index, order;

    binned(const std::vector<gs_splat> &these, int width, int height, int64_t capacity) : splats(these) {
        size_t bytes = 0;
        int64_t needed = 0;
        EXPECT_GS_OK(gs_bin_workspace(int64_t(these.size()), width, height, capacity, &bytes));
        workspace = std::make_unique<device_vector<char>>(bytes);
        EXPECT_GS_OK(gs_bin(splats.data(), int64_t(these.size()), width, height, capacity, workspace->data(),
                            bytes, &lists, &needed, NULL));
        const size_t tiles = size_t(lists.tiles_x) * lists.tiles_y;
        begin.resize(tiles + 1), order.resize(tiles), index.resize(size_t(lists.pairs));
        device_download(begin.data(), lists.tile_begin, begin.size() * sizeof(int64_t));
        device_download(order.data(), lists.tile_order, order.size() * sizeof(uint32_t));
        device_download(index.data(), lists.splat_index, index.size() * sizeof(uint32_t));
    }
    int64_t length(uint32_t tile) const { return begin[tile + 1] - begin[tile]; }
};

TEST(bin_edges, equal_depths_stand_in_the_order_of_their_index) {
    const int count = 70;
    const std::vector<gs_splat> splats(count, {{20, 20}, {0.1f, 0, 0.1f}, -1, {1, 1, 1}, 3, {}});
    const binned made(splats, 40, 40, 9 * count);
    ASSERT_EQ(made.lists.pairs, 9 * count);
    for (size_t i = 0; i < made.index.size(); i++) ASSERT_EQ(made.index[i], i % count);
}

// Around what a block sorts in shared memory, and what takes one and several merges.
TEST(bin_edges, long_lists_are_sorted) {
    std::mt19937 random(3);
    for (const int count : {1, 2, 31, 33, 64, 65, 100, 257, 2047, 2048, 2049, 4096, 4097, 7000, 9001}) {
        std::vector<gs_splat> splats(count, {{8, 8}, {2, 0, 2}, -1, {1, 1, 1}, 3, {}});
        for (gs_splat &splat : splats) splat.depth = 1 + float(random() % unsigned(count));
        const binned made(splats, 16, 16, count);
        ASSERT_EQ(made.lists.pairs, count);
        std::vector<uint32_t> expected(count);
        std::iota(expected.begin(), expected.end(), 0u);
        std::stable_sort(expected.begin(), expected.end(),
                         [&](uint32_t a, uint32_t b) { return splats[a].depth < splats[b].depth; });
        EXPECT_EQ(made.index, expected) << count;
    }
}

TEST(bin_edges, long_lists_come_first_and_those_beyond_a_fair_share_are_split) {
    std::mt19937 random(4);
    const int width = 330, height = 170;
    std::vector<gs_splat> splats;
    for (int i = 0; i < 3000; i++) {
        const float x = float(random() % width), y = float(random() % height);
        splats.push_back({{i < 700 ? 8 : x, i < 700 ? 8 : y}, {2, 0, 2}, -1, {1, 1, 1}, 3, {}});
    }
    const binned made(splats, width, height, 20000);
    std::vector<uint32_t> sorted = made.order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t t = 0; t < sorted.size(); t++) ASSERT_EQ(sorted[t], t);
    for (size_t t = 1; t < sorted.size(); t++) // by classes that are an eighth of an octave wide
        EXPECT_LE(made.length(made.order[t]), made.length(made.order[t - 1]) * 9 / 8 + 1) << t;
    EXPECT_EQ(made.order[0], 0u);
    ASSERT_GE(made.lists.split_tiles, 1);
    ASSERT_LT(made.lists.split_tiles, int(sorted.size()));
    EXPECT_GT(made.length(made.order[size_t(made.lists.split_tiles) - 1]),
              made.length(made.order[size_t(made.lists.split_tiles)]));
    EXPECT_EQ(made.lists.pixels_per_thread, 2); // one list is far longer than the others
    const binned even(std::vector<gs_splat>(splats.begin() + 700, splats.end()), width, height, 20000);
    EXPECT_EQ(even.lists.split_tiles, 0);
}

TEST(bin_edges, a_list_that_does_not_fit_is_not_begun) {
    const kernel_frame frame(comparison_scenes()[0]);
    const int64_t capacity = frame.lists.pairs - 1;
    size_t bytes;
    ASSERT_GS_OK(
        gs_bin_workspace(frame.choice.count, frame.choice.width, frame.choice.height, capacity, &bytes));
    const device_vector<char> workspace(bytes);
    gs_lists lists = {-1, -2, -3, NULL, NULL, -4, -5, NULL};
    int64_t needed = 0;
    EXPECT_EQ(gs_bin(frame.splats.data(), frame.choice.count, frame.choice.width, frame.choice.height,
                     capacity, workspace.data(), bytes, &lists, &needed, NULL),
              GS_PAIRS_DO_NOT_FIT);
    EXPECT_EQ(needed, frame.lists.pairs);
    EXPECT_EQ(lists.tiles_x, -1);
    EXPECT_EQ(lists.pairs, -3);
    EXPECT_EQ(gs_bin(frame.splats.data(), frame.choice.count, frame.choice.width, frame.choice.height,
                     capacity, workspace.data(), bytes - 1, &lists, &needed, NULL),
              GS_INVALID_ARGUMENT);
}

TEST(bin_edges, no_splats_make_empty_lists) {
    const binned made({}, 33, 17, 0);
    EXPECT_EQ(made.lists.pairs, 0);
    EXPECT_EQ(made.lists.split_tiles, 0);
    EXPECT_EQ(made.begin, std::vector<int64_t>(7, 0));
    std::vector<uint32_t> order = made.order;
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
}

} // namespace
