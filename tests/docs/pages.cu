// SPDX-License-Identifier: MIT
// The code on docs/kernel.md and docs/reference.md, compiled and run: code that is shown before and after a change adds
// the same. The pages show the lines between [name] and [end].
#include "device_test.cuh"
#include <distwar/device/histogram.cuh>
#include <distwar/device/sums_by_key.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/reduce.cuh>
#include <distwar/tune.h>
#include <gtest/gtest.h>
#include <set>

namespace {

// ---- the loop of docs/reference.md ----

// The gradients of this toy scene are whole numbers, so that sums are exact.

struct splat {
    int primitive, first_pixel, end_pixel;
};
struct frame {
    int pixels;
    const float *transmittance;
    const int *n_contrib;
};

__device__ float alpha_at(const splat &s, int pixel) {
    return pixel >= s.first_pixel && pixel < s.end_pixel ? 0.5f : 0;
}
__device__ void gradients_at(const splat &s, int pixel, float alpha, float transmittance, float (&value)[9]) {
    for (int k = 0; k < 9; ++k)
        value[k] = float(pixel % 8 + k + s.primitive) + (alpha < 0.5f) + 0 * transmittance;
}

// A loop that stops early, front to back.
__global__ void loop_before(const splat *list, int count, frame image, float *gradient) {
    const int pixel = int(blockIdx.x * blockDim.x + threadIdx.x);
    float transmittance = 0.25f;
    bool done = pixel >= image.pixels;
    for (int j = 0; !done && j < count; ++j) {
        const float alpha = alpha_at(list[j], pixel);
        if (alpha < 1.0f / 255) continue;
        transmittance *= 1 - alpha;
        if (transmittance < 0.01f) {
            done = true;
            continue;
        }
        float value[9];
        gradients_at(list[j], pixel, alpha, transmittance, value);
        for (int k = 0; k < 9; ++k) atomicAdd(&gradient[12 * list[j].primitive + k], value[k]);
    }
}

__global__ void loop_after(const splat *list, int count, frame image, float *gradient) {
    const int pixel = int(blockIdx.x * blockDim.x + threadIdx.x);
    float transmittance = 0.25f;
    bool done = pixel >= image.pixels;
    // [loop]
    for (int j = 0; j < count; ++j) {                    // was: !done && j < count
        if (__all_sync(distwar::all_lanes, done)) break; // the same in all lanes, so it is allowed
        float value[9] = {};
        bool active = false;
        do {
            if (done) continue; // a `continue` in this block jumps to `while (false)`
            const float alpha = alpha_at(list[j], pixel);
            if (alpha < 1.0f / 255) continue;
            transmittance *= 1 - alpha;
            if (transmittance < 0.01f) {
                done = true;
                continue;
            }
            gradients_at(list[j], pixel, alpha, transmittance, value);
            active = true; // was: the atomics
        } while (false);
        distwar::reduce(distwar::all_lanes, active, distwar::uniform_key{list[j].primitive}, value,
                        distwar::record<float>{gradient, 12});
    }
    // [end]
}

// [arrays]
struct gradient_arrays {
    float *color, *opacity, *mean2d, *conic; // 3, 1, 2 and 3 floats per primitive

