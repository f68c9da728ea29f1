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

TEST(PartsKernels, RowsOfTilesAreThoseOfTheWholeImage) {
    const kernel_frame frame({4, 192, 1, 1, 71, 45});
    own_view view(frame.view);
    view.ranges = {}, view.memory.isect_capacity = 100000;
    const std::vector<float> whole = frame.color.read();
    for (const gs_rows rows : {gs_rows{0, 1}, gs_rows{1, 3}, gs_rows{2, 2}, gs_rows{0, 3}}) {
        view.rows = rows;
        ASSERT_GS_OK(gs_bin(&view, NULL));
        ASSERT_GS_OK(gs_render(&view, NULL));
        const std::vector<float> part = frame.color.read();
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < 45; y++)
                for (int x = 0; x < 71; x++) {
                    const size_t i = size_t((c * 45 + y) * 71 + x);
                    const bool inside = y / GS_TILE_SIZE >= rows.begin && y / GS_TILE_SIZE < rows.end;
                    ASSERT_EQ(part[i], inside ? whole[i] : view.background[c]) << x << ", " << y;
                }
    }
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

TEST(PartsKernels, GathersInOrderWhatEachPartNeeds) {
    const scene_choice choice = {4, 700, 0, 0, 71, 45}; // several blocks
    const kernel_frame frame(choice);
    const gs_camera cameras[2] = {frame.view.camera, frame.view.camera};
    const device_vector<gs_splat> splats(size_t(2 * choice.count));
    gs_view view = frame.view;
    view.views = {2, cameras}, view.splats = splats.data();
    ASSERT_GS_OK(gs_project(&view, NULL));
    const image_part parts[] = {{0, {0, 1}}, {0, {1, 3}}, {1, {2, 2}}, {1, {0, 3}}, {0, {2, 3}}};
    constexpr int count = 5;
    part_entries share = {};
    size_t bytes = 0;
    std::copy_n(parts, count, share.parts), share.count = count;
    ASSERT_GS_OK(parts_partition_bytes(choice.count, count, &bytes));
    const device_vector<char> workspace(bytes);
    const device_vector<int64_t> begin(size_t(count + 1));
    share.workspace = workspace.data(), share.begin = begin.data();
    ASSERT_GS_OK(parts_count(&view, &share, NULL));
    const std::vector<int64_t> ends = begin.read();
    const size_t entries = size_t(ends[count]);
    const device_vector<uint32_t> index(entries);
    const device_vector<gs_splat> copies(entries);
    share.index = index.data(), share.splats = copies.data();
    share.room = ends[count];
    ASSERT_GS_OK(parts_gather(&view, &share, NULL));
    const std::vector<uint32_t> indices = index.read();
    const std::vector<gs_splat> all = splats.read(), got = copies.read();

    own_view one(view);
    one.views = {}, one.splats = splats.data(), one.memory.isect_capacity = 100000;
    EXPECT_EQ(ends[0], 0);
    EXPECT_EQ(ends[3], ends[2]); // no rows
    for (int p = 0; p < count; p++) {
        std::vector<bool> has(size_t(choice.count));
        for (int64_t k = ends[size_t(p)]; k < ends[size_t(p) + 1]; k++) {
            const uint32_t i = indices[size_t(k)];
            ASSERT_TRUE(k == ends[size_t(p)] || indices[size_t(k) - 1] < i);
            ASSERT_EQ(int64_t(i) / choice.count, parts[p].view);
            ASSERT_EQ(memcmp(&got[size_t(k)], &all[i], sizeof(gs_splat)), 0);
            has[size_t(int64_t(i) % choice.count)] = true;
        }
        if (parts[p].rows.begin == parts[p].rows.end) continue;
        one.rows = parts[p].rows; // every splat of a list of the rows is there
        ASSERT_GS_OK(gs_bin(&one, NULL));
        ASSERT_GS_OK(gs_settle(&one, NULL));
        std::vector<uint32_t> listed(size_t(one.ranges.isects));
        device_download(listed.data(), one.ranges.splat_index, listed.size() * sizeof(uint32_t));
        EXPECT_GT(listed.size(), 0u);
        for (const uint32_t i : listed) ASSERT_TRUE(has[i]) << "part " << p << " lacks splat " << i;
        EXPECT_LT(ends[size_t(p) + 1] - ends[size_t(p)], choice.count);
    }
}

