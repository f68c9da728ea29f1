// SPDX-License-Identifier: MIT
// The code on docs/kernel.md and docs/reference.md, compiled and run. The page shows the lines between [name] and [end].
#include "shared_array.h"
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <vector>

namespace {

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

TEST(Integrating, ALoopThatStopsEarlyAddsTheSame) {
    enum { PIXELS = 237, SPLATS = 40, PRIMITIVES = 15, BLOCK = 64 };
    std::vector<splat> splats;
    for (int i = 0; i < SPLATS; ++i) splats.push_back({i * 7 % PRIMITIVES, i * 11 % 200, i * 11 % 200 + 60});
    const shared_array<splat> list(splats);
    const frame image = {PIXELS, nullptr, nullptr};
    const shared_array<float> before(std::vector<float>(12 * PRIMITIVES));
    ASSERT_EQ(launch(nullptr, blocks_for(PIXELS, BLOCK), BLOCK, loop_before, list.get(), SPLATS, image,
                     before.get()),
              cudaSuccess);
    EXPECT_GT(before.content()[12], 0);
    const shared_array<float> after(std::vector<float>(12 * PRIMITIVES));
    ASSERT_EQ(
        launch(nullptr, blocks_for(PIXELS, BLOCK), BLOCK, loop_after, list.get(), SPLATS, image, after.get()),
        cudaSuccess);
    EXPECT_EQ(after.content(), before.content());
}

TEST(Integrating, SeparateArraysGetTheirValues) {
    enum { P = 2 };
    const shared_array<splat> list({{1, 0, 0}, {P, 0, 0}});
    float lanes = 0, sum = 0;
    for (int lane = 0; lane < 32; ++lane)
        if (lane % 3 != 0) lanes += 1, sum += float(lane);
    for (const auto kernel : {array_fields, own_sink}) {
        const shared_array<float> color(std::vector<float>(9)), opacity(std::vector<float>(3)),
            mean2d(std::vector<float>(6)), conic(std::vector<float>(9));
        ASSERT_EQ(launch(nullptr, 1, 32, kernel, list.get(), 1, color.get(), opacity.get(), mean2d.get(),
                         conic.get()),
                  cudaSuccess);
        for (int k = 0; k < 3; ++k) {
            EXPECT_EQ(color.content()[3 * P + k], sum + float(k) * lanes);
            EXPECT_EQ(conic.content()[3 * P + k], sum + float(6 + k) * lanes);
            EXPECT_EQ(color.content()[k], 0);
            EXPECT_EQ(conic.content()[k], 0);
        }
        EXPECT_EQ(opacity.content()[P], sum + 3 * lanes);
        EXPECT_EQ(mean2d.content()[2 * P], sum + 4 * lanes);
        EXPECT_EQ(mean2d.content()[2 * P + 1], sum + 5 * lanes);
    }
}

TEST(Integrating, ManyChannelsGetTheirValues) {
    enum { CHANNELS = 37, P = 2 };
    const shared_array<splat> list({{0, 0, 0}, {P, 3, 29}});
    std::vector<float> d_pixels;
    for (int i = 0; i < CHANNELS * 32; ++i) d_pixels.push_back(float(i * i % 17 * 2));
    const shared_array<float> d_image(d_pixels), before(std::vector<float>(3 * CHANNELS));
    ASSERT_EQ(
        launch(nullptr, 1, 32, channels_before, list.get(), 1, CHANNELS, 32, d_image.get(), before.get()),
        cudaSuccess);
    EXPECT_GT(before.content()[P * CHANNELS], 0);
    const shared_array<float> after(std::vector<float>(3 * CHANNELS));
    ASSERT_EQ(launch(nullptr, 1, 32, channels_after, list.get(), 1, CHANNELS, 32, d_image.get(), after.get()),
              cudaSuccess);
    EXPECT_EQ(after.content(), before.content());
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
    const shared_array<int3> cell_of(cells);
    const shared_array<float2> value_of(values);
    const shared_array<float> grid(std::vector<float>(expected.size()));
    ASSERT_EQ(launch(nullptr, blocks_for(SAMPLES, 32), 32, add_to_corners, cell_of.get(), value_of.get(),
                     SAMPLES, SIDE, grid.get()),
              cudaSuccess);
    EXPECT_EQ(grid.content(), expected);
}

TEST(Integrating, APartialMaskComesFromAVote) {
    const shared_array<float> gradient(std::vector<float>(24));
    ASSERT_EQ(launch(nullptr, 1, 32, partial_mask, gradient.get()), cudaSuccess);
    float expected[2] = {0, 0};
    for (int lane = 0; lane < 32; ++lane)
        if (lane % 4 != 1 && lane % 3 != 0) expected[lane / 16] += float(lane);
    EXPECT_EQ(gradient.content()[0], expected[0]);
    EXPECT_EQ(gradient.content()[12], expected[1]);
}

} // namespace
