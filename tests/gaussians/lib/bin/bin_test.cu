// SPDX-License-Identifier: MIT
// Lists of tiles: nothing that counts is missing, the order is (depth, index).
#include "blend/blend_cases.h"
#include "blend.cuh"
#include "launch.cuh"
#include "rows.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

using namespace gs;

namespace {

class Bin : public testing::TestWithParam<scene_choice> {};

TEST_P(Bin, HoldsEverySplatThatCountsInOrder) {
    const blend_frame frame(GetParam());
    const auto splats = frame.splats.read();
    const gs_tile_ranges &ranges = frame.taken.ranges;
    const int tiles = ranges.tiles_x * ranges.tiles_y;
    ASSERT_EQ(ranges.tile_begin[0], 0);
    ASSERT_EQ(ranges.tile_begin[tiles], ranges.isects);

    int64_t held = 0, needed = 0;
    for (int t = 0; t < tiles; t++) {
        const uint32_t *first = ranges.splat_index + ranges.tile_begin[t],
                       *last = ranges.splat_index + ranges.tile_begin[t + 1];
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
            const double alpha = reference_reach(&frame.seen[i], frame.choice.width, frame.choice.height,
                                                 t % ranges.tiles_x, t / ranges.tiles_x);
            needed += alpha * 255 >= 1;
            EXPECT_TRUE(listed || alpha * 255 < 1 + 1e-4) << t << " lacks " << i << ": " << alpha;
        }
    }
    // Tiles that a splat touches only between pixel centres are listed too; they must be few.
    EXPECT_LE(held, needed + needed / 10 + 8);
}

INSTANTIATE_TEST_SUITE_P(Scenes, Bin, testing::ValuesIn(comparison_scenes()));

// A round splat that a tile has where its middle is within 2 pixels of it.
gs_splat splat_at(float x, float y, float depth) {
    return {{x, y}, {2, 0, 2}, -1, {1, 1, 1}, depth, {}};
}

// The lists of splats as they stand, on the host and the device.
struct binned {
    device_vector<gs_splat> splats;
    own_view view;
    gs_tile_ranges ranges{};
    int64_t bucket_capacity; // as gs_settle left it
    std::vector<int64_t> begin;
    std::vector<uint32_t> index, order;

    binned(const std::vector<gs_splat> &these, int width, int height, int64_t capacity, int64_t buckets = 0)
        : splats(these) {
        view.gaussians.count = int64_t(these.size());
        view.camera.width = width, view.camera.height = height;
        view.memory.isect_capacity = capacity, view.memory.bucket_capacity = buckets;
        view.splats = splats.data();
        EXPECT_GS_OK(gs_bin(&view, NULL));
        EXPECT_EQ(view.ranges.isects, capacity);
        EXPECT_GS_OK(gs_settle(&view, NULL));
        ranges = view.ranges, bucket_capacity = view.memory.bucket_capacity;
        const size_t tiles = size_t(ranges.tiles_x) * ranges.tiles_y;
        begin = downloaded(ranges.tile_begin, tiles + 1), order = downloaded(ranges.tile_order, tiles);
        index = downloaded(ranges.splat_index, size_t(ranges.isects));
    }
    int64_t length(uint32_t tile) const { return begin[tile + 1] - begin[tile]; }
};

std::vector<uint32_t> by_depth(const std::vector<gs_splat> &splats) {
    std::vector<uint32_t> order(splats.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return splats[a].depth < splats[b].depth; });
    return order;
}

// Around what warps and blocks sort by themselves, what is cut into parts, and, last, what has parts that are
// too long and are merged in global memory. Depths occur several times.
TEST(BinEdges, LongListsAreSorted) {
    std::mt19937 random(3);
#ifdef DISTWAR_SANITIZE
    const int longest = 140000; // the same kernels: most of a minute is for the longest
#else
    const int longest = 1200000;
#endif
    for (const int count :
         {1, 2, 31, 33, 64, 65, 100, 257, 2047, 2048, 2049, 4095, 4096, 4097, 7000, 9001, 70000, longest}) {
        std::vector<gs_splat> splats;
        for (int i = 0; i < count; i++)
            splats.push_back(splat_at(8, 8, 1 + float(random() % unsigned(count))));
        const std::vector<uint32_t> expected = by_depth(splats);
        for (const int room : {count, 2 * count + 5}) {
            if (room > count && count > 100000) continue; // the same kernels, and slow on a CPU
            const binned made(splats, 16, 16, room);
            ASSERT_EQ(made.ranges.isects, count);
            EXPECT_EQ(made.index, expected) << count << ", room for " << room;
        }
    }
}