// Records of three segments, of which some have none that counts.
template <typename T>
void expect_packed(const std::vector<T> &records, const std::vector<int64_t> &count, bool whole) {
    const int values = whole ? GS_SPLAT_GRAD_STRIDE : GS_SPLAT_GRAD_SUMS, packed_values = values + 1;
    const int segments = int(count.size());
    std::vector<int64_t> first{};
    int64_t all = 0;
    for (const int64_t each : count) first.push_back(all), all += each;
    const device_vector<T> in(records), packed(size_t(all) * size_t(packed_values));
    const device_vector<int64_t> begin(size_t(segments) + 1);
    moment_packing packing = {};
    size_t bytes = 0;
    packing.fixed = sizeof(T) == 8, packing.whole = whole, packing.segments = segments;
    packing.begin = first.data(), packing.count = count.data();
    packing.records = in.data(), packing.packed = packed.data(), packing.packed_begin = begin.data();
    ASSERT_GS_OK(parts_partition_bytes(all, segments, &bytes));
    const device_vector<char> workspace(bytes);
    packing.workspace = workspace.data();
    ASSERT_GS_OK(parts_pack(&packing, NULL));

    const std::vector<int64_t> ends = begin.read();
    const std::vector<T> got = packed.read();
    std::vector<uint32_t> places(static_cast<size_t>(all));
    for (int64_t i = 0; i < all; i++) places[size_t(i)] = uint32_t(all - 1 - i);
    const device_vector<uint32_t> index(places);
    std::vector<T> sums(size_t(all) * GS_SPLAT_GRAD_STRIDE, T(1)), expected = sums;
    const device_vector<T> to(sums);
    int64_t at = 0;
    for (int s = 0; s < segments; s++) {
        EXPECT_EQ(ends[size_t(s)], at);
        for (int64_t i = 0; i < count[size_t(s)]; i++) {
            const T *const record = &records[size_t((first[size_t(s)] + i) * GS_SPLAT_GRAD_STRIDE)];
            bool counts = false;
            for (int k = 0; k < values; k++) counts = counts || !(record[k] == 0);
            if (!counts) continue;
            ASSERT_LT(at, ends[size_t(s) + 1]);
            ASSERT_EQ(memcmp(&got[size_t(at * packed_values)], record, size_t(values) * sizeof(T)), 0);
            for (int k = 0; k < values; k++)
                expected[size_t((all - 1 - i) * GS_SPLAT_GRAD_STRIDE + k)] += record[k];
            at++;
        }
        ASSERT_GS_OK(parts_add_packed(index.data(), packed.data() + ends[size_t(s)] * packed_values,
                                      ends[size_t(s) + 1] - ends[size_t(s)], packing.fixed, packing.whole,
                                      to.data(), NULL));
    }
    EXPECT_EQ(ends[size_t(segments)], at);
    const std::vector<T> total = to.read();
    for (size_t i = 0; i < total.size(); i++) // a GPU's NaN has other bits than a CPU's
        ASSERT_TRUE(total[i] == expected[i] || (total[i] != total[i] && expected[i] != expected[i])) << i;
}

