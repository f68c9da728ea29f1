// SPDX-License-Identifier: MIT
// How the rows of views are shared out among ranks.
#include "parts.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

namespace {

// Checks that parts follow one another and end with the last row. Returns the cost of each rank's share.
std::vector<int64_t> costs_of_shares(int ranks_number, int views, int rows, const int64_t *costs) {
    tile_partition out;
    divide_tiles(ranks_number, views, rows, costs, &out);
    std::vector<int64_t> found{};
    int64_t at = 0; // rows so far, of all views
    EXPECT_EQ(out.begin[0], 0);
    for (int r = 0; r < ranks_number; r++) {
        int64_t cost = 0;
        for (int p = out.begin[r]; p < out.begin[r + 1]; p++) {
            EXPECT_EQ(int64_t(out.parts[p].view) * rows + out.parts[p].rows.begin, at);
            EXPECT_GT(out.parts[p].rows.end, out.parts[p].rows.begin);
            const int64_t end = at + out.parts[p].rows.end - out.parts[p].rows.begin;
            for (; at < end; at++) cost += costs ? costs[at] : 1;
        }
        EXPECT_LE(out.begin[r + 1] - out.begin[r], out.most);
        found.push_back(cost);
    }
    EXPECT_EQ(at, int64_t(views) * rows);
    EXPECT_LE(out.begin[ranks_number], views + ranks_number - 1);
    return found;
}

TEST(TileRanges, GivesEachRowToOneRankInEqualShares) {
    for (int ranks_number = 1; ranks_number <= RANKS_MAX; ranks_number += 7)
        for (const int views : {1, 2, 5, int(GS_MAX_VIEWS)})
            for (const int rows : {1, 3, 68, int(GS_MAX_SIZE) / int(GS_TILE_SIZE)})
                for (const int64_t cost : costs_of_shares(ranks_number, views, rows, nullptr)) {
                    const double equal = double(views) * rows / ranks_number;
                    ASSERT_LE(std::abs(double(cost) - equal), 1 + 0.2 * equal);
                }
}

TEST(TileRanges, FollowsTheCosts) {
    const int views = 3, rows = 40;
    std::vector<int64_t> costs{};
    int64_t all = 0, largest = 0;
    for (int k = 0; k < views * rows; k++) {
        costs.push_back(k % rows < 30 ? 10 + k : 5000 + 100 * (k % 7));
        all += costs.back(), largest = std::max(largest, costs.back());
    }
    for (int ranks_number = 1; ranks_number <= 8; ranks_number++)
        for (const int64_t cost : costs_of_shares(ranks_number, views, rows, costs.data()))
            ASSERT_LE(std::abs(double(cost) - double(all) / ranks_number),
                      double(largest) + 0.2 * double(all) / ranks_number)
                << ranks_number << " ranks";
    // Views that differ by less than the tolerance are not cut.
    for (const auto &[cost, parts] : {std::pair{1090, 2}, {1300, 3}}) {
        tile_partition out;
        for (int k = 0; k < 2 * rows; k++) costs[size_t(k)] = k < rows ? 1000 : cost;
        divide_tiles(2, 2, rows, costs.data(), &out);
        EXPECT_EQ(out.begin[2], parts);
        // Of view 1: (40 * 1000 + 40 * 1300) / 2 - 40 * 1000 over 1300 is 4.6.
        EXPECT_EQ(out.parts[1].rows.end, parts == 2 ? rows : 5);
    }
}

} // namespace