    __device__ void add_one(int primitive, int k, float value) const {
        float *const base = k < 3 ? color : k < 4 ? opacity : k < 6 ? mean2d : conic;
        const int first = k < 3 ? 0 : k < 4 ? 3 : k < 6 ? 4 : 6;
        const int stride = k < 3 ? 3 : k < 4 ? 1 : k < 6 ? 2 : 3;
        distwar::atomic_add(base + size_t(primitive) * stride + (k - first), value);
    }
    __device__ void add(int primitive, const float (&values)[9]) const {
        for (int k = 0; k < 9; ++k) add_one(primitive, k, values[k]);
    }
};
// [end]

// One iteration of the loop with the gradients in several arrays. Every lane has values.
__global__ void own_sink(const splat *list, int j, float *color, float *opacity, float *mean2d,
                         float *conic) {
    const bool active = threadIdx.x % 3 != 0;
    float value[9];
    for (int k = 0; k < 9; ++k) value[k] = float(int(threadIdx.x) + k);
    distwar::reduce(distwar::all_lanes, active, distwar::uniform_key{list[j].primitive}, value,
                    gradient_arrays{color, opacity, mean2d, conic});
}
__global__ void array_fields(const splat *list, int j, float *color, float *opacity, float *mean2d,
                             float *conic) {
    const bool active = threadIdx.x % 3 != 0;
    float value[9];
    for (int k = 0; k < 9; ++k) value[k] = float(int(threadIdx.x) + k);
    // [fields]
    const distwar::fields<float, 3, 1, 2, 3> sink = {{color, 3}, {opacity, 1}, {mean2d, 2}, {conic, 3}};
    // [end]
    distwar::reduce(distwar::all_lanes, active, distwar::uniform_key{list[j].primitive}, value, sink);
}
__global__ void partial_mask(float *gradient) {
    const bool takes_part = threadIdx.x % 4 != 1, active = threadIdx.x % 3 != 0;
    const int key = int(threadIdx.x) / 16;
    float value[9];
    for (int k = 0; k < 9; ++k) value[k] = float(int(threadIdx.x) + k);
    // [mask]
    const unsigned lanes = __ballot_sync(distwar::all_lanes, takes_part);
    if (takes_part) distwar::reduce(lanes, active, key, value, distwar::record<float>{gradient, 12});
    // [end]
}

// The gradient of `channels` values of one primitive, a loop of atomics; and the same by a call.
__global__ void channels_before(const splat *list, int j, int channels, int pixels, const float *d_image,
                                float *d_color) {
    const int pixel = int(threadIdx.x);
    const float weight = alpha_at(list[j], pixel);
    if (weight == 0) return;
    for (int k = 0; k < channels; ++k)
        atomicAdd(&d_color[list[j].primitive * channels + k], weight * d_image[k * pixels + pixel]);
}
__global__ void channels_after(const splat *list, int j, int channels, int pixels, const float *d_image,
                               float *d_color) {
    const int pixel = int(threadIdx.x);
    const float weight = alpha_at(list[j], pixel);
    const bool active = weight != 0;
    // [channels]
    const auto d_channel = [&](int k) { return weight * d_image[k * pixels + pixel]; };
    const distwar::record<float> sink = {d_color, channels};
    distwar::reduce_n<32>(distwar::all_lanes, active, distwar::uniform_key{list[j].primitive}, channels,
                          d_channel, sink);
    // [end]
}

// [stencil]
// Each sample adds 2 values to the 8 corners of its cell: one search by the cell, 8 sums.
__global__ void add_to_corners(const int3 *cell_of, const float2 *value_of, int samples, int side,
                               float *grid) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < samples;
    const int3 at = active ? cell_of[i] : int3{0, 0, 0};
    const float2 value = active ? value_of[i] : float2{0, 0};
    const int cell = at.x + side * (at.y + side * at.z);
    const auto cells = distwar::group_lanes(distwar::all_lanes, active, cell);
    for (int corner = 0; corner < 8; ++corner) {
        const int node = cell + (corner & 1) + side * ((corner >> 1 & 1) + side * (corner >> 2));
        cells.add(distwar::values(value), distwar::record<float>{grid, 2}, distwar::at_key{node});
    }
}
// [end]

template <distwar::strategy Strategy>
__global__ void scatter_add(const int *row_of, const float *gradient, int adds, float *table, int threshold) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < adds;
    const float value[1] = {active ? gradient[i] : 0};
    distwar::reduce<Strategy>(distwar::all_lanes, active, active ? row_of[i] : 0, value,
                              distwar::record<float>{table, 1}, threshold);
}

// ---- the tasks of docs/kernel.md ----

constexpr int N = 150;

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

// ---- tests ----

const cudaStream_t stream = nullptr;

std::vector<int> some_rows() {
    std::vector<int> rows;
    for (int i = 0; i < N; ++i) rows.push_back(i * i % 7);
    return rows;
}

// A thread for each of `threads` items; the kernels add to what `start` has.
template <typename T, typename... Given, typename... Arguments>
void expect_same(std::vector<T> start, int threads, void (*before)(Given...), void (*after)(Given...),
                 Arguments... arguments) {
    std::vector<T> found[2];
    int which = 0;
    for (const auto kernel : {before, after}) {
        const device_array<T> sums(start);
        run(blocks_for(threads, 64), 64, kernel, arguments..., sums.get());
        found[which++] = sums.download();
    }
    EXPECT_NE(found[0], start);
    EXPECT_EQ(found[0], found[1]);
}

TEST(Integrating, ALoopThatStopsEarlyAddsTheSame) {
    enum { PIXELS = 237, SPLATS = 40, PRIMITIVES = 15 };
    std::vector<splat> splats;
    for (int i = 0; i < SPLATS; ++i) splats.push_back({i * 7 % PRIMITIVES, i * 11 % 200, i * 11 % 200 + 60});
    const device_array<splat> list(splats);
    const frame image = {PIXELS, nullptr, nullptr};
    expect_same(std::vector<float>(12 * PRIMITIVES), PIXELS, loop_before, loop_after, list.get(), int(SPLATS),
                image);
}