// One in three records counts, by one of its values.
template <typename T>
std::vector<T> sparse_records(int64_t count, bool whole) {
    const int values = whole ? GS_SPLAT_GRAD_STRIDE : GS_SPLAT_GRAD_SUMS;
    std::vector<T> out(size_t(count) * GS_SPLAT_GRAD_STRIDE);
    for (int64_t i = 0; i < count; i++) {
        if (!whole) out[size_t(i * GS_SPLAT_GRAD_STRIDE + GS_SPLAT_GRAD_SUMS)] = T(7); // is not summed
        if (i * 7 % 3 == 0) out[size_t(i * GS_SPLAT_GRAD_STRIDE + i % values)] = T(i % 5 - 7);
    }
    return out;
}

TEST(PartsKernels, PacksTheMomentsThatCount) {
    for (const std::vector<int64_t> &count :
         {std::vector<int64_t>{700, 0, 300}, {1}, {0, 0}, {255, 257, 256, 1}, {2000}}) {
        int64_t all = 0;
        for (const int64_t each : count) all += each;
        for (const bool whole : {false, true}) {
            expect_packed(sparse_records<float>(all, whole), count, whole);
            expect_packed(sparse_records<int64_t>(all, whole), count, whole);
        }
    }
    std::vector<float> none(5 * GS_SPLAT_GRAD_STRIDE), nan = none;
    nan[2 * GS_SPLAT_GRAD_STRIDE + GS_SPLAT_GRAD_SUMS - 1] = NAN; // must reach its home
    expect_packed(none, {5}, false);
    expect_packed(nan, {2, 3}, false);
}

TEST(PartsKernels, GathersWhatThereIsRoomFor) {
    const scene_choice choice = {4, 700, 0, 0, 71, 45};
    const kernel_frame frame(choice);
    const image_part parts[] = {{0, {0, 0}}, {0, {0, 2}}, {0, {1, 3}}};
    part_entries share = {};
    size_t bytes = 0;
    std::copy_n(parts, 3, share.parts), share.count = 3;
    ASSERT_GS_OK(parts_partition_bytes(choice.count, 3, &bytes));
    const device_vector<char> workspace(bytes);
    const device_vector<int64_t> begin(4);
    share.workspace = workspace.data(), share.begin = begin.data();
    ASSERT_GS_OK(parts_count(&frame.view, &share, NULL));
    const std::vector<int64_t> ends = begin.read();
    ASSERT_EQ(ends[1], 0);
    ASSERT_GT(ends[2], 10);
    for (const int64_t room : {int64_t(0), ends[2] - 3, ends[3]}) {
        const device_vector<uint32_t> index(std::vector<uint32_t>(size_t(ends[3]), 12345));
        const device_vector<gs_splat> splats(static_cast<size_t>(ends[3]));
        share.index = index.data(), share.splats = splats.data(), share.room = room;
        ASSERT_GS_OK(parts_gather(&frame.view, &share, NULL));
        const std::vector<uint32_t> got = index.read();
        const std::vector<gs_splat> all = frame.splats.read(), copies = splats.read();
        for (size_t k = 0; k < got.size(); k++) {
            ASSERT_EQ(got[k] == 12345, int64_t(k) >= room);
            if (int64_t(k) >= room) continue;
            ASSERT_EQ(memcmp(&copies[k], &all[got[k]], sizeof(gs_splat)), 0);
        }
    }
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
            gs_comparison images = {width, height, whole_color.data(), target.data(), used};
            const gs_loss_image image = {images, result.data(), gradient.data()};
            ASSERT_GS_OK(gs_loss(&image, 1, NULL));
            const std::vector<float> whole = gradient.read();
            const std::vector<double> whole_result = result.read();
            for (int cut = 0; cut < rows_of_tiles; cut++) {
                double sum[3] = {};
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
                    images.color = part_color.data();
                    ASSERT_GS_OK(libgs_loss_rows(&images, rows, result.data(), part.data(), NULL));
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
            }
        }
        const gs_comparison images = {width, height, whole_color.data(), target.data(), nullptr};
        EXPECT_EQ(libgs_loss_rows(&images, {0, rows_of_tiles + 1}, result.data(), nullptr, NULL),
                  GS_INVALID_ARGUMENT);
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
