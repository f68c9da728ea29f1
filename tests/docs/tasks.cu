// SPDX-License-Identifier: MIT
// The short code on docs/kernel.md, before and after, compiled and run. The page shows the lines between [name] and [end].
#include "shared_array.h"
#include <distwar/device/histogram.cuh>
#include <distwar/device/sums_by_key.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <set>
#include <vector>

namespace {

enum { N = 150 };

struct item {
    int id, first;
};
__device__ float weight_at(const item &of, int pixel) {
    return pixel >= of.first && pixel < of.first + 40 ? float(pixel % 4) : 0;
}
__global__ void list_before(const item *list, int pixels, float3 d_pixel, float *d_color) {
    const int pixel = int(blockIdx.x * blockDim.x + threadIdx.x), count = 9;
    if (pixel >= pixels) return;
    // [list before]
    for (int j = 0; j < count; ++j) {
        const float weight = weight_at(list[j], pixel);
        if (weight == 0) continue;
        atomicAdd(&d_color[3 * list[j].id], weight * d_pixel.x);
        atomicAdd(&d_color[3 * list[j].id + 1], weight * d_pixel.y);
        atomicAdd(&d_color[3 * list[j].id + 2], weight * d_pixel.z);
    }
    // [end]
}
__global__ void list_after(const item *list, int pixels, float3 d_pixel, float *d_color) {
    const int pixel = int(blockIdx.x * blockDim.x + threadIdx.x), count = 9;
    // [list after]
    for (int j = 0; j < count; ++j) {
        const float weight = pixel < pixels ? weight_at(list[j], pixel) : 0;
        const float value[3] = {weight * d_pixel.x, weight * d_pixel.y, weight * d_pixel.z};
        distwar::reduce(distwar::all_lanes, weight != 0, distwar::uniform_key{list[j].id}, value,
                        distwar::record<float>{d_color, 3});
    }
    // [end]
}

__global__ void scatter_before(const int *row_of, const float3 *value_of, int count, float *sums) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count) return;
    atomicAdd(&sums[3 * row_of[i]], value_of[i].x);
    atomicAdd(&sums[3 * row_of[i] + 1], value_of[i].y);
    atomicAdd(&sums[3 * row_of[i] + 2], value_of[i].z);
}
__global__ void scatter_after(const int *row_of, const float3 *value_of, int count, float *sums) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    // [scatter after]
    const bool active = i < count;
    const float3 value = active ? value_of[i] : float3{};
    distwar::reduce(distwar::all_lanes, active, active ? row_of[i] : 0, distwar::values(value),
                    distwar::record<float>{sums, 3});
    // [end]
}

__global__ void edges_before(const int *first, const int *, const int *target, const float *rank,
                             int vertices, int, float *sums) {
    const int v = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (v >= vertices) return;
    // [edges before]
    for (int e = first[v]; e < first[v + 1]; ++e) atomicAdd(&sums[target[e]], rank[v]);
    // [end]
}
__global__ void edges_after(const int *, const int *source, const int *target, const float *rank, int,
                            int edges, float *sums) {
    const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
    // [edges after]
    const bool active = e < edges;
    distwar::reduce(distwar::all_lanes, active, active ? target[e] : 0, active ? rank[source[e]] : 0.0f,
                    distwar::record<float>{sums, 1});
    // [end]
}

__global__ void smallest_before(const int *box_of, const int *depth_of, int count, int *nearest) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) atomicMin(&nearest[box_of[i]], depth_of[i]);
}
__global__ void smallest_after(const int *box_of, const int *depth_of, int count, int *nearest) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < count;
    // [smallest after]
    distwar::reduce(distwar::all_lanes, active, active ? box_of[i] : 0, active ? depth_of[i] : 0,
                    distwar::record<int, distwar::minimum>{nearest, 1});
    // [end]
}

__global__ void counts_before(const int *row_of, int count, int *counts) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) atomicAdd(&counts[row_of[i]], 1);
}
__global__ void counts_after(const int *row_of, int count, int *counts) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < count;
    // [level]
    constexpr auto level = distwar::determinism::gpu_to_gpu;
    distwar::reduce(distwar::all_lanes, active, active ? row_of[i] : 0, 1,
                    distwar::require<level>(distwar::record<int>{counts, 1}));
    // [end]
}