// Depths that are all different, neighbouring floats or far apart, and a few much larger ones that hardly differ.
TEST(BinEdges, ListsAreSortedByAllBitsOfTheDepth) {
    std::mt19937 random(7);
    const auto from_bits = [](uint32_t bits) {
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    };
    const uint32_t one = 0x3f800000;
    for (const int count : {2, 32, 33, 64, 65, 128, 129, 255, 256, 257, 1000}) {
        std::vector<uint32_t> order(count);
        std::iota(order.begin(), order.end(), 0u);
        std::shuffle(order.begin(), order.end(), random);
        for (const uint32_t step : {1u, 3u, 0x10000u, 0x40000u})
            for (const uint32_t beyond : {0u, 1u << 24, (1u << 25) - 1, (1u << 28) - 1, 1u << 28}) {
                std::vector<gs_splat> splats;
                for (const uint32_t place : order)
                    splats.push_back(splat_at(8, 8, from_bits(one + place * step)));
                for (int i = 0; beyond > 0 && i < 3; i++) // the last before the one before it
                    splats[size_t(count - 1 - i) % count].depth = from_bits(one + beyond - uint32_t(i != 1));
                EXPECT_EQ(binned(splats, 16, 16, count).index, by_depth(splats))
                    << count << " depths, " << step << " apart, and " << beyond << " beyond";
            }
    }
}

// Several lists of every kind at once, and no room but for them. The more rows of empty tiles follow, the shorter the
// buckets: with 1 row they have room, with 12 and with 60 not; a tile has 16 counters, 2, and one.
TEST(BinEdges, EachListKeepsToItsPlace) {
    std::mt19937 random(5);
    const std::vector<int> lengths = {5000, 0, 300, 4097, 2048, 17000, 40, 4096, 1, 4097, 3000, 4097};
    std::vector<gs_splat> splats;
    std::vector<std::vector<uint32_t>> expected(lengths.size());
    for (size_t t = 0; t < lengths.size(); t++)
        for (int i = 0; i < lengths[t]; i++)
            splats.push_back(splat_at(8 + 16 * float(t), 8, 1 + float(random() % 30000)));
    std::shuffle(splats.begin(), splats.end(), random);
    for (const uint32_t i : by_depth(splats)) expected[size_t(splats[i].mean[0]) / 16].push_back(i);
    for (const int rows : {1, 12, 60})
        for (const int64_t room : {0, 1000}) {
            const binned made(splats, 16 * int(lengths.size()), 16 * rows, int64_t(splats.size()) + room);
            for (size_t t = 0; t < lengths.size(); t++)
                EXPECT_EQ(std::vector<uint32_t>(made.index.begin() + made.begin[t],
                                                made.index.begin() + made.begin[t + 1]),
                          expected[t])
                    << t << ", " << rows << " rows, " << room;
        }
    // The thread's own context gives its memory back, and takes it anew.
    gs_context_trim(NULL);
    for (const float at : {15.5f, 16.5f}) // the nearest pixel of the tile beyond the corner is 1.41 away
        EXPECT_EQ(binned({splat_at(at, at, 1)}, 32, 32, 3).length(at < 16 ? 3 : 0), 0);
}

TEST(BinEdges, LongListsComeFirstAndAreSplit) {
    std::mt19937 random(4);
    const int width = 330, height = 170;
    std::vector<gs_splat> splats;
    for (int i = 0; i < 3000; i++) {
        const float x = float(random() % width), y = float(random() % height);
        splats.push_back(splat_at(i < 700 ? 8 : x, i < 700 ? 8 : y, 3));
    }
    const binned made(splats, width, height, 20000);
    std::vector<uint32_t> sorted = made.order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t t = 0; t < sorted.size(); t++) ASSERT_EQ(sorted[t], t);
    for (size_t t = 1; t < sorted.size(); t++) // by classes that are an eighth of an octave wide
        EXPECT_LE(made.length(made.order[t]), made.length(made.order[t - 1]) * 9 / 8 + 1) << t;
    EXPECT_EQ(made.order[0], 0u);
    ASSERT_GE(made.ranges.split_tiles, 1);
    ASSERT_LT(made.ranges.split_tiles, int(sorted.size()));
    EXPECT_GT(made.length(made.order[size_t(made.ranges.split_tiles) - 1]),
              made.length(made.order[size_t(made.ranges.split_tiles)]));
    const binned even(std::vector<gs_splat>(splats.begin() + 700, splats.end()), width, height, 20000);
    EXPECT_EQ(even.ranges.split_tiles, 0);
}

