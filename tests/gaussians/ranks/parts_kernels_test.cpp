// SPDX-License-Identifier: MIT
// What ranks with parts of a scene need of each other, on one.
#include "kernel_frame.h"
#include "kernels.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <random>

namespace parts_kernels_test {

TEST(PartsKernels, RowsOfTilesMustBeInTheImage) {
    const kernel_frame frame({4, 192, 1, 1, 71, 45});
    own_view view(frame.view);
    view.ranges = {}, view.memory.isect_capacity = 100000;
    for (const gs_rows wrong : {gs_rows{-1, 2}, gs_rows{2, 1}, gs_rows{0, 4}}) {
        view.rows = wrong;
        EXPECT_EQ(gs_bin(&view, NULL), GS_INVALID_ARGUMENT);
        EXPECT_STREQ(gs_last_error(), "gs_bin: rows must be a range of the rows of tiles");
    }
    const device_vector<uint8_t> target(3 * 71 * 45);
    const device_vector<double> result(3);
    const gs_loss_image image =
        loss_image({71, 45, frame.view.image.color, target.data(), nullptr}, result.data(), nullptr);
    EXPECT_EQ(libgs_loss_rows(&image, {0, 4}, NULL, NULL), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "libgs_loss_rows: rows must be a range of the rows of tiles");
}

// Within a class of lengths tile_order has any order, so its first tile may have another list. Here it has the
// shortest.
TEST(PartsKernels, LengthsHaveTheLongestList) {
    const kernel_frame frame({4, 500, 0, 0, 160, 120});
    const gs_tile_ranges &ranges = frame.view.ranges;
    const size_t tiles = size_t(ranges.tiles_x) * size_t(ranges.tiles_y);
    std::vector<int64_t> begin(tiles + 1);
    std::vector<uint32_t> order(tiles);
    device_download(begin.data(), ranges.tile_begin, begin.size() * sizeof(int64_t));
    device_download(order.data(), ranges.tile_order, order.size() * sizeof(uint32_t));
    const auto length = [&](uint32_t tile) { return begin[tile + 1] - begin[tile]; };
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return length(a) < length(b); });
    ASSERT_LT(length(order.front()), length(order.back()));
    device_upload(ranges.tile_order, order.data(), order.size() * sizeof(uint32_t));
    const device_vector<list_lengths> lengths(1);
    gs_view view = frame.view;
    view.memory = frame.kept.memory;
    ASSERT_GS_OK(libgs_list_lengths(&view, lengths.data(), NULL));
    EXPECT_EQ(lengths.read()[0].longest, length(order.back()));
    EXPECT_EQ(lengths.read()[0].isects, begin[tiles]);
}

TEST(PartsKernels, RowSumsAreOfEachRow) {
    const kernel_frame frame({4, 192, 1, 1, 71, 45});
    const std::vector<float> values = random_floats(9, 3 * 71 * 45, -1e-4f, 1e-4f);
    const device_vector<float> planes(values);
    const device_vector<double> sums(9);
    for (const gs_rows rows : {gs_rows{2, 3}, gs_rows{0, 2}})
        ASSERT_GS_OK(parts_row_sums(&frame.view, rows, planes.data(), sums.data(), NULL));
    double wanted[9] = {};
    for (size_t i = 0; i < values.size(); i++) // 3 rows of tiles, 3 channels
        wanted[3 * (i / 71 % 45 / 16) + i / (71 * 45)] += std::fabs(double(values[i]));
    for (size_t k = 0; k < 9; k++) EXPECT_NEAR(sums.read()[k], wanted[k], 1e-12 * wanted[k]) << k;
}

// So many that a thread takes several: nvcc unrolls its loop.
TEST(PartsKernels, TheLargestColorIsNoOtherMember) {
    std::vector<gs_splat> splats(100000);
    std::mt19937 random(7);
    std::uniform_real_distribution<float> up_to_one(0, 1);
    float wanted = 0;
    for (gs_splat &splat : splats) {
        splat = {{9, 9}, {9, 9, 9}, 9, {}, 9, {9, 9}};
        const bool culled = random() % 8 == 0;
        for (float &color : splat.color) color = culled ? 9 : up_to_one(random);
        if (culled)
            splat.depth = 0;
        else
            wanted = std::max(wanted, *std::max_element(splat.color, splat.color + GS_CHANNELS));
    }
    const device_vector<gs_splat> on_device(splats);
    const device_vector<gs_largest_values> largest(1);
    gs_view view = {};
    view.gaussians.count = int64_t(splats.size()), view.splats = on_device.data();
    ASSERT_GS_OK(parts_largest(&view, largest.data(), NULL));
    EXPECT_EQ(largest.read()[0].color, wanted);
}

} // namespace parts_kernels_test
