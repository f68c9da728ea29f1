// SPDX-License-Identifier: MIT
// gs_shrink against means, minima and counts in double precision, gs_backdrop against the blending formula.
#include "density/density_scene.h"
#include <algorithm>
#include <deque>
#include <numeric>

namespace {

TEST(Backdrop, IsWhatBlendingOnTheNewBackgroundGives) {
    const int width = 37, height = 21;
    const size_t pixels = static_cast<size_t>(width) * height;
    std::mt19937 random(1);
    const double old_background[3] = {1, 0.4, 0}, new_background[3] = {0.2, 0.9, 0.55};
    std::vector<double> color(3 * pixels);
    std::vector<uint8_t> picture(3 * pixels), alpha(pixels);
    for (size_t i = 0; i < pixels; i++) {
        alpha[i] = uint8_t(i % 3 == 0 ? 255 : i % 3 == 1 ? 0 : random() % 256);
        const double a = alpha[i] / 255.0;
        for (size_t c = 0; c < 3; c++) {
            color[3 * i + c] = double(random() % 256);
            picture[3 * i + c] = uint8_t(color[3 * i + c] * a + 255 * old_background[c] * (1 - a) + 0.5);
        }
    }
    const float change[3] = {float(0.2 - 1), float(0.9 - 0.4), 0.55f};
    const device_vector<uint8_t> device_picture(picture), device_alpha(alpha), device_moved(3 * pixels);
    ASSERT_GS_OK(gs_backdrop(device_picture.data(), device_alpha.data(), width, height, change,
                             device_moved.data(), nullptr));
    const std::vector<uint8_t> moved = device_moved.read();
    for (size_t i = 0; i < 3 * pixels; i++) {
        const double a = alpha[i / 3] / 255.0;
        // The picture was rounded once before.
        EXPECT_NEAR(moved[i], color[i] * a + 255 * new_background[i % 3] * (1 - a), 1.01) << i;
        if (a == 1) {
            EXPECT_EQ(moved[i], picture[i]);
        }
    }
}

gs_shrinking sized(int32_t width, int32_t height, int32_t factor) {
    gs_shrinking s = {};
    s.width = width, s.height = height, s.factor = factor;
    return s;
}

// gs_shrink of one picture in this form.
gs_status shrink(gs_shrinking s, int32_t form, int32_t channels, const void *from, void *small) {
    s.form = form, s.channels = channels, s.from[0] = from, s.small = small;
    return gs_shrink(&s, nullptr);
}

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
const gs_shrinking cases[] = {sized(32, 24, 4), sized(37, 23, 2), sized(37, 23, 5), sized(9, 7, 1),
                              sized(3, 40, 8)};

// Shrinks a picture of interleaved channels; expect(values of a block, value of the result) looks at each.
template <typename T, typename Expect>
void check_blocks(const gs_shrinking &s, gs_shrink_form form, size_t channels, const std::vector<T> &picture,
                  const Expect &expect) {
    const device_vector<T> on_device(picture), small(channels * small_pixels(s));
    ASSERT_GS_OK(shrink(s, form, int32_t(channels), on_device.data(), small.data()));
    const std::vector<T> got = small.read();
    for_each_block(s, [&](const std::vector<size_t> &pixels, size_t to) {
        for (size_t c = 0; c < channels; c++) {
            std::vector<double> values;
            for (const size_t from : pixels) values.push_back(double(picture[from * channels + c]));
            expect(values, double(got[to * channels + c]));
        }
    });
}

TEST(Shrink, APixelIsWhatItsFormSaysOfItsBlock) {
    std::mt19937 random(1);
    for (const gs_shrinking &s : cases) {
        const size_t pixels = size_t(s.width * s.height);
        for (const size_t channels : {1, 3}) {
            std::vector<uint8_t> picture(channels * pixels);
            for (uint8_t &value : picture) value = uint8_t(random());
            check_blocks(s, GS_SHRINK_BYTES, channels, picture,
                         [&](const std::vector<double> &values, double got) {
                             const double sum = std::accumulate(values.begin(), values.end(), 0.0);
                             EXPECT_EQ(got, int(sum / double(values.size()) + 0.5)) << s.factor;
                         });
        }
        std::vector<uint8_t> mask(pixels);
        for (uint8_t &value : mask) value = random() % 20 == 0 ? 0 : uint8_t(1 + random() % 255);
        check_blocks(s, GS_SHRINK_MASK, 1, mask, [](const std::vector<double> &values, double got) {
            EXPECT_EQ(got, std::count(values.begin(), values.end(), 0.0) == 0 ? 255 : 0);
        });
        std::vector<float> depth(pixels);
        for (float &value : depth) value = random() % 3 ? float(random() % 1000) / 64 : NAN;
        for (const size_t p : block(s, 0, 0)) depth[p] = NAN;
        int unknown = 0;
        check_blocks(s, GS_SHRINK_DEPTH, 1, depth, [&](const std::vector<double> &values, double got) {
            double sum = 0, known = 0;
            for (const double value : values)
                if (!std::isnan(value)) sum += value, known++;
            unknown += std::isnan(got);
            EXPECT_EQ(std::isnan(got), known == 0);
            EXPECT_TRUE(known == 0 || std::abs(got - sum / known) <= 1e-5 * (1 + sum / known));
        });
        EXPECT_GT(unknown, 0);
    }
}

TEST(Shrink, PlanesHaveTheMeansOfAllPicturesAsBytes) {
    std::mt19937 random(5);
    for (gs_shrinking s : cases)
        for (const int count : {1, 3}) {
            const size_t pixels = size_t(s.width) * size_t(s.height);
            std::vector<std::vector<float>> values;
            std::deque<device_vector<float>> on_device;
            for (int k = 0; k < count; k++) {
                values.emplace_back(GS_CHANNELS * pixels);
                for (float &value : values.back()) value = float(random() % 1500) / 1000 - 0.25f;
                on_device.emplace_back(values.back());
            }
            for (int k = 0; k < count; k++) s.from[k] = on_device[size_t(k)].data();
            const device_vector<uint8_t> small(GS_CHANNELS * small_pixels(s));
            s.form = GS_SHRINK_PLANES, s.count = count, s.small = small.data();
            ASSERT_GS_OK(gs_shrink(&s, nullptr));
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
    const device_vector<float> wrong(std::vector<float>{NAN, 2, -1});
    const device_vector<uint8_t> small(3);
    const gs_shrinking one = {1, 1, 1, GS_SHRINK_PLANES, 0, 1, {wrong.data()}, small.data()};
    ASSERT_GS_OK(gs_shrink(&one, nullptr));
    EXPECT_EQ(small.read(), (std::vector<uint8_t>{0, 255, 0}));
}

} // namespace