TEST(Integrating, ManyChannelsGetTheirValues) {
    enum { CHANNELS = 37, P = 2 };
    const device_array<splat> list({{0, 0, 0}, {P, 3, 29}});
    std::vector<float> d_pixels;
    for (int i = 0; i < CHANNELS * 64; ++i) d_pixels.push_back(float(i * i % 17 * 2));
    const device_array<float> d_image(d_pixels);
    expect_same(std::vector<float>(3 * CHANNELS), 64, channels_before, channels_after, list.get(), 1,
                int(CHANNELS), 64, d_image.get());
}

TEST(Integrating, SeparateArraysGetTheirValues) {
    enum { P = 2 };
    const device_array<splat> list({{1, 0, 0}, {P, 0, 0}});
    float lanes = 0, sum = 0;
    for (int lane = 0; lane < 32; ++lane)
        if (lane % 3 != 0) lanes += 1, sum += float(lane);
    for (const auto kernel : {array_fields, own_sink}) {
        const device_array<float> color(std::vector<float>(9)), opacity(std::vector<float>(3)),
            mean2d(std::vector<float>(6)), conic(std::vector<float>(9));
        run(1, 32, kernel, list.get(), 1, color.get(), opacity.get(), mean2d.get(), conic.get());
        for (int k = 0; k < 3; ++k) {
            EXPECT_EQ(color.download()[3 * P + k], sum + float(k) * lanes);
            EXPECT_EQ(conic.download()[3 * P + k], sum + float(6 + k) * lanes);
            EXPECT_EQ(color.download()[k], 0);
            EXPECT_EQ(conic.download()[k], 0);
        }
        EXPECT_EQ(opacity.download()[P], sum + 3 * lanes);
        EXPECT_EQ(mean2d.download()[2 * P], sum + 4 * lanes);
        EXPECT_EQ(mean2d.download()[2 * P + 1], sum + 5 * lanes);
    }
}

TEST(Integrating, CornersGetTheSumsOfTheirCells) {
    enum { SAMPLES = 75, SIDE = 4 };
    std::vector<int3> cells;
    std::vector<float2> values;
    std::vector<float> expected(2 * SIDE * SIDE * SIDE);
    for (int i = 0; i < SAMPLES; ++i) {
        const int3 at = {i / 9 % 3, i / 20 % 3, i % 2};
        cells.push_back(at), values.push_back({float(i), 1});
        for (int corner = 0; corner < 8; ++corner) {
            float *const node =
                &expected[2 * (at.x + (corner & 1) +
                               SIDE * (at.y + (corner >> 1 & 1) + SIDE * (at.z + (corner >> 2))))];
            node[0] += float(i), node[1] += 1;
        }
    }
    const device_array<int3> cell_of(cells);
    const device_array<float2> value_of(values);
    const device_array<float> grid(std::vector<float>(expected.size()));
    run(blocks_for(SAMPLES, 32), 32, add_to_corners, cell_of.get(), value_of.get(), SAMPLES, SIDE,
        grid.get());
    EXPECT_EQ(grid.download(), expected);
}

TEST(Integrating, APartialMaskComesFromAVote) {
    const device_array<float> gradient(std::vector<float>(24));
    run(1, 32, partial_mask, gradient.get());
    float expected[2] = {0, 0};
    for (int lane = 0; lane < 32; ++lane)
        if (lane % 4 != 1 && lane % 3 != 0) expected[lane / 16] += float(lane);
    EXPECT_EQ(gradient.download()[0], expected[0]);
    EXPECT_EQ(gradient.download()[12], expected[1]);
}

TEST(Tasks, AfterDoesWhatBeforeDid) {
    const device_array<int> row_of(some_rows());
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
    const device_array<float3> value_of(values);
    const device_array<int> depth_of(depths), first(ends), source(sources);
    const device_array<float> rank(ranks);
    std::vector<item> items;
    for (int j = 0; j < 9; ++j) items.push_back({j % 4, j * 13});
    const device_array<item> list(items);
    expect_same(std::vector<float>(12), N, list_before, list_after, list.get(), N, float3{1, 2, 3});
    expect_same(std::vector<float>(21), N, scatter_before, scatter_after, row_of.get(), value_of.get(), N);
    expect_same(std::vector<float>(7), N, edges_before, edges_after, first.get(), source.get(), row_of.get(),
                rank.get(), 40, int(sources.size()));
    expect_same(std::vector<int>(7), N, counts_before, counts_after, row_of.get(), N);
    expect_same(std::vector<int>(7, 1000), N, smallest_before, smallest_after, row_of.get(), depth_of.get(),
                N);
}

