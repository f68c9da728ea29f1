// SPDX-License-Identifier: MIT
// gs_shrink_* against means, minima and counts in double precision.
#include "density/density_scene.h"
#include "distwar_gs_shrink.h"
#include <deque>

namespace {

// The pixels of block (x, y) of a picture, as indices.
std::vector<size_t> block(const gs_shrinking &s, int x, int y) {
    const int across = std::min(s.factor, s.width), down = std::min(s.factor, s.height);
    std::vector<size_t> pixels;
    for (int j = 0; j < down; j++)
        for (int i = 0; i < across; i++)
            pixels.push_back(size_t(y * down + j) * size_t(s.width) + size_t(x * across + i));
    return pixels;
}

// Calls check(block, pixel of the result) for each of its pixels.
template <typename Check>
void for_each_block(const gs_shrinking &s, Check check) {
    const int width = s.width / std::min(s.factor, s.width), height = s.height / std::min(s.factor, s.height);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) check(block(s, x, y), size_t(y) * size_t(width) + size_t(x));
}

size_t small_pixels(const gs_shrinking &s) {
    size_t pixels = 0;
    for_each_block(s, [&](const std::vector<size_t> &, size_t) { pixels++; });
    return pixels;
}

// Even, with a rest on both sides, unchanged, and a side shorter than the factor.
const gs_shrinking cases[] = {{32, 24, 4}, {37, 23, 2}, {37, 23, 5}, {9, 7, 1}, {3, 40, 8}};

TEST(Shrink, PictureHasTheMeansOfItsBlocks) {
    std::mt19937 random(1);
    for (const gs_shrinking &s : cases)
        for (const int channels : {1, 3}) {
            std::vector<uint8_t> picture(size_t(channels * s.width * s.height));
            for (uint8_t &value : picture) value = uint8_t(random());
            const device_vector<uint8_t> on_device(picture), small(size_t(channels) * small_pixels(s));
            ASSERT_GS_OK(gs_shrink_picture(&s, channels, on_device.data(), small.data(), nullptr));
            const std::vector<uint8_t> got = small.read();
            for_each_block(s, [&](const std::vector<size_t> &pixels, size_t to) {
                for (size_t c = 0; c < size_t(channels); c++) {
                    double sum = 0;
                    for (const size_t from : pixels) sum += picture[from * size_t(channels) + c];
                    EXPECT_EQ(got[to * size_t(channels) + c], int(sum / double(pixels.size()) + 0.5))
                        << s.factor;
                }
            });
        }
}

TEST(Shrink, PlanesHaveTheMeansOfAllPicturesAsBytes) {
    std::mt19937 random(5);
    for (const gs_shrinking &s : cases)
        for (const int count : {1, 3}) {
            const size_t pixels = size_t(s.width) * size_t(s.height);
            std::vector<std::vector<float>> values;
            std::deque<device_vector<float>> on_device;
            const float *planes[3] = {};
            for (int k = 0; k < count; k++) {
                values.emplace_back(GS_CHANNELS * pixels);
                for (float &value : values.back()) value = float(random() % 1500) / 1000 - 0.25f;
                on_device.emplace_back(values.back());
            }
            for (int k = 0; k < count; k++) planes[k] = on_device[size_t(k)].data();
            const device_vector<uint8_t> small(GS_CHANNELS * small_pixels(s));
            ASSERT_GS_OK(gs_shrink_planes(&s, planes, count, small.data(), nullptr));
            const std::vector<uint8_t> got = small.read();
            for_each_block(s, [&](const std::vector<size_t> &block, size_t to) {
                for (size_t c = 0; c < GS_CHANNELS; c++) {
                    double sum = 0;
                    for (const std::vector<float> &picture : values)
                        for (const size_t from : block) sum += double(picture[c * pixels + from]);
                    const double mean = sum / double(block.size() * size_t(count));
                    EXPECT_NEAR(got[to * GS_CHANNELS + c], 255 * std::min(std::max(mean, 0.0), 1.0), 0.501);
                }
            });
        }
    const gs_shrinking one = {1, 1, 1};
    const device_vector<float> wrong(std::vector<float>{NAN, 2, -1});
    const float *const picture[1] = {wrong.data()};
    const device_vector<uint8_t> small(3);
    ASSERT_GS_OK(gs_shrink_planes(&one, picture, 1, small.data(), nullptr));
    EXPECT_EQ(small.read(), (std::vector<uint8_t>{0, 255, 0}));
    EXPECT_NE(gs_shrink_planes(&one, picture, 9, small.data(), nullptr), GS_OK);
}

