// SPDX-License-Identifier: MIT
// What ranks with parts of a scene need of each other, on one.
#include "kernel_frame.h"
#include "kernels.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
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

// Pixels beyond the halo are NaN.
TEST(PartsKernels, LossOfRowsHasTheBitsOfTheWholeImage) {
    for (const int height : {45, 64, 17}) {
        const int width = 71, rows_of_tiles = (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
        const size_t pixels = size_t(width * height);
        const std::vector<float> color = random_floats(1, 3 * pixels, 0, 1);
        std::vector<uint8_t> picture{}, counts{};
        for (const float value : random_floats(2, 3 * pixels, 0, 255.9f)) picture.push_back(uint8_t(value));
        for (const float value : random_floats(3, pixels, 0, 2)) counts.push_back(uint8_t(value));
        const device_vector<float> whole_color(color), gradient(3 * pixels);
        const device_vector<uint8_t> target(picture), mask(counts);
        const device_vector<double> result(3);
        for (const uint8_t *const used : {(const uint8_t *)nullptr, (const uint8_t *)mask.data()}) {
            const device_vector<float> log_gain(std::vector<float>{0.25f, -0.5f, 0.125f}),
                sums(GS_EXPOSURE_SUMS);
            gs_loss_image image = loss_image({width, height, whole_color.data(), target.data(), used},
                                             result.data(), gradient.data());
            image.log_gain = log_gain.data(), image.gain_sums = sums.data();
            ASSERT_GS_OK(gs_loss(&image, 1, NULL));
            const std::vector<float> whole_sums = sums.read();
            const std::vector<float> whole = gradient.read();
            const std::vector<double> whole_result = result.read();
            for (int cut = 0; cut < rows_of_tiles; cut++) {
                double sum[3] = {};
                const device_vector<double> gain_rows(size_t(rows_of_tiles) * GS_EXPOSURE_SUMS);
                for (const gs_rows rows : {gs_rows{0, cut}, gs_rows{cut, rows_of_tiles}}) {
                    if (rows.begin == rows.end) continue;
                    const int first = rows.begin * GS_TILE_SIZE,
                              last = std::min(rows.end * GS_TILE_SIZE, height);
                    std::vector<float> known = color;
                    for (size_t i = 0; i < known.size(); i++) {
                        const int y = int(i % pixels) / width;
                        if (y < first - LOSS_HALO || y >= last + LOSS_HALO) known[i] = NAN;
                    }
                    const device_vector<float> part_color(known), part(3 * pixels);
                    image.images.color = part_color.data(), image.color_gradient = part.data();
                    ASSERT_GS_OK(libgs_loss_rows(&image, rows, gain_rows.data(), NULL));
                    const std::vector<float> got = part.read();
                    const std::vector<double> share = result.read();
                    for (int k = 0; k < 3; k++) sum[k] += share[size_t(k)];
                    for (size_t i = 0; i < got.size(); i++) {
                        const int y = int(i % pixels) / width;
                        if (y < first || y >= last) continue;
                        ASSERT_EQ(memcmp(&got[i], &whole[i], sizeof(float)), 0)
                            << cut << " of " << height << ", " << i;
                    }
                }
                for (int k = 0; k < 3; k++) EXPECT_NEAR(sum[k], whole_result[size_t(k)], 1e-12);
                ASSERT_GS_OK(libgs_gain_sums(gain_rows.data(), rows_of_tiles, sums.data(), NULL));
                EXPECT_EQ(sums.read(), whole_sums);
            }
        }
        const gs_loss_image image =
            loss_image({width, height, whole_color.data(), target.data(), nullptr}, result.data(), nullptr);
        EXPECT_EQ(libgs_loss_rows(&image, {0, rows_of_tiles + 1}, NULL, NULL), GS_INVALID_ARGUMENT);
        EXPECT_STREQ(gs_last_error(), "libgs_loss_rows: rows must be a range of the rows of tiles");
    }
}

TEST(PartsKernels, RowSumsBoundTheGradient) {
    const kernel_frame frame({4, 192, 1, 1, 71, 45});
    std::vector<float> values = random_floats(9, 3 * 71 * 45, -1e-4f, 1e-4f);
    const device_vector<float> planes(values);
    const device_vector<double> sums(9);
    const device_vector<gs_largest_values> largest(1);
    ASSERT_GS_OK(parts_largest(&frame.view, largest.data(), NULL));
    for (const gs_rows rows : {gs_rows{2, 3}, gs_rows{0, 2}})
        ASSERT_GS_OK(parts_row_sums(&frame.view, rows, planes.data(), sums.data(), NULL));
    ASSERT_GS_OK(parts_bound(&frame.view, sums.data(), largest.data(), NULL));
    const std::vector<double> got = sums.read();
    double color = 0;
    for (int row = 0; row < 3; row++)
        for (int c = 0; c < 3; c++) {
            double sum = 0;
            for (int y = 16 * row; y < std::min(16 * row + 16, 45); y++)
                for (int x = 0; x < 71; x++) sum += std::fabs(double(values[size_t((c * 45 + y) * 71 + x)]));
            EXPECT_NEAR(got[size_t(3 * row + c)], sum, 1e-12 * sum);
            color += sum;
        }
    const gs_largest_values bound = largest.read()[0];
    EXPECT_GT(bound.color, 0);
    EXPECT_GE(double(bound.d_color), color * (1 - 1e-12));
    EXPECT_LE(double(bound.d_color), color * (1 + 2e-7));
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