TEST(Tasks, QueuesHoldTheSameItems) {
    const device_array<int> tile_of(some_rows());
    std::vector<std::set<int>> found[2];
    for (int after = 0; after < 2; ++after) {
        const device_array<int> items(std::vector<int>(7 * 50, -1));
        const device_array<unsigned> counts(std::vector<unsigned>(7));
        run(blocks_for(N, 64), 64, after ? queues_after : queues_before, tile_of.get(), N, items.get(),
            counts.get(), 50u);
        const std::vector<int> all = items.download();
        for (int tile = 0; tile < 7; ++tile)
            found[after].emplace_back(all.begin() + tile * 50,
                                      all.begin() + tile * 50 + int(counts.download()[tile]));
    }
    EXPECT_EQ(found[0], found[1]);
}

TEST(Tasks, PoolsHotWordsAndRows) {
    std::vector<unsigned> needs, wanted;
    unsigned used_before = 5;
    for (unsigned i = 0; i < 20; ++i)
        needs.push_back(i % 4), wanted.push_back(used_before), used_before += i % 4;
    const device_array<unsigned> need_of(needs), used({5}), begins(std::vector<unsigned>(20));
    run(1, 32, pool, need_of.get(), used.get(), begins.get());
    EXPECT_EQ(begins.download(), wanted);
    EXPECT_EQ(used.download()[0], used_before);

    const device_array<int> word_of(some_rows());
    const device_array<float> weight_of(std::vector<float>(N, 2)), sums(std::vector<float>(7)),
        by_host(std::vector<float>(7));
    run(2, 32, popular_words, word_of.get(), weight_of.get(), N, sums.get());
    const int *const index = word_of.get();
    const float *const source = weight_of.get();
    float *const out = by_host.get();
    const int count = N;
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
    EXPECT_EQ(sums.download(), by_host.download());
}

TEST(Tasks, AHistogramCountsItsKeys) {
    enum { ROWS = N, BINS = 7 };
    std::vector<unsigned> wanted(BINS, 0);
    for (const int row : some_rows()) ++wanted[size_t(row)];
    const device_array<int> bin_of(some_rows());
    const device_array<unsigned> counts(std::vector<unsigned>(BINS, 0));
    // [counts]
    const distwar::key_counts<int> given = {ROWS, BINS, bin_of.get(), counts.get()};
    const cudaError_t error = distwar::histogram(given, stream);
    // [end]
    ASSERT_EQ(error, cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(counts.download(), wanted);
}

TEST(Tasks, LanesPerKeyAreCounted) {
    std::vector<int> keys(64, 3);
    EXPECT_EQ(lanes_per_key(keys), 32);
    for (int i = 0; i < 64; ++i) keys[i] = i / 4;
    EXPECT_EQ(lanes_per_key(keys), 4);
}

TEST(Choosing, ATunerChoosesWhileTheProgramRuns) {
    const device_array<int> rows({0, 1, 1, 2, 1, 0, 1});
    const device_array<float> gradients({1, 2, 3, 4, 5, 6, 7}), sums(std::vector<float>(3));
    const int *const row_of = rows.get();
    const float *const gradient = gradients.get();
    float *const table = sums.get();
    const int adds = 7, blocks = 1, threads = 32, steps = 40;
    // [tune]
    const tune_candidate candidates[] = {{DISTWAR_TREE, 0}, // the first is used until more is known
                                         {DISTWAR_TREE, 8},
                                         {DISTWAR_TREE, 16},
                                         {DISTWAR_SERIAL, 16},
                                         {DISTWAR_ATOMIC, 33}};
    tuner choice;
    tune_events timer;
    tune_init(&choice, candidates, 5);
    tune_events_open(&timer);
    for (int step = 0; step < steps; ++step) {
        tune_launch next;
        tune_events_begin(&timer, &choice, stream, &next);
        distwar::with_strategy(distwar::strategy(next.strategy), [&](auto strategy) {
            launch(stream, blocks, threads, scatter_add<strategy>, row_of, gradient, adds, table,
                   next.threshold);
        });
        tune_events_end(&timer, &choice, stream, adds); // the time is about proportional to `adds`
    }
    tune_events_close(&timer);
    // [end]
    EXPECT_EQ(choice.launches, steps);
    EXPECT_GT(choice.measured, 0);
    EXPECT_EQ(sums.download(), (std::vector<float>{7 * steps, 17 * steps, 4 * steps}));
}

} // namespace