TEST(Shrink, MaskCountsWhereTheWholeBlockDoes) {
    std::mt19937 random(2);
    for (const gs_shrinking &s : cases) {
        std::vector<uint8_t> mask(size_t(s.width * s.height));
        for (uint8_t &value : mask) value = random() % 20 == 0 ? 0 : uint8_t(1 + random() % 255);
        const device_vector<uint8_t> on_device(mask), small(small_pixels(s));
        ASSERT_GS_OK(gs_shrink_mask(&s, on_device.data(), small.data(), nullptr));
        const std::vector<uint8_t> got = small.read();
        for_each_block(s, [&](const std::vector<size_t> &pixels, size_t to) {
            const bool all =
                std::all_of(pixels.begin(), pixels.end(), [&](size_t p) { return mask[p] != 0; });
            EXPECT_EQ(got[to], all ? 255 : 0);
        });
    }
}

TEST(Shrink, DepthIsTheMeanOfWhatIsKnown) {
    std::mt19937 random(3);
    for (const gs_shrinking &s : cases) {
        std::vector<float> depth(size_t(s.width * s.height));
        for (float &value : depth) value = random() % 3 ? float(random() % 1000) / 64 : NAN;
        for (const size_t p : block(s, 0, 0)) depth[p] = NAN;
        const device_vector<float> on_device(depth), small(small_pixels(s));
        ASSERT_GS_OK(gs_shrink_depth(&s, on_device.data(), small.data(), nullptr));
        const std::vector<float> got = small.read();
        EXPECT_TRUE(std::isnan(got[0]));
        for_each_block(s, [&](const std::vector<size_t> &pixels, size_t to) {
            double sum = 0, known = 0;
            for (const size_t p : pixels)
                if (!std::isnan(depth[p])) sum += double(depth[p]), known++;
            if (known == 0)
                EXPECT_TRUE(std::isnan(got[to]));
            else
                EXPECT_NEAR(double(got[to]), sum / known, 1e-5 * (1 + sum / known));
        });
    }
}

TEST(Shrink, RefusesBadArguments) {
    const device_vector<uint8_t> bytes(size_t{64});
    const device_vector<float> floats(size_t{16});
    const gs_shrinking good = {4, 4, 2}, empty = {0, 4, 2}, none = {4, 4, 0}, much = {4, 4, GS_MAX_SIZE + 1};
    const auto picture = [&](const gs_shrinking *s, int32_t channels, const uint8_t *from) {
        return gs_shrink_picture(s, channels, from, bytes.data(), nullptr);
    };
    EXPECT_GS_OK(picture(&good, 4, bytes.data()));
    for (const gs_shrinking *s : {static_cast<const gs_shrinking *>(nullptr), &empty, &none, &much}) {
        EXPECT_EQ(picture(s, 3, bytes.data()), GS_INVALID_ARGUMENT);
        EXPECT_EQ(gs_shrink_mask(s, bytes.data(), bytes.data(), nullptr), GS_INVALID_ARGUMENT);
        EXPECT_EQ(gs_shrink_depth(s, floats.data(), floats.data(), nullptr), GS_INVALID_ARGUMENT);
    }
    EXPECT_EQ(picture(&good, 0, bytes.data()), GS_INVALID_ARGUMENT);
    EXPECT_EQ(picture(&good, 5, bytes.data()), GS_INVALID_ARGUMENT);
    EXPECT_EQ(picture(&good, 3, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_shrink_mask(&good, nullptr, bytes.data(), nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_shrink_depth(&good, floats.data(), nullptr, nullptr), GS_INVALID_ARGUMENT);
}

} // namespace