__global__ void queues_before(const int *tile_of, int count, int *items, unsigned *counts,
                              unsigned capacity) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count) return;
    const unsigned slot = atomicAdd(&counts[tile_of[i]], 1u);
    if (slot < capacity) items[tile_of[i] * capacity + slot] = i;
}
__global__ void queues_after(const int *tile_of, int count, int *items, unsigned *counts, unsigned capacity) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < count;
    // [queues after]
    distwar::append(distwar::all_lanes, active, active ? tile_of[i] : 0, i,
                    distwar::queue<int>{items, counts, capacity});
    // [end]
}

__global__ void pool(const unsigned *needs, unsigned *used, unsigned *begins) {
    const bool active = threadIdx.x < 20;
    const unsigned needed = active ? needs[threadIdx.x] : 0;
    // [pool]
    // was: begin = atomicAdd(used, needed);
    const unsigned begin =
        distwar::fetch_add(distwar::all_lanes, active, distwar::uniform_key{0}, needed, used);
    // [end]
    if (active) begins[threadIdx.x] = begin;
}

__global__ void popular_words(const int *word_of, const float *weight_of, int count, float *sums) {
    // [hot]
    __shared__ distwar::hot_slots<512, 1> hot;
    const distwar::record<float> table = {sums, 1};
    hot.clear();
    const int step = int(gridDim.x * blockDim.x);
    for (int first = int(blockIdx.x * blockDim.x); first < count; first += step) {
        const int i = first + int(threadIdx.x);
        const bool active = i < count;
        distwar::reduce(distwar::all_lanes, active, active ? word_of[i] : 0, active ? weight_of[i] : 0.0f,
                        hot.sink(table));
    }
    hot.flush(table);
    // [end]
}

// [lanes per key]
// The mean number of lanes of a warp that add to one address, for the keys in the order of your threads.
double lanes_per_key(const std::vector<int> &key) {
    double lanes = 0, keys = 0;
    for (size_t first = 0; first + 32 <= key.size(); first += 32) {
        lanes += 32;
        keys += double(std::set<int>(key.begin() + first, key.begin() + first + 32).size());
    }
    return keys > 0 ? lanes / keys : 1;
}
// [end]

std::vector<int> some_rows() {
    std::vector<int> rows;
    for (int i = 0; i < N; ++i) rows.push_back(i * i % 7);
    return rows;
}
template <typename T, typename... Given, typename... Arguments>
void expect_same(std::vector<T> start, void (*before)(Given...), void (*after)(Given...),
                 Arguments... arguments) {
    std::vector<T> found[2];
    int which = 0;
    for (const auto kernel : {before, after}) {
        const shared_array<T> sums(start);
        ASSERT_EQ(launch(nullptr, blocks_for(N, 64), 64, kernel, arguments..., sums.get()), cudaSuccess);
        found[which++] = sums.content();
    }
    EXPECT_NE(found[0], start);
    EXPECT_EQ(found[0], found[1]);
}

TEST(Tasks, AfterDoesWhatBeforeDid) {
    const shared_array<int> row_of(some_rows());
    std::vector<float3> values;
    std::vector<int> depths, ends, sources;
    std::vector<float> ranks;
    for (int i = 0; i < N; ++i) {
        values.push_back({float(i % 5), float(i % 3), 1});
        depths.push_back(i * 31 % 97);
        ranks.push_back(float(i % 11));
    }
    for (int v = 0; v <= 40; ++v) ends.push_back(v * v % 5 + (ends.empty() ? 0 : ends.back()));
    for (int v = 0; v < 40; ++v) sources.insert(sources.end(), size_t(ends[v + 1] - ends[v]), v);
    const shared_array<float3> value_of(values);
    const shared_array<int> depth_of(depths), first(ends), source(sources);
    const shared_array<float> rank(ranks);
    std::vector<item> items;
    for (int j = 0; j < 9; ++j) items.push_back({j % 4, j * 13});
    const shared_array<item> list(items);
    expect_same(std::vector<float>(12), list_before, list_after, list.get(), int(N), float3{1, 2, 3});
    expect_same(std::vector<float>(21), scatter_before, scatter_after, row_of.get(), value_of.get(), int(N));
    expect_same(std::vector<float>(7), edges_before, edges_after, first.get(), source.get(), row_of.get(),
                rank.get(), 40, int(sources.size()));
    expect_same(std::vector<int>(7), counts_before, counts_after, row_of.get(), int(N));
    expect_same(std::vector<int>(7, 1000), smallest_before, smallest_after, row_of.get(), depth_of.get(),
                int(N));
}