// The proposal for lists of 20 splats in tiles_x x tiles_y tiles, but `longest` in one of them.
int pixels_proposed(int tiles_x, int tiles_y, int longest) {
    std::vector<gs_splat> splats;
    for (int t = 0; t < tiles_x * tiles_y; t++)
        splats.insert(splats.end(), size_t(t == 1 ? longest : 20),
                      splat_at(8 + 16 * float(t % tiles_x), 8 + 16 * float(t / tiles_x), 3));
    return binned(splats, 16 * tiles_x, 16 * tiles_y, int64_t(splats.size())).ranges.pixels_per_thread;
}

TEST(BinEdges, PixelsOfAThreadFollowTheLists) {
    int device, multiprocessors;
    ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
    ASSERT_EQ(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), cudaSuccess);
    // By a part of all that a multiprocessor has to do: longest - intersections / tiles = part intersections /
    // multiprocessors
    for (const auto &[part, pixels] : {std::pair(0.1, 4), std::pair(0.5, 2), std::pair(0.9, 1)}) {
        const int side = 32, tiles = side * side;
        const double of_pairs = 1.0 / tiles + part / multiprocessors;
        const int longest = int((tiles - 1) * 20 * of_pairs / (1 - of_pairs) + 0.5);
        EXPECT_EQ(pixels_proposed(side, side, longest), pixels) << longest << " splats";
    }
    EXPECT_EQ(pixels_proposed(2 * multiprocessors, 1, 20), 2);
    EXPECT_EQ(pixels_proposed(3 * multiprocessors, 1, 20), 4);
}

TEST(BinEdges, BucketsTakeAsMuchAsThePageSays) {
    const kernel_frame frame(comparison_scenes()[0]);
    gs_view view = frame.view;
    const auto bytes_of = [&](int64_t isects, int64_t buckets) {
        view.memory.isect_capacity = isects, view.memory.bucket_capacity = buckets;
        return libgs_bin_bytes(&view);
    };
    const int64_t million = 1000000, small = int64_t(1) << 26, large = int64_t(1) << 30;
    const std::pair<int64_t, int64_t> rooms[] = {{million, 32 * million},
                                                 {4 * million, small},
                                                 {10 * million, 80 * million},
                                                 {200 * million, large},
                                                 {2000 * million, 2000 * million}};
    for (const auto &[isects, room] : rooms) EXPECT_EQ(bytes_of(isects, 0), bytes_of(isects, room)) << isects;
    EXPECT_LT(bytes_of(10 * million, 79 * million), bytes_of(10 * million, 0));
}

// Where a bucket has no room, all splats are written a second time.
TEST(BinEdges, ListsDoNotDependOnTheRoomOfBuckets) {
    std::vector<gs_splat> splats;
    for (int i = 0; i < 900; i++) {
        const float at = i < 700 ? 8 : float(i % 200);
        splats.push_back(splat_at(at, at, 1 + float(i * 37 % 101)));
    }
    const binned expected(splats, 200, 200, 20000);
    EXPECT_EQ(expected.bucket_capacity, 0) << "as many as follow from the room for entries";
    const int64_t needed = expected.length(0) * int64_t(expected.order.size());
    for (const int64_t buckets : {int64_t(1), needed - 1, needed, 2 * needed}) {
        const binned made(splats, 200, 200, 20000, buckets);
        EXPECT_EQ(made.index, expected.index) << buckets;
        EXPECT_EQ(made.begin, expected.begin) << buckets;
        EXPECT_EQ(made.bucket_capacity, buckets > needed ? buckets : needed + needed / 4) << buckets;
    }
    // What gs_settle gives them ends where it does without a number, and a quarter.
    EXPECT_EQ(binned(std::vector(4200, splats[0]), 2048, 2048, 5000, 1).bucket_capacity, 5 << 24);
}

// A splat that, to rounding, just counts or just does not at one pixel. The pixel is in the middle of that
// edge of rectangles that faces the mean, and of that edge it is the nearest; or it is the nearest of its line.
struct borderline {
    gs_splat splat;
    int x, y;
};

