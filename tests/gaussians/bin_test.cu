// SPDX-License-Identifier: MIT
// Lists of tiles: nothing that counts is missing, the order is (depth, index), and a list that does not fit
// is not begun.
#include "kernel_frame.h"
#include <algorithm>

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

TEST(bin_edges, equal_depths_stand_in_the_order_of_their_index) {
    const int count = 70;
    std::vector<gs_splat> splats(count);
    for (gs_splat &splat : splats) splat = {{20, 20}, {0.1f, 0, 0.1f}, -1, {1, 1, 1}, 3, {}};
    const device_vector<gs_splat> device(splats);
    size_t bytes;
    ASSERT_GS_OK(gs_bin_workspace(count, 40, 40, 9 * count, &bytes));
    const device_vector<char> workspace(bytes);
    gs_lists lists;
    int64_t needed;
    ASSERT_GS_OK(
        gs_bin(device.data(), count, 40, 40, 9 * count, workspace.data(), bytes, &lists, &needed, NULL));
    ASSERT_EQ(lists.pairs, 9 * count);
    std::vector<uint32_t> index(size_t(lists.pairs));
    device_download(index.data(), lists.splat_index, index.size() * sizeof(uint32_t));
    for (size_t i = 0; i < index.size(); i++) ASSERT_EQ(index[i], i % count);
}

TEST(bin_edges, a_list_that_does_not_fit_is_not_begun) {
    const kernel_frame frame(comparison_scenes()[0]);
    const int64_t capacity = frame.lists.pairs - 1;
    size_t bytes;
    ASSERT_GS_OK(
        gs_bin_workspace(frame.choice.count, frame.choice.width, frame.choice.height, capacity, &bytes));
    const device_vector<char> workspace(bytes);
    gs_lists lists = {-1, -2, -3, NULL, NULL, -4};
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
    size_t bytes;
    ASSERT_GS_OK(gs_bin_workspace(0, 33, 17, 0, &bytes));
    const device_vector<char> workspace(bytes);
    gs_lists lists;
    int64_t needed = -1;
    ASSERT_GS_OK(gs_bin(NULL, 0, 33, 17, 0, workspace.data(), bytes, &lists, &needed, NULL));
    EXPECT_EQ(needed, 0);
    EXPECT_EQ(lists.pairs, 0);
    std::vector<int64_t> begin(7, -1);
    device_download(begin.data(), lists.tile_begin, begin.size() * sizeof(int64_t));
    EXPECT_EQ(begin, std::vector<int64_t>(7, 0));
}

} // namespace