TEST(Tasks, QueuesHoldTheSameItems) {
    const shared_array<int> tile_of(some_rows());
    std::vector<std::set<int>> found[2];
    for (int after = 0; after < 2; ++after) {
        const shared_array<int> items(std::vector<int>(7 * 50, -1));
        const shared_array<unsigned> counts(std::vector<unsigned>(7));
        ASSERT_EQ(launch(nullptr, blocks_for(N, 64), 64, after ? queues_after : queues_before, tile_of.get(),
                         int(N), items.get(), counts.get(), 50u),
                  cudaSuccess);
        const std::vector<int> all = items.content();
        for (int tile = 0; tile < 7; ++tile)
            found[after].emplace_back(all.begin() + tile * 50,
                                      all.begin() + tile * 50 + int(counts.content()[tile]));
    }
    EXPECT_EQ(found[0], found[1]);
}

TEST(Tasks, PoolsHotWordsAndRows) {
    std::vector<unsigned> needs, wanted;
    unsigned used_before = 5;
    for (unsigned i = 0; i < 20; ++i)
        needs.push_back(i % 4), wanted.push_back(used_before), used_before += i % 4;
    const shared_array<unsigned> need_of(needs), used({5}), begins(std::vector<unsigned>(20));
    ASSERT_EQ(launch(nullptr, 1, 32, pool, need_of.get(), used.get(), begins.get()), cudaSuccess);
    EXPECT_EQ(begins.content(), wanted);
    EXPECT_EQ(used.content()[0], used_before);

    const shared_array<int> word_of(some_rows());
    const shared_array<float> weight_of(std::vector<float>(N, 2)), sums(std::vector<float>(7)),
        by_host(std::vector<float>(7));
    ASSERT_EQ(launch(nullptr, 2, 32, popular_words, word_of.get(), weight_of.get(), int(N), sums.get()),
              cudaSuccess);
    const int *const index = word_of.get();
    const float *const source = weight_of.get();
    float *const out = by_host.get();
    const int count = N;
    const cudaStream_t stream = nullptr;
    // [rows]
    distwar::key_sums<float> rows; // out[index[i]][k] += source[i][k], i < count, k < width
    rows.count = count, rows.width = 1, rows.keys = 7;
    rows.index = index, rows.source = source, rows.out = out;
    rows.way = distwar::sums_way::fastest; // deterministic unless you say so
    cudaError_t error = distwar::sums_by_key_bytes(rows, &rows.workspace_bytes);
    if (error == cudaSuccess) error = cudaMalloc(&rows.workspace, rows.workspace_bytes);
    if (error == cudaSuccess) error = distwar::sums_by_key(rows, stream);
    // [end]
    EXPECT_EQ(error, cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    cudaFree(rows.workspace);
    EXPECT_EQ(sums.content(), by_host.content());
}

TEST(Tasks, AHistogramCountsItsKeys) {
    enum { ROWS = N, BINS = 7 };
    std::vector<unsigned> wanted(BINS, 0);
    for (const int row : some_rows()) ++wanted[size_t(row)];
    const shared_array<int> bin_of(some_rows());
    const shared_array<unsigned> counts(std::vector<unsigned>(BINS, 0));
    const cudaStream_t stream = nullptr;
    // [counts]
    const distwar::key_counts<int> given = {ROWS, BINS, bin_of.get(), counts.get()};
    const cudaError_t error = distwar::histogram(given, stream);
    // [end]
    ASSERT_EQ(error, cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(counts.content(), wanted);
}

TEST(Tasks, LanesPerKeyAreCounted) {
    std::vector<int> keys(64, 3);
    EXPECT_EQ(lanes_per_key(keys), 32);
    for (int i = 0; i < 64; ++i) keys[i] = i / 4;
    EXPECT_EQ(lanes_per_key(keys), 4);
}

} // namespace