__global__ void find_missed(const borderline *cases, int count, float error, unsigned *covered,
                            unsigned *missed) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count) return;
    const borderline c = cases[i];
    coverage unused;
    const bool counts = covers(c.splat, c.x, c.y, &unused);
    splat_reach far = reach_of(c.splat);
    far.slope *= 1 + error, far.along_x *= 1 + error;
    if (counts) atomicAdd(covered, 1u);
    const float x = float(c.x) + 0.5f, y = float(c.y) + 0.5f;
    for (int beyond = 0; beyond < 16; beyond += 5) {
        const float left = x < c.splat.mean[0] ? x - float(beyond) : x;
        const bool taken = reaches(far, {left, y - float(beyond), left + float(beyond), y + float(beyond)});
        if (counts && !taken) atomicAdd(missed, 1u);
        for (const int line : {4, 7}) { // of the patch, the first and the last of row 1
            const rectangle patch = {x - float(beyond), y - float(line), x + float(beyond),
                                     y - float(line) + 15};
            if (counts && !(reached_rows<4>(far, patch) & 2)) atomicAdd(missed, 1u);
        }
    }
}

TEST(Reach, MissesNoPixelForRounding) {
    std::mt19937_64 random(6);
    const auto uniform = [&random](double low, double high) {
        return low + (high - low) * double(random() >> 11) * 0x1p-53;
    };
    std::vector<borderline> cases(200000);
    for (borderline &c : cases) {
        // Round to a thousand times as long as wide, in any direction, with the blur's 0.3 pixels^2.
        const double wide = std::pow(10, uniform(-0.26, 2)), angle = uniform(0, 3.14159265);
        const double longer = wide * std::pow(10, uniform(0, 3)), cosine = std::cos(angle),
                     sine = std::sin(angle);
        const double xx = std::pow(cosine * longer, 2) + std::pow(sine * wide, 2),
                     yy = std::pow(sine * longer, 2) + std::pow(cosine * wide, 2),
                     xy = cosine * sine * (longer * longer - wide * wide);
        // conic_sqrt^T conic_sqrt = log2(e) / 2 times the inverse of the covariance
        const double half = 0.5 / std::log(2), determinant = xx * yy - xy * xy;
        const double w0 = std::sqrt(half * yy / determinant), w1 = -half * xy / determinant / w0;
        const double w2 = std::sqrt(half / yy);
        c.splat = {{}, {float(w0), float(w1), float(w2)}, 0, {1, 1, 1}, 1, {}};
        c.x = int(uniform(0, 1000)), c.y = int(uniform(0, 1000));
        // So far off that an opacity under 1 just suffices, and farther along the edge: w1 e0 + w2 e1 = 0;
        // or farther along the line: e0 = 0.
        const bool of_edge = random() % 2;
        const double e =
            std::sqrt(uniform(0, 7.99)) * (random() % 2 ? 1 : -1) / (of_edge ? std::hypot(w1, w2) : w2);
        const double dy = of_edge ? -e * w1 / w2 : e, dx = (of_edge ? e * w2 - w1 * dy : -w1 * dy) / w0;
        c.splat.mean[0] = float(c.x + 0.5 - dx), c.splat.mean[1] = float(c.y + 0.5 - dy);
        const float x = float(c.x) + 0.5f - c.splat.mean[0], y = float(c.y) + 0.5f - c.splat.mean[1];
        const float e0 = c.splat.conic_sqrt[1] * y + c.splat.conic_sqrt[0] * x,
                    e1 = c.splat.conic_sqrt[2] * y;
        c.splat.log2_opacity = min_exponent + (e0 * e0 + e1 * e1) * float(1 + uniform(-2e-7, 2e-7));
    }
    const device_vector<borderline> on_device(cases);
    // Ten times as wrong as an approximate division may be; and so wrong that it must show.
    for (const float error : {0.0f, 3e-6f, -3e-6f, 1e-3f}) {
        const device_vector<unsigned> counts(std::vector<unsigned>(2, 0));
        ASSERT_EQ(launch(NULL, blocks_for(int64_t(cases.size()), 256), 256, find_missed, on_device.data(),
                         int(cases.size()), error, counts.data(), counts.data() + 1),
                  cudaSuccess);
        const unsigned covered = counts.read()[0], missed = counts.read()[1];
        EXPECT_GT(covered, cases.size() / 10);     // some count,
        EXPECT_LT(covered, cases.size() / 10 * 9); // some do not
        EXPECT_EQ(missed > 0, error == 1e-3f) << missed << " missed, for an error of " << error;
    }
}

} // namespace
